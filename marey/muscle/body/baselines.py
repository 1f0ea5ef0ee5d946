"""The explicit step of a soft body: semi-implicit Euler in steps small enough to be stable, as in [Engell2012]_."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.muscle.body.contact import StepStart, add_explicit_contact
from marey.muscle.body.implicit import ImplicitScheme, ImplicitSolution
from marey.muscle.body.linear_system import HELD, multiply_blocks
from marey.muscle.muscles.transfer import evaluate_segments, scatter_forces

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
        muscles, splines = self.implicit.system.muscles, self.implicit.system.blocks
        mass_rate, stiffness_time = body.settings.damping
        inverse = np.where(body.carriers == HELD, 0.0, 1.0 / body.masses)[:, None]
        for _ in range(count):
            forces = body.elastic.forces(x) + load - mass_rate * body.masses[:, None] * v
            if stiffness_time > 0:
                # Rayleigh damping by the stiffness at x.
                elastic, drag = body.elastic, np.empty_like(v)
                elastic.assemble(x, exact=False)
                multiply_blocks(elastic.blocks, elastic.rises, elastic.rise_stiffness, v, drag)
                forces -= stiffness_time * drag
            # Splines, damping included.
            if len(splines):
                evaluate_segments(muscles, x, v, alphas, 0.0, self.implicit.point_forces, splines)
                pulls = np.zeros_like(x)
                scatter_forces(muscles, self.implicit.point_forces, pulls)
                forces += pulls
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
    d = body.settings.damping[0] + body.settings.damping[1] * s
    return float((np.sqrt(d * d + 4.0 * s) - d) / s)
