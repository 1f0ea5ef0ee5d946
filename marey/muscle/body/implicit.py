"""One implicit step of a soft body: assembly, linear solve, and correction of the momentum of free parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.muscle.body.conjugate_gradients import (
    contract_forces,
    expand_unknowns,
    invert_diagonal,
    multiply_blocks,
    solve_conjugate_gradients,
    solve_direct,
)
from marey.muscle.body.contact import add_implicit_contact, predict_contacts, update_contacts
from marey.muscle.body.linear_system import (
    FREE,
    LinearSystem,
    assemble_coarse_matrix,
    empty_muscle_arrays,
    invert_coarse_matrix,
    make_coarse_space,
    update_region_arms,
)
from marey.muscle.elastic.assembly import find_diagonal_positions
from marey.muscle.mesh.tet_mesh import IndexArray
from marey.muscle.muscles.transfer import evaluate_segments, scatter_forces

if TYPE_CHECKING:
    from marey.muscle.body.contact import ContactPlaneArrays
    from marey.muscle.body.soft_body import SoftBody


MIN_INERTIA_DETERMINANT = (
    1e-12  # [-] determinant of an inertia over its trace cubed: below, the part is a line and keeps its turn
)


@kernel
def restore_momentum(
    parts: IndexArray, loose: BoolArray, m: FloatArray, x: FloatArray, before: FloatArray, impulse: FloatArray,
    decay: float, v: FloatArray,
) -> None:  # fmt: skip
    r"""Give every loose part the momentum that impulses leave it, by a rigid change of its velocities.

    The positions move along the new velocities, so that :math:`\sum m\,x \times v` is the same before and after.

    Args:
        parts: (V,) number of the part of each node.
        loose: (P,) nothing holds the part.
        m: masses (V,) [kg].
        x: positions (V, 3) [m] at the start.
        before: velocities (V, 3) [m/s] at the start.
        impulse: (V, 3) [N s] of all forces from outside.
        decay: factor of drag on momentum.
        v: new velocities (V, 3) [m/s], changed in place.
    """
    total = np.zeros((loose.shape[0], 10))
    for n in range(m.shape[0]):
        t = total[parts[n]]
        t[0] += m[n]
        for i in range(3):
            t[1 + i] += m[n] * x[n, i]
    for n in range(m.shape[0]):
        _add_momentum_defect(total[parts[n]], m[n], x[n], before[n], impulse[n], decay, v[n])
    inertia = _part_inertias(parts, total, m, x)
    turn = np.zeros((loose.shape[0], 3))
    for k in range(loose.shape[0]):
        if loose[k]:
            _angular_velocity(inertia[k], total[k], turn[k])
    for n in range(m.shape[0]):
        k = parts[n]
        if loose[k]:
            t, w = total[k], turn[k]
            a0, a1, a2 = x[n, 0] - t[1] / t[0], x[n, 1] - t[2] / t[0], x[n, 2] - t[3] / t[0]
            v[n, 0] += t[4] / t[0] + w[1] * a2 - w[2] * a1
            v[n, 1] += t[5] / t[0] + w[2] * a0 - w[0] * a2
            v[n, 2] += t[6] / t[0] + w[0] * a1 - w[1] * a0


@kernel
def _angular_velocity(a: FloatArray, t: FloatArray, out: FloatArray) -> None:
    """Write the angular velocity (3,) that a torque impulse in ``t`` gives an inertia (3, 3), by Cramer's rule."""
    c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[1, 2]
    c01 = a[0, 2] * a[1, 2] - a[0, 1] * a[2, 2]
    c02 = a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]
    c11 = a[0, 0] * a[2, 2] - a[0, 2] * a[0, 2]
    c12 = a[0, 1] * a[0, 2] - a[0, 0] * a[1, 2]
    c22 = a[0, 0] * a[1, 1] - a[0, 1] * a[0, 1]
    det = a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02
    trace = a[0, 0] + a[1, 1] + a[2, 2]
    if det > MIN_INERTIA_DETERMINANT * trace * trace * trace:
        out[0] = (c00 * t[7] + c01 * t[8] + c02 * t[9]) / det
        out[1] = (c01 * t[7] + c11 * t[8] + c12 * t[9]) / det
        out[2] = (c02 * t[7] + c12 * t[8] + c22 * t[9]) / det


