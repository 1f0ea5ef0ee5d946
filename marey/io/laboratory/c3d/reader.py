"""C3D files: marker trajectories as captured, with a mask for what was not seen, analog channels and force plates."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.conventions import unit_in_metres
from marey.io.laboratory.c3d.content import C3dContent, read_content
from marey.io.laboratory.c3d.plates import compute_plates, plate_channels
from marey.io.laboratory.markers import choose_axes, make_unique_labels, markers_to_motion, rotate_to_axes
from marey.motion import AnalogTracks, LoadReport, Markers, Motion, Source

# Groups of points that are no places: results of a model, in degrees, newtons, watts
_RESULTS: Final = ("ANGLES", "FORCES", "MOMENTS", "POWERS", "SCALARS", "REACTIONS")
_LENGTHS: Final = {"millimeters": "mm", "millimetres": "mm", "centimeters": "cm", "meters": "m", "metres": "m"}
_RESULT_ENDINGS: Final = ("angles", "angle", "force", "moment", "power", "anglesv", "anglev", "grf")


def read_c3d(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, up: str | None = None) -> Motion:
    """Show the markers of a C3D file as a motion; see :func:`markers_to_motion`."""
    markers = load_c3d_markers(path, rate_hz=rate_hz, unit=unit, up=up)
    with as_format_error(path):
        return markers_to_motion(markers)


def load_c3d_markers(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, up: str | None = None
) -> Markers:
    """Read every point of a C3D file, in metres and with +Y up, with analog channels and force plates.

    Points that are results of a model (angles, forces, moments, powers) are left out and named in the notes.

    Args:
        path: the `.c3d` file.
        rate_hz: frames per second to use instead of ``POINT:RATE``.
        unit: length unit to use instead of ``POINT:UNITS``.
        up: vertical axis to use instead of ``POINT:Y_SCREEN``.

    Raises:
        FormatError: the file is damaged or holds no points.
    """
    with as_format_error(path):
        content = read_content(path, rate_hz)
        parameters, (frames, count) = content.parameters, content.valid.shape
        labels = make_unique_labels((text.rstrip() for text in parameters.texts("POINT:LABELS")), count)
        if count == 0 or frames == 0:
            channels = content.analog.shape[1]
            held = f"it holds no points, only {channels} analog channels" if channels else "it holds no points"
            fix = "marey.io.load_analog reads them." if channels else "Give a file with marker trajectories."
            raise format_error(path, held, fix)
        warnings, notes = list(content.warnings), list[str]()
        # Results of a model share the list of points
        results = {name for group in _RESULTS for name in parameters.texts(f"POINT:{group}")}
        # Plug-in Gait writes the axes of each segment as four points: origin, anterior, lateral, proximal
        listed = set(labels)
        results |= {label for label in labels if label[-1:] in "OALP" and all(label[:-1] + a in listed for a in "OALP")}
        is_place = [label not in results and not label.lower().endswith(_RESULT_ENDINGS) for label in labels]
        kept = np.flatnonzero(is_place)
        if 0 < len(kept) < count:
            notes.append(
                f"{count - len(kept)} of {count} points are results of a model (angles, forces, axes) and left out"
            )
            positions, valid = content.positions[:, kept], content.valid[:, kept]
            labels = tuple(labels[m] for m in kept)
        else:
            positions, valid = content.positions, content.valid
        named = next(iter(parameters.texts("POINT:UNITS")), "").lower()
        # Metres in a unit and its word. Widths of fields cut words ("mete"), and some files name none
        if unit is not None:
            metres, word = unit_in_metres(unit), unit
        elif named:
            whole = next((known for known in _LENGTHS if len(named) > 2 and known.startswith(named)), named)
            metres, word = unit_in_metres(_LENGTHS.get(whole, whole)), named
        else:
            # What spans between a half and twenty units is in metres
            extent = float(np.ptp(positions[valid], axis=0).max()) if valid.any() else 0.0
            word = "m" if 0.5 < extent < 20.0 else "mm"
            metres = unit_in_metres(word)
            told = "metres are assumed from the size" if word == "m" else "millimetres are assumed"
            warnings.append(f"the file names no length unit; {told}")
        seen = np.where(valid[..., None], positions, 0.0) * metres
        axes, note, doubt = choose_axes(
            seen, valid, parameters.texts("POINT:X_SCREEN"), parameters.texts("POINT:Y_SCREEN"), up
        )
        rate = content.rate_hz if rate_hz is None else rate_hz
        # Plates are in the unit and the axes of the points
        start_s = content.first_frame / rate
        analog = _build_analog(content, rate, start_s)
        plates = ()
        if analog is not None:
            plates, said = compute_plates(parameters, analog, metres, lambda p: rotate_to_axes(p, axes))
            warnings += said
        return Markers(
            labels,
            rate,
            rotate_to_axes(seen, axes),
            valid,
            source=Source(str(path), "c3d", word, metres, axes[1]),
            load_report=LoadReport(warnings + doubt, [*notes, note]),
            name=Path(path).stem,
            start_s=start_s,
            analog=analog,
            plates=plates,
        )


def load_c3d_analog(path: AnyPath) -> AnalogTracks:
    """Read the analog channels of a C3D file, in the units that it names; EMG-only files are welcome.

    Raises:
        FormatError: the file is damaged or holds no analog channels.
    """
    with as_format_error(path):
        content = read_content(path)
        analog = _build_analog(content, content.rate_hz, content.first_frame / content.rate_hz)
        if analog is None:
            raise format_error(path, "it holds no analog channels", "Give a file with EMG or force plates.")
        return analog


def _build_analog(content: C3dContent, rate_hz: float, start_s: float) -> AnalogTracks | None:
    if content.analog.size == 0:
        return None
    count, parameters = content.analog.shape[1], content.parameters
    texts = parameters.texts("ANALOG:UNITS")
    names = make_unique_labels(parameters.texts("ANALOG:LABELS"), count)
    units = tuple(texts[c] if c < len(texts) else "" for c in range(count))
    used = tuple(names[c] for c in sorted(plate_channels(parameters, count)))
    return AnalogTracks(names, units, rate_hz * content.samples, content.analog, start_s, used)
