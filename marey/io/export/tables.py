"""Tables of numbers as text, and joint positions in them: CSV for spreadsheets and scripts, TRC as OpenSim reads it."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, kernel
from marey.io.binary import AnyPath
from marey.motion import Motion

WIDEST: Final = 1e9  # [deg or unit] largest value written
MILLIMETRES: Final = 1000.0  # in a metre
DECIMALS: Final = 9  # of times and quaternions; positions are rounded to micrometres or less before


def write_csv(motion: Motion, path: AnyPath, *, rotations: bool = False) -> None:
    """Write joint positions [m] in world, +Y up, one row a frame; the header names joint, axis and unit.

    Columns are ``frame``, ``time_s``, then ``JOINT_x_m``, ``JOINT_y_m``, ``JOINT_z_m`` for every joint; contacts follow
    as ``contact_NAME``, 0 or 1.

    Args:
        motion: what to write.
        path: a `.csv` file.
        rotations: add the rotation of each joint relative to its parent as ``JOINT_qw`` to ``JOINT_qz``.
    """
    names = motion.skeleton.names
    header = ["frame", "time_s", *(f"{name}_{axis}_m" for name in names for axis in "xyz")]
    columns = [_number_frames(motion, first=0), np.round(motion.joint_positions(), 6)]
    if rotations:
        header += [f"{name}_q{part}" for name in names for part in "wxyz"]
        columns.append(motion.rotations.continuous().wxyz)
    if motion.contacts is not None:
        header += [f"contact_{name}" for name in motion.contacts.names]
        columns.append(motion.contacts.active.astype(np.float64))
    table = np.concatenate([column.reshape(motion.num_frames, -1) for column in columns], axis=1, dtype=np.float64)
    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(header)
    Path(path).write_bytes(line.getvalue().encode() + format_numbers(table, DECIMALS, separator=b","))


def write_trc(motion: Motion, path: AnyPath) -> None:
    """Write joint centres as markers of a TRC file, in millimetres, +Y up, as OpenSim wants its header.

    Args:
        motion: what to write; a joint's name becomes a marker's, spaces and tabs replaced.
        path: a `.trc` file.
    """
    names = ["_".join(name.split()) or "joint" for name in motion.skeleton.names]
    count, rate = motion.num_frames, f"{motion.rate_hz:.10g}"
    labels = "DataRate CameraRate NumFrames NumMarkers Units OrigDataRate OrigDataStartFrame OrigNumFrames"
    axes = [f"{axis}{number}" for number in range(1, len(names) + 1) for axis in "XYZ"]
    head = [
        f"PathFileType\t4\t(X/Y/Z)\t{motion.name}.trc",
        "\t".join(labels.split()),
        "\t".join([rate, rate, str(count), str(len(names)), "mm", rate, "1", str(count)]),
        "\t".join(["Frame#", "Time", *(f"{name}\t\t" for name in names)]),
        "\t".join(["", "", *axes]),
        "",
    ]
    places = np.round(motion.joint_positions() * MILLIMETRES, 5).reshape(count, -1)
    table = np.concatenate([_number_frames(motion, first=1), places], axis=1)
    text = "\n".join(head) + "\n"
    Path(path).write_bytes(text.encode() + format_numbers(table, DECIMALS, separator=b"\t"))


def _number_frames(motion: Motion, *, first: int) -> FloatArray:
    """Number and time [s] of each frame, ``(F, 2)``."""
    return np.stack([first + np.arange(motion.num_frames, dtype=np.float64), motion.times()], axis=1)


def format_numbers(rows: FloatArray, decimals: int, *, separator: bytes = b" ") -> bytes:
    """Text of a table ``(F, C)``, a row a line; values are below ``WIDEST`` and have at most nine decimals.

    Raises:
        InputError: a value is too large.
    """
    if rows.size and not np.abs(rows).max() <= WIDEST:
        raise InputError(f"a value of {np.abs(rows).max():g} is too large for a text file", "Check the motion's unit")
    out = np.empty(24 * rows.size, dtype=np.uint8)
    text = out[: format_table(np.ascontiguousarray(rows), decimals, out)].tobytes()
    return text if separator == b" " else text.replace(b" ", separator)


@kernel
def format_table(values: FloatArray, decimals: int, out: NDArray[np.uint8]) -> int:
    """Write a row a line with at most ``decimals`` decimals, no trailing zeros; returns the bytes used.

    ``out`` has at least 24 bytes a value; ``abs(values) * 10**decimals`` fits in 63 bits.
    """
    scale = 10**decimals
    p = 0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            p = format_fixed(values[row, column], scale, decimals, out, p)
            out[p] = 32
            p += 1
        out[p - 1] = 10
    return p


@kernel
def format_fixed(value: float, scale: int, decimals: int, out: NDArray[np.uint8], p: int) -> int:
    """Write one number from byte ``p`` on; returns the byte after it."""
    number = np.int64(np.rint(abs(value) * scale))
    whole, part = number // scale, number % scale
    if value < 0.0 and number > 0:
        out[p] = 45
        p += 1
    # Digits before the point, the last one first
    length = 1
    while 10**length <= whole:
        length += 1
    for n in range(length):
        out[p + length - 1 - n] = 48 + whole % 10
        whole //= 10
    p += length
    # Digits after it, without zeros at the end
    if part == 0:
        return p
    while part % 10 == 0:
        part //= 10
        decimals -= 1
    out[p] = 46
    for n in range(decimals):
        out[p + decimals - n] = 48 + part % 10
        part //= 10
    return p + decimals + 1
