"""Clips made ready for a graph: one body, one rate, planted feet that stay, phases, efforts.

Clips are independent of one another, so each can be made ready anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.contacts import ContactPhase, contact_phases, ensure_contacts, hold_feet
from marey.dynamics import Body, solve_inverse_dynamics
from marey.graph.algorithms import project_principal
from marey.graph.database.events import PICKED_PREFIX, STANDING, calibration_range, lift_pivots, split_events
from marey.graph.database.settings import GraphSettings
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, lowpass, mirror, order_joints, resample
from marey.skeleton import Skeleton, contact_points, role_map, stands_at_rest

GROUNDED: Final = ("left", "right", "double", "flight")
MIRRORED: Final = "~"  # ends the name of a mirrored clip
MAX_CLIMB_M: Final = 0.12  # [m] a clip whose feet stand on heights that differ by more is no walk on level ground
LOW_QUANTILE: Final = 0.1  # [-] of the plants of a clip lie below the height that becomes zero
MAX_SHARED: Final = 256  # skeletons that are kept
SOLE_S: Final = 0.1  # [s] half of the time over which a root follows its soles
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
        settings, own = self.settings, self.motion.name
        name = own + (MIRRORED if self.is_mirrored else "")
        body = replace(self.body, skeleton=_share_skeleton(self.body.skeleton))
        # The body of the graph; contacts stay as captured, of points that the body has
        motion = order_joints(self.motion, body.skeleton.names)
        clip = ensure_contacts(replace(motion, skeleton=_share_skeleton(motion.skeleton)))
        clip = mirror(clip) if self.is_mirrored else clip
        # Legs as long as the body's, to a millimetre; bones that a file lost were put back in the body
        is_same = clip.skeleton.names == body.skeleton.names
        if is_same:
            roles = role_map(clip.skeleton)
            legs = [roles[f"{side}_{part}"] for side in ("left", "right") for part in ("knee", "ankle")]
            lengths = [np.linalg.norm(one.offsets[legs], axis=1) for one in (clip.skeleton, body.skeleton)]
            is_same = np.abs(lengths[0] - lengths[1]).max() < 1e-3
        if not is_same:
            known = contact_points(body.skeleton).names
            captured = _select_contacts(clip.contacts, lambda point: point in known or point.startswith(PICKED_PREFIX))
            clip = replace(retarget(clip, body.skeleton), contacts=captured)
            notes.append(f"'{own}' was retargeted to the body of the first clip")
        clip = body.motion(clip)
        # Without arms-out poses at the ends, low-passed, planted feet held still on a level floor at height zero
        start, stop = calibration_range(clip)
        if (start, stop) != (0, clip.num_frames):
            seconds = (clip.num_frames - stop + start) / clip.rate_hz
            notes.append(f"'{own}' lost {seconds:.2f} s with the arms held out")
            clip = clip[start:stop]
        if clip.num_frames < MIN_FRAMES:
            return PreparedClip((), (*notes, f"'{name}' is too short and is left out"))
        if settings.cutoff_hz < 0.5 * clip.rate_hz:
            clip = lowpass(clip, settings.cutoff_hz)
        clip = lift_pivots(clip, settings.max_residual_m)
        held = hold_feet(level_soles(clip))
        flat = [plant for plant in held.schedule if plant.point == "ball"]
        heights = [plant.floor_m - float(held.floor.under(plant.place)) for plant in flat]
        low, high = np.quantile(heights, (LOW_QUANTILE, 1.0 - LOW_QUANTILE)) if heights else (0.0, 0.0)
        if high - low > MAX_CLIMB_M:
            return PreparedClip((), (*notes, f"'{name}' climbs by {high - low:.2f} m and is left out"))
        # Soles of both feet may differ by centimetres: the lower one stands on the ground
        floor = held.floor.under(held.motion.root_positions) + low
        # Phases are cut where the captured feet land and leave
        lowered = held.motion.root_positions - floor[:, None] * [0.0, 1.0, 0.0]
        clip = replace(held.motion, root_positions=lowered, contacts=clip.contacts)
        # Torques at the full rate, where picks carry no load; then everything at the rate of the graph
        loaded = _select_contacts(clip.contacts, lambda point: not point.startswith(PICKED_PREFIX))
        torques = solve_inverse_dynamics(body, clip, contacts=loaded).torques
        slow = resample(clip, settings.rate_hz)
        at = np.minimum(np.rint(slow.times() * clip.rate_hz).astype(np.int64), clip.num_frames - 1)
        # Runs of at least two phases with feet on the ground or in flight, and hands free
        grounded: list[list[ContactPhase]] = [[]]
        for phase in split_events(slow, contact_phases(slow), settings.pick_height_m):
            hands = any(point.endswith("hand") for point in phase.planted if not point.startswith(PICKED_PREFIX))
            if phase.kind in GROUNDED and not hands:
                grounded[-1].append(phase)
            elif grounded[-1]:
                grounded.append([])
        runs: list[PhaseRun] = []
        for phases in [run for run in grounded if len(run) >= 2]:
            first, last = phases[0].start, phases[-1].stop
            run = PhaseRun(
                f"{name}#{len(runs) + 1}" if runs else name,
                classify_behaviour(phases) if self.behaviour is None else self.behaviour,
                slow.root_positions[first:last],
                slow.rotations.wxyz[first:last],
                torques[at][first:last],
                tuple(replace(p, start=p.start - first, stop=p.stop - first) for p in phases),
            )
            runs.append(run)
        if not runs:
            notes.append(f"'{name}' has fewer than two clean phases and is left out")
        return PreparedClip(tuple(runs), tuple(notes))


_shared: dict[tuple[object, ...], Skeleton] = {}


def _share_skeleton(skeleton: Skeleton) -> Skeleton:
    """An equal skeleton of an earlier clip: what was found out about it, a fifth of the work, is kept with it.

    Skeletons of which the frames of each clip tell more than the rest pose does are left alone.
    """
    arrays = (skeleton.parents, skeleton.offsets, skeleton.tips)
    content = (skeleton.name, skeleton.names, skeleton.limits, *(array.tobytes() for array in arrays))
    if len(_shared) > MAX_SHARED:
        _shared.clear()
    known = _shared.setdefault(content, skeleton)
    return known if known is not skeleton and stands_at_rest(known) else skeleton


def level_soles(motion: Motion) -> Motion:
    """The clip with its root higher or lower, so that each heel and toe touches the ground at one height of its own.

    In captures a standing sole rises and sinks by a centimetre or two with the pelvis; feet that are held would bend
    and stretch the knees by that.
    """
    contacts, points = motion.contacts, contact_points(motion.skeleton).names
    assert contacts is not None
    heights = contact_positions(motion)[:, :, 1]
    over = np.full(motion.num_frames, np.inf)
    for name, is_down in zip(contacts.names, contacts.active.T, strict=True):
        if name.endswith(("_heel", "_toe")) and name in points and is_down.any():
            own = heights[:, points.index(name)]
            over = np.where(is_down, np.minimum(over, own - np.median(own[is_down])), over)
    return lower_root(motion, np.where(np.abs(over) < MAX_CLIMB_M, over, np.inf), SOLE_S)


def lower_root(motion: Motion, drop: FloatArray, half_s: float) -> Motion:
    """The clip with its root lower by ``drop`` (F,) [m], evenly over what is infinite, averaged over twice a time."""
    known = np.flatnonzero(np.isfinite(drop))
    if not len(known) or not drop[known].any():
        return motion
    half = max(1, round(half_s * motion.rate_hz))
    window = np.hanning(2 * half + 3)[1:-1]
    filled = np.pad(np.interp(np.arange(motion.num_frames), known, drop[known]), half, mode="edge")
    smooth = np.convolve(filled, window / window.sum(), "valid")
    return replace(motion, root_positions=motion.root_positions - smooth[:, None] * [0.0, 1.0, 0.0])


def _select_contacts(contacts: Contacts | None, is_kept: Callable[[str], bool]) -> Contacts | None:
    """A contact track of some of its points."""
    if contacts is None:
        return None
    kept = [n for n, name in enumerate(contacts.names) if is_kept(name)]
    return Contacts(tuple(contacts.names[n] for n in kept), contacts.active[:, kept])


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

    @property
    def has_stand(self) -> BoolArray:
        """Phases ``(S,)`` in which a body stands still on both feet."""
        return np.array([STANDING in planted for planted in self.classes])[self.phases.kind]

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
    prepared = list(clips)
    runs = [run for clip in prepared for run in clip.runs]
    if not runs:
        raise InputError("no clip has two clean phases", "Give clips with walks or jumps")
    # Rows of all phases: first pose, pose after the last, class, next phase, anchor foot, both feet
    classes: list[tuple[str, ...]] = []
    rows: list[tuple[int, int, int, int, FloatArray, FloatArray]] = []
    poses = 0
    for run in runs:
        anchor = np.zeros(3)
        for k, phase in enumerate(run.phases):
            feet = np.full((2, 3), np.nan)
            for plant in phase.plants:
                place = np.array([plant.position[0], plant.position[2], plant.yaw_rad])
                feet[("left", "right").index(plant.foot)] = place
                # The foot that landed last; in flight the last one to leave
                anchor = place
            if not phase.plants and not anchor.any():
                anchor = np.array([run.roots[phase.start, 0], run.roots[phase.start, 2], 0.0])
            if phase.planted not in classes:
                classes.append(phase.planted)
            after = len(rows) + 1 if k + 1 < len(run.phases) else NO_NEXT_PHASE
            kind = classes.index(phase.planted)
            rows.append((phase.start + poses, phase.stop + poses, kind, after, anchor, feet))
        poses += len(run.roots)
    table = PhaseTable(*(np.array(column) for column in zip(*rows, strict=True)))
    torques = np.concatenate([run.torques for run in runs]).reshape(poses, -1)
    return Database(
        body=body,
        rate_hz=settings.rate_hz,
        clips=tuple(run.name for run in runs),
        behaviours=tuple(run.behaviour for run in runs),
        classes=tuple(classes),
        roots=frozen(np.concatenate([run.roots for run in runs]), None, 3, name="roots"),
        wxyz=frozen(np.concatenate([run.wxyz for run in runs]), None, None, 4, name="wxyz"),
        effort=frozen((torques**2).sum(axis=1), None, name="effort"),
        clip=frozen_ints(np.repeat(np.arange(len(runs)), [len(run.roots) for run in runs]), None, name="clip"),
        phase=frozen_ints(np.repeat(np.arange(len(rows)), table.stop - table.start), None, name="phase"),
        phases=table,
        torque=frozen(project_principal(torques, TORQUE_SCORES), None, None, name="torque"),
        notes=tuple(dict.fromkeys(note for clip in prepared for note in clip.notes)),
    )
