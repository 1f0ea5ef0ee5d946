"""Coordinates in which a soft body is solved: free nodes and joint angles; bones carry the other nodes.

The positions at which blocks of the body and of its segments add into the matrix of a step are found once. Compiled
functions give the points carried by a chain of hinges and their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, IntArray, kernel
from marey.muscle.body.linear_system import FREE
from marey.muscle.elastic.segments import add_segment_blocks, add_volume_blocks, project_border_blocks

if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from marey.muscle.body.bones import AttachedBones
    from marey.muscle.body.soft_body import ElasticModel
    from marey.muscle.elastic.segments import WeightedSegments


class StepPattern:
    """Matrix of node blocks ``(3V, 3V)`` that holds the material, the volumes of nodes and the segments."""

    def __init__(self, elastic: ElasticModel, segments: WeightedSegments, num_nodes: int) -> None:
        self.elastic, self.segments = elastic, segments
        starts, columns = (np.asarray(a, dtype=np.int64) for a in elastic.blocks[:2])
        own = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * num_nodes + columns
        self._has_rises = bool(np.any(elastic.rise_stiffness))
        # Numbers row * V + column of all ordered pairs of members of each group: volumes of nodes, then segments.
        groups = [columns[a:b] for a, b in pairwise(starts)] if self._has_rises else []
        members = [segments.nodes[a:b] for a, b in pairwise(segments.starts)]
        rises, lags = (
            np.concatenate([np.zeros(0, np.int64), *((part[:, None] * num_nodes + part).ravel() for part in parts)])
            for parts in (groups, members)
        )
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


class FreeNodeMatrix:
    """The part of a pattern between free nodes, ready to be factored."""

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


LinearSolver = Callable[[FloatArray, bool], FloatArray]  # of one column or many, with a matrix or with its transpose


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


def make_bordered_solver(solve: LinearSolver, right: FloatArray, below: FloatArray, corner: FloatArray) -> LinearSolver:
    """Solver with a matrix that has a few more rows and columns than one that can be solved."""
    reach, back = solve(right, False), solve(np.ascontiguousarray(below.T), True)
    schur = np.linalg.inv(corner - below @ reach)

    def solve_bordered(b: FloatArray, transposed: bool) -> FloatArray:
        n = right.shape[0]
        inner = solve(b[:n], transposed)
        if transposed:
            outer = schur.T @ (b[n:] - right.T @ inner)
            return np.concatenate([inner - back @ outer, outer])
        outer = schur @ (b[n:] - below @ inner)
        return np.concatenate([inner - reach @ outer, outer])

    return solve_bordered


class JointForces:
    """Forces of joints on the coordinates, and minus their derivatives."""

    def __init__(self, size: int) -> None:
        self.values: FloatArray = np.zeros(size)
        self.stiffness: FloatArray = np.zeros(size)  # by the coordinates, of each its own
        self.drag: FloatArray = np.zeros(size)  # by the coordinates before the step


class HingeChain(NamedTuple):
    """Hinges, parents first, and the points that bones carry; a ball joint is three hinges."""

    bones: IntArray  # (H,) bone of each hinge
    axes: FloatArray  # (H, 3) at rest
    origins: FloatArray  # (H, 3) [m] at rest
    moves: FloatArray  # (B, H) one where a hinge moves a bone
    owners: IntArray  # (C,) bone of each point
    points: FloatArray  # (C, 3) [m] at rest


@kernel
def pose_chain(chain: HingeChain, angles: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Carried points ``(C, 3)``, their derivative ``(C, 3, H)`` and the axes of hinges ``(H, 3)``, in the world."""
    num, hinges, count = chain.moves.shape[0], len(chain.bones), len(chain.owners)
    rotations, shifts, one = np.zeros((num, 3, 3)), np.zeros((num, 3)), np.empty((3, 3))
    for k in range(num):
        for i in range(3):
            rotations[k, i, i] = 1.0
    axes, origins = np.empty((hinges, 3)), np.empty((hinges, 3))
    # Parents first: a hinge turns all bones that hang on it.
    for h in range(hinges):
        k = chain.bones[h]
        axes[h] = rotations[k] @ chain.axes[h]
        origins[h] = rotations[k] @ chain.origins[h] + shifts[k]
        # The rotation of the hinge about its axis at rest.
        axis, c, s = chain.axes[h], np.cos(angles[h]), np.sin(angles[h])
        for i in range(3):
            for j in range(3):
                one[i, j] = (1.0 - c) * axis[i] * axis[j] + (c if i == j else 0.0)
        one[0, 1] -= s * axis[2]
        one[0, 2] += s * axis[1]
        one[1, 0] += s * axis[2]
        one[1, 2] -= s * axis[0]
        one[2, 0] -= s * axis[1]
        one[2, 1] += s * axis[0]
        turned = rotations[k] @ one
        shift = origins[h] - turned @ chain.origins[h]
        for b in range(num):
            if chain.moves[b, h] > 0.0:
                rotations[b] = turned
                shifts[b] = shift
    # Carried points, and the cross products of axes and arms.
    points, J = np.empty((count, 3)), np.zeros((count, 3, hinges))
    for p in range(count):
        b = chain.owners[p]
        for i in range(3):
            points[p, i] = shifts[b, i]
            for j in range(3):
                points[p, i] += rotations[b, i, j] * chain.points[p, j]
        for h in range(hinges):
            if chain.moves[b, h] > 0.0:
                x, y, z = points[p, 0] - origins[h, 0], points[p, 1] - origins[h, 1], points[p, 2] - origins[h, 2]
                J[p, 0, h] = axes[h, 1] * z - axes[h, 2] * y
                J[p, 1, h] = axes[h, 2] * x - axes[h, 0] * z
                J[p, 2, h] = axes[h, 0] * y - axes[h, 1] * x
    return points, J, axes


