"""Principal geodesic analysis: settings and fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3
from marey.models.geodesic_fits import ExactFit, fit_deflation, fit_exact, fit_variance
from marey.models.kinetic import pose_mass_matrix
from marey.models.pca import check_choice, choose_count, compute_spectrum
from marey.models.pose_model import KINDS, GeodesicModel, check_name
from marey.models.samples import Clips, gather_samples, lever_arms, mean_rotations
from marey.skeleton import Pose

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
