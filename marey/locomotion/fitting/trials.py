"""Trials that a locomotion model is fitted on: the manifest, the loader of clips, and the captured units.

The manifest also lists the trials that judge the model. All units of its clips are cleaned and screened for outliers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import (
    FloatArray,
    InputError,
    MissingFileError,
    as_table,
    as_text,
    check_keys,
    parse_toml,
    read_records,
    read_toml_text,
)
from marey.io import clips, load
from marey.library import Library, survey_paths
from marey.locomotion.model.locomotion_model import GAITS, HUMAN_LEG_M
from marey.locomotion.units.episodes import EPISODES
from marey.locomotion.units.gait_unit import (
    NUM_FRAMES,
    MotionUnit,
    RejectedCycle,
    joint_means,
    level_feet,
    segment_clip,
    unit_rows,
)
from marey.models import find_outliers, principal_components, sort_subjects
from marey.motion import Motion, check_time_base

SHIPPED_MANIFEST: Final = Path(__file__).parents[1] / "data" / "locomotion.toml"
JUMP_GAITS: Final = {"walk-jump": "walk", "run-jump": "run", "standing-jump": "standing"}
"""Kind of jump by the gait of a group."""

TRIAL_GAITS: Final = (*GAITS, *JUMP_GAITS, *EPISODES)
UNKNOWN: Final = "?"  # subject of clips that are to be sorted among the others


@dataclass(frozen=True, slots=True)
class TrialGroup:
    """Clips of one subject in one gait; walks, runs and jumps are fitted, stands give the pose at rest."""

    subject: str  # "?" for clips that are sorted to the nearest of the other subjects
    gait: str
    train: tuple[str, ...] = ()  # names of clips: without folder and suffix, or as paths where names repeat
    test: tuple[str, ...] = ()
    rate_hz: float | None = None  # where the files' own is wrong

    def __post_init__(self) -> None:
        if self.gait not in TRIAL_GAITS:
            raise InputError(f"'{self.gait}' is no gait", f"Use one of {', '.join(TRIAL_GAITS)}")
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
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])  # reasons by clip; told, not read

    @property
    def rates(self) -> dict[str, float]:
        """True frames per second by clip, where the files' own are wrong."""
        return {c: g.rate_hz for g in self.groups if g.rate_hz is not None for c in (*g.train, *g.test)}

    def clips_of(self, split: str, *gaits: str) -> list[tuple[TrialGroup, str]]:
        """Group and clip of every clip of a split, ``"train"`` or ``"test"``, in some gaits."""
        chosen = [group for group in self.groups if group.gait in gaits]
        return [(group, clip) for group in chosen for clip in (group.train if split == "train" else group.test)]

    def to_toml(self) -> str:
        """Text of the manifest's file, to be corrected by hand and read again by :func:`load_manifest`."""

        def quote(text: str) -> str:
            return json.dumps(text, ensure_ascii=False)

        def row(names: Iterable[str]) -> str:
            return f"[{', '.join(map(quote, names))}]"

        lines = [f"default_style = {row(self.default_style)}"] if self.default_style else []
        for name, table in (("labels", self.labels), ("left_out", self.left_out)):
            lines += ["", f"[{name}]", *(f"{quote(key)} = {quote(text)}" for key, text in table.items())] * bool(table)
        for group in self.groups:
            lines += ["", "[[group]]", f"subject = {quote(group.subject)}", f"gait = {quote(group.gait)}"]
            lines += [f"train = {row(group.train)}"] if group.train else []
            lines += [f"test = {row(group.test)}"] if group.test else []
            lines += [f"rate_hz = {group.rate_hz:.12g}"] if group.rate_hz is not None else []
        return "\n".join(lines).lstrip("\n") + "\n"


def load_manifest(path: str | os.PathLike[str] | None = None) -> Manifest:
    """Read a manifest; by default, or by the name ``shipped``, that of the shipped model.

    Raises:
        FormatError: the file breaks its form, with the line.
        MissingFileError: there is none.
    """
    file = SHIPPED_MANIFEST if path is None or str(path) == "shipped" else Path(path)
    if not file.is_file():
        raise MissingFileError(str(file))
    data, place = parse_toml(read_toml_text(file, "a manifest"), str(file))
    groups = read_records(data, "group", TrialGroup, place)
    if not groups:
        place.fail("the manifest has no [[group]]", "Name at least one group of clips")
    check_keys(data, ("default_style", "group", "labels", "left_out"), place)
    found = data.get("default_style", [])
    style = tuple(str(name) for name in cast(list[Any], found)) if isinstance(found, list) else ("",)
    if not set(style) <= {group.subject for group in groups}:
        place.fail("'default_style' names somebody who is in no group", "List subjects of the groups", "default_style")
    labels, left_out = (
        {name: as_text(text, name, place) for name, text in as_table(data.get(key, {}), place).items()}
        for key in ("labels", "left_out")
    )
    return Manifest(groups, style, labels, left_out)


