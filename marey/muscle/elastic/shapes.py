"""Shapes as distance functions, and the tetrahedra that are cut from them.

Rods, boxes and ellipsoids are joined smoothly. A body-centred lattice is snapped to the surface and clipped at it, as
in isosurface stuffing ([Labelle2007]_); the clipped pieces are split by vertex number instead of by its stencils,
which needs no parity rule and lets neighbours always agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import BoolArray, FloatArray, InputError

Triple = tuple[float, float, float]

SOLID_KINDS: Final = ("rod", "box", "ellipsoid")


@dataclass(frozen=True, slots=True)
class Solid:
    """One piece of a shape: below zero inside, the distance [m] to its surface outside (nearly so for ellipsoids).

    A rod is a chain of tapered capsules through ``points`` with one radius for each, a box has rounded edges, an
    ellipsoid has half axes ``size / 2``.
    """

    kind: str  # one of SOLID_KINDS
    points: tuple[Triple, ...] = ()  # rod: (n, 3) [m]
    radii: tuple[float, ...] = ()  # rod: (n,) [m], or one for all
    centre: Triple = (0.0, 0.0, 0.0)  # box, ellipsoid [m]
    size: Triple = (0.0, 0.0, 0.0)  # box, ellipsoid: full widths [m]
    round_m: float = 0.0  # box: radius of its edges
    blend_m: float = 0.0  # width over which it melts into what was there before
    cut: bool = False  # takes away instead of adding
    body: str = ""  # solids of one name melt together; other bodies only touch

    def __post_init__(self) -> None:
        if self.kind not in SOLID_KINDS:
            raise InputError(f"a solid of kind '{self.kind}'", f"It is one of {', '.join(SOLID_KINDS)}")
        if self.kind == "rod":
            if len(self.points) < 1 or len(self.radii) not in (1, len(self.points)):
                raise InputError(
                    f"a rod through {len(self.points)} points with {len(self.radii)} radii",
                    "Give one radius, or one a point",
                )
            if min(self.radii) <= 0.0:
                raise InputError(f"a rod of radius {min(self.radii)}", "Radii are positive")
        elif min(self.size) <= 0.0:
            raise InputError(f"a {self.kind} of size {self.size}", "Give three positive widths")

    def distance(self, points: FloatArray) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``."""
        if self.kind == "rod":
            # The nearest of the capsules between two corners; radii are linear along each.
            corners = np.array(self.points)
            radii = np.broadcast_to(self.radii, len(self.points))
            if len(corners) == 1:
                return np.linalg.norm(points - corners[0], axis=1) - radii[0]
            best = np.full(len(points), np.inf)
            for a, b, ra, rb in zip(corners[:-1], corners[1:], radii[:-1], radii[1:], strict=True):
                axis = b - a
                h = np.clip((points - a) @ axis / max(float(axis @ axis), 1e-300), 0.0, 1.0)
                best = np.minimum(best, np.linalg.norm(points - a - h[:, None] * axis, axis=1) - (ra + h * (rb - ra)))
            return best
        if self.kind == "box":
            q = np.abs(points - self.centre) - (0.5 * np.array(self.size) - self.round_m)
            outside = np.linalg.norm(np.maximum(q, 0.0), axis=1)
            return outside + np.minimum(q.max(axis=1), 0.0) - self.round_m
        # First-order distance k0 (k0 - 1) / k1 of an ellipsoid, with k0 = |p / h|, k1 = |p / h^2|.
        p = points - self.centre
        half = 0.5 * np.array(self.size)
        k0, k1 = np.linalg.norm(p / half, axis=1), np.linalg.norm(p / half**2, axis=1)
        return np.where(k1 > 1e-12, k0 * (k0 - 1.0) / np.maximum(k1, 1e-12), -float(half.min()))

    def bounds(self) -> FloatArray:
        """Corners ``(2, 3)`` [m] of an upright box that holds the solid."""
        if self.kind != "rod":
            half = 0.5 * np.array(self.size)
            return np.stack([self.centre - half, self.centre + half])
        points, radii = np.array(self.points), np.broadcast_to(self.radii, len(self.points))[:, None]
        return np.stack([(points - radii).min(axis=0), (points + radii).max(axis=0)])


