"""From a captured clip to its motion units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics import retarget
from marey.locomotion._cycles import (
    Cycle,
    centre_root_path,
    close_cycle,
    closing_residual,
    resample_cycle,
    straighten_cycle,
    warp_phases,
)
from marey.locomotion._segment_clean import FLIP_RAD_S, joint_angular_speeds, repair_joint_flips
from marey.locomotion._units import MotionUnit
from marey.motion import GaitCycle, Motion, align_to_ground, gait_cycles, headings, lowpass
from marey.skeleton import HUMAN, Skeleton, foot_points, leg_length, role_map

NUM_FRAMES: Final = 50  # of a unit; the thesis has 25, half as many as a run needs
MIN_FRAMES: Final = 60  # a clip of fewer holds no cycle worth trusting
SMOOTHING_HZ: Final = {"walk": 8.0, "run": 12.0}
MAX_RESIDUAL_RAD: Final = float(np.deg2rad(22.0))  # of a leg joint between the ends of a cycle
CYCLE_END_SEARCH: Final = 0.05  # [-] of the cycle: how far its end may slide to meet its start
MAX_SIDEWAYS_RAD: Final = float(np.deg2rad(20.0))  # between where the body faces and where it goes
CADENCES: Final = {"walk": (0.6, 1.3), "run": (0.8, 1.18)}
"""Over the usual one: cycles outside were cut wrongly, or their clip has a wrong frame rate."""

LEG_JOINTS: Final = tuple(f"{side}_{part}" for side in ("left", "right") for part in ("hip", "knee", "ankle"))
LIMB_JOINTS: Final = (*LEG_JOINTS, *(f"{side}_{part}" for side in ("left", "right") for part in ("shoulder", "elbow")))
ANKLE_HEIGHT_FRACTION: Final = 0.039 / 0.491  # height of the ankle over thigh and shank, [Winter2009]_ fig. 4.1
LANDED_HEIGHT_FRACTION: Final = {
    "walk": 0.01,
    "run": 0.03,
}  # [-] of the leg: a sole so near its lowest has struck; runs sink in


@dataclass(frozen=True, slots=True)
class RejectedCycle:
    """A cycle that was left out, and why."""

    clip: str
    start: int
    stop: int
    reason: str


def measure_leg_length(skeleton: Skeleton) -> float:
    """Leg length [m] of a performer: thigh, shank and the height of the ankle."""
    return leg_length(skeleton, role_map(skeleton)) * (1.0 + ANKLE_HEIGHT_FRACTION)


def segment_clip(
    motion: Motion, subject: str, gait: str, *, num_frames: int = NUM_FRAMES, skeleton: Skeleton = HUMAN
) -> tuple[list[MotionUnit], list[RejectedCycle], list[str]]:
    """All regular, straight cycles of a clip as units on ``skeleton``, those left out, and what was mended.

    Args:
        motion: any clip of a body with legs.
        subject: who moves.
        gait: ``"walk"`` or ``"run"``; cycles of the other kind (told by flight) are left out.
        num_frames: of every unit.
        skeleton: the canonical human.

    Raises:
        InputError: the clip is too short to hold a cycle.
    """
    if motion.num_frames < MIN_FRAMES:
        raise InputError(f"clip '{motion.name}' has {motion.num_frames} frames", f"Give {MIN_FRAMES} or more")
    whole, notes = repair_joint_flips(motion)
    body = align_to_ground(retarget(whole, skeleton, contacts=False))
    smooth = lowpass(body, SMOOTHING_HZ[gait]) if body.rate_hz > 2.5 * SMOOTHING_HZ[gait] else body
    leg_m = measure_leg_length(motion.skeleton)
    units: list[MotionUnit] = []
    rejected: list[RejectedCycle] = []
    for cycle in gait_cycles(body):
        found = _build_unit(smooth, body, cycle, num_frames, LANDED_HEIGHT_FRACTION[gait])
        if isinstance(found, str):
            rejected.append(RejectedCycle(motion.name, cycle.start, cycle.stop, found))
            continue
        unit = replace(found, subject=subject, gait=gait, clip=motion.name, leg_length_m=leg_m)
        unit = scaled_speed(unit, measure_leg_length(skeleton))
        ratio = unit_cadence(unit, measure_leg_length(skeleton)) / expected_cadence(unit.speed_n, gait)
        if not CADENCES[gait][0] < ratio < CADENCES[gait][1]:
            reason = f"{ratio:.2f} times the usual cadence of a {gait}"
            rejected.append(RejectedCycle(motion.name, cycle.start, cycle.stop, reason))
            continue
        units.append(unit)
    return units, rejected, list(notes)


def unit_cadence(unit: MotionUnit, leg_m: float) -> float:
    """Cycles per second [Hz] of a unit, scaled to the model's legs."""
    return float(np.sqrt(unit.leg_length_m / leg_m)) / unit.duration_s


def expected_cadence(speed_n: float, gait: str) -> float:
    """Cycles per second [Hz] at a normalised speed [1/s], over 346 walks and 111 runs of public captures."""
    return 0.776 * speed_n**0.425 if gait == "walk" else 1.03 + 0.127 * speed_n


def scaled_speed(unit: MotionUnit, leg_m: float) -> MotionUnit:
    """Speed as the performer had it, and normalised so that equal Froude numbers are equal speeds.

    The cycle was measured on the model's body, all lengths scaled by the legs: ``speed_mps`` comes in on that body.
    """
    ratio = leg_m / unit.leg_length_m  # lengths on the model's body over lengths on the performer's
    own = unit.speed_mps / ratio
    return replace(unit, speed_mps=own, speed_n=own * np.sqrt(ratio) / leg_m)


