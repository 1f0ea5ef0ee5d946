r"""Laws of tracking: what each part of a figure is asked to do in the next step.

All are laws for accelerations, :math:`v^+ = v + h\,(a^* + 2k(v^* - v) + k^2 e)`, critically damped, so that nothing is
asked that muscles and ground could not give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.control._features_support import convex_hull
from marey.control._reference import Reference
from marey.control._reference_com import HORIZONTAL_AXES, CentreOfMassPath, project_into_hull
from marey.control._steps import Footsteps
from marey.control._tasks import RowsTask
from marey.lie import SO3
from marey.simulate import Mechanics, Simulator

NEAR_M: Final = 0.003  # [m] corners that are lower bear the figure
EDGE_M: Final = 0.01  # [m] pressure is asked for no nearer to the edge of the soles


VelocityGains = tuple[float, float]  # length of a step [s], and how fast errors are taken back [1/s]


@dataclass(frozen=True, slots=True)
class TrackWeights:
    """How much the parts of a clip count against one another, and how fast errors are taken back."""

    com: float = 5e4  # of squared velocities of the centre of mass [s²/m²]
    momentum: float = 2e4  # of squared angular momenta per kilogram of the body
    root: float = 20.0  # of squared turns of the root
    pose: float = 1.0  # of squared turns of all joints
    swing: float = 3e3  # of a foot in the air
    stance: float = 3e3  # of the edge of a foot that bears the figure
    roll: float = 30.0  # of squared turns of a foot on the ground
    com_per_s: float = 8.0  # of the height of the centre of mass
    capture: float = 2.0  # [-] of the capture point, beyond what keeps it from running away
    momentum_per_s: float = 5.0
    root_per_s: float = 8.0
    pose_per_s: float = 10.0
    foot_per_s: float = 25.0
    step: float = 1.0  # [-] part of the expected error of the capture point by which a foot lands elsewhere
    longest_step_m: float = 0.4  # [m] that a foot lands elsewhere, at most

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")


@dataclass(frozen=True, slots=True, eq=False)
class TrackingStep:
    """A figure at the beginning of a step, and the frame that it should be in."""

    simulator: Simulator
    here: Mechanics
    velocity: FloatArray  # (d,)
    reference: Reference
    sway: CentreOfMassPath
    step: int  # since the beginning; the clip may be shorter
    steps: Footsteps
    points: FloatArray  # (2, 5, 3) [m] corners of the soles, and toes
    weights: TrackWeights

    @property
    def frame(self) -> int:
        """Frame of the clip; after its end the last."""
        return min(self.step, len(self.reference) - 1)

    @property
    def dt(self) -> float:
        """Length of the step [s]."""
        return self.reference.dt

    @property
    def following(self) -> int:
        """The frame after this one; the last is followed by itself."""
        return min(self.frame + 1, len(self.reference) - 1)

    @property
    def is_over(self) -> bool:
        """Whether the clip has come to its end, whose pose is held from then on."""
        return self.step >= len(self.reference) - 1

    def rates(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Velocities of this frame and of the next, from ``values (F, ...)``; none after the end."""
        now, then = values[self.frame], values[self.following]
        return (np.zeros_like(now), np.zeros_like(now)) if self.is_over else (now, then)

    def com_velocity(self) -> FloatArray:
        """Velocity ``(3,)`` [m/s] of the centre of mass."""
        return self.here.com_jacobian @ self.velocity

    def capture_point(self) -> FloatArray:
        """Where ``(2,)`` [m] a stop would need support."""
        return (self.here.com + self.com_velocity() / self.sway.frequency)[HORIZONTAL_AXES]

    def capture_error(self) -> FloatArray:
        """How far ``(2,)`` [m] the capture point is from where it should be."""
        wanted = self.rest() if self.is_over else self.sway.capture(self.frame)
        return self.capture_point() - wanted - self.steps.offset

    def rest(self) -> FloatArray:
        """Place ``(2,)`` [m] between the feet of the clip, where somebody who stands still is safe."""
        return self.reference.soles[self.frame][:, HORIZONTAL_AXES].mean(axis=0)

    def pivot(self) -> FloatArray:
        """Where ``(2,)`` [m] the ground shall carry the centre of mass, before the soles have their say."""
        pivot = self.rest() if self.is_over else self.sway.pivot[self.frame]
        return pivot + self.steps.offset + (1.0 + self.weights.capture) * self.capture_error()

    def target_com(self) -> FloatArray:
        """Place ``(3,)`` [m] of the centre of mass that the clip asks for, moved as the feet are."""
        x, y, z = self.sway.com[self.frame]
        i, floor = self.frame, self.steps.floor
        return np.array([x, y + floor.height(self.sway.pivot[i] + self.steps.offset), z]) + np.insert(
            self.steps.offset, 1, 0.0
        )


