"""From feet, arms and a wish for the centre of mass to a whole body on the canonical human."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Contacts, Motion, centre_of_mass
from marey.samples._feet import FootTrack
from marey.skeleton import Skeleton, joint_frames

COM_PASSES = 4  # each pass brings the centre of mass about ten times nearer to its wish
X_AXIS, Y_AXIS, Z_AXIS = np.eye(3)


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What a body shall do, frame by frame ``(F,)`` or ``(F, 3)``; angles in radian."""

    com: FloatArray  # (F, 3) [m] centre of mass
    feet: dict[str, FootTrack]  # "left", "right"
    pelvis_yaw: FloatArray  # (F,) positive to the left
    pelvis_roll: FloatArray  # (F,) positive with the right hip down
    lean: FloatArray  # (F,) of the trunk, positive forward
    arm_flexion: dict[str, FloatArray]  # (F,) upper arm, positive forward
    arm_out_rad: float
    elbow: dict[str, FloatArray]  # (F,) flexion


def pose_body(skeleton: Skeleton, rate_hz: float, wish: Wish, *, name: str) -> Motion:
    """Pose the canonical human so that feet are where they shall be and the centre of mass too."""
    root = wish.com + np.array([0.0, 0.02, 0.0])
    motion = _pose(skeleton, rate_hz, wish, root, name)
    for _ in range(COM_PASSES):
        root = root + wish.com - centre_of_mass(motion)
        motion = _pose(skeleton, rate_hz, wish, root, name)
    return replace(motion, contacts=_contacts(wish))


def _pose(skeleton: Skeleton, rate_hz: float, wish: Wish, root: FloatArray, name: str) -> Motion:
    frames = len(root)
    local = np.tile(SO3.identity(skeleton.num_joints).wxyz, (frames, 1, 1))
    pelvis = _turn(Y_AXIS, wish.pelvis_yaw) @ _turn(Z_AXIS, wish.pelvis_roll) @ _turn(X_AXIS, 0.3 * wish.lean)
    local[:, 0] = pelvis.wxyz
    _place_trunk(skeleton, local, wish)
    for side in ("left", "right"):
        _place_arm(skeleton, local, wish, side)
        _place_leg(skeleton, local, root, wish.feet[side], side)
    return Motion(skeleton, rate_hz, root, SO3(local), name=name)


def _place_trunk(skeleton: Skeleton, local: FloatArray, wish: Wish) -> None:
    """Undo the pelvis's roll and twice its yaw over three joints, so that shoulders counter the hips."""
    third = 1.0 / 3.0
    for joint in ("spine1", "spine2", "spine3"):
        turn = _turn(Y_AXIS, -2.0 * third * wish.pelvis_yaw) @ _turn(Z_AXIS, -third * wish.pelvis_roll)
        local[:, skeleton.index(joint)] = (turn @ _turn(X_AXIS, 0.7 * third * wish.lean)).wxyz
    for joint in ("neck", "head"):
        back = _turn(X_AXIS, -0.45 * wish.lean) @ _turn(Y_AXIS, 0.5 * wish.pelvis_yaw)
        local[:, skeleton.index(joint)] = back.wxyz


def _place_arm(skeleton: Skeleton, local: FloatArray, wish: Wish, side: str) -> None:
    sign = 1.0 if side == "left" else -1.0
    hang = SO3.from_axis_angle(Z_AXIS, -sign * (0.5 * np.pi - wish.arm_out_rad))
    local[:, skeleton.index(f"{side}_shoulder")] = (_turn(X_AXIS, -wish.arm_flexion[side]) @ hang).wxyz
    local[:, skeleton.index(f"{side}_elbow")] = _turn(Y_AXIS, -sign * wish.elbow[side]).wxyz


def _place_leg(skeleton: Skeleton, local: FloatArray, root: FloatArray, foot: FootTrack, side: str) -> None:
    hip, knee, ankle, toe = (skeleton.index(f"{side}_{part}") for part in ("hip", "knee", "ankle", "foot"))
    positions, _ = joint_frames(skeleton, root, local)
    upright, bend = _reach(skeleton.offsets[knee], skeleton.offsets[ankle], foot.ankle - positions[:, hip])
    pelvis = SO3(local[:, 0])
    local[:, hip] = (pelvis.inverse() @ upright).wxyz
    local[:, knee] = bend.wxyz
    world_foot = _turn(X_AXIS, foot.pitch)
    local[:, ankle] = ((upright @ bend).inverse() @ world_foot).wxyz
    local[:, toe] = (world_foot.inverse() @ _turn(X_AXIS, foot.toe_pitch)).wxyz


def _turn(axis: FloatArray, angle: FloatArray) -> SO3:
    return SO3.exp(angle[:, None] * axis)


def _contacts(wish: Wish) -> Contacts:
    names, tracks = [], []
    for side in ("left", "right"):
        names += [f"{side}_heel", f"{side}_toe"]
        tracks += [wish.feet[side].heel_down, wish.feet[side].toe_down]
    nothing = np.zeros_like(tracks[0])
    return Contacts((*names, "left_hand", "right_hand"), np.stack([*tracks, nothing, nothing], axis=1))


def _reach(thigh: FloatArray, shank: FloatArray, target: FloatArray) -> tuple[SO3, SO3]:
    """Thigh in world and knee bend about x, so that the shank's end is at ``target`` from the hip.

    The knee is a hinge: |thigh + R_x(b) shank| = |target| is ``p + q cos b + r sin b = 0``.
    """
    longest = 0.998 * np.linalg.norm(thigh + shank)
    distance = np.linalg.norm(target, axis=1)
    wanted = np.minimum(distance, longest)
    q = thigh[1] * shank[1] + thigh[2] * shank[2]
    r = thigh[2] * shank[1] - thigh[1] * shank[2]
    rest = thigh @ thigh + shank @ shank + 2.0 * thigh[0] * shank[0]
    cosine = np.clip((wanted**2 - rest) / (2.0 * np.hypot(q, r)), -1.0, 1.0)
    bend = _turn(X_AXIS, np.arctan2(r, q) + np.arccos(cosine))
    straight = thigh + bend @ np.broadcast_to(shank, target.shape)
    sideways = np.broadcast_to(X_AXIS, target.shape)
    return SO3.from_matrix(_frame(target, sideways) @ np.swapaxes(_frame(straight, sideways), -1, -2)), bend


def _frame(along: FloatArray, side: FloatArray) -> FloatArray:
    e1 = along / np.linalg.norm(along, axis=-1, keepdims=True)
    e2 = side - np.einsum("ij,ij->i", side, e1)[:, None] * e1
    e2 = e2 / np.linalg.norm(e2, axis=-1, keepdims=True)
    return np.stack([e1, e2, np.cross(e1, e2)], axis=-1)
