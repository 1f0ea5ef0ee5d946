"""What the coordinates of a tree are: kinds of joints, arrays of the compiled loops, Euler angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import SO3
from marey.skeleton import Skeleton

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
