"""Where one clip may go over into another: pairs of poses that are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.graph._database import Database
from marey.graph._distance import PointClouds, blocks, lee_features, squared_distances
from marey.graph._settings import GraphSettings

NEIGHBOURHOOD: Final = 2  # poses: of a valley of the distance only its lowest place, within so many poses, is kept
SAMPLE: Final = 400  # walking poses on which the threshold is set


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """From pose ``source`` one may go on with pose ``target``, as if it were its own successor."""

    source: IntArray  # (E,)
    target: IntArray  # (E,) the successor of the pose that is like ``source``
    distance: FloatArray  # (E,) squared, between ``source`` and the pose before ``target``
    threshold: float  # within one behaviour

    @property
    def probability(self) -> FloatArray:
        r"""Chance ``(E,)`` of a transition, :math:`e^{-D/\sigma}`, sigma the median distance ([Safonova2006]_ F15)."""
        sigma = float(np.median(self.distance)) if len(self.distance) else 1.0
        return np.exp(-self.distance / max(sigma, 1e-12))


class Metric:
    """Squared distances between poses, by the name of the method."""

    def __init__(self, database: Database, settings: GraphSettings) -> None:
        self._features = lee_features(database, settings) if settings.metric == "lee2002" else None
        self._clouds = PointClouds.of(database) if settings.metric == "kovar2002" else None

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


def find_transitions(database: Database, settings: GraphSettings, metric: Metric | None = None) -> Transitions:
    """All pairs of like poses with equal contacts ([Safonova2006]_ F15).

    The threshold is set so that a walking pose has ``density`` like ones; between behaviours it is ``cross`` times
    that. Of each valley of the distance only the lowest pair is kept: standing poses would else all be joined.

    Raises:
        InputError: no two poses are alike; the message tells the smallest distance.
    """
    metric = Metric(database, settings) if metric is None else metric
    threshold = calibrate(database, settings, metric)
    inner = np.flatnonzero(_has_successor(database))
    behaviour = np.unique(np.array(database.behaviours)[database.clip], return_inverse=True)[1]
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    for kind in range(len(database.classes)):
        own = inner[database.phases.kind[database.phase[inner]] == kind]
        if database.classes[kind] and len(own) > 1:
            for rows in blocks(len(own)):
                found += _block(database, settings, metric, own, rows, behaviour, threshold)
    if not found or not sum(len(f[0]) for f in found):
        raise InputError(f"no two poses are nearer than {threshold:.3g}", "Raise `density` or `cross`, or add clips")
    source = np.concatenate([rows for rows, _, _ in found])
    like = np.concatenate([columns for _, columns, _ in found])
    return Transitions(source, like + 1, np.concatenate([D for _, _, D in found]), threshold)


def _block(
    database: Database,
    settings: GraphSettings,
    metric: Metric,
    own: IntArray,
    rows: slice,
    behaviour: IntArray,
    threshold: float,
) -> list[tuple[IntArray, IntArray, FloatArray]]:
    D = metric.between(own[rows], own)
    here, there = own[rows][:, None], own[None]
    limit = np.where(behaviour[here] == behaviour[there], threshold, settings.cross * threshold)
    apart = round(settings.min_apart_s * database.rate_hz)
    near = (database.clip[here] == database.clip[there]) & (np.abs(here - there) < apart)
    good = (limit > D) & ~near & _valleys(D)
    i, j = np.nonzero(good)
    return [(own[rows][i], own[j], D[i, j])]


def _valleys(D: FloatArray) -> BoolArray:
    """Whether each entry is the lowest of its row's neighbourhood; columns are poses in the order of time."""
    lowest = np.ones_like(D, dtype=bool)
    for step in range(1, NEIGHBOURHOOD + 1):
        lowest[:, step:] &= D[:, step:] <= D[:, :-step]
        lowest[:, :-step] &= D[:, :-step] < D[:, step:]
    return lowest


def _has_successor(database: Database) -> BoolArray:
    """Poses whose next pose is in the same phase, so that going on means staying in the phase."""
    return database.phases.stop[database.phase] - 1 > np.arange(database.num_poses)


def calibrate(database: Database, settings: GraphSettings, metric: Metric) -> float:
    """Threshold at which a walking pose has ``density`` like poses, in the median over a sample."""
    rng = np.random.default_rng(0)
    kinds = database.phases.kind[database.phase]
    single = np.array([len(planted) == 1 for planted in database.classes])
    walks = np.flatnonzero(single[kinds])
    pool = walks if len(walks) else np.arange(database.num_poses)
    chosen = np.sort(rng.choice(pool, min(SAMPLE, len(pool)), replace=False))
    kth: list[float] = []
    for pose in chosen:
        same = np.flatnonzero((kinds == kinds[pose]) & (database.clip != database.clip[pose]))
        if len(same) > settings.density:
            D = metric.between(np.array([pose]), same)[0]
            kth.append(float(np.partition(D, int(settings.density))[int(settings.density)]))
    if not kth:
        raise InputError("too few poses to set a threshold", "Give more clips, or a smaller `density`")
    return float(np.median(kth))
