"""Sketches as TOML: every mistake is named with its file and line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, Final, NoReturn, cast

import numpy as np

from marey.base import FormatError, InputError, MissingFileError, UnknownNameError
from marey.world._path import Path
from marey.world._sketch import Event, KeyPose, Sketch, Stand
from marey.world._things import Bar, Box, River, Stone, Table, Thing, Wall, World

SKETCH_VERSION: Final = 1
MAX_BYTES: Final = 4_000_000  # a sketch with ten thousand way-points has 0.3 MB
MAX_POINTS: Final = 10_000

_THINGS: Final[dict[str, tuple[str, type[Any]]]] = {
    "wall": ("walls", Wall),
    "river": ("rivers", River),
    "stone": ("stones", Stone),
    "table": ("tables", Table),
    "box": ("boxes", Box),
    "bar": ("bars", Bar),
    "object": ("objects", Thing),
}
_TOP_KEYS: Final = ("version", "name", "start", "goal", "path", "event", "key_pose", *_THINGS)
_POSITIVE: Final = frozenset(
    {"thickness_m", "width_m", "radius_m", "size", "corridor_m", "speed_mps", "tolerance_m", "length_m", "seconds"}
)
_SHAPES: Final = {"Point2": 2, "Point3": 3}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the file we are, to name the line of a mistake."""

    file: str
    lines: dict[tuple[str, int, str], int]  # (table, number of the table, key) -> line
    table: str = ""
    number: int = 0

    def at(self, table: str, number: int = 0) -> _Place:
        return _Place(self.file, self.lines, table, number)

    def fail(self, what: str, fix: str, key: str = "") -> NoReturn:
        line = self.lines.get((self.table, self.number, key)) or self.lines.get((self.table, self.number, ""), 1)
        raise FormatError(what, self.file, line, fix)


def load_sketch(path: str | FilePath) -> Sketch:
    """Read a sketch from a TOML file.

    Raises:
        FormatError: the file is no TOML or breaks the schema; the message names file and line.
    """
    file = FilePath(path)
    if not file.is_file():
        raise MissingFileError(str(path))
    raw = file.read_bytes()[: MAX_BYTES + 1]
    if len(raw) > MAX_BYTES:
        raise FormatError("the sketch is larger than 4 MB", str(path), 1, "Use fewer way-points")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FormatError("the file is not UTF-8 text", str(path), line, "Save it as UTF-8") from None
    return parse_sketch(text, file=str(path))


