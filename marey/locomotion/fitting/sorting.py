"""Sorting of captures without labels: who moves in a clip, and what the clip shows ([Glardon2005]_ §II.2.3.2.1).

Subjects are told by the proportions of their skeletons, gaits by the pelvis of each cycle and by the clusters of all
cycles, jumps by their flights, other episodes by the root. Names of files decide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, MareyError, UnknownNameError
from marey.kinematics import retarget
from marey.library import Library
from marey.locomotion.fitting.jumps import MIN_LEAP_FLIGHT_S, find_jump_fault
from marey.locomotion.fitting.trials import (
    JUMP_GAITS,
    ClipFolder,
    ClipSource,
    Manifest,
    TrialGroup,
    make_loader,
    score_units,
    set_rate,
)
from marey.locomotion.model.locomotion_model import GAITS
from marey.locomotion.units.captured_jumps import find_leaps, find_standing_jumps, retarget_to_body
from marey.locomotion.units.episodes import EPISODES, Episode, find_episodes
from marey.locomotion.units.gait_unit import MotionUnit, RejectedCycle, segment_clip
from marey.models import sort_gaits
from marey.motion import Motion, align_to_ground, check_time_base, place
from marey.skeleton import HUMAN, Skeleton, role_map

SAME_PERSON: Final = 0.02  # [-] of every limb: the nearest two of 43 people differ by 0.027 in one
LIMBS: Final = tuple(
    (f"left_{a}", f"{'right' if b == 'other' else 'left'}_{a if b == 'other' else b}")
    for a, b in (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "other"))
)
"""Bones whose lengths tell people apart; trunks differ between the formats of one capture."""

HUMAN_LEGS_M: Final = (0.3, 1.4)  # thigh and shank: shorter or longer ones are no human's, or the unit is wrong
UPRIGHT_FRACTION: Final = 0.75  # [-] of the leg: a pelvis lower than this over most of the clip lies, sits or crawls
MAX_DOUBTED_FRACTION: Final = 0.1  # [-] clusters that contradict more cycles than this found people, not gaits
MAX_STEP_CLIPS: Final = 2  # walks or runs of a leaper that give the steps at the short end of leaps
MIN_UNITS_TO_CLUSTER: Final = 8
LEAP_FLIGHT_FACTOR: Final = 1.3  # [-] of a leap over the median of the clip's flights

Reader = Callable[[], Motion]


@dataclass(frozen=True, slots=True, eq=False)
class SortedClip:
    """What one clip shows."""

    clip: str
    limbs: FloatArray  # (5,) [m] lengths of LIMBS; NaN-free, zero where the skeleton has none
    units: tuple[MotionUnit, ...] = ()  # cycles of walks and runs
    rejected: tuple[RejectedCycle, ...] = ()
    jumps: tuple[str, ...] = ()  # gaits of the jumps in it: "walk-jump", "run-jump", "standing-jump"
    episodes: tuple[Episode, ...] = ()
    rate_hz: float | None = None  # where the file's own is wrong
    fault: str | None = None  # why nothing of it is used

    @property
    def gaits(self) -> tuple[str, ...]:
        """Everything in the clip that a group of a manifest may be of."""
        found = {unit.gait for unit in self.units} | set(self.jumps) | {episode.kind for episode in self.episodes}
        return tuple(gait for gait in (*GAITS, *JUMP_GAITS, *EPISODES) if gait in found)


@dataclass(frozen=True, slots=True, eq=False)
class Sorting:
    """Clips of a folder, sorted: the manifest of a fit, and what led to it."""

    clips: tuple[SortedClip, ...]
    manifest: Manifest

    @property
    def left_out(self) -> Mapping[str, str]:
        """Reasons by clip or file."""
        return self.manifest.left_out

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        people = dict.fromkeys(group.subject for group in self.manifest.groups)
        table = {
            person: {g.gait: list(g.train) for g in self.manifest.groups if g.subject == person} for person in people
        }
        return {"people": table, "left_out": dict(self.left_out)}

    def text(self) -> str:
        """A table to read: a line for each person, then what was left out."""
        lines: list[str] = []
        for person, gaits in self.to_dict()["people"].items():
            lines.append(f"{person}: {', '.join(f'{gait} {len(clips)}' for gait, clips in gaits.items())}")
        return "\n".join([*lines, *(f"left out  {clip}: {reason}" for clip, reason in self.left_out.items())])


def sort_clips(source: ClipSource, *, report: Callable[[int, int], None] | None = None) -> Sorting:
    """Sort the clips of a folder or library by person and by what they show.

    A frame rate that contradicts gravity is corrected, a file that cannot be read is left out, with the reason; so is
    a body without human legs, one that does not stand on them, and a clip without gait, jump, stand or turn.

    Args:
        source: folder or library.
        report: called after each file.

    Raises:
        InputError: there is no clip at all, or nobody in them walks or runs; the message says what there was.
    """
    readers, left_out = list_clips(source)
    clips: list[SortedClip] = []
    for done, (name, read) in enumerate(readers.items()):
        clips.append(examine_clip(name, read))
        if report is not None:
            report(done + 1, len(readers))
    clips = drop_doubted_units(clips)
    left_out |= {one.clip: one.fault for one in clips if one.fault is not None}
    used = [one for one in clips if one.fault is None]
    manifest = build_manifest(used, left_out)
    if not any(one.units for one in used):
        seen = Counter(gait for one in used for gait in one.gaits)
        counted = ", ".join(f"{gait} in {count}" for gait, count in seen.most_common())
        first = [f"{clip}: {reason}" for clip, reason in left_out.items()][:3]
        shown = f"{len(used)} clips show {counted}" if used else "no clip shows a person who stands or goes"
        told = "; ".join([shown, *([f"{len(left_out)} left out"] if left_out else []), *first])
        raise InputError(
            f"nobody walks or runs: {told}", "Give clips with two straight strides of a walk; see the sorting's reasons"
        )
    return Sorting(tuple(clips), manifest)


def capture_episodes(source: ClipSource, manifest: Manifest, kind: str) -> list[tuple[Episode, Motion]]:
    """Episodes of one kind in the clips that a manifest names for it, each as a motion of the canonical human.

    A motion is held by its own contacts, begins over the origin, facing +Z, on ground of height zero.

    Args:
        source: folder, library, or a function that gives the clip of a name.
        manifest: such as that of a sorting; its groups of this gait.
        kind: one of ``stand``, ``start``, ``stop``, ``turn``, ``spot-turn``, ``side-step``, ``back-step``.
    """
    if kind not in EPISODES:
        raise UnknownNameError("episode", kind, "a manifest", EPISODES)
    load = make_loader(source, manifest.rates)
    found: list[tuple[Episode, Motion]] = []
    for _, clip in manifest.clips_of("train", kind):
        motion = load(clip)
        body = align_to_ground(retarget(motion, HUMAN))
        own = [episode for episode in find_episodes(motion) if episode.kind == kind]
        found += [(episode, place(body[episode.start : episode.stop], (0.0, 0.0), 0.0)) for episode in own]
    return found


def list_clips(source: ClipSource) -> tuple[dict[str, Reader], dict[str, str]]:
    """How to read every clip of a source, by name, and why files of it are no clips."""
    if isinstance(source, Library):
        load = source.load
        return {one.name: lambda one=one: load(one.id) for one in source.clips()}, {}
    if not isinstance(source, str | Path):
        raise InputError("clips of a function cannot be listed", "Give a folder, a library, or a manifest")
    folder = ClipFolder.from_folder(source)
    readers: dict[str, Reader] = {}
    left_out = dict(folder.skipped)
    for file in folder.files:
        try:
            names = folder.list_clips(file)
        except (MareyError, OSError) as error:
            left_out[file] = str(error)
            continue
        if not names:
            left_out[file] = "no animation in it"
        readers |= {name: lambda name=name: folder.load(name) for name in names}
    if not readers:
        raise InputError(f"no motion file in '{source}'", "Give a folder of BVH, AMC, FBX, glTF, npz or JSON clips")
    return readers, left_out


def examine_clip(name: str, read: Reader) -> SortedClip:
    """Read one clip and tell what it shows, or why it cannot be used."""
    nobody = SortedClip(name, np.zeros(len(LIMBS)))
    try:
        motion = replace(read(), name=name)
        base = check_time_base(motion)
        rate_hz = base.suggested_rate_hz if base.is_suspect else None
        motion = set_rate(motion, rate_hz)
        limbs = measure_limbs(motion.skeleton)
        fault = find_body_fault(motion, limbs)
        if fault is not None:
            return replace(nobody, fault=fault)
        units, rejected, _ = segment_clip(motion, "", None)
        jumps = find_jumps(motion)
        found = SortedClip(name, limbs, tuple(units), tuple(rejected), jumps, find_episodes(motion), rate_hz)
    except (MareyError, OSError, ValueError) as error:
        return replace(nobody, fault=str(error))
    if found.gaits:
        return found
    reasons = Counter(cycle.reason for cycle in rejected)
    why = f": {len(rejected)} cycles, {reasons.most_common(1)[0][0]}" if rejected else ""
    return replace(found, fault=f"no gait, jump, stand or turn in it{why}")


def measure_limbs(skeleton: Skeleton) -> FloatArray:
    """Lengths ``(5,)`` [m] of LIMBS; zero for one that the skeleton does not have."""
    roles, rest = role_map(skeleton), skeleton.rest_positions()
    ends = [(roles.get(a), roles.get(b)) for a, b in LIMBS]
    return np.array([0.0 if a is None or b is None else float(np.linalg.norm(rest[a] - rest[b])) for a, b in ends])


def find_body_fault(motion: Motion, limbs: FloatArray) -> str | None:
    """Why a body does not go on two legs as people do, or nothing."""
    roles = role_map(motion.skeleton)
    missing = [
        f"{s}_{part}" for s in ("left", "right") for part in ("hip", "knee", "ankle") if f"{s}_{part}" not in roles
    ]
    if missing:
        return f"no human legs: the skeleton lacks {', '.join(missing)}"
    leg_m = float(limbs[0] + limbs[1])
    if not HUMAN_LEGS_M[0] < leg_m < HUMAN_LEGS_M[1]:
        return f"legs of {leg_m:.2f} m, no person's"
    if motion.num_frames < 10:
        return f"{motion.num_frames} frames are no motion"
    joints = motion.joint_positions()
    feet = [roles[f"{side}_ankle"] for side in ("left", "right")]
    hips = joints[:, [roles[f"{side}_hip"] for side in ("left", "right")], 1].mean(axis=1)
    high = float(np.median(hips - joints[:, feet, 1].min(axis=1))) / leg_m
    return None if high > UPRIGHT_FRACTION else f"does not stand: the pelvis is {high:.2f} legs above the feet"


def find_jumps(motion: Motion) -> tuple[str, ...]:
    """Gaits of the sound jumps in a clip: of leaps with a real flight, and of jumps from both feet to both."""
    body = retarget_to_body(motion, HUMAN)
    found: set[str] = set()
    leaps = list(find_leaps(body))
    usual_s = float(np.median([leap.flight_s for leap in leaps])) if len(leaps) > 2 else 0.0
    for leap in leaps:
        # A leap stands out from the steps around it: a runner whose every flight is long does not leap
        if leap.flight_s >= max(MIN_LEAP_FLIGHT_S, LEAP_FLIGHT_FACTOR * usual_s):
            found |= {next((f"{kind}-jump" for kind in ("walk", "run") if find_jump_fault(leap, kind) is None), "")}
    if any(find_jump_fault(jump, "standing") is None for jump in find_standing_jumps(body)):
        found.add("standing-jump")
    return tuple(gait for gait in JUMP_GAITS if gait in found)


def drop_doubted_units(clips: Sequence[SortedClip]) -> list[SortedClip]:
    """Leave out cycles on whose gait the pelvis and the clusters of all cycles disagree.

    The two clusters of [Glardon2005]_ are walks and runs where both were captured; where they contradict many cycles,
    they are something else (two people, say) and nothing is left out.
    """
    units = [unit for one in clips for unit in one.units]
    if len({unit.gait for unit in units}) < 2 or len(units) < MIN_UNITS_TO_CLUSTER:
        return list(clips)
    told = sort_gaits(score_units(units), np.array([unit.speed_n for unit in units]))
    doubted = {id(unit) for unit, gait in zip(units, told, strict=True) if unit.gait != gait}
    if len(doubted) > MAX_DOUBTED_FRACTION * len(units):
        return list(clips)
    kept: list[SortedClip] = []
    for one in clips:
        gone = [unit for unit in one.units if id(unit) in doubted]
        left = [RejectedCycle(u.clip, u.start, u.stop, f"a {u.gait} among the cycles of the other gait") for u in gone]
        one = replace(one, units=tuple(u for u in one.units if u not in gone), rejected=(*one.rejected, *left))
        is_empty = bool(gone) and not one.gaits
        kept.append(replace(one, fault=left[0].reason) if is_empty else one)
    return kept


def build_manifest(clips: Sequence[SortedClip], left_out: Mapping[str, str]) -> Manifest:
    """Groups by person, gait and frame rate; people are called after their clips where these agree, else numbered."""
    people = name_people(clips)
    groups: dict[tuple[str, str, float | None], list[str]] = {}
    for one in clips:
        for gait in one.gaits:
            groups.setdefault((people[one.clip], gait, one.rate_hz), []).append(one.clip)
    # Leaps need the steps of their people, or of anybody, as their short end
    for gait, base in (("walk-jump", "walk"), ("run-jump", "run")):
        leapers = {person for person, g, _ in groups if g == gait}
        steps = [key for key in groups if key[1] == base and key[0] in leapers] or [k for k in groups if k[1] == base]
        for person, _, rate_hz in steps if leapers else []:
            own = groups.setdefault((person, gait, rate_hz), [])
            own += [clip for clip in groups[person, base, rate_hz] if clip not in own][:MAX_STEP_CLIPS]
    order = {gait: i for i, gait in enumerate((*GAITS, *JUMP_GAITS, *EPISODES))}
    ordered = sorted(groups, key=lambda key: (key[0], order[key[1]], key[2] or 0.0))
    return Manifest(tuple(TrialGroup(k[0], k[1], tuple(groups[k]), (), k[2]) for k in ordered), (), {}, dict(left_out))


def name_people(clips: Sequence[SortedClip]) -> dict[str, str]:
    """Name of the person of each clip: skeletons whose limbs are all within two hundredths are of one."""
    found: list[list[SortedClip]] = []
    for one in clips:
        for group in found:
            both = (group[0].limbs > 0.0) & (one.limbs > 0.0)
            if np.all(np.abs(group[0].limbs - one.limbs)[both] <= SAME_PERSON * one.limbs[both]):
                group.append(one)
                break
        else:
            found.append([one])
    names: dict[str, str] = {}
    for number, group in enumerate(found, 1):
        # What stands before the first underscore of all names, if no other person has it
        starts = {Path(one.clip).stem.partition("_")[0] for one in group}
        name = starts.pop() if len(starts) == 1 else ""
        others = {Path(one.clip).stem.partition("_")[0] for other in found if other is not group for one in other}
        names |= dict.fromkeys((one.clip for one in group), name if name and name not in others else f"person {number}")
    return names
