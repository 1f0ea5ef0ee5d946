"""Semi-implicit Euler in steps small enough to be stable: the thesis's scheme for springs."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle._body_implicit import ImplicitScheme, ImplicitSolution
from marey.muscle._solver import HELD

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody

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
            from marey.muscle._contact_kernels import add_explicit_contact

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
