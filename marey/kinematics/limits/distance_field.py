"""A distance field on a grid: built from samples, signed by a flood, read and projected on in constant time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen, frozen_bools, frozen_ints, kernel
from marey.kinematics.limits.distance_grid import GridTables, evaluate_points, project_points

SWEEPS = 2  # of a pass down and a pass up; more change nothing that a test can see


@kernel
def compute_unsigned_distance(grid: GridTables, samples: FloatArray) -> FloatArray:
    r"""Distance of every node to the nearest sample ``(N, 3)``, by looking at all: :math:`\min_i \|p^i - p\|`.

    ``samples`` is best in Fortran order, so that each coordinate is a run of memory. Axes with one node do not count;
    on periodic ones the nearer way round does.
    """
    shape, origin, spacing, periodic = grid
    out = np.empty(shape[0] * shape[1] * shape[2])
    xs, ys, zs = samples[:, 0], samples[:, 1], samples[:, 2]
    period = spacing * shape
    n = 0
    dx2, dxy2 = np.empty(samples.shape[0]), np.empty(samples.shape[0])
    # Squared distances along x, then along y, are shared by all nodes behind
    for i in range(shape[0]):
        _axis_distances_squared(dx2, xs, origin[0] + i * spacing[0], period[0], shape[0], periodic[0])
        for j in range(shape[1]):
            _axis_distances_squared(dxy2, ys, origin[1] + j * spacing[1], period[1], shape[1], periodic[1])
            for s in range(dxy2.size):
                dxy2[s] += dx2[s]
            for k in range(shape[2]):
                # The innermost loop: one for each kind of axis, without a branch inside
                z, best = origin[2] + k * spacing[2], np.inf
                if shape[2] == 1:
                    for s in range(zs.size):
                        best = min(best, dxy2[s])
                elif periodic[2]:
                    for s in range(zs.size):
                        d = zs[s] - z
                        d -= period[2] * np.floor(d / period[2] + 0.5)
                        best = min(best, dxy2[s] + d * d)
                else:
                    for s in range(zs.size):
                        d = zs[s] - z
                        best = min(best, dxy2[s] + d * d)
                out[n] = np.sqrt(best)
                n += 1
    return out


@kernel
def _axis_distances_squared(
    out: FloatArray, xs: FloatArray, x: float, period: float, count: int, periodic: bool
) -> None:
    for s in range(xs.size):
        d = 0.0 if count == 1 else xs[s] - x
        if periodic:
            d -= period * np.floor(d / period + 0.5)
        out[s] = d * d


@kernel
def flood_from_border(wall: BoolArray, shape: IntArray, periodic: BoolArray) -> BoolArray:
    """Nodes that can be reached from the border without stepping on the wall, over faces and across the seams."""
    reached, stack = np.zeros(wall.size, dtype=np.bool_), np.empty(wall.size, dtype=np.int64)
    count = 0
    # The border of axes that do not close
    for n in range(wall.size):
        at = (n // (shape[1] * shape[2]), n // shape[2] % shape[1], n % shape[2])
        is_border = False
        for a in range(3):
            is_border |= shape[a] > 1 and not periodic[a] and (at[a] == 0 or at[a] == shape[a] - 1)
        if is_border and not wall[n]:
            reached[n], stack[count], count = True, n, count + 1
    # Over faces, and across the seams of periodic axes
    while count:
        count -= 1
        n = stack[count]
        at = (n // (shape[1] * shape[2]), n // shape[2] % shape[1], n % shape[2])
        stride = (shape[1] * shape[2], shape[2], 1)
        for a in range(3):
            for step in (-1, 1):
                to = at[a] + step
                if to < 0 or to >= shape[a]:
                    if not periodic[a]:
                        continue
                    to %= shape[a]
                m = n + (to - at[a]) * stride[a]
                if not (reached[m] or wall[m]):
                    reached[m], stack[count], count = True, m, count + 1
    return reached


@kernel
def find_nearest_sources(is_source: BoolArray, weight: FloatArray, grid: GridTables) -> tuple[IntArray, FloatArray]:
    r"""For every node, the source ``b`` with the least :math:`\|p - b\| - w(b)`, and that number.

    Sources are their own. Each pass hands sources on from node to node, as vector distance transforms do.
    """
    shape, _, spacing, periodic = grid
    size = is_source.size
    source, best = np.full(size, -1, dtype=np.int64), np.full(size, np.inf)
    for n in range(size):
        if is_source[n]:
            source[n], best[n] = n, -np.inf
    at, to = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
    # A pass down and a pass up, each handing sources to the nodes after it
    for turn in range(2 * SWEEPS):
        sense = 1 if turn % 2 == 0 else -1
        for m in range(size):
            n = m if sense == 1 else size - 1 - m
            if is_source[n]:
                continue
            at[0], at[1], at[2] = n // (shape[1] * shape[2]), n // shape[2] % shape[1], n % shape[2]
            # Take over the source of a neighbour that this pass has visited, if it is nearer than the own one
            for k in range(13):
                to[0], to[1], to[2] = (
                    at[0] + sense * (k // 9 - 1),
                    at[1] + sense * (k // 3 % 3 - 1),
                    at[2] + sense * (k % 3 - 1),
                )
                is_inside = True
                for a in range(3):
                    if to[a] < 0 or to[a] >= shape[a]:
                        is_inside = is_inside and periodic[a]
                        to[a] %= shape[a]
                s = source[(to[0] * shape[1] + to[1]) * shape[2] + to[2]]
                if not is_inside or s < 0 or s == source[n]:
                    continue
                to[0], to[1], to[2] = s // (shape[1] * shape[2]), s // shape[2] % shape[1], s % shape[2]
                # The way to that source, the nearer way round on periodic axes
                square = 0.0
                for a in range(3):
                    steps = at[a] - to[a]
                    if periodic[a]:
                        steps -= shape[a] * int(np.floor(steps / shape[a] + 0.5))
                    square += (steps * spacing[a]) ** 2
                d = np.sqrt(square) - weight[s]
                if d < best[n]:
                    best[n], source[n] = d, s
    return source, best


MIN_NODES = 4  # an axis needs a cell outside on each side and one within
BORDER_CELLS = 3.0  # around the samples; a quarter of a coarse axis at most
FEASIBLE_CELLS = 0.05  # of the spacing: level up to which a signed field calls a point feasible
MAX_BRUTE_FORCE_SAMPLES = 600  # up to so many, looking at all samples is faster than a tree

Projection = Literal["newton", "plain"]
Mode = Literal["filled", "curve", "unsigned"]


@dataclass(frozen=True, slots=True, eq=False)
class FieldGrid:
    """A regular grid of nodes; an axis with one node does not count."""

    shape: IntArray  # (3,)
    origin: FloatArray  # (3,) first node
    spacing: FloatArray  # (3,)
    periodic: BoolArray  # (3,) whether the last node is next to the first

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", frozen_ints(self.shape, 3, name="shape"))
        object.__setattr__(self, "origin", frozen(self.origin, 3, name="origin"))
        object.__setattr__(self, "spacing", frozen(self.spacing, 3, name="spacing"))
        object.__setattr__(self, "periodic", frozen_bools(self.periodic, 3, name="periodic"))
        if np.any((self.shape != 1) & (self.shape < MIN_NODES)):
            raise InputError(f"a grid of {tuple(self.shape)} nodes", f"Give at least {MIN_NODES} to an axis")

    @property
    def is_axis(self) -> BoolArray:
        """Which of the three axes count."""
        return self.shape > 1

    @property
    def half_diagonal(self) -> float:
        """Half the diagonal of a cell: what trilinear blending can add to the distance at a sample."""
        return 0.5 * float(np.linalg.norm(self.spacing[self.is_axis]))

    @property
    def largest_spacing(self) -> float:
        """Spacing of the coarsest axis that counts."""
        return float(self.spacing[self.is_axis].max(initial=0.0))

    def nodes(self) -> FloatArray:
        """Coordinates ``(I J K, 3)`` of all nodes."""
        i, j, k = (int(n) for n in self.shape)
        return self.origin + self.spacing * np.indices((i, j, k)).reshape(3, -1).T

    def tables(self) -> tuple[IntArray, FloatArray, FloatArray, BoolArray]:
        """What the kernels take."""
        return self.shape, self.origin, self.spacing, self.periodic


@dataclass(frozen=True, slots=True, eq=False)
class DistanceField:
    """Distance to a feasible set, on a grid over joint angles. [Engell2012]_ §14."""

    grid: FieldGrid
    values: FloatArray  # (I, J, K) distance to the set, negative inside
    nearest: IntArray  # (I, J, K) the feasible node nearest to each, counted row by row
    epsilon: float  # level up to which points are feasible
    is_closed: bool  # whether the samples enclosed a void, which became feasible
    table: FloatArray  # (I J K, 4) value and gradient at each node, as the kernels read them; made from the values

    @property
    def nbytes(self) -> int:
        """Bytes of the field itself, without the nearest nodes."""
        return self.values.nbytes

    def value(self, points: ArrayLike) -> FloatArray:
        """Field ``(N,)`` at points ``(N, 3)``, by trilinear blending."""
        return self.value_and_gradient(points)[0]

    def value_and_gradient(self, points: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Field ``(N,)`` and the exact gradient ``(N, 3)`` of the blended field."""
        rows = evaluate_points(self.table, self.grid.tables(), frozen(points, None, 3, name="points"))
        return rows[:, 0], rows[:, 1:]

    def is_feasible(self, points: ArrayLike) -> BoolArray:
        """Whether points ``(N, 3)`` are in the set: the field is at most epsilon (eq. 67)."""
        return self.value(points) <= self.epsilon

    def project(
        self, points: ArrayLike, *, method: Projection = "newton", steps: int = 2, fallback: bool = True
    ) -> FloatArray:
        r"""Bring points ``(N, 3)`` into the set: :math:`p \leftarrow p - \Phi(p)\nabla\Phi(p)`, at most twice (eq. 69).

        Args:
            points: where to start; points off the grid start at its border.
            method: ``"plain"`` is the source; ``"newton"`` divides by the squared gradient.
            steps: at most so many.
            fallback: search the way to the nearest feasible node where the steps did not do, some 3 % of points.
        """
        tables = (self.table, self.nearest.ravel(), self.grid.tables())
        how = (int(steps), method == "newton", bool(fallback))
        return project_points(*tables, frozen(points, None, 3, name="points"), self.epsilon, how)

    def feasible_share(self) -> float:
        """Part of the nodes that are feasible."""
        return float(np.mean(self.values <= self.epsilon))


