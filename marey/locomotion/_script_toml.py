"""Scripts as TOML: every mistake is named with its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from marey.base import (
    FormatError,
    InputError,
    TomlLocation,
    as_table,
    format_toml_keys,
    parse_toml,
    read_record,
    read_tables,
    read_toml_text,
)
from marey.locomotion._script import Action, Element, ElementError, JumpAction, Script, Transition, check_order

SCRIPT_VERSION: Final = 1
_ELEMENT_TYPES: Final[dict[str, type[Any]]] = {"action": Action, "transition": Transition, "jump": JumpAction}
_POSITIVE_KEYS: Final = frozenset({"seconds", "rate_hz", "leg_length_m", "length_m", "height_m"})
_SPELLINGS: Final = {"length": "length_m", "height": "height_m", "speed_mps": "speed"}
_DERIVED_FIELDS: Final = ("timeline", "file", "lines")


def load_script(path: str | Path) -> Script:
    """Read a script: TOML, or the XML form of the thesis (by its suffix or its first character).

    Raises:
        FormatError: the file is no TOML or XML or breaks the grammar; the message names file and line.
    """
    text = read_toml_text(path, "script")
    return parse_script(text, file=str(path))


def parse_script(text: str, *, file: str = "<script>") -> Script:
    """Read a script from text, TOML or XML; ``file`` is the name used in error messages."""
    if Path(file).suffix.lower() == ".xml" or text.lstrip()[:1] == "<":
        from marey.locomotion._script_xml import parse_xml_script

        return parse_xml_script(text, file=file)
    data, place = parse_toml(text, file, positive=_POSITIVE_KEYS)
    version = data.pop("version", SCRIPT_VERSION)
    if version != SCRIPT_VERSION:
        place.fail(f"script version {version}", f"This marey reads version {SCRIPT_VERSION}", "version")
    rows = _ordered_elements(data, place)
    timeline = tuple(_read_toml_element(kind, number, row, place) for _, kind, number, row in rows)
    header = {key: value for key, value in data.items() if key not in _ELEMENT_TYPES}
    header.setdefault("name", Path(file).stem.strip("<>") or "script")
    read = {"timeline": timeline, "file": file, "lines": tuple(line for line, *_ in rows)}
    return _build_script(header, place, read)


def _build_script(header: dict[str, Any], place: TomlLocation, read: dict[str, Any]) -> Script:
    for key in _DERIVED_FIELDS:
        if key in header:
            place.at(key).fail(f"unknown key '{key}'", "Write [[action]], [[transition]] and [[jump]]")
    check_order_with_lines(read["timeline"], place.file, read["lines"])
    return _read_record(header, Script, place, **read)


def _ordered_elements(data: dict[str, Any], place: TomlLocation) -> list[tuple[int, str, int, Any]]:
    """Line, kind, number and table of every element, in the order of the file: TOML itself forgets it."""
    rows: list[tuple[int, str, int, Any]] = []
    for kind in _ELEMENT_TYPES:
        tables = read_tables(data, kind, place)
        lines = [place.lines.get((kind, number, "")) for number in range(len(tables))]
        if None in lines or (kind, len(tables), "") in place.lines:
            place.at(kind).fail(f"the order of '{kind}' on the time line is not clear", f"Write each as [[{kind}]]")
        rows += [
            (cast(int, line), kind, number, row) for number, (line, row) in enumerate(zip(lines, tables, strict=True))
        ]
    return sorted(rows, key=lambda row: row[0])


def check_order_with_lines(timeline: tuple[Element, ...], file: str, lines: tuple[int, ...]) -> None:
    """As ``check_order``, with the line of the mistake."""
    try:
        check_order(timeline)
    except ElementError as error:
        line = lines[error.index] if error.index < len(lines) else 1
        raise FormatError(error.what, file, line, error.fix) from None


def _read_toml_element(kind: str, number: int, row: Any, place: TomlLocation) -> Element:
    here = place.at(kind, number)
    table = {_SPELLINGS.get(key, key): value for key, value in as_table(row, here).items()}
    if isinstance(table.get("run"), bool):
        table["run"] = float(table["run"])
    return _read_record(table, _ELEMENT_TYPES[kind], here)


def _read_record(table: dict[str, Any], kind: type[Any], place: TomlLocation, **read: Any) -> Any:
    """As ``read_record``; a mistake that names its key gets the line of that key."""
    if isinstance(table.get("style"), str):
        table = table | {"style": {table["style"]: 1.0}}
    try:
        return read_record(table, kind, place, **read)
    except FormatError as error:
        named = error.what.split("'")[1] if error.what.startswith("'") else ""
        found = [key for key in _accepted_spellings(named) if _has_line(place, key)]
        if found:
            place.fail(error.what, error.fix, found[0])
        raise


def _accepted_spellings(key: str) -> list[str]:
    return [key, *(short for short, long in _SPELLINGS.items() if long == key)]


def _has_line(place: TomlLocation, key: str) -> bool:
    return bool(key) and (place.table, place.number, key) in place.lines


def script_to_toml(script: Script) -> str:
    """Write a script as TOML; reading it back gives the same script."""
    rows = [f"version = {SCRIPT_VERSION}", *format_toml_keys(script, leave_out=_DERIVED_FIELDS)]
    names = {kind: name for name, kind in _ELEMENT_TYPES.items()}
    for element in script.timeline:
        rows += ["", f"[[{names[type(element)]}]]", *_written_keys(element)]
    return "\n".join(rows) + "\n"


def _written_keys(element: Element) -> list[str]:
    return [row for row in format_toml_keys(element) if row != 'name = ""']


def save_script(script: Script, path: str | Path) -> None:
    """Write a script to a TOML file."""
    if Path(path).suffix.lower() != ".toml":
        raise InputError(f"cannot write a script to '{path}'", "Use the suffix .toml")
    Path(path).write_text(script_to_toml(script), encoding="utf-8")
