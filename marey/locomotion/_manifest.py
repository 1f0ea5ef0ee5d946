"""The list of clips that a locomotion model is fitted on, and of those that judge it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

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
from marey.locomotion._model import GAITS

SHIPPED_MANIFEST: Final = Path(__file__).parents[1] / "samples" / "locomotion.toml"


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

    def clips(self, split: str) -> list[tuple[TrialGroup, str]]:
        """Every clip of a split (``"train"`` or ``"test"``) with its group."""
        return [(group, clip) for group in self.groups for clip in (group.train if split == "train" else group.test)]


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
