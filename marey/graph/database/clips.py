"""Clips made ready for a graph: one body, one rate, planted feet that stay, phases, efforts.

Clips are independent of one another, so each can be made ready anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.blending import hold_plants
from marey.dynamics import Body, solve_inverse_dynamics
from marey.graph.database.events import PICKED_PREFIX, calibration_range, lift_pivots, split_events
from marey.graph.database.settings import GraphSettings
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import (
    ContactPhase,
    Contacts,
    Motion,
    StancePlant,
    contact_phases,
    ensure_contacts,
    lowpass,
    mirror,
    resample,
)
from marey.skeleton import contact_points, role_map

GROUNDED: Final = ("left", "right", "double", "flight")
MIRRORED: Final = "~"  # ends the name of a mirrored clip
MIN_FRAMES: Final = 9  # of a clip that can be low-passed


@dataclass(frozen=True, slots=True, eq=False)
class PhaseRun:
    """Consecutive phases of one clip, at the rate of the graph."""

    name: str
    behaviour: str
    roots: FloatArray  # (F, 3) [m]
    wxyz: FloatArray  # (F, J, 4)
    torques: FloatArray  # (F, J, 3) [N m]
    phases: tuple[ContactPhase, ...]  # frames of this run


@dataclass(frozen=True, slots=True, eq=False)
class PreparedClip:
    """Clean phases and remarks of a prepared clip."""

    runs: tuple[PhaseRun, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClipTask:
    """Everything that it takes to make one clip ready."""

    motion: Motion
    body: Body
    settings: GraphSettings
    behaviour: str | None = None
    is_mirrored: bool = False

    def __call__(self) -> PreparedClip:
        """Clean the clip and cut it."""
        notes: list[str] = []
        name = self.motion.name + (MIRRORED if self.is_mirrored else "")
        clip = self._retarget(notes)
        clip = self._clean(clip, notes)
        if clip is None:
            return PreparedClip((), (*notes, f"'{name}' is too short and is left out"))
        # Torques at the full rate, then everything at the rate of the graph
        torques = solve_inverse_dynamics(self.body, clip, contacts=_without_picks(clip.contacts)).torques
        slow = resample(clip, self.settings.rate_hz)
        at = np.minimum(np.rint(slow.times() * clip.rate_hz).astype(np.int64), clip.num_frames - 1)
        phases = split_events(slow, contact_phases(slow), self.settings.pick_height_m)
        # Runs of at least two phases with feet on the ground or in flight, and hands free
        grounded: list[list[ContactPhase]] = [[]]
        for phase in phases:
            hands = any(name.endswith("hand") for name in phase.planted if not name.startswith(PICKED_PREFIX))
            if phase.kind in GROUNDED and not hands:
                grounded[-1].append(phase)
            elif grounded[-1]:
                grounded.append([])
        runs = [run for run in grounded if len(run) >= 2]
        if not runs:
            notes.append(f"'{name}' has fewer than two clean phases and is left out")
        made = tuple(self._run(name, n, slow, torques[at], run) for n, run in enumerate(runs))
        return PreparedClip(made, tuple(notes))

    def _retarget(self, notes: list[str]) -> Motion:
        clip = ensure_contacts(self.motion)
        clip = mirror(clip) if self.is_mirrored else clip
        if clip.skeleton.names != self.body.skeleton.names or not _is_same_body(clip, self.body):
            clip = replace(retarget(clip, self.body.skeleton), contacts=_captured_contacts(clip.contacts, self.body))
            notes.append(f"'{self.motion.name}' was retargeted to the body of the first clip")
        return self.body.motion(clip)

    def _clean(self, clip: Motion, notes: list[str]) -> Motion | None:
        start, stop = calibration_range(clip)
        if (start, stop) != (0, clip.num_frames):
            seconds = (clip.num_frames - stop + start) / clip.rate_hz
            notes.append(f"'{self.motion.name}' lost {seconds:.2f} s with the arms held out")
            clip = clip[start:stop]
        if clip.num_frames < MIN_FRAMES:
            return None
        if self.settings.cutoff_hz < 0.5 * clip.rate_hz:
            clip = lowpass(clip, self.settings.cutoff_hz)
        return hold_plants(lift_pivots(clip, self.settings.max_residual_m))

    def _run(self, name: str, number: int, motion: Motion, torques: FloatArray, phases: list[ContactPhase]) -> PhaseRun:
        first, last = phases[0].start, phases[-1].stop
        moved = tuple(replace(p, start=p.start - first, stop=p.stop - first) for p in phases)
        return PhaseRun(
            name if number == 0 else f"{name}#{number + 1}",
            classify_behaviour(phases) if self.behaviour is None else self.behaviour,
            motion.root_positions[first:last],
            motion.rotations.wxyz[first:last],
            torques[first:last],
            moved,
        )


def _without_picks(contacts: Contacts | None) -> Contacts | None:
    """A contact track without picks, which carry no load."""
    if contacts is None:
        return None
    kept = [n for n, name in enumerate(contacts.names) if not name.startswith(PICKED_PREFIX)]
    return Contacts(tuple(contacts.names[n] for n in kept), contacts.active[:, kept])


def _captured_contacts(contacts: Contacts | None, body: Body) -> Contacts | None:
    """Contacts of the clip before it was retargeted, of points that the body has; they are what was captured."""
    if contacts is None:
        return None
    known = contact_points(body.skeleton).names
    kept = [n for n, name in enumerate(contacts.names) if name in known or name.startswith(PICKED_PREFIX)]
    return Contacts(tuple(contacts.names[n] for n in kept), contacts.active[:, kept])


def _is_same_body(motion: Motion, body: Body) -> bool:
    """Whether the legs are as long as the body's, to a millimetre; bones that a file lost were put back in the body."""
    roles = role_map(motion.skeleton)
    legs = [roles[f"{side}_{part}"] for side in ("left", "right") for part in ("knee", "ankle")]
    lengths = [np.linalg.norm(s.offsets[legs], axis=1) for s in (motion.skeleton, body.skeleton)]
    return bool(np.abs(lengths[0] - lengths[1]).max() < 1e-3)


