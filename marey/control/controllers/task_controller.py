"""What a controller and a puppet have in common: tasks, a step that may be cut in two, a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.control.support import Support, next_support
from marey.control.task_laws import Feature, StepContext, make_features
from marey.control.tasks import ControlTask, Drive
from marey.simulate import PointForce, Simulator, State, StepSystem

if TYPE_CHECKING:
    from marey.simulate.constraints.constraint_set import ConstraintSolution


Report = TypeVar("Report")


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep(Generic[Report]):
    """A step before it is made."""

    system: StepSystem  # with the forces that it was solved with
    velocity: FloatArray  # (d,)
    outcome: ConstraintSolution | None  # of the constraints
    report: Callable[[State], Report]  # message once the figure has arrived


class TaskController(ABC, Generic[Report]):
    """A simulated figure that follows tasks, step by step.

    Args:
        simulator: the figure, its ground and its limits.
        tasks: what it is told: tasks of ``marey.kinematics`` and of ``marey.control``, each alone or in a ``Drive``.
    """

    def __init__(self, simulator: Simulator, tasks: Iterable[ControlTask | Drive]) -> None:
        self.simulator = simulator
        self.tasks = tasks
        self.reset()

    @property
    def tasks(self) -> tuple[Drive, ...]:
        """Tasks of the figure with their gains; they can be replaced at any time."""
        return self._drives

    @tasks.setter
    def tasks(self, tasks: Iterable[ControlTask | Drive]) -> None:
        if not isinstance(tasks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(f"tasks is a {type(tasks).__name__}", "Pass a list of tasks")
        # A task with the gains of its kind, unless it has its own
        self._drives = tuple(task if isinstance(task, Drive) else Drive(task) for task in tasks)

    @property
    def report(self) -> Report | None:
        """What was done in the last step."""
        return self._report

    def reset(self) -> None:
        """Forget what the figure stood on and how it was driven, as after ``simulator.reset``."""
        self._support: Support | None = None
        self._report: Report | None = None

    def step(
        self, dt: float, forces: Iterable[PointForce] = (), *, tasks: Iterable[ControlTask | Drive] | None = None
    ) -> State:
        """Move the figure on by ``dt`` [s]; ``forces`` come from outside. New tasks replace the old.

        Raises:
            InputError: gains are unstable with this step, or a target has the wrong shape.
            ConvergenceError: the figure would be nowhere.
        """
        if tasks is not None:
            self.tasks = tasks
        return self._step_or_halve(dt, tuple(forces), self._step_limits()[0])

    @abstractmethod
    def _step_limits(self) -> tuple[int, float]:
        """How often a step may be halved, and by how much [rad] a segment may turn in one."""

    @abstractmethod
    def _plan_step(self, system: StepSystem, forces: tuple[PointForce, ...]) -> PlannedStep[Report]:
        """The step that the tasks lead to; the system has the forces from outside in it."""

    @abstractmethod
    def _brake_step(self, attempt: PlannedStep[Report], system: StepSystem, forces: tuple[PointForce, ...]) -> State:
        """A step where even the shortest one turns something too far."""

    def _step_or_halve(self, dt: float, forces: tuple[PointForce, ...], levels: int) -> State:
        """One step, or two of half its length where something would turn too far in it."""
        system, support = self.simulator.system(dt, forces), self._support
        attempt = self._plan_step(system, forces)
        # Largest angular velocity [rad/s] of any segment at a velocity `(d,)`
        turns = system.mechanics.angular @ attempt.velocity
        if dt * float(np.sqrt(np.einsum("ji,ji->j", turns, turns).max())) <= self._step_limits()[1]:
            state = self.simulator.advance(attempt.system, attempt.velocity, attempt.outcome)
            self._report = attempt.report(state)
            return state
        if not levels:
            return self._brake_step(attempt, system, forces)
        self._support = support
        self._step_or_halve(0.5 * dt, forces, levels - 1)
        return self._step_or_halve(0.5 * dt, forces, levels - 1)

    def _goals(self, system: StepSystem) -> tuple[list[Feature], tuple[float, ...]]:
        """Features of the tasks in a step, and their errors."""
        self._support = next_support(self._support, self.simulator, system.mechanics, system.dt)
        scene = StepContext(self.simulator, system.mechanics, system.dt, self._support)
        made = [make_features(drive, scene) for drive in self._drives]
        return [feature for part, _ in made for feature in part], tuple(error for _, error in made)


def solve_constrained(simulator: Simulator, system: StepSystem) -> tuple[FloatArray, ConstraintSolution | None]:
    r"""Velocity ``(d,)`` of least :math:`\frac12 v^T M v - f^T v` under all that holds a figure, and what held it."""
    if simulator.constrainer is None:
        return frozen(np.linalg.solve(system.damped, system.rhs), name="velocity"), None
    outcome = simulator.constrainer.solve(system, simulator.state, simulator.memory)
    return outcome.velocity, outcome
