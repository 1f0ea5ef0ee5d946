"""One implicit step of a soft body: assemble, solve, put momentum right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.muscle._assembly import find_diagonal_positions
from marey.muscle._solver import FREE, LinearSystem, empty_muscle_arrays
from marey.muscle._solver_coarse import make_coarse_space
from marey.muscle._solver_direct import solve_direct

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody
    from marey.muscle._contact_kernels import ContactPlaneArrays

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
        from marey.muscle._solver_kernels import multiply_blocks

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
        from marey.muscle._transfer_kernels import evaluate_segments, scatter_forces

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
        from marey.muscle._contact_kernels import predict_contacts, update_contacts

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
        from marey.muscle._contact_kernels import add_implicit_contact

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
        from marey.muscle._solver_kernels import expand_unknowns

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
        from marey.muscle._solver_kernels import contract_forces

        out = np.empty((len(impulse) + body.bones.num_rows, 3))
        contract_forces(self.system.carriers, self.system.bones, impulse, out)
        return out

    def _solve_gradients(
        self, body: SoftBody, right: FloatArray, unknowns: FloatArray, drive: FloatArray, tolerance: float
    ) -> tuple[int, float]:
        from marey.muscle._solver_coarse_kernels import assemble_coarse_matrix, invert_coarse_matrix, update_region_arms
        from marey.muscle._solver_kernels import invert_diagonal, solve_conjugate_gradients

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
        from marey.muscle._solver_kernels import multiply_blocks

        out = np.empty_like(v)
        body.elastic.assemble(x, exact=False)
        multiply_blocks(*body.elastic.blocks, body.elastic.rises, body.elastic.rise_stiffness, v, out)
        return out

    def spline_forces(self, x: FloatArray, v: FloatArray, alphas: FloatArray) -> FloatArray:
        """Forces of the splines (V, 3) [N], damping included."""
        from marey.muscle._transfer_kernels import evaluate_segments, scatter_forces

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
        from marey.muscle._body_kernels import restore_momentum

        stuck = body.carriers != FREE
        if body.ground is not None:
            stuck = stuck | (self.active != 0)
        loose = np.bincount(body.parts, weights=stuck) == 0
        if not loose.any():
            return
        impulse = h * load + muscle  # what is implicit of splines turns nothing: they act between their points
        decay = 1.0 / (1.0 + h * body.damping[0])
        restore_momentum(body.parts, loose, body.masses, body.positions, body.velocities, impulse, decay, new)
