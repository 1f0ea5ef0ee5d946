"""C3D files: marker trajectories with a mask for what was not seen, analog channels and force plates ([C3D2008]_)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.conventions import unit_in_metres
from marey.io.laboratory.c3d.content import C3dContent, C3dParameters, read_content
from marey.io.laboratory.markers import choose_axes, make_unique_labels, markers_to_motion, rotate_to_axes
from marey.motion import AnalogTracks, ForcePlate, LoadReport, Markers, Motion, Source

LOADED_N: Final = 10.0  # [N] of vertical force below which a centre of pressure means nothing
EMPTY: Final = 0.2  # [-] baseline over largest value of a channel up to which the plate counts as empty
NUM_CHANNELS: Final = {1: 6, 2: 6, 3: 8, 4: 6}


def plate_channels(parameters: C3dParameters, count: int) -> set[int]:
    """Numbers of the analog channels that belong to plates."""
    listed = parameters.array("FORCE_PLATFORM:CHANNEL").ravel().astype(np.int64) - 1
    return {int(c) for c in listed if 0 <= c < count}


def compute_plates(
    parameters: C3dParameters, analog: AnalogTracks, metres: float, turn: Callable[[FloatArray], FloatArray]
) -> tuple[tuple[ForcePlate, ...], list[str]]:
    r"""Return the plates of types 1 to 4, and sentences about those that cannot be read.

    With force F and moment M about the plate's own origin o below its surface, both in the plate's axes, the moment
    about the middle of the surface is :math:`M + F \times o`, and the centre of pressure
    :math:`(-M_y, M_x) / F_z`. Axes follow from the corners. Forces are turned so that they push the body up.

    Args:
        parameters: of the file.
        analog: its channels.
        metres: metres in the file's unit of length.
        turn: from the file's axes to ours.
    """
    count = int(parameters.number("FORCE_PLATFORM:USED", 0.0))
    kinds = parameters.array("FORCE_PLATFORM:TYPE").ravel().astype(np.int64)
    corners = parameters.array("FORCE_PLATFORM:CORNERS").ravel()
    origins = parameters.array("FORCE_PLATFORM:ORIGIN").ravel()
    channels = np.atleast_2d(parameters.array("FORCE_PLATFORM:CHANNEL").astype(np.int64))
    matrices = parameters.array("FORCE_PLATFORM:CAL_MATRIX").ravel()
    plates, said = list[ForcePlate](), list[str]()
    for p in range(min(count, len(kinds), 64)):
        kind = int(kinds[p])
        wanted = NUM_CHANNELS.get(kind)
        if wanted is None:
            said.append(f"force plate {p + 1} is of type {kind}; types 1 to 4 are read")
            continue
        listed = channels[p] - 1 if p < len(channels) else np.zeros(0, dtype=np.int64)
        inside = listed[(listed >= 0) & (listed < len(analog.names))][:wanted]
        if len(inside) < wanted or len(corners) < 12 * (p + 1) or len(origins) < 3 * (p + 1):
            said.append(f"force plate {p + 1} lacks channels, corners or an origin and is left out")
            continue
        # Subtract the mean of the samples that FORCE_PLATFORM:ZERO names, unless somebody stands on the plate by then
        raw = analog.values[:, inside]
        zero = parameters.array("FORCE_PLATFORM:ZERO").ravel()
        if len(zero) >= 2 and 0 < zero[0] <= zero[1] <= len(raw):
            base = raw[int(zero[0]) - 1 : int(zero[1])].mean(axis=0)
            is_empty = bool((np.abs(base) <= EMPTY * np.maximum(np.abs(raw).max(axis=0), 1e-9)).all())
            raw = raw - base if is_empty else raw
        if kind == 4 and len(matrices) >= 36 * (p + 1):
            raw = raw @ matrices[36 * p : 36 * (p + 1)].reshape(6, 6)
        # Newton metres come from the unit of the channel; without one from the unit of length
        moment_unit = analog.units[int(inside[5])].replace(" ", "").replace(".", "").lower()
        per_moment = {"nm": 1.0, "nmm": 1e-3, "ncm": 1e-2}.get(moment_unit, metres)
        square = corners[12 * p : 12 * (p + 1)].reshape(4, 3) * metres
        origin = origins[3 * p : 3 * (p + 1)] * metres
        force, moment = _local_wrench(kind, raw, origin, metres, per_moment)
        # Axes of the plate as columns: x from the second corner to the first, y from the fourth
        x, y = square[0] - square[1], square[0] - square[3]
        z = np.cross(x, y)
        if min(np.linalg.norm(x), np.linalg.norm(z)) < 1e-9:
            said.append(f"force plate {p + 1} has no area and is left out")
            continue
        axes = np.stack([column / np.linalg.norm(column) for column in (x, np.cross(z, x), z)], axis=1)
        # Centre of pressure on the surface, moments about it
        pressed = np.abs(force[:, 2]) > LOADED_N
        safe = np.where(pressed, force[:, 2], 1.0)
        local = np.where(
            pressed[:, None], np.stack([-moment[:, 1], moment[:, 0], 0.0 * safe], axis=1) / safe[:, None], 0.0
        )
        free = moment - np.cross(local, force)
        world_forces, world_free = turn(force @ axes.T), turn(free @ axes.T)
        places = turn(local @ axes.T + square.mean(axis=0))
        sign = -1.0 if world_forces[pressed, 1].sum() < 0.0 else 1.0
        plates.append(
            ForcePlate(
                kind, turn(square), analog.rate_hz, sign * world_forces, places, sign * world_free, analog.start_s
            )
        )
    return tuple(plates), said


def _local_wrench(
    kind: int, raw: FloatArray, origin: FloatArray, metres: float, per_moment: float
) -> tuple[FloatArray, FloatArray]:
    """Force [N] and moment [N m] about the middle of the surface, in the plate's axes."""
    if kind == 1:
        # Force, centre of pressure and the moment about the vertical
        force = raw[:, :3]
        centre = np.stack([raw[:, 3], raw[:, 4], 0.0 * raw[:, 3]], axis=1) * metres
        moment = np.cross(centre, force)
        moment[:, 2] += raw[:, 5] * per_moment
        return force, moment
    if kind == 3:
        # Sums of pairs of sensors at (±a, ±b): fx12, fx34, fy14, fy23, fz1..fz4
        fx12, fx34, fy14, fy23, fz1, fz2, fz3, fz4 = raw.T
        a, b, depth = origin
        force = np.stack([fx12 + fx34, fy14 + fy23, fz1 + fz2 + fz3 + fz4], axis=1)
        moment = np.stack(
            [b * (fz1 + fz2 - fz3 - fz4), a * (-fz1 + fz2 + fz3 - fz4), b * (-fx12 + fx34) + a * (fy14 - fy23)], axis=1
        )
        below = np.array([0.0, 0.0, -abs(depth)])
        return force, moment + np.cross(force, below)
    # The origin is written from the surface down or from the sensor up: it always lies below
    below = -origin if origin[2] > 0.0 else origin
    return raw[:, :3], raw[:, 3:6] * per_moment + np.cross(raw[:, :3], below)


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
