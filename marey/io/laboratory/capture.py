"""What a laboratory captured, in any format: markers, analog channels, and the person's mass and stature."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FormatError, InputError
from marey.io.binary import AnyPath, as_format_error
from marey.io.laboratory.c3d import load_c3d_analog, load_c3d_markers
from marey.io.laboratory.markers import make_unique_labels
from marey.io.laboratory.opensim import load_table, load_trc_markers
from marey.motion import AnalogTracks, Markers

SIDECARS: Final = ("_subject.json", "subject.json")
MAX_BYTES: Final = 1 << 20  # [byte] of a sidecar
LEVELS: Final = 3  # folders that are searched: that of the capture and those above it
MASSES_KG, HEIGHTS_M = (2.0, 400.0), (0.4, 2.8)  # of people


def load_markers(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, up: str | None = None
) -> Markers:
    """Read the markers of a `.c3d` or `.trc` file exactly, with a mask for what was not seen.

    A C3D file brings its analog channels and force plates along; both formats bring the clock.

    Args:
        path: the file; its suffix names the format.
        rate_hz: frames per second to use instead of the file's.
        unit: length unit to use instead of the file's.
        up: vertical axis to use instead of the file's, as in :func:`marey.load`.

    Raises:
        InputError: the suffix is neither.
        FormatError: the file is damaged.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".c3d", ".trc"):
        fix = "Markers are read from .c3d and .trc files"
        if suffix in (".trb", ".tdf", ".mot", ".sto", ".emg", ".emf"):
            fix += "; export the markers in one of these"
        raise InputError(f"no markers in '{suffix or path}' files", fix)
    reader = load_c3d_markers if suffix == ".c3d" else load_trc_markers
    return reader(path, rate_hz=rate_hz, unit=unit, up=up)


def load_analog(path: AnyPath) -> AnalogTracks:
    """Read the analog channels of a `.c3d` file, or an OpenSim table (`.mot`, `.sto`) of EMG or forces as such.

    Raises:
        InputError: the suffix is none of these.
        FormatError: the file is damaged or has no channels.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".c3d":
        return load_c3d_analog(path)
    if suffix not in (".mot", ".sto"):
        raise InputError(
            f"no analog channels in '{suffix or path}' files", "They are read from .c3d, .mot and .sto files"
        )
    table = load_table(path)
    times = next((table[name] for name in table.names if name.lower() == "time"), np.zeros(0))
    if len(times) < 2 or not (np.diff(times) > 0.0).all():
        raise FormatError("no column 'time' that rises", str(path), 1, "Export the file again.")
    names = tuple(name for name in table.names if name.lower() != "time")
    values = np.stack([table[name] for name in names], axis=1) if names else np.zeros((len(times), 0))
    rate_hz = (len(times) - 1) / float(times[-1] - times[0])
    with as_format_error(path):
        return AnalogTracks(make_unique_labels(names, len(names)), ("",) * len(names), rate_hz, values, float(times[0]))


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a person."""

    mass_kg: float | None = None
    height_m: float | None = None
    source: str = ""  # the file that says so


def find_subject(path: AnyPath) -> Subject | None:
    """Mass and stature from `_subject.json` (AddBiomechanics: ``massKg``, ``heightM``) beside a capture or above it.

    Values that no person has are not taken. None where no such file says anything.
    """
    for folder in list(Path(path).absolute().parents)[:LEVELS]:
        for name in SIDECARS:
            file = folder / name
            try:
                if not file.is_file() or file.stat().st_size > MAX_BYTES:
                    continue
                said: Any = json.loads(file.read_bytes())
            except (OSError, ValueError, RecursionError):
                continue
            if isinstance(said, dict):
                told = cast(dict[str, Any], said)
                mass = _in_range(told.get("massKg", told.get("mass_kg")), MASSES_KG)
                height = _in_range(told.get("heightM", told.get("height_m")), HEIGHTS_M)
                if mass is not None or height is not None:
                    return Subject(mass, height, str(file))
    return None


def _in_range(value: object, bounds: tuple[float, float]) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and bounds[0] <= value <= bounds[1] else None
