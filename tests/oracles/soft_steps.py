"""Slow twins of the step of a soft body: its linear system by sparse factors, and backward Euler to convergence."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.muscle import SoftBody
from marey.muscle.body.linear_system import FREE, HELD, LinearSystem, apply_system, solve_conjugate_gradients
from marey.muscle.body.time_step import ImplicitScheme, ImplicitSolution
from marey.muscle.elastic.segments import to_sparse_tangent
from marey.muscle.muscles.transfer import evaluate_segments, scatter_forces

DIRECT_TOL: Final = 1e-12  # [-] of the residual, where splines are beside the factors
MAX_REFINEMENTS: Final = 100


def solve_direct(system: LinearSystem, right: FloatArray, unknowns: FloatArray) -> tuple[int, float]:
    """Solve for the unknowns (V + R, 3) in place: factors of all but splines, then conjugate gradients with them."""
    from scipy import sparse
    from scipy.sparse.linalg import LinearOperator, cg, splu

    count, size, bones = len(system.carriers), unknowns.size, system.bones
    rates = len(bones.screws)
    # What unknowns do to velocities of nodes (3V, unknowns).
    free = (3 * np.flatnonzero(system.carriers == FREE)[:, None] + np.arange(3)).ravel()
    rows, columns, values = [free], [free], [np.ones(len(free))]
    for d, screw in enumerate(bones.screws):
        moved = np.flatnonzero(bones.moves[bones.owners, d])
        rows.append((3 * bones.nodes[moved][:, None] + np.arange(3)).ravel())
        columns.append(np.full(3 * len(moved), 3 * count + d))
        values.append((screw[3:] + np.cross(screw[:3], bones.arms[moved])).ravel())
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    reach = sparse.coo_array(entries, shape=(3 * count, size)).tocsc()
    # One for unknowns that nothing moves, so that their rows can be solved; the inertia of rates.
    idle = np.zeros(size)
    idle[: 3 * count] = np.repeat(system.carriers != FREE, 3)
    idle[3 * count + rates :] = 1.0
    own = sparse.diags_array(idle).tolil()
    if rates:
        own[3 * count : 3 * count + rates, 3 * count : 3 * count + rates] = bones.inertia
    matrix = to_sparse_tangent(system.matrix, system.rises, system.weights)
    factors = splu((reach.T @ matrix @ reach + own).tocsc())
    if not len(system.blocks):
        unknowns[:] = factors.solve(right.ravel()).reshape(unknowns.shape)
        return 1, 0.0
    out, evaluations = np.empty_like(unknowns), 0

    def multiply(u: FloatArray) -> FloatArray:
        nonlocal evaluations
        evaluations += 1
        apply_system(system, np.ascontiguousarray(u).reshape(unknowns.shape), out)
        return out.ravel() + idle * u

    whole = LinearOperator((size, size), matvec=multiply, dtype=np.float64)
    inverse = LinearOperator((size, size), matvec=factors.solve, dtype=np.float64)
    found, _ = cg(whole, right.ravel(), rtol=DIRECT_TOL, maxiter=MAX_REFINEMENTS, M=inverse)
    unknowns[:] = found.reshape(unknowns.shape)
    return evaluations, DIRECT_TOL


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

    def __init__(self, body: SoftBody, implicit: ImplicitScheme, *, direct: bool = False) -> None:
        assert body.ground is None and not len(body.bones.names)
        self.implicit, self.direct = implicit, direct

    def _spline_forces(self, x: FloatArray, v: FloatArray, alphas: FloatArray) -> FloatArray:
        """Forces of the splines (V, 3) [N], damping included."""
        out, s = np.zeros_like(x), self.implicit.system
        if len(s.blocks):
            evaluate_segments(s.muscles, x, v, alphas, 0.0, self.implicit.point_forces, s.blocks)
            scatter_forces(s.muscles, self.implicit.point_forces, out)
        return out

    def solve(self, body: SoftBody, h: float, load: FloatArray, alphas: FloatArray) -> ImplicitSolution:
        """New positions and velocities after ``h`` [s]; the body is not changed."""
        held = body.carriers == HELD
        masses = body.masses[:, None]
        stiffness = body.tangent(body.positions, exact=False) if body.settings.damping[1] > 0 else None

        def evaluate_residual(v: FloatArray) -> FloatArray:
            """Impulse that is missing (V, 3) [N s]; none on held nodes."""
            x = body.positions + h * v
            forces = body.elastic.forces(x) + load - body.settings.damping[0] * masses * v
            if stiffness is not None:
                forces -= body.settings.damping[1] * (stiffness @ v.ravel()).reshape(v.shape)
            forces += self._spline_forces(x, v, alphas)
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
            # The system at the positions and velocities so far.
            scheme, system = self.implicit, self.implicit.system
            body.elastic.assemble(body.positions + h * new, exact=False)
            scheme._assemble_matrix(body, h)
            if len(system.blocks):
                there = body.positions + h * new
                evaluate_segments(system.muscles, there, new, alphas, h, scheme.point_forces, system.blocks)
            step = np.zeros_like(residual)
            if self.direct:
                count, _ = solve_direct(system, residual, step)
            else:
                scheme.prepare(body, scheme.system)
                most = 50 + 10 * len(step)
                count, _ = solve_conjugate_gradients(system, residual, residual, step, scheme.scratch, FORCING, most)
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


def use_newton(body: SoftBody, *, direct: bool = False) -> SoftBody:
    """The body, whose steps are then converged backward Euler."""
    body._stepper.scheme = NewtonScheme(body, body._stepper.implicit, direct=direct)
    return body
