"""Status of a solver; common to all solvers."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

from marey.base import ConvergenceError, InputError

OnFailure = Literal["raise", "return"]
_CHOICES: Final = ("raise", "return")


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
