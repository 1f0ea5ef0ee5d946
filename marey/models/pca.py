"""Principal directions of a table of samples, and how many of them to keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError
from marey.models.pose_model import LinearModel, check_name
from marey.models.samples import SPACES, Clips, gather_samples, mean_rotations, root_triples, to_chart

NOISE = 1e-6  # [-] deviations below this part of the largest are rounding and noise; [Tournier2011]_ §8.1
STILL_VARIANCE = 1e-12  # [rad] a spread below this is the rounding of logarithms: the clip does not move
WIDE = 2  # [-] a table this many times taller than wide is first reduced by QR, which halves the time


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Deviations along orthonormal directions, largest first."""

    deviations: FloatArray  # (r,) root mean square of the samples along each direction
    directions: FloatArray  # (d, r) orthonormal columns

    def shares(self) -> FloatArray:
        """Share of the whole variance along each direction ``(r,)``."""
        squares = self.deviations**2
        return squares / squares.sum() if squares.size else squares


def compute_spectrum(table: FloatArray) -> Spectrum:
    r"""Principal directions of centred samples ``(m, d)``: the right singular vectors, :math:`\sigma^2 = s^2/m`.

    Signs are fixed, so that the entry of largest size is positive; directions that are noise alone are dropped.
    """
    # R of a QR decomposition has the same right singular vectors
    tall = len(table) > WIDE * table.shape[1]
    core = np.linalg.qr(table, mode="r") if tall else table
    _, s, vt = np.linalg.svd(core, full_matrices=False)
    deviations = s / np.sqrt(len(table))
    kept = deviations > max(NOISE * deviations.max(initial=0.0), STILL_VARIANCE)
    directions = vt[kept].T
    directions[~table.any(axis=0)] = 0.0  # what never moves gets no rounding either
    largest = np.argmax(np.abs(directions), axis=0)
    signs = np.sign(directions[largest, np.arange(directions.shape[1])])
    return Spectrum(deviations[kept], directions * signs)


def choose_count(shares: FloatArray, n_components: int | None, explained: float) -> int:
    r"""How many components to keep: those asked for, or the fewest whose shares sum to ``explained``.

    .. math:: k = \min\{k : \sum_{i \le k} \sigma_i^2 \ge \epsilon \sum_i \sigma_i^2\}

    (8.11) of [Tournier2011]_, (3.2) of [Safonova2006]_. A clip that does not move has none.
    """
    if n_components is not None:
        return min(n_components, len(shares))
    reached = np.cumsum(shares) >= explained - 1e-12  # a sum of all shares may miss one by rounding
    return int(np.argmax(reached)) + 1 if reached.any() else len(shares)


def check_choice(n_components: int | None, explained: float) -> None:
    """Refuse settings that choose nothing.

    Raises:
        InputError: a negative number of components, or a share outside 0 to 1.
    """
    if n_components is not None and (isinstance(n_components, bool) or n_components < 0):
        raise InputError(f"n_components is {n_components}", "Give a number of components, or None to use `explained`")
    if not 0.0 < explained <= 1.0:
        raise InputError(f"explained is {explained}", "It is a share of the variance: above 0, at most 1")


ROOTS = ("none", "tilt", "full", "auto")
YAW_SHARE = 0.2  # [-] of the variance; above, turns swallow the pose and the yaw is kept out of the analysis


@dataclass(frozen=True, slots=True)
class PCA:
    r"""Principal components of joint angles: the flat baseline, and the behaviour spaces of [Safonova2006]_.

    .. math:: Q' = Q_m + \sum_{i \le k} B_i x_i, \qquad
              k = \min\Big\{k : \sum_{i \le k}\lambda_i \ge \epsilon \sum_i \lambda_i\Big\}

    (3.1) and (3.2) there. Unlike PGA, the result depends on how the joint frames are laid into the body.
    """

    n_components: int | None = None  # how many components; None: as many as ``explained`` needs
    explained: float = 0.95  # share of the variance to keep
    space: str = "exponential"  # angles: rotation vectors, or "euler" angles
    root: str = "none"
    """whether the root's orientation is part of the pose: ``"none"``, ``"tilt"`` (not its yaw), ``"full"``, or
    ``"auto"``, full unless yaw makes more than a fifth of the variance"""
    at_least: int = 0  # bounds for the number that ``explained`` gives
    at_most: int | None = None

    def __post_init__(self) -> None:
        check_choice(self.n_components, self.explained)
        check_name("space", self.space, SPACES)
        check_name("root", self.root, ROOTS)
        if self.at_least < 0 or (self.at_most is not None and self.at_most < self.at_least):
            raise InputError(f"at_least is {self.at_least}, at_most {self.at_most}", "Give 0 <= at_least <= at_most")

    @classmethod
    def behaviour(cls, explained: float = 0.9) -> PCA:
        """Settings of [Safonova2006]_ §3.1.1: Euler angles with the root, 90 % of the variance, 6 to 10 components.

        The source prints 7 to 9; spaces of fewer than 6 proved too small to make new motions, of more than 10 slow.
        """
        return cls(explained=explained, space="euler", root="auto", at_least=6, at_most=10)

    def fit(self, motions: Clips) -> LinearModel:
        """Fit a model on the poses of one clip or more, of the same joints.

        Raises:
            InputError: fewer than two poses, or skeletons that differ; the message says what differs.
            ConvergenceError: a joint turns all the way around, so that it has no mean; the message names it.
        """
        samples = gather_samples(motions)
        reference = np.zeros((samples.skeleton.num_joints, 3))
        reference[1:] = to_chart(self.space, mean_rotations(samples).mean)
        # Angles of all poses, each nearest to that of the mean pose
        angles = np.zeros((samples.count, *reference.shape))
        angles[:, 1:] = to_chart(self.space, samples.rotations, reference[1:])
        if self.root != "none":
            angles[:, 0] = np.concatenate([root_triples(motion) for motion in samples.motions])
        variances = angles.var(axis=0)
        yaw_share = float(variances[0, 1] / max(float(variances.sum()), 1e-300))
        if self.root == "tilt" or (self.root == "auto" and yaw_share > YAW_SHARE):
            angles[:, 0, 1] = 0.0
        centre = angles.mean(axis=0)
        table = (angles - centre).reshape(samples.count, -1)
        found = compute_spectrum(table)
        shares = found.shares()
        # (3.2), within the bounds unless a number was asked for
        count = choose_count(shares, self.n_components, self.explained)
        if self.n_components is None:
            most = len(shares) if self.at_most is None else min(self.at_most, len(shares))
            count = min(max(count, self.at_least), most)
        left = float((found.deviations[count:] ** 2).sum()) / max(table.shape[1] - count, 1)
        return LinearModel(
            samples.skeleton,
            self.space,
            centre,
            found.directions[:, :count].reshape(*centre.shape, count),
            reference,
            self.root != "none",
            shares[:count],
            found.deviations[:count],
            left,
            samples.root_position,
            samples.motions[0].rate_hz,
        )
