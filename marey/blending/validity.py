"""Physics of blends: checks of a blended phase, the report on a blend, and a prediction before blending.

Checks cover flights, planted feet, balance, friction and pressure; the report covers reach, gravity and jumps of
velocity; the prediction says which pairs of phases may be blended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, Result, frozen
from marey.blending.phases import MotionPhase, blend_duration, blend_velocity
from marey.blending.sources import UP
from marey.contacts import feet_down
from marey.dynamics import GRAVITY, Body, compute_momentum, smooth_values
from marey.lie import SO3
from marey.motion import Motion, contact_positions
from marey.numerics import convex_hull
from marey.skeleton import contact_points

SPIN_TOL: Final = 1.0  # [rad/s] a change of spin that is seen
FORCE_HZ: Final = 8.0  # [Hz] cutoff before accelerations are taken
NATURAL_FALL_MPS2: Final = (-12.7, -9.0)  # [m/s²] error of gravity below the threshold of perception ([Reitsma2003]_)


@dataclass(frozen=True, slots=True)
class FlightCheck:
    """Acceleration and angular momentum of a flight."""

    gravity: float  # [m/s²] of the parabola fitted to the centre of mass: -9.81 in free fall
    horizontal: float  # [m/s²] level acceleration: 0 in free fall
    line_deviation_m: float  # farthest that the path over the ground is from a straight line
    momentum_drift: float  # [-] largest change of angular momentum over its mean size
    spin_drift: float  # [rad/s] the same as a change of spin of the whole body

    @property
    def is_natural(self) -> bool:
        """Whether neither the fall nor the spin looks wrong."""
        return NATURAL_FALL_MPS2[0] <= self.gravity <= NATURAL_FALL_MPS2[1] and self.spin_drift <= SPIN_TOL


def check_flight(motion: Motion, body: Body | None = None) -> FlightCheck:
    r"""Fit a parabola to the centre of mass, and follow the angular momentum.

    .. math:: \Delta\Omega = \max_t \|I(t)^{-1}(H(t) - \bar H)\|

    [Safonova2006]_ §5.2.

    Args:
        motion: a flight, at least five frames.
        body: of the motion by default.
    """
    if motion.num_frames < 5:
        raise InputError(f"a flight of {motion.num_frames} frames", "Give at least five")
    body = Body.from_motion(motion) if body is None else body
    centres = body.centre_of_mass(motion)
    # Parabola of the centre of mass by least squares, with time from the middle of the flight
    t = np.linspace(-1.0, 1.0, len(centres)) * 0.5 * motion.duration_s
    basis = np.stack([np.ones_like(t), t, 0.5 * t * t], axis=1)
    fit = np.linalg.lstsq(basis, centres, rcond=None)[0]
    # The path over the ground against its principal line
    level = centres[:, [0, 2]] - centres[:, [0, 2]].mean(axis=0)
    across = np.linalg.svd(level)[2][1]
    # Angular momentum against its mean, as a spin of the whole body
    H = compute_momentum(body, motion, cutoff_hz=None)[:, 3:]
    off = H - H.mean(axis=0)
    spins = np.asarray(np.linalg.solve(whole_body_inertia(body, motion), off[..., None]), dtype=np.float64)[..., 0]
    return FlightCheck(
        gravity=float(fit[2, 1]),
        horizontal=float(np.hypot(fit[2, 0], fit[2, 2])),
        line_deviation_m=float(np.abs(level @ across).max()),
        momentum_drift=float(np.linalg.norm(off, axis=1).max() / max(float(np.linalg.norm(H.mean(axis=0))), 1e-9)),
        spin_drift=float(np.linalg.norm(spins, axis=1).max()),
    )


def whole_body_inertia(body: Body, motion: Motion) -> FloatArray:
    """Inertia ``(F, 3, 3)`` [kg m²] of the whole body about its centre of mass, in world axes."""
    positions, frames = body.motion(motion).joint_frames()
    R = frames.matrix()
    centre = body.centre_of_mass(motion)
    r = positions + frames @ body.centres - centre[:, None]
    own = R @ body.inertias @ np.swapaxes(R, -1, -2)
    square = (r * r).sum(axis=-1)[..., None, None] * np.eye(3) - r[..., :, None] * r[..., None, :]
    return own.sum(axis=1) + np.einsum("j,fjab->fab", body.masses, square)


@dataclass(frozen=True, slots=True)
class ContactCheck:
    """Positions and loads of planted feet."""

    slide_mm: float  # farthest that the ball of a planted foot is, over the ground, from its mean place
    sink_mm: float  # farthest that a heel or ball of a planted foot is below the floor
    balance_m: float  # least margin of the centre of mass inside the polygon of the soles; negative is outside
    friction: float  # [-] largest ratio of level to vertical force that the blend needs


def check_contact(motion: Motion, body: Body | None = None, *, floor_m: float = 0.0) -> ContactCheck:
    """Measure planted feet, balance and friction of a phase with feet on the ground ([Safonova2006]_ §5.3).

    The last frame is the first of the next phase and is left out.

    Args:
        motion: a phase with a contact track, at least four frames.
        body: of the motion by default.
        floor_m: height of the floor [m].

    Raises:
        InputError: no contact track, or no foot is planted.
    """
    if motion.num_frames < 4 or motion.contacts is None or not feet_down(motion.contacts)[:-1].any():
        fix = "Give a phase of four frames or more with a contact track, as blend_phase returns it"
        raise InputError("no foot is planted", fix)
    body = Body.from_motion(motion) if body is None else body
    down = dict(zip(("left", "right"), feet_down(motion.contacts)[:-1].T, strict=True))
    motion = motion[:-1]
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    slides, sinks, corners = [0.0], [0.0], [np.zeros((0, 2))]
    for side, planted in down.items():
        ball, heel = (points[planted, names.index(f"{side}_{part}")] for part in ("toe", "heel"))
        if len(ball):
            middle = ball[:, [0, 2]].mean(axis=0)
            slides.append(float(np.hypot(*(ball[:, [0, 2]] - middle).T).max()))
            sinks.append(float(floor_m - min(ball[:, 1].min(), heel[:, 1].min())))
            corners.append(np.stack([ball[:, [0, 2]].mean(axis=0), heel[:, [0, 2]].mean(axis=0)]))
    centres = body.centre_of_mass(motion)
    force = np.diff(smooth_values(centres, motion.rate_hz, FORCE_HZ), 2, axis=0) * motion.rate_hz**2 + [
        0.0,
        GRAVITY,
        0.0,
    ]
    # Friction that the blend needs, and the margin of balance inside the soles
    ratio = np.hypot(force[:, 0], force[:, 2]) / np.maximum(force[:, 1], 1e-9)
    polygon = np.concatenate(corners)
    margin = min(polygon_margin(c, polygon) for c in centres[:, [0, 2]])
    return ContactCheck(1000.0 * max(slides), 1000.0 * max(sinks), margin, float(ratio.max()))


def polygon_margin(point: FloatArray, corners: FloatArray) -> float:
    """Distance [m] of a point to the edge of the convex hull of corners ``(n, 2)``; negative outside.

    The hull of one point or of a line has no inside.
    """
    p, c = frozen(point, 2, name="point"), frozen(corners, None, 2, name="corners")
    hull = convex_hull(c)
    if len(hull) < 3:
        return -_segment_distance(p, hull)
    nxt = np.roll(hull, -1, axis=0)
    edge = nxt - hull
    side = (edge[:, 0] * (p[1] - hull[:, 1]) - edge[:, 1] * (p[0] - hull[:, 0])) / np.linalg.norm(edge, axis=1)
    if side.min() >= 0.0:
        return float(side.min())
    return -min(_segment_distance(p, np.stack([a, b])) for a, b in zip(hull, nxt, strict=True))


def _segment_distance(p: FloatArray, ends: FloatArray) -> float:
    a, b = ends[0], ends[-1]
    along = b - a
    square = float(along @ along)
    t = float(np.clip((p - a) @ along / square, 0.0, 1.0)) if square > 0.0 else 0.0
    return float(np.linalg.norm(p - a - t * along))


REACH_TOL_M: Final = 0.01  # [m] a centre of mass farther off than this is out of reach of the legs
LEVEL_JUMP_MPS: Final = 0.5  # [m/s] jumps of the level velocity are seen from here on ([Reitsma2003]_)
UPWARD_JUMP_MPS: Final = 1.0  # [m/s] vertical ones are harder to see


@dataclass(frozen=True, slots=True)
class PhaseCheck:
    """One phase of a blend."""

    kind: str
    duration_s: float
    unreachable_m: float  # farthest that the centre of mass is from the blended one, because legs are too short

    @classmethod
    def from_residuals(cls, kind: str, duration_s: float, com_off_m: FloatArray) -> PhaseCheck:
        """Gather what the search for the root left."""
        return cls(kind, duration_s, float(com_off_m.max(initial=0.0)))

    @property
    def is_reachable(self) -> bool:
        """Whether legs are long enough, to a centimetre."""
        return self.unreachable_m <= REACH_TOL_M


@dataclass(frozen=True, slots=True, eq=False)
class BoundaryCheck:
    """The border of two phases of a blend."""

    velocity_jump: FloatArray  # (3,) [m/s] of the centre of mass

    @classmethod
    def between(
        cls,
        before: Sequence[MotionPhase],
        before_s: float,
        after: Sequence[MotionPhase],
        after_s: float,
        weights: FloatArray,
        body: Body,
    ) -> BoundaryCheck:
        """Compare the blended velocity at the end of one phase with that at the start of the next."""
        # Blended velocities on both sides of the border, by the law of blend_velocity
        leave = np.stack([end_velocity(p, body, -1) for p in before])
        arrive = np.stack([end_velocity(p, body, 0) for p in after])
        spans = [np.array([p.duration_s for p in phases]) for phases in (before, after)]
        jump = blend_velocity(arrive, spans[1], weights, after_s) - blend_velocity(leave, spans[0], weights, before_s)
        jump.setflags(write=False)
        return cls(jump)

    @property
    def is_smooth(self) -> bool:
        """Whether the jump is below what is seen: 0.5 m/s level, 1 m/s vertical."""
        level = float(np.hypot(self.velocity_jump[0], self.velocity_jump[2]))
        return level <= LEVEL_JUMP_MPS and abs(float(self.velocity_jump[1])) <= UPWARD_JUMP_MPS


@dataclass(frozen=True, slots=True, repr=False)
class BlendReport(Result):
    """All phases and borders of a blend."""

    phases: tuple[PhaseCheck, ...]
    boundaries: tuple[BoundaryCheck, ...]

    @property
    def is_valid(self) -> bool:
        """Whether all phases are in reach and no border jumps visibly."""
        return all(p.is_reachable for p in self.phases) and all(b.is_smooth for b in self.boundaries)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, one sentence each."""
        found = [
            f"phase {i} ({p.kind}): the centre of mass is {100 * p.unreachable_m:.1f} cm out of reach of the legs"
            for i, p in enumerate(self.phases)
            if not p.is_reachable
        ]
        for i, b in enumerate(self.boundaries):
            if not b.is_smooth:
                level, up = float(np.hypot(b.velocity_jump[0], b.velocity_jump[2])), float(b.velocity_jump[1])
                found.append(
                    f"before phase {i + 1} the velocity jumps by {level:.2f} m/s level and {up:+.2f} m/s upwards"
                )
        return tuple(found)


