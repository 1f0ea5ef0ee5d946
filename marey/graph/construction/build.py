"""From clips to a motion graph: states and edges that are kept.

Alike states become one, and of edges that lead much the same way the cheapest stay. Events that no transition reaches
or leaves are joined to the rest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError
from marey.graph.algorithms import cluster_complete_linkage, largest_component, select_cheapest
from marey.graph.arrays import compose_planar, to_frame
from marey.graph.construction.event_tables import EVENT_KINDS, event_table
from marey.graph.construction.jobs import IsCancelled, run_clip_tasks
from marey.graph.construction.layout import CompactParts, anchor_displacements, make_arrays
from marey.graph.database.clips import NO_NEXT_PHASE, Database, Progress, gather_database, make_clip_tasks
from marey.graph.database.compact import count_ways, cull_transitions, median_step_cost
from marey.graph.database.events import PICKED_PREFIX
from marey.graph.database.neighbours import list_pairs_within, measure_rounding
from marey.graph.database.pose_metric import PoseMetric
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import PosePairs, Transitions, find_transitions, has_successor
from marey.graph.motion_graph import GraphSize, MotionGraph
from marey.motion import Motion


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
        # Flights, picks and single phases stay on their own
        is_event = not planted or any(name.startswith(PICKED_PREFIX) for name in planted)
        if is_event or len(own) < 2 or settings.merge == 0.0:
            group[own] = used + np.arange(len(own))
            used += len(own)
            continue
        # Complete linkage on symmetric distances
        one_way = metric.between(table.start[own], table.start[own])
        D = 0.5 * (one_way + one_way.T)
        np.fill_diagonal(D, 0.0)
        labels = cluster_complete_linkage(D, settings.merge * threshold)
        group[own] = used + labels
        used += int(labels.max()) + 1
        for label in range(int(labels.max()) + 1):
            # The middle of a group has the least sum of distances to the others
            members = np.flatnonzero(labels == label)
            middle = members[int(np.argmin(D[np.ix_(members, members)].sum(axis=1)))]
            gap[own[members]] = D[members, middle]
    return group, gap


LINKS = 3  # transitions that join a lost event, on either side


def event_phases(database: Database) -> IntArray:
    """Phases that begin with a pick, and flights."""
    wanted = np.array([not planted or planted[-1].startswith(PICKED_PREFIX) for planted in database.classes])
    return np.flatnonzero(wanted[database.phases.kind])


def rescue_events(
    database: Database, transitions: Transitions, settings: GraphSettings, metric: PoseMetric
) -> tuple[Transitions, tuple[str, ...]]:
    """Add the nearest transitions to and from events outside the largest strong component.

    Each is priced by its distance like any other. Pairs farther than ``reach`` thresholds are not joined, and the event
    is named in the notes.
    """
    # Poses of the largest strong component of the full graph
    table = database.phases
    own = np.flatnonzero(database.clip[1:] == database.clip[:-1])
    tails = np.concatenate([own, transitions.source])
    heads = np.concatenate([own + 1, transitions.target])
    main = np.zeros(database.num_poses, dtype=bool)
    main[largest_component(tails, heads, database.num_poses)] = True
    before = np.full(len(table.start), NO_NEXT_PHASE)
    before[table.after[table.after >= 0]] = np.flatnonzero(table.after >= 0)
    added: list[PosePairs] = []
    notes: list[str] = []
    limit = settings.reach * transitions.threshold
    search = NearestLinks(database, metric, main)
    for phase in [int(s) for s in event_phases(database) if not main[table.start[s]]]:
        links: list[PosePairs | None] = []
        for first, step, is_entry in ((phase, table.after, False), (int(before[phase]), before, True)):
            # Phases of the clip from the event on (or back); a link is needed unless one of them is in the main part
            chain = list[int]()
            while first >= 0:
                chain.append(first)
                first = int(step[first])
            if not any(main[table.start[s] : table.stop[s]].any() for s in chain):
                links.append(search.find(chain, limit, is_entry=is_entry))
        if any(link is None for link in links):
            clip = database.clips[database.clip[table.start[phase]]]
            what = "a flight" if not database.classes[table.kind[phase]] else "a pick"
            note = f"{what} of '{clip}' is similar to no other clip and is left out"
            notes += [note] if note not in notes else []
        else:
            added += [link for link in links if link is not None]
    if not added:
        return transitions, tuple(notes)
    source, target, D = (np.concatenate([p[k] for p in added]) for k in range(3))
    key = np.unique(np.stack([source, target]), axis=1, return_index=True)[1]
    return replace(
        transitions,
        source=np.concatenate([transitions.source, source[key]]),
        target=np.concatenate([transitions.target, target[key]]),
        distance=np.concatenate([transitions.distance, D[key]]),
    ), tuple(notes)


class NearestLinks:
    """The nearest transitions between phases and poses of the main part; each phase is compared once."""

    def __init__(self, database: Database, metric: PoseMetric, main: BoolArray) -> None:
        self._database, self._metric, self._margin = database, metric, measure_rounding(metric)
        self._inner = has_successor(database)
        self._kinds = database.phases.kind[database.phase]
        self._main = np.flatnonzero(main & self._inner)
        self._others = dict[int, IntArray]()  # poses of the main part, by class
        self._nearest = dict[int, list[tuple[float, int, int]]]()  # by phase: distance, own pose, pose of the main part

    def find(self, chain: list[int], limit: float, *, is_entry: bool) -> PosePairs | None:
        """The nearest transitions of some phases, from the main part or to it; None if none is within the limit."""
        best = sorted(link for s in chain for link in self._compare(s) if link[0] < limit)[:LINKS]
        if not best:
            return None
        far = np.array([b[0] for b in best])
        mine, theirs = (np.array([b[k] for b in best], dtype=np.int64) for k in (1, 2))
        return (theirs, mine + 1, far) if is_entry else (mine, theirs + 1, far)

    def _compare(self, phase: int) -> list[tuple[float, int, int]]:
        if phase in self._nearest:
            return self._nearest[phase]
        table = self._database.phases
        start, kind = int(table.start[phase]), int(table.kind[phase])
        if kind not in self._others:
            self._others[kind] = self._main[self._kinds[self._main] == kind]
        # Poses of the phase, and poses of the same class in the main part
        own, others = start + np.flatnonzero(self._inner[start : int(table.stop[phase])]), self._others[kind]
        links = list[tuple[float, int, int]]()
        if self._database.classes[kind] and len(own) and len(others):
            # No distance is below that of the coordinates: those that may be among the nearest are compared
            mine, theirs = self._metric.coordinates[own], self._metric.coordinates[others]
            rows, columns = list_pairs_within(mine, theirs, np.inf, LINKS)
            most = float(self._metric.of_pairs(own[rows], others[columns]).max()) + self._margin
            rows, columns = list_pairs_within(mine, theirs, most, 0)
            D = self._metric.of_pairs(own[rows], others[columns])
            # The first of equal distances come first
            for at in np.argsort(D, kind="stable")[:LINKS].tolist():
                links.append((float(D[at]), int(own[rows[at]]), int(others[columns[at]])))
        self._nearest[phase] = links
        return links


def _rank_in_groups(group: IntArray, cost: FloatArray) -> IntArray:
    """Place of each row among those of its group, cheapest first."""
    order = np.lexsort((cost, group))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    return ranks


FLIGHT_BIN: Final = 1000  # number of the bin of a landing straight ahead


def build_graph(
    motions: Sequence[Motion],
    *,
    behaviours: Mapping[str, str] | None = None,
    workers: int = 1,
    cluster: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    on_progress: Progress | None = None,
    cancel: IsCancelled | None = None,
    **settings: Any,
) -> MotionGraph:
    """Build the motion graph of clips ([Safonova2006]_ ch. 4); the same clips and settings make the same graph.

    Args:
        motions: clips; the first gives the body.
        behaviours: behaviour of each clip by name; by default what happens in it: "pick", "jump", "run" or "walk".
        workers: processes that make clips ready.
        cluster: address of a Dask scheduler, ``tcp://host:port``, that does it in their place.
        resume: folder of prepared clips, from which an interrupted build continues.
        on_progress: called with how many clips are ready, of how many.
        cancel: asked between clips whether to stop.
        **settings: those of :class:`GraphSettings`.

    Raises:
        InputError: settings that make no sense, no clips, or clips that do not flow into one another.
        BuildCancelledError: ``cancel`` said so.
    """
    known = {field.name for field in fields(GraphSettings)}
    for name in settings:
        if name not in known:
            raise UnknownNameError("setting", name, "a graph", tuple(sorted(known)))
    chosen = GraphSettings(**settings)
    tasks = make_clip_tasks(motions, chosen, behaviours)
    clips = run_clip_tasks(
        tasks, workers=workers, cluster=cluster, resume=resume, on_progress=on_progress, cancel=cancel
    )
    return assemble_graph(gather_database(clips, tasks[0].body, chosen), chosen)


def assemble_graph(database: Database, settings: GraphSettings) -> MotionGraph:
    """Find transitions, keep the cheapest ways, merge states, and keep what can be left and reached.

    Raises:
        InputError: no two poses are alike, or the clips do not flow into one another.
    """
    # Transitions between like poses, with those that events need
    metric = PoseMetric(database, settings)
    transitions = find_transitions(database, settings, metric)
    transitions, notes = rescue_events(database, transitions, settings, metric)
    # States that are alike become one, and what a phase is off the middle of its state is paid for
    group, gap = merge_states(database, settings, metric, transitions.threshold)
    price = settings.gap_share * settings.transition_weight * median_step_cost(database, settings) / transitions.scale
    # Cheapest ways between contact changes; of parallel edges the cheapest and some that differ stay
    ways = cull_transitions(database, transitions, settings, group, price * gap)
    num_ways = count_ways(database, transitions) if settings.culling == "dijkstra" else len(ways.source)
    after = database.phases.after[ways.through]
    cost = ways.cost + price * (gap[ways.source] + gap[after])
    # Edges that move a planted foot: by centimetres at a price, farther not at all, for that would take a step
    table, displacements = database.phases, anchor_displacements(database, ways)
    middle = np.lexsort((gap, group))[np.searchsorted(np.sort(group), np.arange(int(group.max()) + 1))]
    feet = to_frame(table.feet[middle], table.anchor[middle][:, None])
    # How far the clips move a foot that is planted at both ends of an edge (E,) [m]; see `keep_planted_feet`
    moved = np.linalg.norm(
        (compose_planar(displacements[:, None], feet[group[after]]) - feet[group[ways.source]])[..., :2], axis=2
    )
    moved_m = np.nan_to_num(moved).max(axis=1)
    cost = cost + settings.foot_price * moved_m
    # Flights that land in other directions are no parallel edges
    flights = np.array([not planted for planted in database.classes])[database.phases.kind[ways.source]]
    landing = np.where(flights, np.floor(displacements[:, 2] / settings.yaw_bin_rad).astype(np.int64) + FLIGHT_BIN, 0)
    allowed = np.flatnonzero(moved_m <= settings.max_foot_jump_m)
    keys = [group[ways.source][allowed], group[after][allowed], landing[allowed]]
    kept = allowed[select_cheapest(keys, cost[allowed])]
    # Edges that stay: all to and from events, the cheapest of a state, and the cheapest of each direction
    if settings.step_bin_m != 0.0 and settings.turn_bin_rad != 0.0:
        source, reached = group[ways.source[kept]], table.after[ways.through[kept]]
        # Anchor of the next phase in the frame of each phase's; zero at the ends of clips
        step = to_frame(table.anchor[table.after], table.anchor)
        step = np.where((table.after == NO_NEXT_PHASE)[:, None], 0.0, step)
        ahead = compose_planar(displacements[kept], step[reached])
        bins = [np.floor(ahead[:, k] / settings.step_bin_m).astype(np.int64) for k in (0, 1)]
        bins.append(np.floor(ahead[:, 2] / settings.turn_bin_rad).astype(np.int64))
        stay = np.zeros(len(kept), dtype=bool)
        stay[select_cheapest([source, table.kind[reached], *bins], cost[kept])] = True
        stay |= _rank_in_groups(source, cost[kept]) < settings.spare
        events = event_phases(database)
        stay |= np.isin(ways.source[kept], events) | np.isin(reached, events)
        # The cheapest edges into a state stay, or it could be lost
        stay |= _rank_in_groups(group[reached], cost[kept]) < 2
        kept = kept[stay]
    source, target = group[ways.source[kept]], group[after[kept]]
    # Only the largest strong component: every state can be left and reached
    count = int(group.max()) + 1
    states = largest_component(source, target, count)
    number = np.full(count, -1, dtype=np.int64)
    number[states] = np.arange(len(states))
    inside = (number[source] >= 0) & (number[target] >= 0)
    if len(states) < 2 or not inside.any():
        raise InputError("there are no transitions between the clips", "Raise `density` or `cross`, or add clips")
    # Edges in the order of the states that they leave, then arrays and tables
    kept = kept[inside]
    kept = kept[np.argsort(number[group[ways.source[kept]]], kind="stable")]
    # Members of each state, the most central first
    grouped = (np.flatnonzero(group == state) for state in states)
    members = tuple(own[np.argsort(gap[own], kind="stable")] for own in grouped)
    parts = CompactParts(database, transitions, ways, kept, number[group], cost, members)
    arrays = make_arrays(parts, settings)._replace(way=np.arange(len(kept)))
    tables = {kind: event_table(kind, arrays) for kind in EVENT_KINDS}
    size = GraphSize(
        database.num_poses, transitions.num_like, len(transitions.source), len(database.phases.start), num_ways
    )
    told = (*database.notes, *notes)
    return MotionGraph(settings, database, transitions, ways.select(kept), arrays, members, tables, size, told)
