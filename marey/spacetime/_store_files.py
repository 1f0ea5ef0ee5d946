"""Entries of a motion store: one ``.safetensors`` file each, whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, FormatError, MareyError, TensorFormat, Tensors
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._toml import parse_problem, problem_to_toml

ENTRY_FILE: Final = TensorFormat("marey-store", "store entry", 1, "Delete it.", version_key="format_version")


@dataclass(frozen=True, slots=True, eq=False)
class StoreEntry:
    """A problem, the best motion known for it, and how good that is."""

    problem: SpacetimeProblem
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
    facts = {
        "problem": problem_to_toml(entry.problem),
        "rate_hz": entry.rate_hz,
        "violation": entry.violation,
        "objective": entry.objective,
        "version": entry.version,
    }
    data = ENTRY_FILE.pack({"q": entry.q}, facts)
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
    tensors, facts = ENTRY_FILE.read(path)
    try:
        return _restore_entry(tensors, facts, path)
    except FormatError as error:
        raise ENTRY_FILE.format_error(path, f"a store entry with a broken problem: {error}") from error
    except (MareyError, KeyError, TypeError, ValueError) as error:
        raise ENTRY_FILE.damaged(path, error) from error


def _restore_entry(tensors: Tensors, facts: Mapping[str, Any], path: Path) -> StoreEntry:
    q = tensors["q"]
    rate_hz, violation, objective = (float(facts[name]) for name in ("rate_hz", "violation", "objective"))
    if q.ndim != 2 or len(q) < 4 or not np.isfinite(q).all() or not rate_hz > 0.0 or np.isnan(violation + objective):
        raise ValueError("its numbers make no motion")
    problem = parse_problem(str(facts["problem"]), file=path.name)
    return StoreEntry(problem, q.astype(np.float64), rate_hz, violation, objective, int(facts["version"]))
