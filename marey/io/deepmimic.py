"""DeepMimic clips: JSON with one row of joint rotations a frame ([Peng2018]_, the clips of its humanoid).

A row is the duration of the frame [s], the root's position and, joint by joint, a quaternion (scalar first) or, for
knees and elbows, one angle about the body's left-right axis. The body rests upright with its arms down, +Y up, and
looks along +X; we turn it to look along +Z.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, FormatError, InputError
from marey.io.binary import AnyPath, as_format_error, file_size, format_error, parse_json
from marey.io.conventions import COMMON_RATES
from marey.io.text import make_printable
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import Skeleton, SkeletonDraft

MAX_BYTES: Final = 16 << 20  # [byte] five minutes at 60 Hz
ROW_LENGTH: Final = 44
SAME_DURATION: Final = 1e-3  # [-] durations that differ less are one duration, printed or measured unevenly
CUT_DIGITS: Final = 1e-4  # [-] 0.016666 s and 1/60 s differ by half of it

# name, parent, offset [m] in the clip's axes: x forward, y up, z right; numbers of the row it takes (4 or 1, 0: fixed).
# Offsets are those of the humanoid that DeepMimic's clips were made for; PyBullet ships them four times as large
# (pybullet_data/humanoid/humanoid.urdf, loaded with globalScaling=0.25).
_JOINTS: Final = (
    ("root", -1, (0.0, 0.0, 0.0), 4),
    ("chest", 0, (0.0, 0.236151, 0.0), 4),
    ("neck", 1, (0.0, 0.223894, 0.0), 4),
    ("right_hip", 0, (0.0, 0.0, 0.084887), 4),
    ("right_knee", 3, (0.0, -0.421546, 0.0), 1),
    ("right_ankle", 4, (0.0, -0.409870, 0.0), 4),
    ("right_shoulder", 1, (-0.024050, 0.243500, 0.183110), 4),
    ("right_elbow", 6, (0.0, -0.274788, 0.0), 1),
    ("left_hip", 0, (0.0, 0.0, -0.084887), 4),
    ("left_knee", 8, (0.0, -0.421546, 0.0), 1),
    ("left_ankle", 9, (0.0, -0.409870, 0.0), 4),
    ("left_shoulder", 1, (-0.024050, 0.243500, -0.183110), 4),
    ("left_elbow", 11, (0.0, -0.274788, 0.0), 1),
    ("right_wrist", 7, (0.0, -0.258947, 0.0), 0),
    ("left_wrist", 12, (0.0, -0.258947, 0.0), 0),
)
# Where bones end [m]: the front of the foot box (0.177 x 0.055 x 0.09 m), the top of the head ball, the hand ball.
_TIPS: Final = {
    "neck": (0.0, 0.277500, 0.0),
    "right_ankle": (0.133500, -0.050000, 0.0),
    "left_ankle": (0.133500, -0.050000, 0.0),
    "right_wrist": (0.0, -0.040000, 0.0),
    "left_wrist": (0.0, -0.040000, 0.0),
}


def deepmimic_skeleton() -> Skeleton:
    """The DeepMimic humanoid: 13 joints and two wrists that do not turn; facing +Z, arms down."""
    draft = SkeletonDraft(name="deepmimic")
    for name, parent, offset, _ in _JOINTS:
        draft.add(name, parent, [float(x) for x in _rotate_to_face_z(np.array(offset))])
    for name, tip in _TIPS.items():
        draft.tips[draft.names.index(name)] = [float(x) for x in _rotate_to_face_z(np.array(tip))]
    return draft.build()


def read_deepmimic(path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a DeepMimic clip, `.txt` or `.json`.

    Frames of uneven duration are sampled anew at the most common one, by linear and spherical interpolation, and
    the report says so.

    Args:
        path: the file.
        rate_hz: frames per second to use instead of the durations in the file.
        unit: the clips are in metres; anything but ``"m"`` is refused.

    Raises:
        FormatError: the file is not JSON, or its rows are not those of the humanoid.
    """
    if unit not in (None, "m"):
        raise InputError(f"unit '{unit}' for a DeepMimic clip", "These clips are always in metres; leave unit out")
    file_size(path, limit=MAX_BYTES)
    data = Path(path).read_bytes()
    if Path(path).suffix.lower() == ".txt" and data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        raise format_error(
            path, "a text that holds no motion: a .txt file is read as a DeepMimic clip", "Give a motion file."
        )
    content = parse_json(data, path)
    with as_format_error(path):
        described = cast(dict[str, Any], content) if isinstance(content, dict) else {}
        frames = described.get("Frames")
        if not isinstance(frames, list) or not frames:
            first: Any = cast(list[Any], content)[0] if isinstance(content, list) and content else cast(Any, content)
            keys = [make_printable(key) for key in cast(dict[str, Any], first)] if isinstance(first, dict) else []
            held = f"; it holds {', '.join(repr(key) for key in keys[:3])}" if keys else ""
            what = f"no list 'Frames': this is no DeepMimic clip{held}"
            raise format_error(path, what, "Give a file like humanoid3d_walk.txt.")
        for number, row in enumerate(cast(list[Any], frames)):
            length = len(cast(list[Any], row)) if isinstance(row, list) else 0
            if length != ROW_LENGTH:
                what = f"frame {number} has {length} values; the humanoid has {ROW_LENGTH}"
                raise FormatError(what, str(path), 0, "Only humanoid3d clips are read.")
        rows = np.array(frames, dtype=np.float64)
        if not np.isfinite(rows).all():
            frame, column = np.argwhere(~np.isfinite(rows))[0]
            raise format_error(path, f"frame {frame}, value {column} is not finite")
        positions, rotations = _rotate_to_face_z(rows[:, 1:4]), _rotations(rows)
        rate, uneven, notes, warnings = _timing(rows[:, 0], path)
        if uneven is not None and rate_hz is None:
            # Frames of uneven duration: sampled anew, linear and along geodesics
            wanted = np.arange(int(uneven[-1] * rate + 1e-6) + 1) / rate
            before = np.clip(np.searchsorted(uneven, wanted, side="right") - 1, 0, len(uneven) - 2)
            u = ((wanted - uneven[before]) / (uneven[before + 1] - uneven[before])).clip(0.0, 1.0)
            a, b = rotations[before], rotations[before + 1]
            step = (a.inverse() @ b).log()
            positions = positions[before] + u[:, None] * (positions[before + 1] - positions[before])
            rotations = a @ SO3.exp(u[:, None, None] * step)
        return Motion(
            deepmimic_skeleton(),
            rate if rate_hz is None else rate_hz,
            positions,
            rotations,
            source=Source(str(path), "deepmimic", layout={"loop": str(described.get("Loop", "none"))}),
            load_report=LoadReport(warnings, notes),
            name=Path(path).stem,
        )


