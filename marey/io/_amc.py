"""AMC reader: the motion of an Acclaim pair."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, MissingFileError
from marey.io._amc_parse import parse_amc
from marey.io._asf import AsfSkeleton, load_asf
from marey.io._text import plural, read_text
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source

ASSUMED_RATE_HZ: Final = 120.0  # AMC files carry no rate; nearly all of the CMU database was recorded at this one


def read_amc(
    path: str | os.PathLike[str],
    *,
    asf: str | os.PathLike[str] | None = None,
    rate_hz: float | None = None,
    unit: str | None = None,
) -> Motion:
    """Read an AMC file with the ASF skeleton that belongs to it.

    Args:
        path: the AMC file.
        asf: its skeleton; by default the ASF of the same name, of the same name up to the first ``_``,
            or the only one in the folder.
        rate_hz: frames per second; 120 if not given.
        unit: unit of length of both files, when the one of the ASF is wrong.

    Raises:
        MissingFileError: there is no such file, or no ASF can be found.
        FormatError: a file breaks its format; the message has the line and the fix.
    """
    text = read_text(path)
    skeleton_path = Path(asf) if asf is not None else find_asf(Path(path))
    body = load_asf(skeleton_path, unit=unit)
    file = parse_amc(text, body.skeleton.names, body.dofs, degrees=body.degrees)
    empty = _count_empty(file.channels)
    channels = file.channels[empty:]
    rate = rate_hz if rate_hz is not None else file.rate_hz or ASSUMED_RATE_HZ
    warnings = [*body.warnings, *file.warnings]
    if empty:
        what = f"only zeros at the start, for {plural(empty, 'frame')}"
        warnings.append(f"{what}: not captured, left out (source.dropped keeps them)")
    notes = [body.unit.note]
    if rate_hz is None and file.rate_hz is None:
        notes.append(f"an AMC file carries no frame rate; {ASSUMED_RATE_HZ:g} Hz assumed. Give rate_hz= to override")
    return Motion(
        body.skeleton,
        rate,
        _root_positions(channels, body) * body.unit.metres,
        _rotations(channels, body),
        source=Source(
            str(path),
            "asf/amc",
            body.unit.name,
            body.unit.metres,
            layout={"asf": str(skeleton_path), "dofs": body.dofs},
            channels=channels,
            dropped=file.channels[:empty] if empty else None,
        ),
        load_report=LoadReport(warnings, notes),
        name=Path(path).stem,
    )


def find_asf(path: Path) -> Path:
    """Find the skeleton of an AMC file beside it."""
    beside = sorted(p for p in path.parent.iterdir() if p.suffix.lower() == ".asf" and p.is_file())
    for stem in (path.stem, path.stem.split("_")[0]):
        match = [p for p in beside if p.stem.lower() == stem.lower()]
        if match:
            return match[0]
    if len(beside) == 1:
        return beside[0]
    wanted = path.with_name(f"{path.stem.split('_')[0]}.asf")
    found = f"The folder has {', '.join(p.name for p in beside[:4])}. " if beside else ""
    raise MissingFileError(str(wanted), f"{found}An AMC needs its ASF skeleton beside it, or name it with asf=.")


def _count_empty(channels: FloatArray) -> int:
    filled = np.flatnonzero(channels.any(axis=1))
    return int(filled[0]) if len(filled) else 0


def _columns(body: AsfSkeleton) -> tuple[IntArray, IntArray]:
    """Rotation axes and columns ``(J, 3)`` for the composing kernel, whose first factor acts last."""
    axes = np.full((len(body.dofs), 3), -1, dtype=np.int64)
    columns = np.full((len(body.dofs), 3), -1, dtype=np.int64)
    start = 0
    for joint, dofs in enumerate(body.dofs):
        letters = [letter for letter in body.turn_order[joint] if f"r{letter}" in dofs]
        for slot, letter in enumerate(reversed(letters)):
            axes[joint, slot] = "xyz".index(letter)
            columns[joint, slot] = start + dofs.index(f"r{letter}")
        start += len(dofs)
    return axes, columns


def _rotations(channels: FloatArray, body: AsfSkeleton) -> SO3:
    """Local rotations ``R = C E C^-1``, where E is the product of the joint's Euler angles."""
    from marey.io._euler_kernels import compose_euler

    axes, columns = _columns(body)
    turns = SO3(compose_euler(np.ascontiguousarray(channels), axes, columns))
    return body.frames @ turns @ body.frames.inverse()


def _root_positions(channels: FloatArray, body: AsfSkeleton) -> FloatArray:
    positions = np.zeros((len(channels), 3))
    positions[:] = body.skeleton.offsets[0] / body.unit.metres
    for column, dof in enumerate(body.dofs[0]):
        if dof[0] == "t":
            positions[:, "xyz".index(dof[1])] = channels[:, column]
    return positions
