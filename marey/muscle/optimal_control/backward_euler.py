"""One step of backward Euler of a controlled soft body, solved to rounding by Newton's method, and its derivative.

Both use the same matrix, so that one factorisation gives the exact derivative of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from marey.base import ConvergenceError, FloatArray

if TYPE_CHECKING:
    from marey.muscle.optimal_control.coordinates import LinearSolver
    from marey.muscle.optimal_control.soft_system import SoftSystem


RESIDUAL_TOL = 1e-11  # [-] of the forces in play: what is left over after a step
ACCEPTED_RESIDUAL = 1e-8  # [-] where rounding ends the descent earlier
MAX_NEWTON = 40
MIN_STEP_FRACTION = 2.0**-20  # [-] of a step downhill
SUFFICIENT_DECREASE = 0.5  # [-] of what was left over before a Newton step
REUSE_DECREASE = 0.1  # [-] of what was left over, for another step with the same matrix
REFERENCE_ACCELERATION = 1.0  # [m/s²] forces count as in play from here on; a body at rest has only rounding

_Iterate = tuple[FloatArray, FloatArray, float]  # coordinates, what is left over, size of the forces in play


class StepSlopes(NamedTuple):
    """Derivatives of the equations of a step at its end."""

    matrix: FloatArray  # (B, 3, 3) blocks of the pattern: inertia, stiffness, drag
    drag: Callable[[FloatArray, bool], FloatArray]  # times changes of velocity (3V, n), or transposed
    by_control: FloatArray  # (3V, s) of the forces


class NewtonStep:
    r"""The equations of one step, :math:`P^T(M(v^+ - v)/\Delta t - f(x^+, v^+, a)) = 0` with :math:`x^+ = x(z)`."""

    def __init__(self, system: SoftSystem, x: FloatArray, v: FloatArray, angles: FloatArray, a: FloatArray) -> None:
        self.system, self.x, self.v, self.a = system, x, v, a
        self.before = system.chart.coordinates(x, angles)

    def ends(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Positions and velocities ``(V, 3)`` at the end of the step."""
        x = self.system.chart.positions(z, self.x)
        return x, (x - self.x) / self.system.dt

    def unbalanced_forces(self, z: FloatArray) -> tuple[FloatArray, float]:
        """Forces ``(3V,)`` [N] that are still open at the points, and the size of those in play."""
        x, v = self.ends(z)
        masses, dt = self.system.masses, self.system.dt
        forces = self.system.forces(x, v, self.a)
        scale = np.linalg.norm(masses * v.ravel()) / dt + np.linalg.norm(masses * self.v.ravel()) / dt
        return masses * (v - self.v).ravel() / dt - forces, float(scale + np.linalg.norm(forces))

    def residual(self, z: FloatArray) -> tuple[FloatArray, float]:
        """What is left over ``(size,)``, and the size of the forces in play."""
        chart = self.system.chart
        rest, scale = self.unbalanced_forces(z)
        joints = chart.joints(z, self.before, self.system.dt)
        floor = REFERENCE_ACCELERATION * float(np.linalg.norm(self.system.masses))
        return chart.drop(z, rest) - joints.values, scale + floor

    def factor(self, z: FloatArray, blocks: FloatArray, *, exact: bool = True) -> LinearSolver:
        """Solver with the derivative of the residual by the coordinates, or with its transpose."""
        chart = self.system.chart
        forces = self.unbalanced_forces(z)[0].reshape(-1, 3) if chart.num_angles else np.zeros((0, 3))
        return chart.factor(z, blocks, forces, chart.joints(z, self.before, self.system.dt), exact=exact)

    def solve(self, t: int) -> FloatArray:
        """Coordinates at the end of the step.

        Raises:
            ConvergenceError: Newton's method did not settle: the step is too long for what happens in it.
        """
        # Begin where all went on as before, or where it is if that is nearer.
        ahead = self.system.chart.ahead(self.before, self.x, self.v, self.system.dt)
        there, here = (float(np.linalg.norm(self.residual(z)[0])) for z in (ahead, self.before))
        z = ahead if there <= here else self.before
        rest, scale = self.residual(z)
        for _ in range(MAX_NEWTON):
            if float(np.linalg.norm(rest)) <= RESIDUAL_TOL * scale:
                return z
            moved = self._full_newton_step(z, rest) or self._descent_step(z, rest)
            if moved is None:
                break
            z, rest, scale = moved
        left = float(np.linalg.norm(rest)) / scale
        if left <= ACCEPTED_RESIDUAL:
            return z
        raise ConvergenceError(f"step {t} of the soft body did not settle: {left:.2e} of the forces is left", report=z)

    def _full_newton_step(self, z: FloatArray, rest: FloatArray) -> _Iterate | None:
        """A whole Newton step with the exact matrix, if it goes downhill and leaves much less over.

        The matrix is reused as long as each further step reduces the residual tenfold. Shorter steps are no
        good: they creep where the energy is curved down (19 iterations instead of more than 40 for a beam that falls).
        """
        solve = self.factor(z, self.system.matrix(*self.ends(z), self.a, exact=True), exact=True)
        d = -solve(rest, False)
        left, scale = self.residual(z + d)
        if float(d @ rest) >= 0.0 or not np.linalg.norm(left) <= SUFFICIENT_DECREASE * np.linalg.norm(rest):
            return None
        z = z + d
        while np.linalg.norm(left) > RESIDUAL_TOL * scale:
            further = z - solve(left, False)
            new, new_scale = self.residual(further)
            if not np.linalg.norm(new) <= REUSE_DECREASE * np.linalg.norm(left):
                break
            z, left, scale = further, new, new_scale
        return z, left, scale

    def _descent_step(self, z: FloatArray, rest: FloatArray) -> _Iterate | None:
        """A step that goes downhill for sure, not so long that it climbs again."""
        blocks = self.system.matrix(*self.ends(z), self.a, exact=False)
        d = -self.factor(z, blocks, exact=False)(rest, False)
        slope, share = float(d @ rest), 1.0
        while share >= MIN_STEP_FRACTION and slope < 0.0:
            left, scale = self.residual(z + share * d)
            if np.isfinite(left).all() and float(d @ left) <= -SUFFICIENT_DECREASE * slope:
                return z + share * d, left, scale
            share *= 0.5
        return None


