"""Puppet: a figure between free simulation and inverse kinematics, pulled from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Final, final

import numpy as np

from marey.base import FloatArray, InputError
from marey.control.controllers.task_controller import PlannedStep, TaskController, solve_constrained
from marey.control.task_laws import control_form
from marey.control.tasks import ControlTask, Drive
from marey.simulate import PointForce, Simulator, State, StepContacts, StepSystem

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