def make_grid(
    samples: FloatArray,
    resolution: int | tuple[int, int, int],
    *,
    margin: float = 0.0,
    periodic: tuple[bool, bool, bool] = (False, False, False),
    domain: ArrayLike | None = None,
) -> FieldGrid:
    """Grid around samples ``(N, 3)``: their box, the margin, and cells at the border; periodic axes span a turn.

    Args:
        samples: coordinates of the samples.
        resolution: nodes of each axis; one leaves the axis out.
        margin: distance around the samples that will be feasible.
        periodic: axes that close after a turn.
        domain: ``(2, 3)`` first and last node instead; at most a turn wide.
    """
    shape = np.broadcast_to(np.asarray(resolution, dtype=np.int64), 3)
    if np.any((shape != 1) & (shape < MIN_NODES)):
        raise InputError(f"a resolution of {tuple(int(n) for n in shape)}", f"Give at least {MIN_NODES} nodes an axis")
    if domain is not None:
        low, high = frozen(domain, 2, 3, name="domain")
        if np.any(high - low > 2.0 * np.pi + 1e-9) or np.any(high <= low):
            raise InputError(f"a domain from {low} to {high}", "It must be wider than nothing and at most a turn")
        return FieldGrid(shape, low, (high - low) / np.maximum(shape - 1, 1), np.array(periodic))
    # Cells at the border, at most a quarter of a coarse axis
    border = np.minimum(BORDER_CELLS, (shape - 1) / 4.0)
    low, high = samples.min(axis=0) - margin, samples.max(axis=0) + margin
    spacing = np.maximum(high - low, 1e-3) / np.maximum(shape - 1 - 2.0 * border, 1.0)
    spacing = np.maximum(spacing, spacing[shape > 1].max(initial=0.0) / 8.0)  # flat cells make poor gradients
    origin = 0.5 * (low + high) - 0.5 * (shape - 1) * spacing
    # Periodic axes span a turn, from zero
    turn = np.array(periodic) & (shape > 1)
    spacing = np.where(turn, 2.0 * np.pi / shape, spacing)
    return FieldGrid(shape, np.where(turn, 0.0, origin), np.where(shape > 1, spacing, 1.0), turn)


