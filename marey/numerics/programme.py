"""Status of every solver; the interface of nonlinear programmes, and the record of the trials of an SQP method."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, Protocol

import numpy as np

from marey.base import BoolArray, ConvergenceError, FloatArray, InputError, frozen

OnFailure = Literal["raise", "return"]
_CHOICES: Final = ("raise", "return")
FIXED_WIDTH = 1e-9  # a variable with less room than this does not move
NUM_WORST = 5  # rows that a result names


class SolveStatus(Enum):
    """Status of the numbers in a result."""

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration limit"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped"  # the caller asked for it
    STALLED = "stalled"  # no step improves, yet the tolerance is not reached
    NOT_FINITE = "not finite"  # the function gave NaN or infinity where it has to be finite
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NOT_CONVEX = "not convex"

    def __str__(self) -> str:
        return self.name


def check_on_failure(on_failure: str) -> None:
    """Refuse anything but ``"raise"`` and ``"return"``."""
    if on_failure not in _CHOICES:
        raise InputError(f"on_failure is {on_failure!r}", "Say 'raise' or 'return'")


def raise_if_asked(solver: str, status: SolveStatus, advice: str, result: object, on_failure: OnFailure) -> None:
    """Raise :class:`ConvergenceError` with the result as its report, unless it converged or failures are returned."""
    if on_failure == "raise" and status is not SolveStatus.CONVERGED:
        raise ConvergenceError(f"{solver}: {status.value}. {advice}", report=result)


class NonlinearProgramme(Protocol):
    r"""Minimise :math:`f(x)` subject to :math:`l_x \le x \le u_x` and :math:`l \le c(x) \le u`.

    Rows with equal ends are equalities. Scale variables so that a step of one is large, and rows so that a violation
    of one is gross: the trust region and the penalty take all alike. Time-major variables make a narrow band.
    """

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the variables ``(n,)``; ``-inf`` for none, equal to the upper end for a fixed one."""
        ...

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the variables ``(n,)``."""
        ...

    @property
    def row_lower(self) -> FloatArray:
        """Lower ends of the rows ``(m,)``; ``-inf`` for none."""
        ...

    @property
    def row_upper(self) -> FloatArray:
        """Upper ends of the rows ``(m,)``."""
        ...

    @property
    def is_linear(self) -> BoolArray:
        """Which rows are linear in x ``(m,)``."""
        ...

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows ``(m,)`` at x; NaN where they are undefined, which shortens the step."""
        ...

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient ``(n,)``, Hessian ``(n, n)`` and Jacobian ``(m, n)`` at x.

        The last two are ``scipy.sparse.csc_array`` with the same pattern at every call. The Hessian is that of the
        objective (Gauss-Newton), symmetric with both triangles, positive semidefinite.
        """
        ...

    def row_name(self, index: int) -> str:
        """Description of a row: phase, time, quantity."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SQPIteration:
    """State of an iteration; passed to ``on_iteration``."""

    index: int
    x: FloatArray  # (n,) current iterate
    objective: float
    violation: float  # largest, of scaled rows
    step: float  # largest change of a variable, 0 if the step was refused
    trust: float  # radius of the next step
    penalty: float
    seconds: float  # since the start
    is_accepted: bool
    num_inner: int = 0  # factorisations ("sl1qp") or conjugate-gradient steps ("fang2003") it took


OnIteration = Callable[[SQPIteration], bool | None]  # sees every iteration; returns True to stop


@dataclass(frozen=True, slots=True, eq=False)
class SQPSettings:
    """What the caller asked for."""

    tolerance: float = 1e-4
    objective_tolerance: float = 1e-4
    trust: float = 0.5
    penalty: float = 10.0
    max_iterations: int = 200
    time_limit_s: float | None = None
    on_iteration: OnIteration | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SQPResult:
    """Best iterate found; every number is finite."""

    status: SolveStatus
    x: FloatArray  # (n,)
    iterations: int
    objective: float
    violation: float  # largest, of scaled rows
    seconds: float
    multipliers: FloatArray  # (m,) of the rows: positive where the upper end holds x back
    worst: tuple[tuple[str, float], ...]  # most violated rows by name, worst first
    history: tuple[SQPIteration, ...]
    advice: str  # what to do next, one sentence

    @property
    def is_solved(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status is SolveStatus.CONVERGED

    def __repr__(self) -> str:
        numbers = f"{self.iterations} iterations, objective {self.objective:.6g}, violation {self.violation:.2g}"
        return f"SQPResult({self.status}, {numbers}, {self.seconds:.2f} s)"


LARGEST: Final = float(np.finfo(np.float64).max)  # value of an undefined quantity

ADVICE: Final = {
    SolveStatus.CONVERGED: "Nothing to do.",
    SolveStatus.ITERATION_LIMIT: "Allow more iterations or start nearer to the solution.",
    SolveStatus.TIME_LIMIT: "Allow more time, or solve a coarser programme first.",
    SolveStatus.STOPPED: "Stopped on request; the best iterate is kept.",
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
    violation: float  # largest
    is_finite: bool  # whether the programme is defined here

    def merit(self, penalty: float) -> float:
        """Exact penalty; infinite where the programme is undefined."""
        return self.objective + penalty * float(self.violations.sum()) if self.is_finite else np.inf


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
        outside = np.maximum(self.programme.row_lower - rows, rows - self.programme.row_upper)
        violations, is_finite = np.maximum(outside, 0.0), bool(np.isfinite(objective) and np.isfinite(rows).all())
        return TrialPoint(x, float(objective), rows, violations, float(violations.max(initial=0.0)), is_finite)

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any] | None:
        """Gradient, Hessian and Jacobian, or None where one is not finite."""
        gradient, hessian, jacobian = self.programme.derivatives(x)
        slope = np.asarray(gradient, dtype=np.float64)
        is_finite = all(np.isfinite(part).all() for part in (slope, hessian.data, jacobian.data))
        return (slope, hessian, jacobian) if is_finite else None

    def keep(self, trial: TrialPoint) -> None:
        """Remember a point if it is the best so far."""
        tolerance = self.settings.tolerance
        rank = (max(trial.violation, tolerance), trial.objective)  # least violated first, then lowest
        if self.best is None or rank < (max(self.best.violation, tolerance), self.best.objective):
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
        """Record an iteration, call ``on_iteration``, and return whether the caller wants to stop."""
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
        # Names and violations of the most violated rows above the tolerance, worst first
        order = np.argsort(-best.violations, kind="stable")[:NUM_WORST]
        worst = [i for i in order.tolist() if best.violations[i] > self.settings.tolerance]
        return SQPResult(
            status,
            frozen(best.x, name="x"),
            len(self.history),
            best.objective if np.isfinite(best.objective) else LARGEST,
            best.violation if np.isfinite(best.violation) else LARGEST,
            self.seconds,
            frozen(multipliers, name="multipliers"),
            tuple((self.programme.row_name(i), float(best.violations[i])) for i in worst),
            tuple(self.history),
            advice or ADVICE[status],
        )
