"""From a file to a staged clip: read, find contacts, measure, guess the behaviour, write. Runs in a worker."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import MareyError
from marey.library.records import AddOutcome, ClipRecord, IngestJob, content_address, motion_signature
from marey.library.store import StagedClip, StagedFile, file_sha256, take_path, write_note
from marey.motion import Motion, find_runs
from marey.skeleton import Skeleton

UPSIDE_DOWN_RAD: Final = 2.13  # trunk tilt; bending to the floor reaches 113°, ducking at a run 120°, a cartwheel 140°
LONGEST_FLIGHT_S: Final = 1.2  # a rise of 1.8 m; longer intervals in the air are hanging, swinging or climbing
JUMP_FLIGHT_S: Final = 0.15
JUMP_RISE: Final = 0.12  # [leg] of the pelvis over its median; runners rise by up to 0.10
RUN_SPEED_MPS: Final = 2.3  # of the fastest tenth; fast walkers reach 2.2
RUN_FLIGHT_S: Final = 0.04
LOW_HAND: Final = 0.56  # [leg] below the knee of a standing person
TURN_RAD: Final = 0.61  # 35°: veering walkers turn by 40°, straight ones by less than 15°
SLOW_TURN_RAD: Final = 1.05  # 60°: motions in place also contain small rotations
WINDING_RAD: Final = 1.75  # 100° between the extreme headings: there and back, or a figure of eight
STAY_SPEED_MPS, STAY_DISTANCE_M = 0.4, 0.6  # slower and shorter motions are not walks
PATH_SHARE: Final = 0.25  # of the path, at either end, that gives its direction there


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the classification rules; ``[leg]`` is a length over the leg length."""

    mean_speed_mps: float  # of the root, horizontal
    fast_speed_mps: float  # exceeded a tenth of the time
    net_distance_m: float  # horizontal, from the first frame to the last
    heading_change_rad: float  # of the pelvis, from the first frame to the last, full turns counted
    heading_range_rad: float  # between the extreme headings
    path_turn_rad: float  # between the directions of the path at its two ends
    flight_s: float  # longest time without a foot or a hand on the ground
    root_low_m: float  # lowest and highest pelvis above the ground
    root_high_m: float
    pelvis_low: float  # [leg] exceeded 99 % of the time
    pelvis_median: float  # [leg]
    pelvis_high: float  # [leg] exceeded 1 % of the time
    hand_low: float  # [leg] lowest wrist above the ground
    tilt_rad: float  # of the trunk from the vertical, exceeded 1 % of the time


def guess_behaviour(features: Features) -> str:
    """Return "acrobatic", "jump", "pick-up", "turn", "run", "walk", "stand" or "other".

    It is that of the first rule that holds, from the rarest behaviour to the commonest.
    """
    f = features
    stays = f.mean_speed_mps < STAY_SPEED_MPS and f.net_distance_m < STAY_DISTANCE_M
    # Those who hardly move turn by more until it counts; those who move may wind, or run round a bend
    turns = abs(f.heading_change_rad) > (SLOW_TURN_RAD if f.mean_speed_mps < 0.5 else TURN_RAD) or (
        f.mean_speed_mps >= 0.5
        and (f.heading_range_rad > WINDING_RAD or (f.path_turn_rad > TURN_RAD and f.fast_speed_mps > RUN_SPEED_MPS))
    )
    if f.tilt_rad > UPSIDE_DOWN_RAD:
        return "acrobatic"
    if f.flight_s > LONGEST_FLIGHT_S:
        return "other"
    if f.flight_s >= JUMP_FLIGHT_S and f.pelvis_high - f.pelvis_median >= JUMP_RISE:
        return "jump"
    if f.hand_low < LOW_HAND and f.pelvis_median > 1.0 and f.flight_s < RUN_FLIGHT_S:
        return "pick-up"
    if turns:
        return "turn"
    if f.fast_speed_mps > RUN_SPEED_MPS and f.flight_s >= RUN_FLIGHT_S:
        return "run"
    if not 1.0 < f.pelvis_median < 1.35:  # lies, sits or climbs most of the time
        return "other"
    if not stays:
        return "walk"
    return "stand" if f.pelvis_low > 0.9 else "other"


