"""What every SQP method keeps: points tried, the best of them, quotas, history."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.numerics._sqp_programme import (
    NonlinearProgramme,
    SQPIteration,
    SQPResult,
    SQPSettings,
    row_violations,
    worst_rows,
)
from marey.numerics._status import SolveStatus

LARGEST: Final = float(np.finfo(np.float64).max)  # stands for what cannot be told

ADVICE: Final = {
    SolveStatus.CONVERGED: "Nothing to do.",
    SolveStatus.ITERATION_LIMIT: "Allow more iterations or start nearer to the solution.",
    SolveStatus.TIME_LIMIT: "Allow more time, or solve a coarser programme first.",
    SolveStatus.STOPPED: "Stopped as asked; the best iterate is kept.",
    SolveStatus.INFEASIBLE: "Relax the rows named as worst, or start elsewhere.",
    SolveStatus.STALLED: "Check the derivatives against differences, or start elsewhere.",
    SolveStatus.NOT_FINITE: "Start where the objective, the rows and their derivatives are finite.",
}


@dataclass(slots=True, eq=False)
class TrialPoint:
    """A point and what the programme says of it."""

    x: FloatArray  # (n,)
    objective: float
    rows: FloatArray  # (m,)
    violations: FloatArray  # (m,)

    @property
    def is_finite(self) -> bool:
        """Whether the programme could be told here."""
        return bool(np.isfinite(self.objective) and np.isfinite(self.rows).all())

    @property
    def violation(self) -> float:
        """Largest violation of a row."""
        return float(self.violations.max(initial=0.0))

    def merit(self, penalty: float) -> float:
        """Exact penalty; infinite where the programme cannot be told."""
        return self.objective + penalty * float(self.violations.sum()) if self.is_finite else np.inf

    def rank(self, tolerance: float) -> tuple[float, float]:
        """Order of merit: least violated first, then lowest."""
        return max(self.violation, tolerance), self.objective


class SolveRecord:
    """The book of one solve."""

    def __init__(self, programme: NonlinearProgramme, settings: SQPSettings) -> None:
        self.start_time = time.perf_counter()
        self.programme, self.settings = programme, settings
        self.history: list[SQPIteration] = []
        self.best: TrialPoint | None = None

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.start_time

    def evaluate(self, x: FloatArray) -> TrialPoint:
        """Ask the programme."""
        objective, values = self.programme.values(x)
        rows = np.asarray(values, dtype=np.float64)
        if rows.shape != self.programme.row_lower.shape:
            raise InputError(f"the programme gave rows {rows.shape}, its ends are {self.programme.row_lower.shape}")
        return TrialPoint(x, float(objective), rows, row_violations(self.programme, rows))

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any] | None:
        """Gradient, Hessian and Jacobian, or None where one is not finite."""
        gradient, hessian, jacobian = self.programme.derivatives(x)
        slope = np.asarray(gradient, dtype=np.float64)
        is_finite = all(np.isfinite(part).all() for part in (slope, hessian.data, jacobian.data))
        return (slope, hessian, jacobian) if is_finite else None

    def keep(self, trial: TrialPoint) -> None:
        """Remember a point if it is the best so far."""
        tolerance = self.settings.tolerance
        if self.best is None or trial.rank(tolerance) < self.best.rank(tolerance):
            self.best = trial

    def exhausted_quota(self) -> SolveStatus | None:
        """Whether a quota is used up."""
        if len(self.history) >= self.settings.max_iterations:
            return SolveStatus.ITERATION_LIMIT
        limit = self.settings.time_limit_s
        return SolveStatus.TIME_LIMIT if limit is not None and self.seconds >= limit else None

    def report(
        self, current: TrialPoint, step: float, trust: float, penalty: float, is_accepted: bool, num_inner: int
    ) -> bool:
        """Write down an iteration, show it, and tell whether the caller wants to stop."""
        entry = SQPIteration(
            len(self.history) + 1,
            current.x,
            current.objective,
            current.violation,
            step,
            trust,
            penalty,
            self.seconds,
            is_accepted,
            num_inner,
        )
        self.history.append(entry)
        notify = self.settings.on_iteration
        return bool(notify is not None and notify(entry))

    def result(self, status: SolveStatus, multipliers: FloatArray, advice: str = "") -> SQPResult:
        """Close the book."""
        best = self.best
        assert best is not None
        return SQPResult(
            status,
            frozen(best.x, name="x"),
            len(self.history),
            best.objective if np.isfinite(best.objective) else LARGEST,
            best.violation if np.isfinite(best.violation) else LARGEST,
            self.seconds,
            frozen(multipliers, name="multipliers"),
            worst_rows(self.programme, best.rows, self.settings.tolerance),
            tuple(self.history),
            advice or ADVICE[status],
        )
