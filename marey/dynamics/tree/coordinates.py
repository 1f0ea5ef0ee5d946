"""Coordinates of a tree to a clip of its skeleton, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton, restore_bones

if TYPE_CHECKING:
    from marey.dynamics.tree.joint_tree import JointTree


SAME_BONES_M = 1e-6  # [m] offsets this near belong to the same skeleton
REVOLUTE: Final = 0
PRISMATIC: Final = 1
WORLD: Final = -1


class TreeArrays(NamedTuple):
    """A tree as the compiled loops take it; D coordinates, and the world as link ``D``."""

    parents: IntArray  # (D,) with D for the world
    kinds: IntArray  # (D,) REVOLUTE or PRISMATIC
    rests: FloatArray  # (D, 3, 3) rotation before the joint turns
    geometry: FloatArray  # (D, 6) axis and offset
    inertias: FloatArray  # (D, 10) mass, first and second moment about the link's origin, in its axes
    first: int  # first revolute link


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
    turned: list[SO3] = []
    for dofs in figure.joint_dofs:
        # R_parent_joint: orientation, then the turn about the axis, of each coordinate
        total = SO3.identity(len(q))
        for i in _select_kind(tree, dofs, REVOLUTE):
            total = total @ SO3(tree.orientations[i]) @ SO3.from_axis_angle(tree.axes[i], q[:, i])
        turned.append(total)
    roots = np.zeros((len(q), 3))
    for i in _select_kind(tree, figure.joint_dofs[0], PRISMATIC):
        roots += tree.offsets[i] + q[:, i, None] * tree.axes[i]
    return Motion(figure.skeleton, rate_hz, roots, SO3.stack(turned, axis=1), contacts=contacts)


def coordinates_from_motion(tree: JointTree, figure: TreeSkeleton, motion: Motion) -> FloatArray:
    """Coordinates ``(F, D)`` of a clip, each curve continuous in time."""
    # Refuse a clip of other bones; bones that a body got back may be missing in the clip
    ours, theirs = figure.skeleton, motion.skeleton
    is_same = ours is theirs
    for skeleton in (theirs, restore_bones(theirs)):
        if not is_same and ours.names == skeleton.names:
            is_same = np.abs(ours.offsets[1:] - skeleton.offsets[1:]).max(initial=0.0) < SAME_BONES_M
    if not is_same:
        raise InputError(f"the clip is of skeleton {theirs!r}, the tree moves {ours!r}", "Retarget the clip first")
    q = np.zeros((motion.num_frames, tree.num_dofs))
    for j, dofs in enumerate(figure.joint_dofs):
        turns = _select_kind(tree, dofs, REVOLUTE)
        if turns:
            # Angles (F, n) [rad] of a joint of one or three turns, from its rotations, batch (F,)
            rotations = motion.rotations[:, j]
            if len(turns) == 1:
                k = turns[0]
                wxyz = (SO3(tree.orientations[k]).inverse() @ rotations).wxyz
                q[:, turns] = np.unwrap(2.0 * np.arctan2(wxyz[:, 1:] @ tree.axes[k], wxyz[:, 0]), axis=0)[:, None]
            else:
                if len(turns) != 3:
                    raise InputError(f"a joint of {len(turns)} turns", "It has one or three")
                frame = tree.axes[list(turns)].T
                q[:, turns] = continuous_euler_angles(SO3(tree.orientations[turns[0]]).inverse() @ rotations, frame)
    for i in _select_kind(tree, figure.joint_dofs[0], PRISMATIC):
        q[:, i] = (motion.root_positions - tree.offsets[i]) @ tree.axes[i]
    return q


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
    # Squared distances, each difference taken the short way; the two triples are equally far from themselves
    across, along = ((near[1:] - last + np.pi) % (2.0 * np.pi) - np.pi for last in (far[:-1], near[:-1]))
    swaps = np.einsum("fi,fi->f", across, across) < np.einsum("fi,fi->f", along, along)
    on_far = np.concatenate([[False], np.cumsum(swaps) % 2 == 1])
    return np.unwrap(np.where(on_far[:, None], far, near), axis=0)


def _select_kind(tree: JointTree, dofs: Sequence[int], kind: int) -> list[int]:
    return [i for i in dofs if tree.kinds[i] == kind]
