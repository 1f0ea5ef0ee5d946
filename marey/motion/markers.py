"""Laboratory recordings: markers with a mask of visibility, analog channels, force plates."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, check_rate, frozen, frozen_bools
from marey.motion.clip import LoadReport, Source

_VOLTS = re.compile(r"^\s*(m|u|µ|micro|milli)?\s*v(olts?)?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnalogTracks:
    """C channels with a common clock, in the units of the file."""

    names: tuple[str, ...]  # (C,) unique
    units: tuple[str, ...]  # (C,) as written in the file; empty if unknown
    rate_hz: float  # samples per second
    values: FloatArray  # (N, C)
    start_s: float = 0.0  # [s] time of the first sample on the clock of the capture
    plate_channels: tuple[str, ...] = ()  # channels that belong to force plates

    def __post_init__(self) -> None:
        check_rate(self.rate_hz, "samples")
        object.__setattr__(self, "values", frozen(self.values, None, len(self.names), name="values"))

    @property
    def num_samples(self) -> int:
        """Number of samples per channel."""
        return len(self.values)

    @property
    def muscles(self) -> tuple[str, ...]:
        """Channels of muscle activity (EMG): in volts or named so, except channels of force plates."""
        named = zip(self.names, self.units, strict=True)
        return tuple(
            name
            for name, unit in named
            if name not in self.plate_channels and (_VOLTS.match(unit) or "emg" in name.lower())
        )

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self.names:
            raise UnknownNameError("channel", name, "these analog tracks", self.names)
        return self.values[:, self.names.index(name)]

    def __repr__(self) -> str:
        return f"AnalogTracks({len(self.names)} channels, {self.num_samples} samples, {self.rate_hz:g} Hz)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForcePlate:
    """Recording of one force plate in world axes; forces act on the body and therefore point up."""

    kind: int  # C3D's type: 1 centre of pressure, 2 six components, 3 eight sensors, 4 with a calibration matrix
    corners: FloatArray  # (4, 3) [m] of its surface
    rate_hz: float  # samples per second
    forces: FloatArray  # (N, 3) [N]
    places: FloatArray  # (N, 3) [m] centre of pressure; the centre of the plate while unloaded
    moments: FloatArray  # (N, 3) [N m] about the centre of pressure
    start_s: float = 0.0  # [s] time of the first sample on the clock of the capture

    def __post_init__(self) -> None:
        object.__setattr__(self, "corners", frozen(self.corners, 4, 3, name="corners"))
        count = len(self.forces)
        for name in ("forces", "places", "moments"):
            object.__setattr__(self, name, frozen(getattr(self, name), count, 3, name=name))

    def __repr__(self) -> str:
        return f"ForcePlate(type {self.kind}, {len(self.forces)} samples, {self.rate_hz:g} Hz)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Markers:
    """Points seen by cameras. If ``valid`` is false the position is zero and meaningless; it is never a NaN."""

    names: tuple[str, ...]  # (M,) unique
    rate_hz: float  # frames per second
    positions: FloatArray  # (F, M, 3) [m] in world
    valid: BoolArray  # (F, M) the marker was seen
    source: Source | None = None
    load_report: LoadReport = field(default_factory=LoadReport)
    name: str = "markers"
    start_s: float = 0.0  # [s] time of the first frame on the clock of the capture
    analog: AnalogTracks | None = None  # all channels that were recorded beside the markers
    plates: tuple[ForcePlate, ...] = ()

    def __post_init__(self) -> None:
        names = tuple(str(n) for n in self.names)
        if len(set(names)) < len(names):
            repeated = next(n for n in names if names.count(n) > 1)
            raise InputError(f"two markers are called '{repeated}'", "Marker names must differ")
        if not np.isfinite(self.start_s):
            raise InputError(f"start_s is {self.start_s}", "It must be a time in seconds")
        valid = frozen_bools(self.valid, None, len(names), name="valid")
        seen = np.asarray(self.positions, dtype=np.float64)
        if seen.shape == (*valid.shape, 3):
            seen = np.where(valid[..., None], seen, 0.0)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "rate_hz", check_rate(self.rate_hz))
        object.__setattr__(self, "start_s", float(self.start_s))
        object.__setattr__(self, "valid", valid)
        object.__setattr__(self, "positions", frozen(seen, len(valid), len(names), 3, name="positions"))

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return len(self.valid)

    @property
    def num_markers(self) -> int:
        """Number of markers."""
        return len(self.names)

    @property
    def duration_s(self) -> float:
        """Time from the first frame to the last [s]."""
        return max(self.num_frames - 1, 0) / self.rate_hz

    def track(self, name: str) -> tuple[FloatArray, BoolArray]:
        """Return the positions ``(F, 3)`` [m] and the visibility ``(F,)`` of one marker."""
        if name not in self.names:
            raise UnknownNameError("marker", name, f"'{self.name}'", self.names)
        index = self.names.index(name)
        return self.positions[:, index], self.valid[:, index]

    def fill_gaps(self, max_gap_s: float = 0.1, *, method: str = "spline") -> Markers:
        """Fill gaps of at most ``max_gap_s`` [s] between two sightings; longer gaps stay masked.

        Args:
            max_gap_s: longest gap to fill.
            method: ``"linear"``, or ``"spline"``: a cubic through all sightings of the marker.

        Raises:
            InputError: the method is unknown.
        """
        if method not in ("linear", "spline"):
            raise InputError(f"gap filling method '{method}'", "Use 'linear' or 'spline'")
        max_frames = int(max_gap_s * self.rate_hz + 1e-9)
        positions, valid = self.positions.copy(), self.valid.copy()
        for m in range(self.num_markers):
            # Frames of short gaps with a sighting on either side
            gaps = np.zeros(self.num_frames, dtype=np.bool_)
            seen = np.flatnonzero(self.valid[:, m])
            for before, after in pairwise(seen):
                gaps[before + 1 : after] = after - before - 1 <= max_frames
            if not gaps.any():
                continue
            wanted, track = np.flatnonzero(gaps), self.positions[seen, m]
            if method == "linear" or len(seen) < 4:
                for axis in range(3):
                    positions[wanted, m, axis] = np.interp(wanted, seen, track[:, axis])
            else:
                from scipy.interpolate import CubicSpline

                positions[wanted, m] = CubicSpline(seen, track)(wanted)
            valid[gaps, m] = True
        return replace(self, positions=positions, valid=valid)

    def __getitem__(self, index: slice) -> Markers:
        step = 1 if index.step is None else abs(index.step)
        first = range(self.num_frames)[index]
        return replace(
            self,
            rate_hz=self.rate_hz / step,
            positions=self.positions[index],
            valid=self.valid[index],
            start_s=self.start_s + (first[0] / self.rate_hz if len(first) else 0.0),
        )

    def __len__(self) -> int:
        return self.num_frames

    def __repr__(self) -> str:
        seen = 100.0 * self.valid.mean() if self.valid.size else 0.0
        return (
            f"Markers('{self.name}', {self.num_markers} markers, {self.num_frames} frames, {self.rate_hz:g} Hz, "
            f"{seen:.1f} % seen)"
        )
