"""What a controller and a puppet have in common, tasks, a step that may be cut in two, a report; and the puppet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.control.balance import Support, next_support
from marey.control.task_laws import Feature, StepContext, control_form, make_features
from marey.control.tasks import ControlTask, Drive
from marey.simulate import PointForce, Simulator, State, StepContacts, StepSystem

if TYPE_CHECKING:
    from marey.simulate.constraints import ConstraintSolution

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


MAX_HALVINGS: Final = 4  # times that a step is halved
MAX_ROTATION_RAD: Final = 0.3  # [rad] of a segment in one step; larger ones are unstable under external forces
RESIDUE: Final = 1e-6  # [-] of the mass that regularises a puppet with alpha one


@dataclass(frozen=True, slots=True, eq=False)
class PuppetReport:
    """External forces on a puppet in one step."""

    external_force: FloatArray  # (d,) generalised force from outside that would have done the same [N, N m]
    errors: tuple[float, ...]  # of the tasks before the step, [m] or [rad], or standard deviations
    contacts: StepContacts | None
    relaxed: tuple[str, ...]  # rows that could not be kept

    @property
    def force_n(self) -> FloatArray:
        """Resultant ``(3,)`` [N] in world of what pulls from outside."""
        return self.external_force[3:6]


@final
class Puppet(TaskController[PuppetReport]):
    r"""A figure that is simulated and pulled towards its tasks at once.

    .. math:: v = \arg\min_{Jv\ge b}\ (1-\alpha)\left(\tfrac12 v^TMv - f^Tv\right)
              + \alpha\left(\tfrac12 v^TQv + c^Tv\right)

    [Tournier2011]_ §14.1. At zero it only obeys physics, at one only its tasks; goals stay soft and break under
    impacts. The forces come from outside. Q is scaled to the mean of M, so that the slider is even.

    Args:
        simulator: the figure, its ground and its limits.
        tasks: what it is pulled to; see ``Controller``.
        alpha: from 0, free, to 1, inverse kinematics. May be changed at any time.
    """

    def __init__(self, simulator: Simulator, tasks: Iterable[ControlTask | Drive] = (), *, alpha: float = 0.5) -> None:
        self.alpha = alpha
        super().__init__(simulator, tasks)

    @property
    def alpha(self) -> float:
        """Weight of the tasks, from 0 to 1."""
        return self._alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        if not (isfinite(alpha) and 0.0 <= alpha <= 1.0):
            raise InputError(f"alpha is {alpha}", "Give a number from 0, free, to 1, inverse kinematics")
        self._alpha = float(alpha)

    def _step_limits(self) -> tuple[int, float]:
        return MAX_HALVINGS, MAX_ROTATION_RAD if 0.0 < self.alpha < 1.0 else inf

    def _plan_step(self, system: StepSystem, forces: tuple[PointForce, ...]) -> PlannedStep[PuppetReport]:
        features, errors = self._goals(system)
        quadratic, linear = control_form([f for f in features if not f.is_fence], system.rhs.size)
        # A factor makes goals as heavy as masses
        trace = float(np.trace(quadratic))
        scale = float(np.trace(system.damped)) / trace if trace > 0.0 else 0.0
        free, pull = 1.0 - self.alpha, self.alpha * scale
        mass = free + self.alpha * RESIDUE
        inertia, rhs = mass * system.damped + pull * quadratic, free * system.rhs - pull * linear
        velocity, outcome = solve_constrained(self.simulator, replace(system, damped=inertia, rhs=rhs))
        pulled = pull * (quadratic @ velocity + linear) + self.alpha * RESIDUE * system.rhs

        def report(_: State) -> PuppetReport:
            relaxed = () if outcome is None else outcome.relaxed
            return PuppetReport(-pulled / (mass * system.dt), errors, self.simulator.contacts, relaxed)

        return PlannedStep(system, velocity, outcome, report)

    def _brake_step(
        self, attempt: PlannedStep[PuppetReport], system: StepSystem, forces: tuple[PointForce, ...]
    ) -> State:
        """One step without external forces, where they would be unstable."""
        state = self.simulator.step(system.dt, forces)
        self._report = replace(attempt.report(state), external_force=np.zeros(system.rhs.size))
        return state
