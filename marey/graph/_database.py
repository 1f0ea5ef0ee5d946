"""Clips made ready for a graph: one body, one rate, planted feet that stay, phases, efforts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.blending import hold_plants
from marey.dynamics import Body, inverse_dynamics
from marey.graph._events import PICKED, split_picks
from marey.graph._settings import GraphSettings
from marey.kinematics import retarget
from marey.motion import Motion, Phase, Plant, contact_phases, lowpass, mirror, resample, with_contacts
from marey.skeleton import role_map

Progress = Callable[[int, int], None]
LAST: Final = -1  # no next phase
GROUNDED: Final = ("left", "right", "double", "flight")


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
    notes: tuple[str, ...] = ()

    @property
    def num_poses(self) -> int:
        """How many poses there are."""
        return len(self.roots)

    def motion(self, start: int, stop: int) -> Motion:
        """Poses ``start`` to ``stop`` (not included) of one clip as a motion."""
        from marey.lie import SO3

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


def prepare(
    motions: Sequence[Motion],
    settings: GraphSettings | None = None,
    *,
    behaviours: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> Database:
    """Make clips ready for a graph ([Safonova2006]_ F2, F3).

    Lost bones are put back, clips of another skeleton are retargeted to that of the first, all are low-passed, their
    planted feet held still, resampled, and cut where a foot lands, leaves, or a hand picks something up.

    Args:
        motions: clips; the first gives the body.
        settings: thresholds.
        behaviours: behaviour of each clip by name; by default what happens in it: "pick", "jump" or "walk".
        on_progress: called with how many clips are done, of how many.

    Raises:
        InputError: no clip has two phases.
    """
    settings = GraphSettings() if settings is None else settings
    if not motions:
        raise InputError("a graph of no clips", "Give at least one motion")
    body = Body.from_motion(motions[0])
    todo = [m for motion in motions for m in ((motion, _mirrored(motion)) if settings.mirror else (motion,))]
    gatherer = _Gatherer(body, settings, dict(behaviours or {}))
    for number, motion in enumerate(todo):
        gatherer.add(motion)
        if on_progress is not None:
            on_progress(number + 1, len(todo))
    return gatherer.database()


def _mirrored(motion: Motion) -> Motion:
    return replace(mirror(with_contacts(motion)), name=f"{motion.name}~")


class _Gatherer:
    def __init__(self, body: Body, settings: GraphSettings, behaviours: dict[str, str]) -> None:
        self._body, self._settings, self._behaviours = body, settings, behaviours
        self._clips: list[tuple[str, str, Motion, FloatArray, list[Phase]]] = []
        self._notes: list[str] = []

    def add(self, motion: Motion) -> None:
        """Clean one clip and cut it."""
        settings, body = self._settings, self._body
        clip = with_contacts(motion)
        if clip.skeleton.names != body.skeleton.names or not _is_same_body(clip, body):
            clip = retarget(clip, body.skeleton)
            self._notes.append(f"'{motion.name}' was retargeted to the body of the first clip")
        clip = body.motion(clip)
        if settings.cutoff_hz < 0.5 * clip.rate_hz and clip.num_frames > 8:
            clip = lowpass(clip, settings.cutoff_hz)
        clip = hold_plants(clip)
        torques = inverse_dynamics(body, clip, contacts=clip.contacts).torques
        effort = (torques**2).sum(axis=(1, 2))
        slow = resample(clip, settings.rate_hz)
        at = np.minimum(np.rint(slow.times() * clip.rate_hz).astype(np.int64), clip.num_frames - 1)
        phases = split_picks(slow, contact_phases(slow), settings.pick_height_m)
        kept = _longest_good(phases, settings.max_residual_m)
        if len(kept) < 2:
            self._notes.append(f"'{motion.name}' has fewer than two clean phases and is left out")
            return
        behaviour = self._behaviours.get(motion.name.rstrip("~"), _behaviour(kept))
        self._clips.append((motion.name, behaviour, slow, effort[at], kept))

    def database(self) -> Database:
        """Everything gathered, in one table."""
        if not self._clips:
            raise InputError("no clip has two clean phases", "Give clips in which somebody walks or jumps")
        rows = _Rows()
        for number, (_, _, motion, effort, phases) in enumerate(self._clips):
            rows.add(number, motion, effort, phases)
        return Database(
            body=self._body,
            rate_hz=self._settings.rate_hz,
            clips=tuple(name for name, *_ in self._clips),
            behaviours=tuple(behaviour for _, behaviour, *_ in self._clips),
            classes=tuple(rows.classes),
            roots=frozen(np.concatenate(rows.roots), None, 3, name="roots"),
            wxyz=frozen(np.concatenate(rows.wxyz), None, None, 4, name="wxyz"),
            effort=frozen(np.concatenate(rows.effort), None, name="effort"),
            clip=frozen_ints(np.concatenate(rows.clip), None, name="clip"),
            phase=frozen_ints(np.concatenate(rows.phase), None, name="phase"),
            phases=rows.table(),
            notes=tuple(self._notes),
        )


class _Rows:
    """Grows the tables clip by clip."""

    def __init__(self) -> None:
        self.roots: list[FloatArray] = []
        self.wxyz: list[FloatArray] = []
        self.effort: list[FloatArray] = []
        self.clip: list[IntArray] = []
        self.phase: list[IntArray] = []
        self.classes: list[tuple[str, ...]] = []
        self._phases: list[tuple[int, int, int, int, FloatArray, FloatArray]] = []
        self._poses = 0

    def add(self, number: int, motion: Motion, effort: FloatArray, phases: list[Phase]) -> None:
        """Add the poses of consecutive phases of one clip."""
        first, last = phases[0].start, phases[-1].stop
        shift = self._poses - first
        anchor = np.zeros(3)
        for k, phase in enumerate(phases):
            feet = _feet(phase)
            anchor = _anchor(phase, anchor, motion)
            kind = self._class(phase.planted)
            after = len(self._phases) + 1 if k + 1 < len(phases) else LAST
            self.phase.append(np.full(len(phase), len(self._phases), dtype=np.int64))
            self._phases.append((phase.start + shift, phase.stop + shift, kind, after, anchor, feet))
        self.roots.append(motion.root_positions[first:last])
        self.wxyz.append(motion.rotations.wxyz[first:last])
        self.effort.append(effort[first:last])
        self.clip.append(np.full(last - first, number, dtype=np.int64))
        self._poses += last - first

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


def _anchor(phase: Phase, before: FloatArray, motion: Motion) -> FloatArray:
    """The foot that landed last; in flight the last one to leave."""
    if phase.plants:
        return _place(phase.plants[-1])
    if before.any():
        return before
    root = motion.root_positions[phase.start]
    return np.array([root[0], root[2], 0.0])


def _place(plant: Plant) -> FloatArray:
    return np.array([plant.position[0], plant.position[2], plant.yaw_rad])


def _feet(phase: Phase) -> FloatArray:
    feet = np.full((2, 3), np.nan)
    for plant in phase.plants:
        feet[("left", "right").index(plant.foot)] = _place(plant)
    return feet


def _is_same_body(motion: Motion, body: Body) -> bool:
    """Whether the legs are as long as the body's, to a millimetre; bones that a file lost were put back in the body."""
    roles = role_map(motion.skeleton)
    legs = [roles[f"{side}_{part}"] for side in ("left", "right") for part in ("knee", "ankle")]
    lengths = [np.linalg.norm(s.offsets[legs], axis=1) for s in (motion.skeleton, body.skeleton)]
    return bool(np.abs(lengths[0] - lengths[1]).max() < 1e-3)


def _longest_good(phases: Sequence[Phase], worst_m: float) -> list[Phase]:
    """The longest run of phases with feet on the ground or in flight and plants that hold."""
    best: list[Phase] = []
    run: list[Phase] = []
    for phase in phases:
        clean = phase.kind in GROUNDED and all(plant.spread_m <= worst_m for plant in phase.plants)
        hands = any(name.endswith("hand") for name in phase.planted if not name.startswith(PICKED))
        run = [*run, phase] if clean and not hands else []
        if sum(map(len, run)) > sum(map(len, best)):
            best = run
    return best


def _behaviour(phases: Sequence[Phase]) -> str:
    if any(name.startswith(PICKED) for phase in phases for name in phase.planted):
        return "pick"
    return "jump" if any(phase.kind == "flight" for phase in phases) else "walk"
