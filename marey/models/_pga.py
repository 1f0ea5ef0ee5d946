"""Principal geodesic analysis: settings and fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3, frechet_mean
from marey.models._contract import PoseModel
from marey.models._geodesic import KINDS, GeodesicModel, check_name
from marey.models._samples import Clips, Samples, gather
from marey.models._spectrum import check_choice, choose_count, spectrum

METHODS = ("linearised", "exact")


@dataclass(frozen=True, slots=True)
class PGA:
    r"""Principal geodesic analysis of poses: the mean and the directions in which a body moves most.

    .. math:: t_i = \log(\mu^{-1} q_i), \qquad v_1, v_2, \dots = \text{right singular vectors of } (t_1, t_2, \dots)^T

    [Tournier2011]_ §8.1, after [Fletcher2004]_.
    """

    n_components: int | None = None  # how many geodesics; None: as many as ``explained`` needs
    explained: float = 0.95  # share of the variance to keep
    method: str = "linearised"
    kind: str = "first"

    def __post_init__(self) -> None:
        check_choice(self.n_components, self.explained)
        check_name("method", self.method, METHODS)
        check_name("kind", self.kind, KINDS)

    def fit(self, motions: Clips) -> PoseModel:
        """Fit a model on the poses of one clip or more."""
        samples = gather(motions)
        centre = _with_root(frechet_mean(samples.rotations))
        return self._linearised(samples, centre)

    def _linearised(self, samples: Samples, centre: SO3) -> GeodesicModel:
        joints = samples.skeleton.num_joints
        table = _tangent_table(samples, centre)
        found = spectrum(table)
        count = choose_count(found.shares(), self.n_components, self.explained)
        basis = np.zeros((joints, 3, count))
        basis[1:] = found.directions[:, :count].reshape(joints - 1, 3, count)
        return GeodesicModel(
            samples.skeleton,
            centre,
            basis,
            np.ones(joints),
            found.shares()[:count],
            found.deviations[:count],
            samples.root_position,
            samples.motions[0].rate_hz,
            kind=self.kind,
            projection="exact" if self.kind == "second" else "linear",
        )


def _with_root(rotations: SO3) -> SO3:
    return SO3.concatenate([SO3.identity(1), rotations])


def _tangent_table(samples: Samples, centre: SO3) -> FloatArray:
    logs = (centre[1:].inverse() @ samples.rotations).log()
    return logs.reshape(samples.count, -1)
