"""Placement of a clip: heading, ground height, speed, relative root motion; absolute and relative configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.lie import SE3, SO3
from marey.motion.clip import Motion
from marey.motion.time_series import lowpass_values
from marey.skeleton import (
    NO_PARENT,
    Anatomy,
    RoleMap,
    Skeleton,
    assess_anatomy,
    contact_points,
    foot_points,
    joint_positions,
    role_map,
    t_pose,
)

UP = np.array([0.0, 1.0, 0.0])
SAMPLED_FRAMES: Final = 24  # sufficient to assess the posture of a clip
_ACROSS = (("left_hip", "right_hip"), ("left_shoulder", "right_shoulder"))


def headings(motion: Motion, roles: RoleMap | None = None) -> FloatArray:
    r"""Yaw of the facing direction ``(F,)`` [rad]: 0 is +Z, positive towards +X, continuous in time.

    The body's left :math:`\ell` is the mean of the right-to-left vectors between hips and between shoulders, and it
    faces :math:`f = \ell \times e_y`, which is level, so the yaw is defined for a body bent forward or lying on its
    front. While :math:`\ell` is nearly vertical (a cartwheel, lying on a side) the yaw is interpolated. A skeleton
    without these roles faces the +Z axis of its root.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    pairs = [(roles[a], roles[b]) for a, b in _ACROSS if a in roles and b in roles]
    if pairs:
        left, right = map(list, zip(*pairs, strict=True))
        lines = motion.map_frames(lambda positions, _: positions[:, left] - positions[:, right])
        lines /= np.maximum(np.linalg.norm(lines, axis=-1, keepdims=True), 1e-9)
        across = lines.sum(axis=1)
    else:
        across = motion.rotations[:, 0] @ np.array([1.0, 0.0, 0.0])
    # Only frames in which that line is nearly level define the yaw
    level = np.hypot(across[:, 0], across[:, 2])
    sure = level > 0.3 * np.linalg.norm(across, axis=1)
    if not sure.any():
        sure = level >= level.max()
    yaw = np.unwrap(np.arctan2(-across[sure, 2], across[sure, 0]))
    frames = np.arange(len(across))
    return np.asarray(np.interp(frames, frames[sure], yaw), dtype=np.float64)


def place(
    motion: Motion,
    position: Sequence[float] | None = None,
    heading: float | None = None,
    *,
    frame: int = 0,
) -> Motion:
    """Move a clip over the ground so that at ``frame`` its pelvis is at ``position`` and its body faces ``heading``.

    Args:
        motion: any clip.
        position: ``(x, z)`` [m]; unchanged by default.
        heading: yaw [rad], 0 is +Z, positive towards +X; unchanged by default.
        frame: reference frame; negative numbers count from the end.
    """
    if not -motion.num_frames <= frame < motion.num_frames:
        raise InputError(f"frame {frame} of a motion of {motion.num_frames} frames")
    here = pelvis_positions(motion)[frame] * [1.0, 0.0, 1.0]
    there = here if position is None else np.insert(frozen(position, 2, name="position"), 1, 0.0)
    turn = 0.0 if heading is None else float(heading) - float(headings(motion)[frame])
    return transform_motion(motion, turn, here, there)


def transform_motion(motion: Motion, turn_rad: float, here: FloatArray, there: FloatArray) -> Motion:
    """Rotate a clip by ``turn_rad`` about the vertical through ``here`` and move ``here`` to ``there`` (3,) [m]."""
    R_turn = SO3.exp(turn_rad * UP)
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = (R_turn @ motion.rotations[:, 0]).wxyz
    return replace(
        motion,
        root_positions=R_turn @ (motion.root_positions - here) + there,
        rotations=SO3(wxyz),
        source=motion.edited_source(),
    )


SLOW_MPS: Final = 0.3  # points of standing feet are slower, points of swinging feet rarely
SMOOTHING_HZ: Final = 10.0
FLOOR_PERCENT: Final = 30.0  # of resting heights: below the median, since feet also rest on stairs, seats and boxes
SHOULDER_SHARE: Final = 0.818  # height of the shoulders over stature, for a body without a head ([Drillis1966]_)
HEAD_SHARE: Final = 0.890  # height of the head joint over stature, for a head without a tip: as in HUMAN


