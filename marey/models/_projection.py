"""Projection of poses on the geodesics of a model."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.models._arrays import GEODESIC_PRODUCT, ModelArrays


def project(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, *, is_exact: bool) -> FloatArray:
    """Coordinates ``(F, k)`` of poses ``wxyz`` ``(F, J, 4)``."""
    from marey.models._projection_kernels import greedy_coordinates, linear_coordinates, refine

    poses = np.ascontiguousarray(wxyz)
    start = greedy_coordinates if arrays.kind == GEODESIC_PRODUCT else linear_coordinates
    x = start(arrays.mean_wxyz, arrays.basis, metric, poses)
    if is_exact:
        refine(arrays.kind, arrays.mean_wxyz, arrays.basis, metric, poses, x)
    return x
