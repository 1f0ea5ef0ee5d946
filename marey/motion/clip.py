"""Motion: a clip of poses at a constant rate, with its contacts, source and load report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from typing import Any, overload

import numpy as np

from marey.base import (
    BoolArray,
    FloatArray,
    InputError,
    UnknownNameError,
    check_rate,
    frozen,
    frozen_bools,
    split_blocks,
)
from marey.lie import SO3
from marey.skeleton import Pose, Skeleton, joint_frames, joint_positions


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Original conventions of a file, so that a writer can reproduce it."""

    path: str
    format: str  # "bvh", "asf/amc", "c3d", ...
    unit: str = "m"  # name of the file's length unit
    metres_per_unit: float = 1.0
    up: str = "+y"  # the file's vertical axis
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """data specific to the format: BVH channel names by joint, ASF root order, end sites, ..."""
    channels: FloatArray | None = None  # (F, C) the file's own channel values, frame by frame
    dropped: FloatArray | None = None  # (D, C) leading channel rows that were not captured (an added T-pose)


class LoadReport:
    """Notes and warnings of a reader; repairs are always reported.

    Expensive checks, such as that of the frame rate, run when ``warnings`` is first accessed.
    """

    __slots__ = ("_later", "_warnings", "notes")

    def __init__(
        self,
        warnings: Iterable[str] = (),
        notes: Iterable[str] = (),
        *,
        later: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self._warnings = tuple(warnings)
        self._later = later
        self.notes = tuple(notes)  # decisions for information only, such as the choice of the unit

    @property
    def warnings(self) -> tuple[str, ...]:
        """Points that need attention, one sentence each."""
        if self._later is not None:
            later, self._later = self._later, None
            self._warnings = (*self._warnings, *later())
        return self._warnings

    def adding(self, *warnings: str, notes: Iterable[str] = ()) -> LoadReport:
        """Return a report with further warnings and notes appended."""
        return LoadReport((*self._warnings, *warnings), (*self.notes, *notes), later=self._later)

    def __reduce__(self) -> tuple[Any, ...]:
        return LoadReport, (self.warnings, self.notes)

    def __repr__(self) -> str:
        return f"LoadReport(warnings={self.warnings}, notes={self.notes})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contacts:
    """Flags of the named points that touch the ground or an object, frame by frame."""

    names: tuple[str, ...]  # (K,) for example "left_heel", "left_toe", "right_hand"
    active: BoolArray  # (F, K)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "active", frozen_bools(self.active, None, len(self.names), name="contacts"))

    @property
    def shape(self) -> tuple[int, ...]:
        """``(F, K)``."""
        return self.active.shape

    def track(self, name: str) -> BoolArray:
        """Return the flags ``(F,)`` of one point."""
        if name not in self.names:
            raise UnknownNameError("contact point", name, "this contact track", self.names)
        return self.active[:, self.names.index(name)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.active, dtype=dtype) if copy else np.asarray(self.active, dtype=dtype)

    def __len__(self) -> int:
        return len(self.active)

    def __getitem__(self, index: slice) -> Contacts:
        return Contacts(self.names, self.active[index])

    def __repr__(self) -> str:
        return f"Contacts({', '.join(self.names)}; {len(self)} frames)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Motion:
    """A clip: one array per quantity, frames first."""

    skeleton: Skeleton
    rate_hz: float  # frames per second
    root_positions: FloatArray  # (F, 3) [m] in world
    rotations: SO3  # batch (F, J), R_parent_joint
    contacts: Contacts | None = None
    translations: FloatArray | None = None
    """(F, J, 3) [m] moving joint offsets, only for files whose bones change length; the root's row is unused"""
    source: Source | None = None
    load_report: LoadReport = field(default_factory=LoadReport)
    name: str = "motion"

    def __post_init__(self) -> None:
        positions = frozen(self.root_positions, None, 3, name="root_positions")
        frames, joints = len(positions), self.skeleton.num_joints
        object.__setattr__(self, "root_positions", positions)  # the one place we may
        if frames == 0:
            raise InputError("a motion without frames", "It needs at least one")
        object.__setattr__(self, "rate_hz", check_rate(self.rate_hz))
        if self.rotations.shape != (frames, joints):
            raise InputError(f"rotations has batch {self.rotations.shape}, expected ({frames}, {joints})")
        if self.contacts is not None and len(self.contacts) != frames:
            raise InputError(f"contacts has {len(self.contacts)} frames, the motion has {frames}")
        if self.translations is not None:
            moving = frozen(self.translations, frames, joints, 3, name="translations")
            object.__setattr__(self, "translations", moving)

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return len(self.root_positions)

    @property
    def duration_s(self) -> float:
        """Time from the first frame to the last [s]."""
        return (self.num_frames - 1) / self.rate_hz

    def times(self) -> FloatArray:
        """Time of each frame [s], from zero: ``index / rate_hz``."""
        return np.arange(self.num_frames) / self.rate_hz

    def joint_positions(self) -> FloatArray:
        """Joint origins ``(F, J, 3)`` [m] in world."""
        return joint_positions(self.skeleton, self.root_positions, self.rotations.wxyz, self.translations)

    def joint_frames(self) -> tuple[FloatArray, SO3]:
        """Joint origins ``(F, J, 3)`` [m] and world rotations, batch ``(F, J)``."""
        return joint_frames(self.skeleton, self.root_positions, self.rotations.wxyz, self.translations)

    def map_frames(
        self,
        compute: Callable[[FloatArray, SO3], FloatArray],
        *,
        size: int = 4096,
        shift: FloatArray | None = None,
    ) -> FloatArray:
        """Apply a function to the joint frames, one block of frames at a time; returns rows ``(F, ...)``.

        Equal to ``compute(*self.joint_frames())``, without the joint frames of the whole clip in memory. A ``shift``
        ``(F, 3)`` [m] is added to the joint origins first.
        """
        rows = np.zeros(0)
        for part in split_blocks(self.num_frames, size):
            moving = None if self.translations is None else self.translations[part]
            origins, frames = joint_frames(self.skeleton, self.root_positions[part], self.rotations.wxyz[part], moving)
            block = compute(origins if shift is None else origins + shift[part, None], frames)
            if len(block) == self.num_frames:
                return block
            rows = rows if part.start else np.empty((self.num_frames, *block.shape[1:]), block.dtype)
            rows[part] = block
        return rows

    @overload
    def __getitem__(self, index: int) -> Pose: ...
    @overload
    def __getitem__(self, index: slice) -> Motion: ...
    def __getitem__(self, index: int | slice) -> Pose | Motion:
        if isinstance(index, slice):
            step = 1 if index.step is None else index.step
            if step == 0:
                raise InputError("a slice has step 0", "Take every n-th frame with n of 1 or more")
            source = self.source
            if source is not None and source.channels is not None:
                source = replace(source, channels=source.channels[index], dropped=None)
            return replace(
                self,
                rate_hz=self.rate_hz / abs(step),
                root_positions=self.root_positions[index],
                rotations=self.rotations[index],
                contacts=None if self.contacts is None else self.contacts[index],
                translations=None if self.translations is None else self.translations[index],
                source=source,
            )
        if not -self.num_frames <= index < self.num_frames:
            raise IndexError(f"frame {index} of a motion of {self.num_frames} frames")
        return Pose(self.skeleton, self.root_positions[index], self.rotations[index])

    def edited_source(self) -> Source | None:
        """Return the source of an edited copy, with the conventions of the file but without its channel values."""
        return None if self.source is None else replace(self.source, channels=None, dropped=None)

    def __len__(self) -> int:
        return self.num_frames

    def __iter__(self) -> Iterator[Pose]:
        return (self[i] for i in range(self.num_frames))

    def _repr_html_(self) -> str:
        """Film strip and facts, for notebooks; the picture room lies above this one and is imported by name."""
        try:
            return str(getattr(import_module("marey.picture"), "motion_html")(self))  # noqa: B009  found by its name
        except Exception:  # displaying a motion never fails a notebook cell
            return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        return (
            f"Motion('{self.name}', {self.skeleton.num_joints} joints, {self.num_frames} frames, "
            f"{self.rate_hz:g} Hz, {self.duration_s:.2f} s)"
        )
