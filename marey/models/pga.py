"""Principal geodesic analysis: fits on the group itself (exact, by deflation, of the greatest projected variance).

All of them begin at the linearised fit or the intrinsic mean and keep only steps that improve their own objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3, right_jacobian
from marey.lie.calculus import left_jacobian_inverse
from marey.models.pca import check_choice, choose_count, compute_spectrum
from marey.models.pose_model import KINDS, GeodesicModel, check_name
from marey.models.projection import (
    GEODESIC_PRODUCT,
    LINEAR_TANGENT,
    ModelArrays,
    as_readonly,
    batch_rotations,
    joint_normals,
    linear_coordinates,
    pose_errors,
    refine_coordinates,
    solve_normals,
)
from marey.models.samples import Clips, gather_samples, lever_arms, mean_rotations, pose_mass_matrix
from marey.skeleton import Pose

MAX_SWEEPS = 50
DECREASE_TOL = 1e-8  # [-] of the error in one sweep; a further sweep could not be seen
MAX_HALVINGS = 6


@dataclass(frozen=True, slots=True, eq=False)
class ExactFit:
    """Directions and coordinates that leave the least squared geodesic distance."""

    arrays: ModelArrays
    coordinates: FloatArray  # (m, k)
    residual: float  # [rad^2] mean over the poses of the weighted squared distance


def fit_exact(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray, *, moves_mean: bool = False) -> ExactFit:
    r"""Minimise the reconstruction error over orthonormal directions and all coordinates, and over the mean if asked.

    .. math:: \min_{V, x} \sum_{i,j} w_j^2\,\big\|\log\big(q_{ij}^{-1} f_j(x_i; \mu, V)\big)\big\|^2

    (8.7) of [Tournier2011]_, which prints a maximum by mistake. Gauss-Newton steps on the coordinates of each pose
    alternate with Gauss-Newton steps on the directions of each joint; a sweep is kept only if it lowers the error, so
    the result is never worse than the ``arrays`` it starts from. The mean stays the intrinsic one, as in the source,
    unless ``moves_mean``: then Gauss-Newton steps of :math:`\mu`, across the directions, are part of each sweep. Every
    step is local, so that no geodesic winds around the group to meet poses by chance.
    """
    x = refine_coordinates(arrays, metric, wxyz, linear_coordinates(arrays, metric, wxyz))
    best = ExactFit(arrays, x, float(pose_errors(arrays, metric, wxyz, x).mean()))
    for _ in range(MAX_SWEEPS if x.size else 0):
        found = _sweep_directions(best, metric, wxyz)
        if moves_mean:
            found = _sweep_mean(found, metric, wxyz)
        if not found.residual < best.residual:
            break
        is_settled = best.residual - found.residual <= DECREASE_TOL * best.residual
        best = found
        if is_settled:
            break
    return best


def _sweep_directions(fit: ExactFit, metric: FloatArray, wxyz: FloatArray) -> ExactFit:
    """Step the directions, orthonormal again, then the coordinates; half the step while that does not help."""
    arrays, x = fit.arrays, fit.coordinates
    normals, slopes = joint_normals(
        arrays.kind, as_readonly(arrays.mean_wxyz), as_readonly(arrays.basis), as_readonly(wxyz), as_readonly(x)
    )
    # A Gauss-Newton step of each joint's part of the directions
    steps = solve_normals(normals[1:], slopes[1:]).reshape(len(normals) - 1, -1, 3).swapaxes(1, 2)
    for halving in range(MAX_HALVINGS):
        basis = arrays.basis.copy()
        basis[1:] += 0.5**halving * steps
        # Directions made orthonormal in the metric, and the coordinates that go with them
        y, flat = x, (np.sqrt(metric)[:, None, None] * basis).reshape(-1, basis.shape[2])
        if arrays.kind == LINEAR_TANGENT:
            r = np.linalg.qr(flat)[1]
            mixing = np.linalg.solve(r, np.linalg.svd(y @ r.T, full_matrices=False)[2].T)
            directions = np.asarray(flat @ mixing, dtype=np.float64)
            largest = np.argmax(np.abs(directions), axis=0)
            mixing = mixing * np.where(directions[largest, np.arange(directions.shape[1])] < 0.0, -1.0, 1.0)
            y = np.ascontiguousarray(np.linalg.solve(mixing, y.T).T, dtype=np.float64)
        else:
            _, s, vt = np.linalg.svd(flat, full_matrices=False)
            mixing = (vt.T / s) @ vt
        moved = replace(arrays, basis=np.ascontiguousarray(basis @ mixing))
        y = refine_coordinates(moved, metric, wxyz, y)
        residual = float(pose_errors(moved, metric, wxyz, y).mean())
        if residual < fit.residual:
            return ExactFit(moved, y, residual)
    return fit


def _sweep_mean(fit: ExactFit, metric: FloatArray, wxyz: FloatArray) -> ExactFit:
    r"""Step the mean, then the coordinates; half the step while that does not help.

    With :math:`\mu_j \exp(\delta_j)` and :math:`\rho_j = \log(q_j^{-1}\mu_j\exp\xi_j)`,
    :math:`\partial\rho_j/\partial\delta_j = J_r^{-1}(\rho_j)\exp(-\xi_j)`. What of :math:`\delta` lies
    along the directions is left to the coordinates.
    """
    arrays, x = fit.arrays, fit.coordinates
    mean, made = SO3(arrays.mean_wxyz), batch_rotations(arrays.kind, arrays.mean_wxyz, arrays.basis, as_readonly(x))
    rho = (SO3(wxyz).inverse() @ SO3(made)).log()
    turn = left_jacobian_inverse(-rho) @ (SO3(made).inverse() @ mean).matrix()
    normals = np.einsum("fjac,fjad->jcd", turn, turn)
    steps = solve_normals(normals[1:], -np.einsum("fjac,fja->jc", turn, rho)[1:])
    # Across the directions, in the metric
    root = np.sqrt(metric[1:])[:, None]
    flat = (root[..., None] * arrays.basis[1:]).reshape(-1, arrays.basis.shape[2])
    q = np.linalg.qr(flat)[0]
    scaled = (root * steps).reshape(-1)
    steps = (scaled - q @ (q.T @ scaled)).reshape(steps.shape) / np.maximum(root, 1e-12)
    for halving in range(MAX_HALVINGS):
        turns = np.concatenate([np.zeros((1, 3)), 0.5**halving * steps])
        moved = replace(arrays, mean_wxyz=(mean @ SO3.exp(turns)).wxyz)
        y = refine_coordinates(moved, metric, wxyz, x)
        residual = float(pose_errors(moved, metric, wxyz, y).mean())
        if residual < fit.residual:
            return ExactFit(moved, y, residual)
    return fit


def fit_deflation(
    mean_wxyz: FloatArray, metric: FloatArray, wxyz: FloatArray, n_components: int | None, explained: float
) -> ExactFit:
    r"""One geodesic after the other, each fitted to what those before it leave.

    .. math:: v_i = \arg\min_v \sum_m d\big(x_m^{(i-1)}, \pi_v(x_m^{(i-1)})\big)^2, \qquad
              x^{(i)} = \pi_{v_i}(x^{(i-1)})^{-1}\,x^{(i-1)}

    The Lie scheme (8.8) of [Tournier2011]_, coordinates of the second kind. In a curved space directions need not be
    orthogonal, and their number is not bounded by the dimension; we stop at 3 n.
    """
    joints = len(mean_wxyz)
    left = SO3(mean_wxyz).inverse() @ SO3(wxyz)
    identity, weights = SO3.identity(joints).wxyz, np.sqrt(metric[1:])
    total = float(((left.log() ** 2).sum(axis=-1) @ metric).mean())
    columns, coordinates, rest = list[FloatArray](), list[FloatArray](), total
    most = 3 * (joints - 1) if n_components is None else min(n_components, 3 * (joints - 1))
    while len(columns) < most and rest > DECREASE_TOL * total:
        if n_components is None and total - rest >= explained * total:
            break
        # The first singular vector of what is left, then Gauss-Newton on the group
        logs = left.log()[:, 1:]
        table = (weights[:, None] * logs).reshape(len(logs), -1)
        vector = np.linalg.eigh(table.T @ table)[1][:, -1]
        vector = vector * (1.0 if vector[np.argmax(np.abs(vector))] > 0.0 else -1.0)
        basis = np.zeros((joints, 3, 1))
        basis[1:, :, 0] = vector.reshape(-1, 3) / np.maximum(weights[:, None], 1e-12)
        found = fit_exact(ModelArrays(LINEAR_TANGENT, identity, basis), metric, left.wxyz)
        if not found.residual < rest:
            break
        rest = found.residual
        columns.append(found.arrays.basis[..., 0])
        coordinates.append(found.coordinates[:, 0])
        # What is left: the geodesic is divided off from the left
        left = SO3.exp(-found.coordinates[:, 0, None, None] * columns[-1]) @ left
    shape = (joints, 3, len(columns))
    directions = np.stack(columns, axis=-1) if columns else np.zeros(shape)
    x = np.stack(coordinates, axis=-1) if columns else np.zeros((len(wxyz), 0))
    return ExactFit(ModelArrays(GEODESIC_PRODUCT, mean_wxyz, directions), x, rest)


MAX_ASCENTS = 30
ASCENT_TOL = 1e-9  # [-] of the variance in one step


def fit_variance(arrays: ModelArrays, metric: FloatArray, wxyz: FloatArray) -> ExactFit:
    r"""Turn orthonormal directions, one after the other, until each projected variance is greatest.

    .. math:: v_i = \arg\max_{\|v\| = 1,\, v \perp v_1 \dots v_{i-1}} \sum_m \alpha_m(v)^2, \qquad
              \alpha_m(v) = \arg\min_\alpha d\big(\mu^{-1}x_m, \exp(\alpha v)\big)

    (8.5) and (8.6) of [Tournier2011]_ with exact projections. At the minimum :math:`F = \langle\rho, v\rangle = 0`, so
    :math:`\nabla\alpha = -F_v / F_\alpha`; steps along the sphere are kept only if the variance rises.
    """
    joints, count = arrays.basis.shape[0], arrays.basis.shape[2]
    data = SO3(arrays.mean_wxyz).inverse() @ SO3(wxyz)
    root = np.sqrt(np.maximum(metric[1:], 0.0))[:, None]
    found = np.zeros((3 * joints - 3, 0))  # orthonormal columns, in the metric
    start = (root[..., None] * arrays.basis[1:]).reshape(-1, count)
    for i in range(count):
        vector = _orthonormalise(start[:, i], found)
        value, slope = _projected_variance(vector, root, metric, data)
        length = 1.0
        for _ in range(MAX_ASCENTS):
            tangent = slope - found @ (found.T @ slope)
            tangent -= vector * (vector @ tangent)
            tried = _orthonormalise(vector + length * tangent / max(value, 1e-300), found)
            new_value, new_slope = _projected_variance(tried, root, metric, data)
            if new_value <= value:
                length *= 0.25
                if length < 1e-4:
                    break
                continue
            is_settled = new_value - value <= ASCENT_TOL * value
            vector, value, slope, length = tried, new_value, new_slope, 2.0 * length
            if is_settled:
                break
        found = np.column_stack([found, vector])
    basis = np.zeros_like(arrays.basis)
    basis[1:] = found.reshape(joints - 1, 3, count) / np.maximum(root, 1e-12)[..., None]
    moved = replace(arrays, basis=np.ascontiguousarray(basis))
    x = refine_coordinates(moved, metric, wxyz, linear_coordinates(moved, metric, wxyz))
    return ExactFit(moved, x, float(pose_errors(moved, metric, wxyz, x).mean()))


def _orthonormalise(vector: FloatArray, found: FloatArray) -> FloatArray:
    """Unit vector across those found before."""
    across = vector - found @ (found.T @ vector)
    return across / np.linalg.norm(across)


def _projected_variance(
    vector: FloatArray, root: FloatArray, metric: FloatArray, data: SO3
) -> tuple[float, FloatArray]:
    """Mean squared exact coordinate along one direction, and its gradient, both in the metric's own scale."""
    joints = len(metric)
    direction = np.zeros((joints, 3, 1))
    direction[1:, :, 0] = vector.reshape(-1, 3) / np.maximum(root, 1e-12)
    arrays = ModelArrays(LINEAR_TANGENT, SO3.identity(joints).wxyz, direction)
    alpha = refine_coordinates(arrays, metric, data.wxyz, linear_coordinates(arrays, metric, data.wxyz))[:, 0]
    v = direction[..., 0]
    turns = alpha[:, None, None] * v
    rho = (data.inverse() @ SO3.exp(turns)).log()
    inverse = left_jacobian_inverse(-rho)
    # F_alpha and F_v of F = sum_j w_j <rho_j, v_j>
    f_alpha = np.einsum("j,fjab,ja,jb->f", metric, inverse, v, v)
    f_v = rho + alpha[:, None, None] * np.einsum("fjba,fjcb,jc->fja", right_jacobian(turns), inverse, v)
    slope = -2.0 * np.einsum("f,fja->ja", alpha / f_alpha, f_v) * metric[:, None] / len(alpha)
    return float((alpha**2).mean()), (slope[1:] / np.maximum(root, 1e-12)).reshape(-1)


