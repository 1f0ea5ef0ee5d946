"""The hand that holds a simulated figure: where it took hold, where it pulls, and how hard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.kinematics import PointTask
from marey.simulate import Mechanics, PointForce

ROOM_SIZE_M: Final = 100.0  # a hand is not farther from the middle of the room
MAX_PULL_N: Final = 1000.0  # of a hand: more would tear any body along
GOAL_WEIGHT: Final = 30.0  # [1/m²] of a point that the figure is to reach by itself


@dataclass(frozen=True, slots=True, eq=False)
class PullingHand:
    """A point of the figure, and where the mouse pulls it."""

    joint: int
    offset: FloatArray  # (3,) [m] in the joint's frame
    target: FloatArray  # (3,) [m] in world

    @classmethod
    def grab_at(cls, here: Mechanics, joint: int, place: ArrayLike) -> PullingHand:
        """Take hold of what a joint carries, at a place in world."""
        if not 0 <= joint < len(here.joints):
            raise InputError(f"there is no joint {joint}", f"There are {len(here.joints)}")
        point = clamp_position(place)
        return cls(joint, frozen(here.frames[joint].T @ (point - here.joints[joint]), 3, name="offset"), point)

    def to(self, place: ArrayLike) -> PullingHand:
        """The same hand, pulling somewhere else."""
        return replace(self, target=clamp_position(place))

    def place(self, here: Mechanics) -> FloatArray:
        """Where the point is now ``(3,)`` [m]."""
        return here.point(self.joint, self.offset)

    def goal(self, names: tuple[str, ...]) -> PointTask:
        """What the figure is to reach by itself."""
        return PointTask(names[self.joint], self.target, point=self.offset, weight=GOAL_WEIGHT)

    def force(self, here: Mechanics, velocity: FloatArray, dt: float, stiffness_n_m: float) -> FloatArray:
        r"""Pull ``(3,)`` [N] of a critically damped spring, taken at the end of the step: stable at any stiffness.

        .. math:: (I + (h^2 k + h c)\,J M^{-1} J^T)\,f = k(x^* - x) - (h k + c)\,J v
        """
        J = here.point_jacobian(self.joint, self.offset)
        mobility: FloatArray = J @ np.linalg.solve(here.inertia, J.T)
        mass = 3.0 / float(np.trace(mobility))
        damping = 2.0 * float(np.sqrt(stiffness_n_m * mass))
        pull = stiffness_n_m * (self.target - self.place(here)) - (dt * stiffness_n_m + damping) * (J @ velocity)
        matrix = np.eye(3) + (dt**2 * stiffness_n_m + dt * damping) * mobility
        force = np.asarray(np.linalg.solve(matrix, pull), dtype=np.float64)
        size = float(np.linalg.norm(force))
        return force if size <= MAX_PULL_N else force * (MAX_PULL_N / size)

    def pull(
        self, here: Mechanics, velocity: FloatArray, dt: float, stiffness_n_m: float, names: tuple[str, ...]
    ) -> PointForce:
        """The pull as a force on the figure."""
        return PointForce(names[self.joint], self.force(here, velocity, dt, stiffness_n_m), self.offset)


def clamp_position(place: ArrayLike) -> FloatArray:
    """A place ``(3,)`` [m]; a page may send anything.

    Raises:
        InputError: it is no place in the room.
    """
    point = np.asarray(place, dtype=np.float64)
    if point.shape != (3,) or not np.isfinite(point).all() or float(np.abs(point).max()) > ROOM_SIZE_M:
        raise InputError("the hand is not in the room", "Pull nearer")
    return frozen(point, 3, name="place")