def ground_height(motion: Motion) -> float:
    """Height of the floor [m], estimated for the whole clip.

    The 30th percentile of the heights of the lowest slow point of the feet (heels and balls). Standing feet are slow
    and mostly on the floor, so the estimate is robust against a few frames below it and against steps, seats and boxes
    above it. Without standing feet: the height below which the body descends in 2 % of the frames.
    """
    # Smoothed heels and balls of the feet; toe ends are too noisy in captures
    feet = foot_points(motion.skeleton)
    steady = [k for k, name in enumerate(feet.names) if not name.endswith("toe_end")]
    points = feet.positions(*motion.joint_frames())[:, steady] if steady else motion.joint_positions()
    if steady and motion.rate_hz > 2.5 * SMOOTHING_HZ:
        points = lowpass_values(points, motion.rate_hz, SMOOTHING_HZ)
    if steady:
        speeds = np.zeros(points.shape[:2])
        if len(points) > 1:
            speeds = np.linalg.norm(np.gradient(points, axis=0), axis=-1) * motion.rate_hz
        slow = speeds < SLOW_MPS
        resting = np.where(slow, points[..., 1], np.inf).min(axis=1)[slow.any(axis=1)]
        if len(resting) >= min(5, len(points)):
            return float(np.percentile(resting, FLOOR_PERCENT))
    return float(np.percentile(points[..., 1].min(axis=1), 2.0))


def align_to_ground(motion: Motion) -> Motion:
    """Move a clip up or down so that its floor is at height zero."""
    shift = np.array([0.0, ground_height(motion), 0.0])
    return replace(motion, root_positions=motion.root_positions - shift, source=motion.edited_source())


def standing_height(skeleton: Skeleton, roles: RoleMap | None = None) -> float:
    """Height from sole to crown [m] when the skeleton stands upright in the T-pose.

    If the head has no tip, or one that does not point up (such as a nose), the crown follows from the head joint by the
    proportions of the canonical human.
    """
    roles = role_map(skeleton) if roles is None else roles
    pose = t_pose(skeleton, roles)
    positions, R_world_joint = pose.joint_positions(), pose.joint_rotations()
    soles = foot_points(skeleton, roles).positions(positions, R_world_joint)
    tips = positions + R_world_joint @ skeleton.tips
    # The lowest point of the legs alone, since nodes above the pelvis, props and skirts may be lower
    legs = np.zeros(skeleton.num_joints, dtype=bool)
    legs[[roles[role] for role in ("left_hip", "right_hip") if role in roles]] = True
    for j in range(1, skeleton.num_joints):
        legs[j] |= legs[skeleton.parents[j]]
    legs |= not legs.any()
    low = float(min(positions[legs, 1].min(), soles[:, 1].min(initial=np.inf), tips[legs, 1].min()))
    head = roles.get("head")
    if head is not None and tips[head, 1] - positions[head, 1] < 1e-3 + 0.5 * float(
        np.linalg.norm(skeleton.tips[head])
    ):
        return float(positions[head, 1] - low) / HEAD_SHARE
    if head is not None:
        return float(tips[head, 1]) - low
    ends = () if "neck" in roles else ("left_shoulder", "right_shoulder")
    shoulders = [positions[roles[role], 1] for role in ends if role in roles]
    crowns = [low + float(y - low) / SHOULDER_SHARE for y in shoulders]
    return max(float(positions[:, 1].max()), float(tips[:, 1].max()), *crowns) - low


def assess_motion(motion: Motion) -> Anatomy:
    """Assess the anatomy of a clip by its rest pose, and by some of its frames if the rest pose is uninformative.

    The result is cached for the skeleton; its roles and calibration pose depend on it.
    """
    index = np.unique(np.linspace(0, motion.num_frames - 1, SAMPLED_FRAMES).astype(np.int64))
    moving = None if motion.translations is None else motion.translations[index]
    posed = joint_positions(motion.skeleton, motion.root_positions[index], motion.rotations.wxyz[index], moving)
    return assess_anatomy(motion.skeleton, posed, motion.rotations[index])


def pelvis_positions(motion: Motion) -> FloatArray:
    """Path ``(F, 3)`` [m] of the pelvis, which is the root unless a human has nodes above the pelvis."""
    anatomy = assess_anatomy(motion.skeleton)
    if not anatomy.is_human or not anatomy.pelvis:
        return motion.root_positions
    return motion.joint_positions()[:, anatomy.pelvis]


def root_speeds(motion: Motion) -> FloatArray:
    """Horizontal speed of the pelvis ``(F,)`` [m/s], by central differences."""
    if motion.num_frames == 1:
        return np.zeros(1)
    velocity = np.gradient(pelvis_positions(motion)[:, [0, 2]], axis=0) * motion.rate_hz
    return np.hypot(velocity[:, 0], velocity[:, 1])


def mean_speed(motion: Motion) -> float:
    """Length of the pelvis' horizontal path over the time it takes [m/s]; zero for one frame."""
    if motion.num_frames == 1:
        return 0.0
    steps = np.diff(pelvis_positions(motion)[:, [0, 2]], axis=0)
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum() / motion.duration_s)


def contact_positions(motion: Motion) -> FloatArray:
    """Contact points ``(F, K, 3)`` [m] in world, in the order of ``marey.skeleton.contact_points``."""
    origins, R_world_joint = motion.joint_frames()
    return contact_points(motion.skeleton).positions(origins, R_world_joint)