def _rotations(rows: FloatArray) -> SO3:
    """Local rotations, batch (F, 15): turning the axes of the world turns every rotation vector with it."""
    columns: list[FloatArray] = []
    first = 4
    for _, _, _, width in _JOINTS:
        if width == 4:
            columns.append(SO3(rows[:, first : first + 4]).wxyz)
        elif width == 1:
            columns.append(SO3.exp(rows[:, first : first + 1] * np.array([0.0, 0.0, 1.0])).wxyz)
        else:
            columns.append(SO3.identity(len(rows)).wxyz)
        first += width
    wxyz = np.stack(columns, axis=1)
    return SO3(np.concatenate([wxyz[..., :1], _rotate_to_face_z(wxyz[..., 1:])], axis=-1))


def _rotate_to_face_z(vectors: FloatArray) -> FloatArray:
    """Turn ``(x forward, y up, z right)`` to ``(x left, y up, z forward)``."""
    return np.stack([-vectors[..., 2], vectors[..., 1], vectors[..., 0]], axis=-1)


def _timing(durations: FloatArray, path: AnyPath) -> tuple[float, FloatArray | None, list[str], list[str]]:
    """Rate [Hz], uneven frame times [s] or None, notes and warnings; the last duration leads nowhere."""
    steps = durations[:-1] if len(durations) > 1 else durations
    if (steps <= 0.0).any():
        raise format_error(path, f"frame {int(np.argmax(steps <= 0.0))} lasts {steps[steps <= 0.0][0]:g} s")
    values, counts = np.unique(steps, return_counts=True)
    common = float(values[np.argmax(counts)])
    # The common rate that a duration of few digits stands for (0.016666 s is 1/60 s), else its inverse
    rate = 1.0 / common
    near = min(COMMON_RATES, key=lambda common: abs(common - rate))
    rate = near if abs(near - rate) < CUT_DIGITS * rate else rate
    odd = np.abs(steps / common - 1.0) > SAME_DURATION
    notes = [f"frames of {common:g} s are read as {rate:g} Hz"] if rate * common != 1.0 else []
    if not odd.any():
        return rate, None, notes, []
    times = np.concatenate([[0.0], np.cumsum(steps)])
    if times[-1] * rate > 100.0 * len(durations):
        raise format_error(path, f"frame {int(np.argmax(steps))} lasts {steps.max():g} s among frames of {common:g} s")
    times *= 1.0 / (common * rate)
    what = f"{int(odd.sum())} of {len(steps)} frames do not last {common:g} s; the clip was resampled at {rate:g} Hz"
    return rate, times, notes, [what]
