"""From feet, arms and a wish for the centre of mass to a whole body on the canonical human."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass
from marey.samples._feet import FootTrack
from marey.skeleton import Skeleton

REACH_TOL_M = 5e-4  # a planted ankle that misses its place by less is not seen to slide
LOWERING_M = 0.004
COM_PASSES = 4  # each pass brings the centre of mass about ten times nearer to its wish
KNEE_HINT_RAD = 0.6  # bends the knee forward, which tells the leg solver its plane
X_AXIS, Y_AXIS, Z_AXIS = np.eye(3)


@dataclass(frozen=True, slots=True, eq=False)
class BodyTargets:
    """What a body shall do, frame by frame ``(F,)`` or ``(F, 3)``; angles in radian."""

    com: FloatArray  # (F, 3) [m] centre of mass
    feet: dict[str, FootTrack]  # "left", "right"
    pelvis_yaw: FloatArray  # (F,) positive to the left
    pelvis_roll: FloatArray  # (F,) positive with the right hip down
    lean: FloatArray  # (F,) of the trunk, positive forward
    arm_flexion: dict[str, FloatArray]  # (F,) upper arm, positive forward
    arm_out_rad: float
    elbow: dict[str, FloatArray]  # (F,) flexion


def pose_body(skeleton: Skeleton, rate_hz: float, wish: BodyTargets, *, name: str) -> Motion:
    """Pose the canonical human so that feet are where they shall be and the centre of mass too.

    Where a leg is too short for the wish, the whole clip is lowered until it reaches; a constant shift needs no force.
    """
    motion, missing_m = _match_centre_of_mass(skeleton, rate_hz, wish, name)
    while missing_m > REACH_TOL_M and wish.com[0, 1] > 0.0:
        wish = replace(wish, com=wish.com - np.array([0.0, LOWERING_M, 0.0]))
        motion, missing_m = _match_centre_of_mass(skeleton, rate_hz, wish, name)
    return replace(motion, contacts=_contacts(wish))


def _match_centre_of_mass(skeleton: Skeleton, rate_hz: float, wish: BodyTargets, name: str) -> tuple[Motion, float]:
    """Shift the root until the centre of mass is where it shall be."""
    root = wish.com + np.array([0.0, 0.02, 0.0])
    motion, missing_m = _pose_with_root(skeleton, rate_hz, wish, root, name)
    for _ in range(COM_PASSES):
        root = root + wish.com - centre_of_mass(motion)
        motion, missing_m = _pose_with_root(skeleton, rate_hz, wish, root, name)
    return motion, missing_m


def _pose_with_root(
    skeleton: Skeleton, rate_hz: float, wish: BodyTargets, root: FloatArray, name: str
) -> tuple[Motion, float]:
    """The body with its root at ``root``, and by how much a planted ankle misses its place at worst [m]."""
    frames = len(root)
    local = np.tile(SO3.identity(skeleton.num_joints).wxyz, (frames, 1, 1))
    pelvis = (
        _rotation_about(Y_AXIS, wish.pelvis_yaw)
        @ _rotation_about(Z_AXIS, wish.pelvis_roll)
        @ _rotation_about(X_AXIS, 0.3 * wish.lean)
    )
    local[:, 0] = pelvis.wxyz
    _place_trunk(skeleton, local, wish)
    for side, foot in wish.feet.items():
        _place_arm(skeleton, local, wish, side)
        local[:, skeleton.index(f"{side}_knee")] = SO3.exp(KNEE_HINT_RAD * X_AXIS).wxyz
        local[:, skeleton.index(f"{side}_foot")] = _rotation_about(X_AXIS, foot.toe_pitch - foot.pitch).wxyz
    motion, missing_m = Motion(skeleton, rate_hz, root, SO3(local), name=name), 0.0
    for side, foot in wish.feet.items():
        solved = solve_two_bone(motion, f"{side}_leg", foot.ankle, end_rotations=_rotation_about(X_AXIS, foot.pitch))
        planted = foot.heel_down | foot.toe_down
        motion, missing_m = solved.motion, max(missing_m, float(solved.position_error_m[planted].max()))
    return motion, missing_m


def _place_trunk(skeleton: Skeleton, local: FloatArray, wish: BodyTargets) -> None:
    """Undo the pelvis's roll and twice its yaw over three joints, so that shoulders counter the hips."""
    third = 1.0 / 3.0
    for joint in ("spine1", "spine2", "spine3"):
        turn = _rotation_about(Y_AXIS, -2.0 * third * wish.pelvis_yaw) @ _rotation_about(
            Z_AXIS, -third * wish.pelvis_roll
        )
        local[:, skeleton.index(joint)] = (turn @ _rotation_about(X_AXIS, 0.7 * third * wish.lean)).wxyz
    for joint in ("neck", "head"):
        back = _rotation_about(X_AXIS, -0.45 * wish.lean) @ _rotation_about(Y_AXIS, 0.5 * wish.pelvis_yaw)
        local[:, skeleton.index(joint)] = back.wxyz


def _place_arm(skeleton: Skeleton, local: FloatArray, wish: BodyTargets, side: str) -> None:
    sign = 1.0 if side == "left" else -1.0
    hang = SO3.from_axis_angle(Z_AXIS, -sign * (0.5 * np.pi - wish.arm_out_rad))
    local[:, skeleton.index(f"{side}_shoulder")] = (_rotation_about(X_AXIS, -wish.arm_flexion[side]) @ hang).wxyz
    local[:, skeleton.index(f"{side}_elbow")] = _rotation_about(Y_AXIS, -sign * wish.elbow[side]).wxyz


def _rotation_about(axis: FloatArray, angle: FloatArray) -> SO3:
    return SO3.exp(angle[:, None] * axis)


def _contacts(wish: BodyTargets) -> Contacts:
    tracks = {f"{side}_heel": foot.heel_down for side, foot in wish.feet.items()}
    tracks |= {f"{side}_toe": foot.toe_down for side, foot in wish.feet.items()}
    names = ("left_heel", "left_toe", "right_heel", "right_toe", "left_hand", "right_hand")
    hands = np.zeros(len(wish.com), dtype=bool)
    return Contacts(names, np.stack([tracks.get(name, hands) for name in names], axis=1))
