"""Reference clips that stay in place: walks in place, clips without end, and standing on both feet or on one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError
from marey.contacts import detect_contacts, feet_down
from marey.control.preparation import SIDES, find_leg, find_soles, flatten_foot, level_toes, mark_feet, shift_to_floor
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass, concatenate, find_runs, gait_cycles, lowpass
from marey.skeleton import Pose, role_map

MIN_SWING_LIFT_M: Final = 0.06  # [m] a foot that walks in place is lifted at least so far
MAX_LEG_EXTENSION: Final = 0.98  # [-] of a leg, at most
STRAIGHTEST: Final = 0.996  # [-] of a leg that stands: ten degrees of the knee
UPRIGHT: Final = 0.965  # [-] of a leg that stands: a walker in place never has straight knees


def back_and_forth(motion: Motion, duration_s: float) -> Motion:
    """Clip that is played forwards and backwards in turn, for at least a duration [s]."""
    _check_duration(duration_s)
    if len(motion) < 2:
        raise InputError("a clip of one frame does not move", "Give two frames at least")
    way = np.concatenate([np.arange(len(motion)), np.arange(len(motion) - 2, 0, -1)])
    return _repeat_frames(replace(motion, contacts=None), way, duration_s)


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
    # The cycle whose ends differ least
    cycle = min(
        cycles, key=lambda c: float(np.abs((calm.rotations[c.start].inverse() @ calm.rotations[c.stop]).log()).sum())
    )
    down = feet_down(detect_contacts(motion))[cycle.start : cycle.stop]
    # Close the cycle: drift and the difference of its ends are spread over it
    within = np.arange(cycle.start, cycle.stop)
    share = (within - cycle.start) / (cycle.stop - cycle.start)
    gap = (calm.rotations[cycle.stop].inverse() @ calm.rotations[cycle.start]).log()
    rotations = calm.rotations[within] @ SO3.exp(share[:, None, None] * gap)
    drift = calm.root_positions[cycle.stop] - calm.root_positions[cycle.start]
    closed = replace(
        calm,
        root_positions=calm.root_positions[within] - share[:, None] * drift,
        rotations=rotations,
        contacts=None,
        translations=None,
        source=None,
    )
    # Cycle with feet that step on the spot, flat, side by side; and which of them is down
    clip = shift_to_floor(closed, find_soles(motion.skeleton), down)
    skeleton = clip.skeleton
    ahead = np.array([np.sin(cycle.heading_rad), 0.0, np.cos(cycle.heading_rad)])
    roles = role_map(skeleton)
    origins, turns = clip.joint_frames()
    ankles = [roles[f"{side}_ankle"] for side in SIDES]
    middle = float(np.mean(centre_of_mass(clip) @ ahead))
    flags, count = np.ones_like(down), len(clip)
    targets, held = np.empty((2, count, 3)), list[SO3]()
    for s, ankle in enumerate(ankles):
        # One swing only, the longest
        twice = ~np.concatenate([down[:, s], down[:, s]])
        start, stop = max(find_runs(twice), key=lambda run: run[1] - run[0])
        swing = np.arange(start, stop) % count
        flags[swing, s] = False
        # Spot where the foot stood in the mean, brought level with the centre of mass
        flat, under = flatten_foot(skeleton, s, turns[down[:, s], ankle])
        spot = origins[down[:, s], ankle].mean(axis=0)
        spot = spot + (middle - (spot + under) @ ahead) * ahead
        targets[s] = spot
        # Lift of the ankle: half as high as in the clip, smooth, and zero while the foot is down
        heights = origins[:, ankle, 1]
        phase = (np.arange(start, stop) - start + 0.5) / (stop - start)
        top = max(MIN_SWING_LIFT_M, 0.5 * float(heights[swing].max() - heights[flags[:, s]].min()))
        lifts = np.zeros(count)
        lifts[swing] = top * np.sin(np.pi * phase) ** 2
        targets[s, :, 1] = lifts - under[1]
        held.append(SO3(np.broadcast_to(flat.wxyz, (count, 4))))
    result = replace(clip, root_positions=clip.root_positions + leg_rise(clip, targets, flags))
    for side, goals, turn in zip(SIDES, targets, held, strict=True):
        result = solve_two_bone(result, f"{side}_leg", goals, end_rotations=turn, stretch=MAX_LEG_EXTENSION).motion
    marked = mark_feet(level_toes(result), flags)
    return replace(_repeat_frames(marked, np.arange(count), duration_s), name=f"{motion.name} in place")


def _check_duration(duration_s: float) -> None:
    if not (np.isfinite(duration_s) and duration_s > 0.0):
        raise InputError(f"duration_s is {duration_s}", "Give a positive number of seconds")


def _repeat_frames(motion: Motion, way: IntArray, duration_s: float) -> Motion:
    """Clip of frames in an order, over and over, for at least a duration [s]."""
    frames = np.resize(way, int(np.ceil(duration_s * motion.rate_hz)) + 1)
    contacts = None if motion.contacts is None else Contacts(motion.contacts.names, motion.contacts.active[frames])
    places, turns = motion.root_positions[frames], SO3(motion.rotations.wxyz[frames])
    return Motion(motion.skeleton, motion.rate_hz, places, turns, contacts=contacts, name=motion.name)


def leg_rise(motion: Motion, targets: FloatArray, flags: BoolArray, upright: float = UPRIGHT) -> FloatArray:
    """How far the body comes up ``(3,)`` [m] so that the straightest standing leg is nearly straight."""
    rises: list[float] = []
    for s, side in enumerate(SIDES):
        hip, _, length = find_leg(motion, side)
        away = targets[s] - hip
        reach = np.sqrt(np.maximum((upright * length) ** 2 - away[:, 0] ** 2 - away[:, 2] ** 2, 0.0))
        rises.append(float((reach + away[:, 1])[flags[:, s]].min()))
    return np.array([0.0, min(rises), 0.0])


FEET: Final = ("both", "left", "right")
RATE_HZ: Final = 60.0
SHIFT_S: Final = 1.5  # [s] to bring the weight over one foot, and again to lift the other
FOOT_LIFT_M: Final = 0.12  # [m]
BALANCE_ROUNDS: Final = 6  # of bringing the centre of mass over the feet
SWAY_FRAMES: Final = 240
SWAY_M: Final = 0.06  # [m]
DIP_M: Final = 0.08  # [m]
HORIZONTAL: Final = np.array([1.0, 0.0, 1.0])


def make_stand(
    source: Motion | Pose, seconds: float = 60.0, *, feet: str = "both", lift_m: float = FOOT_LIFT_M
) -> Motion:
    """Clip of a figure that stands still, its centre of mass over its feet.

    The soles are laid flat where they are. On one foot, the weight is brought over it in 1.5 s, then the other foot is
    lifted in as long.

    Args:
        source: a pose; or a clip, whose quietest frame on both feet is taken.
        seconds: how long.
        feet: "both", or the one to stand on, "left" or "right".
        lift_m: how high the other foot is lifted [m].

    Raises:
        UnknownNameError: there is no such foot.
        InputError: the time is not positive.
    """
    if feet not in FEET:
        raise UnknownNameError("feet", str(feet), "a stand", FEET)
    if not (np.isfinite(seconds) and seconds > 0.0):
        raise InputError(f"seconds is {seconds}", "Give a positive number")
    pose = find_quiet_pose(source) if isinstance(source, Motion) else source
    count = int(np.ceil(seconds * RATE_HZ)) + 1
    ankles, turns, soles = _flatten_feet(pose)
    targets, goals = np.repeat(ankles[:, None], count, axis=1), np.tile(soles.mean(axis=0), (count, 1))
    flags = np.ones((count, 2), dtype=np.bool_)
    if feet != "both":
        # The weight moves over the foot to stand on, then the other foot is raised, each by a smooth step
        side, phase = FEET.index(feet) - 1, np.arange(count) / RATE_HZ / SHIFT_S
        shift, lift = (x**3 * (10.0 - 15.0 * x + 6.0 * x**2) for x in np.clip((phase, phase - 1.0), 0.0, 1.0))
        goals += shift[:, None] * (soles[side] - soles.mean(axis=0))
        targets[1 - side, :, 1] += lift_m * lift
        flags[:, 1 - side] = lift_m * lift < 1e-6
    return mark_feet(_solve_legs(_repeat_pose(pose, count), targets, turns, goals, flags), flags)


def make_balance_clip(source: Motion | Pose) -> Motion:
    """Clip of what a body does to keep its balance: it sways to all sides, bends its knees, and lifts each foot.

    For pose models: a clip without balancing has no modes to balance with.
    """
    pose = find_quiet_pose(source) if isinstance(source, Motion) else source
    phase = 2.0 * np.pi * np.arange(SWAY_FRAMES) / SWAY_FRAMES
    ankles, turns, soles = _flatten_feet(pose)
    # Unit vectors from heel to ball of each sole, in its ankle's frame, give the direction ahead
    corners = find_soles(pose.skeleton).corners
    soles_ahead = corners[:, 2:].mean(axis=1) - corners[:, :2].mean(axis=1)
    soles_ahead = soles_ahead / np.linalg.norm(soles_ahead, axis=1, keepdims=True)
    ahead = np.mean([turn @ v for turn, v in zip(turns, soles_ahead, strict=True)], axis=0)
    way = np.stack([np.cross((0.0, 1.0, 0.0), ahead), ahead])
    size = SWAY_M * np.stack([np.sin(phase), np.sin(2.0 * phase)], axis=1)
    targets = np.repeat(ankles[:, None], SWAY_FRAMES, axis=1)
    flags = np.ones((SWAY_FRAMES, 2), dtype=np.bool_)
    dips = DIP_M * (1.0 - np.cos(3.0 * phase)) / 2.0
    swaying = _solve_legs(_repeat_pose(pose, SWAY_FRAMES), targets, turns, soles.mean(axis=0) + size @ way, flags, dips)
    return concatenate([swaying, *(replace(make_stand(pose, 3.0, feet=f), contacts=None) for f in SIDES)])


def find_quiet_pose(motion: Motion) -> Pose:
    """The frame of a clip that stands most quietly on both feet, upright."""
    down = feet_down(detect_contacts(motion) if motion.contacts is None else motion.contacts).all(axis=1)
    places = motion.joint_positions()
    steps = np.gradient(places, axis=0) if len(motion) > 1 else np.zeros_like(places)
    speeds = np.linalg.norm(steps, axis=-1).mean(axis=1) * motion.rate_hz
    heights = places[:, 0, 1]
    unrest = speeds + 5.0 * (heights.max() - heights) + np.where(down, 0.0, 10.0)
    return motion[int(np.argmin(unrest))]


def _repeat_pose(pose: Pose, count: int) -> Motion:
    wxyz = np.broadcast_to(pose.rotations.wxyz, (count, *pose.rotations.wxyz.shape))
    return Motion(pose.skeleton, RATE_HZ, np.tile(pose.root_position, (count, 1)), SO3(np.array(wxyz)), name="stand")


def _flatten_feet(pose: Pose) -> tuple[FloatArray, list[SO3], FloatArray]:
    """Places of both ankles ``(2, 3)``, their turns, and middles of the soles ``(2, 3)``, all flat on height zero."""
    soles, origins, frames = find_soles(pose.skeleton), pose.joint_positions(), pose.joint_rotations()
    ankles, turns, middles = np.empty((2, 3)), list[SO3](), np.empty((2, 3))
    for s, joint in enumerate(soles.joints):
        turn, under = flatten_foot(pose.skeleton, s, frames[joint : joint + 1])
        middles[s] = (origins[joint] + frames[joint] @ soles.corners[s].mean(axis=0)) * HORIZONTAL
        ankles[s] = middles[s] - under
        turns.append(turn)
    return ankles, turns, middles


def _solve_legs(
    motion: Motion,
    targets: FloatArray,
    turns: list[SO3],
    goals: FloatArray,
    flags: BoolArray,
    dips: FloatArray | float = 0.0,
) -> Motion:
    """Clip with ankles at targets ``(2, F, 3)`` and its centre of mass above goals ``(F, 3)``, lower by dips [m]."""
    result = level_toes(motion)
    # The straightest leg stays as straight as it is in the first pose
    legs = [find_leg(motion[:1], side) for side in SIDES]
    upright = min(STRAIGHTEST, max(float(np.linalg.norm(hip - ankle) / length[0]) for hip, ankle, length in legs))
    for _ in range(BALANCE_ROUNDS):
        away = (goals - centre_of_mass(result)) * HORIZONTAL
        result = replace(result, root_positions=result.root_positions + away)
        up = leg_rise(result, targets, flags, upright) - np.multiply.outer(dips, (0.0, 1.0, 0.0))
        result = replace(result, root_positions=result.root_positions + up)
        for s, side in enumerate(SIDES):
            held = SO3(np.broadcast_to(turns[s].wxyz, (len(result), 4)))
            result = solve_two_bone(
                result, f"{side}_leg", targets[s], end_rotations=held, stretch=0.5 * (1.0 + STRAIGHTEST)
            ).motion
    return result
