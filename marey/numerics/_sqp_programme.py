"""What a sparse nonlinear programme offers to its solver, and what the solver gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.numerics._status import SolveStatus

FIXED_WIDTH = 1e-9  # a variable with less room than this does not move
NUM_WORST = 5  # rows that a result names


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
        """Objective and rows ``(m,)`` at x; NaN where they cannot be told, which shortens the step."""
        ...

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient ``(n,)``, Hessian ``(n, n)`` and Jacobian ``(m, n)`` at x.

        The last two are ``scipy.sparse.csc_array`` with the same pattern at every call. The Hessian is that of the
        objective (Gauss-Newton), symmetric with both triangles, positive semidefinite.
        """
        ...

    def row_name(self, index: int) -> str:
        """What a row asks for, in words: phase, time, quantity."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SQPIteration:
    """Where an iteration came to; handed to ``on_iteration``."""

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


@dataclass(frozen=True, slots=True, eq=False)
class SQPSettings:
    """What the caller asked for."""

    tolerance: float = 1e-4
    trust: float = 0.5
    penalty: float = 10.0
    max_iterations: int = 200
    time_limit_s: float | None = None
    on_iteration: Callable[[SQPIteration], bool | None] | None = None


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


def row_violations(programme: NonlinearProgramme, rows: FloatArray) -> FloatArray:
    """How far each row ``(m,)`` is outside its ends, not negative."""
    return np.maximum(np.maximum(programme.row_lower - rows, rows - programme.row_upper), 0.0)


def worst_rows(programme: NonlinearProgramme, rows: FloatArray, tolerance: float) -> tuple[tuple[str, float], ...]:
    """Names and violations of the most violated rows above the tolerance, worst first."""
    violations = row_violations(programme, rows)
    order = np.argsort(-violations, kind="stable")[:NUM_WORST]
    return tuple((programme.row_name(int(i)), float(violations[i])) for i in order if violations[i] > tolerance)
