"""A body as the meter sees it: joints by role, points of the soles, their speeds; no contact track, no engine flag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.motion import Motion, assess_motion
from marey.motion.time_series import lowpass_values
from marey.skeleton import RoleMap, contact_points, foot_points, require_human, role_map


@dataclass(frozen=True, slots=True)
class MeterSettings:
    """What counts as near, fast, bent backwards, a jump.

    None of them is a setting of an engine, and no contact track is read. The limits above which a figure is a fault
    (``most_*``) lie outside what the captures of the typical table reach; ``docs/measure.md`` prints both.
    """

    smoothing_hz: float = 12.0  # speeds are those of positions below it; capture noise and toe tremor lie above
    span_s: float = 1.0 / 30.0  # accelerations are second differences over it, so that 30 and 240 Hz compare
    fine_span_s: float = 1.0 / 120.0  # ... and over this one, where the clip has the frames: ticks of one frame
    near_m: float = 0.008  # a sole point this little above its own floor touches it
    scrape_mps: float = 0.15  # ... and scrapes when it moves faster over the ground
    swing_mps: float = 0.4  # a swing is a peak of foot speed that rises by this much above the minima beside it
    swing_gap_s: float = 0.2  # two swings of one foot are further apart
    swing_middle: float = 0.7  # part of a swing in which clearance is measured
    bent_deg: float = 15.0  # a limb bent less has no bend plane
    flip_deg: float = 90.0  # the bend plane turns by more within a frame: a flip
    standing_mps: float = 0.15  # a slower pelvis stands
    most_backwards_deg: float = 12.0  # captures hyperextend by up to 10 degrees
    most_float_m: float = 0.08  # captured soles rest up to 7 cm beside the floor: their heights are estimates
    most_median_float_m: float = 0.06  # ... in the median of their steps, up to 5 cm: a whole clip floats
    most_slide_m: float = 0.30  # on one stretch, beyond what a landing heel and a turning ball do
    least_slide_s: float = 0.05  # ... that lasts longer than this
    carried_share: float = 0.7  # [-] of the usual height of the pelvis over a resting sole: it carries the body
    most_slip_mps: float = 0.15  # slowest moment of the slowest point of a standing foot
    most_brief_slip_mps: float = 0.6  # ... of one that stands so briefly that it rolls all the time, as in a run
    brief_s: float = 0.2  # the middle of such a stance is shorter
    drift_near_m: float = 0.012  # a sole point this little above its floor stands, or should
    least_drift_s: float = 0.06  # ... for this long, or its step tells nothing
    least_drifts: int = 4  # of steps, or their median tells nothing
    most_drift_mps: float = 0.145  # median over the steps of a clip; captured walks and jumps reach 0.135
    most_run_drift_mps: float = 0.4  # ... of a run: captured soles roll and slip by up to 0.36
    most_scraped: float = 1.5  # times the 99th percentile of captures of the same kind
    jump_m: float = 0.02  # a root that leaves its course by more within a frame has jumped ...
    jump_mps2: float = 100.0  # ... if no body accelerates so (decides at low frame rates)
    pop_deg: float = 25.0  # the same for the turn of a joint ...
    ankle_pop_deg: float = 45.0  # ... of an ankle, whose markers captures lose most
    pop_deg_per_s2: float = 60_000.0
    least_flight_s: float = 0.1  # a shorter time without a sole near the floor tells nothing about gravity
    short_flight_s: float = 0.35  # shorter flights, those of runs, are judged together: half of them must be wrong
    least_lift_m: float = 0.03  # a flight in which the lower sole rises less may be a floor that was guessed too low
    slow_arc_g: float = 0.35  # ... and so may one that falls slower than this, ...
    least_slow_lift_m: float = 0.06  # ... if the lower sole rises less than this, ...
    most_uneven_g: float = 0.15  # ... or if its parts fall so unlike: hands carry a body over a thing
    least_arc_g: float = 0.15  # a stretch that falls slower somewhere is carried there: no flight
    least_flight_g: float = 0.72  # the fastest part of a captured flight falls with at least 0.8 g
    most_flight_g: float = 1.45  # whole captured flights fall with at most 1.2 g
    obstacle_m: float = 0.01  # depth inside an obstacle that is still said to touch it


SIDES: Final = ("left", "right")
SOLE_PARTS: Final = ("heel", "ball", "toe_end")
NEEDED: Final = ("left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle")
NEIGHBOURS: Final = 4  # frames on each side that tell the course of the root


@dataclass(frozen=True, slots=True, eq=False)
class RootJumps:
    """Frames at which the body leaves its course within one frame."""

    frames: IntArray  # (N,) the frame after the jump
    offsets: FloatArray  # (N, 3) [m]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredBody:
    """Positions and speeds of one clip; jumps of the root are taken out, so that they are told once."""

    motion: Motion
    roles: RoleMap
    positions: Mapping[str, FloatArray]  # (F, 3) [m] of joints by role, the pelvis among them
    uppers: Mapping[str, SO3]  # (F,) world rotations of hips and shoulders
    heights: FloatArray  # (F, J) [m] of all joints
    palms: Mapping[str, FloatArray]  # (F, 3) [m] by name of the contact point
    soles: FloatArray  # (F, 2, 3, 3) [m] heel, ball and toe end of the left and the right foot, smoothed
    sole_speeds: FloatArray  # (F, 2, 3) [m/s]
    ground_speeds: FloatArray  # (F, 2, 3) [m/s] over the ground
    pelvis: FloatArray  # (F, 3) [m] smoothed
    jumps: RootJumps

    @property
    def rate_hz(self) -> float:
        """Frames per second."""
        return self.motion.rate_hz

    @property
    def num_frames(self) -> int:
        """How many frames the clip has."""
        return len(self.heights)

    def at(self, role: str) -> FloatArray:
        """Positions ``(F, 3)`` [m] of the joint of a role; a pelvis without a joint is between the hips."""
        return self.positions[role]

    def has(self, *roles: str) -> bool:
        """Whether the skeleton has all of these roles."""
        return all(role in self.roles for role in roles)

    @classmethod
    def from_motion(cls, motion: Motion, settings: MeterSettings, roles: RoleMap | None = None) -> MeasuredBody:
        """Take the geometry of a clip.

        Raises:
            InputError: the skeleton is no human, or has no two legs: there is no person to measure.
        """
        if roles is None:
            assess_motion(motion)
            require_human(motion.skeleton, "measuring")
        roles = role_map(motion.skeleton) if roles is None else roles
        lacking = [role for role in NEEDED if role not in roles]
        if lacking:
            raise InputError(
                f"no person to measure in '{motion.name}': it has no {', '.join(lacking)}",
                "Measures need two legs",
            )
        # Jumps of the whole body are found first and taken out of everything else
        pelvis = motion.map_frames(lambda positions, _: find_role(positions, roles, "pelvis"))
        jumps = find_root_jumps(pelvis, motion.rate_hz, settings)
        shift = np.zeros((len(pelvis), 3))
        for frame, offset in zip(jumps.frames, jumps.offsets, strict=True):
            shift[frame:] -= offset
        names = tuple({**roles.joints, "pelvis": 0})
        uppers = [f"{side}_{part}" for part in ("hip", "shoulder") for side in SIDES if f"{side}_{part}" in roles]
        points, touching = foot_points(motion.skeleton, roles), contact_points(motion.skeleton, roles)
        hands = [k for k, name in enumerate(touching.names) if name.endswith("hand")]
        order = [points.index(f"{side}_{part}") for side in SIDES for part in SOLE_PARTS]

        def take(positions: FloatArray, frames: SO3) -> FloatArray:
            """What the meter reads of a block of frames, in one row each: all joints would be three times as much."""
            taken = (
                positions[..., 1],
                points.positions(positions, frames)[:, order],
                touching.positions(positions, frames)[:, hands],
                frames.wxyz[:, [roles[role] for role in uppers]],
                *(find_role(positions, roles, role) for role in names),
            )
            return np.concatenate([values.reshape(len(positions), -1) for values in taken], axis=1)

        rows = motion.map_frames(take, shift=shift)
        widths = (motion.skeleton.num_joints, 3 * len(order), 3 * len(hands), 4 * len(uppers))
        heights, soles, palms, turns, places = np.split(rows, np.cumsum(widths), axis=1)
        positions = dict(zip(names, np.split(places, len(names), axis=1), strict=True))
        soles = smooth(soles.reshape(-1, 2, 3, 3), motion.rate_hz, settings.smoothing_hz)
        velocity = differentiate(soles, motion.rate_hz)
        return cls(
            motion,
            roles,
            positions,
            {role: SO3(turns[:, 4 * k : 4 * k + 4]) for k, role in enumerate(uppers)},
            heights,
            {touching.names[hand]: palms[:, 3 * k : 3 * k + 3] for k, hand in enumerate(hands)},
            soles,
            np.linalg.norm(velocity, axis=-1),
            np.hypot(velocity[..., 0], velocity[..., 2]),
            smooth(positions["pelvis"], motion.rate_hz, settings.smoothing_hz),
            jumps,
        )


def find_role(positions: FloatArray, roles: RoleMap, role: str) -> FloatArray:
    """Positions ``(F, 3)`` [m] of the joint of a role; a pelvis without a joint is between the hips."""
    if role == "pelvis" and role not in roles:
        return 0.5 * (positions[:, roles["left_hip"]] + positions[:, roles["right_hip"]])
    return positions[:, roles[role]]


def find_root_jumps(root: FloatArray, rate_hz: float, settings: MeterSettings) -> RootJumps:
    r"""Frames at which the root ``(F, 3)`` [m] leaves its course, and by how much.

    With :math:`\Delta_t = x_t - x_{t-1}`, a jump is :math:`\|\Delta_t - m_t\| > \max(d, a/f^2)`, where :math:`m_t`
    is the median of the steps around :math:`t`, d is ``jump_m``, a is ``jump_mps2`` and f the frame rate.
    """
    if len(root) < 4:
        return RootJumps(np.zeros(0, dtype=np.int64), np.zeros((0, 3)))
    steps = np.diff(root, axis=0)
    padded = np.pad(steps, ((NEIGHBOURS, NEIGHBOURS), (0, 0)), mode="reflect")
    course = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1, axis=0), axis=-1)
    beyond = steps - course
    # The median of the window lags behind a body that speeds up; only the part that is in no neighbour is a jump
    second = np.linalg.norm(np.diff(steps, axis=0, prepend=steps[:1], append=steps[-1:]), axis=-1)
    least = max(settings.jump_m, settings.jump_mps2 / rate_hz**2)
    sizes = np.linalg.norm(beyond, axis=-1)
    found = np.flatnonzero((sizes > least) & (np.maximum(second[:-1], second[1:]) > least))
    return RootJumps(found + 1, beyond[found])


def smooth(values: FloatArray, rate_hz: float, cutoff_hz: float) -> FloatArray:
    """Remove what moves faster than the cutoff; a clip too slow to show it is left as it is."""
    return lowpass_values(values, rate_hz, cutoff_hz) if rate_hz > 2.2 * cutoff_hz and len(values) > 4 else values


def differentiate(values: FloatArray, rate_hz: float) -> FloatArray:
    """Rate of change ``(F, ...)`` by central differences; zero for one frame."""
    return np.gradient(values, axis=0) * rate_hz if len(values) > 1 else np.zeros_like(values)


def second_difference(values: FloatArray, rate_hz: float, span_s: float) -> FloatArray:
    r"""Acceleration ``(F - 2k, ...)`` by differences over a span of time, the same for every frame rate.

    .. math:: a(t) = \frac{x(t+h) - 2x(t) + x(t-h)}{h^2}, \qquad h = \mathrm{span}

    Values between frames are interpolated linearly. A span shorter than a frame is a frame.
    """
    span = max(span_s * rate_hz, 1.0)
    whole = int(np.ceil(span - 1e-9))
    if len(values) <= 2 * whole:
        return np.zeros((0, *values.shape[1:]))
    part, low = span - np.floor(span + 1e-9), int(np.floor(span + 1e-9))
    part = max(part, 0.0)
    middle = values[whole : len(values) - whole]
    count = len(middle)
    after = (1.0 - part) * values[whole + low : whole + low + count]
    before = (1.0 - part) * values[whole - low : whole - low + count]
    if part > 1e-9:
        after = after + part * values[whole + low + 1 : whole + low + 1 + count]
        before = before + part * values[whole - low - 1 : whole - low - 1 + count]
    return (after - 2.0 * middle + before) * (rate_hz / span) ** 2