def parse_sketch(text: str, *, file: str = "<sketch>") -> Sketch:
    """Read a sketch from TOML text; ``file`` is the name used in error messages."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        what = re.sub(r" \(at .*\)", "", str(error)) or "the file is nested too deeply"
        line = int(found[1]) if found else text.count("\n") + 1
        raise FormatError(what[0].lower() + what[1:], file, line, "Correct the TOML syntax") from None
    place = _Place(file, _lines_of_keys(text))
    _known_keys(data, _TOP_KEYS, place)
    if data.get("version", SKETCH_VERSION) != SKETCH_VERSION:
        place.fail(f"sketch version {data['version']}", f"This marey reads version {SKETCH_VERSION}", "version")
    events = _array(data, "event", Event, place)
    return Sketch(
        start=_stand(data, "start", place),
        goal=_stand(data, "goal", place),
        events=events,
        key_poses=_array(data, "key_pose", KeyPose, place),
        world=_world(data, events, place),
        name=_text(data.get("name", FilePath(file).stem), "name", place),
        **_path(data, place),
    )


def _world(data: dict[str, Any], events: tuple[Event, ...], place: _Place) -> World:
    things = {many: _array(data, one, kind, place) for one, (many, kind) in _THINGS.items()}
    names = [thing.name for thing in things["objects"]]
    for number, name in enumerate(names):
        if name in names[:number]:
            place.at("object", number).fail(f"two objects are called '{name}'", "Object names must differ", "name")
    for number, event in enumerate(events):
        if event.object is not None and event.object not in names:
            error = UnknownNameError("object", event.object, "this sketch", names)
            place.at("event", number).fail(str(error), "Add it with [[object]]", "object")
    return World(**things)


def _path(data: dict[str, Any], place: _Place) -> dict[str, Any]:
    if "path" not in data:
        return {}
    here = place.at("path")
    table = _table(data["path"], here)
    _known_keys(table, ("points", "kind", "corridor_m", "speed_mps"), here)
    numbers = {k: _number(table[k], k, here) for k in ("corridor_m", "speed_mps") if k in table}
    if "points" not in table and "kind" not in table:
        return dict(numbers)  # the engine finds its own way
    points = table.get("points")
    if not isinstance(points, list) or not points or len(cast(list[Any], points)) > MAX_POINTS:
        here.fail("the path has no list of points", f"Write points = [[x, z], ...], at most {MAX_POINTS}", "points")
    rows = [_numbers(row, 2, "points", here) for row in cast(list[Any], points)]
    try:
        return {"path": Path(np.array(rows), _text(table.get("kind", "polyline"), "kind", here)), **numbers}
    except InputError as error:
        here.fail(error.what, error.fix, "kind" if "kind" in error.what else "points")


def _stand(data: dict[str, Any], key: str, place: _Place) -> Stand:
    if key not in data:
        place.fail(f"the sketch has no [{key}]", f"Add [{key}] with position = [x, z]")
    return cast(Stand, _record(data[key], Stand, place.at(key)))


def _array(data: dict[str, Any], key: str, kind: type[Any], place: _Place) -> tuple[Any, ...]:
    rows = data.get(key, [])
    if not isinstance(rows, list):
        place.at(key).fail(f"'{key}' is not a list of tables", f"Write [[{key}]] with two brackets")
    return tuple(_record(row, kind, place.at(key, i)) for i, row in enumerate(cast(list[Any], rows)))


def _record(value: Any, kind: type[Any], place: _Place) -> Any:
    """Build one dataclass from one table, every field checked by its annotation."""
    table = _table(value, place)
    known = {f.name: f for f in fields(kind)}
    _known_keys(table, tuple(known), place)
    missing = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING and n not in table]
    if missing:
        place.fail(f"{place.table} has no '{missing[0]}'", f"It needs {', '.join(missing)}")
    try:
        return kind(**{name: _value(item, str(known[name].type), name, place) for name, item in table.items()})
    except InputError as error:
        place.fail(error.what, error.fix)


def _value(value: Any, annotation: str, key: str, place: _Place) -> Any:
    wanted = annotation.removesuffix(" | None")
    if wanted == "str":
        return _text(value, key, place)
    if wanted in _SHAPES:
        return _numbers(value, _SHAPES[wanted], key, place)
    number = _number(value, key, place)
    if wanted == "int" and number != int(number):
        place.fail(f"'{key}' is {value}, not a whole number", "Write a whole number", key)
    return int(number) if wanted == "int" else number


def _table(value: Any, place: _Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        place.fail(f"'{place.table}' is not a table", f"Write [{place.table}] and its keys below it")
    return cast(dict[str, Any], value)


def _text(value: Any, key: str, place: _Place) -> str:
    if not isinstance(value, str) or not value:
        place.fail(f"'{key}' is not a text", f'Write {key} = "..."', key)
    return value


def _number(value: Any, key: str, place: _Place) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(float(value)):
        place.fail(f"'{key}' is not a finite number", f"Write {key} = 1.0, say", key)
    if key in _POSITIVE and value <= 0:
        place.fail(f"'{key}' is {value}", "It must be positive", key)
    if abs(value) > 1e6:
        place.fail(f"'{key}' is {value}", "Lengths are in metres, at most a million of them", key)
    return float(value)


def _numbers(value: Any, count: int, key: str, place: _Place) -> tuple[float, ...]:
    items = cast(list[Any], value) if isinstance(value, list) else []
    if len(items) != count:
        axes = ", ".join("xz" if count == 2 else "xyz")
        place.fail(f"'{key}' is not a list of {count} numbers", f"Write [{axes}]", key)
    return tuple(_number(item, key, place) for item in items)


def _known_keys(table: dict[str, Any], known: tuple[str, ...], place: _Place) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            fix = f"Did you mean '{near[0]}'?" if near else f"Known are {', '.join(known)}"
            where = place if place.table else place.at(key)
            where.fail(f"unknown key '{key}'", fix, key if place.table else "")


def _lines_of_keys(text: str) -> dict[tuple[str, int, str], int]:
    """Line of every table header and key, by a scan that knows enough TOML to find them."""
    lines: dict[tuple[str, int, str], int] = {}
    counts: dict[str, int] = {}
    table, number = "", 0
    for line, row in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[{1,2})\s*([\w-]+)\s*\]", row):
            table = header[2]
            number = counts.get(table, 0) if header[1] == "[[" else 0
            counts[table] = number + 1
            lines.setdefault((table, number, ""), line)
        elif key := re.match(r"\s*([\w-]+)\s*=", row):
            lines.setdefault((table, number, key[1]), line)
            if not table:
                lines.setdefault((key[1], 0, ""), line)
    return lines


def sketch_to_toml(sketch: Sketch) -> str:
    """Write a sketch as TOML; reading it back gives the same sketch."""
    rows = [f"version = {SKETCH_VERSION}", f"name = {_literal(sketch.name)}"]
    rows += ["", "[start]", *_keys(sketch.start), "", "[goal]", *_keys(sketch.goal)]
    rows += ["", "[path]", f"corridor_m = {_literal(sketch.corridor_m)}"]
    rows += [] if sketch.speed_mps is None else [f"speed_mps = {_literal(sketch.speed_mps)}"]
    if sketch.path is not None:
        points = ", ".join(_literal(tuple(float(c) for c in p)) for p in sketch.path.points)
        rows += [f"points = [{points}]", f"kind = {_literal(sketch.path.kind)}"]
    for one, items in _tables_of(sketch):
        for item in items:
            rows += ["", f"[[{one}]]", *_keys(item)]
    return "\n".join(rows) + "\n"


def _tables_of(sketch: Sketch) -> list[tuple[str, tuple[Any, ...]]]:
    things = [(one, getattr(sketch.world, many)) for one, (many, _) in _THINGS.items()]
    return [("event", sketch.events), ("key_pose", sketch.key_poses), *things]


def _keys(record: Any) -> list[str]:
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return [f"{name} = {_literal(value)}" for name, value in values.items() if value is not None]


def _literal(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(v) for v in cast(tuple[Any, ...], value)) + "]"
    plain: object = cast(Any, value).item() if isinstance(value, np.generic) else value
    return repr(plain)


def save_sketch(sketch: Sketch, path: str | FilePath) -> None:
    """Write a sketch to a TOML file."""
    FilePath(path).write_text(sketch_to_toml(sketch), encoding="utf-8")
