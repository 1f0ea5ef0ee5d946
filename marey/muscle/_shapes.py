"""Shapes as distance functions: rods, boxes and ellipsoids, joined smoothly, from which bodies are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

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
            _check_rod(self)
        elif min(self.size) <= 0.0:
            raise InputError(f"a {self.kind} of size {self.size}", "Give three positive widths")

    def distance(self, points: FloatArray) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``."""
        if self.kind == "rod":
            return _rod_distance(points, np.array(self.points), np.broadcast_to(self.radii, len(self.points)))
        if self.kind == "box":
            return _box_distance(points - self.centre, 0.5 * np.array(self.size), self.round_m)
        return _ellipsoid_distance(points - self.centre, 0.5 * np.array(self.size))

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
            raise InputError("a shape without solids", "Add at least one that is no cut")

    def distance(self, points: ArrayLike) -> FloatArray:
        """Signed distance ``(N,)`` [m] of points ``(N, 3)``: negative inside."""
        p = np.asarray(points, dtype=np.float64)
        bodies: dict[str, FloatArray] = {}
        for solid in self.solids:
            here = solid.distance(p)
            for name in bodies if solid.cut else (solid.body,):
                before = bodies.get(name, np.full(len(p), np.inf))
                bodies[name] = np.maximum(before, -here) if solid.cut else _smooth_union(before, here, solid.blend_m)
        return np.minimum.reduce(list(bodies.values()))

    def bounds(self) -> FloatArray:
        """Corners ``(2, 3)`` [m] of an upright box that holds the shape."""
        boxes = np.stack([solid.bounds() for solid in self.solids if not solid.cut])
        swell = 0.25 * max(solid.blend_m for solid in self.solids)  # a smooth joint bulges by at most so much
        return np.stack([boxes[:, 0].min(axis=0) - swell, boxes[:, 1].max(axis=0) + swell])


def _check_rod(solid: Solid) -> None:
    if len(solid.points) < 1 or len(solid.radii) not in (1, len(solid.points)):
        raise InputError(
            f"a rod through {len(solid.points)} points with {len(solid.radii)} radii", "Give one radius, or one a point"
        )
    if min(solid.radii) <= 0.0:
        raise InputError(f"a rod of radius {min(solid.radii)}", "Radii are positive")


def _rod_distance(p: FloatArray, points: FloatArray, radii: FloatArray) -> FloatArray:
    if len(points) == 1:
        return np.linalg.norm(p - points[0], axis=1) - radii[0]
    best = np.full(len(p), np.inf)
    for a, b, ra, rb in zip(points[:-1], points[1:], radii[:-1], radii[1:], strict=True):
        axis = b - a
        h = np.clip((p - a) @ axis / max(float(axis @ axis), 1e-300), 0.0, 1.0)
        best = np.minimum(best, np.linalg.norm(p - a - h[:, None] * axis, axis=1) - (ra + h * (rb - ra)))
    return best


def _box_distance(p: FloatArray, half: FloatArray, rounding: float) -> FloatArray:
    q = np.abs(p) - (half - rounding)
    outside = np.linalg.norm(np.maximum(q, 0.0), axis=1)
    return outside + np.minimum(q.max(axis=1), 0.0) - rounding


def _ellipsoid_distance(p: FloatArray, half: FloatArray) -> FloatArray:
    """First-order distance :math:`k_0 (k_0 - 1) / k_1` with :math:`k_0 = |p / h|`, :math:`k_1 = |p / h^2|`."""
    k0, k1 = np.linalg.norm(p / half, axis=1), np.linalg.norm(p / half**2, axis=1)
    return np.where(k1 > 1e-12, k0 * (k0 - 1.0) / np.maximum(k1, 1e-12), -float(half.min()))


def _smooth_union(a: FloatArray, b: FloatArray, width: float) -> FloatArray:
    """Smaller of two distances; nearer to each other than ``width`` they melt by a quadratic fillet."""
    if width <= 0.0 or not np.isfinite(a).all():
        return np.minimum(a, b)
    h = np.maximum(width - np.abs(a - b), 0.0) / width
    return np.minimum(a, b) - 0.25 * width * h * h


def voxelise(shape: Shape, spacing_m: float, *, flat: bool = False) -> tuple[BoolArray, FloatArray]:
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
    _check_grid_size(counts[0] * counts[1] * counts[2], spacing_m)
    origin = 0.5 * (low + high) - 0.5 * spacing_m * np.array(counts)
    origin[2] = -0.5 * spacing_m if flat else origin[2]
    cells = np.argwhere(np.ones(counts, dtype=np.bool_))
    centres: FloatArray = origin + spacing_m * (cells + 0.5)
    mask = (shape.distance(centres) < 0.0).reshape(counts)
    if not mask.any():
        raise InputError(f"no cell of {spacing_m} m fits into the shape", "Take a smaller spacing_m")
    origin[2] = 0.0 if flat else origin[2]
    return (mask[..., 0] if flat else mask), origin


def _check_grid_size(count: int, spacing_m: float) -> None:
    if count > 4_000_000:
        raise InputError(f"a grid of {count} cells of {spacing_m} m", "Take a larger spacing_m")