def end_velocity(phase: MotionPhase, body: Body, end: int) -> FloatArray:
    """Velocity ``(3,)`` [m/s] of the centre of mass at the first (0) or last (-1) frame, by a parabola."""
    frames = phase.motion[:3] if end == 0 else phase.motion[-3:]
    a, b, c = body.centre_of_mass(body.motion(frames))
    rate = phase.motion.rate_hz
    return rate * ((-3.0 * a + 4.0 * b - c) if end == 0 else (3.0 * c - 4.0 * b + a)) / 2.0


@dataclass(frozen=True, slots=True)
class PredictionSettings:
    """From which differences on a blend of two phases looks wrong."""

    turn_rad: float = float(np.deg2rad(30.0))  # turns in flight that differ by less blend well
    tilt_rad: float = float(np.deg2rad(30.0))  # a body that tilts by less does not visibly rotate
    axis_rad: float = float(np.deg2rad(20.0))  # axes of two tumbles nearer than this are the same
    max_tilt_ratio: float = 0.3  # [-] and their angles may differ by this part
    max_duration_ratio: float = 3.0  # [-] of durations: beyond it even the blended squares look wrong


@dataclass(frozen=True, slots=True)
class BlendPrediction:
    """Whether a pair may be blended, and why not."""

    is_valid: bool
    reasons: tuple[str, ...] = ()