def correct_velocity(
    pace: VelocityGains, now: FloatArray, wanted: FloatArray, then: FloatArray, error: FloatArray
) -> FloatArray:
    """Velocity after a step, from the present one, the wanted one, that of the next frame, and the way to go."""
    h, per_s = pace
    return now + (then - wanted) + h * (2.0 * per_s * (wanted - now) + per_s**2 * error)


def com_rows(at: TrackingStep) -> RowsTask:
    r"""The centre of mass, carried by the soles: :math:`\ddot c = \omega^2(c - p)`.

    The pivot moves with the capture point, :math:`p = p^* + (1 + k)(\xi - \xi^*)`, as far as the soles reach.
    """
    h, w, sway, i = at.dt, at.weights, at.sway, at.frame
    now, com, pivot = at.com_velocity(), at.here.com, at.pivot()
    hull = bearing_hull(at)
    if len(hull):
        pivot = project_into_hull(hull, pivot + sway.shift[i], EDGE_M) - sway.shift[i]
    rise = at.steps.floor.rise(pivot)
    wanted, then = (np.array([v[0], v[1] + rise @ v[HORIZONTAL_AXES], v[2]]) for v in at.rates(sway.velocity))
    target = correct_velocity((h, w.com_per_s), now, wanted, then, at.target_com() - com)
    target[HORIZONTAL_AXES] = now[HORIZONTAL_AXES] + h * sway.stiffness[i] * (com[HORIZONTAL_AXES] - pivot)
    return RowsTask(at.here.com_jacobian, target, weight=w.com)


def bearing_hull(at: TrackingStep) -> FloatArray:
    """Hull ``(h, 2)`` [m] of the corners that bear the figure: of feet that stand, else of any."""
    low = at.steps.floor.gaps(at.points) < NEAR_M
    planned = low & np.array([[foot.is_down] for foot in at.steps.feet])
    bearing = planned if planned.any() else low
    return convex_hull(at.points[bearing][:, HORIZONTAL_AXES])


def momentum_rows(at: TrackingStep) -> RowsTask:
    """Angular momentum of the clip, and what turns the whole body back to it."""
    w, mass, r = at.weights, at.simulator.body.mass_kg, at.reference
    matrix = at.here.momentum_matrix()[:3]
    wanted, then = at.rates(r.momenta)
    back = matrix[:, :3] @ _root_rotation_error(at)
    target = correct_velocity((at.dt, w.momentum_per_s), matrix @ at.velocity, wanted, then, back)
    return RowsTask(matrix / mass, target / mass, weight=w.momentum)


def root_rows(at: TrackingStep) -> RowsTask:
    """The turn of the root."""
    d = at.velocity.size
    wanted, then = at.rates(at.reference.velocities[:, :3])
    target = correct_velocity((at.dt, at.weights.root_per_s), at.velocity[:3], wanted, then, _root_rotation_error(at))
    return RowsTask(np.eye(3, d), target, weight=at.weights.root)


def _root_rotation_error(at: TrackingStep) -> FloatArray:
    turned = SO3.from_matrix(at.here.frames[0])
    return (turned.inverse() @ at.reference.motion.rotations[at.frame, 0]).log()


def pose_rows(at: TrackingStep, moving: IntArray) -> RowsTask:
    """Angles of the joints; ``moving`` are those that the coordinates turn."""
    r, state = at.reference, at.simulator.state
    turns = at.here.turns[moving].reshape(3 * len(moving), -1)
    matrix = np.concatenate([np.zeros((len(turns), 6)), turns], axis=1)
    error = (state.rotations[moving].inverse() @ r.motion.rotations[at.frame][moving]).log().ravel()
    wanted, then = at.rates(r.rates)
    pace, now = (at.dt, at.weights.pose_per_s), turns @ at.velocity[6:]
    target = correct_velocity(pace, now, wanted[moving].ravel(), then[moving].ravel(), error)
    return RowsTask(matrix, target, weight=at.weights.pose)
