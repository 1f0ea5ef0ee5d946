"""All units of the clips of a manifest, cleaned and screened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.library import Library
from marey.locomotion._jump_trials import TRIAL_RATES_HZ, TrialLoader, make_loader
from marey.locomotion._manifest import Manifest
from marey.locomotion._model_file import HUMAN_LEG_M
from marey.locomotion._segment import NUM_FRAMES, RejectedCycle, segment_clip
from marey.locomotion._segment_clean import check_frame_rate
from marey.locomotion._segment_feet import level_feet
from marey.locomotion._units import MotionUnit, joint_means, unit_rows
from marey.models import find_outliers

Progress = Callable[[int, int], None]  # clips done, clips in all
ClipSource = str | Path | Library | TrialLoader

MIN_SCREENED_GROUP: Final = 5  # units of one gait of one person; fewer have no middle to be far from


@dataclass(frozen=True, slots=True, eq=False)
class CapturedUnits:
    """What the clips gave, what was left out and why, and what was mended or doubted."""

    units: tuple[MotionUnit, ...]
    rejected: tuple[RejectedCycle, ...]
    notes: tuple[str, ...] = ()


def capture_units(
    source: ClipSource, plan: Manifest, split: str, *, report: Progress | None = None, num_frames: int = NUM_FRAMES
) -> CapturedUnits:
    """Cut all clips of a split into units, lay their feet on the ground, and leave out what lies far from its group.

    Args:
        source: folder of clips, library, or a function that gives the clip of a name.
        plan: which clips.
        split: ``"train"`` or ``"test"``; test clips are not screened for outliers.
        report: called after each clip.
        num_frames: of a unit.
    """
    own = {clip: group.rate_hz for group, clip in plan.clips(split) if group.rate_hz is not None}
    load = make_loader(source, {**TRIAL_RATES_HZ, **own})
    units: list[MotionUnit] = []
    rejected: list[RejectedCycle] = []
    notes: list[str] = []
    clips = plan.clips(split)
    for done, (group, clip) in enumerate(clips):
        motion = load(clip)
        doubt = check_frame_rate(motion)
        notes += [f"{clip}: {doubt}"] if doubt is not None else []
        found, left, mended = segment_clip(motion, group.subject, group.gait, num_frames=num_frames)
        units += found
        rejected += left
        notes += mended
        if report is not None:
            report(done + 1, len(clips))
    level = level_feet(units, HUMAN_LEG_M) if units else []
    if split == "test":
        return CapturedUnits(tuple(level), tuple(rejected), tuple(notes))
    kept, far = reject_outliers(level)
    return CapturedUnits(tuple(kept), (*rejected, *far), tuple(notes))


def reject_outliers(units: Sequence[MotionUnit]) -> tuple[list[MotionUnit], list[RejectedCycle]]:
    """Units that lie near the others of their person and gait, and those that do not.

    What a steady change with speed explains is taken out first: a fast walk is no outlier.
    """
    if not units:
        return [], []
    means = joint_means(np.concatenate([unit.wxyz for unit in units]))
    far: set[int] = set()
    for key in dict.fromkeys((unit.subject, unit.gait) for unit in units):
        rows = [i for i, unit in enumerate(units) if (unit.subject, unit.gait) == key]
        if len(rows) < MIN_SCREENED_GROUP:
            continue
        table = np.stack([unit_rows(units[i].root, units[i].wxyz, means).ravel() for i in rows])
        speeds = np.array([units[i].speed_n for i in rows])
        line = np.polynomial.polynomial.polyfit(speeds, table, 1)
        left = table - line[0] - speeds[:, None] * line[1]
        far |= {i for i, is_far in zip(rows, find_outliers(left).tolist(), strict=True) if is_far}
    gone = [RejectedCycle(units[i].clip, units[i].start, units[i].stop, "far from the others") for i in sorted(far)]
    return [unit for i, unit in enumerate(units) if i not in far], gone
