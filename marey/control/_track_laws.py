r"""Laws of tracking: what each part of a figure is asked to do in the next step.

All are laws for accelerations, :math:`v^+ = v + h\,(a^* + 2k(v^* - v) + k^2 e)`, critically damped, so that nothing is
asked that muscles and ground could not give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.control._features_feet import sole_of, sole_target
from marey.control._features_support import convex_hull
from marey.control._reference import SIDES, Reference, Soles
from marey.control._reference_com import LEVEL, Sway, nearest_inside
from marey.control._tasks import RowsTask
from marey.lie import SO3
from marey.simulate import Mechanics, Simulator

SOLE_ARM_M: Final = 0.1  # [m] a sole's turn counts as much as a shift by its half length
NEAR_M: Final = 0.003  # [m] corners that are lower bear the figure
EDGE_M: Final = 0.01  # [m] pressure is asked for no nearer to the edge of the soles
FLAT_M: Final = 0.02  # [m] a sole whose corners are all lower lies flat


Pace = tuple[float, float]  # length of a step [s], and how fast errors are taken back [1/s]


@dataclass(frozen=True, slots=True)
class TrackWeights:
    """How much the parts of a clip count against one another, and how fast errors are taken back."""

    com: float = 5e4  # of squared velocities of the centre of mass [s²/m²]
    momentum: float = 2e4  # of squared angular momenta per kilogram of the body
    root: float = 20.0  # of squared turns of the root
    pose: float = 1.0  # of squared turns of all joints
    swing: float = 3e3  # of a foot in the air
    stance: float = 100.0  # of a foot on the ground
    com_per_s: float = 8.0  # of the height of the centre of mass
    capture: float = 2.0  # [-] of the capture point, beyond what keeps it from running away
    momentum_per_s: float = 5.0
    root_per_s: float = 8.0
    pose_per_s: float = 10.0
    foot_per_s: float = 25.0
    step: float = 0.8  # [-] part of the expected error of the capture point by which a foot lands elsewhere
    longest_step_m: float = 0.3  # [m] that a foot lands elsewhere, at most

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")


@dataclass(frozen=True, slots=True, eq=False)
class Instant:
    """A figure at the beginning of a step, and the frame that it should be in."""

    simulator: Simulator
    here: Mechanics
    velocity: FloatArray  # (d,)
    reference: Reference
    sway: Sway
    frame: int
    soles: Soles
    weights: TrackWeights

    @property
    def dt(self) -> float:
        """Length of the step [s]."""
        return self.reference.dt

    @property
    def following(self) -> int:
        """The frame after this one; the last is followed by itself."""
        return min(self.frame + 1, len(self.reference) - 1)

    def com_velocity(self) -> FloatArray:
        """Velocity ``(3,)`` [m/s] of the centre of mass."""
        return self.here.com_jacobian @ self.velocity

    def capture_error(self) -> FloatArray:
        """How far ``(2,)`` [m] the capture point is from where it should be."""
        point = (self.here.com + self.com_velocity() / self.sway.frequency)[LEVEL]
        return point - self.sway.capture(self.frame)


def pulled(pace: Pace, now: FloatArray, wanted: FloatArray, then: FloatArray, error: FloatArray) -> FloatArray:
    """Velocity after a step, from the present one, the wanted one, that of the next frame, and the way to go."""
    h, per_s = pace
    return now + (then - wanted) + h * (2.0 * per_s * (wanted - now) + per_s**2 * error)


def com_rows(at: Instant) -> RowsTask:
    r"""The centre of mass, carried by the soles: :math:`\ddot c = \omega^2(c - p)`.

    The pivot moves with the capture point, :math:`p = p^* + (1 + k)(\xi - \xi^*)`, as far as the soles reach.
    """
    h, w, sway, i = at.dt, at.weights, at.sway, at.frame
    now, com = at.com_velocity(), at.here.com
    pivot = sway.pivot[i] + (1.0 + w.capture) * at.capture_error()
    hull = bearing_hull(at)
    if len(hull):
        pivot = nearest_inside(hull, pivot + sway.shift[i], EDGE_M) - sway.shift[i]
    wanted, then = sway.velocity[i], sway.velocity[at.following]
    target = pulled((h, w.com_per_s), now, wanted, then, sway.com[i] - com)
    target[LEVEL] = now[LEVEL] + h * sway.stiffness[i] * (com[LEVEL] - pivot)
    return RowsTask(at.here.com_jacobian, target, weight=w.com)


def bearing_hull(at: Instant) -> FloatArray:
    """Hull ``(h, 2)`` [m] of the corners that bear the figure: of feet that should, else of any."""
    corners = at.soles.places(at.here.joints, at.here.frames)
    low = corners[..., 1] < NEAR_M
    planned = low & at.reference.down[at.frame][:, None]
    bearing = planned if planned.any() else low
    return convex_hull(corners[bearing][:, LEVEL])


def momentum_rows(at: Instant) -> RowsTask:
    """Angular momentum of the clip, and what turns the whole body back to it."""
    w, mass, r = at.weights, at.simulator.body.mass_kg, at.reference
    matrix = at.here.momentum_matrix()[:3]
    wanted, then = r.momenta[at.frame], r.momenta[at.following]
    back = matrix[:, :3] @ _root_turn(at)
    target = pulled((at.dt, w.momentum_per_s), matrix @ at.velocity, wanted, then, back)
    return RowsTask(matrix / mass, target / mass, weight=w.momentum)


def root_rows(at: Instant) -> RowsTask:
    """The turn of the root."""
    d = at.velocity.size
    wanted, then = at.reference.velocities[at.frame, :3], at.reference.velocities[at.following, :3]
    target = pulled((at.dt, at.weights.root_per_s), at.velocity[:3], wanted, then, _root_turn(at))
    return RowsTask(np.eye(3, d), target, weight=at.weights.root)


def _root_turn(at: Instant) -> FloatArray:
    turned = SO3.from_matrix(at.here.frames[0])
    return (turned.inverse() @ at.reference.motion.rotations[at.frame, 0]).log()


def pose_rows(at: Instant, moving: IntArray) -> RowsTask:
    """Angles of the joints; ``moving`` are those that the coordinates turn."""
    r, state = at.reference, at.simulator.state
    turns = at.here.turns[moving].reshape(3 * len(moving), -1)
    matrix = np.concatenate([np.zeros((len(turns), 6)), turns], axis=1)
    error = (state.rotations[moving].inverse() @ r.motion.rotations[at.frame][moving]).log().ravel()
    wanted, then = r.rates[at.frame, moving].ravel(), r.rates[at.following, moving].ravel()
    target = pulled((at.dt, at.weights.pose_per_s), turns @ at.velocity[6:], wanted, then, error)
    return RowsTask(matrix, target, weight=at.weights.pose)


def foot_rows(at: Instant, side: int, anchor: FloatArray | None, offset: FloatArray) -> RowsTask:
    """A foot that stands at its anchor, or swings to where the clip, and balance, want it.

    Args:
        at: now.
        side: 0 left, 1 right.
        anchor: place of the sole ``(3,)`` [m]; None for a foot that rolls or is in the air.
        offset: from the place that the clip has for it ``(3,)`` [m].
    """
    w, r, h, here = at.weights, at.reference, at.dt, at.here
    joint, middle, sole = sole_of(at.simulator.body.skeleton, SIDES[side])
    jacobian, turning = here.point_jacobian(joint, middle), here.frames[joint].T @ here.angular[joint]
    place, now, spin = here.point(joint, middle), jacobian @ at.velocity, turning @ at.velocity
    frame, still = SO3.from_matrix(here.frames[joint]), np.zeros(3)
    if anchor is not None:
        shift = pulled((h, w.foot_per_s), now, still, still, anchor - place)
        flat = SO3.from_matrix(sole_target(here.frames[joint] @ sole, np.array([0.0, 1.0, 0.0]), None) @ sole.T)
        turn = pulled((h, w.foot_per_s), spin, still, still, (frame.inverse() @ flat).log())
    else:
        i, j = (at.frame, side), (at.following, side)
        away = r.soles[i] + offset - place
        shift = pulled((h, w.foot_per_s), now, r.sole_rates[i], r.sole_rates[j], away)
        aim = (frame.inverse() @ SO3(r.foot_turns[i])).log()
        turn = pulled((h, w.foot_per_s), spin, r.foot_rates[i], r.foot_rates[j], aim)
    matrix = np.concatenate([jacobian, SOLE_ARM_M * turning])
    target = np.concatenate([shift, SOLE_ARM_M * turn])
    return RowsTask(matrix, target, weight=w.swing if anchor is None else w.stance)


def step_offset(at: Instant, to_landing_s: float) -> FloatArray:
    r"""How far from the clip ``(3,)`` [m] a foot shall land: :math:`(\xi - \xi^*)\,e^{\omega T}`, in part."""
    grown = at.weights.step * at.capture_error() * np.exp(at.sway.frequency * to_landing_s)
    size = float(np.linalg.norm(grown))
    x, z = grown * min(1.0, at.weights.longest_step_m / max(size, 1e-9))
    return np.array([x, 0.0, z])


def is_flat(corners: FloatArray, down: BoolArray) -> BoolArray:
    """Feet ``(F, 2)`` that are down with all corners ``(F, 2, 5, 3)``."""
    return down & (corners[:, :, :4, 1] < FLAT_M).all(axis=-1)
