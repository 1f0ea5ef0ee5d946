"""From a file to a staged clip: read, find contacts, measure, write. Runs in a worker."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from marey.library.behaviour import guess_behaviour, measure_features
from marey.library.records import ClipRecord, IngestJob, content_address, motion_signature
from marey.library.store import StagedClip, file_sha256, flush_file, write_note
from marey.motion import Motion

_TRIAL_NAME: Final = re.compile(r"(?:s|subj|subject)?[_-]?0*(\d{1,4})[_-]\d{1,4}(?!\d)", re.IGNORECASE)


def stage_motion(motion: Motion, job: IngestJob, clip_file: Path, stamp: str) -> StagedClip:
    """As :func:`stage`, for a motion in memory."""
    from marey.io import write_clip

    write_clip(motion, clip_file, channels=False)
    flush_file(clip_file)
    staged = StagedClip(job, describe_clip(motion, job, clip_file), motion_signature(motion), stamp)
    write_note(staged, clip_file)
    return staged


def describe_clip(motion: Motion, job: IngestJob, clip_file: Path) -> ClipRecord:
    """Measure a motion, stored in ``clip_file``, and write down its row."""
    from marey.motion import standing_height

    features = measure_features(motion)
    source = motion.source
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


def ensure_stored_contacts(motion: Motion) -> Motion:
    """Return the motion with a contact track; a skeleton without feet keeps none and its report says so."""
    if motion.contacts is not None:
        return motion
    from marey.base import MareyError
    from marey.motion import ensure_contacts

    try:
        return ensure_contacts(motion)
    except MareyError as error:  # a skeleton without feet is still a clip
        return replace(motion, load_report=motion.load_report.adding(f"no contacts: {error}"))
