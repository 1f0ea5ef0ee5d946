"""Exact principal geodesic analysis: the geodesics that leave the least, measured on the group itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray
from marey.models._arrays import LINEAR_TANGENT, ModelArrays
from marey.models._projection import as_readonly, linear_coordinates, pose_errors, refine_coordinates, solve_normals

MAX_SWEEPS = 50
DECREASE_TOL = 1e-8  # [-] of the error in one sweep; a further sweep could not be seen
MAX_HALVINGS = 6


@dataclass(frozen=True, slots=True, eq=False)
class ExactFit:
    """Directions and coordinates that leave the least squared geodesic distance."""

    arrays: ModelArrays
    coordinates: FloatArray  # (m, k)
    residual: float  # [rad^2] mean over the poses of the weighted squared distance


def fit_exact(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray) -> ExactFit:
    r"""Minimise the reconstruction error over orthonormal directions and all coordinates.

    .. math:: \min_{V, x} \sum_{i,j} w_j^2\,\big\|\log\big(q_{ij}^{-1} f_j(x_i; \mu, V)\big)\big\|^2

    (8.7) of [Tournier2011]_, which prints a maximum by mistake. Gauss-Newton steps on the coordinates of each pose
    alternate with Gauss-Newton steps on the directions of each joint; a sweep is kept only if it lowers the error, so
    the result is never worse than the ``arrays`` it starts from. The mean stays the intrinsic one, as in the source:
    when it may move too, the minimum is at geodesics that wind around the group and meet every pose by chance.
    """
    x = refine_coordinates(arrays, metric, wxyz, linear_coordinates(arrays, metric, wxyz))
    best = _measure_fit(arrays, metric, wxyz, x)
    for _ in range(MAX_SWEEPS if x.size else 0):
        found = _sweep_directions(best, metric, wxyz)
        if not found.residual < best.residual:
            break
        is_settled = best.residual - found.residual <= DECREASE_TOL * best.residual
        best = found
        if is_settled:
            break
    return best


def _measure_fit(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, x: FloatArray) -> ExactFit:
    return ExactFit(arrays, x, float(pose_errors(arrays, metric, wxyz, x).mean()))


def _sweep_directions(fit: ExactFit, metric: FloatArray, wxyz: FloatArray) -> ExactFit:
    """Step the directions, orthonormal again, then the coordinates; half the step while that does not help."""
    from marey.models._projection_kernels import joint_normals

    arrays, x = fit.arrays, fit.coordinates
    normals, slopes = joint_normals(
        arrays.kind, as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis), as_readonly(wxyz), as_readonly(x)
    )
    steps = solve_normals(normals[1:], slopes[1:]).reshape(len(normals) - 1, -1, 3).swapaxes(1, 2)
    for halving in range(MAX_HALVINGS):
        basis = arrays.basis.copy()
        basis[1:] += 0.5**halving * steps
        moved, y = _orthonormalise(replace(arrays, basis=basis), metric, x)
        found = _measure_fit(moved, metric, wxyz, refine_coordinates(moved, metric, wxyz, y))
        if found.residual < fit.residual:
            return found
    return fit


def _orthonormalise(arrays: ModelArrays, metric: FloatArray, x: FloatArray) -> tuple[ModelArrays, FloatArray]:
    """Directions made orthonormal in the metric, and the coordinates that go with them.

    Of the first kind, directions may be mixed without moving a pose: they become those of uncorrelated coordinates.
    Of the second kind they may not: they become the nearest orthonormal ones.
    """
    flat = (np.sqrt(metric)[:, None, None] * arrays.basis).reshape(-1, arrays.basis.shape[2])
    if arrays.kind == LINEAR_TANGENT:
        r = np.linalg.qr(flat)[1]
        mixing = np.linalg.solve(r, np.linalg.svd(x @ r.T, full_matrices=False)[2].T)
        mixing = mixing * _signs(np.asarray(flat @ mixing, dtype=np.float64))
        x = np.ascontiguousarray(np.linalg.solve(mixing, x.T).T, dtype=np.float64)
    else:
        _, s, vt = np.linalg.svd(flat, full_matrices=False)
        mixing = (vt.T / s) @ vt
    return replace(arrays, basis=np.ascontiguousarray(arrays.basis @ mixing)), x


def _signs(directions: FloatArray) -> FloatArray:
    largest = np.argmax(np.abs(directions), axis=0)
    return np.where(directions[largest, np.arange(directions.shape[1])] < 0.0, -1.0, 1.0)