def compute_unsigned_field(grid: FieldGrid, samples: FloatArray) -> FloatArray:
    r"""Distance ``(I, J, K)`` of every node to the nearest sample, :math:`\min_i\|p^i - p\|` (eq. 64)."""
    if len(samples) <= MAX_BRUTE_FORCE_SAMPLES:
        return compute_unsigned_distance(grid.tables(), np.asfortranarray(samples)).reshape(grid.shape)
    used = grid.is_axis
    if not used.any():
        return np.zeros(grid.shape)  # a joint that does not move: every sample is at the only node
    # Samples and, on periodic axes, their copies a turn before and after
    for axis in np.flatnonzero(grid.periodic):
        shift = np.zeros(3)
        shift[axis] = grid.spacing[axis] * grid.shape[axis]
        samples = np.concatenate([samples, samples - shift, samples + shift])
    return find_nearest_points(samples[:, used], grid.nodes()[:, used])[0].reshape(grid.shape)


def build_field(
    grid: FieldGrid, samples: ArrayLike, *, margin: float = 0.0, mode: Mode = "filled", epsilon: float | None = None
) -> DistanceField:
    r"""Field of a set of samples ``(N, 3)``. [Engell2012]_ §14.1-14.3.

    The source keeps the unsigned distance and calls points within 0.2 rad feasible; blending makes such a field forget
    its own samples on a coarse grid (``mode="unsigned"``). We take the tube of radius
    :math:`r = \max(\text{margin}, \frac12\text{cell diagonal})`, whose surface the grid can hold, find what it encloses
    by a flood from the border, and store the signed distance to both together. The source's flood has no wall to stop
    at; ours stops at the tube.

    Args:
        grid: where to store it.
        samples: points that are feasible.
        margin: radius around them that is feasible too.
        mode: ``"filled"`` makes enclosed voids feasible, ``"curve"`` does not, ``"unsigned"`` is the source's field.
        epsilon: level up to which points are feasible; 0.05 of the spacing for signed fields.
    """
    points = frozen(samples, None, 3, name="samples")
    if len(points) < 2:
        raise InputError(f"a field from {len(points)} samples", "Give at least two")
    # eq. 64: the distance to the samples; the tube around them is the wall of the flood
    unsigned = compute_unsigned_field(grid, points)
    radius = max(margin, grid.half_diagonal)
    if mode == "unsigned":
        level = radius if epsilon is None else epsilon
        return complete_field(grid, unsigned, level, is_closed=False)
    level = FEASIBLE_CELLS * grid.largest_spacing if epsilon is None else epsilon
    wall = unsigned <= radius
    inside = np.zeros_like(wall)
    if mode == "filled":
        inside = ~wall & ~flood_from_border(wall.ravel(), grid.shape, grid.periodic).reshape(wall.shape)
    # The distance to tube and voids together, negative inside
    values = compute_signed_distance(grid, unsigned - radius, wall | inside)
    return complete_field(grid, values, level, is_closed=bool(inside.any()))


