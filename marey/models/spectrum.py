"""Principal directions of a table of samples, and how many of them to keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError

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
