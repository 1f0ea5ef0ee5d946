"""What the library says about a clip, and what can be asked of it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Outcome = Literal["added", "duplicate", "unchanged", "failed"]
Span = tuple[float | None, float | None]  # lowest and highest value wanted; None is no limit


@dataclass(frozen=True, slots=True)
class ClipRecord:
    """One row of the catalogue: where a clip came from and what was measured on it."""

    id: str  # address of the motion's content, 32 hexadecimal digits
    name: str
    subject: str | None  # "07" for 07_01.bvh, or as given
    behaviour: str  # one of BEHAVIOURS, guessed from measured features
    num_joints: int
    num_frames: int
    rate_hz: float
    duration_s: float
    height_m: float  # sole to crown of the rest skeleton
    mean_speed_mps: float  # horizontal path of the root over time
    heading_change_rad: float  # net turn of the pelvis, positive to the left (towards +X)
    flight_s: float  # longest time without a foot or a hand on the ground
    root_low_m: float  # lowest and highest root above the ground
    root_high_m: float
    format: str  # of the file it was read from
    source: str  # path as it was given
    source_absolute: str
    file_sha256: str  # of the stored clip file
    file_bytes: int
    joints: tuple[str, ...] = ()
    contacts: tuple[str, ...] = ()  # names of the contact points stored with the clip
    warnings: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions that must all hold; an empty query finds every clip."""

    tags: tuple[str, ...] = ()
    behaviour: str | None = None
    subject: str | None = None
    text: str | None = None  # part of the name, the file and its folder, a tag or a warning; any case
    speed_mps: Span = (None, None)
    duration_s: Span = (None, None)
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """What became of one file."""

    path: str
    outcome: Outcome
    clip_id: str | None = None
    message: str = ""  # why it failed, or which clip it repeats


@dataclass(frozen=True, slots=True)
class AddReport:
    """What became of every file of one call to :meth:`Library.add`, in the order they were given."""

    results: tuple[AddOutcome, ...] = ()

    def _having(self, outcome: Outcome) -> tuple[AddOutcome, ...]:
        return tuple(result for result in self.results if result.outcome == outcome)

    @property
    def added(self) -> tuple[AddOutcome, ...]:
        """Files whose motion is new to the library."""
        return self._having("added")

    @property
    def duplicates(self) -> tuple[AddOutcome, ...]:
        """Files whose motion the library already holds."""
        return self._having("duplicate")

    @property
    def unchanged(self) -> tuple[AddOutcome, ...]:
        """Files read by an earlier run and not touched since: they were skipped."""
        return self._having("unchanged")

    @property
    def failed(self) -> tuple[AddOutcome, ...]:
        """Files that could not be read, each with its message."""
        return self._having("failed")

    def __str__(self) -> str:
        counts = (
            f"{len(self.added)} added",
            f"{len(self.duplicates)} duplicates",
            f"{len(self.unchanged)} unchanged",
            f"{len(self.failed)} failed",
        )
        return ", ".join(counts)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What :meth:`Library.verify` found; ``is_sound`` when every clip is there whole."""

    checked: int
    missing: tuple[str, ...] = ()  # rows whose file is gone
    damaged: tuple[str, ...] = ()  # rows whose file does not hold what was written
    strays: tuple[str, ...] = ()  # files without a row
    repairs: tuple[str, ...] = field(default=())  # what was done about it, one sentence each

    @property
    def is_sound(self) -> bool:
        """Nothing was found missing, damaged or astray."""
        return not (self.missing or self.damaged or self.strays)

    def __str__(self) -> str:
        if self.is_sound:
            return f"{self.checked} clips, all whole"
        found = f"{len(self.missing)} missing, {len(self.damaged)} damaged, {len(self.strays)} without a row"
        return f"{self.checked} clips: {found}"


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One file to read, with what the user said about it; sent to a worker as JSON."""

    path: str
    tags: tuple[str, ...] = ()
    subject: str | None = None
    rate_hz: float | None = None
    unit: str | None = None

    @property
    def options(self) -> str:
        """What makes the same file another motion: part of the key that tells an unchanged file."""
        return f"rate_hz={self.rate_hz} unit={self.unit}"

    @property
    def absolute(self) -> str:
        """The path from the root of the file system."""
        return str(Path(self.path).absolute())
