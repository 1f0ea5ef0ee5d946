"""States that are alike become one."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph._database import Database
from marey.graph._events import PICKED_PREFIX
from marey.graph._links import cluster_complete_linkage
from marey.graph._settings import GraphSettings
from marey.graph._transitions import PoseMetric


def merge_states(
    database: Database, settings: GraphSettings, metric: PoseMetric, threshold: float
) -> tuple[IntArray, FloatArray]:
    """Groups of phases whose first poses are alike, and how far each is from the middle of its group.

    Complete linkage, most similar first, while all pairs of a group are nearer than ``merge`` thresholds
    ([Safonova2006]_ §4.3.1, which merges pairs and so may chain). States that begin a flight, a pick or the phase
    after a flight are kept: merging would lose lengths and heights.

    Returns:
        Group of each phase ``(S,)``, and squared distance ``(S,)`` to the phase in the middle of its group.
    """
    table = database.phases
    group, gap = np.full(len(table.start), -1, dtype=np.int64), np.zeros(len(table.start))
    used = 0
    for kind, planted in enumerate(database.classes):
        own = np.flatnonzero(table.kind == kind)
        if (
            not planted
            or any(name.startswith(PICKED_PREFIX) for name in planted)
            or len(own) < 2
            or settings.merge == 0.0
        ):
            group[own] = used + np.arange(len(own))
            used += len(own)
            continue
        one_way = metric.between(table.start[own], table.start[own])
        D = 0.5 * (one_way + one_way.T)
        np.fill_diagonal(D, 0.0)
        labels = cluster_complete_linkage(D, settings.merge * threshold)
        group[own] = used + labels
        used += int(labels.max()) + 1
        for label in range(int(labels.max()) + 1):
            members = np.flatnonzero(labels == label)
            middle = members[int(np.argmin(D[np.ix_(members, members)].sum(axis=1)))]
            gap[own[members]] = D[members, middle]
    return group, gap
