"""A sketch as a grid: cells where the root may be, where feet may stand, and geodesic distances to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph.arrays import EMPTY
from marey.graph.database.settings import AS_CAPTURED, SearchSettings
from marey.world import Sketch, box_distance, segment_distance

GRID_NEIGHBOURS = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
GRID_LEAPS = ((1, 2), (1, 3), (2, 3), (1, 4))
GRID_SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
GRID_STEPS = np.array(
    [*GRID_NEIGHBOURS, *((p * i, q * j) for a, b in GRID_LEAPS for i, j in ((a, b), (b, a)) for p, q in GRID_SIGNS)]
)
"""Moves to forty neighbours; ways along them are at most 1 / cos(atan(1/4) / 2) = 1.0076 times as long."""


@kernel
def grid_distances(free: BoolArray, start: FloatArray, steps: IntArray) -> FloatArray:
    """Length ``(H, W)`` in cells of the shortest way over the neighbours to where ``start`` is finite, plus that.

    Ways lead from free cell to free cell; longer moves may pass a corner, so that no way is overestimated. Infinite
    where there is no way. Cells wait in buckets one cell wide: no move is shorter, so that what is in the first bucket
    is settled in any order.
    """
    height, width = free.shape
    distance, lengths = np.full(height * width, np.inf), np.sqrt((steps * steps).sum(axis=1).astype(np.float64))
    farthest = 0.0
    for row in range(height):
        for column in range(width):
            if free[row, column] and np.isfinite(start[row, column]):
                distance[row * width + column] = start[row, column]
                farthest = max(farthest, start[row, column])
    # Each bucket is a doubly linked list of cells; a way has no more moves than there are cells
    buckets = np.full(int(farthest + lengths.max() * (height * width + 1)) + 1, EMPTY, dtype=np.int64)
    after, before = np.empty(height * width, dtype=np.int64), np.empty(height * width, dtype=np.int64)
    for cell in range(height * width):
        if distance[cell] < np.inf:
            link_first(buckets, after, before, int(distance[cell]), cell)
    at, last = 0, int(farthest)
    while at <= last:
        cell = buckets[at]
        if cell == EMPTY:
            at += 1
            continue
        buckets[at] = after[cell]
        if after[cell] != EMPTY:
            before[after[cell]] = EMPTY
        row, column = cell // width, cell % width
        for k in range(len(steps)):
            r, c = row + steps[k, 0], column + steps[k, 1]
            if r < 0 or c < 0 or r >= height or c >= width or not free[r, c]:
                continue
            there, other = distance[cell] + lengths[k], r * width + c
            if there < distance[other]:
                if distance[other] < np.inf:
                    # Out of its bucket, to a nearer one
                    if before[other] == EMPTY:
                        buckets[int(distance[other])] = after[other]
                    else:
                        after[before[other]] = after[other]
                    if after[other] != EMPTY:
                        before[after[other]] = before[other]
                distance[other] = there
                link_first(buckets, after, before, int(there), other)
                last = max(last, int(there))
    return distance.reshape(height, width)


@kernel
def link_first(buckets: IntArray, after: IntArray, before: IntArray, bucket: int, cell: int) -> None:
    """Put a cell at the head of a bucket."""
    head = buckets[bucket]
    after[cell], before[cell] = head, EMPTY
    if head != EMPTY:
        before[head] = cell
    buckets[bucket] = cell


GRID_CELL_M: Final = 0.05
MARGIN_M: Final = 1.5  # [m] of ground round everything in the sketch
DILATION_CELLS: Final = 2  # cells round free ones for which distances are known: the four cells round a free place are
GRID_UNDERESTIMATE: Final = 0.9923  # [-] ways over forty neighbours are up to 1 / this times as long as straight ones


def _is_as_connected(free: BoolArray, less: BoolArray, places: FloatArray, num_things: int) -> bool:
    """Tell if ways between places (column, row) are left with fewer free cells; things are reached from nearby."""
    from scipy.ndimage import distance_transform_edt, label  # pyright: ignore[reportUnknownVariableType]

    if not less.any():
        return False
    parts: list[list[int]] = []
    for mask in (free, less):
        near = np.asarray(distance_transform_edt(~mask, return_distances=False, return_indices=True))
        cells = places.astype(int)[:, ::-1].copy()
        for n in range(len(cells) - num_things, len(cells)):
            cells[n] = near[:, *cells[n]]
        parts.append(np.asarray(label(mask)[0])[cells[:, 0], cells[:, 1]].tolist())
    pairs = set(zip(*parts, strict=True))
    return len(pairs) == len(set(parts[0])) and all((a == 0) == (b == 0) for a, b in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class GroundGrid:
    """Cells of the ground."""

    origin: FloatArray  # (2,) [m]
    x: FloatArray  # (W,) [m] centres of columns
    z: FloatArray  # (H,) [m] centres of rows
    free: BoolArray  # (H, W) root
    wide: BoolArray  # (H, W) root, or near a place where the root may be
    stand: BoolArray  # (H, W) feet

    @classmethod
    def from_sketch(cls, sketch: Sketch, settings: SearchSettings = AS_CAPTURED) -> GroundGrid:
        """Draw a sketch into cells: corridor and walls for the root, walls, rivers and stones for the feet."""
        # Cells cover all that the sketch names, and a margin
        world = sketch.world
        points = [sketch.start.position, sketch.goal.position]
        points += [end for strip in (*world.walls, *world.rivers) for end in (strip.start, strip.end)]
        points += [thing.position for thing in (*world.stones, *world.tables, *world.boxes)]
        asked = [event.at for event in sketch.events if event.at is not None]
        points += asked
        things = [(thing.position[0], thing.position[2]) for thing in world.objects]
        points += things
        if sketch.path is not None:
            points += [(float(p[0]), float(p[1])) for p in sketch.path.points]
        spread = np.array(points)
        margin = MARGIN_M + 0.5 * sketch.corridor_m
        low, high = spread.min(axis=0) - margin, spread.max(axis=0) + margin
        count = np.ceil((high - low) / GRID_CELL_M).astype(int)
        x: FloatArray = low[0] + GRID_CELL_M * (np.arange(int(count[0])) + 0.5)
        z: FloatArray = low[1] + GRID_CELL_M * (np.arange(int(count[1])) + 0.5)
        X, Z = np.tile(x, (len(z), 1)), np.tile(z[:, None], (1, len(x)))
        # Distance [m] of every cell to what stands in the way, negative inside; hands pass over tables, not by walls
        walls = np.full(X.shape, np.inf)
        for wall in world.walls:
            walls = np.minimum(walls, segment_distance(wall.start, wall.end, X, Z) - 0.5 * wall.thickness_m)
        roomy = walls > settings.body_radius_m + settings.arm_room_m
        free = walls > settings.body_radius_m
        for boxes, radius_m in ((world.tables, settings.table_radius_m), (world.boxes, settings.body_radius_m)):
            for box in boxes:
                away = box_distance(box.position, box.size, box.heading_deg, X, Z)
                walls, free = np.minimum(walls, away), free & (away > radius_m)
        if sketch.path is not None:
            half = 0.5 * sketch.corridor_m
            # Distance of cells to the path, computed only where it is less than half the corridor
            pieces = max(2, int(np.ceil(sketch.path.length_m / GRID_CELL_M)))
            line = sketch.path.point_at(np.linspace(0.0, sketch.path.length_m, pieces + 1))
            least = np.full((len(z), len(x)), np.inf)
            for a, b in pairwise(line):
                columns = slice(*np.searchsorted(x, [min(a[0], b[0]) - half, max(a[0], b[0]) + half]))
                rows = slice(*np.searchsorted(z, [min(a[1], b[1]) - half, max(a[1], b[1]) + half]))
                near_X, near_Z = np.meshgrid(x[columns], z[rows])
                least[rows, columns] = np.minimum(least[rows, columns], segment_distance(a, b, near_X, near_Z))
            free &= least <= max(half - settings.clearance_m, 0.5 * half)
        # Room for the arms beside walls, unless it closes a way
        named = (np.array(points[:2] + asked + things) - low) / GRID_CELL_M
        if _is_as_connected(free, free & roomy, named, len(things)):
            free &= roomy
        # Free cells and those near them: a root that is tested here and there may cut a corner in between
        wide = free
        for axis in (0, 1):
            wide = np.logical_or.reduce(
                [np.roll(wide, step, axis=axis) for step in range(-DILATION_CELLS, DILATION_CELLS + 1)]
            )
        # Cells on which no foot may stand: walls, and rivers but for their stones; a foot may be anywhere in its cell
        wet = np.zeros(X.shape, dtype=bool)
        margin = settings.foot_radius_m + 0.5 * GRID_CELL_M + settings.bank_m
        for river in world.rivers:
            wet |= segment_distance(river.start, river.end, X, Z) < 0.5 * river.width_m + margin
        for stone in world.stones:
            wet &= np.hypot(X - stone.position[0], Z - stone.position[1]) > max(stone.radius_m - margin, 0.02)
        return cls(low, x, z, free, wide, (walls > 0.0) & ~wet)

    def cell(self, place: Sequence[float]) -> tuple[int, int]:
        """Row and column of a place (x, z)."""
        return int((place[1] - self.origin[1]) / GRID_CELL_M), int((place[0] - self.origin[0]) / GRID_CELL_M)

    def disk(self, centre: Sequence[float], radius_m: float) -> BoolArray:
        """Cells within a radius of a place (x, z)."""
        dx, dz = self.x[None] - centre[0], self.z[:, None] - centre[1]
        return dx * dx + dz * dz <= radius_m * radius_m

    def near_shortest(self, start: Sequence[float], leg: FloatArray, settings: SearchSettings) -> GroundGrid:
        """The ground without free cells through which every way from constraint to constraint is much too long.

        Args:
            start: place (x, z) [m].
            leg: way ``(L, H, W)`` [m] to the next constraint, none where it may be met.
            settings: how much too long.
        """
        begin, near = np.zeros_like(self.free), np.zeros_like(self.free)
        begin[self.cell(start)] = True
        for ahead in leg:
            way = self.distances(np.where(begin, 0.0, np.inf)) + ahead
            shortest = float(way.min())
            begin = self.wide & (ahead <= 0.0)
            near |= begin | (way <= shortest + settings.stray_m + settings.stray_share * shortest)
        return replace(self, free=self.free & near)

    def distances(self, start: FloatArray) -> FloatArray:
        """Lower bound [m] of the way from every cell to the cells where ``start`` [m] is finite, plus that value.

        Of two cells with a free way between their centres the values differ by no more than its length.
        """
        cell = GRID_UNDERESTIMATE * GRID_CELL_M
        return cell * grid_distances(self.wide, start / cell, GRID_STEPS)
