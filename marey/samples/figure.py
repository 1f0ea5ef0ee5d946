"""A synthetic figure: planted steps that roll from heel to toe, a whole body from feet, arms and centre of mass, picks.

Nothing here was captured. A body that picks a thing up leans and sinks along one curve until its shoulder is near;
the centre of mass stays over the feet, the feet stay where they are, and the hand goes to the thing and back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, frozen
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass
from marey.numerics import smootherstep
from marey.skeleton import Pose, Skeleton, contact_points, foot_points

FLAT_TOL_RAD = 0.02  # a foot turned by less than a degree counts as flat on the ground
SOLE_CLEARANCE_M = 0.014  # [m] of every point of the sole in the middle of a swing; captured toes pass at 1 to 2 cm
SWING_MIDDLE = (0.15, 0.85)  # part of a swing in which the sole is clear


@dataclass(frozen=True, slots=True)
class StanceRoll:
    """How a foot rolls over the ground during one stance; pitch is positive with the heel up."""

    strike_rad: float = -0.35  # pitch when the heel lands
    flat_from: float = 0.14  # part of the stance after which the foot is flat
    lift_from: float = 0.55  # part of the stance after which the heel lifts
    leave_rad: float = 1.0  # pitch when the toe leaves


@dataclass(frozen=True, slots=True)
class StanceStep:
    """One stance: from ``down_s`` to ``up_s`` the foot is planted, ankle above ``(x, z)``."""

    down_s: float
    up_s: float
    x: float  # [m]
    z: float  # [m]
    roll: StanceRoll


@dataclass(frozen=True, slots=True, eq=False)
class FootTrack:
    """A foot over time."""

    ankle: FloatArray  # (F, 3) [m] in world
    pitch: FloatArray  # (F,) [rad] of the foot, heel up positive
    toe_pitch: FloatArray  # (F,) [rad] of the toes in world
    heel_down: BoolArray  # (F,)
    toe_down: BoolArray  # (F,)


@dataclass(frozen=True, slots=True, eq=False)
class FootShape:
    """Pivots of a foot that stands flat, seen from its ankle."""

    heel: FloatArray  # (3,) [m] where the heel touches the ground
    ball: FloatArray  # (3,) [m] the toe joint
    tip: FloatArray  # (3,) [m] where the toes touch the ground, from the ball
    ankle_height_m: float

    @classmethod
    def from_skeleton(cls, skeleton: Skeleton, side: str) -> FootShape:
        """Measure the rest pose, in which the foot stands flat with its sole at height zero."""
        points = contact_points(skeleton)
        heel = points.offsets[points.names.index(f"{side}_heel")]
        sole = foot_points(skeleton)
        tip = sole.offsets[sole.index(f"{side}_toe_end")]
        height = float(skeleton.rest_positions()[skeleton.index(f"{side}_ankle"), 1])
        return cls(heel, skeleton.offsets[skeleton.index(f"{side}_foot")], tip, height)


def track_foot(times: FloatArray, steps: list[StanceStep], shape: FootShape, clearance_m: float) -> FootTrack:
    """Follow the steps: stances as planned, swings as cubic curves that keep position and velocity.

    A swinging ankle rises by ``clearance_m`` over its curve, and by more where the sole would pass below 14 mm.
    """
    ankle, pitch, toes = np.zeros((len(times), 3)), np.zeros(len(times)), np.zeros(len(times))
    heel_down, toe_down = np.zeros(len(times), dtype=bool), np.zeros(len(times), dtype=bool)
    for step in steps:
        # Stance: the toes stay flat while the heel is up
        on = (times >= step.down_s) & (times <= step.up_s)
        part = (times[on] - step.down_s) / (step.up_s - step.down_s)
        ankle[on], pitch[on] = _stance_track(step, part, shape)
        toes[on] = np.minimum(pitch[on], 0.0)
        heel_down[on] = pitch[on] < FLAT_TOL_RAD
        toe_down[on] = pitch[on] > -FLAT_TOL_RAD
    for step, following in pairwise(steps):
        # Swing: a cubic that keeps position and velocity of the stances on either side
        off = (times > step.up_s) & (times < following.down_s)
        part = (times[off] - step.up_s) / (following.down_s - step.up_s)
        duration = following.down_s - step.up_s
        before, after = _stance_end(step, shape, 1.0), _stance_end(following, shape, 0.0)
        u = part[:, None]
        a = before[0]
        rise = u * u * (3.0 - 2.0 * u)
        curve = (
            a
            + rise * (after[0] - a)
            + u * (1.0 - u) ** 2 * (before[1] * duration)
            - u * u * (1.0 - u) * (after[1] * duration)
        )
        ankle_track, pitch_track = curve[:, :3], curve[:, 3]
        relaxed = np.clip(part / 0.6, 0.0, 1.0)
        toe_track = pitch_track * relaxed**2 * (3.0 - 2.0 * relaxed)
        # Highest at 0.4 of the swing, and as high as the lowest point of the sole asks
        bump = (3125.0 / 108.0) * part**2 * (1.0 - part) ** 3
        middle = (part >= SWING_MIDDLE[0]) & (part <= SWING_MIDDLE[1])
        # Height (F,) [m] of the lowest of heel, ball and toes over the ankle; pitches [rad] with the heel up
        foot, toe_ends = (SO3.exp(angle[:, None] * np.array([1.0, 0.0, 0.0])) for angle in (pitch_track, toe_track))
        under_ball = np.array([0.0, shape.tip[1], 0.0])  # the sole below the toe joint
        ball = foot @ shape.ball
        points = (foot @ shape.heel, ball + foot @ under_ball, ball + toe_ends @ shape.tip)
        lacking = SOLE_CLEARANCE_M - ankle_track[:, 1] - np.min([point[:, 1] for point in points], axis=0)
        ankle_track[:, 1] += max(clearance_m, float((lacking / bump)[middle].max(initial=0.0))) * bump
        ankle[off], pitch[off], toes[off] = ankle_track, pitch_track, toe_track
    return FootTrack(ankle, pitch, toes, heel_down, toe_down)


def _stance_track(step: StanceStep, part: FloatArray, shape: FootShape) -> tuple[FloatArray, FloatArray]:
    """Ankle and pitch over one stance: about the heel while landing, about the ball while leaving."""
    roll = step.roll
    landing = np.clip(part / roll.flat_from, 0.0, 1.0)
    leaving = np.clip((part - roll.lift_from) / (1.0 - roll.lift_from), 0.0, 1.0)
    pitch = roll.strike_rad * (1.0 - landing) ** 2 * (1.0 + 2.0 * landing) + roll.leave_rad * leaving**2
    pivot = np.where((pitch < 0.0)[:, None], shape.heel, shape.ball)
    flat = np.array([step.x, shape.ankle_height_m, step.z])
    ankle = flat + pivot - SO3.exp(pitch[:, None] * np.array([1.0, 0.0, 0.0])) @ pivot
    return ankle, pitch


def _stance_end(step: StanceStep, shape: FootShape, part: float) -> tuple[FloatArray, FloatArray]:
    """Ankle and pitch at an end of a stance, and their rates, by a one-sided difference."""
    h = 1e-5 if part == 0.0 else -1e-5
    ankle, pitch = _stance_track(step, np.array([part, part + h]), shape)
    state = np.concatenate([ankle, pitch[:, None]], axis=1)
    return state[0], (state[1] - state[0]) / (h * (step.up_s - step.down_s))


REACH_TOL_M = 5e-4  # a planted ankle that misses its place by less is not seen to slide
LOWERING_M = 0.004
COM_PASSES = 4  # each pass reduces the error of the centre of mass about tenfold
KNEE_HINT_RAD = 0.6  # bends the knee forward, which defines the plane of the leg solver
X_AXIS, Y_AXIS, Z_AXIS = np.eye(3)


@dataclass(frozen=True, slots=True, eq=False)
class BodyTargets:
    """Targets of a body, frame by frame ``(F,)`` or ``(F, 3)``; angles in radian."""

    com: FloatArray  # (F, 3) [m] centre of mass
    feet: dict[str, FootTrack]  # "left", "right"
    pelvis_yaw: FloatArray  # (F,) positive to the left
    pelvis_roll: FloatArray  # (F,) positive with the right hip down
    lean: FloatArray  # (F,) of the trunk, positive forward
    arm_flexion: dict[str, FloatArray]  # (F,) upper arm, positive forward
    arm_out_rad: float
    elbow: dict[str, FloatArray]  # (F,) flexion


def pose_body(skeleton: Skeleton, rate_hz: float, targets: BodyTargets, *, name: str) -> Motion:
    """Pose the canonical human so that feet and centre of mass meet their targets.

    Where a leg is too short, the whole clip is lowered until it reaches; a constant shift needs no force.
    """
    motion, missing_m = _match_centre_of_mass(skeleton, rate_hz, targets, name)
    while missing_m > REACH_TOL_M and targets.com[0, 1] > 0.0:
        targets = replace(targets, com=targets.com - np.array([0.0, LOWERING_M, 0.0]))
        motion, missing_m = _match_centre_of_mass(skeleton, rate_hz, targets, name)
    # Contacts as planned; hands touch nothing
    tracks = {f"{side}_heel": foot.heel_down for side, foot in targets.feet.items()}
    tracks |= {f"{side}_toe": foot.toe_down for side, foot in targets.feet.items()}
    names = ("left_heel", "left_toe", "right_heel", "right_toe", "left_hand", "right_hand")
    hands = np.zeros(len(targets.com), dtype=bool)
    return replace(motion, contacts=Contacts(names, np.stack([tracks.get(name, hands) for name in names], axis=1)))


def _match_centre_of_mass(skeleton: Skeleton, rate_hz: float, targets: BodyTargets, name: str) -> tuple[Motion, float]:
    """Shift the root until the centre of mass meets its target."""
    root = targets.com + np.array([0.0, 0.02, 0.0])
    motion, missing_m = _pose_with_root(skeleton, rate_hz, targets, root, name)
    for _ in range(COM_PASSES):
        root = root + targets.com - centre_of_mass(motion)
        motion, missing_m = _pose_with_root(skeleton, rate_hz, targets, root, name)
    return motion, missing_m


def _pose_with_root(
    skeleton: Skeleton, rate_hz: float, targets: BodyTargets, root: FloatArray, name: str
) -> tuple[Motion, float]:
    """The body with its root at ``root``, and by how much a planted ankle misses its place at worst [m]."""
    frames = len(root)
    local = np.tile(SO3.identity(skeleton.num_joints).wxyz, (frames, 1, 1))
    pelvis = (
        _rotation_about(Y_AXIS, targets.pelvis_yaw)
        @ _rotation_about(Z_AXIS, targets.pelvis_roll)
        @ _rotation_about(X_AXIS, 0.3 * targets.lean)
    )
    local[:, 0] = pelvis.wxyz
    # Undo the pelvis's roll and twice its yaw over three joints, so that shoulders counter the hips
    third = 1.0 / 3.0
    for joint in ("spine1", "spine2", "spine3"):
        turn = _rotation_about(Y_AXIS, -2.0 * third * targets.pelvis_yaw) @ _rotation_about(
            Z_AXIS, -third * targets.pelvis_roll
        )
        local[:, skeleton.index(joint)] = (turn @ _rotation_about(X_AXIS, 0.7 * third * targets.lean)).wxyz
    # The head looks ahead
    for joint in ("neck", "head"):
        back = _rotation_about(X_AXIS, -0.45 * targets.lean) @ _rotation_about(Y_AXIS, 0.5 * targets.pelvis_yaw)
        local[:, skeleton.index(joint)] = back.wxyz
    # Arms as asked for; knees bent a little, which defines the plane of the leg solver
    for side, foot in targets.feet.items():
        sign = 1.0 if side == "left" else -1.0
        hang = SO3.from_axis_angle(Z_AXIS, -sign * (0.5 * np.pi - targets.arm_out_rad))
        local[:, skeleton.index(f"{side}_shoulder")] = (_rotation_about(X_AXIS, -targets.arm_flexion[side]) @ hang).wxyz
        local[:, skeleton.index(f"{side}_elbow")] = _rotation_about(Y_AXIS, -sign * targets.elbow[side]).wxyz
        local[:, skeleton.index(f"{side}_knee")] = SO3.exp(KNEE_HINT_RAD * X_AXIS).wxyz
        local[:, skeleton.index(f"{side}_foot")] = _rotation_about(X_AXIS, foot.toe_pitch - foot.pitch).wxyz
    # Legs by two-bone kinematics
    motion, missing_m = Motion(skeleton, rate_hz, root, SO3(local), name=name), 0.0
    for side, foot in targets.feet.items():
        solved = solve_two_bone(motion, f"{side}_leg", foot.ankle, end_rotations=_rotation_about(X_AXIS, foot.pitch))
        planted = foot.heel_down | foot.toe_down
        motion, missing_m = solved.motion, max(missing_m, float(solved.position_error_m[planted].max()))
    return motion, missing_m


def _rotation_about(axis: FloatArray, angle: FloatArray) -> SO3:
    return SO3.exp(angle[:, None] * axis)


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
