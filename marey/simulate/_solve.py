"""One step under constraints: the velocity that is nearest to the free one, by mass, and keeps all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.simulate._rows import HARD, ConstraintRows

TOLERANCE: Final = 1e-10  # [m/s], [rad/s] rows may be missed by; a decade below what is promised
CONFLICT: Final = 1e-6  # [m/s] missed by more than this, rows contradict one another
IMPLAUSIBLE_ENERGY_RATIO: Final = (
    10.0  # [-] times the speed that a row asks for: faster than this, the whole figure never has to move
)
SLOW: Final = 1.0  # [m/s] where nothing is asked for
COMPLIANCES: Final = (1e-6, 1e-4, 1e-2)  # [-] compliance of the highest priority once they do, until they let go
PRIORITY_STEP: Final = 1e3  # [-] each lower priority is softer by this
MAX_COMPLIANCE: Final = 1e-2  # [-]
REPORTED_VIOLATION: Final = 1e-5  # [m/s] a row that is missed by more is named
MAX_PASSES: Final = 20  # of staggered friction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepSolution:
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
    from marey.simulate._solve_factor_kernels import cholesky, solve_cholesky

    U, _ = cholesky(inertia)
    return solve_factored(U, solve_cholesky(U, rhs), rows, start=start)


def solve_factored(
    U: FloatArray,
    free_velocity: FloatArray,
    rows: ConstraintRows,
    *,
    start: FloatArray | None = None,
) -> StepSolution:
    """As :func:`solve_step`, from the upper factor of the inertia and the velocity without rows."""
    from marey.simulate._solve_kernels import RowArrays, solve_constrained_velocity

    count = len(rows)
    ends = RowArrays(rows.J, rows.b, rows.lower, rows.upper, rows.partners, rows.grips)
    fastest = float(np.where(np.isneginf(rows.lower), np.abs(rows.b), rows.b).max(initial=0.0))

    def solved(compliance: FloatArray, guess: FloatArray) -> StepSolution:
        found = solve_constrained_velocity(U, free_velocity, ends, compliance, guess, TOLERANCE, MAX_PASSES)
        velocity, x, missed, changes, passes = found
        return StepSolution(velocity, x, missed, (), changes, passes, changes <= passes * (20 + 4 * count))

    found = solved(np.full(count, HARD), np.zeros(count) if start is None else start)
    is_kept = found.missed.max(initial=0.0) <= CONFLICT * max(1.0, float(np.abs(rows.b).max(initial=0.0)))
    for softness in COMPLIANCES:
        if is_kept and not is_energy_implausible(U, free_velocity, found.velocity, fastest):
            break
        softer = solved(relaxed_compliance(rows.priorities, softness), np.zeros(count))
        names = tuple(dict.fromkeys(rows.names[int(i)] for i in np.flatnonzero(softer.missed > REPORTED_VIOLATION)))
        found, is_kept = replace(softer, relaxed=names, changes=found.changes + softer.changes), True
    return found


def is_energy_implausible(U: FloatArray, free_velocity: FloatArray, velocity: FloatArray, fastest: float) -> bool:
    """Whether rows that ask for speeds up to ``fastest`` are kept only by an energy out of all proportion.

    Rows that all but contradict one another, as those of a floor and a lid with a figure between them, can be.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # speeds may be beyond all numbers; the step finds out
        before, after = (0.5 * float(moved @ moved) for moved in (U @ free_velocity, U @ velocity))
        heaviest = float((U**2).sum(axis=0).max(initial=0.0))
        return after > before + 0.5 * heaviest * (IMPLAUSIBLE_ENERGY_RATIO * max(fastest, SLOW)) ** 2


def relaxed_compliance(priorities: IntArray, softness: float) -> FloatArray:
    """Compliance ``(m,)`` of rows that cannot all be kept, the highest priority's given."""
    below = priorities.max() - priorities
    return np.minimum(softness * PRIORITY_STEP**below, MAX_COMPLIANCE)
