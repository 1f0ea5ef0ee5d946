"""Walks in place and clips without end, to track for as long as one likes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.control._reference import SIDES, find_soles, level_toes, shift_to_floor
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import (
    Contacts,
    GaitCycle,
    Motion,
    centre_of_mass,
    detect_contacts,
    feet_down,
    find_runs,
    gait_cycles,
    lowpass,
)
from marey.skeleton import Skeleton, role_map

MIN_SWING_LIFT_M: Final = 0.06  # [m] a foot that walks in place is lifted at least so far
MAX_LEG_EXTENSION: Final = 0.98  # [-] of a leg, at most
UPRIGHT: Final = 0.965  # [-] of a leg that stands: a walker in place never has straight knees


def back_and_forth(motion: Motion, duration_s: float) -> Motion:
    """Clip that is played forwards and backwards in turn, for at least a duration [s]."""
    _check_duration(duration_s)
    if len(motion) < 2:
        raise InputError("a clip of one frame does not move", "Give two frames at least")
    way = np.concatenate([np.arange(len(motion)), np.arange(len(motion) - 2, 0, -1)])
    frames = np.resize(way, int(np.ceil(duration_s * motion.rate_hz)) + 1)
    return _num_frames(motion, frames)


def walk_in_place(motion: Motion, duration_s: float) -> Motion:
    """One cycle of a walk, over and over, that stays where it is: feet come down where they were lifted.

    The drift of the root is taken out of the most regular cycle of the clip and its ends are made to meet. Each foot
    keeps the place over which it stood in the mean; it is lifted when the clip lifts it, and the legs follow by
    inverse kinematics. Trunk, arms and the sway of the pelvis are those of the clip.

    Raises:
        InputError: there is no regular cycle in the clip, or the duration is not positive.
    """
    _check_duration(duration_s)
    cycles = gait_cycles(motion)
    if not cycles:
        raise InputError("there is no regular walking cycle in the clip", "Give a straight walk of two strides")
    calm = lowpass(motion, 8.0)
    cycle = min(cycles, key=lambda c: _mismatch(calm, c))
    down = feet_down(detect_contacts(motion))[cycle.start : cycle.stop]
    closed = _close_cycle(calm, cycle)
    stepping, flags = _step_in_place(shift_to_floor(closed, find_soles(motion.skeleton), down), down, cycle.heading_rad)
    frames = np.resize(np.arange(len(stepping)), int(np.ceil(duration_s * motion.rate_hz)) + 1)
    names = tuple(f"{side}_{part}" for side in SIDES for part in ("heel", "toe"))
    contacts = Contacts(names, np.repeat(flags, 2, axis=1)[frames])
    return replace(_num_frames(stepping, frames), contacts=contacts, name=f"{motion.name} in place")


def _check_duration(duration_s: float) -> None:
    if not (np.isfinite(duration_s) and duration_s > 0.0):
        raise InputError(f"duration_s is {duration_s}", "Give a positive number of seconds")


def _num_frames(motion: Motion, frames: IntArray) -> Motion:
    wxyz = motion.rotations.wxyz[frames]
    return Motion(motion.skeleton, motion.rate_hz, motion.root_positions[frames], SO3(wxyz), name=motion.name)


def _mismatch(motion: Motion, cycle: GaitCycle) -> float:
    """How much the ends of a cycle differ [rad]."""
    return float(np.abs((motion.rotations[cycle.start].inverse() @ motion.rotations[cycle.stop]).log()).sum())


def _close_cycle(motion: Motion, cycle: GaitCycle) -> Motion:
    """Cycle whose end meets its start, without drift; the difference is spread over the cycle."""
    frames = np.arange(cycle.start, cycle.stop)
    share = (frames - cycle.start) / (cycle.stop - cycle.start)
    gap = (motion.rotations[cycle.stop].inverse() @ motion.rotations[cycle.start]).log()
    rotations = motion.rotations[frames] @ SO3.exp(share[:, None, None] * gap)
    drift = motion.root_positions[cycle.stop] - motion.root_positions[cycle.start]
    return replace(
        motion,
        root_positions=motion.root_positions[frames] - share[:, None] * drift,
        rotations=rotations,
        contacts=None,
        translations=None,
        source=None,
    )


def _step_in_place(motion: Motion, down: BoolArray, heading_rad: float) -> tuple[Motion, BoolArray]:
    """Cycle with feet that step on the spot, flat, side by side; and which of them is down."""
    skeleton = motion.skeleton
    ahead = np.array([np.sin(heading_rad), 0.0, np.cos(heading_rad)])
    roles = role_map(skeleton)
    origins, turns = motion.joint_frames()
    ankles = [roles[f"{side}_ankle"] for side in SIDES]
    middle = float(np.mean(centre_of_mass(motion) @ ahead))
    flags = np.stack([_keep_longest_swing(down[:, s]) for s in range(2)], axis=1)
    targets, held = np.empty((2, len(motion), 3)), list[SO3]()
    for s, ankle in enumerate(ankles):
        flat, under = flatten_foot(skeleton, s, turns[down[:, s], ankle])
        spot = origins[down[:, s], ankle].mean(axis=0)
        spot = spot + (middle - (spot + under) @ ahead) * ahead
        targets[s] = spot
        targets[s, :, 1] = _lifts(origins[:, ankle, 1], flags[:, s]) - under[1]
        held.append(SO3(np.broadcast_to(flat.wxyz, (len(motion), 4))))
    result = replace(motion, root_positions=motion.root_positions + leg_rise(motion, targets, flags))
    for side, goals, turn in zip(SIDES, targets, held, strict=True):
        result = solve_two_bone(result, f"{side}_leg", goals, end_rotations=turn, stretch=MAX_LEG_EXTENSION).motion
    return level_toes(result), flags


def leg_rise(motion: Motion, targets: FloatArray, flags: BoolArray, upright: float = UPRIGHT) -> FloatArray:
    """How far the body comes up ``(3,)`` [m] so that the straightest standing leg is nearly straight."""
    roles, origins = role_map(motion.skeleton), motion.joint_positions()
    rises: list[float] = []
    for s, side in enumerate(SIDES):
        hip, knee, ankle = (origins[:, roles[f"{side}_{part}"]] for part in ("hip", "knee", "ankle"))
        length = np.linalg.norm(hip - knee, axis=1) + np.linalg.norm(knee - ankle, axis=1)
        away = targets[s] - hip
        reach = np.sqrt(np.maximum((upright * length) ** 2 - away[:, 0] ** 2 - away[:, 2] ** 2, 0.0))
        rises.append(float((reach + away[:, 1])[flags[:, s]].min()))
    return np.array([0.0, min(rises), 0.0])


def _keep_longest_swing(down: BoolArray) -> BoolArray:
    """Flags of a cycle with one swing only, its longest."""
    twice = ~np.concatenate([down, down])
    start, stop = max(find_runs(twice), key=lambda run: run[1] - run[0])
    flags = np.ones(len(down), dtype=np.bool_)
    flags[np.arange(start, stop) % len(down)] = False
    return flags


def _lifts(heights: FloatArray, down: BoolArray) -> FloatArray:
    """How far the ankle is lifted ``(F,)`` [m]: as high as in the clip, smooth, and zero while the foot is down."""
    twice = ~np.concatenate([down, down])
    start, stop = max(find_runs(twice), key=lambda run: run[1] - run[0])
    phase = (np.arange(start, stop) - start + 0.5) / (stop - start)
    swing = np.arange(start, stop) % len(down)
    top = max(MIN_SWING_LIFT_M, 0.5 * float(heights[swing].max() - heights[down].min()))
    lifts = np.zeros(len(down))
    lifts[swing] = top * np.sin(np.pi * phase) ** 2
    return lifts


def flatten_foot(skeleton: Skeleton, s: int, turns: SO3) -> tuple[SO3, FloatArray]:
    """World rotation of an ankle whose sole is level and points as in the clip, and the sole's middle under it [m]."""
    soles = find_soles(skeleton)
    corners = soles.corners[s]
    ahead = (turns @ (corners[2:].mean(axis=0) - corners[:2].mean(axis=0))).mean(axis=0)
    across = corners[[0, 2]].mean(axis=0) - corners[[1, 3]].mean(axis=0)  # towards the left
    forward = corners[2:].mean(axis=0) - corners[:2].mean(axis=0)
    up = np.cross(forward, across)
    local = np.stack([v / np.linalg.norm(v) for v in (np.cross(up, forward), up, forward)], axis=1)
    ahead = ahead * (1.0, 0.0, 1.0) / np.linalg.norm(ahead * (1.0, 0.0, 1.0))
    world = np.stack([np.cross((0.0, 1.0, 0.0), ahead), (0.0, 1.0, 0.0), ahead], axis=1)
    turn = world @ local.T
    return SO3.from_matrix(turn), turn @ corners.mean(axis=0)
