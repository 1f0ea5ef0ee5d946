"""Of edges that lead from one state much the same way, the cheapest stay."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._ara import compose_planar, to_frame
from marey.graph._build_arrays import anchor_displacements
from marey.graph._compact import PhasePaths
from marey.graph._database import NO_NEXT_PHASE, Database
from marey.graph._events import PICKED_PREFIX
from marey.graph._settings import GraphSettings


def select_cheapest(columns: list[IntArray], cost: FloatArray) -> IntArray:
    """Numbers of the cheapest row of each group of equal ``columns``."""
    order = np.lexsort((cost, *columns[::-1]))
    key = np.stack(columns)[:, order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    return order[fresh]


def select_diverse_edges(
    database: Database, ways: PhasePaths, kept: IntArray, group: IntArray, cost: FloatArray, settings: GraphSettings
) -> IntArray:
    """Edges that stay: all to and from events, the ``spare`` cheapest of a state, and the cheapest of each direction.

    Where an edge leads to is where its next step leads to as well: in double support no edge moves the anchor. Edges
    to other classes never compete.
    """
    if settings.step_bin_m == 0.0 or settings.turn_bin_rad == 0.0:
        return kept
    table = database.phases
    source, after = group[ways.source[kept]], table.after[ways.through[kept]]
    ahead = compose_planar(anchor_displacements(database, ways)[kept], _next_step(database)[after])
    bins = [np.floor(ahead[:, k] / settings.step_bin_m).astype(np.int64) for k in (0, 1)]
    bins.append(np.floor(ahead[:, 2] / settings.turn_bin_rad).astype(np.int64))
    stay = np.zeros(len(kept), dtype=bool)
    stay[select_cheapest([source, table.kind[after], *bins], cost[kept])] = True
    stay |= _rank_in_groups(source, cost[kept]) < settings.spare
    events = is_event(database)
    stay |= events[ways.source[kept]] | events[after]
    stay |= _rank_in_groups(group[after], cost[kept]) < 2  # the cheapest ways into a state stay, or it could be lost
    return kept[stay]


def is_event(database: Database) -> BoolArray:
    """Whether each phase begins with a pick or is a flight ``(S,)``."""
    wanted = np.array([not planted or planted[-1].startswith(PICKED_PREFIX) for planted in database.classes])
    return wanted[database.phases.kind]


def _next_step(database: Database) -> FloatArray:
    """Anchor of the next phase in the frame of each phase's ``(S, 3)``; zero at the ends of clips."""
    table = database.phases
    step = to_frame(table.anchor[table.after], table.anchor)
    return np.where((table.after == NO_NEXT_PHASE)[:, None], 0.0, step)


def _rank_in_groups(group: IntArray, cost: FloatArray) -> IntArray:
    """Place of each row among those of its group, cheapest first."""
    order = np.lexsort((cost, group))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    return ranks
