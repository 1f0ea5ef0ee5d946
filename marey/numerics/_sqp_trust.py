"""The l1 trust-region method: quadratic programmes with elastic rows, accepted by an exact penalty."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from marey.base import FloatArray, frozen
from marey.numerics._sparse_elastic import ElasticQP, QPStep
from marey.numerics._sqp_programme import (
    Programme,
    SQPIteration,
    SQPResult,
    SQPSettings,
    row_violations,
    worst_rows,
)
from marey.numerics._status import SolveStatus

MAX_TRUST = 2.0
MIN_TRUST = 1e-6
MAX_PENALTY = 1e6
DAMPING = 1e-4  # added to the Hessian's diagonal; the acceleration term has a kernel
QP_SHARE = 1e-2  # [-] of the tolerance: gap at which a quadratic programme is solved


@dataclass(slots=True, eq=False)
class Trial:
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


class TrustSearch:
    """The moving state of one solve."""

    def __init__(self, programme: Programme, x: FloatArray, settings: SQPSettings) -> None:
        self.start_time = time.perf_counter()
        self.programme, self.settings = programme, settings
        self.trust, self.penalty = settings.trust, settings.penalty
        self.lower, self.upper = programme.lower, programme.upper
        self.current = self.best = self.evaluate(x)
        self.multipliers = np.zeros(self.current.rows.size)
        self.history: list[SQPIteration] = []
        self.qp = ElasticQP(programme)
        self.num_stuck = 0

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.start_time

    def evaluate(self, x: FloatArray) -> Trial:
        objective, rows = self.programme.values(x)
        rows = np.asarray(rows, dtype=np.float64)
        return Trial(x, float(objective), rows, row_violations(self.programme, rows))

    def run(self) -> SQPResult:
        if not self.current.is_finite or not self.differentiate():
            return self.result(SolveStatus.NOT_FINITE)
        status = None
        while status is None:
            status = self.spent() or self.iterate()
        return self.result(status)

    def spent(self) -> SolveStatus | None:
        """Whether a quota is used up."""
        if len(self.history) >= self.settings.max_iterations:
            return SolveStatus.ITERATION_LIMIT
        limit = self.settings.time_limit_s
        return SolveStatus.TIME_LIMIT if limit is not None and self.seconds >= limit else None

    def differentiate(self) -> bool:
        """Hand the derivatives at the current point to the quadratic programme, if they are finite."""
        gradient, hessian, jacobian = self.programme.derivatives(self.current.x)
        gradient = np.asarray(gradient, dtype=np.float64)
        if not all(np.isfinite(part).all() for part in (gradient, hessian.data, jacobian.data)):
            return False
        self.qp.set(gradient, hessian, jacobian, DAMPING)
        return True

    def iterate(self) -> SolveStatus | None:
        """One quadratic programme, its correction if needed, and the verdict; a status ends the search."""
        before = self.current
        step = self.solve_step()
        predicted = -step.model + self.penalty * (float(before.violations.sum()) - step.left)
        trial, actual = self.try_step(step, predicted)
        ratio = actual / max(predicted, 1e-300)
        is_accepted = bool(ratio > 1e-3) and self.move(trial)
        self.resize(ratio if is_accepted else -1.0)
        if self.report(float(np.abs(trial.x - before.x).max(initial=0.0)), is_accepted):
            return SolveStatus.STOPPED
        return self.verdict(before, actual, predicted, is_accepted)

    def solve_step(self) -> QPStep:
        """Solve the quadratic programme; raise the penalty while that makes the rows give way."""
        step = self.solve_qp(self.current.rows)
        now = float(self.current.violations.sum())
        while now > self.settings.tolerance and now - step.left < 0.1 * now and self.penalty < MAX_PENALTY:
            was = self.penalty
            self.penalty = min(3.0 * was, MAX_PENALTY)
            firmer = self.solve_qp(self.current.rows)
            if firmer.left > 0.99 * step.left:  # the trust region holds it back, not the penalty
                self.penalty = was
                break
            step = firmer
        self.multipliers = step.multipliers
        return step

    def solve_qp(self, rows: FloatArray) -> QPStep:
        x = self.current.x
        low, high = np.maximum(self.lower - x, -self.trust), np.minimum(self.upper - x, self.trust)
        tolerance = QP_SHARE * self.settings.tolerance * (1.0 + abs(self.current.objective))
        return self.qp.solve(rows, low, high, self.penalty, tolerance)

    def try_step(self, step: QPStep, predicted: float) -> tuple[Trial, float]:
        """Evaluate the step, and its second-order correction where the rows bend too much; keep the better."""
        merit = self.current.merit(self.penalty)
        trial = self.evaluate(self.inside(step.d))
        actual = merit - trial.merit(self.penalty)
        if actual > 0.25 * predicted or not trial.is_finite:
            return trial, actual
        bent = self.solve_qp(trial.rows - self.qp.linear(step.d))
        second = self.evaluate(self.inside(bent.d))
        gain = merit - second.merit(self.penalty)
        return (second, gain) if gain > actual else (trial, actual)

    def inside(self, d: FloatArray) -> FloatArray:
        return np.clip(self.current.x + d, self.lower, self.upper)

    def move(self, trial: Trial) -> bool:
        """Make a trial the current point unless its derivatives are not finite."""
        before, self.current = self.current, trial
        if not self.differentiate():
            self.current = before
            return False
        tolerance = self.settings.tolerance
        if _rank(trial, tolerance) < _rank(self.best, tolerance):
            self.best = trial
        return True

    def resize(self, ratio: float) -> None:
        if ratio > 0.7:
            self.trust = min(2.0 * self.trust, MAX_TRUST)
        elif ratio < 0.25:
            self.trust *= 0.5 if ratio > 1e-3 else 0.35

    def verdict(self, before: Trial, actual: float, predicted: float, is_accepted: bool) -> SolveStatus | None:
        tolerance = self.settings.tolerance
        scale = tolerance * (1.0 + abs(before.objective))
        is_feasible = self.current.violation < tolerance
        if is_feasible and ((is_accepted and abs(actual) < scale) or predicted < 0.1 * scale):
            return SolveStatus.CONVERGED
        if self.trust < MIN_TRUST:
            return SolveStatus.STALLED if is_feasible else SolveStatus.INFEASIBLE
        return None

    def report(self, step: float, is_accepted: bool) -> bool:
        current = self.current
        entry = SQPIteration(
            len(self.history) + 1,
            current.x,
            current.objective,
            current.violation,
            step if is_accepted else 0.0,
            self.trust,
            self.penalty,
            self.seconds,
            is_accepted,
        )
        self.history.append(entry)
        notify = self.settings.on_iteration
        return bool(notify is not None and notify(entry))

    def result(self, status: SolveStatus) -> SQPResult:
        best = self.best
        largest = float(np.finfo(np.float64).max)
        return SQPResult(
            status,
            frozen(best.x, name="x"),
            len(self.history),
            float(np.nan_to_num(best.objective, nan=largest)),
            float(np.nan_to_num(best.violation, nan=largest)),
            self.seconds,
            frozen(self.multipliers, name="multipliers"),
            worst_rows(self.programme, best.rows, self.settings.tolerance),
            tuple(self.history),
            _ADVICE[status],
        )


def _rank(trial: Trial, tolerance: float) -> tuple[float, float]:
    """Order of merit: least violated first, then lowest."""
    return max(trial.violation, tolerance), trial.objective


_ADVICE: dict[SolveStatus, Any] = {
    SolveStatus.CONVERGED: "Nothing to do.",
    SolveStatus.ITERATION_LIMIT: "Allow more iterations or start nearer to the solution.",
    SolveStatus.TIME_LIMIT: "Allow more time, or a coarser programme first.",
    SolveStatus.STOPPED: "Stopped as asked; the best iterate is kept.",
    SolveStatus.INFEASIBLE: "Relax the rows named as worst, or start elsewhere.",
    SolveStatus.STALLED: "Check the derivatives against differences, or start elsewhere.",
    SolveStatus.NOT_FINITE: "Start where the objective, the rows and their derivatives are finite.",
}
