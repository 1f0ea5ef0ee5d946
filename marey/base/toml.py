"""Records from TOML tables: a dataclass is the schema, and every mistake is named with its file and line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from marey.base.errors import FormatError, InputError, MissingFileError

MAX_BYTES: Final = 4_000_000  # ten thousand way-points have 0.3 MB
MAX_NUMBER: Final = 1e6
FREE: Final = "free"  # TOML has no null; this text marks an unconstrained number
OPEN: Final = (FREE, "all")  # both read as none

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class TomlLocation:
    """Position in a TOML file, used to report the line of an error."""

    file: str
    lines: Mapping[tuple[str, int, str], int]  # (table, number of the table, key) -> line
    table: str = ""
    number: int = 0
    positive: frozenset[str] = frozenset()  # keys whose numbers must be positive

    def at(self, table: str, number: int = 0) -> TomlLocation:
        """Return the location of another table in the same file."""
        return TomlLocation(self.file, self.lines, table, number, self.positive)

    def fail(self, what: str, fix: str, key: str = "") -> NoReturn:
        """Raise an error with the line of the key, or of its table."""
        line = self.lines.get((self.table, self.number, key)) or self.lines.get((self.table, self.number, ""), 1)
        raise FormatError(what, self.file, line, fix)


def read_toml_text(path: str | Path, what: str) -> str:
    """Read the text of a TOML file; refuses files that are missing, too large or not UTF-8.

    Args:
        path: the file.
        what: what it holds, for messages: ``"sketch"``.
    """
    file = Path(path)
    if not file.is_file():
        raise MissingFileError(str(path))
    with file.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise FormatError(f"the {what} is larger than 4 MB", str(path), 1, "Use fewer points")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FormatError("the file is not UTF-8 text", str(path), line, "Save it as UTF-8") from None


def parse_toml(text: str, file: str, *, positive: frozenset[str] = frozenset()) -> tuple[dict[str, Any], TomlLocation]:
    """Parse a TOML text; returns its tables, and a location that knows their lines.

    Args:
        text: the TOML.
        file: name used in messages.
        positive: keys whose numbers must be positive, in any table.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5000 digits is a plain ValueError
        found = re.search(r"at line (\d+)", str(error))
        what = re.sub(r" \(at .*\)", "", str(error)) or "the file is nested too deeply"
        line = int(found[1]) if found else text.count("\n") + 1
        raise FormatError(what[0].lower() + what[1:], file, line, "Correct the TOML syntax") from None
    # Line of every table header and key, by a scan that knows enough TOML to find them
    lines: dict[tuple[str, int, str], int] = {}
    counts: dict[str, int] = {}
    table, number = "", 0
    for line, row in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[{1,2})\s*([\w.-]+)\s*\]", row):
            # A header: [[list]] counts its tables, [table] is the first of its name
            table = header[2]
            number = counts.get(table, 0) if header[1] == "[[" else 0
            counts[table] = number + 1
            lines.setdefault((table, number, ""), line)
        elif key := re.match(r"\s*([\w-]+)\s*=", row):
            lines.setdefault((table, number, key[1]), line)
            if not table:
                lines.setdefault((key[1], 0, ""), line)
    return data, TomlLocation(file, lines, positive=positive)


def read_records(data: Mapping[str, Any], key: str, kind: type[Record], location: TomlLocation) -> tuple[Record, ...]:
    """Read every ``[[key]]`` of a table as a record."""
    return tuple(read_record(row, kind, location.at(key, i)) for i, row in enumerate(read_tables(data, key, location)))


def read_tables(data: Mapping[str, Any], key: str, location: TomlLocation) -> list[Any]:
    """Return the ``[[key]]`` tables without interpreting them."""
    rows = data.get(key, [])
    if not isinstance(rows, list):
        location.at(key).fail(f"'{key}' is not a list of tables", f"Write [[{key}]] with two brackets")
    return cast(list[Any], rows)


def read_record(value: Any, kind: type[Record], location: TomlLocation, **read: Any) -> Record:
    """Build a dataclass from a table; every field is checked by its annotation.

    Args:
        value: the table.
        kind: a dataclass.
        location: position of the table in its file.
        read: fields that were read before; they are not expected in the table.
    """
    table = as_table(value, location)
    # Every key must be a field, except those read before
    known = {f.name: f for f in fields(cast(Any, kind)) if f.name not in read}
    hints = get_type_hints(kind)
    check_keys({k: v for k, v in table.items() if k not in read}, tuple(known), location)
    # Fields without a default are required; all fields are read by their annotations
    missing = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING and n not in table]
    if missing:
        location.fail(f"{location.table or 'the file'} has no '{missing[0]}'", f"It needs {', '.join(missing)}")
    values = {n: _read_value(item, hints[n], n, location) for n, item in table.items() if n not in read}
    try:
        return kind(**values, **read)
    except InputError as error:
        location.fail(error.what, error.fix)