def measure_features(motion: Motion) -> Features:
    """Measure what :func:`guess_behaviour` looks at; contacts are detected if the motion has none."""
    from marey.contacts import ensure_contacts
    from marey.motion import ground_height, headings, mean_speed, root_speeds
    from marey.skeleton import role_map

    roles, leg_m, floor_m = role_map(motion.skeleton), mean_leg_length(motion.skeleton), ground_height(motion)
    positions = motion.joint_positions()
    pelvis_m = positions[:, roles.get("pelvis") or 0, 1] - floor_m
    low, median, high = (float(np.percentile(pelvis_m, share)) / leg_m for share in (1, 50, 99))
    turned = np.unwrap(headings(motion))
    # Angle between the directions of the path over its first and last quarter
    root = motion.root_positions[:, [0, 2]]
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(root, axis=0), axis=1))])
    start, stop = np.searchsorted(along, [PATH_SHARE * along[-1], (1.0 - PATH_SHARE) * along[-1]])
    first, last = root[start] - root[0], root[-1] - root[stop]
    path_turn = abs(np.arctan2(first[0] * last[1] - first[1] * last[0], first @ last))
    # Longest time in which no contact point touches; none when nothing is known
    track = (ensure_contacts(motion) if motion.contacts is None else motion).contacts
    flights = [] if track is None or not track.names else find_runs(~np.logical_or.reduce(track.active, axis=1))
    # Lowest hand, and tilt of the trunk from the vertical
    hands = [joint for role in ("left_wrist", "right_wrist") if (joint := roles.get(role)) is not None]
    pelvis, neck, tilt = roles.get("pelvis"), roles.get("neck"), 0.0
    if pelvis is not None and neck is not None:
        trunk = positions[:, neck] - positions[:, pelvis]
        tilt = float(np.percentile(np.arctan2(np.hypot(trunk[:, 0], trunk[:, 2]), trunk[:, 1]), 99))
    return Features(
        mean_speed_mps=mean_speed(motion),
        fast_speed_mps=float(np.percentile(root_speeds(motion), 90)),
        net_distance_m=float(np.linalg.norm(root[-1] - root[0])),
        heading_change_rad=float(turned[-1] - turned[0]),
        heading_range_rad=float(np.ptp(turned)),
        path_turn_rad=float(path_turn),
        flight_s=max((stop - start for start, stop in flights), default=0) / motion.rate_hz,
        root_low_m=float(pelvis_m.min()),
        root_high_m=float(pelvis_m.max()),
        pelvis_low=low,
        pelvis_median=median,
        pelvis_high=high,
        hand_low=(float(positions[:, hands, 1].min() - floor_m) if hands else float("inf")) / leg_m,
        tilt_rad=tilt,
    )


def mean_leg_length(skeleton: Skeleton) -> float:
    """Hip to knee to ankle [m], the mean of both sides; without legs, 0.49 of the height ([Winter2009]_ fig. 4.1)."""
    from marey.motion import standing_height
    from marey.skeleton import role_map

    roles = role_map(skeleton)
    rest = skeleton.rest_positions()
    legs = [
        float(np.linalg.norm(rest[hip] - rest[knee]) + np.linalg.norm(rest[knee] - rest[ankle]))
        for hip, knee, ankle in (
            (roles.get(f"{side}_{part}") for part in ("hip", "knee", "ankle")) for side in ("left", "right")
        )
        if hip is not None and knee is not None and ankle is not None
    ]
    length_m = float(np.mean(legs)) if legs else 0.49 * standing_height(skeleton)
    return max(length_m, 1e-6)  # a skeleton of one point has no length


SCENE_SUFFIXES: Final = (".glb", ".gltf", ".fbx", ".usd", ".usda", ".usdc", ".usdz")
_TRIAL_NAME: Final = re.compile(r"(?:s|subj|subject)?[_-]?0*(\d{1,4})[_-]\d{1,4}(?!\d)", re.IGNORECASE)


