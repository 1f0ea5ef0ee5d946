"""Pairs of like poses of one class, found without comparing all with all.

Poses that follow one another are put into tiles, each with a box of its poses' coordinates in the main directions of
the metric. No two poses are nearer than their boxes, so only near tiles are compared pose by pose. What
is found is what a comparison of all pairs would find, to the last bit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.graph.database.pose_metric import PoseMetric

TILE_POSES: Final = 8  # most poses of a tile
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


class LowPlaces(NamedTuple):
    """Pairs of poses at local minima of the distance, row by row."""

    row: IntArray  # (E,) numbers in the group
    column: IntArray  # (E,)
    distance: FloatArray  # (E,) squared
    num_like: int  # pairs within the limits, low or not


def make_tiles(group: PoseGroup, coordinates: FloatArray) -> PoseTiles:
    """Cut a group where its poses do not follow one another, and every ``TILE_POSES`` poses."""
    is_new = np.ones(len(group.pose), dtype=bool)
    is_new[1:] = (np.diff(group.pose) != 1) | (np.diff(group.clip) != 0) | (np.diff(group.behaviour) != 0)
    first = np.flatnonzero(is_new)
    since = np.arange(len(is_new)) - np.repeat(first, np.diff(first, append=len(is_new)))
    start = np.flatnonzero(since % TILE_POSES == 0)
    low, high = (take.reduceat(coordinates, start, axis=0) for take in (np.minimum, np.maximum))
    return PoseTiles(np.append(start, len(is_new)), group.behaviour[start], low, high)


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
    tiles, room = make_tiles(group, coordinates), np.empty(len(group.pose), dtype=np.int64)
    margin = ROUNDING * float((metric.coordinates**2).sum(axis=1).max(initial=1.0))
    is_wanted = (limits > 0.0).any(axis=1)[tiles.behaviour]
    found, num_like = list[tuple[IntArray, IntArray, FloatArray]](), 0
    for tile in np.flatnonzero(is_wanted).tolist():
        columns = room[: list_near_poses(tiles, tile, limits, margin, room)]
        start, stop = tiles.start[tile : tile + 2]
        D = metric.between(group.pose[start:stop], group.pose[columns])
        low, like = find_low_places(D, int(start), columns, group, apart, limits)
        num_like += like
        rows, places = np.divmod(low, max(len(columns), 1))
        found.append((start + rows, columns[places], D[rows, places]))
    if not found:
        return LowPlaces(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), 0)
    return LowPlaces(*(np.concatenate(part) for part in zip(*found, strict=True)), num_like)


@kernel
def list_near_poses(tiles: PoseTiles, tile: int, limits: FloatArray, margin: float, found: IntArray) -> int:
    """Write the poses of all tiles that may hold one within its limit of a pose of ``tile``, with their neighbours.

    Returns:
        How many there are; they are in order.
    """
    used, last = 0, -1
    size = tiles.low.shape[1]
    for other in range(len(tiles.behaviour)):
        limit = limits[tiles.behaviour[tile], tiles.behaviour[other]]
        if limit <= 0.0:
            continue
        # Squared distance of the boxes
        limit += margin
        far = 0.0
        for k in range(size):
            gap = max(tiles.low[other, k] - tiles.high[tile, k], tiles.low[tile, k] - tiles.high[other, k])
            if gap > 0.0:
                far += gap * gap
                if far >= limit:
                    break
        if far >= limit:
            continue
        first, end = tiles.start[other] - NEIGHBOURHOOD, min(tiles.start[other + 1] + NEIGHBOURHOOD, len(found))
        for pose in range(max(first, last + 1), end):
            found[used] = pose
            used += 1
        last = max(last, end - 1)
    return used


@kernel
def find_low_places(
    D: FloatArray, first: int, columns: IntArray, group: PoseGroup, apart: int, limits: FloatArray
) -> tuple[IntArray, int]:
    """Places ``row * m + column`` of local minima within their limits, and how many entries are within.

    Args:
        D: from the poses ``first`` and following of a group to some of its poses ``(r, m)``; changed in place.
        first: number in the group of the pose of the first row.
        columns: numbers in the group ``(m,)``, increasing; with each that may be within its limit there are its
            neighbours.
        group: the poses.
        apart: as in :func:`find_low_pairs`.
        limits: as there.
    """
    rows, count = D.shape
    places = np.empty(rows * (count // 2 + 2), dtype=np.int64)
    used, like = 0, 0
    for i in range(rows):
        me = first + i
        row = D[i]
        for c in range(count):
            j = columns[c]
            if abs(group.pose[j] - group.pose[me]) < apart and group.clip[j] == group.clip[me]:
                row[c] = np.inf
        for c in range(count):
            j, value = columns[c], row[c]
            if not value < limits[group.behaviour[me], group.behaviour[j]]:
                continue
            like += 1
            is_low = True
            for step in range(1, NEIGHBOURHOOD + 1):
                before, after = c - step, c + step
                if before >= 0 and columns[before] == j - step and row[before] < value:
                    is_low = False
                if after < count and columns[after] == j + step and row[after] <= value:
                    is_low = False
            if is_low:
                places[used] = i * count + c
                used += 1
    return places[:used], like
