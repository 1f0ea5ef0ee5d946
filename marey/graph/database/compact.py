"""The compact graph: states where contacts change, edges that are the cheapest paths between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

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


class PathList(NamedTuple):
    """Ways as they are found."""

    source: IntArray  # (M,) phase in which a way begins
    through: IntArray  # (M,) phase with whose end it ends
    cost: FloatArray  # (M,)
    jumps: IntArray  # transitions of each way, the last first, each list ended by -1


@kernel
def find_cheapest_paths(graph: PoseGraph, first_member: IntArray, members: IntArray, entry: FloatArray) -> PathList:
    """Cheapest way from each group of phases to the end of every phase of its class that one of them can reach.

    Args:
        graph: of all poses.
        first_member: members of group g are ``members[first_member[g]:first_member[g + 1]]``.
        members: phases, group by group; a way begins with the first pose of one.
        entry: what it costs ``(S,)`` to begin with a phase; not part of the cost of a way.
    """
    starts, stops, after, phase, cost, first, target, extra = graph
    poses = len(cost)
    best = np.full(poses, np.inf)  # with the entry
    own = np.zeros(poses)  # without
    origin = np.zeros(poses, dtype=np.int64)  # phase in which the way to a pose began
    came = np.full(poses, -1, dtype=np.int64)  # transition by which the pose was entered, -1 from its predecessor
    heap = np.empty(len(target) + poses + 16, dtype=np.int64)  # every relaxation pushes once at most
    keys = np.empty(len(heap))
    touched = np.empty(poses, dtype=np.int64)
    # Pose that each transition leaves, to trace ways back
    leaves = np.empty(len(target), dtype=np.int64)
    for p in range(poses):
        leaves[first[p] : first[p + 1]] = p
    edges, edge_costs = np.empty(2 * len(starts) + 2, dtype=np.int64), np.empty(len(starts) + 1)
    jumps = np.empty(4 * len(starts) + 64, dtype=np.int64)
    used, written = 0, 0
    for group in range(len(first_member) - 1):
        # Dijkstra from the first poses of a group; only what it touched is cleared afterwards
        size, num_touched = 0, 0
        for member in range(first_member[group], first_member[group + 1]):
            s = int(members[member])
            p = int(starts[s])
            best[p], own[p], origin[p], came[p] = entry[s], 0.0, s, -2
            size = push_heap(heap, keys, size, p, float(entry[s]))
            touched[num_touched] = p
            num_touched += 1
        while size > 0:
            p, key = heap[0], keys[0]
            size = pop_heap(heap, keys, size)
            if key > best[p]:
                continue
            # Showing a pose costs, so its cost is paid on leaving it
            here, mine = float(best[p] + cost[p]), float(own[p] + cost[p])
            ended = phase[p]
            # The end of a phase ends a way: write the edge and trace back its transitions
            if p + 1 == stops[ended]:
                if after[ended] >= 0:
                    if used == len(edge_costs):
                        edges = np.concatenate((edges, np.empty(2 * used, dtype=np.int64)))
                        edge_costs = np.concatenate((edge_costs, np.empty(used)))
                    edges[2 * used], edges[2 * used + 1], edge_costs[used] = origin[p], ended, mine
                    used += 1
                    q = p
                    while came[q] != -2:
                        if written + 2 > len(jumps):
                            jumps = np.concatenate((jumps, np.empty(len(jumps), dtype=np.int64)))
                        if came[q] >= 0:
                            jumps[written] = came[q]
                            written += 1
                            q = leaves[came[q]]
                        else:
                            q -= 1
                    if written + 2 > len(jumps):
                        jumps = np.concatenate((jumps, np.empty(len(jumps), dtype=np.int64)))
                    jumps[written] = -1
                    written += 1
            # On to the next pose of the clip
            elif here < best[p + 1]:
                if best[p + 1] == np.inf:
                    touched[num_touched] = p + 1
                    num_touched += 1
                best[p + 1], own[p + 1], origin[p + 1], came[p + 1] = here, mine, origin[p], -1
                size = push_heap(heap, keys, size, p + 1, here)
            # Or along a transition to a like pose
            for e in range(first[p], first[p + 1]):
                q = target[e]
                there = here + extra[e]
                if there < best[q]:
                    if best[q] == np.inf:
                        touched[num_touched] = q
                        num_touched += 1
                    best[q], own[q], origin[q], came[q] = there, mine + extra[e], origin[p], e
                    size = push_heap(heap, keys, size, q, there)
        for i in range(num_touched):
            best[touched[i]] = np.inf
    table = edges[: 2 * used].reshape(used, 2)
    return PathList(table[:, 0].copy(), table[:, 1].copy(), edge_costs[:used], jumps[:written])


@kernel
def mark_reached(first: IntArray, target: IntArray, ends: IntArray, parts: IntArray) -> IntArray:
    """Ends that can be reached from each part, as bits ``(P, W)``.

    Args:
        first: steps from part p are ``first[p]`` to ``first[p + 1]``.
        target: part to which each leads, none with a larger number.
        ends: part of each end; negative for none.
        parts: those that are looked at, increasing.
    """
    bits = np.zeros((len(first) - 1, len(ends) // WORD_BITS + 1), dtype=np.int64)
    for n in range(len(ends)):
        if ends[n] >= 0:
            bits[ends[n], n // WORD_BITS] |= 1 << (n % WORD_BITS)
    for p in parts:
        for e in range(first[p], first[p + 1]):
            if target[e] != p:
                bits[p] |= bits[target[e]]
    return bits


def count_ways(database: Database, transitions: Transitions) -> int:
    """How many pairs of phases there are of which the end of the second can be reached from the start of the first."""
    import scipy.sparse.csgraph as csgraph
    from scipy.sparse import csr_array

    table, count = database.phases, database.num_poses
    inside = np.flatnonzero(database.phase[1:] == database.phase[:-1])
    source = np.concatenate([inside, transitions.source])
    target = np.concatenate([inside + 1, transitions.target])
    links = csr_array((np.ones(len(source), dtype=bool), (source, target)), shape=(count, count))
    part = np.asarray(cast(Any, csgraph).connected_components(links, directed=True, connection="strong")[1])
    # Poses that reach one another are one part; parts are numbered so that no step leads to a larger number
    source, target = part[source], part[target]
    assert (target <= source).all()
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(int(part.max()) + 2))
    found = 0
    for kind in range(len(database.classes)):
        own = np.flatnonzero(table.kind == kind)
        ends = np.where(table.after[own] >= 0, part[table.stop[own] - 1], -1)
        bits = mark_reached(first, target[order], ends, np.unique(part[np.isin(database.phase, own)]))
        found += int(np.bitwise_count(bits[part[table.start[own]]]).sum())
    return found


COST_FLOOR: Final = 1e-6
EFFORT_UNIT: Final = 1e4  # [(N m)²] a walking body spends about this, so that a second of walking costs about one
WORD_BITS: Final = 63  # of a number without its sign


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
        count = self.jump_first[kept + 1] - self.jump_first[kept]
        first = np.concatenate([[0], np.cumsum(count)])
        # From the first transition of each way on, one after the other
        jump = self.jump[np.repeat(self.jump_first[kept] - first[:-1], count) + np.arange(int(first[-1]))]
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


def cull_transitions(
    database: Database,
    transitions: Transitions,
    settings: GraphSettings,
    group: IntArray | None = None,
    entry: FloatArray | None = None,
) -> PhasePaths:
    """Keep one way between every two states where contacts change: the cheapest ([Safonova2006]_ §4.3.1).

    All ways between two states with one foot planted end at the same place, so nothing is lost. In flight there are
    no transitions, and every flight keeps its own landing.

    Args:
        database: of all poses.
        transitions: between them.
        settings: of the build.
        group: state ``(S,)`` of each phase; a way begins with that phase of a state that is cheapest. By default
            each phase is a state.
        entry: what it costs ``(S,)`` to begin with a phase of its state.
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
    cost, phases = compute_pose_costs(database, settings), np.arange(len(table.start))
    graph = PoseGraph(
        table.start, table.stop, table.after, database.phase, cost, first, transitions.target[order], extra
    )
    state = phases if group is None else group
    members = np.argsort(state, kind="stable")
    bounds = np.searchsorted(state[members], np.arange(int(state.max()) + 2))
    found = find_cheapest_paths(graph, bounds, members, np.zeros(len(phases)) if entry is None else entry)
    # Each way is ended by -1, and written backwards
    lengths = np.diff(np.flatnonzero(np.concatenate([[-1], found.jumps]) == -1)) - 1
    first = np.concatenate([[0], np.cumsum(lengths)])
    jumps = found.jumps[found.jumps >= 0]
    number = np.repeat(np.arange(len(lengths)), lengths)
    forward = first[number] + lengths[number] - 1 - (np.arange(len(jumps)) - first[number])
    return PhasePaths(found.source, found.through, found.cost, first, order[jumps[forward]])


def path_pose_ranges(
    database: Database, transitions: Transitions, ways: PhasePaths, chosen: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Stretches of poses ``[start, stop)`` that ways show, in order: way w has those from ``first[w]`` on.

    Returns:
        ``first`` ``(W + 1,)``, ``start`` and ``stop`` ``(L,)``.
    """
    begin, count = ways.jump_first[chosen], ways.jump_first[chosen + 1] - ways.jump_first[chosen]
    first = np.concatenate([[0], np.cumsum(count + 1)])
    # A way with n transitions has n + 1 stretches: the first begins with its phase, the last ends with the other
    number = np.repeat(np.arange(len(chosen)), count)
    rank = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
    jump, place = ways.jump[begin[number] + rank], first[number] + rank
    start, stop = np.empty(first[-1], dtype=np.int64), np.empty(first[-1], dtype=np.int64)
    start[first[:-1]] = database.phases.start[ways.source[chosen]]
    start[place + 1] = transitions.target[jump]
    stop[first[1:] - 1] = database.phases.stop[ways.through[chosen]]
    stop[place] = transitions.source[jump] + 1
    return first, start, stop
