"""Time steps of a soft body: implicit, and as a baseline explicit, semi-implicit Euler as in [Engell2012]_."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, kernel
from marey.muscle.body.contact import (
    ContactState,
    StepStart,
    add_explicit_contact,
    add_implicit_contact,
    predict_contacts,
    update_contacts,
)
from marey.muscle.body.linear_system import (
    FREE,
    HELD,
    LinearSystem,
    assemble_coarse_matrix,
    contract_forces,
    expand_unknowns,
    invert_coarse_matrix,
    invert_diagonal,
    make_coarse_space,
    multiply_blocks,
    solve_conjugate_gradients,
    update_region_arms,
)
from marey.muscle.elastic.mesh import IndexArray, find_connected_parts
from marey.muscle.muscles.transfer import (
    MIN_INERTIA_DETERMINANT,
    MuscleArrays,
    evaluate_segments,
    scatter_forces,
    symmetric_cofactors,
)

if TYPE_CHECKING:
    from marey.muscle.body.soft_body import SoftBody


@kernel
def restore_momentum(
    parts: IndexArray, loose: BoolArray, start: StepStart, impulse: FloatArray, decay: float, v: FloatArray
) -> None:
    r"""Give every loose part the momentum that impulses leave it, by a rigid change of its velocities.

    The positions move along the new velocities, so that :math:`\sum m\,x \times v` is the same before and after.

    Args:
        parts: (V,) number of the part of each node.
        loose: (P,) nothing holds the part.
        start: the body at the start of the step.
        impulse: (V, 3) [N s] of all forces from outside.
        decay: factor of drag on momentum.
        v: new velocities (V, 3) [m/s], changed in place.
    """
    x, m, before, count = start.positions, start.masses, start.velocities, loose.shape[0]
    # Masses and centres of the parts.
    mass, centre = np.zeros(count), np.zeros((count, 3))
    for n in range(m.shape[0]):
        k = parts[n]
        mass[k] += m[n]
        for i in range(3):
            centre[k, i] += m[n] * x[n, i]
    for k in range(count):
        for i in range(3):
            centre[k, i] /= mass[k]
    # Linear and angular momentum that are missing, and inertias about the centres.
    linear, angular, inertia = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3, 3))
    a, d = np.empty(3), np.empty(3)
    for n in range(m.shape[0]):
        k = parts[n]
        for i in range(3):
            a[i] = x[n, i] - centre[k, i]
            d[i] = decay * (m[n] * before[n, i] + impulse[n, i]) - m[n] * v[n, i]
            linear[k, i] += d[i]
        angular[k, 0] += a[1] * d[2] - a[2] * d[1]
        angular[k, 1] += a[2] * d[0] - a[0] * d[2]
        angular[k, 2] += a[0] * d[1] - a[1] * d[0]
        square = a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
        for i in range(3):
            inertia[k, i, i] += m[n] * square
            for j in range(3):
                inertia[k, i, j] -= m[n] * a[i] * a[j]
    # The angular velocity that makes up for it, by Cramer's rule; none for a part that is nearly a line.
    turn = np.zeros((count, 3))
    for k in range(count):
        if loose[k]:
            A, b = inertia[k], angular[k]
            c00, c01, c02, c11, c12, c22, det = symmetric_cofactors(A)
            trace = A[0, 0] + A[1, 1] + A[2, 2]
            if det > MIN_INERTIA_DETERMINANT * trace * trace * trace:
                turn[k, 0] = (c00 * b[0] + c01 * b[1] + c02 * b[2]) / det
                turn[k, 1] = (c01 * b[0] + c11 * b[1] + c12 * b[2]) / det
                turn[k, 2] = (c02 * b[0] + c12 * b[1] + c22 * b[2]) / det
    # The rigid change of velocities: v += p / m + omega x arm.
    for n in range(m.shape[0]):
        k = parts[n]
        if loose[k]:
            w = turn[k]
            a0, a1, a2 = x[n, 0] - centre[k, 0], x[n, 1] - centre[k, 1], x[n, 2] - centre[k, 2]
            v[n, 0] += linear[k, 0] / mass[k] + w[1] * a2 - w[2] * a1
            v[n, 1] += linear[k, 1] / mass[k] + w[2] * a0 - w[0] * a2
            v[n, 2] += linear[k, 2] / mass[k] + w[0] * a1 - w[1] * a0


@dataclass(slots=True, eq=False)
class ImplicitSolution:
    """Solution of an implicit step."""

    positions: FloatArray
    velocities: FloatArray
    iterations: int
    residual: float
    substeps: int = 1
    work: float = np.inf  # [J] of all that drives the body, at most; infinite where it is not known


class ImplicitScheme:
    """The implicit scheme, with the arrays that all steps share."""

    def __init__(self, body: SoftBody) -> None:
        blocks = body.elastic.blocks
        count, rows = len(body.masses), len(body.masses) + body.bones.num_rows
        muscles = MuscleArrays() if body.muscles is None else body.muscles.arrays
        points, segments = len(muscles.points), len(muscles.rest)
        # Where the diagonal blocks lie.
        own = np.arange(count, dtype=np.int32)[:, None]
        self.places = np.ascontiguousarray(blocks.find_positions(own)[:, 0, 0])
        self.system = LinearSystem(
            blocks,
            body.elastic.rises,
            weights=np.zeros(count),
            carriers=body.carriers,
            diagonal=np.zeros((count, 3, 3)),
            bones=body.bones.arrays,
            coarse=make_coarse_space(body.mesh.nodes, blocks, body.carriers, body.bones.arrays),
            muscles=muscles,
            blocks=np.zeros((segments, 3, 3)),
            work=np.zeros((2, points, 3)),
            nodal=np.zeros((2, count, 3)),
        )
        self.point_forces = np.zeros((points, 3))
        self.scratch = np.zeros((4, rows, 3))
        self.contact = ContactState(np.zeros(count, dtype=np.int64), np.zeros(count))
        self.contact_blocks = np.zeros((count, 3, 3))
        self.push = np.zeros((count, 3))
        self.prepared = False  # whether the preconditioner is that of this step
        self.is_rough = False  # whether a second solve will follow, so that the first need not be good
        self.tolerance = body.settings.tolerance

    def solve(
        self, body: SoftBody, h: float, load: FloatArray, alphas: FloatArray, near: ImplicitSolution | None = None
    ) -> ImplicitSolution:
        """New positions and velocities after ``h`` [s] under ``load`` (V, 3) [N].

        Elastic forces are linear about the start of the step, or about a solution ``near`` its end. Bones are moved,
        the body is not.
        """
        x, v, elastic, s = body.positions, body.velocities, body.elastic, self.system
        # Elastic forces where the body is, as the tangent there, or near the end of the step, sees them.
        here = x if near is None else near.positions
        forces = elastic.assemble(here, exact=False)
        if here is not x:
            back = np.empty_like(forces)
            multiply_blocks(elastic.blocks, elastic.rises, elastic.rise_stiffness, here - x, back)
            forces += back
        self.tolerance = body.settings.tolerance * (
            body.settings.rough_factor if self.is_rough and near is None else 1.0
        )
        self.prepared = near is not None  # what preconditioned the first solve does for the second
        self._assemble_matrix(body, h)
        # Impulse of the splines; what is implicit of it is in their blocks.
        muscle = np.zeros_like(x)
        if len(s.blocks):
            evaluate_segments(s.muscles, x, v, alphas, h, self.point_forces, s.blocks)
            scatter_forces(s.muscles, h * self.point_forces, muscle)
        # Momenta and impulses; bones keep the momenta of the nodes they carry.
        momenta = body.masses[:, None] * v
        momenta[body.bones.arrays.nodes] = 0.0
        unknowns = body.bones.start(v)
        drive = h * load + muscle
        start = StepStart(x, v, body.masses, h)
        new, count, residual = self._solve_with_contact(body, start, momenta + drive + h * forces, unknowns, drive)
        # Parts that nothing holds or touches keep their momentum. What is implicit of splines turns nothing: they act
        # between their points.
        stuck = body.carriers != FREE
        if body.ground is not None:
            stuck = stuck | (self.contact.active != 0)
        touching = body.surface_contact
        if touching is None:
            parts = body.parts
        else:
            # Parts that touch are solved as one
            ends = body.parts[touching.members[touching.active][:, :2]]
            parts = find_connected_parts(int(body.parts.max()) + 1, *ends.T)[1].astype(np.int32)[body.parts]
        loose = np.bincount(parts, weights=stuck) == 0
        if loose.any():
            decay = 1.0 / (1.0 + h * body.settings.damping[0])
            restore_momentum(parts, loose, start, drive, decay, new)
        # Work of all that drives the body; that of bones is not known.
        work = np.inf
        if not len(body.bones.names):
            pushed = max(0.0, float(np.sum(self.push * new)))
            work = float(np.sum(drive * new)) + pushed
        return ImplicitSolution(body.bones.carry(h, unknowns, x, new), new, count, residual, 1, work)

    def _assemble_matrix(self, body: SoftBody, h: float) -> None:
        """M + h C + h^2 K with Rayleigh damping, from the stiffness that was assembled last."""
        mass_rate, stiffness_time = body.settings.damping
        factor = h * h + h * stiffness_time
        values = self.system.matrix.values
        values *= factor
        for i in range(3):
            values[self.places, i, i] += (1.0 + h * mass_rate) * body.masses
        np.multiply(factor, body.elastic.rise_stiffness, out=self.system.weights)
        body.bones.weigh(h)

    def _solve_with_contact(
        self, body: SoftBody, start: StepStart, rhs: FloatArray, unknowns: FloatArray, drive: FloatArray
    ) -> tuple[FloatArray, int, float]:
        """Velocities (V, 3) for an impulse on nodes; writes the unknowns (V + R, 3).

        Nodes that a contact pulls are let go and those that fell through are caught; then it is solved again.
        """
        ground, touching, values = body.ground, body.surface_contact, self.system.matrix.values
        base = values[self.places]
        if ground is not None:
            predict_contacts(start, ground, self.contact.active)
        if touching is not None:
            touching.predict(start)
        s = self.system
        right, driving = np.empty_like(unknowns), np.empty_like(unknowns)
        contract_forces(s.carriers, s.bones, drive, driving)
        new, total, residual, most = start.velocities, 0, 0.0, 50 + 10 * len(unknowns)
        for _ in range(body.settings.max_contact_passes):
            # The contact adds to the diagonal, and its impulse to the right side.
            forces, blocks = np.zeros_like(start.positions), self.contact_blocks
            if ground is not None:
                blocks[:] = 0.0
                add_implicit_contact(start, ground, self.contact, new, forces, blocks)
                values[self.places] = base + blocks
            if touching is not None:
                touching.add(start, new, forces)
                s = s._replace(pairs=touching.pairs)
            self.push = start.step_s * forces
            impulse = rhs + self.push
            contract_forces(s.carriers, s.bones, impulse, right)
            body.bones.push(right)
            if not self.prepared:
                self.prepare(body, s)
            count, residual = solve_conjugate_gradients(s, right, driving, unknowns, self.scratch, self.tolerance, most)
            new = np.empty_like(rhs)
            expand_unknowns(s.bones, unknowns, new)
            total += count
            changed = 0 if ground is None else update_contacts(start, new, ground, self.contact)
            changed += 0 if touching is None else touching.update(start, new)
            if changed == 0:
                break
        return new, total, residual

    def prepare(self, body: SoftBody, system: LinearSystem) -> None:
        """Fill the preconditioner: inverses of diagonal blocks, and of the matrix of regions and rates."""
        coarse = system.coarse
        invert_diagonal(system, self.places)
        update_region_arms(coarse, body.positions)
        assemble_coarse_matrix(system)
        body.bones.join(coarse)
        invert_coarse_matrix(coarse.inverse)


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
