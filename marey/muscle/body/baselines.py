"""Other time steps of a soft body, chosen by name.

Semi-implicit Euler in steps small enough to be stable is the scheme of [Engell2012]_ for springs. Backward Euler solved
to convergence is the reference of the one-solve step.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle.body.contact import add_explicit_contact
from marey.muscle.body.implicit import ImplicitScheme, ImplicitSolution
from marey.muscle.body.linear_system import HELD

if TYPE_CHECKING:
    from marey.muscle.body.soft_body import SoftBody


SAFETY_FACTOR: Final = 0.8  # [-] of the longest stable step at rest; stretched bodies are a little stiffer
MAX_SUBSTEPS: Final = 20_000


class ExplicitScheme:
    r"""Steps :math:`v' = v + h M^{-1} f(x, v),\ x' = x + h v'` ([Engell2012]_ Eqs 134 and 135)."""

    def __init__(self, body: SoftBody, implicit: ImplicitScheme) -> None:
        if len(body.bones.names):
            raise InputError("the integrator 'explicit' has no bones", "Use integrator='implicit'")
        self.implicit = implicit
        self.longest_s = SAFETY_FACTOR * compute_stable_step(body, implicit)

    def solve(self, body: SoftBody, h: float, load: FloatArray, alphas: FloatArray) -> ImplicitSolution:
        """New positions and velocities after ``h`` [s] in equal small steps; the body is not changed."""
        count = ceil(h / self.longest_s)
        if count > MAX_SUBSTEPS:
            raise InputError(f"an explicit step of {h} s needs {count} sub-steps", "Use integrator='implicit'")
        x, v, short = body.positions, body.velocities, h / count
        inverse = np.where(body.carriers == HELD, 0.0, 1.0 / body.masses)[:, None]
        for _ in range(count):
            v = v + short * inverse * self._forces(body, x, v, short, load, alphas)
            x = x + short * v
        return ImplicitSolution(x, v, 0, 0.0, count)

    def _forces(
        self, body: SoftBody, x: FloatArray, v: FloatArray, h: float, load: FloatArray, alphas: FloatArray
    ) -> FloatArray:
        forces = body.elastic.forces(x) + load - body.damping[0] * body.masses[:, None] * v
        if body.damping[1] > 0:
            forces -= body.damping[1] * self.implicit.multiply_stiffness(body, x, v)
        forces += self.implicit.spline_forces(x, v, alphas)
        if body.ground is not None:
            add_explicit_contact(x, v, body.masses, h, body.ground, False, forces, self.implicit.loads)
        return forces


def compute_stable_step(body: SoftBody, implicit: ImplicitScheme) -> float:
    r"""Longest stable step [s]: :math:`4 - 2 h d - h^2 s > 0`, s the highest stiffness over mass, d its damping rate.

    [Engell2012]_ §2.19. Bounds of s are row sums of the stiffness at rest, and of each spline segment.
    """
    body.elastic.assemble(body.mesh.nodes.copy(), exact=False)
    starts, _, values = body.elastic.blocks
    sums = np.add.reduceat(np.abs(values).sum(axis=2), starts[:-1], axis=0).max(axis=1)
    if len(body.elastic.rises):
        sizes = np.abs(body.elastic.rises).sum(axis=1)
        rows = np.add.reduceat(sizes, starts[:-1])
        np.add.at(
            sums, body.elastic.blocks.columns, sizes * np.repeat(body.elastic.rise_stiffness * rows, np.diff(starts))
        )
    s = float((sums / body.masses).max()) + implicit.bound_spline_rate(body)
    d = body.damping[0] + body.damping[1] * s
    return float((np.sqrt(d * d + 4.0 * s) - d) / s)


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
