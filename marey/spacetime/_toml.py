"""Problems as TOML: every mistake is named with its file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from marey.base import (
    TomlLocation,
    UnknownNameError,
    as_table,
    as_text,
    format_toml_keys,
    parse_toml,
    read_record,
    read_records,
    read_tables,
    read_toml_text,
)
from marey.spacetime._problem import Contact, Key, Objective, ProblemPhase, SpacetimeProblem
from marey.spacetime._toml_lines import check_with_lines

PROBLEM_VERSION: Final = 1
_POSITIVE: Final = frozenset({"duration_s", "span_s", "frames_per_span", "half_extents_m", "duration_range_s"})
_NESTED: Final = ("phases", "keys", "objective")


def load_problem(path: str | Path) -> SpacetimeProblem:
    """Read a problem from a TOML file and check it; the files it names are looked for beside it first.

    Raises:
        FormatError: the file is no TOML, breaks the schema, or asks for what cannot be solved: keys that contradict
            one another, plants out of reach, unknown names. The message names file and lines.
    """
    from marey.spacetime._optimize import check_problem

    problem, place = _read_problem(read_toml_text(path, "problem"), str(path))
    folder = Path(path).parent
    if problem.basis is not None:
        problem = replace(problem, basis=_resolve_beside(folder, problem.basis))
    return check_with_lines(
        replace(problem, character=_resolve_beside(folder, problem.character)), place, check_problem
    )


def parse_problem(text: str, *, file: str = "<problem>") -> SpacetimeProblem:
    """Read a problem from TOML text; ``file`` is the name used in error messages.

    Raises:
        FormatError: the text is no TOML or breaks the schema. Whether it can be solved is left to ``optimize``.
    """
    return _read_problem(text, file)[0]


def problem_to_toml(problem: SpacetimeProblem) -> str:
    """Write a problem as TOML; reading it back gives the same problem."""
    rows = [f"version = {PROBLEM_VERSION}", *format_toml_keys(problem, leave_out=_NESTED)]
    rows += ["", "[objective]", *format_toml_keys(problem.objective)]
    for phase in problem.phases:
        rows += ["", "[[phase]]", *format_toml_keys(phase, leave_out=("contacts",))]
        for contact in phase.contacts:
            rows += ["", "[[phase.contact]]", *format_toml_keys(contact)]
    for key in problem.keys:
        rows += ["", "[[key]]", *format_toml_keys(key)]
    return "\n".join(rows) + "\n"


def save_problem(problem: SpacetimeProblem, path: str | Path) -> None:
    """Write a problem to a TOML file that :func:`load_problem` reads."""
    Path(path).write_text(problem_to_toml(problem), encoding="utf-8")


def _read_problem(text: str, file: str) -> tuple[SpacetimeProblem, TomlLocation]:
    data, place = parse_toml(text, file, positive=_POSITIVE)
    version = data.pop("version", PROBLEM_VERSION)
    if version != PROBLEM_VERSION:
        place.fail(f"problem version {version}", f"This marey reads version {PROBLEM_VERSION}", "version")
    phases = _read_phases(data, place)
    keys = read_records(data, "key", Key, place)
    _check_phase_names(phases, keys, place)
    objective = read_record(data.get("objective", {}), Objective, place.at("objective"))
    rest = {name: value for name, value in data.items() if name not in ("phase", "key", "objective")}
    name = as_text(rest.pop("name", Path(file).stem), "name", place)
    return read_record(rest, SpacetimeProblem, place, name=name, phases=phases, keys=keys, objective=objective), place


def _resolve_beside(folder: Path, name: str) -> str:
    """A file beside the problem if there is one of that name, else the name as it is."""
    return str(folder / name) if (folder / name).is_file() else name


def _read_phases(data: dict[str, Any], place: TomlLocation) -> tuple[ProblemPhase, ...]:
    phases: list[ProblemPhase] = []
    count = 0
    for number, row in enumerate(read_tables(data, "phase", place)):
        table = as_table(row, place.at("phase", number))
        rows = read_tables(table, "contact", place)
        contacts = tuple(read_record(r, Contact, place.at("phase.contact", count + i)) for i, r in enumerate(rows))
        count += len(rows)
        rest = {name: value for name, value in table.items() if name != "contact"}
        phases.append(read_record(rest, ProblemPhase, place.at("phase", number), contacts=contacts))
    return tuple(phases)


def _check_phase_names(phases: tuple[ProblemPhase, ...], keys: tuple[Key, ...], place: TomlLocation) -> None:
    names = [phase.name for phase in phases]
    for number, name in enumerate(names):
        if name in names[:number]:
            place.at("phase", number).fail(f"two phases are called '{name}'", "Phase names must differ", "name")
    for number, key in enumerate(keys):
        if key.phase not in names:
            error = UnknownNameError("phase", key.phase, "this problem", names)
            place.at("key", number).fail(str(error), "A key names one of the phases", "phase")
