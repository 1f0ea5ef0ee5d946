"""Jacobians by finite differences: the numerical twin of a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import EPS, FloatArray, InputError, UnknownNameError, frozen

Scheme = Literal["forward", "central", "five-point"]

# Scheme: (order, nodes, weights). The best step balances rounding, EPS/h, with truncation, h^order.
_SCHEMES: dict[str, tuple[int, tuple[float, ...], tuple[float, ...]]] = {
    "forward": (1, (0.0, 1.0), (-1.0, 1.0)),
    "central": (2, (-1.0, 1.0), (-0.5, 0.5)),
    "five-point": (4, (-2.0, -1.0, 1.0, 2.0), (1 / 12, -2 / 3, 2 / 3, -1 / 12)),
}


def finite_difference_jacobian(
    function: Callable[[FloatArray], ArrayLike], x: ArrayLike, *, scheme: Scheme = "central", step: float | None = None
) -> FloatArray:
    r"""Jacobian of ``function`` at ``x``, one column for each coordinate.

    .. math:: \partial_i f \approx \frac{1}{h_i}\sum_k w_k\,f(x + n_k h_i e_i),
        \qquad h_i = \epsilon^{1/(p+1)}\max(1, |x_i|)

    Args:
        function: maps ``(n,)`` to an array of any shape ``S``.
        x: point ``(n,)``.
        scheme: "forward" (order p = 1), "central" (2) or "five-point" (4).
        step: relative step, in place of :math:`\epsilon^{1/(p+1)}`.

    Returns:
        Array of shape ``S + (n,)``.

    Raises:
        InputError: the step is not positive, or the function not finite near ``x``; the message tells where.
    """
    if scheme not in _SCHEMES:
        raise UnknownNameError("scheme", scheme, "finite_difference_jacobian", _SCHEMES)
    if step is not None and not 0.0 < step < np.inf:
        raise InputError(f"step is {step}", "Give a positive number, or none")
    order, nodes, weights = _SCHEMES[scheme]
    point = frozen(x, None, name="x")
    relative = EPS ** (1.0 / (order + 1)) if step is None else float(step)
    steps = relative * np.maximum(1.0, np.abs(point))
    steps = (point + steps) - point  # what is really added
    columns = [_derivative(function, point, i, steps[i], nodes, weights) for i in range(point.size)]
    return np.stack(columns, axis=-1) if columns else np.zeros((*np.shape(function(point.copy())), 0))


def _derivative(
    function: Callable[[FloatArray], ArrayLike],
    point: FloatArray,
    i: int,
    h: float,
    nodes: tuple[float, ...],
    weights: tuple[float, ...],
) -> FloatArray:
    total: FloatArray | None = None
    for node, weight in zip(nodes, weights, strict=True):
        moved = point.copy()
        moved[i] += node * h
        value = np.asarray(function(moved), dtype=np.float64)
        if not np.isfinite(value).all():
            raise InputError(f"the function is not finite at coordinate {i} moved by {node * h:.2e}")
        total = weight * value if total is None else total + weight * value
    assert total is not None
    return total / h
