"""Trials that a locomotion model is fitted on: the manifest, the loader of clips, and the captured units.

The manifest also lists the trials that judge the model. All units of its clips are cleaned and screened for outliers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import (
    InputError,
    MissingFileError,
    as_table,
    as_text,
    check_keys,
    parse_toml,
    read_records,
    read_toml_text,
)
from marey.io import load
from marey.library import Library
from marey.locomotion.model.locomotion_model import GAITS, HUMAN_LEG_M
from marey.locomotion.units.gait_unit import (
    NUM_FRAMES,
    MotionUnit,
    RejectedCycle,
    joint_means,
    level_feet,
    segment_clip,
    unit_rows,
)
from marey.models import find_outliers
from marey.motion import Motion, check_time_base

SHIPPED_MANIFEST: Final = Path(__file__).parents[1] / "data" / "locomotion.toml"


@dataclass(frozen=True, slots=True)
class TrialGroup:
    """Clips of one subject in one gait."""

    subject: str
    gait: str
    train: tuple[str, ...]  # names of clips, without folder and suffix
    test: tuple[str, ...] = ()
    rate_hz: float | None = None  # where the files' own is wrong

    def __post_init__(self) -> None:
        if self.gait not in GAITS:
            raise InputError(f"'{self.gait}' is no gait", f"Use {' or '.join(GAITS)}")
        both = set(self.train) & set(self.test)
        if both:
            raise InputError(f"clip '{min(both)}' trains and tests", "Keep it in one list")
        if not self.train and not self.test:
            raise InputError("a group of no clip", "Give train or test")


@dataclass(frozen=True, slots=True)
class Manifest:
    """All groups of a fit."""

    groups: tuple[TrialGroup, ...]
    default_style: tuple[str, ...] = ()  # subjects whose even mixture is the model's own style
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  # readable names by subject


def load_manifest(path: str | os.PathLike[str] | None = None) -> Manifest:
    """Read a manifest; by default that of the shipped model.

    Raises:
        FormatError: the file breaks its form, with the line.
        MissingFileError: there is none.
    """
    file = SHIPPED_MANIFEST if path is None else Path(path)
    if not file.is_file():
        raise MissingFileError(str(file))
    data, place = parse_toml(read_toml_text(file, "a manifest"), str(file))
    groups = read_records(data, "group", TrialGroup, place)
    if not groups:
        place.fail("the manifest has no [[group]]", "Name at least one group of clips")
    check_keys(data, ("default_style", "group", "labels"), place)
    found = data.get("default_style", [])
    style = tuple(str(name) for name in cast(list[Any], found)) if isinstance(found, list) else ("",)
    if not set(style) <= {group.subject for group in groups}:
        place.fail("'default_style' names somebody who is in no group", "List subjects of the groups", "default_style")
    labels = {name: as_text(text, name, place) for name, text in as_table(data.get("labels", {}), place).items()}
    return Manifest(groups, style, labels)


KINDS: Final = ("walk", "run", "standing")

JUMP_TRIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "walk": (
        *("133_04", "07_01", "07_03", "07_04", "07_12", "08_01", "08_04", "08_06", "16_21", "16_47", "16_58"),
        *("35_01", "35_29", "39_01", "39_09"),
    ),
    "run": (
        *("49_04", "49_05", "127_21", "127_27", "127_30", "127_38", "75_04", "16_35", "16_37", "35_17"),
        *("35_19", "09_01", "09_05", "02_03", "78_06", "127_06", "127_08", "143_01"),
    ),
    "standing": (
        *(
            f"118_{i:02d}"
            for i in (1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 23, 25, 27, 28, 30)
        ),
        *("83_40", "83_48", "91_40", "91_44", "16_01", "16_05", "16_07", "16_10", "13_11", "13_19", "13_39", "13_41"),
        "02_04",
    ),
}
"""Trials of the CMU database by kind: leaps, and strides of walks and runs as their short end."""

TRIAL_RATES_HZ: Final[Mapping[str, float]] = {"75": 60.0, "141": 60.0, "143": 60.0}
"""Frames per second of subjects whose files say 120 Hz but fall as at 60."""

TrialLoader = Callable[[str], Motion]


def make_loader(source: str | Path | Library | TrialLoader, rates: Mapping[str, float] = TRIAL_RATES_HZ) -> TrialLoader:
    """How to get a trial by its name from a folder, a library, or a function that does it."""
    if isinstance(source, str | Path):
        folder = Path(source)

        def load_trial(name: str) -> Motion:
            # The true rate is that of the trial, or of its performer: what stands before the underscore.
            found = [file for suffix in (".bvh", ".amc") for file in sorted(folder.rglob(f"{name}{suffix}"))]
            if not found:
                raise MissingFileError(str(folder / f"{name}.bvh"), "Give the folder that holds the captured trials.")
            return load(found[0], rate_hz=rates.get(name, rates.get(name.partition("_")[0])))

        return load_trial
    if isinstance(source, Library):
        return lambda name: source.load(source.find(name).id)
    if callable(source):
        return source
    raise InputError(f"no trials in a {type(source).__name__}", "Give a folder, a library or a function of the name")


def choose_trials(manifest: Mapping[str, Iterable[str]] | None) -> dict[str, tuple[str, ...]]:
    """Trials by kind: those given, the default for kinds that are not."""
    given = {kind: tuple(names) for kind, names in (manifest or {}).items()}
    for kind in given:
        if kind not in KINDS:
            raise InputError(f"'{kind}' is no kind of jump", f"Use {', '.join(KINDS)}")
    return {kind: given.get(kind, JUMP_TRIALS[kind]) for kind in KINDS}


Progress = Callable[[int, int], None]  # clips done, clips in all
ClipSource = str | Path | Library | TrialLoader

MIN_SCREENED_GROUP: Final = 5  # units of one gait of one person; fewer have no reliable median


@dataclass(frozen=True, slots=True, eq=False)
class CapturedUnits:
    """Units of the clips, with dropped, repaired and doubtful ones."""

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
    clips = [(group, clip) for group in plan.groups for clip in (group.train if split == "train" else group.test)]
    own = {clip: group.rate_hz for group, clip in clips if group.rate_hz is not None}
    load = make_loader(source, {**TRIAL_RATES_HZ, **own})
    units: list[MotionUnit] = []
    rejected: list[RejectedCycle] = []
    notes: list[str] = []
    for done, (group, clip) in enumerate(clips):
        motion = load(clip)
        # Why the frame rate of a clip is doubted, or `None`: gravity in flight and the tempo of the limbs tell
        doubt = check_time_base(motion).warning
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

    The linear dependence on speed is removed first, so that a fast walk is not an outlier.
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
        # What is left of the rows once their line in speed is taken out
        line = np.polynomial.polynomial.polyfit(speeds, table, 1)
        left = table - line[0] - speeds[:, None] * line[1]
        far |= {i for i, is_far in zip(rows, find_outliers(left).tolist(), strict=True) if is_far}
    gone = [RejectedCycle(units[i].clip, units[i].start, units[i].stop, "far from the others") for i in sorted(far)]
    return [unit for i, unit in enumerate(units) if i not in far], gone
