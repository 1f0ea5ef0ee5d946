"""Events that no transition reaches or leaves are joined to the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._database import NO_NEXT_PHASE, Database
from marey.graph._events import PICKED_PREFIX
from marey.graph._links import largest_component
from marey.graph._settings import GraphSettings
from marey.graph._transitions import PoseMetric, Transitions, has_successor

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
    main = _in_main_component(database, transitions)
    lost = [int(s) for s in event_phases(database) if not main[database.phases.start[s]]]
    added: list[tuple[IntArray, IntArray, FloatArray]] = []
    notes: list[str] = []
    joiner = _EventLinker(database, metric, main, settings.reach * transitions.threshold)
    for phase in lost:
        links = joiner.links(phase)
        if links is None:
            clip = database.clips[database.clip[database.phases.start[phase]]]
            what = "a flight" if not database.classes[database.phases.kind[phase]] else "a pick"
            note = f"{what} of '{clip}' is like nothing else and is left out"
            notes += [note] if note not in notes else []
        else:
            added += links
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


def _in_main_component(database: Database, transitions: Transitions) -> BoolArray:
    """Whether each pose is in the largest part of the full graph in which everything reaches everything."""
    own = np.flatnonzero(database.clip[1:] == database.clip[:-1])
    source = np.concatenate([own, transitions.source])
    target = np.concatenate([own + 1, transitions.target])
    main = np.zeros(database.num_poses, dtype=bool)
    main[largest_component(source, target, database.num_poses)] = True
    return main


class _EventLinker:
    def __init__(self, database: Database, metric: PoseMetric, main: BoolArray, limit: float) -> None:
        self._database, self._metric, self._main, self._limit = database, metric, main, limit
        self._inner = has_successor(database)
        table = database.phases
        self._before = np.full(len(table.start), NO_NEXT_PHASE)
        self._before[table.after[table.after >= 0]] = np.flatnonzero(table.after >= 0)

    def links(self, phase: int) -> list[tuple[IntArray, IntArray, FloatArray]] | None:
        """Transitions that lead to and from a lost event; none if it is too far from everything."""
        table = self._database.phases
        onward, back = _phase_chain(phase, table.after), _phase_chain(int(self._before[phase]), self._before)
        leave = [] if self._reaches(onward) else self._nearest(onward, is_entry=False)
        enter = [] if self._reaches(back) else self._nearest(back, is_entry=True)
        return None if leave is None or enter is None else [*leave, *enter]

    def _reaches(self, chain: list[int]) -> bool:
        table = self._database.phases
        return any(self._main[table.start[s] : table.stop[s]].any() for s in chain)

    def _nearest(self, chain: list[int], *, is_entry: bool) -> list[tuple[IntArray, IntArray, FloatArray]] | None:
        """The nearest links between the phases of a clip and poses of the main part."""
        database = self._database
        best: list[tuple[float, int, int]] = []
        for s in chain:
            inside = slice(int(database.phases.start[s]), int(database.phases.stop[s]))
            own = inside.start + np.flatnonzero(self._inner[inside])
            kind = int(database.phases.kind[s])
            others = np.flatnonzero(self._main & self._inner & (database.phases.kind[database.phase] == kind))
            if not database.classes[kind] or not len(own) or not len(others):
                continue
            D = self._metric.between(own, others)
            for at in np.argsort(D, axis=None, kind="stable")[:LINKS].tolist():
                row, column = divmod(int(at), len(others))
                best.append((float(D[row, column]), int(own[row]), int(others[column])))
        best = sorted(b for b in best if b[0] < self._limit)[:LINKS]
        if not best:
            return None
        far = np.array([b[0] for b in best])
        mine, theirs = (np.array([b[k] for b in best], dtype=np.int64) for k in (1, 2))
        return [(theirs, mine + 1, far) if is_entry else (mine, theirs + 1, far)]


def _phase_chain(phase: int, step: IntArray) -> list[int]:
    """A phase and those that follow it (or come before it) in its clip."""
    found: list[int] = []
    while phase >= 0:
        found.append(phase)
        phase = int(step[phase])
    return found
