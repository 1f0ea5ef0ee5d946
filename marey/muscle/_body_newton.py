"""Backward Euler solved to the end: for optimal control and as the reference of the one-solve step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle._body_implicit import ImplicitScheme, ImplicitSolution
from marey.muscle._solver import HELD

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody

MAX_NEWTON: Final = 60
MAX_BACKTRACKS: Final = 12
NEWTON_TOLERANCE: Final = 1e-9  # [-] of what drives the step
MIN_IMPULSE: Final = 1e-12  # [kg^0.5 m/s] of a body at rest that nothing drives
MAX_SLOPE: Final = 0.9  # [-] of the residual along a correction that may be left
FORCING: Final = 1e-3  # [-] how well each linear solve is done, over the residual it starts from


class NewtonScheme:
    r"""Solves :math:`M(v' - v) = h\,f(x + h v', v')` for v' by Newton's method.

    The stiffness never pushes, so that a correction always leads down the energy of the step; it is shortened until the
    residual along it has shrunk. Rayleigh damping takes the stiffness at the start of the step.
    """

    def __init__(self, body: SoftBody, implicit: ImplicitScheme) -> None:
        if body.ground is not None or len(body.bones.names):
            raise InputError("the integrator 'newton' has no ground and no bones", "Use integrator='implicit'")
        self.implicit = implicit

    def solve(self, body: SoftBody, h: float, load: FloatArray, alphas: FloatArray) -> ImplicitSolution:
        """New positions and velocities after ``h`` [s]; the body is not changed."""
        problem = _NewtonProblem(body, self.implicit, h, load, alphas)
        new = body.velocities.copy()
        new[body.carriers == HELD] = 0.0
        size = max(problem.norm(body.masses[:, None] * body.velocities + h * load), MIN_IMPULSE)
        total, residual = 0, problem.residual(new)
        for _ in range(MAX_NEWTON):
            left = problem.norm(residual)
            if left <= NEWTON_TOLERANCE * size:
                break
            self.implicit.linearise(body, body.positions + h * new, new, h, alphas)
            step, count = self.implicit.correction(body, residual, FORCING)
            total += count
            new, residual = problem.search(new, step, residual)
        return ImplicitSolution(body.positions + h * new, new, total, problem.norm(residual) / size)


class _NewtonProblem:
    """One step as equations for the new velocities."""

    def __init__(
        self, body: SoftBody, implicit: ImplicitScheme, h: float, load: FloatArray, alphas: FloatArray
    ) -> None:
        self.body, self.implicit, self.h, self.load, self.alphas = body, implicit, h, load, alphas
        self.held = body.carriers == HELD
        self.stiffness: Any = None
        if body.damping[1] > 0:
            self.stiffness = body.tangent(body.positions, exact=False).tocsr()

    def residual(self, v: FloatArray) -> FloatArray:
        """Impulse that is missing (V, 3) [N s]; none on held nodes."""
        body, h = self.body, self.h
        x = body.positions + h * v
        forces = body.elastic.forces(x) + self.load - body.damping[0] * body.masses[:, None] * v
        if self.stiffness is not None:
            forces -= body.damping[1] * (self.stiffness @ v.ravel()).reshape(v.shape)
        forces += self.implicit.spline_forces(x, v, self.alphas)
        out = h * forces - body.masses[:, None] * (v - body.velocities)
        out[self.held] = 0.0
        return out

    def norm(self, impulse: FloatArray) -> float:
        """Size of an impulse, in the norm of masses."""
        return float(np.sqrt(np.sum(impulse**2 / self.body.masses[:, None])))

    def search(self, v: FloatArray, step: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Velocities along the step where what is left along it has shrunk, and the residual there."""
        slope, share = float(np.sum(residual * step)), 1.0
        tried, left = v, residual
        for _ in range(MAX_BACKTRACKS):
            tried = v + share * step
            left = self.residual(tried)
            if abs(float(np.sum(left * step))) <= MAX_SLOPE * abs(slope):
                break
            share *= 0.5
        return tried, left
