"""Where one clip may go over into another: pairs of poses that are alike.

Transitions are the lowest places of valleys of the distance, of which like poses alone are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, split_blocks
from marey.graph.arrays import to_frame
from marey.graph.database.clips import Database
from marey.graph.database.neighbours import LowPlaces, PoseGroup, find_low_pairs
from marey.graph.database.pose_metric import PoseMetric
from marey.graph.database.settings import GraphSettings

SCAN_POSES: Final = 256  # of so many poses, the nearest pairs of each two behaviours are kept
BLOCK_POSES: Final = 1024  # after so many poses, transitions within a behaviour come before those between two
STOPPING: Final = 2  # phases before and after a stand that belong to stopping and starting
STILL_SHARE: Final = 0.1  # [-] of the threshold: nobody sees a cut between standing poses that are so alike
SAMPLE: Final = 400  # walking poses on which the threshold is set

PosePairs = tuple[IntArray, IntArray, FloatArray]
"""Poses, poses that are like them, and their squared distances."""


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """Pose ``target`` may follow pose ``source`` in place of its own successor."""

    source: IntArray  # (E,)
    target: IntArray  # (E,) the successor of the pose that is like ``source``
    distance: FloatArray  # (E,) squared, between ``source`` and the pose before ``target``
    threshold: float  # within one behaviour
    num_like: int = 0  # pairs of poses under the thresholds, of which these are the lowest of each valley

    @property
    def scale(self) -> float:
        """Squared distance at which the chance of a transition has fallen to 1/e: that at which poses are just alike.

        The source leaves it open. The median of the distances, which is near it in captured clips, is no measure of
        likeness where clips are made by an engine: half of all pairs there are all but equal.
        """
        return max(self.threshold, 1e-12)

    @property
    def probability(self) -> FloatArray:
        r"""Chance ``(E,)`` of a transition, :math:`e^{-D/\sigma}` ([Safonova2006]_ F15)."""
        return np.exp(-self.distance / self.scale)


def find_transitions(database: Database, settings: GraphSettings, metric: PoseMetric | None = None) -> Transitions:
    """All pairs of like poses with equal contacts ([Safonova2006]_ F15).

    The threshold is set so that a walking pose has ``density`` like ones; between behaviours it is ``cross`` times
    that, or more where fewer than ``cross_links`` pairs are found. Of each valley of the distance only the lowest pose
    is kept, and at most ``links`` of one pose: standing poses would else all be joined.

    Raises:
        InputError: no two poses are similar; the message gives the smallest distance.
    """
    metric = PoseMetric(database, settings) if metric is None else metric
    threshold = calibrate_threshold(database, settings, metric)
    behaviour = pose_behaviours(database)
    count, apart = int(behaviour.max()) + 1, round(settings.min_apart_s * database.rate_hz)
    inner = np.flatnonzero(has_successor(database))
    kinds = database.phases.kind[database.phase[inner]]
    groups = [
        PoseGroup(own, database.clip[own], behaviour[own])
        for own in (inner[kinds == kind] for kind, planted in enumerate(database.classes) if planted)
        if len(own) > 1
    ]
    limits = np.where(np.eye(count, dtype=bool), 1.0, settings.cross) * threshold
    found, others, num_like = list[PosePairs](), list[PosePairs](), 0
    for group in groups:
        low = find_low_pairs(metric, group, apart, limits)
        num_like += low.num_like
        # At most so many of one pose within its behaviour, and as many to others
        is_same = group.behaviour[low.row] == group.behaviour[low.column]
        parts = [np.flatnonzero(is_same), np.flatnonzero(~is_same)]
        kept = np.concatenate(
            [own[_smallest_in_groups(low.row[own], low.distance[own], settings.links)] for own in parts]
        )
        kept = kept[np.lexsort((kept, ~is_same[kept], low.row[kept] // BLOCK_POSES))]
        found.append((group.pose[low.row[kept]], group.pose[low.column[kept]], low.distance[kept]))
        others.append(_nearest_across(group, low, count, settings))
    source, alike, near = _drop_displaced(database, settings, _concatenate_pairs(found))
    if count > 1:
        # Add the pairs that two behaviours lack, from farther away
        more, to, _ = _drop_displaced(database, settings, _concatenate_pairs(others))
        linked = np.bincount(behaviour[more] * count + behaviour[to], minlength=count * count).reshape(count, count)
        wanted = np.where((linked < settings.cross_links) & ~np.eye(count, dtype=bool), settings.reach, 0.0) * threshold
        lows = ((group, find_low_pairs(metric, group, apart, wanted)) for group in groups)
        others = [_nearest_across(group, low, count, settings) for group, low in lows]
        more, to, far = _drop_displaced(database, settings, _concatenate_pairs(others))
        kept = _smallest_in_groups(behaviour[more] * count + behaviour[to], far, settings.cross_links)
        kept = kept[far[kept] >= settings.cross * threshold]
        source, alike, near = _concatenate_pairs([(source, alike, near), (more[kept], to[kept], far[kept])])
    if not len(source):
        least = min((_least_distance(metric, group, apart) for group in groups), default=np.inf)
        what = f"no two poses are nearer than {threshold:.3g}; the nearest are {least:.3g} apart"
        raise InputError(what, "Raise `density` or `cross`, or add clips")
    # Pairs of the first pose of each stand and all like it from `apart` poses on: a stand lasts as long as needed.
    # Clips begin and end with stands of some length, which is chance; a way that comes to rest in one shows its end
    # only.
    table = database.phases
    pairs = list[PosePairs]()
    for phase in np.flatnonzero(database.has_stand):
        later: IntArray = np.arange(int(table.start[phase]) + apart, int(table.stop[phase]) - 1)
        D = metric.between(table.start[[phase]], later)[0]
        like = np.flatnonzero(STILL_SHARE * threshold > D)
        pairs.append((np.full(len(like), table.start[phase]), later[like], D[like]))
    source, alike, near = _concatenate_pairs([(source, alike, near), _concatenate_pairs(pairs)])
    return Transitions(source, alike + 1, metric.exact(source, alike, near), threshold, num_like)


def _nearest_across(group: PoseGroup, low: LowPlaces, count: int, settings: GraphSettings) -> PosePairs:
    """The nearest pairs of each two of ``count`` behaviours, of every ``SCAN_POSES`` poses."""
    first, second = group.behaviour[low.row], group.behaviour[low.column]
    own = np.flatnonzero(first != second)
    key = (low.row[own] // SCAN_POSES * count + first[own]) * count + second[own]
    own = own[_smallest_in_groups(key, low.distance[own], settings.cross_links)]
    return group.pose[low.row[own]], group.pose[low.column[own]], low.distance[own]


def _drop_displaced(database: Database, settings: GraphSettings, pairs: PosePairs) -> PosePairs:
    """Pairs without those that have a planted foot in quite other places: it would take a step that no clip shows."""
    table, (a, b, far) = database.phases, pairs
    a_phase, b_phase = database.phase[a], database.phase[b]
    feet = to_frame(table.feet, table.anchor[:, None])[..., :2]
    apart_m = np.nan_to_num(np.linalg.norm(feet[a_phase] - feet[b_phase], axis=-1)).max(axis=-1, initial=0.0)
    kept = np.flatnonzero(apart_m <= settings.max_foot_jump_m)
    return a[kept], b[kept], far[kept]


def _least_distance(metric: PoseMetric, group: PoseGroup, apart: int) -> float:
    """The least distance of two poses of a group that are not of one stretch of a clip."""
    least = np.inf
    for rows in split_blocks(len(group.pose), SCAN_POSES):
        D = metric.between(group.pose[rows], group.pose)
        is_near = np.abs(group.pose[rows, None] - group.pose) < apart
        D[is_near & (group.clip[rows, None] == group.clip)] = np.inf
        least = min(least, float(D.min()))
    return least


def pose_behaviours(database: Database) -> IntArray:
    """Number of the behaviour of each pose ``(P,)``; starting and stopping is a behaviour of its own."""
    table = database.phases
    near = database.has_stand
    inner = table.after >= 0
    for _ in range(STOPPING):
        ahead, behind = near.copy(), near.copy()
        ahead[inner] |= near[table.after[inner]]
        behind[table.after[inner]] |= near[inner]
        near = ahead | behind
    labels = np.unique(np.array(database.behaviours), return_inverse=True)[1]
    return np.unique(2 * labels[database.clip] + near[database.phase], return_inverse=True)[1]


def _concatenate_pairs(parts: list[PosePairs]) -> PosePairs:
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    first, second, third = zip(*parts, strict=True)
    return np.concatenate(first), np.concatenate(second), np.concatenate(third)


def _smallest_in_groups(group: IntArray, value: FloatArray, count: int) -> IntArray:
    """Numbers of the ``count`` smallest values of each group, in their old order."""
    order = np.lexsort((np.arange(len(value)), value, group))
    ranks = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    return np.sort(order[ranks < count])


def has_successor(database: Database) -> BoolArray:
    """Poses whose next pose is in the same phase, so that going on means staying in the phase."""
    return database.phases.stop[database.phase] - 1 > np.arange(database.num_poses)


def calibrate_threshold(database: Database, settings: GraphSettings, metric: PoseMetric) -> float:
    """Threshold at which a walking pose has ``density`` like poses, in the median over a sample."""
    rng = np.random.default_rng(0)
    kinds = database.phases.kind[database.phase]
    single = np.array([len(planted) == 1 for planted in database.classes])
    walks = np.flatnonzero(single[kinds])
    pool = walks if len(walks) else np.arange(database.num_poses)
    chosen = np.sort(rng.choice(pool, min(SAMPLE, len(pool)), replace=False))
    kth: list[float] = []
    for pose in chosen:
        apart = np.abs(np.arange(len(kinds)) - pose) > database.rate_hz
        other = (database.clip != database.clip[pose]) if len(database.clips) > 1 else apart
        same = np.flatnonzero((kinds == kinds[pose]) & other)
        if len(same) > settings.density:
            D = metric.of_pairs(np.full(len(same), pose), same)
            kth.append(float(np.partition(D, int(settings.density))[int(settings.density)]))
    if not kth:
        raise InputError("too few poses to set a threshold", "Give more clips, or a smaller `density`")
    return float(np.median(kth))
