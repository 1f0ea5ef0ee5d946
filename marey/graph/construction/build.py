"""From clips to a motion graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.graph.algorithms import largest_component, select_cheapest
from marey.graph.construction.culling import merge_states, rescue_events, select_diverse_edges
from marey.graph.construction.event_tables import EVENT_KINDS, event_table
from marey.graph.construction.jobs import IsCancelled, run_clip_tasks
from marey.graph.construction.layout import CompactParts, anchor_displacements, make_arrays
from marey.graph.database.clips import Database, Progress, gather_database, make_clip_tasks
from marey.graph.database.compact import cull_transitions, median_step_cost
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import PoseMetric, find_transitions
from marey.graph.motion_graph import GraphSize, MotionGraph
from marey.motion import Motion

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
    # Cheapest ways between contact changes, then states that are alike become one
    ways = cull_transitions(database, transitions, settings)
    group, gap = merge_states(database, settings, metric, transitions.threshold)
    # What a merged state is off is paid for; of parallel edges the cheapest and some that differ stay
    after = database.phases.after[ways.through]
    price = settings.gap_share * settings.transition_weight * median_step_cost(database, settings) / transitions.scale
    cost = ways.cost + price * (gap[ways.source] + gap[after])
    # Flights that land in other directions are no parallel edges
    flights = np.array([not planted for planted in database.classes])[database.phases.kind[ways.source]]
    yaw = anchor_displacements(database, ways)[:, 2]
    landing = np.where(flights, np.floor(yaw / settings.yaw_bin_rad).astype(np.int64) + FLIGHT_BIN, 0)
    kept = select_cheapest([group[ways.source], group[after], landing], cost)
    kept = select_diverse_edges(database, ways, kept, group, cost, settings)
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
        database.num_poses, transitions.num_like, len(transitions.source), len(database.phases.start), len(ways.source)
    )
    told = (*database.notes, *notes)
    return MotionGraph(settings, database, transitions, ways.select(kept), arrays, members, tables, size, told)