METHODS = ("linearised", "exact", "exact-mean", "variance", "deflation")
WEIGHTS = ("lever", "kinetic")


@dataclass(frozen=True, slots=True)
class PGA:
    r"""Principal geodesic analysis of poses: the mean, and the geodesics along which a body moves most.

    .. math:: t_i = \log(\mu^{-1} q_i), \qquad v_1, v_2, \dots = \text{right singular vectors of } (t_1, t_2, \dots)^T

    [Tournier2011]_ §8.1. Unlike principal components of angles, the result does not depend on how the joint frames are
    laid into the body. The other methods go on from there, on the group itself:

    ``"exact"`` (8.7) minimises the reconstruction error over directions and coordinates, ``"exact-mean"`` over the mean
    too; ``"variance"`` (8.5) maximises the projected variance; ``"deflation"`` (8.8), of the second kind, fits each
    geodesic to what those before it leave.
    """

    n_components: int | None = None  # how many geodesics; None: as many as ``explained`` needs
    explained: float = 0.95  # share of the variance to keep; the source's 0.9 is classical, 0.99 "usual in practice"
    method: str = "linearised"  # or "exact", "exact-mean", "variance", "deflation"
    kind: str = "first"  # coordinates of the first or "second" kind; "deflation" has the second
    weights: str | Sequence[float] | FloatArray | None = None
    """(J,) weight of each joint in the distance between poses; ``"lever"`` weighs by what a joint carries, so that the
    error counts in metres rather than radians: about 40 % less position error at equal size; ``"kinetic"`` takes the
    kinetic energy at the mean pose as the metric of tangents, :math:`V^T M V = I` (linearised, of the first kind)"""

    def __post_init__(self) -> None:
        check_choice(self.n_components, self.explained)
        check_name("method", self.method, METHODS)
        check_name("kind", self.kind, KINDS)
        if isinstance(self.weights, str):
            check_name("weights", self.weights, WEIGHTS)
            if self.weights == "kinetic" and (self.method, self.kind) != ("linearised", "first"):
                raise InputError(
                    f"kinetic weights with method '{self.method}' and the {self.kind} kind",
                    "The kinetic metric is that of linearised geodesics of the first kind",
                )
        elif self.weights is not None:
            object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))

    def fit(self, motions: Clips) -> GeodesicModel:
        """Fit a model on the poses of one clip or more, of the same joints.

        Raises:
            InputError: fewer than two poses, skeletons that differ, or weights that fit no skeleton.
            ConvergenceError: a joint turns all the way around, so that it has no mean; the message names it.
        """
        samples = gather_samples(motions)
        centre = mean_rotations(samples).mean
        # Squared weight (J,) of each joint
        if self.weights is None or (isinstance(self.weights, str) and self.weights == "kinetic"):
            metric = np.ones(samples.skeleton.num_joints)
        else:
            if isinstance(self.weights, str):
                given = lever_arms(samples)
            else:
                given = frozen(self.weights, samples.skeleton.num_joints, name="weights")
            if np.any(given < 0.0) or not np.any(given[1:] > 0.0):
                raise InputError("weights are negative or all zero below the root", "Give one positive weight at least")
            metric = given**2
        # Tangents at the intrinsic mean, and their principal directions in the metric
        table = (centre.inverse() @ samples.rotations).log().reshape(samples.count, -1)
        scale, covectors = np.repeat(np.sqrt(metric[1:]), 3), None
        if self.weights == "kinetic":
            mean = SO3.concatenate([SO3.identity(1), centre])
            factor = np.linalg.cholesky(pose_mass_matrix(Pose(samples.skeleton, samples.root_position, mean)))
            found = compute_spectrum(table @ factor)
        else:
            factor, found = None, compute_spectrum(table * scale)
        shares = found.shares()
        count = choose_count(shares, self.n_components, self.explained)
        directions = found.directions[:, :count]
        if factor is None:
            basis = _basis(table, metric, directions, found.deviations[:count])
        else:
            # M = L L^T: directions L^{-T} E, and the covectors M V = L E that measure tangents along them
            joints = (len(metric) - 1, 3, count)
            basis, covectors = np.zeros((2, len(metric), 3, count))
            basis[1:] = np.linalg.solve(factor.T, directions).reshape(joints)
            covectors[1:] = (factor @ directions).reshape(joints)
        model = GeodesicModel(
            samples.skeleton,
            SO3.concatenate([SO3.identity(1), centre]),
            basis,
            metric,
            shares[:count],
            found.deviations[:count],
            samples.root_position,
            samples.motions[0].rate_hz,
            kind="second" if self.method == "deflation" else self.kind,
            projection="linear" if (self.method, self.kind) == ("linearised", "first") else "exact",
            covectors=covectors,
        )
        if self.method == "linearised":
            return model
        # Fit the geodesics on the group itself, from the linearised ones
        wxyz = np.concatenate([motion.rotations.wxyz for motion in samples.motions])
        exact: ExactFit
        if self.method == "deflation":
            exact = fit_deflation(model.centre.wxyz, model.metric, wxyz, self.n_components, self.explained)
        elif self.method == "variance":
            exact = fit_variance(model.arrays(), model.metric, wxyz)
        else:
            exact = fit_exact(model.arrays(), model.metric, wxyz, moves_mean=self.method == "exact-mean")
        variances = (exact.coordinates**2).mean(axis=0)
        order = np.argsort(-variances) if model.kind == "first" else np.arange(len(variances))
        return replace(
            model,
            centre=SO3(exact.arrays.mean_wxyz),
            basis=exact.arrays.basis[..., order],
            explained=variances[order] / max(variances.sum() + exact.residual, 1e-300),
            deviations=np.sqrt(variances[order]),
        )


def _basis(table: FloatArray, metric: FloatArray, directions: FloatArray, deviations: FloatArray) -> FloatArray:
    r"""Turn of each joint per unit of each coordinate ``(J, 3, k)``.

    It is :math:`W^{-1}E`, written as the regression of the tangents on the coordinates, which also tells how joints of
    no weight move along.
    """
    joints, count = len(metric), directions.shape[1]
    basis = np.zeros((joints, 3, count))
    if np.all(metric[1:] == 1.0):
        basis[1:] = directions.reshape(joints - 1, 3, count)
        return basis
    # Regression of the tangents on the coordinates
    scores = (table * np.repeat(np.sqrt(metric[1:]), 3)) @ directions
    basis[1:] = (table.T @ (scores / (len(table) * deviations**2))).reshape(joints - 1, 3, count)
    return basis
