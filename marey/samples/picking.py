"""Picking things up from a stand, by inverse kinematics: knees and trunk bend no farther than the arm needs.

Nothing here was captured. A body that stands leans and sinks along one curve until its shoulder is near enough; the
centre of mass stays over the feet, the feet stay where they are, and the hand goes to the thing and back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass
from marey.numerics import smootherstep
from marey.skeleton import Pose, contact_points

SIDES: Final = ("left", "right")
ARM_USE: Final = 0.9  # [-] of its length that an arm stretches before the trunk helps
REACH_ROOM: Final = 0.05  # [-] beyond that on the way to the thing
LEAN_RAD: Final = 1.75  # of the upper trunk against upright, when bent as far as it goes
LATER: Final = 1.4  # [-] power by which knees bend later than the trunk
SINK: Final = 0.46  # and how much lower the pelvis is then, as a part of its height
HIP_SHARE: Final = 0.6  # of the lean that the hips make; the spine makes the rest
BALANCE_PASSES: Final = 4
TRIES: Final = 41
HAND_PASSES: Final = 8
HAND_LATER: Final = 1.5  # [-] power by which the hand comes later than the trunk
HANGING_FRACTION: Final = 0.85  # [-] of the lean that hanging arms undo
SOON: Final = 0.3  # [-] part of the way in which a hanging arm bends a little
ELBOW: Final = 0.5  # [-] of the lean by which elbows bend: an arm pulled straight would snap
LOOK: Final = 0.15  # [-] of the lean by which neck and head each look up again
FORWARD_RAD: Final = 0.25  # by which the reaching shoulder comes forward
TWIST: Final = 0.3  # [-] of the direction to the thing by which the trunk turns
HOLD_S: Final = 0.2
BEND_S: Final = (0.7, 0.6)  # [s] a reach without any bend, and how much longer the deepest takes
CONTACTS: Final = ("left_heel", "left_toe", "right_heel", "right_toe", "picked_left_hand", "picked_right_hand")
X_AXIS, Y_AXIS, _ = np.eye(3)


def pick_up(
    stand: Pose, thing: ArrayLike, hand: str = "right", *, rate_hz: float = 60.0, still_s: float = 0.4
) -> Motion:
    """A clip in which a body that stands picks something up and stands again.

    The contact track has, beside heels and toes, the hand that picks: ``picked_left_hand`` or ``picked_right_hand``.

    Args:
        stand: upright pose of the canonical human on both feet, facing +Z; the feet stay where they are.
        thing: its place ``(3,)`` [m] in the world.
        hand: "left" or "right".
        rate_hz: frames per second.
        still_s: seconds of standing before and after.

    Raises:
        InputError: the thing is out of reach.
    """
    if hand not in SIDES:
        raise UnknownNameError("hand", hand, "a body", SIDES)
    goal = frozen(np.asarray(thing, dtype=np.float64), 3, name="thing")
    # Least bend that brings the shoulder near enough, of many that are tried, and the twist [rad] of the trunk
    middle = stand.root_position
    twist = TWIST * float(np.clip(np.arctan2(goal[0] - middle[0], max(goal[2] - middle[2], 0.1)), -1.0, 1.0))
    twist += FORWARD_RAD if hand == "right" else -FORWARD_RAD
    shares = np.linspace(0.0, 1.0, TRIES)
    # How much nearer `(F,)` [m] than an arm's use the shoulder is to the thing
    body_bend = _bend_body(stand, shares, np.full(TRIES, twist), 1.0)
    shoulder = body_bend.joint_positions()[:, body_bend.skeleton.index(f"{hand}_shoulder")]
    spare = ARM_USE * _arm_length(body_bend, hand) - np.linalg.norm(goal - shoulder, axis=1)
    enough = np.flatnonzero(spare >= 0.0)
    first = int(enough[0]) if len(enough) else TRIES - 1
    rise = spare[first] - spare[first - 1] if first else 1.0
    share = float(shares[first] - (spare[first] / rise / (TRIES - 1) if first and spare[first] > 0.0 else 0.0))
    # Down, hold, up: a deeper bend takes longer
    half_s = BEND_S[0] + BEND_S[1] * share
    times = np.arange(round((2.0 * (still_s + half_s) + HOLD_S) * rate_hz) + 1) / rate_hz
    near = smootherstep((np.minimum(times, times[-1] - times) - still_s) / half_s)
    body = _bend_body(stand, near * share, near * twist, rate_hz)
    # Lead the palm from where it hangs to the thing and back; also by how much it misses the thing [m]
    wrist = body.skeleton.index(f"{hand}_wrist")
    hangs = _palm(body, hand)
    way = hangs + near[:, None] ** HAND_LATER * (goal - hangs)
    # A way (F, 3) [m] of the palm, drawn in smoothly where it would pull the arm straight
    joint = body.joint_positions()[:, body.skeleton.index(f"{hand}_shoulder")]
    away = way - joint
    distance: FloatArray = np.maximum(np.linalg.norm(away, axis=1), 1e-9)[:, None]
    use, room = ARM_USE * _arm_length(body, hand), REACH_ROOM * _arm_length(body, hand)
    drawn: FloatArray = np.where(distance > use, use + room * np.tanh((distance - use) / room), distance)
    shorter = joint + away * (drawn / distance)
    way = way + smootherstep(near / SOON)[:, None] * (shorter - way)
    motion = body
    for _ in range(HAND_PASSES):
        target = way - (_palm(motion, hand) - motion.joint_positions()[:, wrist])
        motion = solve_two_bone(motion, f"{hand}_arm", target, keep_end=False, stretch=0.9995).motion
    missed_m = float(np.linalg.norm(_palm(motion, hand)[near >= 1.0] - goal, axis=1).max())
    if missed_m > 1e-3:
        raise InputError(f"the thing at {goal.round(2).tolist()} is out of reach", "Stand nearer to it")
    name = f"pick-{hand}-{goal[1]:.2f}-{goal[2]:.2f}-{abs(goal[0]):.2f}"
    # Both feet touch all the time, the hand while it is at the thing
    touch = near >= 1.0
    feet = np.ones((len(touch), 4), dtype=bool)
    hands = np.stack([touch & (hand == side) for side in SIDES], axis=1)
    return replace(motion, contacts=Contacts(CONTACTS, np.concatenate([feet, hands], axis=1)), name=name)


def _bend_body(stand: Pose, share: FloatArray, twist: FloatArray, rate_hz: float) -> Motion:
    """The body bent by shares ``(F,)``: trunk, neck and arms first, then the pelvis for balance, then the legs."""
    skeleton, frames = stand.skeleton, len(share)
    local = np.tile(stand.rotations.wxyz, (frames, 1, 1))
    # The trunk leans and twists, the head looks up, the arms hang
    lean = LEAN_RAD * share
    _rotate_joint(local, skeleton.index("pelvis"), X_AXIS, HIP_SHARE * lean)
    for name in ("spine1", "spine2", "spine3"):
        _rotate_joint(local, skeleton.index(name), X_AXIS, (1.0 - HIP_SHARE) / 3.0 * lean)
        _rotate_joint(local, skeleton.index(name), Y_AXIS, twist / 3.0)
    for name in ("neck", "head"):
        _rotate_joint(local, skeleton.index(name), X_AXIS, -LOOK * lean)
    for side in SIDES:
        _rotate_joint(local, skeleton.index(f"{side}_shoulder"), X_AXIS, -HANGING_FRACTION * lean)
        flexed = ELBOW * lean if side == "right" else -ELBOW * lean
        _rotate_joint(local, skeleton.index(f"{side}_elbow"), Y_AXIS, flexed)
    sunk = stand.root_position - np.outer(SINK * stand.root_position[1] * share**LATER, Y_AXIS)
    # The root moves until the centre of mass is over the feet as in the stand
    wished = centre_of_mass(Motion(skeleton, 1.0, stand.root_position[None], stand.rotations[None]))[0]
    motion = Motion(skeleton, rate_hz, sunk, SO3(local))
    for _ in range(BALANCE_PASSES):
        motion = _hold_feet(motion, stand)
        aside = (wished - centre_of_mass(motion)) * (1.0, 0.0, 1.0)
        motion = replace(motion, root_positions=motion.root_positions + aside)
    return _hold_feet(motion, stand)


def _rotate_joint(local: FloatArray, joint: int, axis: FloatArray, angle: FloatArray) -> None:
    """Turn a joint about an axis of its parent's frame, in place."""
    local[:, joint] = (SO3.exp(angle[:, None] * axis) @ SO3(local[:, joint])).wxyz


def _hold_feet(motion: Motion, stand: Pose) -> Motion:
    """Put the feet where they stand."""
    frames, places = stand.joint_rotations(), stand.joint_positions()
    for side in SIDES:
        ankle = stand.skeleton.index(f"{side}_ankle")
        flat = SO3(np.tile(frames.wxyz[ankle], (motion.num_frames, 1)))
        motion = solve_two_bone(motion, f"{side}_leg", places[ankle], end_rotations=flat, stretch=0.9995).motion
    return motion


def _palm(body: Motion, hand: str) -> FloatArray:
    """Where the palm is ``(F, 3)`` [m]."""
    points = contact_points(body.skeleton)
    positions, frames = body.joint_frames()
    return points.positions(positions, frames)[:, points.index(f"{hand}_hand")]


def _arm_length(body: Motion, hand: str) -> float:
    """From the shoulder to the palm of a straight arm [m]."""
    bones = body.skeleton.offsets[[body.skeleton.index(f"{hand}_{part}") for part in ("elbow", "wrist")]]
    points = contact_points(body.skeleton)
    palm = points.offsets[points.index(f"{hand}_hand")]
    return float(np.linalg.norm(bones, axis=1).sum() + np.linalg.norm(palm))
