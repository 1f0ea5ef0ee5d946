"""Pairs of like poses of one class, found without comparing all with all.

Poses that follow one another are put into tiles, each with a box of its poses' coordinates in the main directions of
the metric. No two poses are nearer than their boxes, so only near tiles are compared pose by pose. What
is found is what a comparison of all pairs would find, to the last bit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel, split_blocks
from marey.graph.database.pose_metric import PoseMetric

TILE_POSES: Final = 4  # most poses of a tile: a walker passes through a valley in about as many
WIDE_TILES: Final = 16  # tiles of a wide box, looked at before its tiles are
BLOCK_TILES: Final = 128  # tiles of rows that are looked at at once
NEIGHBOURHOOD: Final = 2  # poses: of a valley of the distance only its lowest place, within so many poses, is kept
ROUNDING: Final = 1e-10  # [-] of the largest squared coordinates: far more than what sums of squares are off


class PoseGroup(NamedTuple):
    """Poses of one class, in the order of time."""

    pose: IntArray  # (n,)
    clip: IntArray  # (n,)
    behaviour: IntArray  # (n,)


class PoseTiles(NamedTuple):
    """Stretches of poses of one group, each of one behaviour, and the boxes that hold their coordinates."""

    start: IntArray  # (T + 1,) the first pose of each; the number of poses
    behaviour: IntArray  # (T,)
    low: FloatArray  # (T, K)
    high: FloatArray  # (T, K)
    wide_low: FloatArray  # (W, K) of ``WIDE_TILES`` tiles that follow one another
    wide_high: FloatArray  # (W, K)


class LowPlaces(NamedTuple):
    """Pairs of poses at local minima of the distance, row by row."""

    row: IntArray  # (E,) numbers in the group
    column: IntArray  # (E,)
    distance: FloatArray  # (E,) squared
    num_like: int  # pairs within the limits, low or not


def measure_rounding(metric: PoseMetric) -> float:
    """What squared distances of coordinates may be off."""
    return ROUNDING * float((metric.coordinates**2).sum(axis=1).max(initial=1.0))


def find_low_pairs(metric: PoseMetric, group: PoseGroup, apart: int, limits: FloatArray) -> LowPlaces:
    """Local minima of rows of squared distances that lie within a limit.

    A pair is low if it is the lowest of its row's ``NEIGHBOURHOOD``. Poses of one clip that are less than ``apart``
    poses away do not count: their distances are infinite.

    Args:
        metric: tells distances.
        group: the poses of a class.
        apart: in poses.
        limits: by the behaviours of both ``(B, B)``; pairs of behaviours without one are not looked for.
    """
    coordinates = metric.coordinates[group.pose]
    # Cut the group where its poses do not follow one another, and every `TILE_POSES` poses
    is_new = np.ones(len(group.pose), dtype=bool)
    is_new[1:] = (np.diff(group.pose) != 1) | (np.diff(group.clip) != 0) | (np.diff(group.behaviour) != 0)
    first = np.flatnonzero(is_new)
    since = np.arange(len(is_new)) - np.repeat(first, np.diff(first, append=len(is_new)))
    start = np.flatnonzero(since % TILE_POSES == 0)
    lows, highs = (take.reduceat(coordinates, start, axis=0) for take in (np.minimum, np.maximum))
    wide = np.arange(0, len(start), WIDE_TILES)
    wide_low, wide_high = np.minimum.reduceat(lows, wide, axis=0), np.maximum.reduceat(highs, wide, axis=0)
    tiles = PoseTiles(np.append(start, len(is_new)), group.behaviour[start], lows, highs, wide_low, wide_high)
    margin = measure_rounding(metric)
    found, num_like = list[tuple[IntArray, IntArray, FloatArray]](), 0
    for block in split_blocks(len(tiles.behaviour), BLOCK_TILES):
        rows, columns = list_near_pairs(tiles, coordinates, block.start, block.stop, limits, margin)
        D = metric.of_pairs(group.pose[rows], group.pose[columns])
        low, like = find_low_places(rows, columns, D, group, apart, limits)
        found.append((rows[low], columns[low], D[low]))
        num_like += like
    row, column, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    return LowPlaces(row, column, distance, num_like)


@kernel
def list_near_pairs(
    tiles: PoseTiles, coordinates: FloatArray, begin: int, end: int, limits: FloatArray, margin: float
) -> tuple[IntArray, IntArray]:
    """Pairs that may be within their limits, with the neighbours of each in its row.

    Args:
        tiles: of a group.
        coordinates: of its poses ``(n, K)``.
        begin: first tile of rows,
        end: and the one after the last.
        limits: as in :func:`find_low_pairs`.
        margin: what squared distances of coordinates may be off.

    Returns:
        Rows and columns ``(E,)``, row by row, columns increasing.
    """
    count, size = coordinates.shape
    room = 64 * (tiles.start[end] - tiles.start[begin])
    rows, columns = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    near = np.empty(len(tiles.behaviour), dtype=np.int64)
    used = 0
    for tile in range(begin, end):
        # Tiles whose boxes are near, among those of wide boxes that are near
        num_near, most = 0, limits[tiles.behaviour[tile]].max() + margin
        for wide in range(len(tiles.wide_low)):
            if measure_box_gap(tiles.low[tile], tiles.high[tile], tiles.wide_low[wide], tiles.wide_high[wide]) >= most:
                continue
            for other in range(WIDE_TILES * wide, min(WIDE_TILES * (wide + 1), len(tiles.behaviour))):
                limit = limits[tiles.behaviour[tile], tiles.behaviour[other]]
                if limit <= 0.0:
                    continue
                far = measure_box_gap(tiles.low[tile], tiles.high[tile], tiles.low[other], tiles.high[other])
                if far < limit + margin:
                    near[num_near] = other
                    num_near += 1
        for row in range(tiles.start[tile], tiles.start[tile + 1]):
            if used + count > len(rows):
                rows, columns = grow_array(rows, count), grow_array(columns, count)
            last = -1
            for other in near[:num_near]:
                limit = limits[tiles.behaviour[tile], tiles.behaviour[other]] + margin
                for column in range(tiles.start[other], tiles.start[other + 1]):
                    # Squared distance of the coordinates, four at a time
                    far = 0.0
                    for k in range(0, size, 4):
                        a, b = (
                            coordinates[row, k] - coordinates[column, k],
                            coordinates[row, k + 1] - coordinates[column, k + 1],
                        )
                        c, d = (
                            coordinates[row, k + 2] - coordinates[column, k + 2],
                            coordinates[row, k + 3] - coordinates[column, k + 3],
                        )
                        far += (a * a + b * b) + (c * c + d * d)
                        if far >= limit:
                            break
                    if far >= limit:
                        continue
                    for beside in range(max(column - NEIGHBOURHOOD, last + 1), min(column + NEIGHBOURHOOD + 1, count)):
                        rows[used], columns[used] = row, beside
                        used += 1
                    last = min(column + NEIGHBOURHOOD, count - 1)
    return rows[:used], columns[:used]


@kernel
def measure_box_gap(low: FloatArray, high: FloatArray, other_low: FloatArray, other_high: FloatArray) -> float:
    """Squared distance of two boxes ``(K,)`` given by their corners."""
    far = 0.0
    for k in range(len(low)):
        gap = max(other_low[k] - high[k], low[k] - other_high[k])
        if gap > 0.0:
            far += gap * gap
    return far


@kernel
def list_pairs_within(first: FloatArray, second: FloatArray, limit: float, count: int) -> tuple[IntArray, IntArray]:
    """Rows of ``(n, K)`` and ``(m, K)`` whose squared distance is at most a limit, row by row.

    With ``count`` above zero these are so many nearest ones in place of all.
    """
    size = first.shape[1]
    rows, columns = np.empty(max(count, 64), dtype=np.int64), np.empty(max(count, 64), dtype=np.int64)
    nearest = np.full(max(count, 1), limit)
    used = 0
    for i in range(len(first)):
        for j in range(len(second)):
            far = 0.0
            for k in range(size):
                far += (first[i, k] - second[j, k]) ** 2
                if far > limit:
                    break
            if far > limit:
                continue
            place = used
            if count > 0:
                # The farthest of the nearest so far makes room
                place = used if used < count else int(np.argmax(nearest))
                nearest[place] = far
            elif used == len(rows):
                rows, columns = grow_array(rows, 0), grow_array(columns, 0)
            rows[place], columns[place] = i, j
            used = max(used, place + 1)
            if 0 < count == used:
                limit = nearest.max()
    return rows[:used], columns[:used]


@kernel
def grow_array(values: IntArray, more: int) -> IntArray:
    """A copy with twice the room, and at least so much more."""
    grown = np.empty(2 * len(values) + more, dtype=np.int64)
    grown[: len(values)] = values
    return grown


@kernel
def find_low_places(
    rows: IntArray, columns: IntArray, D: FloatArray, group: PoseGroup, apart: int, limits: FloatArray
) -> tuple[IntArray, int]:
    """Numbers of the pairs that are local minima of their row within their limit, and how many are within.

    Args:
        rows: numbers in the group ``(E,)``.
        columns: increasing in each row; beside each pair within its limit there are its neighbours.
        D: squared distances ``(E,)``; of pairs that do not count they become infinite.
        group: the poses.
        apart: as in :func:`find_low_pairs`.
        limits: as there.
    """
    count = len(rows)
    places = np.empty(count, dtype=np.int64)
    used, like = 0, 0
    for e in range(count):
        i, j = rows[e], columns[e]
        if abs(group.pose[j] - group.pose[i]) < apart and group.clip[j] == group.clip[i]:
            D[e] = np.inf
    for e in range(count):
        i, j = rows[e], columns[e]
        if not D[e] < limits[group.behaviour[i], group.behaviour[j]]:
            continue
        like += 1
        is_low = True
        for step in range(1, NEIGHBOURHOOD + 1):
            before, after = e - step, e + step
            if before >= 0 and rows[before] == i and columns[before] == j - step and D[before] < D[e]:
                is_low = False
            if after < count and rows[after] == i and columns[after] == j + step and D[after] <= D[e]:
                is_low = False
        if is_low:
            places[used] = e
            used += 1
    return places[:used], like
