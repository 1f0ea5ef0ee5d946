"""Coordinates in which a soft body is solved, and one step of backward Euler in them.

The step is solved by Newton's method, and its derivative uses the same matrix. The positions at which blocks of the
body and of its segments add into that matrix are found once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, IntArray
from marey.muscle.optimal_control.segments import add_segment_blocks, add_volume_blocks

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from marey.muscle.elastic.assembly import ElasticModel
    from marey.muscle.optimal_control.segments import WeightedSegments


class StepPattern:
    """Matrix of node blocks ``(3V, 3V)`` that holds the material, the volumes of nodes and the segments."""

    def __init__(self, elastic: ElasticModel, segments: WeightedSegments, num_nodes: int) -> None:
        self.elastic, self.segments = elastic, segments
        starts, columns = (np.asarray(a, dtype=np.int64) for a in elastic.blocks[:2])
        own = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * num_nodes + columns
        self._has_rises = bool(np.any(elastic.rise_stiffness))
        rises = _pair_keys(starts, columns, num_nodes) if self._has_rises else np.zeros(0, dtype=np.int64)
        lags = _pair_keys(segments.starts, segments.nodes, num_nodes)
        diagonal = np.arange(num_nodes) * (num_nodes + 1)
        keys = np.unique(np.concatenate([own, rises, lags, diagonal]))
        self.rows, self.columns = np.divmod(keys, num_nodes)  # of each block
        self._own, self._rises = np.searchsorted(keys, own), np.searchsorted(keys, rises)
        self._lags, self._diagonal = np.searchsorted(keys, lags), np.searchsorted(keys, diagonal)
        self._starts = starts
        self.values: FloatArray = np.zeros((len(keys), 3, 3))

    def assemble(self, x: FloatArray, blocks: FloatArray, nodes: FloatArray, *, exact: bool) -> FloatArray:
        """Blocks ``(B, 3, 3)``: material at ``x``, minus blocks of segments ``(S, 3, 3)``, plus blocks of nodes."""
        self.elastic.assemble(np.ascontiguousarray(x), exact=exact)
        values = self.values
        values[:] = 0.0
        values[self._own] = self.elastic.blocks.values
        if self._has_rises:
            add_volume_blocks(self._starts, self.elastic.rises, self.elastic.rise_stiffness, self._rises, values)
        add_segment_blocks(self.segments, blocks, self._lags, values)
        values[self._diagonal] += nodes
        return values


def _pair_keys(starts: IntArray, members: IntArray, num_nodes: int) -> IntArray:
    """Numbers ``row * V + column`` of all ordered pairs of members of each group, group by group."""
    parts = [members[a:b] for a, b in pairwise(starts)]
    keys = [(part[:, None] * num_nodes + part[None, :]).ravel() for part in parts]
    return np.concatenate([np.zeros(0, dtype=np.int64), *keys])


class FreeNodeMatrix:
    """The part of a pattern between free nodes, ready to be factored: dense where it is small."""

    DENSE = 700  # [unknowns] up to here dense factors were faster

    def __init__(self, pattern: StepPattern, free: IntArray, num_nodes: int) -> None:
        place = np.full(num_nodes, -1, dtype=np.int64)
        place[free] = np.arange(free.size)
        self._kept = np.flatnonzero((place[pattern.rows] >= 0) & (place[pattern.columns] >= 0))
        self.size = 3 * free.size
        i, j = np.meshgrid(np.arange(3), np.arange(3), indexing="ij")
        rows = (3 * place[pattern.rows[self._kept]])[:, None, None] + i
        columns = (3 * place[pattern.columns[self._kept]])[:, None, None] + j
        self._flat = (rows * self.size + columns).ravel()
        self._order = np.lexsort((rows.ravel(), columns.ravel()))
        self._indices = rows.ravel()[self._order].astype(np.int32)
        counts = np.bincount(columns.ravel(), minlength=self.size)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def dense(self, values: FloatArray) -> FloatArray:
        """Matrix ``(size, size)``."""
        found = np.zeros(self.size * self.size)
        found[self._flat] = values[self._kept].ravel()
        return found.reshape(self.size, self.size)

    def sparse(self, values: FloatArray) -> csc_array[np.float64]:
        """Matrix ``(size, size)``, sparse by columns."""
        from scipy.sparse import csc_array

        data = values[self._kept].ravel()[self._order]
        return csc_array((data, self._indices, self._starts), shape=(self.size, self.size))

    def best(self, values: FloatArray) -> FloatArray | csc_array[np.float64]:
        """Dense where it is small, else sparse."""
        return self.dense(values) if self.size <= self.DENSE else self.sparse(values)


LinearSolver = Callable[[FloatArray, bool], FloatArray]  # of one column or many, with a matrix or with its transpose


class JointForces:
    """Forces of joints on the coordinates, and minus their derivatives."""

    def __init__(self, size: int) -> None:
        self.values: FloatArray = np.zeros(size)
        self.stiffness: FloatArray = np.zeros(size)  # by the coordinates, of each its own
        self.drag: FloatArray = np.zeros(size)  # by the coordinates before the step


class GeneralisedCoordinates(Protocol):
    """Positions of all points as a smooth function of fewer coordinates."""

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def num_angles(self) -> int:
        """Number of coordinates that are joint angles: the last ones; they end the state too."""
        ...

    def coordinates(self, x: FloatArray, angles: FloatArray) -> FloatArray:
        """Coordinates of points ``(V, 3)`` that the chart can reach."""
        ...

    def positions(self, z: FloatArray, x: FloatArray) -> FloatArray:
        """Points ``(V, 3)``; those that nothing moves stay as in ``x``."""
        ...

    def ahead(self, z: FloatArray, x: FloatArray, v: FloatArray, dt: float) -> FloatArray:
        """Coordinates after a step if all goes on from points ``x`` with velocities ``v`` ``(V, 3)``."""
        ...

    def lift(self, z: FloatArray, d: FloatArray) -> FloatArray:
        """Changes of points ``(3V, ...)`` for changes of coordinates ``(size, ...)``."""
        ...

    def drop(self, z: FloatArray, f: FloatArray) -> FloatArray:
        """Forces on coordinates ``(size, ...)`` of forces on points ``(3V, ...)``: the transpose of :meth:`lift`."""
        ...

    def factor(
        self, z: FloatArray, values: FloatArray, forces: FloatArray, joints: JointForces, *, exact: bool
    ) -> LinearSolver:
        """Solver with the blocks of the pattern in coordinates, the joints, and the chart's curvature times forces.

        Without ``exact`` the curvature has no negative eigenvalue.
        """
        ...

    def joints(self, z: FloatArray, before: FloatArray, dt: float) -> JointForces:
        """What limits and dampers of joints do."""
        ...


class NodeCoordinates:
    """Free nodes move, held ones do not."""

    num_angles = 0

    def __init__(self, pattern: StepPattern, is_free: ArrayLike) -> None:
        self.free: IntArray = np.flatnonzero(np.asarray(is_free))
        self.size = 3 * self.free.size
        self._shape = (len(np.asarray(is_free)), 3)
        self._matrix = FreeNodeMatrix(pattern, self.free, self._shape[0])

    def coordinates(self, x: FloatArray, angles: FloatArray) -> FloatArray:
        """Positions of the free nodes."""
        return x[self.free].ravel()

    def positions(self, z: FloatArray, x: FloatArray) -> FloatArray:
        """All nodes ``(V, 3)``."""
        found = x.copy()
        found[self.free] = z.reshape(-1, 3)
        return found

    def ahead(self, z: FloatArray, x: FloatArray, v: FloatArray, dt: float) -> FloatArray:
        """Free nodes go straight on."""
        return (x + dt * v)[self.free].ravel()

    def lift(self, z: FloatArray, d: FloatArray) -> FloatArray:
        """Held nodes do not change."""
        found = np.zeros((*self._shape, *d.shape[1:]))
        found[self.free] = d.reshape(-1, 3, *d.shape[1:])
        return found.reshape(-1, *d.shape[1:])

    def drop(self, z: FloatArray, f: FloatArray) -> FloatArray:
        """Forces on the free nodes."""
        return f.reshape(*self._shape, *f.shape[1:])[self.free].reshape(-1, *f.shape[1:])

    def factor(
        self, z: FloatArray, values: FloatArray, forces: FloatArray, joints: JointForces, *, exact: bool
    ) -> LinearSolver:
        """Solver with the blocks between free nodes."""
        return factorise(self._matrix.best(values))

    def joints(self, z: FloatArray, before: FloatArray, dt: float) -> JointForces:
        """There are none."""
        return JointForces(self.size)


def factorise(matrix: FloatArray | csc_array[np.float64]) -> LinearSolver:
    """Solver with a matrix, dense or sparse by columns, or with its transpose; for one column or many."""
    from scipy.linalg import lu_factor, lu_solve
    from scipy.sparse.linalg import splu

    if isinstance(matrix, np.ndarray):
        found = lu_factor(matrix, overwrite_a=True, check_finite=False)
        return lambda b, transposed: lu_solve(found, b, trans=1 if transposed else 0, check_finite=False)
    try:
        parts = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise ConvergenceError(f"the matrix of a step of the soft body is singular: {error}") from None
    return lambda b, transposed: np.asarray(cast(Any, parts).solve(b, "T" if transposed else "N"))


RESIDUAL_TOL = 1e-11  # [-] of the forces in play: what is left over after a step
ACCEPTED_RESIDUAL = 1e-8  # [-] where rounding ends the descent earlier
MAX_NEWTON = 40
MIN_STEP_FRACTION = 2.0**-20  # [-] of a step downhill
SUFFICIENT_DECREASE = 0.5  # [-] of what was left over before a Newton step
REUSE_DECREASE = 0.1  # [-] of what was left over, for another step with the same matrix
REFERENCE_ACCELERATION = (
    1.0  # [m/s²] forces are counted as in play from this acceleration on; a body at rest has only rounding
)

_Iterate = tuple[FloatArray, FloatArray, float]  # coordinates, what is left over, size of the forces in play


class StepSlopes(NamedTuple):
    """Derivatives of the equations of a step at its end."""

    matrix: FloatArray  # (B, 3, 3) blocks of the pattern: inertia, stiffness, drag
    drag: Callable[[FloatArray, bool], FloatArray]  # times changes of velocity (3V, n), or transposed
    by_control: FloatArray  # (3V, s) of the forces


class DynamicSystem(Protocol):
    """Masses and forces of a controlled system in its coordinates."""

    @property
    def masses(self) -> FloatArray:
        """Mass of each component ``(3V,)`` [kg]."""
        ...

    @property
    def chart(self) -> GeneralisedCoordinates:
        """Coordinates."""
        ...

    @property
    def dt(self) -> float:
        """Step [s]."""
        ...

    def forces(self, x: FloatArray, v: FloatArray, a: FloatArray, /) -> FloatArray:
        """Forces ``(3V,)`` [N]."""
        ...

    def matrix(self, x: FloatArray, v: FloatArray, a: FloatArray, /, *, exact: bool) -> FloatArray:
        """Blocks of inertia, stiffness and drag; without ``exact`` they have no negative eigenvalue."""
        ...

    def slopes(self, x: FloatArray, v: FloatArray, a: FloatArray, /) -> StepSlopes:
        """All derivatives."""
        ...


class NewtonStep:
    r"""The equations of one step, :math:`P^T(M(v^+ - v)/\Delta t - f(x^+, v^+, a)) = 0` with :math:`x^+ = x(z)`."""

    def __init__(self, system: DynamicSystem, x: FloatArray, v: FloatArray, angles: FloatArray, a: FloatArray) -> None:
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
        return chart.drop(z, rest) - joints.values, scale + REFERENCE_ACCELERATION * float(
            np.linalg.norm(self.system.masses)
        )

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
        ends = chart.drop(self.z, r[:n] + r[n : 2 * n] / h)
        ends[ends.size - angles :] += r[2 * n :]
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
        dx, dv = dq[:n], dq[n : 2 * n]
        push = (masses / h)[:, None] * (dx / h + dv) + self.slopes.drag(dx, False) / h + self.slopes.by_control @ da
        right = chart.drop(self.z, push)
        first = right.shape[0] - angles
        right[first:] -= self.joints.drag[first:, None] * dq[2 * n :]
        dz = self.solve(right, False)
        ahead = chart.lift(self.z, dz)
        return np.concatenate([ahead, (ahead - dx) / h, dz[first:]])
