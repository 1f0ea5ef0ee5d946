"""Where one clip may go over into another: pairs of poses that are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.graph._database import Database
from marey.graph._distance import PointClouds, compute_lee_features, exact_correction, split_blocks, squared_distances
from marey.graph._events import STANDING
from marey.graph._settings import GraphSettings

NEIGHBOURHOOD: Final = 2  # poses: of a valley of the distance only its lowest place, within so many poses, is kept
STOPPING: Final = 2  # phases before and after a stand in which somebody stops or starts
SAMPLE: Final = 400  # walking poses on which the threshold is set

PosePairs = tuple[IntArray, IntArray, FloatArray]
"""Poses, poses that are like them, and their squared distances."""


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """From pose ``source`` one may go on with pose ``target``, as if it were its own successor."""

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


class PoseMetric:
    """Squared distances between poses, by the name of the method."""

    def __init__(self, database: Database, settings: GraphSettings) -> None:
        self._database = database
        self._features = compute_lee_features(database, settings) if settings.metric == "lee2002" else None
        self._clouds = PointClouds.from_database(database) if settings.metric == "kovar2002" else None

    def between(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Squared distances ``(n, m)``."""
        if self._features is not None:
            return squared_distances(self._features[rows], self._features[columns])
        assert self._clouds is not None
        clouds = self._clouds
        part = PointClouds(
            np.concatenate([clouds.level[rows], clouds.level[columns]]),
            np.concatenate([clouds.upright[rows], clouds.upright[columns]]),
            np.concatenate([clouds.squares[rows], clouds.squares[columns]]),
        )
        return part.distances(slice(0, len(rows)), slice(len(rows), None))

    def exact(self, first: IntArray, second: IntArray, D: FloatArray) -> FloatArray:
        """Distances ``(n,)`` of pairs with true angles in place of differences of rotation vectors."""
        if self._features is None:
            return D
        return np.maximum(D + exact_correction(self._database, first, second), 0.0)


def find_transitions(database: Database, settings: GraphSettings, metric: PoseMetric | None = None) -> Transitions:
    """All pairs of like poses with equal contacts ([Safonova2006]_ F15).

    The threshold is set so that a walking pose has ``density`` like ones; between behaviours it is ``cross`` times
    that, or more where fewer than ``cross_links`` pairs are found. Of each valley of the distance only the lowest pose
    is kept, and at most ``links`` of one pose: standing poses would else all be joined.

    Raises:
        InputError: no two poses are alike; the message tells the smallest distance.
    """
    metric = PoseMetric(database, settings) if metric is None else metric
    threshold = calibrate_threshold(database, settings, metric)
    inner = np.flatnonzero(has_successor(database))
    finder = _TransitionFinder(database, settings, metric, threshold)
    for kind in range(len(database.classes)):
        own = inner[database.phases.kind[database.phase[inner]] == kind]
        if database.classes[kind] and len(own) > 1:
            for rows in split_blocks(len(own)):
                finder.look(own, rows)
    source, like, near = finder.collect_pairs()
    return Transitions(source, like + 1, metric.exact(source, like, near), threshold, finder.num_like)


class _TransitionFinder:
    """Looks through blocks of the table of distances and keeps what is near."""

    def __init__(self, database: Database, settings: GraphSettings, metric: PoseMetric, threshold: float) -> None:
        self._database, self._settings, self._metric, self._threshold = database, settings, metric, threshold
        self._behaviour = pose_behaviours(database)
        self._count = int(self._behaviour.max()) + 1
        self._found: list[PosePairs] = []
        self._others: list[PosePairs] = []
        self._least = np.inf
        self.num_like = 0

    def look(self, own: IntArray, rows: slice) -> None:
        """Keep like poses of a block of rows among all poses of one class."""
        settings, database = self._settings, self._database
        here, D = own[rows], self._metric.between(own[rows], own)
        apart = round(settings.min_apart_s * database.rate_hz)
        clip = database.clip
        for at, pose in enumerate(here):  # poses of the same clip that are next to one another
            first, last = (int(k) for k in np.searchsorted(own, (pose - apart + 1, pose + apart)))
            D[at, first:last][clip[own[first:last]] == clip[pose]] = np.inf
        self._least = min(self._least, float(D.min(initial=np.inf)))
        is_low = _local_minima(D)
        same = self._behaviour[here][:, None] == self._behaviour[own][None]
        for mask, limit in ((same, self._threshold), (~same, settings.cross * self._threshold)):
            like = mask & (limit > D)
            self.num_like += int(np.count_nonzero(like))
            i, j = np.nonzero(like & is_low)
            kept = _smallest_in_groups(i, D[i, j], settings.links)
            self._found.append((here[i[kept]], own[j[kept]], D[i[kept], j[kept]]))
        if self._count > 1:
            self._scan_behaviours(here, own, np.where(~same & is_low, D, np.inf))

    def _scan_behaviours(self, here: IntArray, own: IntArray, D: FloatArray) -> None:
        """Remember the nearest pairs of each two behaviours, whether near enough or not."""
        limit = self._settings.reach * self._threshold
        i, j = np.nonzero(limit > D)
        value = D[i, j]
        pair = self._behaviour[here[i]] * self._count + self._behaviour[own[j]]
        kept = _smallest_in_groups(pair, value, self._settings.cross_links)
        self._others.append((here[i[kept]], own[j[kept]], value[kept]))

    def collect_pairs(self) -> PosePairs:
        """All pairs, with those added that two behaviours lack."""
        found = _concatenate_pairs(self._found)
        if self._others:
            more, to, far = _concatenate_pairs(self._others)
            pair = self._behaviour[more] * self._count + self._behaviour[to]
            kept = _smallest_in_groups(pair, far, self._settings.cross_links)
            kept = kept[far[kept] >= self._settings.cross * self._threshold]
            found = _concatenate_pairs([found, (more[kept], to[kept], far[kept])])
        if not len(found[0]):
            what = f"no two poses are nearer than {self._threshold:.3g}; the nearest are {self._least:.3g} apart"
            raise InputError(what, "Raise `density` or `cross`, or add clips")
        return found


def pose_behaviours(database: Database) -> IntArray:
    """Number of the behaviour of each pose ``(P,)``; starting and stopping is a behaviour of its own."""
    table = database.phases
    near = np.array([STANDING in planted for planted in database.classes])[table.kind]
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


def _local_minima(D: FloatArray) -> BoolArray:
    """Whether each entry is the lowest of its row's neighbourhood; columns are poses in the order of time."""
    lowest = np.isfinite(D)
    for step in range(1, NEIGHBOURHOOD + 1):
        lowest[:, step:] &= D[:, step:] <= D[:, :-step]
        lowest[:, :-step] &= D[:, :-step] < D[:, step:]
    return lowest


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
            D = metric.between(np.array([pose]), same)[0]
            kth.append(float(np.partition(D, int(settings.density))[int(settings.density)]))
    if not kth:
        raise InputError("too few poses to set a threshold", "Give more clips, or a smaller `density`")
    return float(np.median(kth))
