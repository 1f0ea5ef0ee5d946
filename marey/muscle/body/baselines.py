"""Other time steps of a soft body, chosen by name.

Semi-implicit Euler in steps small enough to be stable is the scheme of [Engell2012]_ for springs. Backward Euler solved
to convergence is the reference of the one-solve step.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle.body.conjugate_gradients import multiply_blocks
from marey.muscle.body.contact import StepStart, add_explicit_contact
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
            forces = body.elastic.forces(x) + load - body.damping[0] * body.masses[:, None] * v
            if body.damping[1] > 0:
                # Rayleigh damping by the stiffness at x.
                elastic, drag = body.elastic, np.empty_like(v)
                elastic.assemble(x, exact=False)
                multiply_blocks(elastic.blocks, elastic.rises, elastic.rise_stiffness, v, drag)
                forces -= body.damping[1] * drag
            forces += self.implicit.spline_forces(x, v, alphas)
            if body.ground is not None:
                start = StepStart(x, v, body.masses, short)
                add_explicit_contact(start, body.ground, False, forces, self.implicit.contact.loads)
            # (134) and (135)
            v = v + short * inverse * forces
            x = x + short * v
        return ImplicitSolution(x, v, 0, 0.0, count)


def compute_stable_step(body: SoftBody, implicit: ImplicitScheme) -> float:
    r"""Longest stable step [s]: :math:`4 - 2 h d - h^2 s > 0`, s the highest stiffness over mass, d its damping rate.

    [Engell2012]_ §2.19. Bounds of s are row sums of the stiffness at rest, and of each spline segment.
    """
    elastic, muscles = body.elastic, implicit.system.muscles
    elastic.assemble(body.mesh.nodes.copy(), exact=False)
    starts, columns, values = elastic.blocks
    sums = np.add.reduceat(np.abs(values).sum(axis=2), starts[:-1], axis=0).max(axis=1)
    if len(elastic.rises):
        sizes = np.abs(elastic.rises).sum(axis=1)
        rows = np.add.reduceat(sizes, starts[:-1])
        np.add.at(sums, columns, sizes * np.repeat(elastic.rise_stiffness * rows, np.diff(starts)))
    s = float((sums / body.masses).max())
    if len(muscles.segments):
        # Damping of the segments is counted as stiffness.
        entries = np.repeat(np.arange(len(muscles.points)), np.diff(muscles.starts))
        light = np.bincount(entries, muscles.weights**2 / body.masses[muscles.nodes], minlength=len(muscles.points))
        ends = light[muscles.segments].sum(axis=1)
        s += float((2.0 * ends * muscles.stiffness + (2.0 * ends * muscles.damping) ** 2).max())
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
        held = body.carriers == HELD
        masses = body.masses[:, None]
        stiffness = body.tangent(body.positions, exact=False) if body.damping[1] > 0 else None

        def evaluate_residual(v: FloatArray) -> FloatArray:
            """Impulse that is missing (V, 3) [N s]; none on held nodes."""
            x = body.positions + h * v
            forces = body.elastic.forces(x) + load - body.damping[0] * masses * v
            if stiffness is not None:
                forces -= body.damping[1] * (stiffness @ v.ravel()).reshape(v.shape)
            forces += self.implicit.spline_forces(x, v, alphas)
            out = h * forces - masses * (v - body.velocities)
            out[held] = 0.0
            return out

        def measure_impulse(impulse: FloatArray) -> float:
            """Size of an impulse, in the norm of masses."""
            return float(np.sqrt(np.sum(impulse**2 / masses)))

        new = body.velocities.copy()
        new[held] = 0.0
        size = max(measure_impulse(masses * body.velocities + h * load), MIN_IMPULSE)
        total, residual = 0, evaluate_residual(new)
        for _ in range(MAX_NEWTON):
            if measure_impulse(residual) <= NEWTON_TOLERANCE * size:
                break
            self.implicit.linearise(body, body.positions + h * new, new, h, alphas)
            step, count = self.implicit.correction(body, residual, FORCING)
            total += count
            # Shorten the correction until what is left along it has shrunk.
            slope, share = float(np.sum(residual * step)), 1.0
            start = new
            for _ in range(MAX_BACKTRACKS):
                new = start + share * step
                residual = evaluate_residual(new)
                if abs(float(np.sum(residual * step))) <= MAX_SLOPE * abs(slope):
                    break
                share *= 0.5
        return ImplicitSolution(body.positions + h * new, new, total, measure_impulse(residual) / size)
