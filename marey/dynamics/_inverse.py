"""Inverse dynamics: the forces and torques that a motion needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, frozen
from marey.dynamics._body import GRAVITY, Body
from marey.dynamics._inverse_states import MotionStates, compute_states
from marey.dynamics._states import gravity_vector
from marey.motion import Contacts, Motion

CUTOFF_HZ: Final = 6.0  # [Winter2009]_ for walking; nearest to measured ground forces, and to no force in flight
EDGE_PERIODS: Final = 0.3  # of the cutoff: frames nearer than this to an end know one side of their acceleration only


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InverseDynamics:
    """Forces, torques and momenta of F frames.

    Wrenches are (force, moment), force first, as in [Fang2003]_; twists and wrenches of ``marey.lie`` have the turning
    part first. The wrench is what the world must supply: gravity is already counted.
    """

    body: Body
    rate_hz: float
    states: MotionStates  # the smoothed motion that all the rest belongs to
    wrench: FloatArray  # (F, 6) [N, N m] force and moment about the world origin, world axes
    torques: FloatArray  # (F, J, 3) [N m] on each joint by its parent, in the joint's frame
    com: FloatArray  # (F, 3) [m]
    com_velocity: FloatArray  # (F, 3) [m/s]
    com_acceleration: FloatArray  # (F, 3) [m/s²]
    angular_momentum: FloatArray  # (F, 3) [kg m²/s] about the centre of mass
    kinetic_energy: FloatArray  # (F,) [J]
    gravity: float = GRAVITY
    cutoff_hz: float | None = None  # of the low-pass that the states went through

    def __post_init__(self) -> None:
        for name in ("wrench", "torques", "com", "com_velocity", "com_acceleration", "angular_momentum"):
            getattr(self, name).setflags(write=False)
        self.kinetic_energy.setflags(write=False)

    @property
    def times(self) -> FloatArray:
        """Time of each frame [s], from zero."""
        return np.arange(len(self.wrench)) / self.rate_hz

    @property
    def num_frames(self) -> int:
        """How many frames there are."""
        return len(self.wrench)

    @property
    def settled(self) -> BoolArray:
        """Frames ``(F,)`` far enough from the ends of the clip, 0.3 periods of the cutoff, to trust their forces.

        Where a clip is cut, the vertical force of the outermost frames changes by 0.19 of body weight (root mean
        square over 8 walks and jumps), of frames further in than this by less than 0.04.
        """
        edge = 0 if self.cutoff_hz is None else round(EDGE_PERIODS * self.rate_hz / self.cutoff_hz)
        inside = np.arange(self.num_frames)
        return (inside >= edge) & (inside < self.num_frames - edge)

    @property
    def forces(self) -> FloatArray:
        """Force ``(F, 3)`` [N] that the world must supply."""
        return self.wrench[:, :3]

    @property
    def moments(self) -> FloatArray:
        """Moment ``(F, 3)`` [N m] about the centre of mass that the world must supply: the rate of the momentum."""
        return self.wrench[:, 3:] - np.cross(self.com, self.forces)

    @property
    def linear_momentum(self) -> FloatArray:
        """Linear momentum ``(F, 3)`` [kg m/s]."""
        return self.body.mass_kg * self.com_velocity

    @property
    def potential_energy(self) -> FloatArray:
        """Potential energy ``(F,)`` [J], zero at height zero."""
        return self.body.mass_kg * self.gravity * self.com[:, 1]

    @property
    def vertical_force(self) -> FloatArray:
        """Upward force over body weight ``(F,)``."""
        return self.wrench[:, 1] / self.body.weight_n

    def motion(self) -> Motion:
        """Return the smoothed clip that these forces belong to, on the body's skeleton."""
        return Motion(self.body.skeleton, self.rate_hz, self.states.root_positions, self.states.rotations)

    def __repr__(self) -> str:
        return f"InverseDynamics({self.body!r}, {self.num_frames} frames, {self.rate_hz:g} Hz)"