@dataclass(frozen=True, slots=True, eq=False)
class RelativeRoot:
    """Root motion of a clip with its ground path relative to the previous frame ([Safonova2006]_ §4.2)."""

    tilts: SO3  # (F,) root rotation without its yaw
    heights: FloatArray  # (F,) [m]
    steps: FloatArray  # (F, 2) [m] ground displacement (x, z) in the heading of the previous frame; first row zero
    turns: FloatArray  # (F,) [rad] yaw change since the previous frame; first zero


def encode_relative_root(motion: Motion) -> RelativeRoot:
    r"""Decompose the root motion into tilt, height, and ground step and yaw change relative to the previous frame.

    .. math:: \Delta\psi_t = \mathrm{wrap}(\psi_t - \psi_{t-1}), \qquad \Delta x_t = R(-\psi_{t-1})(x_t - x_{t-1})

    The yaw :math:`\psi` is the twist of the root rotation about the vertical, not an Euler angle. It is undefined only
    for a root that is upside down, where the yaw of the previous frame is kept. [Safonova2006]_ §4.2 states no formula
    ("relative to the previous pose").
    """
    # Twist angles of the root about the vertical
    rotations = motion.rotations[:, 0]
    w, y = rotations.wxyz[:, 0], rotations.wxyz[:, 2]
    known = np.hypot(w, y) > 1e-6
    frames = np.arange(len(w))
    if not known.any():
        yaw = np.zeros(len(w))
    else:
        held = np.maximum.accumulate(np.where(known, frames, int(np.argmax(known))))
        yaw = 2.0 * np.arctan2(y, w)[held]
    turns = np.concatenate([[0.0], (np.diff(yaw) + np.pi) % (2.0 * np.pi) - np.pi])
    ground = np.diff(motion.root_positions[:, [0, 2]], axis=0)
    steps = np.concatenate([np.zeros((1, 2)), _turn(ground, -yaw[:-1])])
    tilts = SO3.exp(-yaw[:, None] * UP) @ motion.rotations[:, 0]
    return RelativeRoot(tilts, motion.root_positions[:, 1], steps, turns)


def decode_relative_root(
    relative: RelativeRoot, position: Sequence[float] = (0.0, 0.0), yaw: float = 0.0
) -> tuple[FloatArray, SO3]:
    """Recover root positions ``(F, 3)`` [m] and rotations ``(F,)`` from the position and yaw of the first frame."""
    yaws = yaw + np.cumsum(relative.turns)
    before = np.concatenate([[yaw], yaws[:-1]])
    ground = np.cumsum(_turn(relative.steps, before), axis=0) + frozen(position, 2, name="position")
    positions = np.stack([ground[:, 0], relative.heights, ground[:, 1]], axis=-1)
    return positions, SO3.exp(yaws[:, None] * UP) @ relative.tilts