def as_table(value: Any, location: TomlLocation) -> dict[str, Any]:
    """Return a value that must be a table."""
    if not isinstance(value, dict):
        location.fail(f"'{location.table}' is not a table", f"Write [{location.table}] and its keys below it")
    return cast(dict[str, Any], value)


def as_text(value: Any, key: str, location: TomlLocation) -> str:
    """Return a value that must be a non-empty text."""
    if not isinstance(value, str) or not value:
        location.fail(f"'{key}' is not a text", f'Write {key} = "..."', key)
    return value


def as_number(value: Any, key: str, location: TomlLocation) -> float:
    """The value, which must be a finite number of a sensible size."""
    # A whole number may be too large for a float and yet finite
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (isinstance(value, int) or math.isfinite(value)):
        location.fail(f"'{key}' is not a finite number", f"Write {key} = 1.0, say", key)
    if key in location.positive and value <= 0:
        location.fail(f"'{key}' is {value}", "It must be positive", key)
    if abs(value) > MAX_NUMBER:
        shown = value if abs(value) < 1e15 else "too large"  # a whole number may have thousands of digits
        location.fail(f"'{key}' is {shown}", "Lengths are in metres, at most a million of them", key)
    return float(value)


def as_numbers(value: Any, count: int, key: str, location: TomlLocation) -> tuple[float, ...]:
    """The value, which must be a list of so many numbers."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    if len(items) != count:
        axes = {2: "x, z", 3: "x, y, z"}.get(count, "...")
        location.fail(f"'{key}' is not a list of {count} numbers", f"Write [{axes}]", key)
    return tuple(as_number(item, key, location) for item in items)


def check_keys(table: Mapping[str, Any], known: tuple[str, ...], location: TomlLocation) -> None:
    """Refuse an unknown key and name the nearest known one."""
    for key in table:
        if key not in known:
            # The nearest known key is most likely what was meant
            near = get_close_matches(key, known, n=1)
            fix = f"Did you mean '{near[0]}'?" if near else f"Known are {', '.join(known)}"
            where = location if location.table else location.at(key)
            where.fail(f"unknown key '{key}'", fix, key if location.table else "")


def format_toml_value(value: Any) -> str:
    """A text, number, list or mapping as TOML; ``None`` in a list is written as free."""
    if value is None:
        return f'"{FREE}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(format_toml_value(v) for v in cast(tuple[Any, ...], value)) + "]"
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value).items()
        return "{ " + ", ".join(f"{format_toml_value(k)} = {format_toml_value(v)}" for k, v in items) + " }"
    return repr(value.item() if hasattr(value, "item") else value)


def format_toml_keys(record: Any, *, leave_out: tuple[str, ...] = ()) -> list[str]:
    """One ``key = value`` line for each field of a record that has a value."""
    kept = [(f, getattr(record, f.name)) for f in fields(record) if f.name not in leave_out]
    return [
        f"{f.name} = {format_toml_value(v)}" for f, v in kept if v != {} and (v is not None or f.default is not None)
    ]


def _read_value(value: Any, wanted: Any, key: str, location: TomlLocation) -> Any:
    if get_origin(wanted) in (Union, UnionType):
        # A union with None: "free" and "all" stand for None, which TOML has not
        choices = [c for c in get_args(wanted) if c is not NoneType]
        if NoneType in get_args(wanted) and choices[0] is not str and value in OPEN:
            return None
        return _read_value(value, choices[0], key, location)
    if wanted is str:
        return as_text(value, key, location)
    if wanted is bool:
        return (
            value
            if isinstance(value, bool)
            else location.fail(f"'{key}' is not true or false", f"Write {key} = true", key)
        )
    inner = get_args(wanted)
    if get_origin(wanted) is tuple:
        # A tuple of so many numbers, or of any number of values of one kind
        if len(inner) != 2 or inner[1] is not Ellipsis:
            return as_numbers(value, len(inner), key, location)
        if not isinstance(value, list):
            location.fail(f"'{key}' is not a list", f"Write {key} = [...]", key)
        return tuple(_read_value(item, inner[0], key, location) for item in cast(list[Any], value))
    if get_origin(wanted) in (dict, Mapping):
        if not isinstance(value, dict):
            location.fail(f"'{key}' is not a table", f"Write {key} = {{ name = 1.0 }}", key)
        return {str(k): _read_value(v, inner[1], key, location) for k, v in cast(dict[str, Any], value).items()}
    number = as_number(value, key, location)
    if wanted is int and number != int(number):
        location.fail(f"'{key}' is {value}, not a whole number", "Write a whole number", key)
    return int(number) if wanted is int else number
