r"""Configuration spaces of a body: absolute frames of its bones, relative rotations of its joints, and another root.

Absolute configurations :math:`SE(3)^{n+1}` let joints separate; relative ones, :math:`SE(3) \times SO(3)^n`, cannot,
and compare poses up to a rigid motion. [Tournier2011]_ §4.1-4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SE3, SO3
from marey.motion.clip import Motion
from marey.skeleton import NO_PARENT, Skeleton


def to_absolute(motion: Motion) -> SE3:
    """Frames ``T_world_joint`` of all bones, batch ``(F, J)``: forward kinematics."""
    positions, R_world_joint = motion.joint_frames()
    return SE3(R_world_joint, positions)


@dataclass(frozen=True, slots=True, eq=False)
class RelativeConfiguration:
    """Joint rotations of bones that were placed one by one, and how far their joints came apart."""

    motion: Motion
    separations: FloatArray  # (F, J) [m] between where a joint is on its bone and on the bone's parent; 0 for the root


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
    turns = SO3.concatenate([R[:, :1], R[:, parents].inverse() @ R[:, 1:]], axis=1)
    joined = p[:, parents] + R[:, parents] @ skeleton.offsets[1:]
    separations = np.zeros(T_world_joint.shape)
    separations[:, 1:] = np.linalg.norm(p[:, 1:] - joined, axis=-1)
    return RelativeConfiguration(Motion(skeleton, rate_hz, p[:, 0], turns), separations)


def find_central_joint(skeleton: Skeleton) -> int:
    """Return the joint from which the tree is lowest ([Tournier2011]_ §4.1): fewest products in a chain."""
    steps = np.full((skeleton.num_joints,) * 2, np.inf)
    np.fill_diagonal(steps, 0.0)
    for joint in range(1, skeleton.num_joints):
        parent = int(skeleton.parents[joint])
        steps[joint, :joint] = steps[:joint, joint] = steps[parent, :joint] + 1.0
    return int(np.argmin(steps.max(axis=1)))


def reroot(motion: Motion, joint: str | int | None = None) -> Motion:
    """Hang the same bones on another root; every bone keeps its place and orientation in world.

    A bone between the old root and the new one is held at its other end, so its frame has its origin there; its name
    and orientation stay.

    Args:
        motion: a clip.
        joint: the new root; the joint from which the tree is lowest by default.

    Raises:
        UnknownNameError: no joint has this name.
    """
    skeleton = motion.skeleton
    first = find_central_joint(skeleton) if joint is None else joint
    root = skeleton.index(first) if isinstance(first, str) else int(first)
    if not 0 <= root < skeleton.num_joints:
        raise InputError(f"joint {root} of a skeleton of {skeleton.num_joints}", "Count from 0, the root")
    # The way from the new root to the old one, and where on each of its bones the joint towards the new root is
    way = [root]
    while skeleton.parents[way[-1]] != NO_PARENT:
        way.append(int(skeleton.parents[way[-1]]))
    origins = np.zeros((skeleton.num_joints, 3))
    for below, bone in pairwise(way):
        origins[bone] = skeleton.offsets[below]
    parents, offsets = skeleton.parents.copy(), skeleton.offsets.copy()
    parents[root] = NO_PARENT
    for below, bone in pairwise(way):
        # The joint of a reversed pair is at the origin of what was the child
        parents[bone], offsets[bone] = below, -origins[below]
    on_way = np.isin(np.arange(skeleton.num_joints), way)
    offsets[~on_way] -= origins[skeleton.parents[~on_way]] if (~on_way).any() else 0.0
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
    turns = SO3.concatenate([R[:, :1], R[:, new_parents[1:]].inverse() @ R[:, 1:]], axis=1)
    return replace(
        motion,
        skeleton=tree,
        root_positions=frames.translation[:, root],
        rotations=turns,
        contacts=None,
        source=motion.edited_source(),
    )