def classify_behaviour(phases: Sequence[ContactPhase]) -> str:
    """What happens in a run: "pick", "jump" or "walk"; a run has flights too, but all of them from one foot to one."""
    if any(name.startswith(PICKED_PREFIX) for phase in phases for name in phase.planted):
        return "pick"
    flights = [n for n, phase in enumerate(phases) if phase.kind == "flight"]
    near = [phases[m].kind for n in flights for m in (n - 1, n + 1) if 0 <= m < len(phases)]
    if not flights:
        return "walk"
    return "run" if len(flights) > 1 and "double" not in near else "jump"


Progress = Callable[[int, int], None]
NO_NEXT_PHASE: Final = -1  # no next phase
TORQUE_SCORES: Final = 24  # numbers that represent the torques of a pose


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


def make_clip_tasks(
    motions: Sequence[Motion], settings: GraphSettings, behaviours: Mapping[str, str] | None = None
) -> list[ClipTask]:
    """One task for each clip, and one for its mirror image if the settings ask for it ([Safonova2006]_ F2, F3).

    Lost bones are put back, clips of another skeleton are retargeted to that of the first, arms-out poses at the ends
    are cut away, all clips are low-passed, their planted feet held still (a foot that pivots is lifted for that time),
    resampled, and cut where a foot lands, leaves, a hand picks something up or the body comes to stand.
    """
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
        raise InputError("no clip has two clean phases", "Give clips with walks or jumps")
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
            feet = np.full((2, 3), np.nan)
            for plant in phase.plants:
                feet[("left", "right").index(plant.foot)] = _plant_position(plant)
            anchor = _anchor_foot(phase, anchor, run.roots)
            planted = phase.planted
            if planted not in self.classes:
                self.classes.append(planted)
            kind = self.classes.index(planted)
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
