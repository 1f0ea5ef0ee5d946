"""The matrix of 3x3 blocks that elastic materials are assembled into."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from marey.base import FloatArray
from marey.muscle.mesh.tet_mesh import IndexArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class BlockMatrix(NamedTuple):
    """A symmetric matrix of 3x3 blocks, row by row; every row holds its diagonal."""

    starts: IndexArray  # (V + 1,)
    columns: IndexArray  # (nnz,) ascending in each row
    values: FloatArray  # (nnz, 3, 3)

    @staticmethod
    def from_groups(count: int, groups: IndexArray) -> BlockMatrix:
        """A matrix of zeros that joins all nodes of each group (N, k), and each node to itself."""
        width = groups.shape[1]
        rows = np.repeat(groups, width, axis=1).ravel().astype(np.int64)
        columns = np.tile(groups, (1, width)).ravel().astype(np.int64)
        own = np.arange(count, dtype=np.int64)
        keys = np.unique(np.concatenate([rows * count + columns, own * count + own]))
        starts = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
        return BlockMatrix(starts.astype(np.int32), (keys % count).astype(np.int32), np.zeros((len(keys), 3, 3)))

    def find_positions(self, groups: IndexArray) -> IndexArray:
        """Where each pair of a group (N, k, k) lies in the values."""
        count = len(self.starts) - 1
        keys = np.repeat(np.arange(count, dtype=np.int64), np.diff(self.starts)) * count + self.columns
        wanted = groups[:, :, None].astype(np.int64) * count + groups[:, None, :]
        return np.searchsorted(keys, wanted).astype(np.int32)


def to_sparse_tangent(blocks: BlockMatrix, rises: FloatArray, weights: FloatArray) -> csr_array[np.float64]:
    r"""The matrix :math:`A + G^T\,\mathrm{diag}(w)\,G` (3V, 3V): blocks, and the volumes of nodes as a product.

    ``rises`` G (nnz, 3) may be empty; ``weights`` w are (V,).
    """
    from scipy import sparse

    starts, columns, values = blocks
    count = len(starts) - 1
    matrix = sparse.bsr_array((values.copy(), columns, starts), shape=(3 * count, 3 * count)).tocsr()
    if not len(rises):
        return matrix
    wide = 3 * columns[:, None].astype(np.int64) + np.arange(3)
    G = sparse.csr_array((rises.ravel(), wide.ravel(), 3 * starts.astype(np.int64)), shape=(count, 3 * count))
    return cast("csr_array[np.float64]", matrix + G.T @ sparse.diags_array(weights) @ G)