class GeneralisedCoordinates:
    """Free nodes, then angles of hinges; carried points follow their bones, held ones stay."""

    DENSE = 700  # [unknowns] up to here dense factors were faster

    def __init__(self, pattern: StepPattern, carriers: IntArray, rest: FloatArray, bones: AttachedBones) -> None:
        # A ball joint turns about the axes of the world in turn: three hinges.
        owners: list[int] = []
        axes: list[FloatArray] = []
        ends: list[tuple[float, float]] = []
        given = bones.given.bones
        for k, bone in enumerate(given):
            if bone.kind == "free":
                raise InputError(f"bone '{bone.name}' is free", "Control knows hinges, ball joints and fixed bones")
            own = [np.asarray(bone.axis, dtype=np.float64)] if bone.kind == "hinge" else list(np.eye(3))
            own = [] if bone.kind == "fixed" else own
            limits = bone.limits if bone.kind == "hinge" and bone.limits is not None else (-np.inf, np.inf)
            owners, axes, ends = owners + [k] * len(own), axes + own, ends + [limits] * len(own)
        moves = np.zeros((len(given), len(owners)))
        for k, parent in enumerate(bones.parents):
            moves[k] = moves[parent] if parent >= 0 else 0.0
            moves[k, np.asarray(owners, dtype=np.int64) == k] = 1.0
        origins = np.array([given[k].origin for k in owners]).reshape(-1, 3)
        self._lower, self._upper = np.array(ends, dtype=np.float64).reshape(-1, 2).T  # (H,) [rad]
        self.free: IntArray = np.flatnonzero(carriers == FREE)
        self.carried: IntArray = np.flatnonzero(carriers >= 0)
        self.owners: IntArray = carriers[self.carried]
        self.num_angles = len(owners)
        self.size = 3 * self.free.size + self.num_angles
        self._shape = rest.shape
        self._stiffness, self._damping = bones.given.limit_stiffness, bones.given.joint_damping
        self._matrix = FreeNodeMatrix(pattern, self.free, len(rest))
        self._pairs = (pattern.rows, pattern.columns)
        # Place of each point among the free and among the carried ones; -1 where it is not there.
        self._free_places, self._carried_places = np.full((2, len(rest)), -1, dtype=np.int64)
        self._free_places[self.free] = np.arange(self.free.size)
        self._carried_places[self.carried] = np.arange(self.carried.size)
        self._chain = HingeChain(
            np.array(owners, dtype=np.int64),
            np.array(axes).reshape(-1, 3),
            origins,
            moves,
            self.owners,
            rest[self.carried],
        )
        self._last: tuple[bytes, FloatArray, FloatArray, FloatArray] | None = None

    def coordinates(self, x: FloatArray, angles: FloatArray) -> FloatArray:
        """Free nodes, then angles."""
        return np.concatenate([x[self.free].ravel(), angles])

    def positions(self, z: FloatArray, x: FloatArray) -> FloatArray:
        """All points; held ones as in ``x``."""
        found = x.copy()
        found[self.free] = z[: 3 * self.free.size].reshape(-1, 3)
        found[self.carried] = self._pose(z)[0]
        return found

    def ahead(self, z: FloatArray, x: FloatArray, v: FloatArray, dt: float) -> FloatArray:
        """Coordinates after a step in which free nodes go straight on, joints turn as fast as their points go."""
        straight = (x + dt * v)[self.free].ravel()
        if not self.num_angles:
            return straight
        J = self._pose(z)[1].reshape(-1, self.num_angles)
        rates = np.asarray(np.linalg.lstsq(J, v[self.carried].ravel(), rcond=None)[0], dtype=np.float64)
        return np.concatenate([straight, z[z.size - self.num_angles :] + dt * rates])

    def lift(self, z: FloatArray, d: FloatArray) -> FloatArray:
        """Changes of points ``(3V, ...)`` for changes of coordinates ``(size, ...)``."""
        first = 3 * self.free.size
        found = np.zeros((*self._shape, *d.shape[1:]))
        found[self.free] = d[:first].reshape(-1, 3, *d.shape[1:])
        if self.num_angles:
            found[self.carried] = np.tensordot(self._pose(z)[1], d[first:], axes=1)
        return found.reshape(-1, *d.shape[1:])

    def drop(self, z: FloatArray, f: FloatArray) -> FloatArray:
        """Forces on free nodes and torques of joints ``(size, ...)``: the transpose of :meth:`lift`."""
        each = f.reshape(*self._shape, *f.shape[1:])
        on_nodes = each[self.free].reshape(-1, *f.shape[1:])
        if not self.num_angles:
            return on_nodes
        torques = np.tensordot(self._pose(z)[1], each[self.carried], axes=([0, 1], [0, 1]))
        return np.concatenate([on_nodes, torques])

    def factor(
        self, z: FloatArray, values: FloatArray, forces: FloatArray, joints: JointForces, *, exact: bool
    ) -> LinearSolver:
        """Solver for free nodes and angles: the angles border the matrix of the free nodes.

        Without ``exact`` the curvature of the carried points times ``forces`` has no negative eigenvalue.
        """
        small = self._matrix.size <= self.DENSE
        inner = factorise(self._matrix.dense(values) if small else self._matrix.sparse(values))
        if not self.num_angles:
            return inner
        J, curve = self._pose(z)[1], self.curvature(z, forces[self.carried])
        right, below, corner = project_border_blocks(values, *self._pairs, self._free_places, self._carried_places, J)
        if not exact:
            bends, vectors = np.linalg.eigh(curve)
            curve = (vectors * np.maximum(bends, 0.0)) @ vectors.T
        corner += curve + np.diag(joints.stiffness[3 * self.free.size :])
        return make_bordered_solver(inner, right, below, corner)

    def curvature(self, z: FloatArray, forces: FloatArray) -> FloatArray:
        """Second derivative of the carried points by angles, times forces ``(C, 3)``: ``(H, H)``."""
        _, J, axes = self._pose(z)
        found = np.zeros((self.num_angles, self.num_angles))
        for j in range(self.num_angles):
            turned = np.cross(axes[None, : j + 1], J[:, None, :, j])  # hinges before j turn its columns
            above = self._chain.moves[self._chain.bones[j], : j + 1]
            found[: j + 1, j] = above * np.einsum("chi,ci->h", turned, forces)
        return found + np.triu(found, 1).T

    def joints(self, z: FloatArray, before: FloatArray, dt: float) -> JointForces:
        """Springs beyond the limits, dampers everywhere."""
        found = JointForces(self.size)
        first = 3 * self.free.size
        angles, rate = z[first:], self._damping / dt
        over, under = angles - self._upper, angles - self._lower
        beyond = np.maximum(over, 0.0) + np.minimum(under, 0.0)
        found.values[first:] = -self._stiffness * beyond - rate * (angles - before[first:])
        found.stiffness[first:] = self._stiffness * ((over > 0.0) | (under < 0.0)) + rate
        found.drag[first:] = -rate
        return found

    def _pose(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Carried points ``(C, 3)``, their derivative ``(C, 3, H)`` and axes of hinges ``(H, 3)``, now."""
        if not self.num_angles:
            return self._chain.points, np.zeros((len(self.carried), 3, 0)), self._chain.axes
        angles = np.ascontiguousarray(z[z.size - self.num_angles :])
        key = angles.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = (key, *pose_chain(self._chain, angles))
        return self._last[1:]