@kernel
def _add_momentum_defect(
    t: FloatArray, m: float, x: FloatArray, before: FloatArray, impulse: FloatArray, decay: float, v: FloatArray
) -> None:
    a0, a1, a2 = x[0] - t[1] / t[0], x[1] - t[2] / t[0], x[2] - t[3] / t[0]
    d0 = decay * (m * before[0] + impulse[0]) - m * v[0]
    d1 = decay * (m * before[1] + impulse[1]) - m * v[1]
    d2 = decay * (m * before[2] + impulse[2]) - m * v[2]
    t[4] += d0
    t[5] += d1
    t[6] += d2
    t[7] += a1 * d2 - a2 * d1
    t[8] += a2 * d0 - a0 * d2
    t[9] += a0 * d1 - a1 * d0


@kernel
def _part_inertias(parts: IndexArray, total: FloatArray, m: FloatArray, x: FloatArray) -> FloatArray:
    out = np.zeros((total.shape[0], 3, 3))
    a = np.empty(3)
    for n in range(m.shape[0]):
        t, o = total[parts[n]], out[parts[n]]
        for i in range(3):
            a[i] = x[n, i] - t[1 + i] / t[0]
        square = a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
        for i in range(3):
            o[i, i] += m[n] * square
            for j in range(3):
                o[i, j] -= m[n] * a[i] * a[j]
    return out


ROUGH_FACTOR: Final = 10.0  # [-] how much less is asked of a solve that another will better
MAX_CONTACT_PASSES: Final = 3  # solves of one step until no node is pulled by the ground


@dataclass(slots=True, eq=False)
class ImplicitSolution:
    """What a solve gave."""

    positions: FloatArray
    velocities: FloatArray
    iterations: int
    residual: float
    substeps: int = 1
    work: float = np.inf  # [J] of all that drives the body, at most; infinite where it is not known


