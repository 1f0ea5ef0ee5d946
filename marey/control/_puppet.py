"""Puppet: a figure between free simulation and inverse kinematics, pulled from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.control._features import control_form, fastest_turn
from marey.control._features_support import Support, next_support
from marey.control._features_tasks import Scene, as_drive, features_of
from marey.control._tasks import ControlTask, Drive
from marey.simulate import Contacts, PointForce, Simulator, State, StepSystem

if TYPE_CHECKING:
    from marey.simulate._constraints import Outcome

MAX_LEVELS: Final = 4  # times that a step is halved
MAX_TURN: Final = 0.3  # [rad] of a segment in one step; strings can pull harder than explicit forces bear
RESIDUE: Final = 1e-6  # [-] of the mass that is left to a puppet that only follows: it settles what goals leave open


@dataclass(frozen=True, slots=True, eq=False)
class PuppetReport:
    """What a puppet's strings did in one step."""

    external_force: FloatArray  # (d,) generalised force from outside that would have done the same [N, N m]
    errors: tuple[float, ...]  # of the tasks before the step, [m] or [rad], or standard deviations
    contacts: Contacts | None
    relaxed: tuple[str, ...]  # rows that could not be kept

    @property
    def force_n(self) -> FloatArray:
        """Resultant ``(3,)`` [N] in world of what pulls from outside."""
        return self.external_force[3:6]


class Puppet:
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
        self.simulator, self.tasks, self.alpha = simulator, tasks, alpha
        self.reset()

    @property
    def tasks(self) -> tuple[Drive, ...]:
        """What the figure is pulled to, with its gains."""
        return self._drives

    @tasks.setter
    def tasks(self, tasks: Iterable[ControlTask | Drive]) -> None:
        self._drives = tuple(as_drive(task) for task in tasks)

    @property
    def alpha(self) -> float:
        """How much the tasks count, from 0 to 1."""
        return self._alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        if not (isfinite(alpha) and 0.0 <= alpha <= 1.0):
            raise InputError(f"alpha is {alpha}", "Give a number from 0, free, to 1, inverse kinematics")
        self._alpha = float(alpha)

    @property
    def report(self) -> PuppetReport | None:
        """What was done in the last step."""
        return self._report

    def reset(self) -> None:
        """Forget what the figure stood on, as after ``simulator.reset``."""
        self._support: Support | None = None
        self._report: PuppetReport | None = None

    def step(
        self, dt: float, forces: Iterable[PointForce] = (), *, tasks: Iterable[ControlTask | Drive] | None = None
    ) -> State:
        """Move the figure on by ``dt`` [s]. New tasks replace the old.

        Raises:
            InputError: gains are unstable with this step, or a target has the wrong shape.
            ConvergenceError: the figure would be nowhere.
        """
        if tasks is not None:
            self.tasks = tasks
        return self._moved(dt, tuple(forces), MAX_LEVELS)

    def _moved(self, dt: float, forces: tuple[PointForce, ...], levels: int) -> State:
        """One step, or two of half its length where something would turn too far in it."""
        system = self.simulator.system(dt, forces)
        quadratic, linear, errors = self._goals(system)
        free, pull = 1.0 - self.alpha, self.alpha * _scale(system.damped, quadratic)
        mass = free + self.alpha * RESIDUE
        inertia, rhs = mass * system.damped + pull * quadratic, free * system.rhs - pull * linear
        velocity, outcome = self._solved(system, inertia, rhs)
        if levels and 0.0 < self.alpha < 1.0 and dt * fastest_turn(system, velocity) > MAX_TURN:
            self._moved(0.5 * dt, forces, levels - 1)
            return self._moved(0.5 * dt, forces, levels - 1)
        pulled = pull * (quadratic @ velocity + linear) + self.alpha * RESIDUE * system.rhs
        state = self.simulator.advance(system, velocity, outcome)
        relaxed = () if outcome is None else outcome.relaxed
        self._report = PuppetReport(-pulled / (mass * dt), errors, self.simulator.contacts, relaxed)
        return state

    def _goals(self, system: StepSystem) -> tuple[FloatArray, FloatArray, tuple[float, ...]]:
        """Control form ``(d, d)``, ``(d,)`` of the tasks, and how far they are from their targets."""
        self._support = next_support(self._support, self.simulator, system.mechanics, system.dt)
        scene = Scene(self.simulator, system.mechanics, system.dt, self._support)
        made = [features_of(drive, scene) for drive in self._drives]
        goals = [feature for part, _ in made for feature in part if not feature.is_fence]
        return *control_form(goals, system.rhs.size), tuple(error for _, error in made)

    def _solved(self, system: StepSystem, inertia: FloatArray, rhs: FloatArray) -> tuple[FloatArray, Outcome | None]:
        constrainer, state = self.simulator.constrainer, self.simulator.state
        if constrainer is None:
            return frozen(np.linalg.solve(inertia, rhs), name="velocity"), None
        place = (system.mechanics, state.rotations.wxyz, state.coordinates, state.velocity)
        outcome = constrainer.solve(*place, system.dt, inertia, rhs, self.simulator.memory)
        return outcome.velocity, outcome


def _scale(inertia: FloatArray, quadratic: FloatArray) -> float:
    """Factor that makes goals as heavy as masses."""
    trace = float(np.trace(quadratic))
    return float(np.trace(inertia)) / trace if trace > 0.0 else 0.0
