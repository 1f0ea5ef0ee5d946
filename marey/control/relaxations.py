r"""Convex relaxations of control with internal forces, by name.

All keep :math:`Mv = f + J^T\lambda + A^T\mu`, :math:`Jv \ge b`, :math:`\lambda \ge 0` and the bounds on
:math:`\mu`; they drop complementarity and differ in their penalty. [Tournier2011]_ §14.3; ``gap`` is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.control.problem import ControlProblem

COMPLIANCE: Final = 1e-5  # [-] of the mean contact response; makes multipliers unique where contacts are redundant
RELAXATIONS: Final = ("none", "sticky", "kinetic", "workfree", "dissipative", "gap")
GAP_BALANCE: Final = 0.6  # [-] strength over gap; convex from 0.5 on, where rounding would decide


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Penalty besides the goals."""

    name: str = "gap"
    weight: float = 0.01  # of the extra objective: rho of "gap", w of "sticky", a factor for the others
    dissipation: float = 0.5  # alpha of "dissipative", between -1 and 1
    balance: float = GAP_BALANCE  # beta / rho of "gap"
    strength: float = 1e-4  # of the kinetic energy of the actuation
    laziness: float = 0.0  # of the squared work of the actuation; often makes a figure fall

    def __post_init__(self) -> None:
        if self.name not in RELAXATIONS:
            raise UnknownNameError("relaxation", str(self.name), "control", RELAXATIONS)
        for name in ("weight", "balance", "strength", "laziness"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")
        if not -1.0 <= self.dissipation <= 1.0:
            raise InputError(f"dissipation is {self.dissipation}", "It is convex only from -1 to 1")


Quadratic = tuple[FloatArray, FloatArray]


def extra_objective(problem: ControlProblem, relaxation: Relaxation) -> Quadratic:
    r"""Hessian ``(n, n)`` and gradient ``(n,)`` in :math:`z = (\mu, \lambda)` of what a relaxation adds to goals.

    - "none" (14.7): nothing; the ground may push as it likes.
    - "sticky" :math:`\|Jv - b\|^2`: contacts like to stay closed; so do joint limits.
    - "kinetic" (14.8) :math:`\frac12\lambda^T J M^{-1} J^T\lambda`: penalises contact forces, so that actuators work.
    - "workfree" (14.9): the source's choice; "dissipative" adds :math:`\alpha\,v^T A^T\mu`: slower, damped motions.
    - "gap" :math:`\lambda^T(Jv-b) + \frac\beta2\mu^TAM^{-1}A^T\mu`: complementarity, convex for
      :math:`\beta\ge\frac12`.
    """
    k, K = problem.num_actuators, problem.kinetics.gram
    away = problem.rows @ problem.kinetics.free_velocity - problem.ends
    if relaxation.name == "none":
        hessian, gradient = np.zeros_like(K), np.zeros(len(K))
    elif relaxation.name == "sticky":
        hessian, gradient = 2.0 * K[k:].T @ K[k:], 2.0 * K[k:].T @ away
    elif relaxation.name == "gap":
        touching = np.concatenate([np.zeros(k), np.ones(K.shape[0] - k)])[:, None]
        hessian = touching * K + (touching * K).T  # rows that hold exactly add nothing to the gap, and convexity
        hessian[:k, :k] = relaxation.balance * K[:k, :k]
        gradient = np.concatenate([np.zeros(k), away])
    else:
        alphas = {"kinetic": -1.0, "workfree": 0.0, "dissipative": relaxation.dissipation}
        hessian, gradient = _work_family(problem, alphas[relaxation.name])
    return relaxation.weight * hessian, relaxation.weight * gradient


def control_objective(problem: ControlProblem, relaxation: Relaxation) -> Quadratic:
    r"""Hessian and gradient in :math:`z = (\mu, \lambda)` of goals, relaxation, strength and laziness."""
    B, v0, k = problem.kinetics.response, problem.kinetics.free_velocity, problem.num_actuators
    extra, slope = extra_objective(problem, relaxation)
    H: FloatArray = extra + B.T @ problem.goal_matrix @ B
    g = slope + B.T @ (problem.goal_matrix @ v0 + problem.goal_vector)
    H[:k, :k] += 2.0 * relaxation.strength * problem.kinetics.gram[:k, :k]
    if relaxation.laziness:
        H[:k, :k] += 2.0 * relaxation.laziness * np.outer(v0[-k:], v0[-k:])
    return H, g


def _work_family(problem: ControlProblem, alpha: float) -> Quadratic:
    r"""(14.9) plus :math:`\alpha\,v^T A^T \mu`; convex for :math:`-1 \le \alpha \le 1`; -1 is (14.8).

    .. math:: \tfrac12 v^T M v + \tfrac12\mu^T A M^{-1} A^T\mu - f^T v + f^T M^{-1} A^T\mu
    """
    k, K = problem.num_actuators, problem.kinetics.gram
    H, g = K.copy(), np.zeros(K.shape[0])
    H[:k, :k] *= 2.0 * (1.0 + alpha)
    H[:k, k:] *= 1.0 + alpha
    H[k:, :k] *= 1.0 + alpha
    g[:k] = (1.0 + alpha) * problem.kinetics.free_velocity[-k:]
    return H, g
