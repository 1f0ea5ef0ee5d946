"""The l1 trust-region method: quadratic programmes with elastic rows, accepted by an exact penalty."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from marey.base import FloatArray, frozen
from marey.numerics._sparse_piqp import ElasticQP
from marey.numerics._sqp_programme import Programme, SQPIteration, SQPResult, row_violations, worst_rows
from marey.numerics._status import SolveStatus

MAX_TRUST = 2.0
MIN_TRUST = 1e-6
MAX_PENALTY = 1e6
DAMPING = 1e-4  # added to the Hessian's diagonal; the acceleration term has a kernel


class TrustSearch:
    """The moving state of one solve."""

    def __init__(
        self,
        programme: Programme,
        x: FloatArray,
        tolerance: float,
        trust: float,
        penalty: float,
        max_iterations: int,
        time_limit_s: float | None,
        on_iteration: Callable[[SQPIteration], bool | None] | None,
    ) -> None:
        self.programme, self.x, self.tolerance = programme, x, tolerance
        self.trust, self.penalty, self.max_iterations = trust, penalty, max_iterations
        self.start_time = time.perf_counter()
        self.time_limit_s, self.on_iteration = time_limit_s, on_iteration
        self.objective, self.rows = self.evaluate(x)
        self.multipliers = np.zeros(self.rows.size)
        self.best = (x, self.objective, self.rows)
        self.history: list[SQPIteration] = []
        self.qp = ElasticQP()

    def evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        objective, rows = self.programme.values(x)
        return float(objective), np.asarray(rows, dtype=np.float64)

    def merit(self, objective: float, rows: FloatArray) -> float:
        return objective + self.penalty * float(row_violations(self.programme, rows).sum())

    @property
    def violation(self) -> float:
        return float(row_violations(self.programme, self.rows).max(initial=0.0))

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start_time

    def run(self) -> SQPResult:
        if not self.is_finite(self.objective, self.rows):
            return self.result(SolveStatus.NOT_FINITE)
        derivatives = self.programme.derivatives(self.x)
        while True:
            if len(self.history) >= self.max_iterations:
                return self.result(SolveStatus.ITERATION_LIMIT)
            if self.time_limit_s is not None and self.seconds > self.time_limit_s:
                return self.result(SolveStatus.TIME_LIMIT)
            before, was_trust = self.objective, self.trust
            accepted, step, drop = self.advance(*derivatives)
            if self.report(step if accepted else 0.0, accepted):
                return self.result(SolveStatus.STOPPED)
            is_feasible = self.violation < self.tolerance
            is_still = abs(drop) < self.tolerance * (1.0 + abs(before))
            if is_feasible and is_still and (accepted or was_trust < 1e-3):
                return self.result(SolveStatus.CONVERGED)
            if self.trust < MIN_TRUST:
                return self.result(SolveStatus.CONVERGED if is_feasible else SolveStatus.INFEASIBLE)
            if accepted:
                derivatives = self.programme.derivatives(self.x)

    def advance(self, gradient: FloatArray, hessian: object, jacobian: object) -> tuple[bool, float, float]:
        """Solve one quadratic programme and move if the penalty falls; tell whether, how far, and by how much."""
        programme, x = self.programme, self.x
        low = np.maximum(programme.lower - x, -self.trust)
        high = np.minimum(programme.upper - x, self.trust)
        self.qp.set(gradient, hessian, jacobian, DAMPING)
        d, multipliers, linear = self.qp.solve(self.rows, programme, low, high, self.penalty)
        now = float(row_violations(programme, self.rows).sum())
        while now > self.tolerance and now - linear < 0.1 * now and self.penalty < MAX_PENALTY:
            self.penalty = min(3.0 * self.penalty, MAX_PENALTY)
            d, multipliers, again = self.qp.solve(self.rows, programme, low, high, self.penalty)
            if again > 0.99 * linear:
                break
            linear = again
        merit = self.merit(self.objective, self.rows)
        predicted = -self.qp.model(d) + self.penalty * (now - linear)
        trial = self.evaluate(x + d)
        actual = merit - self.merit(*trial)
        if not actual > 0.25 * predicted and self.is_finite(*trial):
            shifted = trial[1] - self.qp.linear_rows(d)
            e, other, _ = self.qp.solve(shifted, programme, low, high, self.penalty)
            second = self.evaluate(x + e)
            gain = merit - self.merit(*second)
            if self.is_finite(*second) and gain > actual:
                d, trial, actual, multipliers = e, second, gain, other
        ratio = actual / max(predicted, 1e-16) if self.is_finite(*trial) else -1.0
        accepted = bool(ratio > 1e-3)
        step = float(np.abs(d).max(initial=0.0))
        if accepted:
            self.x, self.multipliers = np.clip(x + d, programme.lower, programme.upper), multipliers
            self.objective, self.rows = trial
            self.keep()
        if ratio > 0.7:
            self.trust = min(2.0 * self.trust, MAX_TRUST)
        elif ratio < 0.25:
            self.trust *= 0.5 if accepted else 0.35
        return accepted, step, actual

    def keep(self) -> None:
        """Remember the best iterate: least violated, then lowest."""
        worst = float(row_violations(self.programme, self.best[2]).max(initial=0.0))
        if (max(self.violation, self.tolerance), self.objective) < (max(worst, self.tolerance), self.best[1]):
            self.best = (self.x, self.objective, self.rows)

    def report(self, step: float, accepted: bool) -> bool:
        entry = SQPIteration(
            len(self.history) + 1,
            self.x,
            self.objective,
            self.violation,
            step,
            self.trust,
            self.penalty,
            self.seconds,
            accepted,
        )
        self.history.append(entry)
        return bool(self.on_iteration is not None and self.on_iteration(entry))

    @staticmethod
    def is_finite(objective: float, rows: FloatArray) -> bool:
        return bool(np.isfinite(objective) and np.isfinite(rows).all())

    def result(self, status: SolveStatus) -> SQPResult:
        x, objective, rows = self.best
        violation = float(row_violations(self.programme, rows).max(initial=0.0))
        return SQPResult(
            status,
            frozen(x, name="x"),
            len(self.history),
            objective,
            violation,
            self.seconds,
            frozen(self.multipliers, name="multipliers"),
            worst_rows(self.programme, rows, self.tolerance),
            tuple(self.history),
            _ADVICE[status],
        )


_ADVICE = {
    SolveStatus.CONVERGED: "Nothing to do.",
    SolveStatus.ITERATION_LIMIT: "Allow more iterations or start nearer to the solution.",
    SolveStatus.TIME_LIMIT: "Allow more time, or a coarser programme first.",
    SolveStatus.STOPPED: "Stopped as asked; the best iterate is kept.",
    SolveStatus.INFEASIBLE: "Relax the rows named as worst, or start elsewhere.",
    SolveStatus.STALLED: "Check the derivatives against differences, or start elsewhere.",
    SolveStatus.NOT_FINITE: "Start where the objective and all rows are finite.",
}
