"""What else a laboratory records beside markers: analog channels, muscle activity among them, and force plates."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen

_VOLTS = re.compile(r"^\s*(m|u|µ|micro|milli)?\s*v(olts?)?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnalogTracks:
    """C channels sampled together, in the units that the file names."""

    names: tuple[str, ...]  # (C,) unique
    units: tuple[str, ...]  # (C,) as written in the file; empty where it says nothing
    rate_hz: float  # samples per second
    values: FloatArray  # (N, C)
    start_s: float = 0.0  # [s] time of the first sample on the clock of the capture
    plate_channels: tuple[str, ...] = ()  # channels that belong to force plates

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0.0):
            raise InputError(f"rate_hz is {self.rate_hz}", "It must be a positive number of samples per second")
        object.__setattr__(self, "values", frozen(self.values, None, len(self.names), name="values"))

    @property
    def num_samples(self) -> int:
        """How many samples each channel has."""
        return len(self.values)

    @property
    def muscles(self) -> tuple[str, ...]:
        """Channels of muscle activity (EMG): measured in volts or called so, and not those of a plate."""
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
    """What one plate measured, in world axes; forces act on the body, so they push up."""

    kind: int  # C3D's type: 1 centre of pressure, 2 six components, 3 eight sensors, 4 with a calibration matrix
    corners: FloatArray  # (4, 3) [m] of its surface
    rate_hz: float  # samples per second
    forces: FloatArray  # (N, 3) [N]
    places: FloatArray  # (N, 3) [m] centre of pressure; the middle of the plate where it is not loaded
    moments: FloatArray  # (N, 3) [N m] about the centre of pressure
    start_s: float = 0.0  # [s] time of the first sample on the clock of the capture

    def __post_init__(self) -> None:
        object.__setattr__(self, "corners", frozen(self.corners, 4, 3, name="corners"))
        count = len(self.forces)
        for name in ("forces", "places", "moments"):
            object.__setattr__(self, name, frozen(getattr(self, name), count, 3, name=name))

    def __repr__(self) -> str:
        return f"ForcePlate(type {self.kind}, {len(self.forces)} samples, {self.rate_hz:g} Hz)"
