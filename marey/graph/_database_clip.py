"""One clip made ready for a graph; clips are independent of one another, so they can be made ready anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.blending import hold_plants
from marey.dynamics import Body, solve_inverse_dynamics
from marey.graph._events import PICKED_PREFIX, calibration_range, split_events
from marey.graph._events_pivots import lift_pivots
from marey.graph._settings import GraphSettings
from marey.kinematics import retarget
from marey.motion import ContactPhase, Contacts, Motion, contact_phases, ensure_contacts, lowpass, mirror, resample
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
    """What a clip gives to a graph: runs of clean phases, and remarks."""

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
        torques = solve_inverse_dynamics(self.body, clip, contacts=_without_picks(clip.contacts)).torques
        slow = resample(clip, self.settings.rate_hz)
        at = np.minimum(np.rint(slow.times() * clip.rate_hz).astype(np.int64), clip.num_frames - 1)
        phases = split_events(slow, contact_phases(slow), self.settings.pick_height_m)
        runs = _split_usable_runs(phases)
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
            notes.append(f"'{self.motion.name}' lost {seconds:.2f} s in which the arms are held out")
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
    """A contact track without picks, which bear no weight."""
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


def _split_usable_runs(phases: Sequence[ContactPhase]) -> list[list[ContactPhase]]:
    """Runs of at least two phases with feet on the ground or in flight, and hands free."""
    runs: list[list[ContactPhase]] = [[]]
    for phase in phases:
        hands = any(name.endswith("hand") for name in phase.planted if not name.startswith(PICKED_PREFIX))
        if phase.kind in GROUNDED and not hands:
            runs[-1].append(phase)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) >= 2]


def classify_behaviour(phases: Sequence[ContactPhase]) -> str:
    """What happens in a run: "pick", "jump" or "walk"; a run has flights too, but all of them from one foot to one."""
    if any(name.startswith(PICKED_PREFIX) for phase in phases for name in phase.planted):
        return "pick"
    flights = [n for n, phase in enumerate(phases) if phase.kind == "flight"]
    near = [phases[m].kind for n in flights for m in (n - 1, n + 1) if 0 <= m < len(phases)]
    if not flights:
        return "walk"
    return "run" if len(flights) > 1 and "double" not in near else "jump"