def predict_validity(
    first: MotionPhase,
    second: MotionPhase,
    weight: float = 0.5,
    body: Body | None = None,
    *,
    settings: PredictionSettings | None = None,
) -> BlendPrediction:
    """Tell whether a blend will look right, from the sources alone ([Safonova2006]_ §5.5).

    Safe are phases without flight, flights without visible rotation, and flights that rotate about the same axis by
    about the same amount. Turns about the vertical may differ if the landing is so steep that realigning leaves no
    visible jump of velocity.

    Args:
        first: a phase.
        second: another of the same skeleton.
        weight: of the first.
        body: of the first by default.
        settings: from which differences on a blend looks wrong.
    """
    limits = PredictionSettings() if settings is None else settings
    if first.planted != second.planted:
        return BlendPrediction(False, (f"other contacts: {first.planted} and {second.planted}",))
    reasons: list[str] = []
    ratio = max(first.duration_s, second.duration_s) / min(first.duration_s, second.duration_s)
    if ratio > limits.max_duration_ratio:
        reasons.append(f"one lasts {ratio:.1f} times as long as the other")
    if first.kind == "flight":
        body = Body.from_motion(first.motion) if body is None else body
        turns = [measure_flight_turn(phase) for phase in (first, second)]
        apart = abs(turns[0] - turns[1])
        if apart > limits.turn_rad:
            jump = predict_landing_jump((first, second), np.array(turns), np.array([weight, 1.0 - weight]), body)
            if jump > LEVEL_JUMP_MPS:
                degrees = np.rad2deg(apart)
                reasons.append(f"turns differ by {degrees:.0f} degrees and the landing would jump by {jump:.1f} m/s")
        # Tumbles may be blended if both turn about one axis, by about as much
        tilts = [measure_flight_tilt(phase) for phase in (first, second)]
        sizes = [float(np.linalg.norm(tilt)) for tilt in tilts]
        is_same = min(sizes) >= 1e-6 and abs(sizes[0] - sizes[1]) <= limits.max_tilt_ratio * max(sizes)
        if is_same:
            is_same = float(tilts[0] @ tilts[1]) / (sizes[0] * sizes[1]) > np.cos(limits.axis_rad)
        if max(sizes) > limits.tilt_rad and not is_same:
            reasons.append(f"the bodies tumble by {np.rad2deg(sizes[0]):.0f} and {np.rad2deg(sizes[1]):.0f} degrees")
    return BlendPrediction(not reasons, tuple(reasons))


