"""Drive: the physics of a step whose actuators hold on to the speeds that were planned."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.control._controller_steered import solve_constrained
from marey.control._problem import ROOT_SIZE
from marey.control._solve import ControlSolution
from marey.simulate import Simulator, StepSystem

if TYPE_CHECKING:
    from marey.simulate._constraints import ConstraintSolution

ROUNDING: Final = 1e-9  # [-] of its bound by which an actuator may seem to be above it


class ActuatedStep(NamedTuple):
    """What comes of a plan."""

    velocity: FloatArray  # (d,)
    actuation: FloatArray  # (k,) impulses
    system: StepSystem  # the step with its actuation
    outcome: ConstraintSolution | None  # of the constraints


def actuate_step(
    simulator: Simulator, system: StepSystem, plan: ControlSolution, strongest: FloatArray, slack_speed: float
) -> ActuatedStep:
    r"""Physics of a step under a plan's actuation.

    .. math:: (M + K)\,v = f + A^T\mu + K\,v_{plan} + J^T\lambda,\qquad \mu' = \mu + K\,(v_{plan} - v)

    which are internal forces, too. Where contacts push as planned, K does nothing; where they do not, a foot would
    whirl under a torque that was meant for the whole body ([Tournier2011]_ has K = 0). Actuators stay within their
    bounds.

    Args:
        simulator: the figure.
        system: its step without actuation.
        plan: actuation ``(k,)`` and velocity ``(d,)`` of the control programme.
        strongest: largest impulse ``(k,)`` of each actuator.
        slack_speed: by how much [rad/s] an actuator at full strength may miss its planned speed.
    """
    stiff = strongest / slack_speed if isfinite(slack_speed) else np.zeros_like(strongest)
    wanted, actuation = plan.planned_velocity[ROOT_SIZE:], plan.actuation
    velocity, outcome = _solve_physics(simulator, system, actuation + stiff * wanted, stiff)
    whole = actuation + stiff * (wanted - velocity[ROOT_SIZE:])
    over = np.abs(whole) > (1.0 + ROUNDING) * strongest
    if over.any():  # once more, with these at their bounds
        stiff = np.where(over, 0.0, stiff)
        actuation = np.where(over, np.clip(whole, -strongest, strongest), actuation)
        velocity, outcome = _solve_physics(simulator, system, actuation + stiff * wanted, stiff)
        whole = actuation + stiff * (wanted - velocity[ROOT_SIZE:])
    return _apply_drive(velocity, np.clip(whole, -strongest, strongest), system, outcome)


def _apply_drive(
    velocity: FloatArray, actuation: FloatArray, system: StepSystem, outcome: ConstraintSolution | None
) -> ActuatedStep:
    inner = np.concatenate([np.zeros(ROOT_SIZE), actuation])
    pushed = replace(system, rhs=system.rhs + inner, outer=system.outer + inner / system.dt)
    return ActuatedStep(velocity, actuation, pushed, outcome)


def _solve_physics(
    simulator: Simulator, system: StepSystem, impulse: FloatArray, stiff: FloatArray
) -> tuple[FloatArray, ConstraintSolution | None]:
    inertia, rhs, size = np.array(system.damped), np.array(system.rhs), system.rhs.size
    inertia.reshape(-1)[ROOT_SIZE * (size + 1) :: size + 1] += stiff
    rhs[ROOT_SIZE:] += impulse
    return solve_constrained(simulator, system, inertia, rhs)