def field_from_function(
    grid: FieldGrid, distance: Callable[[FloatArray], FloatArray], *, epsilon: float | None = None
) -> DistanceField:
    """Field of a signed distance that is known at any points ``(N, 3)``: a closed form, a mesh."""
    values = frozen(distance(grid.nodes()), int(np.prod(grid.shape)), name="distance").reshape(grid.shape)
    level = FEASIBLE_CELLS * grid.largest_spacing if epsilon is None else epsilon
    return complete_field(grid, values, level, is_closed=False)


def compute_signed_distance(grid: FieldGrid, outside: FloatArray, feasible: BoolArray) -> FloatArray:
    r"""Signed distance from that outside, exact there, and the set of feasible nodes.

    A node ``p`` inside lies :math:`\min_b(\|p-b\| - \Phi(b))` deep, ``b`` over the nodes outside: any way to ``b``
    crosses the surface, and the part beyond it is at least :math:`\Phi(b)` long.
    """
    flat = outside.ravel()
    _, depth = find_nearest_sources(~feasible.ravel(), np.maximum(flat, 0.0), grid.tables())
    depth = np.where(np.isfinite(depth), depth, 0.0).reshape(grid.shape)
    return np.where(feasible, np.minimum(-depth, np.minimum(outside, 0.0)), outside)


def complete_field(grid: FieldGrid, values: FloatArray, epsilon: float, *, is_closed: bool) -> DistanceField:
    """Field from its values ``(I, J, K)``: finds the gradients and the nearest feasible nodes."""
    feasible = values <= epsilon
    if not feasible.any():
        feasible = values <= values.min()  # a grid too coarse to hold the set still has a best node
    nearest, _ = find_nearest_sources(feasible.ravel(), np.zeros(feasible.size), grid.tables())
    values = frozen(values, name="values")
    # Value and gradient at the nodes: central differences, one-sided at a border (eq. 68)
    table = np.zeros((values.size, 4))
    table[:, 0] = values.ravel()
    for axis in np.flatnonzero(grid.is_axis):
        step = float(grid.spacing[axis])
        if grid.periodic[axis]:
            slope = (np.roll(values, -1, axis) - np.roll(values, 1, axis)) / (2.0 * step)
        else:
            slope = np.gradient(values, step, axis=int(axis))
        table[:, 1 + axis] = slope.ravel()
    table.setflags(write=False)
    return DistanceField(grid, values, nearest.reshape(values.shape), epsilon, is_closed, table)


def find_nearest_points(points: FloatArray, queries: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distance ``(N,)`` of queries to the nearest of many points, and which one that is."""
    from scipy import spatial

    tree: Any = cast(Any, spatial).cKDTree(points)
    distances, indices = tree.query(queries)
    return np.asarray(distances, dtype=np.float64), np.asarray(indices, dtype=np.int64)