def measure_flight_turn(phase: MotionPhase) -> float:
    """Rotation of the root about the vertical during a phase [rad], not wrapped."""
    yaw = np.unwrap(phase.motion.rotations[:, 0].twist_angle(UP))
    return float(yaw[-1] - yaw[0])


def measure_flight_tilt(phase: MotionPhase) -> FloatArray:
    """Largest tilt of the root away from where it was at the start ``(3,)`` [rad], a rotation vector in its heading."""
    yaw = np.unwrap(phase.motion.rotations[:, 0].twist_angle(UP))
    upright = SO3.exp(-yaw[:, None] * UP) @ phase.motion.rotations[:, 0]
    away = (upright @ upright[0].inverse()).log()
    return away[int(np.argmax(np.linalg.norm(away, axis=1)))]


def predict_landing_jump(
    phases: tuple[MotionPhase, MotionPhase], turns: FloatArray, weights: FloatArray, body: Body
) -> float:
    """Level jump of velocity [m/s] at landing after realigning two flights that turn differently."""
    velocities = np.stack([end_velocity(phase, body, -1) for phase in phases])
    spans = np.array([phase.duration_s for phase in phases])
    # Velocities of the sources, scaled in time, before and after they are turned to the blended heading
    scale = weights * spans / blend_duration(spans, weights)
    goal = float(weights @ turns)
    turned = np.stack([SO3.exp((goal - t) * UP) @ v for t, v in zip(turns, velocities, strict=True)])
    jump = scale @ (turned - velocities)
    return float(np.hypot(jump[0], jump[2]))