class StepDerivative:
    """Derivative of a solved step, forwards and transposed, by one factorisation."""

    def __init__(self, step: NewtonStep, z: FloatArray) -> None:
        self.system, self.z = step.system, z
        self.slopes = step.system.slopes(*step.ends(z), step.a)
        self.joints = step.system.chart.joints(z, step.before, step.system.dt)
        self.solve = step.factor(z, self.slopes.matrix)

    def transposed_products(self, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Transposed products: by state ``(m,)`` and by control ``(s,)``."""
        chart, masses, h = self.system.chart, self.system.masses, self.system.dt
        n, angles = masses.size, chart.num_angles
        # The new state is x(z), (x(z) - x)/h and the angles of z: r comes back through all three.
        ends = chart.drop(self.z, r[:n] + r[n : 2 * n] / h)
        ends[ends.size - angles :] += r[2 * n :]
        # One transposed solve, then the derivative of the residual by the state before: inertia and drag.
        w = self.solve(ends, True)
        on_points = chart.lift(self.z, w)
        drag = self.slopes.drag(on_points[:, None], True)[:, 0]
        by_x = masses / h**2 * on_points + drag / h - r[n : 2 * n] / h
        by_angles = -(self.joints.drag * w)[w.size - angles :]
        return np.concatenate([by_x, masses / h * on_points, by_angles]), self.slopes.by_control.T @ on_points

    def products(self, dq: FloatArray, da: FloatArray) -> FloatArray:
        """Changes of the next state ``(m, k)`` for changes of state ``(m, k)`` and of control ``(s, k)``."""
        chart, masses, h = self.system.chart, self.system.masses, self.system.dt
        n, angles = masses.size, chart.num_angles
        # What a change of the state before, and of the controls, leaves open in the equations of the step.
        dx, dv = dq[:n], dq[n : 2 * n]
        push = (masses / h)[:, None] * (dx / h + dv) + self.slopes.drag(dx, False) / h + self.slopes.by_control @ da
        right = chart.drop(self.z, push)
        first = right.shape[0] - angles
        right[first:] -= self.joints.drag[first:, None] * dq[2 * n :]
        dz = self.solve(right, False)
        ahead = chart.lift(self.z, dz)
        return np.concatenate([ahead, (ahead - dx) / h, dz[first:]])