def solve_inverse_dynamics(
    body: Body,
    motion: Motion,
    *,
    cutoff_hz: float | None = CUTOFF_HZ,
    contacts: Contacts | None = None,
    external: FloatArray | None = None,
    gravity: float = GRAVITY,
) -> InverseDynamics:
    """Forces and torques that a clip needs, every frame at once (Newton-Euler on ball joints).

    Everything that the world supplies acts on the root, so the wrench is right and the torques on the way from the
    root to a foot on the ground are not: give ``contacts``, or the forces themselves, to have those.

    Args:
        body: made by ``Body.from_motion(motion)``.
        motion: at least three frames, with the joints of the body.
        cutoff_hz: low-pass before differentiating, see ``smooth``; capped at 0.4 of the frame rate. ``None`` for
            motions that are smooth already.
        contacts: which points of the feet touch the ground; the wrench then acts on those feet, and the torques of
            the legs are true.
        external: ``(F, J, 6)`` force [N] and moment about the world origin [N m] that act on the piece of each joint;
            the wrench is what they leave to be supplied at the root.
        gravity: [m/s²] along -Y.

    Raises:
        InputError: fewer than three frames, other joints than the body's, arrays of the wrong shape, a gravity or
            forces that are not finite, both contacts and external forces, or body and motion in the wrong order.
    """
    check_argument_types("inverse_dynamics", body=body, motion=motion)
    if contacts is not None and external is not None:
        raise InputError("both contacts and external forces", "Give one: contacts stand for the ground's forces")
    motion = body.motion(motion)
    cutoff = None if cutoff_hz is None else min(cutoff_hz, 0.4 * motion.rate_hz)
    result = solve_newton_euler(
        body, compute_states(motion, cutoff), motion.rate_hz, external=external, gravity=gravity
    )
    result = replace(result, cutoff_hz=cutoff)
    if contacts is None:
        return result
    from marey.dynamics._inverse_ground import apply_ground_reaction

    return apply_ground_reaction(result, contacts)


def solve_newton_euler(
    body: Body,
    given: MotionStates,
    rate_hz: float = 1.0,
    *,
    external: FloatArray | None = None,
    gravity: float = GRAVITY,
) -> InverseDynamics:
    """As :func:`inverse_dynamics` for positions, rates and accelerations that are known."""
    from marey.dynamics._inverse_kernels import newton_euler_clip as run

    frames, joints = given.rotations.shape
    if joints != body.skeleton.num_joints:
        raise InputError(f"the states have {joints} joints, the body {body.skeleton.num_joints}")
    pushed = 0 if external is None else frames
    push = frozen(np.zeros((0, joints, 6)) if external is None else external, pushed, joints, 6, name="external")
    roots = np.stack([given.root_positions, given.root_velocities, given.root_accelerations], axis=1)
    torques, wrench, sums = run(
        body.skeleton.parents,
        body.skeleton.offsets,
        body.masses,
        body.centres,
        body.inertias,
        roots.reshape(-1, 3),
        given.rotations.wxyz.reshape(-1, 4),
        given.rates.reshape(-1, 3),
        given.rate_changes.reshape(-1, 3),
        push.reshape(-1, 6),
        -float(gravity_vector(gravity)[1]),
    )
    _check_finite(torques.reshape(frames, -1), wrench.reshape(frames, -1), sums)
    mass = body.mass_kg
    com, velocity, acceleration = (sums[:, k : k + 3] / mass for k in (0, 3, 6))
    return InverseDynamics(
        body=body,
        rate_hz=rate_hz,
        states=given,
        wrench=wrench.reshape(frames, 6),
        torques=torques.reshape(frames, joints, 3),
        com=com,
        com_velocity=velocity,
        com_acceleration=acceleration,
        angular_momentum=sums[:, 9:12] - mass * np.cross(com, velocity),
        kinetic_energy=sums[:, 12],
        gravity=float(gravity),
    )


def check_argument_types(function: str, **given: object) -> None:
    """Say so when a body and a motion are mixed up: ``validity`` takes the motion first, others the body."""
    wanted = {"body": Body, "motion": Motion}
    if not all(isinstance(value, wanted[name]) for name, value in given.items()):
        kinds = ", ".join(type(value).__name__ for value in given.values())
        raise InputError(f"{function} of {kinds}", f"Give a {', then a '.join(wanted[n].__name__ for n in given)}")


def _check_finite(*results: FloatArray) -> None:
    """Refuse forces ``(F, n)`` that are beyond numbers, as those of coordinates that are no metres."""
    bad = np.any([~np.isfinite(values).all(axis=1) for values in results], axis=0)
    if bad.any():
        raise InputError(f"the forces overflow at frame {int(np.argmax(bad))}", "Check units, rate and coordinates")