TrialLoader = Callable[[str], Motion]


@dataclass(frozen=True, slots=True)
class ClipFolder:
    """Motion files of a folder by the names that a manifest may give them."""

    folder: Path
    files: Mapping[str, Path]  # by name: that of the file, or its path in the folder where names repeat
    skipped: Mapping[str, str]  # reasons by path

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> ClipFolder:
        """Look through a folder and those below."""
        top = Path(folder)
        found = survey_paths(top)
        ranks = {".bvh": 0, ".amc": 1}  # of a trial that lies there in two formats the first has the short name
        files: dict[str, Path] = {}
        for file in sorted(found.motions, key=lambda f: (ranks.get(f.suffix.lower(), 2), len(f.parts), f)):
            files[file.relative_to(top).as_posix() if file.stem in files else file.stem] = file
        return cls(top, files, {path.relative_to(top).as_posix(): reason for path, reason in found.skipped})

    def list_clips(self, name: str) -> tuple[str, ...]:
        """Names of the clips of a file: its own, or ``name:take`` for each take of a file of several."""
        takes = clips(self.files[name])
        return (name,) if len(takes) == 1 else tuple(f"{name}:{take}" for take in takes)

    def load(self, name: str, rate_hz: float | None = None) -> Motion:
        """Read the clip of a name, of a path inside the folder, or a take ``name:take``.

        Raises:
            MissingFileError: there is none.
        """
        whole, _, take = (name, "", "") if name in self.files else name.partition(":")
        file = self.files.get(whole, self.folder / whole)
        if not file.is_file():
            raise MissingFileError(str(self.folder / f"{whole}.bvh"), "Give the folder that holds the captured trials.")
        return replace(load(file, rate_hz=rate_hz, clip=take or None), name=name)


def make_loader(source: str | Path | Library | TrialLoader, rates: Mapping[str, float] | None = None) -> TrialLoader:
    """How to get a trial by its name from a folder, a library, or a function that does it.

    Args:
        source: of the trials.
        rates: true frames per second by name, where those of the files are wrong.
    """
    if isinstance(source, str | Path):
        folder = ClipFolder.from_folder(source)
        return lambda name: folder.load(name, (rates or {}).get(name))
    if isinstance(source, Library):
        return lambda name: set_rate(source.load(source.find(name).id), (rates or {}).get(name))
    if callable(source):
        return source
    raise InputError(f"no trials in a {type(source).__name__}", "Give a folder, a library or a function of the name")


def set_rate(motion: Motion, rate_hz: float | None) -> Motion:
    """The clip at another frame rate [Hz], the same frames; itself for none."""
    return motion if rate_hz is None else replace(motion, rate_hz=rate_hz)


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
    clips = plan.clips_of(split, *GAITS)
    load = make_loader(source, plan.rates)
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
    units = name_unknown_units(units)
    level = level_feet(units, HUMAN_LEG_M) if units else []
    if split == "test":
        return CapturedUnits(tuple(level), tuple(rejected), tuple(notes))
    kept, far = reject_outliers(level)
    return CapturedUnits(tuple(kept), (*rejected, *far), tuple(notes))


def name_unknown_units(units: Sequence[MotionUnit]) -> list[MotionUnit]:
    """Give units of the subject ``"?"`` to the nearest of the named subjects of their gait.

    The clusters of [Glardon2005]_ §II.2.3.2.1, which start at one unit of each subject: that in the middle of those
    that were named by hand.
    """
    named = list(units)
    for gait in GAITS:
        rows = [i for i, unit in enumerate(units) if unit.gait == gait]
        people = dict.fromkeys(units[i].subject for i in rows if units[i].subject != UNKNOWN)
        if len(people) == len({units[i].subject for i in rows}):
            continue
        if not people:
            raise InputError(f"all {gait}s are of the subject '{UNKNOWN}'", "Name the subject of one clip of each")
        scores = score_units([units[i] for i in rows])
        examples: dict[str, int] = {}
        for person in people:
            own = [n for n, i in enumerate(rows) if units[i].subject == person]
            gaps = np.linalg.norm(scores[own] - scores[own].mean(axis=0), axis=1)
            examples[person] = own[int(np.argmin(gaps))]
        for i, person in zip(rows, sort_subjects(scores, examples), strict=True):
            named[i] = replace(units[i], subject=person) if units[i].subject == UNKNOWN else units[i]
    return named


def score_units(units: Sequence[MotionUnit]) -> FloatArray:
    """Scores ``(n, c)`` of units in the main components that hold 95 % of their variance."""
    means = joint_means(np.concatenate([unit.wxyz for unit in units]))
    table = np.stack([unit_rows(unit.root, unit.wxyz, means).ravel() for unit in units])
    return principal_components(table, explained=0.95).scores(table)


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
