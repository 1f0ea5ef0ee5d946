"""Entries of a motion store: one ``.safetensors`` file each, whole or not there."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, FormatError, MareyError
from marey.spacetime._problem import Problem
from marey.spacetime._toml import parse_problem, problem_to_toml

FILE_VERSION: Final = 1
MAX_BYTES: Final = 1 << 26
MAX_HEADER_BYTES: Final = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class StoreEntry:
    """A problem, the best motion known for it, and how good that is."""

    problem: Problem
    q: FloatArray  # (F, D) coordinates of the character
    rate_hz: float
    violation: float  # largest, of scaled rows
    objective: float
    version: int = 1  # counts improvements

    def is_better_than(self, other: StoreEntry) -> bool:
        """Never more violated; less violated, or as little and cheaper."""
        if self.violation != other.violation:
            return self.violation < other.violation
        return self.objective < other.objective


def write_entry(entry: StoreEntry, path: Path) -> None:
    """Write beside, then rename: a reader sees the old entry or the new one."""
    from safetensors.numpy import save

    described = {
        "format": "marey-store",
        "format_version": FILE_VERSION,
        "problem": problem_to_toml(entry.problem),
        "rate_hz": entry.rate_hz,
        "violation": entry.violation,
        "objective": entry.objective,
        "version": entry.version,
    }
    data = save({"q": np.ascontiguousarray(entry.q)}, metadata={"marey": json.dumps(described, sort_keys=True)})
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_entry(path: Path) -> StoreEntry:
    """Read an entry.

    Raises:
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    try:
        return _read(path)
    except FormatError as error:
        if error.file == str(path):
            raise
        raise FormatError(f"a store entry with a broken problem: {error}", str(path), 0, "Delete it.") from error
    except (MareyError, KeyError, TypeError, ValueError, OSError) as error:
        text = " ".join(str(error).split())[:200]
        raise FormatError(f"a damaged store entry: {text}", str(path), 0, "Delete it.") from error


def _read(path: Path) -> StoreEntry:
    from safetensors.numpy import load

    raw = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b""
    size = int.from_bytes(raw[:8], "little")
    if not 2 <= size <= min(MAX_HEADER_BYTES, len(raw) - 8):
        raise ValueError("no safetensors header")
    header = cast(dict[str, Any], json.loads(raw[8 : 8 + size]))
    described = cast(dict[str, Any], json.loads(str(header["__metadata__"]["marey"])))
    if described["format"] != "marey-store":
        raise ValueError(f"it holds a '{described['format']}'")
    if int(described["format_version"]) > FILE_VERSION:
        raise FormatError("written by a newer marey", str(path), 0, "Update marey.")
    try:
        q = load(raw)["q"]
    except Exception as error:  # safetensors raises its own type, which it does not export
        raise ValueError(str(error)) from error
    rate_hz, violation, objective = (float(described[name]) for name in ("rate_hz", "violation", "objective"))
    if q.ndim != 2 or len(q) < 4 or not np.isfinite(q).all() or not rate_hz > 0.0 or np.isnan(violation + objective):
        raise ValueError("its numbers make no motion")
    problem = parse_problem(str(described["problem"]), file=path.name)
    return StoreEntry(problem, q.astype(np.float64), rate_hz, violation, objective, int(described["version"]))
