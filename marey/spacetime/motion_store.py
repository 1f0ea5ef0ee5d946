"""A store of solved motions that is searched first, refined within a quota, and improves ([Fang2003]_ F29).

Each entry is one ``.safetensors`` file that is written completely or not at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import (
    FloatArray,
    FormatError,
    InputError,
    MareyError,
    MissingFileError,
    Result,
    TensorFormat,
    write_atomically,
)
from marey.motion import Motion
from marey.spacetime.dispatch import build_character, optimize
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.solution import SpacetimeResult
from marey.spacetime.problem_files import parse_problem, problem_to_toml

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


def write_entry(entry: StoreEntry, path: Path) -> None:
    """Write beside, then rename: a reader sees the old entry or the new one."""
    facts = {
        "problem": problem_to_toml(entry.problem),
        "rate_hz": entry.rate_hz,
        "violation": entry.violation,
        "objective": entry.objective,
        "version": entry.version,
    }
    write_atomically(path, ENTRY_FILE.pack({"q": entry.q}, facts))


def read_entry(path: Path) -> StoreEntry:
    """Read an entry.

    Raises:
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    tensors, facts = ENTRY_FILE.read(path)
    try:
        q = tensors["q"]
        rate_hz, violation, objective = (float(facts[name]) for name in ("rate_hz", "violation", "objective"))
        is_motion = q.ndim == 2 and len(q) >= 4 and np.isfinite(q).all() and rate_hz > 0.0
        if not is_motion or np.isnan(violation + objective):
            raise ValueError("its numbers make no motion")
        problem = parse_problem(str(facts["problem"]), file=path.name)
        return StoreEntry(problem, q.astype(np.float64), rate_hz, violation, objective, int(facts["version"]))
    except FormatError as error:
        raise ENTRY_FILE.format_error(path, f"a store entry with a broken problem: {error}") from error
    except (MareyError, KeyError, TypeError, ValueError) as error:
        raise ENTRY_FILE.damage_error(path, error) from error


QUOTA_S: Final = 2.0
DURATION_UNIT: Final = 0.1  # [-] of the whole: a phase that differs by this counts like a contact one unit off
POSITION_UNIT_M: Final = 0.2
ANGLE_UNIT: Final = 0.5  # [rad] of a key pose
SUFFIX: Final = ".safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class StoreKey:
    """Key of a request: comparability and distance."""

    sequence: tuple[str, ...]  # character, then the contacts of each phase
    durations: FloatArray  # (P,) shares of the whole
    seconds: float
    goal: FloatArray  # contacts relative to the first, angles, ends and targets of keys, the body, in units that matter

    @classmethod
    def from_problem(cls, problem: SpacetimeProblem) -> StoreKey:
        """Key of a request."""
        contacts = [contact for phase in problem.phases for contact in phase.contacts]
        places = np.array([contact.position for contact in contacts]).reshape(-1, 3)
        away = (places - places[:1]) / POSITION_UNIT_M
        # Contacts and kinds of keys must agree; durations, positions and angles are compared
        names = ["+".join(sorted(contact.point for contact in phase.contacts)) for phase in problem.phases]
        ends = [(key.lower, key.upper, *key.target) for key in problem.keys]
        kinds = [
            f"{key.kind} {key.phase} {key.at} {key.point} {key.axis} {sorted(key.joints)} {[v is None for v in end]}"
            for key, end in zip(problem.keys, ends, strict=True)
        ]
        angles = [key.joints[name] / ANGLE_UNIT for key in problem.keys for name in sorted(key.joints)]
        goals = [0.0 if value is None else value / POSITION_UNIT_M for end in ends for value in end]
        body = [problem.height_m / POSITION_UNIT_M, float(np.log(max(problem.mass_kg, 1e-9))) / DURATION_UNIT]
        lengths = np.array([phase.duration_s for phase in problem.phases])
        return cls(
            (problem.character, problem.space, f"{problem.gravity:g}", *names, *kinds),
            lengths / max(float(lengths.sum()), 1e-9),
            float(lengths.sum()),
            np.concatenate([away.ravel(), angles, goals, body]),
        )

    def distance(self, other: StoreKey) -> float:
        """Zero for the same request, whatever its objective; infinite for one with other contacts or keys."""
        if self.sequence != other.sequence or self.goal.shape != other.goal.shape:
            return np.inf
        shares = (self.durations - other.durations) / DURATION_UNIT
        length = np.log(max(self.seconds, 1e-9) / max(other.seconds, 1e-9)) / DURATION_UNIT
        return float(np.sqrt((shares**2).sum() + length**2 + ((self.goal - other.goal) ** 2).sum()))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoreAnswer(Result):
    """Answer to a request."""

    entry: StoreEntry  # the best motion known now
    motion: Motion
    result: SpacetimeResult | None  # of the refinement; None if there was no time for one
    distance: float  # of the entry it began at; infinite for a cold start
    is_improved: bool  # the store was changed


