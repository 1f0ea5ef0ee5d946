"""All units of the clips of a manifest, cleaned and screened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.library import Library
from marey.locomotion._jump_trials import RATES, Loader, loader_of
from marey.locomotion._manifest import Manifest
from marey.locomotion._model_file import HUMAN_LEG
from marey.locomotion._segment import NUM_FRAMES, Rejected, clip_units
from marey.locomotion._segment_clean import rate_doubt
from marey.locomotion._segment_feet import levelled
from marey.locomotion._units import Unit, mean_rotations, unit_rows
from marey.models import outliers

Progress = Callable[[int, int], None]  # clips done, clips in all
Clips = str | Path | Library | Loader

MIN_GROUP: Final = 5  # units of one gait of one person; fewer have no middle to be far from


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """What the clips gave, what was left out and why, and what was mended or doubted."""

    units: tuple[Unit, ...]
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...] = ()


def capture_units(
    source: Clips, plan: Manifest, split: str, *, report: Progress | None = None, num_frames: int = NUM_FRAMES
) -> Captured:
    """Cut all clips of a split into units, lay their feet on the ground, and leave out what lies far from its group.

    Args:
        source: folder of clips, library, or a function that gives the clip of a name.
        plan: which clips.
        split: ``"train"`` or ``"test"``; test clips are not screened for outliers.
        report: called after each clip.
        num_frames: of a unit.
    """
    own = {clip: group.rate_hz for group, clip in plan.clips(split) if group.rate_hz is not None}
    load = loader_of(source, {**RATES, **own})
    units: list[Unit] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    clips = plan.clips(split)
    for done, (group, clip) in enumerate(clips):
        motion = load(clip)
        doubt = rate_doubt(motion)
        notes += [f"{clip}: {doubt}"] if doubt is not None else []
        found, left, mended = clip_units(motion, group.subject, group.gait, num_frames=num_frames)
        units += found
        rejected += left
        notes += mended
        if report is not None:
            report(done + 1, len(clips))
    level = levelled(units, HUMAN_LEG) if units else []
    if split == "test":
        return Captured(tuple(level), tuple(rejected), tuple(notes))
    kept, far = screened(level)
    return Captured(tuple(kept), (*rejected, *far), tuple(notes))


def screened(units: Sequence[Unit]) -> tuple[list[Unit], list[Rejected]]:
    """Units that lie near the others of their person and gait, and those that do not.

    What a steady change with speed explains is taken out first: a fast walk is no outlier.
    """
    if not units:
        return [], []
    means = mean_rotations(np.concatenate([unit.wxyz for unit in units]))
    far: set[int] = set()
    for key in dict.fromkeys((unit.subject, unit.gait) for unit in units):
        rows = [i for i, unit in enumerate(units) if (unit.subject, unit.gait) == key]
        if len(rows) < MIN_GROUP:
            continue
        table = np.stack([unit_rows(units[i].root, units[i].wxyz, means).ravel() for i in rows])
        speeds = np.array([units[i].speed_n for i in rows])
        line = np.polynomial.polynomial.polyfit(speeds, table, 1)
        left = table - line[0] - speeds[:, None] * line[1]
        far |= {i for i, is_far in zip(rows, outliers(left).tolist(), strict=True) if is_far}
    gone = [Rejected(units[i].clip, units[i].start, units[i].stop, "far from the others") for i in sorted(far)]
    return [unit for i, unit in enumerate(units) if i not in far], gone
