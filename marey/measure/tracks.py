"""A body as the meter sees it: joints by role, points of the soles, their speeds; no contact track, no engine flag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.measure.settings import MeterSettings
from marey.motion import Motion, assess_motion
from marey.motion.time_series import lowpass_values
from marey.skeleton import RoleMap, contact_points, foot_points, require_human, role_map

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
