"""Problems as TOML: every mistake is named with its file and line.

A refusal names the lines without which the problem would be accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Final

from marey.base import (
    FormatError,
    InputError,
    MareyError,
    TomlLocation,
    UnknownNameError,
    as_table,
    as_text,
    find_shipped_file,
    format_toml_keys,
    parse_toml,
    read_record,
    read_records,
    read_tables,
    read_toml_text,
    write_atomically,
)
from marey.spacetime.dispatch import check_problem
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase, SpacetimeProblem
from marey.world import Bar, Box

ProblemCheck = Callable[[SpacetimeProblem], None]
DiffersFromError = Callable[
    [SpacetimeProblem], bool
]  # whether another problem is refused in other words, or not at all
FilePart = tuple[str, int, str]  # table, its number in the file, key: as in TablePlace.lines


def check_with_lines(problem: SpacetimeProblem, place: TomlLocation, check: ProblemCheck) -> SpacetimeProblem:
    """The problem itself, if the check has nothing against it.

    Named files that are missing or damaged are reported when they are read.

    Args:
        problem: as read from the file.
        place: knows the lines of the file.
        check: raises InputError or UnknownNameError for a problem that cannot be solved.

    Raises:
        FormatError: the refusal, with the lines of the keys, contacts, phases or settings that bring it about.
    """
    error = _find_error(problem, check)
    if error is None:
        return problem
    what, fix = str(error).removesuffix(", ..."), "Use a name that exists"
    if isinstance(error, InputError):
        what, fix = error.what, error.fix

    def differs(other: SpacetimeProblem) -> bool:
        return str(_find_error(other, check)) != str(error)

    # The keys that are left when every one that has no part in the refusal is taken away, else contacts likewise
    needed = _minimal_subset(
        len(problem.keys), lambda rest: differs(replace(problem, keys=tuple(problem.keys[i] for i in rest)))
    )
    parts: list[FilePart] = [("key", i, "") for i in needed] or _find_needed_contacts(problem, what, differs)
    parts = parts or [("phase", i, "") for i, phase in enumerate(problem.phases) if f"'{phase.name}'" in what]
    # Phases that the message names, else settings that bring it about
    lines = sorted({place.lines.get(part, 1) for part in parts or _find_needed_settings(problem, place, check)}) or [1]
    all_lines = f"; lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}" if len(lines) > 1 else ""
    raise FormatError(what + all_lines, place.file, lines[-1], fix)


def _find_error(problem: SpacetimeProblem, check: ProblemCheck) -> InputError | UnknownNameError | None:
    try:
        check(problem)
    except (InputError, UnknownNameError) as error:
        return error
    except MareyError:
        return None
    return None


def _find_needed_contacts(problem: SpacetimeProblem, what: str, differs: DiffersFromError) -> list[FilePart]:
    """The contacts that are left likewise, of the phases that the refusal names, or else of any."""
    owners = [p for p, phase in enumerate(problem.phases) for _ in phase.contacts]
    contacts = [contact for phase in problem.phases for contact in phase.contacts]
    named = {p for p, phase in enumerate(problem.phases) if f"'{phase.name}'" in what} or set(owners)

    def changes(rest: list[int]) -> bool:
        phases = [
            replace(phase, contacts=tuple(contacts[i] for i in rest if owners[i] == p))
            for p, phase in enumerate(problem.phases)
        ]
        return differs(replace(problem, phases=tuple(phases)))

    return [("phase.contact", i, "") for i in _minimal_subset(len(contacts), changes) if owners[i] in named]


def _minimal_subset(count: int, differs: Callable[[list[int]], bool]) -> list[int]:
    """Indices that cannot be left out; where any of several would do, the first."""
    kept = list(range(count))
    for i in reversed(range(count)):
        rest = [k for k in kept if k != i]
        if not differs(rest):
            kept = rest
    return kept


def _find_needed_settings(problem: SpacetimeProblem, place: TomlLocation, check: ProblemCheck) -> list[FilePart]:
    """Settings of the file whose usual value would end the refusal, or at least change it."""
    before, ending, changing = str(_find_error(problem, check)), list[FilePart](), list[FilePart]()
    for item in fields(problem):
        usual = item.default if item.default_factory is MISSING else item.default_factory()
        if usual is MISSING or item.name == "keys" or (item.name, 0, "") not in place.lines:
            continue
        # Try the usual value of each setting that the file gives
        after = _find_error(replace(problem, **{item.name: usual}), check)
        if after is None:
            ending.append((item.name, 0, ""))
        elif str(after) != before:
            changing.append((item.name, 0, ""))
    return ending or changing


PROBLEM_VERSION: Final = 1
_POSITIVE: Final = frozenset({"duration_s", "span_s", "frames_per_span", "half_extents_m", "duration_range_s"})
_NESTED: Final = ("phases", "keys", "objective", "boxes", "bars")


def load_problem(path: str | Path) -> SpacetimeProblem:
    """Read a problem from a TOML file, or a shipped one by its name; files it names are looked for beside it first.

    Raises:
        FormatError: the file is no TOML, breaks the schema, or asks for what cannot be solved: keys that contradict
            one another, plants out of reach, unknown names. The message names file and lines.
    """
    path = find_shipped_file(path, "problem")
    problem, place = _read_problem(read_toml_text(path, "problem"), str(path))
    folder = Path(path).parent
    if problem.basis is not None:
        # A behaviour lies beside the problem, or ships with the room
        home = folder if (folder / problem.basis).is_file() else Path(__file__).parent / "behaviours"
        problem = replace(problem, basis=_resolve_beside(home, problem.basis))
    # Clips of poses lie beside the problem too
    keys: list[Key] = []
    for key in problem.keys:
        file, at, instant = (key.pose or "").rpartition("@")
        keys.append(key if key.pose is None else replace(key, pose=f"{_resolve_beside(folder, file)}{at}{instant}"))
    problem = replace(problem, character=_resolve_beside(folder, problem.character), keys=tuple(keys))
    return check_with_lines(problem, place, check_problem)


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
    for title, records in (("key", problem.keys), ("box", problem.boxes), ("bar", problem.bars)):
        for record in records:
            rows += ["", f"[[{title}]]", *format_toml_keys(record)]
    return "\n".join(rows) + "\n"


def save_problem(problem: SpacetimeProblem, path: str | Path) -> None:
    """Write a problem to a TOML file that :func:`load_problem` reads."""
    write_atomically(Path(path), problem_to_toml(problem))


def _read_problem(text: str, file: str) -> tuple[SpacetimeProblem, TomlLocation]:
    data, place = parse_toml(text, file, positive=_POSITIVE)
    version = data.pop("version", PROBLEM_VERSION)
    if version != PROBLEM_VERSION:
        place.fail(f"problem version {version}", f"This marey reads version {PROBLEM_VERSION}", "version")
    # Contacts are numbered through the file, phases and keys each by themselves
    phases: list[ProblemPhase] = []
    count = 0
    for number, row in enumerate(read_tables(data, "phase", place)):
        table = as_table(row, place.at("phase", number))
        rows = read_tables(table, "contact", place)
        contacts = tuple(read_record(r, Contact, place.at("phase.contact", count + i)) for i, r in enumerate(rows))
        count += len(rows)
        own = {name: value for name, value in table.items() if name != "contact"}
        phases.append(read_record(own, ProblemPhase, place.at("phase", number), contacts=contacts))
    keys = read_records(data, "key", Key, place)
    names = [phase.name for phase in phases]
    for number, phase_name in enumerate(names):
        if phase_name in names[:number]:
            place.at("phase", number).fail(f"two phases are called '{phase_name}'", "Phase names must differ", "name")
    for number, key in enumerate(keys):
        if key.phase not in names:
            error = UnknownNameError("phase", key.phase, "this problem", names)
            place.at("key", number).fail(str(error), "A key names one of the phases", "phase")
    objective = read_record(data.get("objective", {}), Objective, place.at("objective"))
    boxes, bars = read_records(data, "box", Box, place), read_records(data, "bar", Bar, place)
    rest = {name: value for name, value in data.items() if name not in ("phase", "key", "objective", "box", "bar")}
    name = as_text(rest.pop("name", Path(file).stem), "name", place)
    given = {"name": name, "phases": tuple(phases), "keys": keys, "objective": objective}
    given |= {"boxes": boxes, "bars": bars}
    return read_record(rest, SpacetimeProblem, place, **given), place


def _resolve_beside(folder: Path, name: str) -> str:
    """A file beside the problem if there is one of that name, else the name as it is."""
    return str(folder / name) if (folder / name).is_file() else name
