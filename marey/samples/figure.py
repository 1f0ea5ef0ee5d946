"""A synthetic figure: planted steps that roll from heel to toe, and a whole body from feet, arms and centre of mass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass
from marey.skeleton import Skeleton, contact_points, foot_points

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
