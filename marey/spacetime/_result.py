"""What a trajectory optimisation answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration
from marey.spacetime._check import SolutionCheck
from marey.spacetime._problem import SpacetimeProblem


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpacetimeResult:
    """A motion, how it was found, and how well it holds between the frames it was solved at."""

    status: SolveStatus
    motion: Motion
    guess: Motion  # where the search started
    violation: float  # largest, of scaled rows
    iterations: int
    seconds: float  # wall time of the whole, reading and checking apart
    objective: float
    terms: dict[str, float]  # the objective by name
    worst: tuple[tuple[str, float], ...]  # most violated rows in words, worst first
    check: SolutionCheck
    history: tuple[SQPIteration, ...]
    advice: str
    problem: SpacetimeProblem | None = None  # as solved, free durations settled
    counts: dict[str, int] = field(default_factory=dict[str, int])  # unknowns, rows, frames, entries of the Jacobian
    levels: tuple[int, ...] = ()  # iterations of each level of refinement, coarsest first

    @property
    def is_solved(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status is SolveStatus.CONVERGED

    @property
    def sentence(self) -> str:
        """What happened, in one line."""
        checked = self.check
        if not self.is_solved:
            rows = "; ".join(f"{name} ({value:.2g})" for name, value in self.worst[:3])
            ended = f"{self.status.value} after {self.iterations} iterations"
            return f"{self.motion.name}: {ended}. Worst: {rows or 'none'}. {self.advice}"
        drift = f"momentum drift {100.0 * checked.angular_momentum_drift:.1f} %"
        return (
            f"{self.motion.name}: {self.iterations} iterations, {self.seconds:.2f} s, violation {self.violation:.1e}; "
            f"between frames: wrench residual {100.0 * checked.wrench_residual:.1f} % of body weight, {drift}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the motions."""
        return {
            "status": self.status.value,
            "violation": self.violation,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "objective": self.objective,
            "terms": self.terms,
            "worst": [{"row": name, "violation": value} for name, value in self.worst],
            "check": self.check.to_dict(),
            "advice": self.advice,
            "counts": self.counts,
            "levels": list(self.levels),
        }

    def __repr__(self) -> str:
        numbers = f"{self.iterations} iterations, {self.seconds:.2f} s, violation {self.violation:.1e}"
        return f"SpacetimeResult({self.status}, {numbers}, wrench residual {self.check.wrench_residual:.3f} mg)"
