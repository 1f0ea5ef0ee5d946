"""The lines of a problem file that a refusal is about: those without which it would read otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, replace

from marey.base import FormatError, InputError, MareyError, TomlLocation, UnknownNameError
from marey.spacetime._problem import SpacetimeProblem

ProblemCheck = Callable[[SpacetimeProblem], None]
DiffersFromError = Callable[
    [SpacetimeProblem], bool
]  # whether another problem is refused in other words, or not at all
FilePart = tuple[str, int, str]  # table, its number in the file, key: as in TablePlace.lines


def check_with_lines(problem: SpacetimeProblem, place: TomlLocation, check: ProblemCheck) -> SpacetimeProblem:
    """The problem itself, if the check has nothing against it.

    Files that it names and that are missing or broken are left to whoever reads them.

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
    what, fix = _split_sentences(error)

    def differs(other: SpacetimeProblem) -> bool:
        return str(_find_error(other, check)) != str(error)

    parts = _find_needed_keys(problem, differs) or _find_needed_contacts(problem, what, differs)
    parts = parts or [("phase", i, "") for i, phase in enumerate(problem.phases) if f"'{phase.name}'" in what]
    lines = sorted({place.lines.get(part, 1) for part in parts or _find_needed_settings(problem, place, check)}) or [1]
    all_lines = f"; lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}" if len(lines) > 1 else ""
    raise FormatError(what + all_lines, place.file, lines[-1], fix)


def _split_sentences(error: InputError | UnknownNameError) -> tuple[str, str]:
    """What is wrong, and what to do."""
    if isinstance(error, InputError):
        return error.what, error.fix
    return str(error).removesuffix(", ..."), "Use a name that exists"


def _find_error(problem: SpacetimeProblem, check: ProblemCheck) -> InputError | UnknownNameError | None:
    try:
        check(problem)
    except (InputError, UnknownNameError) as error:
        return error
    except MareyError:
        return None
    return None


def _find_needed_keys(problem: SpacetimeProblem, differs: DiffersFromError) -> list[FilePart]:
    """The keys that are left when every one that has no part in the refusal is taken away."""
    kept = _minimal_subset(
        len(problem.keys), lambda rest: differs(replace(problem, keys=tuple(problem.keys[i] for i in rest)))
    )
    return [("key", i, "") for i in kept]


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
        after = _find_error(replace(problem, **{item.name: usual}), check)
        if after is None:
            ending.append((item.name, 0, ""))
        elif str(after) != before:
            changing.append((item.name, 0, ""))
    return ending or changing
