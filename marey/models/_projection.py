"""Projection of poses on the geodesics of a model."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.models._arrays import GEODESIC_PRODUCT, ModelArrays

MAX_STEPS = 30  # Gauss-Newton settles in three or four; more only where a joint passes a half turn
MAX_HALVINGS = 12
STEP_TOL = 1e-11  # [rad] two decades above the rounding of the residuals
DAMPING = 1e-13  # [-] of the trace: keeps a matrix regular when a direction turns nothing there


def project_poses(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, *, is_exact: bool) -> FloatArray:
    """Coordinates ``(F, k)`` of poses ``wxyz`` ``(F, J, 4)``."""
    x = linear_coordinates(arrays, metric, wxyz)
    return refine_coordinates(arrays, metric, wxyz, x) if is_exact and x.size else x


def linear_coordinates(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray) -> FloatArray:
    r"""First kind: :math:`\sum_j w_j^2 B_j^T \log(\mu_j^{-1} q_j)`; second kind: one geodesic after the other."""
    from marey.models._projection_kernels import greedy_coordinates, tangents

    if arrays.kind == GEODESIC_PRODUCT:
        return greedy_coordinates(
            as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis), as_readonly(metric), as_readonly(wxyz)
        )
    logs = tangents(as_readonly(arrays.mean_wxyz), as_readonly(wxyz)).reshape(len(wxyz), -1)
    return logs @ (metric[:, None, None] * arrays.basis).reshape(logs.shape[1], -1)


def pose_errors(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, x: FloatArray) -> FloatArray:
    """Weighted squared geodesic distance ``(F,)`` between poses and what their coordinates decode to."""
    from marey.models._projection_kernels import squared_distances

    mean, basis = as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis)
    return squared_distances(arrays.kind, mean, basis, as_readonly(wxyz), as_readonly(x)) @ metric


def refine_coordinates(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, x: FloatArray) -> FloatArray:
    """Coordinates ``(F, k)`` improved from ``x`` by Gauss-Newton steps; the error of no frame ever grows."""
    from marey.models._projection_kernels import pose_normals

    x = x.copy()
    errors = pose_errors(arrays, metric, wxyz, x)
    active = np.arange(len(x))
    for _ in range(MAX_STEPS):
        seen = (as_readonly(metric), as_readonly(wxyz[active]), as_readonly(x[active]))
        normals, slopes = pose_normals(arrays.kind, as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis), *seen)
        steps = solve_normals(normals, slopes)
        moved = _descend(arrays, metric, wxyz, x, errors, active, steps)
        active = active[moved & (np.abs(steps).max(axis=1, initial=0.0) > STEP_TOL)]
        if not active.size:
            break
    return x


def as_readonly(array: FloatArray) -> FloatArray:
    """Read-only and contiguous view, so that each kernel is compiled for one kind of array."""
    view = np.ascontiguousarray(array)[:]
    view.setflags(write=False)
    return view


def solve_normals(normals: FloatArray, slopes: FloatArray) -> FloatArray:
    """Steps ``(n, k)`` of least-squares problems with matrices ``(n, k, k)``, kept regular."""
    size = normals.shape[-1]
    ridge = DAMPING * np.einsum("...ii->...", normals) + 1e-300
    regular = normals + ridge[:, None, None] * np.eye(size)
    return np.asarray(np.linalg.solve(regular, slopes[..., None]), dtype=np.float64)[..., 0]


def _descend(
    arrays: ModelArrays,
    metric: FloatArray,
    wxyz: FloatArray,
    x: FloatArray,
    errors: FloatArray,
    active: np.ndarray[tuple[int], np.dtype[np.int64]],
    steps: FloatArray,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Take each step, or a half, a quarter, ... of it, whichever first lowers the error; say which frames moved."""
    moved = np.zeros(len(active), dtype=np.bool_)
    for halving in range(MAX_HALVINGS):
        waiting = np.flatnonzero(~moved)
        if not waiting.size:
            break
        frames = active[waiting]
        tried = x[frames] + 0.5**halving * steps[waiting]
        found = pose_errors(arrays, metric, wxyz[frames], tried)
        better = found < errors[frames]
        x[frames[better]], errors[frames[better]] = tried[better], found[better]
        moved[waiting[better]] = True
    return moved
