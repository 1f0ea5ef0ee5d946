"""Coordinates of a tree to a clip of its skeleton, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.dynamics.bodies import restore_bones
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.dynamics.tree.joint_tree import JointTree


SAME_BONES_M = 1e-6  # [m] offsets this near belong to the same skeleton
REVOLUTE: Final = 0
PRISMATIC: Final = 1
WORLD: Final = -1

Point = tuple[int, FloatArray]  # the link that carries it, and where it is in the link's frame [m]


@dataclass(frozen=True, slots=True, eq=False)
class TreeSkeleton:
    """The skeleton that a tree moves: which coordinates turn which joint."""

    skeleton: Skeleton
    joint_dofs: tuple[tuple[int, ...], ...]  # (J,) coordinates of each joint in the order they act; may be shared


def motion_from_coordinates(
    tree: JointTree, figure: TreeSkeleton, q: FloatArray, rate_hz: float, contacts: Contacts | None
) -> Motion:
    """Clip that coordinates ``q (F, D)`` describe."""
    rotations = SO3.stack([compose_joint_rotation(tree, dofs, q) for dofs in figure.joint_dofs], axis=1)
    roots = np.zeros((len(q), 3))
    for i in _select_kind(tree, figure.joint_dofs[0], PRISMATIC):
        roots += tree.offsets[i] + q[:, i, None] * tree.axes[i]
    return Motion(figure.skeleton, rate_hz, roots, rotations, contacts=contacts)


def compose_joint_rotation(tree: JointTree, dofs: Sequence[int], q: FloatArray) -> SO3:
    """Rotation R_parent_joint, batch ``(F,)``, of a joint with these coordinates."""
    total = SO3.identity(len(q))
    for i in _select_kind(tree, dofs, REVOLUTE):
        total = total @ SO3(tree.orientations[i]) @ SO3.from_axis_angle(tree.axes[i], q[:, i])
    return total


def coordinates_from_motion(tree: JointTree, figure: TreeSkeleton, motion: Motion) -> FloatArray:
    """Coordinates ``(F, D)`` of a clip, each curve continuous in time."""
    # Refuse a clip of other bones; bones that a body got back may be missing in the clip
    ours, theirs = figure.skeleton, motion.skeleton
    if not (_has_same_bones(ours, theirs) or _has_same_bones(ours, restore_bones(theirs))):
        raise InputError(f"the clip is of skeleton {theirs!r}, the tree moves {ours!r}", "Retarget the clip first")
    q = np.zeros((motion.num_frames, tree.num_dofs))
    for j, dofs in enumerate(figure.joint_dofs):
        turns = _select_kind(tree, dofs, REVOLUTE)
        if turns:
            q[:, turns] = solve_joint_angles(tree, turns, motion.rotations[:, j])
    for i in _select_kind(tree, figure.joint_dofs[0], PRISMATIC):
        q[:, i] = (motion.root_positions - tree.offsets[i]) @ tree.axes[i]
    return q


def _has_same_bones(a: Skeleton, b: Skeleton) -> bool:
    return a is b or (a.names == b.names and np.abs(a.offsets[1:] - b.offsets[1:]).max(initial=0.0) < SAME_BONES_M)


def solve_joint_angles(tree: JointTree, turns: Sequence[int], rotations: SO3) -> FloatArray:
    """Angles ``(F, n)`` [rad] of a joint of one or three turns, from its rotations, batch ``(F,)``."""
    if len(turns) == 1:
        i = turns[0]
        wxyz = (SO3(tree.orientations[i]).inverse() @ rotations).wxyz
        return np.unwrap(2.0 * np.arctan2(wxyz[:, 1:] @ tree.axes[i], wxyz[:, 0]), axis=0)[:, None]
    if len(turns) != 3:
        raise InputError(f"a joint of {len(turns)} turns", "It has one or three")
    frame = tree.axes[list(turns)].T
    return continuous_euler_angles(SO3(tree.orientations[turns[0]]).inverse() @ rotations, frame)


def continuous_euler_angles(rotations: SO3, frame: FloatArray) -> FloatArray:
    r"""Angles ``(F, 3)`` [rad] about the orthonormal columns of ``frame``, continuous in time.

    .. math:: R = e^{\hat a_1 q_1} e^{\hat a_2 q_2} e^{\hat a_3 q_3}

    Where the middle angle passes a right angle, the other triple :math:`(q_1+\pi, \pi-q_2, q_3+\pi)` goes on smoothly
    and is taken.
    """
    hand = float(np.sign(np.linalg.det(frame)))
    M = frame.T @ rotations.matrix() @ frame
    near = hand * np.stack(
        [
            np.arctan2(-M[:, 1, 2], M[:, 2, 2]),
            np.arctan2(M[:, 0, 2], np.hypot(M[:, 0, 0], M[:, 0, 1])),
            np.arctan2(-M[:, 0, 1], M[:, 0, 0]),
        ],
        axis=1,
    )
    far = np.stack([near[:, 0] + np.pi, np.pi - near[:, 1], near[:, 2] + np.pi], axis=1)
    swaps = _squared_angle_distance(near[1:], far[:-1]) < _squared_angle_distance(
        near[1:], near[:-1]
    )  # the two triples are equally far from themselves
    on_far = np.concatenate([[False], np.cumsum(swaps) % 2 == 1])
    return np.unwrap(np.where(on_far[:, None], far, near), axis=0)


def _select_kind(tree: JointTree, dofs: Sequence[int], kind: int) -> list[int]:
    return [i for i in dofs if tree.kinds[i] == kind]


def _squared_angle_distance(a: FloatArray, b: FloatArray) -> FloatArray:
    """Squared distance between triples of angles, each difference taken the short way."""
    turn = (a - b + np.pi) % (2.0 * np.pi) - np.pi
    return np.einsum("fi,fi->f", turn, turn)
