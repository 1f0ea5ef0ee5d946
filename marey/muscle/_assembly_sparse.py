"""Block matrices as scipy knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import bsr_matrix

    from marey.muscle._body_elastic import Elastic


def sparse_tangent(elastic: Elastic) -> bsr_matrix:
    """The stiffness last assembled (3V, 3V) [N/m]: blocks, and the volumes of nodes as a product."""
    from scipy.sparse import bsr_matrix, csr_matrix, diags_array

    starts, columns, values = elastic.blocks
    count = len(starts) - 1
    matrix = bsr_matrix((values.copy(), columns, starts), shape=(3 * count, 3 * count))
    if not len(elastic.rises):
        return matrix
    wide = 3 * columns[:, None].astype(np.int64) + np.arange(3)
    rises = csr_matrix((elastic.rises.ravel(), wide.ravel(), 3 * starts.astype(np.int64)), shape=(count, 3 * count))
    whole = matrix.tocsr() + rises.T @ diags_array(elastic.rise_stiffness) @ rises
    return cast("bsr_matrix", bsr_matrix(whole, blocksize=(3, 3)))
