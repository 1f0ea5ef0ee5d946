"""Block matrices as scipy knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marey.muscle._assembly_scipy import load_sparse

if TYPE_CHECKING:
    from scipy.sparse import bsr_matrix

    from marey.muscle._body_elastic import ElasticModel


def to_sparse_tangent(elastic: ElasticModel) -> bsr_matrix:
    """The stiffness last assembled (3V, 3V) [N/m]: blocks, and the volumes of nodes as a product."""
    starts, columns, values = elastic.blocks
    count = len(starts) - 1
    matrix = load_sparse().bsr_matrix((values.copy(), columns, starts), shape=(3 * count, 3 * count))
    if not len(elastic.rises):
        return matrix
    wide = 3 * columns[:, None].astype(np.int64) + np.arange(3)
    rises = load_sparse().csr_matrix(
        (elastic.rises.ravel(), wide.ravel(), 3 * starts.astype(np.int64)), shape=(count, 3 * count)
    )
    whole = matrix.tocsr() + rises.T @ load_sparse().diags_array(elastic.rise_stiffness) @ rises
    return load_sparse().bsr_matrix(whole, blocksize=(3, 3))
