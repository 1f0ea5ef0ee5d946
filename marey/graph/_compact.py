"""The compact graph: states where contacts change, edges that are the cheapest ways between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph._database import Database
from marey.graph._settings import GraphSettings
from marey.graph._transitions import Transitions

COST_FLOOR: Final = 1e-6
ROOM: Final = 64  # edges per phase that are made room for at first


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Edges between phases before merging: way e leaves the start of phase ``source`` and ends with phase ``through``.

    It shows the poses of ``source`` up to its first transition, then goes on where that leads, and so on, to the end
    of ``through``; the next phase begins there.
    """

    source: IntArray  # (E,) phase
    through: IntArray  # (E,) phase whose end is reached
    cost: FloatArray  # (E,)
    jumps: tuple[IntArray, ...]  # (E,) numbers of the transitions taken, in order


def pose_costs(database: Database, settings: GraphSettings) -> FloatArray:
    """Cost ``(P,)`` of showing each pose: its effort over the median one, plus the price of time."""
    typical = max(float(np.median(database.effort)), 1e-12)
    seconds = 1.0 / database.rate_hz
    return np.maximum(database.effort / typical * seconds + settings.effort_per_s * seconds, COST_FLOOR)


def transition_costs(database: Database, transitions: Transitions, settings: GraphSettings) -> FloatArray:
    r"""Cost ``(E,)`` of each transition: :math:`-w_s \ln p`, with :math:`w_s` in median costs of a phase.

    The source maximises a sum of probabilities, which no shortest way can do; this is the form that adds up.
    """
    cost = pose_costs(database, settings)
    sums = np.add.reduceat(cost, database.phases.start)
    return -settings.transition_weight * float(np.median(sums)) * np.log(transitions.probability)


def cull_transitions(database: Database, transitions: Transitions, settings: GraphSettings) -> Ways:
    """Keep one way between every two states where contacts change: the cheapest ([Safonova2006]_ §4.3.1).

    All ways between two states with one foot planted end at the same place, so nothing is lost. In flight there are
    no transitions, and every flight keeps its own landing.
    """
    from marey.graph._compact_kernels import cheapest_ways

    table = database.phases
    order = np.argsort(transitions.source, kind="stable")
    first = np.searchsorted(transitions.source[order], np.arange(database.num_poses + 1))
    extra = transition_costs(database, transitions, settings)[order]
    cost, room = pose_costs(database, settings), ROOM
    while True:
        edges = np.empty((room * len(table.start), 3), dtype=np.int64)
        costs = np.empty(len(edges))
        ways = np.empty(8 * len(edges) + 64, dtype=np.int64)
        used, written = cheapest_ways(
            table.start, table.stop, table.after, database.phase, cost, first, transitions.target[order], extra,
            edges, costs, ways,
        )  # fmt: skip
        if used >= 0:
            break
        room *= 4
    edges, costs, ways = edges[:used], costs[:used], ways[:written]
    ends = np.flatnonzero(ways == -1)
    jumps = tuple(order[ways[a:b][::-1]] for a, b in zip(edges[:, 2], ends, strict=True))
    return Ways(edges[:, 0], edges[:, 1], costs, jumps)


def way_poses(database: Database, transitions: Transitions, ways: Ways, way: int) -> list[tuple[int, int]]:
    """Stretches of poses ``[start, stop)`` that a way shows, in order."""
    at = int(database.phases.start[ways.source[way]])
    stretches: list[tuple[int, int]] = []
    for jump in ways.jumps[way]:
        stretches.append((at, int(transitions.source[jump]) + 1))
        at = int(transitions.target[jump])
    stretches.append((at, int(database.phases.stop[ways.through[way]])))
    return stretches
