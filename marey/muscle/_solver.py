"""The linear system of a step, as kernels read it, and its empty parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.muscle._mesh import IndexArray

if TYPE_CHECKING:
    from marey.muscle._transfer_kernels import MuscleArrays

FREE: Final = -1  # who carries a node: itself;
HELD: Final = -2  # nobody, it stays; bones are 0 and above


class BoneArrays(NamedTuple):
    """Nodes carried by bones and the rates that move them."""

    nodes: IndexArray  # (C,) carried nodes
    owners: IndexArray  # (C,) bone of each
    arms: FloatArray  # (C, 3) [m] where they are
    screws: FloatArray  # (D, 6) world twist (angular, linear at the origin) of each rate
    moves: IndexArray  # (B, D) 1 where a rate moves a bone
    inertia: FloatArray  # (D, D) what the rates weigh beside their nodes [kg m^2], limits included
    twists: FloatArray  # (B, 6) scratch


class CoarseSpace(NamedTuple):
    """Regions and bones that move as if rigid."""

    labels: IndexArray  # (V,) region of a free node, then bones; -1 for held nodes
    regions: int
    arms: FloatArray  # (V, 3) [m]
    raw: FloatArray  # (6 (A + B), 6 (A + B)) regions and bones, (angular, linear) each
    inverse: FloatArray  # (6 A + D, 6 A + D) regions and rates
    vectors: FloatArray  # (2, 6 A + D) scratch
    row: FloatArray  # (A + B, 3, 6) scratch
    touched: IndexArray  # (A + B,) scratch


class LinearSystem(NamedTuple):
    r"""The matrix :math:`P^T (A + G^T \mathrm{diag}(w) G + \text{muscles}) P + \text{inertia of rates}`.

    Unknowns are (V + R, 3): velocities of free nodes, then rates of joints in rows of three.
    """

    starts: IndexArray
    columns: IndexArray
    values: FloatArray  # (nnz, 3, 3) [kg]
    rises: FloatArray  # (nnz, 3) [m^2], or (0, 3)
    weights: FloatArray  # (V,)
    carriers: IndexArray  # (V,)
    diagonal: FloatArray  # (V, 3, 3) inverses of diagonal blocks
    bones: BoneArrays
    coarse: CoarseSpace
    muscles: MuscleArrays
    blocks: FloatArray  # (S, 3, 3) [kg] of segments of splines
    work: FloatArray  # (2, N, 3)
    nodal: FloatArray  # (2, V, 3) scratch


def empty_bone_arrays() -> BoneArrays:
    """No bone, no rate."""
    index, table = np.zeros(0, dtype=np.int32), np.zeros((0, 0))
    moves = np.zeros((0, 0), dtype=np.int32)
    return BoneArrays(index, index, np.zeros((0, 3)), np.zeros((0, 6)), moves, table, np.zeros((0, 6)))


def empty_muscle_arrays() -> MuscleArrays:
    """No spline."""
    from marey.muscle._transfer_kernels import MuscleArrays

    starts, index, row = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    points, empty = np.zeros((0, 3)), np.zeros((0, 0))
    return MuscleArrays(
        starts=starts, nodes=index, weights=row, shares=row,
        cells_carry=np.zeros(1, dtype=np.int64), turns=index, cell_starts=starts, cell_nodes=index, cell_weights=row,
        segments=np.zeros((0, 2), dtype=np.int64), rest=row, stiffness=row, damping=row, laws=index,
        hill=np.zeros((0, 6)), mix=empty, rest_arms=points, offsets=points, points=points, velocities=points,
        levers=points, frames=np.zeros((0, 3, 3)), arms=points,
        inverses=np.zeros((0, 3, 3)), directions=points, buffer=np.zeros((2, 0, 3)),
    )  # fmt: skip
