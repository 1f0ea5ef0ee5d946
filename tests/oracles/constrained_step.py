"""One constrained step from its inertia and right-hand side; the simulator has both factored already."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError
from marey.simulate import ConstraintRows
from marey.simulate.bounded_qp import cholesky, solve_cholesky
from marey.simulate.constrained_step import StepSolution, solve_factored


def solve_step(
    inertia: FloatArray,
    rhs: FloatArray,
    rows: ConstraintRows,
    *,
    start: FloatArray | None = None,
) -> StepSolution:
    r"""Minimise :math:`\frac12 v^T M v - f^T v` under rows :math:`J v = b`, :math:`J v \ge b`.

    [Tournier2011]_ §10.3. Rows that repeat one another change nothing. Rows that contradict one another are relaxed,
    those of the lowest priority most, and named.

    Args:
        inertia: symmetric positive definite ``(d, d)``, with any damping in it.
        rhs: f ``(d,)``.
        rows: what must hold.
        start: guess of the multipliers ``(m,)``.
    """
    if not (
        np.isfinite(inertia).all()
        and np.isfinite(rhs).all()
        and np.isfinite(rows.J).all()
        and np.isfinite(rows.b).all()
    ):
        raise InputError("a step has entries that are not finite", "Check forces, targets and the length of the step")

    U, _ = cholesky(inertia)
    return solve_factored(U, solve_cholesky(U, rhs), rows, start=start)
