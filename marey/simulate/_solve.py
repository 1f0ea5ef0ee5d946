"""One step under constraints: the velocity that is nearest to the free one, by mass, and keeps all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.simulate._rows import HARD, Rows

TOLERANCE: Final = 1e-10  # [m/s], [rad/s] rows may be missed by; a decade below what is promised
CONFLICT: Final = 1e-6  # [m/s] missed by more than this, rows contradict one another
RELAXED: Final = 1e-6  # [-] compliance of the highest priority once they do
PRIORITY_STEP: Final = 1e3  # [-] each lower priority is softer by this
SOFTEST: Final = 1e-2  # [-]
REPORTED: Final = 1e-5  # [m/s] a row that is missed by more is named
MAX_PASSES: Final = 20  # of staggered friction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution:
    r"""Velocity of a step and the multipliers of its rows, :math:`v = M^{-1}(f + J^T\lambda)`."""

    velocity: FloatArray  # (d,)
    multipliers: FloatArray  # (m,) [N s]
    missed: FloatArray  # (m,) how far each row is broken
    relaxed: tuple[str, ...]  # names of rows that could not all be kept
    changes: int  # of the active set
    passes: int  # of staggered friction; one for everything else
    is_converged: bool

    def __repr__(self) -> str:
        note = f", relaxed {', '.join(self.relaxed)}" if self.relaxed else ""
        return f"Solution({len(self.multipliers)} rows, {self.changes} changes{note})"


def solve_step(
    inertia: FloatArray,
    rhs: FloatArray,
    rows: Rows,
    *,
    start: FloatArray | None = None,
) -> Solution:
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
    from marey.simulate._solve_factor_kernels import cholesky, solved

    U, _ = cholesky(inertia)
    return solve_factored(U, solved(U, rhs), rows, start=start)


def solve_factored(
    U: FloatArray,
    free_velocity: FloatArray,
    rows: Rows,
    *,
    start: FloatArray | None = None,
) -> Solution:
    """As :func:`solve_step`, from the upper factor of the inertia and the velocity without rows."""
    from marey.simulate._solve_kernels import RowEnds, constrained_velocity

    count = len(rows)
    guess = np.zeros(count) if start is None else start
    ends = RowEnds(rows.J, rows.b, rows.lower, rows.upper, rows.partners, rows.grips)
    hard = np.full(count, HARD)
    velocity, x, missed, changes, passes = constrained_velocity(
        U, free_velocity, ends, hard, guess, TOLERANCE, MAX_PASSES
    )
    relaxed: tuple[str, ...] = ()
    if missed.max(initial=0.0) > CONFLICT * max(1.0, float(np.abs(rows.b).max(initial=0.0))):
        velocity, x, missed, more, passes = constrained_velocity(
            U, free_velocity, ends, _softer(rows.priorities), np.zeros(count), TOLERANCE, MAX_PASSES
        )
        changes += more
        relaxed = tuple(dict.fromkeys(rows.names[int(i)] for i in np.flatnonzero(missed > REPORTED)))
    return Solution(velocity, x, missed, relaxed, changes, passes, changes <= passes * (20 + 4 * count))


def _softer(priorities: IntArray) -> FloatArray:
    """Compliance ``(m,)`` of rows that cannot all be kept."""
    below = priorities.max() - priorities
    return np.minimum(RELAXED * PRIORITY_STEP**below, SOFTEST)
