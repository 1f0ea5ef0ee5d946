"""Clips made ready for a graph: one body, one rate, planted feet that stay, phases, efforts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.dynamics import Body
from marey.graph._database_clip import ClipTask, PhaseRun, PreparedClip
from marey.graph._settings import GraphSettings
from marey.lie import SO3
from marey.motion import ContactPhase, Motion, StancePlant

Progress = Callable[[int, int], None]
NO_NEXT_PHASE: Final = -1  # no next phase
TORQUE_SCORES: Final = 24  # numbers that stand for the torques of a pose


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """P poses of all clips in one table, cut into phases."""

    body: Body
    rate_hz: float
    clips: tuple[str, ...]  # names
    behaviours: tuple[str, ...]  # of each clip
    classes: tuple[tuple[str, ...], ...]  # planted feet (trailing first), hands, events; by class number
    roots: FloatArray  # (P, 3) [m]
    wxyz: FloatArray  # (P, J, 4) local rotations
    effort: FloatArray  # (P,) [(N m)²] sum of squared torques
    clip: IntArray  # (P,)
    phase: IntArray  # (P,) number of the phase; every pose belongs to one
    phases: PhaseTable
    torque: FloatArray  # (P, TORQUE_SCORES) [N m] torques of the joints in their main directions
    notes: tuple[str, ...] = ()

    @property
    def num_poses(self) -> int:
        """How many poses there are."""
        return len(self.roots)

    def motion(self, start: int, stop: int) -> Motion:
        """Poses ``start`` to ``stop`` (not included) of one clip as a motion."""
        return Motion(self.body.skeleton, self.rate_hz, self.roots[start:stop], SO3(self.wxyz[start:stop]))


@dataclass(frozen=True, slots=True, eq=False)
class PhaseTable:
    """S phases, one row each."""

    start: IntArray  # (S,) first pose
    stop: IntArray  # (S,) pose after the last one, in the same clip
    kind: IntArray  # (S,) class number
    after: IntArray  # (S,) next phase of the clip, LAST if there is none
    anchor: FloatArray  # (S, 3) x, z [m] and yaw [rad] of the foot that landed last
    feet: FloatArray  # (S, 2, 3) the same of left and right foot; NaN where not planted

    def __post_init__(self) -> None:
        count = len(self.start)
        for name in ("start", "stop", "kind", "after"):
            object.__setattr__(self, name, frozen_ints(getattr(self, name), count, name=name))
        object.__setattr__(self, "anchor", frozen(self.anchor, count, 3, name="anchor"))


def prepare_clips(
    motions: Sequence[Motion],
    settings: GraphSettings | None = None,
    *,
    behaviours: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> Database:
    """Make clips ready for a graph ([Safonova2006]_ F2, F3).

    Lost bones are put back, clips of another skeleton are retargeted to that of the first, arms-out poses at the ends
    are cut away, all clips are low-passed, their planted feet held still (a foot that pivots is lifted for that time),
    resampled, and cut where a foot lands, leaves, a hand picks something up or the body comes to stand.

    Args:
        motions: clips; the first gives the body.
        settings: thresholds.
        behaviours: behaviour of each clip by name; by default what happens in it: "pick", "jump", "run" or "walk".
        on_progress: called with how many clips are done, of how many.

    Raises:
        InputError: no clip has two phases.
    """
    settings = GraphSettings() if settings is None else settings
    tasks = make_clip_tasks(motions, settings, behaviours)
    done: list[PreparedClip] = []
    for number, task in enumerate(tasks):
        done.append(task())
        if on_progress is not None:
            on_progress(number + 1, len(tasks))
    return gather_database(done, tasks[0].body, settings)


def make_clip_tasks(
    motions: Sequence[Motion], settings: GraphSettings, behaviours: Mapping[str, str] | None = None
) -> list[ClipTask]:
    """One task for each clip, and one for its mirror image if the settings ask for it."""
    if not motions:
        raise InputError("a graph of no clips", "Give at least one motion")
    body = Body.from_motion(motions[0])
    known = dict(behaviours or {})
    sides = (False, True) if settings.mirror else (False,)
    return [ClipTask(m, body, settings, known.get(m.name), side) for m in motions for side in sides]


def gather_database(clips: Iterable[PreparedClip], body: Body, settings: GraphSettings) -> Database:
    """Everything that clips gave, in one table."""
    rows, notes = _DatabaseBuilder(), list[str]()
    for clip in clips:
        notes += [note for note in clip.notes if note not in notes]
        for run in clip.runs:
            rows.add(run)
    if not rows.names:
        raise InputError("no clip has two clean phases", "Give clips in which somebody walks or jumps")
    torques = np.concatenate(rows.torques).reshape(len(np.concatenate(rows.roots)), -1)
    return Database(
        body=body,
        rate_hz=settings.rate_hz,
        clips=tuple(rows.names),
        behaviours=tuple(rows.behaviours),
        classes=tuple(rows.classes),
        roots=frozen(np.concatenate(rows.roots), None, 3, name="roots"),
        wxyz=frozen(np.concatenate(rows.wxyz), None, None, 4, name="wxyz"),
        effort=frozen((torques**2).sum(axis=1), None, name="effort"),
        clip=frozen_ints(np.concatenate(rows.clip), None, name="clip"),
        phase=frozen_ints(np.concatenate(rows.phase), None, name="phase"),
        phases=rows.table(),
        torque=frozen(project_principal(torques, TORQUE_SCORES), None, None, name="torque"),
        notes=tuple(notes),
    )


def project_principal(rows: FloatArray, count: int) -> FloatArray:
    """Rows ``(n, m)`` in the ``count`` directions that keep their dot products best, about zero ``(n, count)``."""
    _, directions = np.linalg.eigh(rows.T @ rows)
    kept = directions[:, ::-1][:, : min(count, rows.shape[1])]
    scores = rows @ kept
    missing = count - scores.shape[1]
    return np.concatenate([scores, np.zeros((len(rows), missing))], axis=1) if missing > 0 else scores


class _DatabaseBuilder:
    """Grows the tables run by run."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.behaviours: list[str] = []
        self.roots: list[FloatArray] = []
        self.wxyz: list[FloatArray] = []
        self.torques: list[FloatArray] = []
        self.clip: list[IntArray] = []
        self.phase: list[IntArray] = []
        self.classes: list[tuple[str, ...]] = []
        self._phases: list[tuple[int, int, int, int, FloatArray, FloatArray]] = []
        self._poses = 0

    def add(self, run: PhaseRun) -> None:
        """Add the poses of consecutive phases of one clip."""
        anchor = np.zeros(3)
        for k, phase in enumerate(run.phases):
            feet = _planted_positions(phase)
            anchor = _anchor_foot(phase, anchor, run.roots)
            kind = self._class(phase.planted)
            after = len(self._phases) + 1 if k + 1 < len(run.phases) else NO_NEXT_PHASE
            self.phase.append(np.full(len(phase), len(self._phases), dtype=np.int64))
            self._phases.append((phase.start + self._poses, phase.stop + self._poses, kind, after, anchor, feet))
        self.roots.append(run.roots)
        self.wxyz.append(run.wxyz)
        self.torques.append(run.torques)
        self.clip.append(np.full(len(run.roots), len(self.names), dtype=np.int64))
        self.names.append(run.name)
        self.behaviours.append(run.behaviour)
        self._poses += len(run.roots)

    def _class(self, planted: tuple[str, ...]) -> int:
        if planted not in self.classes:
            self.classes.append(planted)
        return self.classes.index(planted)

    def table(self) -> PhaseTable:
        """The phases of all clips."""
        start, stop, kind, after, anchor, feet = zip(*self._phases, strict=True)
        return PhaseTable(
            np.array(start), np.array(stop), np.array(kind), np.array(after), np.array(anchor), np.array(feet)
        )


def _anchor_foot(phase: ContactPhase, before: FloatArray, roots: FloatArray) -> FloatArray:
    """The foot that landed last; in flight the last one to leave."""
    if phase.plants:
        return _plant_position(phase.plants[-1])
    if before.any():
        return before
    root = roots[phase.start]
    return np.array([root[0], root[2], 0.0])


def _plant_position(plant: StancePlant) -> FloatArray:
    return np.array([plant.position[0], plant.position[2], plant.yaw_rad])


def _planted_positions(phase: ContactPhase) -> FloatArray:
    feet = np.full((2, 3), np.nan)
    for plant in phase.plants:
        feet[("left", "right").index(plant.foot)] = _plant_position(plant)
    return feet
