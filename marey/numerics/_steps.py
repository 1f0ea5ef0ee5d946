"""Steps of linearised least squares."""

from __future__ import annotations

from typing import cast

import numpy as np

from marey.base import FloatArray

UNSEEN_SHARE = 1e-9  # [-] of the mean squared column; keeps the system regular where a variable has no effect


def gauss_newton_step(J: FloatArray, residual: FloatArray) -> FloatArray:
    r"""Shortest :math:`\delta` that minimises :math:`\|J\delta + r\|`, by singular values."""
    if J.shape[1] == 0:
        return np.zeros(0)
    return np.asarray(np.linalg.lstsq(J, -residual, rcond=None)[0], dtype=np.float64)


def levenberg_marquardt_step(J: FloatArray, residual: FloatArray, damping: float) -> FloatArray:
    r"""Minimise :math:`\|J\delta + r\|^2 + \lambda\|D\delta\|^2`, with D the column norms of J.

    By an orthogonal factorisation of the stacked system, which does not square the condition number.
    """
    size = J.shape[1]
    if size == 0:
        return np.zeros(0)
    squares = np.einsum("ij,ij->j", J, J)
    floor = UNSEEN_SHARE * squares.mean() or 1.0
    stacked = np.zeros((J.shape[0] + size, size + 1))
    stacked[: J.shape[0], :size] = J
    stacked[: J.shape[0], size] = -residual
    stacked[J.shape[0] :, :size] = np.diag(np.sqrt(damping * np.maximum(squares, floor)))
    upper = cast(FloatArray, np.linalg.qr(stacked, mode="r"))
    return cast(FloatArray, np.linalg.solve(upper[:size, :size], upper[:size, size]))
