"""What an optimal control came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from marey.base import ConvergenceError, FloatArray
from marey.muscle._adjoint import compute_total_cost, simulate_controls
from marey.muscle._control import OptimalControlProblem
from marey.numerics import SolveStatus

OnIteration = Callable[[int, float], bool | None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ControlResult:
    """Controls that were found and the motion they give; every number is finite."""

    status: SolveStatus
    controls: FloatArray  # (N, s)
    states: FloatArray  # (N + 1, m)
    cost: float
    goal_errors: FloatArray  # (G,) distance from each goal, in its own units, by step
    iterations: int
    evaluations: int  # simulations of the whole motion
    seconds: float
    history: tuple[float, ...]  # cost after each iteration, the start first
    goal_weight: float  # μ of the last round
    reached: bool  # whether every goal is within the tolerance that was asked for
    advice: str  # what to do next, one sentence

    @property
    def goal_error(self) -> float:
        """Largest distance from a goal."""
        return float(self.goal_errors.max())

    def __repr__(self) -> str:
        return (
            f"ControlResult({self.status}, {self.iterations} iterations, cost {self.cost:.4g}, "
            f"goal error {self.goal_error:.3g}, {self.seconds:.2f} s)"
        )


@dataclass(slots=True)
class ControlSearch:
    """Where an optimiser stands; one for each round."""

    problem: OptimalControlProblem
    unknowns: FloatArray  # (n,)
    max_iterations: int
    tolerance: float
    on_iteration: OnIteration | None
    status: SolveStatus = SolveStatus.ITERATION_LIMIT
    iterations: int = 0
    evaluations: int = 0
    history: list[float] | None = None
    trouble: str = ""  # why the last motion that could not be run could not

    def run(self, unknowns: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Cost, controls and states of unknowns; an infinite cost where the system cannot be stepped."""
        controls = self.problem.controls(unknowns)
        self.evaluations += 1
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                states = simulate_controls(self.problem, controls)
                cost = compute_total_cost(self.problem, controls, states)
        except ConvergenceError as error:
            self.trouble = f" ({error})"
            return np.inf, controls, np.zeros((0, self.problem.system.num_states))
        cost += self.problem.sparse * float(np.abs(unknowns).sum())
        return (cost if np.isfinite(cost) else np.inf), controls, states

    def note(self, cost: float) -> bool:
        """Keep the cost of an iteration; whether to go on."""
        self.history = [*(self.history or []), cost]
        if self.on_iteration is not None and self.on_iteration(self.iterations, cost) is False:
            self.status = SolveStatus.STOPPED
            return False
        return True

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the unknowns ``(n,)``."""
        bounds = self.problem.bounds
        if bounds is None:
            return np.full(self.unknowns.size, -np.inf), np.full(self.unknowns.size, np.inf)
        times = self.unknowns.size // bounds[0].size
        return np.tile(bounds[0], times), np.tile(bounds[1], times)