@dataclass(frozen=True, slots=True)
class Shape:
    """Solids in order: each joins the ones of its body before it, or is cut out of all of them."""

    solids: tuple[Solid, ...]

    def __post_init__(self) -> None:
        if not any(not solid.cut for solid in self.solids):
            raise InputError("a shape without solids", "Add at least one that is not a cut")

    def distance(self, points: ArrayLike) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``: negative inside."""
        p = np.asarray(points, dtype=np.float64)
        bodies: dict[str, FloatArray] = {}
        for solid in self.solids:
            here = solid.distance(p)
            for name in bodies if solid.cut else (solid.body,):
                before = bodies.get(name, np.full(len(p), np.inf))
                if solid.cut:
                    bodies[name] = np.maximum(before, -here)
                else:
                    # Smaller of two distances; nearer to each other than width they melt by a quadratic fillet
                    width = solid.blend_m
                    if width <= 0.0 or not np.isfinite(before).all():
                        bodies[name] = np.minimum(before, here)
                    else:
                        h = np.maximum(width - np.abs(before - here), 0.0) / width
                        bodies[name] = np.minimum(before, here) - 0.25 * width * h * h
        return np.minimum.reduce(list(bodies.values()))

    def bounds(self) -> FloatArray:
        """Corners ``(2, 3)`` [m] of an upright box that holds the shape."""
        boxes = np.stack([solid.bounds() for solid in self.solids if not solid.cut])
        swell = 0.25 * max(solid.blend_m for solid in self.solids)  # a smooth joint bulges by at most so much
        return np.stack([boxes[:, 0].min(axis=0) - swell, boxes[:, 1].max(axis=0) + swell])


class FillableShape(Protocol):
    """What can be filled with cells: a distance, and a box that holds all of it."""

    def distance(self, points: FloatArray, /) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``: negative inside."""
        ...

    def bounds(self) -> FloatArray:
        """Corners ``(2, 3)`` [m] of an upright box that holds it."""
        ...


def voxelise(shape: FillableShape, spacing_m: float, *, flat: bool = False) -> tuple[BoolArray, FloatArray]:
    """Cells of a grid whose centres lie inside a shape, and the lowest corner of the grid ``(3,)`` [m].

    Args:
        shape: what to fill.
        spacing_m: side of a cell.
        flat: one layer of squares in the plane z = 0 instead of cubes.

    Returns:
        Mask ``(nx, ny, nz)``, or ``(nx, ny)`` if flat, and the origin.
    """
    low, high = shape.bounds()
    nx, ny, nz = (max(round(float(width) / spacing_m), 1) for width in high - low)
    counts = (nx, ny, 1 if flat else nz)
    count = counts[0] * counts[1] * counts[2]
    if count > 4_000_000:
        raise InputError(f"a grid of {count} cells of {spacing_m} m", "Take a larger spacing_m")
    origin = 0.5 * (low + high) - 0.5 * spacing_m * np.array(counts)
    origin[2] = -0.5 * spacing_m if flat else origin[2]
    cells = np.argwhere(np.ones(counts, dtype=np.bool_))
    centres: FloatArray = origin + spacing_m * (cells + 0.5)
    mask = (shape.distance(centres) < 0.0).reshape(counts)
    if not mask.any():
        raise InputError(f"no cell of {spacing_m} m fits into the shape", "Take a smaller spacing_m")
    origin[2] = 0.0 if flat else origin[2]
    return (mask[..., 0] if flat else mask), origin


CellIndices = NDArray[np.int32]

SNAP_LONG: Final = 0.24999  # [-] cut points nearer to a vertex than this share of a long edge take it along
SNAP_SHORT: Final = 0.41189  # [-] the same for short edges
LONG_EDGE_FRACTION: Final = 0.93  # [-] of the longest edge; short ones have 0.87 of it
MIN_VOLUME_FRACTION: Final = 1e-4  # [-] of the median volume; smaller cells are dropped
MAX_CELLS: Final = 2_000_000
# Corners of a prism, first triangle then second, turned so that any corner comes first.
PRISM_ROTATIONS: Final = np.array(
    [
        [0, 1, 2, 3, 4, 5],
        [1, 2, 0, 4, 5, 3],
        [2, 0, 1, 5, 3, 4],
        [3, 5, 4, 0, 2, 1],
        [4, 3, 5, 1, 0, 2],
        [5, 4, 3, 2, 1, 0],
    ]
)