def stage_file(job: IngestJob, file: str, clip_file: Path, stamp: str) -> StagedFile:
    """Read every take of a job's file, which may lie elsewhere than the job says, and write them as clips.

    A take that cannot be read does not stop the others; a scene without animation is skipped.
    """
    from marey.io import clips

    takes = clips(file)
    if not takes:
        return StagedFile(refused=(AddOutcome(job.path, "skipped", None, "no animation in it"),))
    staged, refused = list[StagedClip](), list[AddOutcome]()
    for number, take in enumerate(takes):
        own = replace(job, take=take) if len(takes) > 1 else job
        try:
            motion = _read_take(own, file, number)
            staged.append(stage_motion(motion, own, take_path(clip_file, len(staged)), stamp))
        except (MareyError, OSError) as error:
            said = str(error).replace(str(Path(file).parent), str(Path(job.path).parent))
            refused.append(AddOutcome(job.path, "failed", None, said, take=own.take))
    return StagedFile(tuple(staged), tuple(refused))


def _read_take(job: IngestJob, file: str, number: int) -> Motion:
    """Read one take, with contacts, under the name of its file and, where there are several, its own."""
    from marey.contacts import ensure_contacts
    from marey.io import load

    motion = load(file, rate_hz=job.rate_hz, unit=job.unit, up=job.up, clip=number if job.take else None)
    if motion.contacts is None:
        try:
            motion = ensure_contacts(motion)
        except MareyError as error:  # a skeleton without feet is still a clip
            motion = replace(motion, load_report=motion.load_report.adding(f"no contacts: {error}"))
    if motion.source is not None and file != job.path:
        motion = replace(motion, source=replace(motion.source, path=job.path))
    if job.take:
        motion = replace(motion, name=f"{Path(job.path).stem}:{job.take}")
    elif Path(job.path).suffix.lower() in SCENE_SUFFIXES:
        motion = replace(motion, name=Path(job.path).stem)  # its only animation is often called 'Take 001'
    return motion


def stage_motion(motion: Motion, job: IngestJob, clip_file: Path, stamp: str) -> StagedClip:
    """Write a motion as a clip that the library can take in, with the note that lets another process do so."""
    from marey.io import write_clip

    write_clip(motion, clip_file, channels=False)
    staged = StagedClip(job, describe_clip(motion, job, clip_file), motion_signature(motion), stamp)
    write_note(staged, clip_file)
    return staged


def describe_clip(motion: Motion, job: IngestJob, clip_file: Path) -> ClipRecord:
    """Measure a motion, stored in ``clip_file``, and write down its row."""
    from marey.motion import standing_height

    features = measure_features(motion)
    source = motion.source
    # Whom a motion moves: the name of the skeleton, or else that of its file
    own = motion.skeleton.name
    return ClipRecord(
        id=content_address(motion),
        name=motion.name,
        subject=job.subject or guess_subject(motion.name),
        behaviour=guess_behaviour(features),
        num_joints=motion.skeleton.num_joints,
        num_frames=motion.num_frames,
        rate_hz=motion.rate_hz,
        duration_s=motion.duration_s,
        height_m=standing_height(motion.skeleton),
        mean_speed_mps=features.mean_speed_mps,
        heading_change_rad=features.heading_change_rad,
        flight_s=features.flight_s,
        root_low_m=features.root_low_m,
        root_high_m=features.root_high_m,
        format="" if source is None else source.format,
        source=job.path,
        source_absolute=job.absolute,
        file_sha256=file_sha256(clip_file),
        file_bytes=clip_file.stat().st_size,
        joints=motion.skeleton.names,
        contacts=() if motion.contacts is None else motion.contacts.names,
        warnings=motion.load_report.warnings,
        tags=job.tags,
        take=job.take,
        character=own if own not in ("", "skeleton", "motion") else Path(job.path).stem,
        licence=job.licence,
    )


def guess_subject(name: str) -> str | None:
    """Return the subject of a trial name: ``07_01`` and ``subject7_trial_3`` are of subject 7; else nothing.

    Leading zeros do not count, so that ``07_01`` and ``7_02`` are of the same person.
    """
    found = _TRIAL_NAME.match(name)
    return None if found is None else found.group(1)


def file_stamp(path: str) -> str:
    """Size and time of change: while they stay, the file is taken to be the same."""
    status = Path(path).stat()
    return f"{status.st_size} {status.st_mtime_ns}"
