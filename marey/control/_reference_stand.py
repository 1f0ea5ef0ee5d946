"""Standing: clips of a figure on both feet or on one, to balance."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.control._reference import SIDES, find_soles, level_toes
from marey.control._reference_place import MAX_LEG_EXTENSION, UPRIGHT, flatten_foot, leg_rise
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass, concatenate, detect_contacts, feet_down
from marey.skeleton import Pose

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
    times = np.arange(int(np.ceil(seconds * RATE_HZ)) + 1) / RATE_HZ
    if feet == "both":
        shift, lift = np.zeros(len(times)), np.zeros(len(times))
    else:
        shift, lift = _ease(times / SHIFT_S), _ease(times / SHIFT_S - 1.0)
    return _make_stand(pose, FEET.index(feet) - 1, shift, lift_m * lift)


def make_balance_clip(source: Motion | Pose) -> Motion:
    """Clip of what a body does to keep its balance: it sways to all sides, bends its knees, and lifts each foot.

    For models: a clip in which nobody had to balance has no modes to balance with.
    """
    pose = find_quiet_pose(source) if isinstance(source, Motion) else source
    phase = 2.0 * np.pi * np.arange(SWAY_FRAMES) / SWAY_FRAMES
    ankles, turns, soles = _flatten_feet(pose)
    ahead = np.mean([turn @ v for turn, v in zip(turns, _sole_directions(pose), strict=True)], axis=0)
    way = np.stack([np.cross((0.0, 1.0, 0.0), ahead), ahead])
    size = SWAY_M * np.stack([np.sin(phase), np.sin(2.0 * phase)], axis=1)
    targets = np.repeat(ankles[:, None], SWAY_FRAMES, axis=1)
    flags = np.ones((SWAY_FRAMES, 2), dtype=np.bool_)
    dips = DIP_M * (1.0 - np.cos(3.0 * phase)) / 2.0
    swaying = _solve_legs(_repeat_pose(pose, SWAY_FRAMES), targets, turns, soles.mean(axis=0) + size @ way, flags, dips)
    return concatenate([swaying, *(replace(make_stand(pose, 3.0, feet=f), contacts=None) for f in SIDES)])


def _sole_directions(pose: Pose) -> FloatArray:
    """From heel to ball of each sole ``(2, 3)``, in its ankle's frame, of unit length."""
    corners = find_soles(pose.skeleton).corners
    ways = corners[:, 2:].mean(axis=1) - corners[:, :2].mean(axis=1)
    return ways / np.linalg.norm(ways, axis=1, keepdims=True)


def find_quiet_pose(motion: Motion) -> Pose:
    """The frame of a clip that stands most quietly on both feet, upright."""
    down = feet_down(detect_contacts(motion) if motion.contacts is None else motion.contacts).all(axis=1)
    places = motion.joint_positions()
    steps = np.gradient(places, axis=0) if len(motion) > 1 else np.zeros_like(places)
    speeds = np.linalg.norm(steps, axis=-1).mean(axis=1) * motion.rate_hz
    heights = places[:, 0, 1]
    unrest = speeds + 5.0 * (heights.max() - heights) + np.where(down, 0.0, 10.0)
    return motion[int(np.argmin(unrest))]


def _ease(phase: FloatArray) -> FloatArray:
    """From 0 to 1 while the phase does, without a jerk at the ends."""
    x = np.clip(phase, 0.0, 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def _make_stand(pose: Pose, side: int, shift: FloatArray, lift: FloatArray) -> Motion:
    """Clip of a stand on a side, or on both for -1; ``shift`` says how much of the weight has moved there."""
    count = len(shift)
    still = _repeat_pose(pose, count)
    ankles, turns, soles = _flatten_feet(pose)
    targets = np.repeat(ankles[:, None], count, axis=1)
    if side >= 0:
        targets[1 - side, :, 1] += lift
    middle = soles.mean(axis=0)
    goals = middle + shift[:, None] * ((soles[side] if side >= 0 else middle) - middle)
    flags = np.ones((count, 2), dtype=np.bool_)
    if side >= 0:
        flags[:, 1 - side] = lift < 1e-6
    clip = _solve_legs(still, targets, turns, goals, flags)
    names = tuple(f"{s}_{part}" for s in SIDES for part in ("heel", "toe"))
    return replace(clip, contacts=Contacts(names, np.repeat(flags, 2, axis=1)))


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
    for _ in range(BALANCE_ROUNDS):
        away = (goals - centre_of_mass(result)) * HORIZONTAL
        result = replace(result, root_positions=result.root_positions + away)
        up = leg_rise(result, targets, flags, UPRIGHT) - np.multiply.outer(dips, (0.0, 1.0, 0.0))
        result = replace(result, root_positions=result.root_positions + up)
        for s, side in enumerate(SIDES):
            held = SO3(np.broadcast_to(turns[s].wxyz, (len(result), 4)))
            result = solve_two_bone(
                result, f"{side}_leg", targets[s], end_rotations=held, stretch=MAX_LEG_EXTENSION
            ).motion
    return result
