"""Which captured trials teach which kind of jump."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from marey.base import InputError, MissingFileError
from marey.io import load
from marey.library import Library
from marey.motion import Motion

KINDS: Final = ("walk", "run", "standing")

JUMP_TRIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "walk": (
        *("133_04", "07_01", "07_03", "07_04", "07_12", "08_01", "08_04", "08_06", "16_21", "16_47", "16_58"),
        *("35_01", "35_29", "39_01", "39_09"),
    ),
    "run": (
        *("49_04", "49_05", "127_21", "127_27", "127_30", "127_38", "75_04", "38_03", "16_35", "16_37", "35_17"),
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


@dataclass(frozen=True, slots=True)
class FolderLoader:
    """Trials by name from a folder of motion files."""

    folder: Path
    rates: Mapping[str, float]

    def __call__(self, name: str) -> Motion:
        """Read the trial ``name``, at its true rate."""
        for suffix in (".bvh", ".amc"):
            found = sorted(self.folder.rglob(f"{name}{suffix}"))
            if found:
                return load(found[0], rate_hz=self.rates.get(name, self.rates.get(trial_subject(name))))
        raise MissingFileError(str(self.folder / f"{name}.bvh"), "Give the folder that holds the captured trials.")


def make_loader(source: str | Path | Library | TrialLoader, rates: Mapping[str, float] = TRIAL_RATES_HZ) -> TrialLoader:
    """How to get a trial by its name from a folder, a library, or a function that does it."""
    if isinstance(source, str | Path):
        return FolderLoader(Path(source), rates)
    if isinstance(source, Library):
        return lambda name: source.load(source.find(name).id)
    if callable(source):
        return source
    raise InputError(f"no trials in a {type(source).__name__}", "Give a folder, a library or a function of the name")


def trial_subject(trial: str) -> str:
    """The performer of a trial: what stands before the underscore."""
    return trial.partition("_")[0]


def choose_trials(manifest: Mapping[str, Iterable[str]] | None) -> dict[str, tuple[str, ...]]:
    """Trials by kind: those given, the default for kinds that are not."""
    given = {kind: tuple(names) for kind, names in (manifest or {}).items()}
    for kind in given:
        if kind not in KINDS:
            raise InputError(f"'{kind}' is no kind of jump", f"Use {', '.join(KINDS)}")
    return {kind: given.get(kind, JUMP_TRIALS[kind]) for kind in KINDS}