class MotionStore:
    """A folder of solved problems. Entries only ever get better."""

    def __init__(self, folder: str | Path, *, create: bool = True) -> None:
        """Open a folder; it is made if it is not there.

        Raises:
            MissingFileError: there is no such folder, and ``create`` is false.
        """
        self.folder = Path(folder)
        if create:
            self.folder.mkdir(parents=True, exist_ok=True)
        elif not self.folder.is_dir():
            raise MissingFileError(str(self.folder), "Check the path, or let it be created.")

    def __len__(self) -> int:
        return len(self._paths())

    def lookup(self, problem: SpacetimeProblem) -> tuple[StoreEntry, float] | None:
        """The nearest entry with the same contacts and kinds of keys, and its distance; None if there is none."""
        wanted = StoreKey.from_problem(problem)
        found = [(read_entry(path), path) for path in self._paths()]
        ranked = [(wanted.distance(StoreKey.from_problem(entry.problem)), path.name, entry) for entry, path in found]
        near = [item for item in ranked if np.isfinite(item[0])]
        if not near:
            return None
        distance, _, entry = min(near, key=lambda item: item[:2])
        return entry, distance

    def entry(self, problem: SpacetimeProblem) -> StoreEntry | None:
        """The entry of this very request."""
        path = self._path(problem)
        return read_entry(path) if path.is_file() else None

    def request(self, problem: SpacetimeProblem, *, quota_s: float = QUOTA_S) -> StoreAnswer:
        """Answer a request: from the nearest entry, refined within the quota, written back only if better.

        Args:
            problem: what is wanted; durations are fixed.
            quota_s: wall time of the refinement [s]; 0 only looks up.

        Raises:
            InputError: no quota, and nothing in the store.
        """
        if not (np.isfinite(quota_s) and quota_s >= 0.0):
            raise InputError(f"a quota of {quota_s} s", "Give 0 or more")
        found = self.lookup(problem)
        if quota_s == 0.0:
            if found is None:
                raise InputError(f"the store has nothing like '{problem.name}'", "Give it time: quota_s=5")
            return StoreAnswer(found[0], motion_from_entry(found[0]), None, found[1], is_improved=False)
        # Refine from the nearest entry, each phase stretched to its new length
        start = None if found is None else retime_entry(found[0], problem)
        result = optimize(problem, warm_start=start, time_limit_s=quota_s, on_failure="return")
        q = build_character(problem).from_motion(result.motion)
        fresh = StoreEntry(problem, q, result.motion.rate_hz, result.violation, result.objective)
        kept, is_improved = self._keep(fresh)
        distance = np.inf if found is None else found[1]
        return StoreAnswer(kept, motion_from_entry(kept), result, distance, is_improved=is_improved)

    def _keep(self, fresh: StoreEntry) -> tuple[StoreEntry, bool]:
        """The better of a fresh entry and the stored one, and whether the store was changed."""
        old = self.entry(fresh.problem)
        # Never more violated; less violated, or as little and cheaper
        if old is not None and (fresh.violation, fresh.objective) >= (old.violation, old.objective):
            return old, False
        new = fresh if old is None else replace(fresh, version=old.version + 1)
        write_entry(new, self._path(fresh.problem))
        return new, True

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def _path(self, problem: SpacetimeProblem) -> Path:
        """File of a request: its name is not part of it."""
        text = problem_to_toml(replace(problem, name="request"))
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}{SUFFIX}"


def motion_from_entry(entry: StoreEntry) -> Motion:
    """The clip of an entry."""
    return build_character(entry.problem).to_motion(entry.q, entry.rate_hz)


def retime_entry(entry: StoreEntry, problem: SpacetimeProblem) -> Motion:
    """The clip of an entry, each phase stretched to the length it has in another problem."""
    old, new = (
        np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in one.phases])])
        for one in (entry.problem, problem)
    )
    length = float(new[-1])
    count = max(4, round(length * entry.rate_hz) + 1)
    times: FloatArray = np.interp(np.linspace(0.0, length, count), new, old)
    frames = np.arange(len(entry.q)) / entry.rate_hz
    columns: list[FloatArray] = [np.interp(times, frames, entry.q[:, i]) for i in range(entry.q.shape[1])]
    return build_character(problem).to_motion(np.stack(columns, axis=1), entry.rate_hz)