def _build_unit(smooth: Motion, body: Motion, cycle: GaitCycle, num_frames: int, landed: float) -> MotionUnit | str:
    """One unit on the body it was captured on, or why not; the right foot strikes at its first frame."""
    start, stop, opposite = _find_strikes(body, cycle, landed)
    turn = (headings(body)[start:stop] - cycle.heading_rad + np.pi) % (2.0 * np.pi) - np.pi
    if abs(float(np.mean(turn))) > MAX_SIDEWAYS_RAD:
        return "sideways or backwards"
    if stop >= body.num_frames or start < 0 or stop - start < 20:
        return "cut off"
    joints = [body.skeleton.index(name) for name in LIMB_JOINTS]
    speed = joint_angular_speeds(body.rotations.wxyz[start : stop + 1][:, joints], body.rate_hz).max()
    if speed > FLIP_RAD_S:
        return f"a joint turns at {np.rad2deg(speed):.0f} degrees a second"
    stop = _find_closing_frame(smooth, start, stop)
    legs = [body.skeleton.index(name) for name in LEG_JOINTS]
    residual = closing_residual(smooth.rotations.wxyz[start], smooth.rotations.wxyz[stop])[legs].max()
    if residual > MAX_RESIDUAL_RAD:
        return f"its ends differ by {np.rad2deg(residual):.0f} degrees"
    cut = slice(start, stop + 1)
    straight = straighten_cycle(smooth.root_positions[cut], smooth.rotations.wxyz[cut], cycle.heading_rad)
    part = (opposite - start) / (stop - start)
    even = _roll_to_right_strike(resample_cycle(close_cycle(*straight), warp_phases(num_frames, part)), cycle.side)
    root = centre_root_path(even.root) - np.array([0.0, _floor_height(body, cut), 0.0])
    return MotionUnit(
        root / measure_leg_length(body.skeleton),
        even.wxyz,
        "",
        "",
        0.0,
        cycle.speed_mps if cycle.is_treadmill else _path_speed(smooth, start, stop),
        0.0,
        (stop - start) / body.rate_hz,
        start=start,
        stop=stop,
        side=cycle.side,
        opposite=part if cycle.side == "right" else 1.0 - part,
    )


def _path_speed(motion: Motion, start: int, stop: int) -> float:
    """Distance over ground between two frames by the time between them [m/s]."""
    chord = motion.root_positions[stop] - motion.root_positions[start]
    return float(np.hypot(chord[0], chord[2])) * motion.rate_hz / (stop - start)


def _roll_to_right_strike(cycle: Cycle, side: str) -> Cycle:
    """A cycle that begins with a left strike, rolled so that the right strike inside it comes first."""
    if side == "right":
        return cycle
    half = len(cycle.root) // 2
    return Cycle(np.roll(cycle.root, -half, axis=0), np.roll(cycle.wxyz, -half, axis=0))


def _find_closing_frame(motion: Motion, start: int, stop: int) -> int:
    """Slide the end of a cycle to the frame whose pose is nearest to its start."""
    reach = round(CYCLE_END_SEARCH * (stop - start))
    last = min(stop + reach, motion.num_frames - 1)
    legs = [motion.skeleton.index(name) for name in LEG_JOINTS]
    wxyz = motion.rotations.wxyz[:, legs]
    costs = [np.square(closing_residual(wxyz[start], wxyz[i])).sum() for i in range(stop - reach, last + 1)]
    return stop - reach + int(np.argmin(costs))


def compute_sole_heights(motion: Motion) -> dict[str, FloatArray]:
    """Height ``(F,)`` [m] of the lower of heel and ball, by side."""
    feet = foot_points(motion.skeleton)
    heights = feet.positions(*motion.joint_frames())[..., 1]
    sides = ("left", "right")
    return {s: heights[:, [feet.index(f"{s}_heel"), feet.index(f"{s}_ball")]].min(axis=1) for s in sides}


def _find_strikes(motion: Motion, cycle: GaitCycle, landed: float) -> tuple[int, int, int]:
    """Frames of start, stop and opposite strike, moved from the farthest reach to where the sole meets the ground."""
    heights = compute_sole_heights(motion)
    other = "left" if cycle.side == "right" else "right"
    start = _find_landing_frame(heights[cycle.side], cycle.start, motion, landed)
    stop = _find_landing_frame(heights[cycle.side], cycle.stop, motion, landed)
    return start, stop, _find_landing_frame(heights[other], cycle.opposite, motion, landed)


def _find_landing_frame(height: FloatArray, peak: int, motion: Motion, landed: float) -> int:
    """First frame after the foot reached farthest at which its sole is near the ground of the coming stance."""
    span = round(0.25 * motion.rate_hz)
    ahead = height[peak : peak + span]
    near = float(ahead.min()) + landed * measure_leg_length(motion.skeleton)
    down = np.flatnonzero(ahead <= near)
    return peak + int(down[0]) if len(down) else peak


def _floor_height(motion: Motion, cut: slice) -> float:
    """Height [m] of the ground under one cycle: where soles are at their lowest, both feet alike."""
    heights = compute_sole_heights(motion)
    return float(np.mean([np.percentile(heights[side][cut], 10.0) for side in heights]))