def _turn(vectors: FloatArray, yaw: FloatArray) -> FloatArray:
    """Rotate ground vectors ``(F, 2)`` in (x, z) by ``yaw`` about +Y."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.stack([c * vectors[:, 0] + s * vectors[:, 1], -s * vectors[:, 0] + c * vectors[:, 1]], axis=-1)


def to_absolute(motion: Motion) -> SE3:
    """Frames ``T_world_joint`` of all bones, batch ``(F, J)``: forward kinematics."""
    positions, R_world_joint = motion.joint_frames()
    return SE3(R_world_joint, positions)


@dataclass(frozen=True, slots=True, eq=False)
class RelativeConfiguration:
    r"""Joint rotations of independently placed bones, and the separation of their joints.

    Absolute configurations :math:`SE(3)^{n+1}`, frames of the bones, let joints separate; relative ones,
    :math:`SE(3) \times SO(3)^n`, cannot, and compare poses up to a rigid motion. [Tournier2011]_ §4.1-4.3.
    """

    motion: Motion
    separations: FloatArray  # (F, J) [m] distance between a joint on its bone and on the parent bone; 0 for the root


def from_absolute(skeleton: Skeleton, T_world_joint: SE3, *, rate_hz: float) -> RelativeConfiguration:
    r"""Relative configuration of bones with frames of batch ``(F, J)``, and the separation of their joints.

    .. math:: r_i = R_{a_i}^T R_i, \qquad s_i = \|p_i - (p_{a_i} + R_{a_i} c_i)\|

    Raises:
        InputError: the batch is not ``(F, J)`` with the joints of the skeleton.
    """
    if len(T_world_joint.shape) != 2 or T_world_joint.shape[1] != skeleton.num_joints:
        what = f"frames have batch {T_world_joint.shape}, the skeleton {skeleton.num_joints} joints"
        raise InputError(what, "Give one frame for each frame of time and each joint")
    R, p, parents = T_world_joint.rotation, T_world_joint.translation, skeleton.parents[1:]
    rotations = SO3.concatenate([R[:, :1], R[:, parents].inverse() @ R[:, 1:]], axis=1)
    joined = p[:, parents] + R[:, parents] @ skeleton.offsets[1:]
    separations = np.zeros(T_world_joint.shape)
    separations[:, 1:] = np.linalg.norm(p[:, 1:] - joined, axis=-1)
    return RelativeConfiguration(Motion(skeleton, rate_hz, p[:, 0], rotations), separations)


def find_central_joint(skeleton: Skeleton) -> int:
    """Return the joint that minimises the depth of the tree as its root ([Tournier2011]_ §4.1)."""
    steps = np.full((skeleton.num_joints,) * 2, np.inf)
    np.fill_diagonal(steps, 0.0)
    for joint in range(1, skeleton.num_joints):
        parent = int(skeleton.parents[joint])
        steps[joint, :joint] = steps[:joint, joint] = steps[parent, :joint] + 1.0
    return int(np.argmin(steps.max(axis=1)))


def order_joints(motion: Motion, names: Sequence[str]) -> Motion:
    """Return a motion whose joints are in the order of ``names``, as it is where it has other joints or another tree.

    Formats list the same joints level by level, branch by branch, or as a tool has made them.
    """
    skeleton, names = motion.skeleton, tuple(names)
    if skeleton.names == names or sorted(skeleton.names) != sorted(names):
        return motion
    order = np.array([skeleton.index(name) for name in names])
    parents = np.append(np.argsort(order), NO_PARENT)[skeleton.parents[order]]
    if (parents >= np.arange(len(order))).any():
        return motion  # a child would come before its parent
    tree = replace(skeleton, names=names, parents=parents, offsets=skeleton.offsets[order], tips=skeleton.tips[order])
    moving = None if motion.translations is None else motion.translations[:, order]
    return replace(motion, skeleton=tree, rotations=motion.rotations[:, order], translations=moving)


def reroot(motion: Motion, joint: str | int | None = None) -> Motion:
    """Choose another root for the same bones; every bone keeps its position and orientation in world.

    The frame of a bone between the old root and the new one has its origin at the other end of the bone; its name and
    orientation do not change.

    Args:
        motion: a clip.
        joint: the new root; by default the joint that minimises the depth of the tree.

    Raises:
        UnknownNameError: no joint has this name.
    """
    skeleton = motion.skeleton
    first = find_central_joint(skeleton) if joint is None else joint
    root = skeleton.index(first) if isinstance(first, str) else int(first)
    if not 0 <= root < skeleton.num_joints:
        raise InputError(f"joint {root} of a skeleton of {skeleton.num_joints}", "Count from 0, the root")
    # The path from the new root to the old one, and the joint towards the new root on each of its bones
    path = [root]
    while skeleton.parents[path[-1]] != NO_PARENT:
        path.append(int(skeleton.parents[path[-1]]))
    origins = np.zeros((skeleton.num_joints, 3))
    for below, bone in pairwise(path):
        origins[bone] = skeleton.offsets[below]
    parents, offsets = skeleton.parents.copy(), skeleton.offsets.copy()
    parents[root] = NO_PARENT
    for below, bone in pairwise(path):
        # The joint of a reversed pair is at the origin of the former child
        parents[bone], offsets[bone] = below, -origins[below]
    on_path = np.isin(np.arange(skeleton.num_joints), path)
    offsets[~on_path] -= origins[skeleton.parents[~on_path]] if (~on_path).any() else 0.0
    # Parents before children: by distance from the new root, then by old number
    depth = np.zeros(skeleton.num_joints, dtype=np.int64)
    for j in range(skeleton.num_joints):
        ancestor = j
        while parents[ancestor] != NO_PARENT:
            ancestor, depth[j] = int(parents[ancestor]), depth[j] + 1
    order = np.argsort(depth, kind="stable")
    number = np.argsort(order)
    frames = to_absolute(motion)
    R = frames.rotation[:, order]
    new_parents = np.array([NO_PARENT if parents[j] == NO_PARENT else number[parents[j]] for j in order])
    offsets[root] = skeleton.rest_positions()[root]
    tree = Skeleton(
        tuple(skeleton.names[int(j)] for j in order),
        new_parents,
        offsets[order],
        (skeleton.tips - np.where(skeleton.tips.any(axis=1, keepdims=True), origins, 0.0))[order],
        name=skeleton.name,
    )
    rotations = SO3.concatenate([R[:, :1], R[:, new_parents[1:]].inverse() @ R[:, 1:]], axis=1)
    return replace(
        motion,
        skeleton=tree,
        root_positions=frames.translation[:, root],
        rotations=rotations,
        contacts=None,
        source=motion.edited_source(),
    )