class ImplicitScheme:
    """Arrays that steps share, so that none is made anew."""

    def __init__(self, body: SoftBody) -> None:
        blocks = body.elastic.blocks
        count, rows = len(body.masses), len(body.masses) + body.bones.num_rows
        muscles = empty_muscle_arrays() if body.muscles is None else body.muscles.arrays
        points, segments = len(muscles.points), len(muscles.rest)
        self.places = find_diagonal_positions(blocks.starts, blocks.columns)
        coarse = make_coarse_space(body.mesh.nodes, blocks, body.carriers, body.bones.arrays)
        self.system = LinearSystem(
            blocks.starts, blocks.columns, blocks.values, body.elastic.rises, np.zeros(count), body.carriers,
            np.zeros((count, 3, 3)), body.bones.arrays, coarse, muscles, np.zeros((segments, 3, 3)),
            np.zeros((2, points, 3)), np.zeros((2, count, 3)),
        )  # fmt: skip
        self.point_forces = np.zeros((points, 3))
        self.scratch = np.zeros((4, rows, 3))
        self.active = np.zeros(count, dtype=np.int64)
        self.loads = np.zeros(count)
        self.contact = np.zeros((count, 3, 3))
        self.push = np.zeros((count, 3))
        self.prepared = False  # whether the preconditioner is that of this step
        self.is_rough = False  # whether a second solve will follow, so that the first need not be good
        self.tolerance = body.tolerance

    def solve(
        self, body: SoftBody, h: float, load: FloatArray, alphas: FloatArray, near: ImplicitSolution | None = None
    ) -> ImplicitSolution:
        """New positions and velocities after ``h`` [s] under ``load`` (V, 3) [N].

        Elastic forces are linear about the start of the step, or about a solution ``near`` its end. Bones are moved,
        the body is not.
        """
        x, v = body.positions, body.velocities
        forces = self._linearised_forces(body, x if near is None else near.positions)
        self.tolerance = body.tolerance * (ROUGH_FACTOR if self.is_rough and near is None else 1.0)
        self.prepared = near is not None  # what preconditioned the first solve does for the second
        self._assemble_matrix(body, h)
        muscle = self._muscle_impulse(x, v, h, alphas)
        momenta = body.masses[:, None] * v
        momenta[body.bones.arrays.nodes] = 0.0  # bones keep those of the nodes they carry
        unknowns = body.bones.start(v)
        drive = h * load + muscle
        new, count, residual = self._solve_with_contact(body, h, momenta + drive + h * forces, unknowns, drive)
        self._restore_momentum(body, h, load, muscle, new)
        work = self._external_work(body, h * load + muscle, new)
        return ImplicitSolution(body.bones.carry(h, unknowns, x, new), new, count, residual, 1, work)

    def _linearised_forces(self, body: SoftBody, here: FloatArray) -> FloatArray:
        """Elastic forces (V, 3) [N] where the body is, as the tangent at positions ``here`` sees them."""
        forces = body.elastic.assemble(here, exact=False)
        if here is not body.positions:
            back = np.empty_like(forces)
            elastic = body.elastic
            multiply_blocks(*elastic.blocks, elastic.rises, elastic.rise_stiffness, here - body.positions, back)
            forces += back
        return forces

    def _assemble_matrix(self, body: SoftBody, h: float) -> None:
        mass_rate, stiffness_time = body.damping
        factor = h * h + h * stiffness_time
        values = self.system.values
        values *= factor
        for i in range(3):
            values[self.places, i, i] += (1.0 + h * mass_rate) * body.masses
        np.multiply(factor, body.elastic.rise_stiffness, out=self.system.weights)
        body.bones.weigh(h)

    def _muscle_impulse(self, x: FloatArray, v: FloatArray, h: float, alphas: FloatArray) -> FloatArray:
        """Impulse of the splines (V, 3) [N s] on the right of a system for new velocities."""
        out = np.zeros_like(x)
        s = self.system
        if len(s.blocks):
            evaluate_segments(s.muscles, x, v, alphas, h, self.point_forces, s.blocks)
            scatter_forces(s.muscles, h * self.point_forces, out)
        return out

    def _solve_with_contact(
        self, body: SoftBody, h: float, rhs: FloatArray, unknowns: FloatArray, drive: FloatArray
    ) -> tuple[FloatArray, int, float]:
        ground = body.ground
        if ground is None:
            return self._solve_linear(body, rhs, unknowns, drive)

        x, v = body.positions, body.velocities
        base = self.system.values[self.places]
        predict_contacts(x, v, h, ground, self.active)
        new, total, residual = v, 0, 0.0
        for _ in range(MAX_CONTACT_PASSES):
            push = self._add_contact(body, h, ground, new, base)
            new, count, residual = self._solve_linear(body, rhs + push, unknowns, drive)
            total += count
            if update_contacts(x, new, h, ground, self.active, self.loads) == 0:
                break
        return new, total, residual

    def _add_contact(
        self, body: SoftBody, h: float, ground: ContactPlaneArrays, guess: FloatArray, base: FloatArray
    ) -> FloatArray:
        """Add the contact to the diagonal; its impulse (V, 3) [N s] on the right."""
        forces, blocks = np.zeros_like(body.positions), self.contact
        blocks[:] = 0.0
        state = (body.positions, body.velocities, body.masses, h)
        add_implicit_contact(*state, ground, self.active, self.loads, guess, forces, blocks)
        self.system.values[self.places] = base + blocks
        self.push = h * forces
        return self.push

    def _solve_linear(
        self, body: SoftBody, rhs: FloatArray, unknowns: FloatArray, drive: FloatArray
    ) -> tuple[FloatArray, int, float]:

        s = self.system
        right = self._contract(body, rhs)
        body.bones.push(rhs, right)
        if body.settings.solver == "direct":
            count, residual = solve_direct(s, right, unknowns)
        else:
            count, residual = self._solve_gradients(body, right, unknowns, self._contract(body, drive), self.tolerance)
        new = np.empty_like(rhs)
        expand_unknowns(s.bones, unknowns, new)
        return new, count, residual

    def _contract(self, body: SoftBody, impulse: FloatArray) -> FloatArray:
        """What an impulse on nodes (V, 3) does to the unknowns (V + R, 3)."""
        out = np.empty((len(impulse) + body.bones.num_rows, 3))
        contract_forces(self.system.carriers, self.system.bones, impulse, out)
        return out

    def _solve_gradients(
        self, body: SoftBody, right: FloatArray, unknowns: FloatArray, drive: FloatArray, tolerance: float
    ) -> tuple[int, float]:

        s = self.system
        if not self.prepared:
            invert_diagonal(s, self.places)
            update_region_arms(s.coarse, body.positions)
            assemble_coarse_matrix(s)
            body.bones.join(s.coarse)
            invert_coarse_matrix(s.coarse.inverse)
        return solve_conjugate_gradients(s, right, drive, unknowns, self.scratch, tolerance, 50 + 10 * len(unknowns))

    def linearise(self, body: SoftBody, x: FloatArray, v: FloatArray, h: float, alphas: FloatArray) -> None:
        """Fill the system at positions x and velocities v."""
        self.prepared = False
        body.elastic.assemble(x, exact=False)
        self._assemble_matrix(body, h)
        self._muscle_impulse(x, v, h, alphas)

    def correction(self, body: SoftBody, rhs: FloatArray, tolerance: float) -> tuple[FloatArray, int]:
        """Change of velocities (V, 3) for an impulse (V, 3), the residual cut to a share of it; iterations."""
        out = np.zeros_like(rhs)
        if body.settings.solver == "direct":
            return out, solve_direct(self.system, rhs, out)[0]
        return out, self._solve_gradients(body, rhs, out, rhs, tolerance)[0]

    def multiply_stiffness(self, body: SoftBody, x: FloatArray, v: FloatArray) -> FloatArray:
        """The stiffness at x times v (V, 3) [N/s]."""
        out = np.empty_like(v)
        body.elastic.assemble(x, exact=False)
        multiply_blocks(*body.elastic.blocks, body.elastic.rises, body.elastic.rise_stiffness, v, out)
        return out

    def spline_forces(self, x: FloatArray, v: FloatArray, alphas: FloatArray) -> FloatArray:
        """Forces of the splines (V, 3) [N], damping included."""
        out = np.zeros_like(x)
        s = self.system
        if len(s.blocks):
            evaluate_segments(s.muscles, x, v, alphas, 0.0, self.point_forces, s.blocks)
            scatter_forces(s.muscles, self.point_forces, out)
        return out

    def bound_spline_rate(self, body: SoftBody) -> float:
        """Highest stiffness over mass of the segments [1/s^2], damping counted as stiffness; zero without splines."""
        arrays = self.system.muscles
        if not len(arrays.segments):
            return 0.0
        entries = np.repeat(np.arange(len(arrays.points)), np.diff(arrays.starts))
        light = np.bincount(entries, arrays.weights**2 / body.masses[arrays.nodes], minlength=len(arrays.points))
        ends = light[arrays.segments].sum(axis=1)
        return float((2.0 * ends * arrays.stiffness + (2.0 * ends * arrays.damping) ** 2).max())

    def _external_work(self, body: SoftBody, impulse: FloatArray, new: FloatArray) -> float:
        if len(body.bones.names):
            return np.inf
        ground = 0.0 if body.ground is None else max(0.0, float(np.sum(self.push * new)))
        return float(np.sum(impulse * new)) + ground

    def _restore_momentum(
        self, body: SoftBody, h: float, load: FloatArray, muscle: FloatArray, new: FloatArray
    ) -> None:
        """Momentum of parts that nothing holds or touches."""
        stuck = body.carriers != FREE
        if body.ground is not None:
            stuck = stuck | (self.active != 0)
        loose = np.bincount(body.parts, weights=stuck) == 0
        if not loose.any():
            return
        impulse = h * load + muscle  # what is implicit of splines turns nothing: they act between their points
        decay = 1.0 / (1.0 + h * body.damping[0])
        restore_momentum(body.parts, loose, body.masses, body.positions, body.velocities, impulse, decay, new)
