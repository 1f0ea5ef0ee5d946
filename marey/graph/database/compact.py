"""The compact graph: states where contacts change, edges that are the cheapest paths between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.graph.algorithms import pop_heap, push_heap, select_cheapest
from marey.graph.database.clips import Database
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import STILL_SHARE, Transitions


class PoseGraph(NamedTuple):
    """The full graph: phases of poses, and transitions between poses of one class."""

    starts: IntArray  # (S,) first pose of each phase
    stops: IntArray  # (S,) pose after its last
    after: IntArray  # (S,) next phase, negative if there is none
    phase: IntArray  # (P,) of each pose
    cost: FloatArray  # (P,) of showing a pose
    first: IntArray  # (P + 1,) transitions of pose p are first[p] to first[p + 1]
    target: IntArray  # (E,) where they lead
    extra: FloatArray  # (E,) what they cost


@kernel
def find_cheapest_paths(
    graph: PoseGraph, edges: IntArray, edge_costs: FloatArray, parents: IntArray
) -> tuple[int, int]:
    """Cheapest way from the first pose of each phase to the end of every phase of its class that it can reach.

    Args:
        graph: of all poses.
        edges: out: phase left, phase whose end was reached, offset of the way in ``parents`` ``(M, 3)``.
        edge_costs: out ``(M,)``.
        parents: out: the ways, each a list of transitions, ended by -1.

    Returns:
        Number of edges, and of entries in ``parents``; the first is -1 if the arrays are too small.
    """
    starts, stops, after, phase, cost, first, target, extra = graph
    count, poses = len(starts), len(cost)
    best = np.full(poses, np.inf)
    came = np.full(poses, -1, dtype=np.int64)  # transition by which the pose was entered, -1 from its predecessor
    heap = np.empty(len(target) + poses + 16, dtype=np.int64)  # every relaxation pushes once at most
    keys = np.empty(len(heap))
    touched = np.empty(poses, dtype=np.int64)
    source = np.empty(len(target), dtype=np.int64)
    # Pose that each transition leaves, to trace ways back
    for p in range(poses):
        source[first[p] : first[p + 1]] = p
    used, written = 0, 0
    for s in range(count):
        # Dijkstra from the first pose of phase s; only what it touched is cleared afterwards
        size = push_heap(heap, keys, 0, starts[s], 0.0)
        best[starts[s]], came[starts[s]] = 0.0, -2
        touched[0] = starts[s]
        num_touched = 1
        while size > 0:
            p, key = heap[0], keys[0]
            size = pop_heap(heap, keys, size)
            if key > best[p]:
                continue
            # Showing a pose costs, so its cost is paid on leaving it
            here = float(best[p] + cost[p])
            own = phase[p]
            # The end of a phase ends a way: write the edge and trace back its transitions
            if p + 1 == stops[own]:
                if after[own] >= 0:
                    if used >= len(edges) or written + 64 >= len(parents):
                        return -1, written
                    edges[used, 0], edges[used, 1], edges[used, 2] = s, own, written
                    edge_costs[used] = here
                    used += 1
                    q = p
                    while came[q] != -2:
                        if came[q] >= 0:
                            parents[written] = came[q]
                            written += 1
                            q = source[came[q]]
                        else:
                            q -= 1
                    parents[written] = -1
                    written += 1
            # On to the next pose of the clip
            elif here < best[p + 1]:
                if best[p + 1] == np.inf:
                    touched[num_touched] = p + 1
                    num_touched += 1
                best[p + 1], came[p + 1] = here, -1
                size = push_heap(heap, keys, size, p + 1, here)
            # Or along a transition to a like pose
            for e in range(first[p], first[p + 1]):
                q = target[e]
                there = here + extra[e]
                if there < best[q]:
                    if best[q] == np.inf:
                        touched[num_touched] = q
                        num_touched += 1
                    best[q], came[q] = there, e
                    size = push_heap(heap, keys, size, q, there)
        for i in range(num_touched):
            best[touched[i]] = np.inf
    return used, written


COST_FLOOR: Final = 1e-6
EFFORT_UNIT: Final = 1e4  # [(N m)²] a walking body spends about this, so that a second of walking costs about one
ROOM: Final = 64  # edges per phase that are made room for at first


@dataclass(frozen=True, slots=True, eq=False)
class PhasePaths:
    """Edges between phases before merging: way e leaves the start of phase ``source`` and ends with phase ``through``.

    It shows the poses of ``source`` up to its first transition, then goes on where that leads, and so on, to the end
    of ``through``; the next phase begins there.
    """

    source: IntArray  # (E,) phase
    through: IntArray  # (E,) phase whose end is reached
    cost: FloatArray  # (E,)
    jump_first: IntArray  # (E + 1,) transitions of way e are jump[jump_first[e]:jump_first[e + 1]], in order
    jump: IntArray  # (L,) numbers of transitions

    def jumps(self, way: int) -> IntArray:
        """Numbers of the transitions that a way takes, in order."""
        return self.jump[self.jump_first[way] : self.jump_first[way + 1]]

    def select(self, kept: IntArray) -> PhasePaths:
        """Some of the ways, in the order given."""
        rows = [self.jumps(int(way)) for way in kept]
        first = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        jump = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
        return PhasePaths(self.source[kept], self.through[kept], self.cost[kept], first, jump)


def compute_pose_costs(database: Database, settings: GraphSettings) -> FloatArray:
    """Cost ``(P,)`` [(100 N m)² s] of each pose: squared torques plus the cost of time."""
    seconds = 1.0 / database.rate_hz
    return np.maximum((database.effort / EFFORT_UNIT + settings.effort_per_s) * seconds, COST_FLOOR)


def median_step_cost(database: Database, settings: GraphSettings) -> float:
    """Median cost of a step: of phases on one foot, or of all phases without them."""
    sums = np.add.reduceat(compute_pose_costs(database, settings), database.phases.start)
    single = np.array([len(planted) == 1 for planted in database.classes])[database.phases.kind]
    return float(np.median(sums[single] if single.any() else sums))


def compute_transition_costs(database: Database, transitions: Transitions, settings: GraphSettings) -> FloatArray:
    r"""Cost ``(E,)`` of each transition: :math:`w_0 - w_s \ln p`, both in costs of a step.

    The source maximises a sum of probabilities, which no shortest way can do; this is the form that adds up. The fixed
    cost :math:`w_0` is ours: without it paths change between clips several times in a step.
    """
    # A stand that is cut short where it is still costs no more than how far its poses are apart
    phase, target = database.phase[transitions.source], transitions.target
    is_cut = database.has_stand[phase] & (phase == database.phase[target]) & (target > transitions.source)
    is_cut &= transitions.distance < STILL_SHARE * transitions.threshold
    price = np.where(is_cut, 0.0, settings.transition_price)
    price += settings.transition_weight * transitions.distance / transitions.scale
    return median_step_cost(database, settings) * price


def cull_transitions(database: Database, transitions: Transitions, settings: GraphSettings) -> PhasePaths:
    """Keep one way between every two states where contacts change: the cheapest ([Safonova2006]_ §4.3.1).

    All ways between two states with one foot planted end at the same place, so nothing is lost. In flight there are
    no transitions, and every flight keeps its own landing.
    """
    if settings.culling == "one-jump":
        # Cheapest ways with one transition at most: sums of costs before and after it, no search
        table = database.phases
        cost = compute_pose_costs(database, settings)
        total = np.concatenate([[0.0], np.cumsum(cost)])
        phases = np.arange(len(table.start))
        source = np.concatenate([phases, database.phase[transitions.source]])
        through = np.concatenate([phases, database.phase[transitions.target]])
        before = total[transitions.source + 1] - total[table.start[source[len(phases) :]]]
        onward = total[table.stop[through[len(phases) :]]] - total[transitions.target]
        jumping = before + compute_transition_costs(database, transitions, settings) + onward
        costs = np.concatenate([total[table.stop] - total[table.start], jumping])
        jump = np.concatenate([np.full(len(phases), -1), np.arange(len(transitions.source))])
        kept = select_cheapest([source, through], costs)
        kept = kept[table.after[through[kept]] >= 0]
        jumps = jump[kept]
        first = np.concatenate([[0], np.cumsum(jumps >= 0)])
        return PhasePaths(source[kept], through[kept], costs[kept], first, jumps[jumps >= 0])
    # Cheapest ways of any number of transitions, by Dijkstra's search within each class
    table = database.phases
    order = np.argsort(transitions.source, kind="stable")
    first = np.searchsorted(transitions.source[order], np.arange(database.num_poses + 1))
    extra = compute_transition_costs(database, transitions, settings)[order]
    cost, room = compute_pose_costs(database, settings), ROOM
    graph = PoseGraph(
        table.start, table.stop, table.after, database.phase, cost, first, transitions.target[order], extra
    )
    while True:
        edges = np.empty((room * len(table.start), 3), dtype=np.int64)
        costs = np.empty(len(edges))
        ways = np.empty(8 * len(edges) + 64, dtype=np.int64)
        used, written = find_cheapest_paths(graph, edges, costs, ways)
        if used >= 0:
            break
        room *= 4
    edges, costs, ways = edges[:used], costs[:used], ways[:written]
    # Each way is ended by -1, and written backwards
    lengths = np.diff(np.flatnonzero(np.concatenate([[-1], ways]) == -1)) - 1
    first = np.concatenate([[0], np.cumsum(lengths)])
    jumps = ways[ways >= 0]
    number = np.repeat(np.arange(used), lengths)
    forward = first[number] + lengths[number] - 1 - (np.arange(len(jumps)) - first[number])
    return PhasePaths(edges[:, 0], edges[:, 1], costs, first, order[jumps[forward]])


def path_pose_ranges(database: Database, transitions: Transitions, ways: PhasePaths, way: int) -> list[tuple[int, int]]:
    """Stretches of poses ``[start, stop)`` that a way shows, in order."""
    at = int(database.phases.start[ways.source[way]])
    stretches: list[tuple[int, int]] = []
    for jump in ways.jumps(way):
        stretches.append((at, int(transitions.source[jump]) + 1))
        at = int(transitions.target[jump])
    stretches.append((at, int(database.phases.stop[ways.through[way]])))
    return stretches