def tetrahedralise_shape(
    shape: FillableShape, spacing_m: float, swell_m: float = 0.0
) -> tuple[FloatArray, CellIndices]:
    """Nodes ``(V, 3)`` [m] and cells ``(T, 4)`` of a shape; the boundary lies on its surface.

    Args:
        shape: what to fill.
        spacing_m: side of the cubes of the lattice; tetrahedra have a twelfth of their volume.
        swell_m: distance of the boundary outside the surface.
    """
    # Cube corners and cube centres; a cell joins two centres over a face with one edge of that face
    low, high = shape.bounds() + swell_m * np.array([[-1.0], [1.0]])
    nx, ny, nz = (math.ceil(float(width) / spacing_m) + 2 for width in high - low)
    if 12 * nx * ny * nz > MAX_CELLS:
        raise InputError(f"a lattice of {12 * nx * ny * nz} tetrahedra", "Take a larger spacing_m")
    origin = 0.5 * (low + high) - 0.5 * spacing_m * np.array([nx, ny, nz])
    corners, centres = (
        np.argwhere(np.ones((nx + k, ny + k, nz + k), dtype=np.bool_)).astype(np.float64) for k in (1, 0)
    )
    nodes = np.concatenate([corners, centres + 0.5]) * spacing_m + origin
    corner = np.arange(len(corners)).reshape(nx + 1, ny + 1, nz + 1)
    centre = np.arange(len(centres)).reshape(nx, ny, nz) + len(corners)
    # Four cells around the line of each two centres that are neighbours along an axis.
    boxes: list[NDArray[np.int64]] = []
    for axis in range(3):
        outer, inner = np.moveaxis(corner, axis, 0), np.moveaxis(centre, axis, 0)
        a, b = inner[:-1], inner[1:]
        ring = [outer[1:-1, i : i + a.shape[1], j : j + a.shape[2]] for i, j in ((0, 0), (0, 1), (1, 1), (1, 0))]
        boxes += [np.stack([a, b, ring[k], ring[(k + 1) % 4]], axis=-1).reshape(-1, 4) for k in range(4)]
    cells = np.concatenate(boxes).astype(np.int32)
    levels = shape.distance(nodes) - swell_m
    kept = (levels[cells] < 0.0).any(axis=1)
    cells = cells[kept]
    # Move vertices to the nearest of the cut points that lie too near to them, so that no sliver is born.
    pairs = np.concatenate([cells[:, [i, j]] for i in range(4) for j in range(i + 1, 4)])
    edges = np.unique(np.sort(pairs, axis=1), axis=0)
    edges = edges[levels[edges[:, 0]] * levels[edges[:, 1]] < 0.0]
    ends = np.concatenate([edges, edges[:, ::-1]])
    vertex, other = ends.T
    steps = nodes[other] - nodes[vertex]
    lengths = np.linalg.norm(steps, axis=1)
    share = levels[vertex] / (levels[vertex] - levels[other])
    limit = np.where(lengths > LONG_EDGE_FRACTION * lengths.max(initial=0.0), SNAP_LONG, SNAP_SHORT)
    near = np.flatnonzero(share < limit)
    nearest = near[np.lexsort((share[near] * lengths[near], vertex[near]))]
    chosen = nearest[np.unique(vertex[nearest], return_index=True)[1]]
    nodes, levels = nodes.copy(), levels.copy()
    nodes[vertex[chosen]] += share[chosen, None] * steps[chosen]
    levels[vertex[chosen]] = 0.0
    # Keep what lies below level zero; cut cells are split into tetrahedra.
    sides = np.sign(levels[cells]).astype(np.int64)
    order = np.argsort(sides, axis=1, kind="stable")  # inside first, then on the surface, then outside
    cells, sides = np.take_along_axis(cells, order, axis=1), np.take_along_axis(sides, order, axis=1)
    num_in, num_out = (sides < 0).sum(axis=1), (sides > 0).sum(axis=1)
    cutter = _EdgeCutter(nodes, levels)
    parts: list[NDArray[np.int64]] = [cells[(num_out == 0) & (num_in > 0)].astype(np.int64)]
    for count_in, count_out in ((1, 3), (1, 2), (1, 1), (2, 2), (2, 1), (3, 1)):
        here = cells[(num_in == count_in) & (num_out == count_out)]
        parts.append(cutter.pieces(here, count_in, count_out))
    nodes = np.concatenate([nodes, np.reshape(cutter.points, (-1, 3))])
    cells = np.concatenate(parts).astype(np.int32)
    if not len(cells):
        raise InputError(f"no cell of {spacing_m} m fits into the shape", "Take a smaller spacing_m")
    # Every cell gets a positive volume; what has none is dropped.
    p = nodes[cells]
    volumes = np.einsum("ti,ti->t", np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), p[:, 3] - p[:, 0]) / 6.0
    cells = np.where((volumes < 0.0)[:, None], cells[:, [0, 2, 1, 3]], cells)
    cells = cells[np.abs(volumes) > MIN_VOLUME_FRACTION * np.median(np.abs(volumes))].astype(np.int32)
    # Nodes that are used, renumbered along the longest axis so that neighbours stand near in memory.
    used = np.unique(cells)
    axis = int(np.argmax(np.ptp(nodes[used], axis=0)))
    used = used[np.argsort(nodes[used, axis], kind="stable")]
    number = np.full(len(nodes), -1, dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    cells = number[cells]
    return nodes[used], cells[np.argsort(cells.min(axis=1), kind="stable")]


class _EdgeCutter:
    """Makes one node for every cut edge, however many cells share it."""

    def __init__(self, nodes: FloatArray, levels: FloatArray) -> None:
        self._nodes, self._levels = nodes, levels
        self._made: dict[tuple[int, int], int] = {}
        self.points: list[FloatArray] = []

    def pieces(self, cells: CellIndices, num_in: int, num_out: int) -> NDArray[np.int64]:
        """Tetrahedra of the part of each cell that lies inside; corners come sorted from inside to outside."""
        inner, level, outer = np.split(cells.astype(np.int64), [num_in, 4 - num_out], axis=1)
        cuts = np.empty((len(cells), num_in, num_out), dtype=np.int64)
        for a in range(num_in):
            for b in range(num_out):
                for row, (i, o) in enumerate(zip(inner[:, a].tolist(), outer[:, b].tolist(), strict=True)):
                    # Where the level is zero between an inner and an outer corner, made once for each edge
                    if (i, o) not in self._made:
                        share = self._levels[i] / (self._levels[i] - self._levels[o])
                        self._made[i, o] = len(self._nodes) + len(self.points)
                        self.points.append(self._nodes[i] + share * (self._nodes[o] - self._nodes[i]))
                    cuts[row, a, b] = self._made[i, o]
        if num_in == 1:
            return np.concatenate([inner, level, cuts[:, 0]], axis=1)
        if num_in == 2 and num_out == 1:
            base = np.stack([inner[:, 0], inner[:, 1], cuts[:, 1, 0], cuts[:, 0, 0]], axis=1)
            # A pyramid makes two tetrahedra; the diagonal of its base starts at its smallest vertex.
            top = level[:, 0]
            a, b, c, d = base.T
            first = np.minimum(a, c) < np.minimum(b, d)
            one = np.where(first[:, None], np.stack([a, b, c, top], axis=1), np.stack([b, c, d, top], axis=1))
            two = np.where(first[:, None], np.stack([a, c, d, top], axis=1), np.stack([b, d, a, top], axis=1))
            return np.concatenate([one, two])
        if num_in == 2:
            return _split_prisms(np.concatenate([inner[:, :1], cuts[:, 0], inner[:, 1:], cuts[:, 1]], axis=1))
        return _split_prisms(np.concatenate([inner, cuts[:, :, 0]], axis=1))


def _split_prisms(prisms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Three tetrahedra each; every diagonal starts at the smallest vertex of its side ([Dompierre1999]_)."""
    turned = np.take_along_axis(prisms, PRISM_ROTATIONS[np.argmin(prisms, axis=1)], axis=1)
    first = np.minimum(turned[:, 1], turned[:, 5]) < np.minimum(turned[:, 2], turned[:, 4])
    with_15 = [turned[:, [0, 1, 2, 5]], turned[:, [0, 1, 5, 4]]]
    with_24 = [turned[:, [0, 1, 2, 4]], turned[:, [0, 4, 2, 5]]]
    parts = [np.where(first[:, None], x, y) for x, y in zip(with_15, with_24, strict=True)]
    return np.concatenate([*parts, turned[:, [0, 4, 5, 3]]])
