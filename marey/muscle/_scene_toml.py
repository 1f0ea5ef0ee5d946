"""Scenes as TOML: every mistake is named with its file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from marey.base import (
    MareyError,
    TomlLocation,
    UnknownNameError,
    as_number,
    as_table,
    as_text,
    check_keys,
    parse_toml,
    read_record,
    read_records,
    read_tables,
    read_toml_text,
)
from marey.muscle._programmes_files import programme_from_table
from marey.muscle._scene_parts import (
    BonePart,
    CheckPart,
    GroundPart,
    MaterialPart,
    MeshPart,
    PinPart,
    ProgrammePart,
    SceneParts,
    SplinePart,
    StiffPart,
    ViewPart,
)
from marey.muscle._shapes import Solid

SCENE_VERSION: Final = 1
_KEYS: Final = ("version", "title", "seconds", "rate_hz", "measure", "rate_limit", "transfer", "programme")
_TABLES: Final[Mapping[str, type[Any]]] = {
    "mesh": MeshPart,
    "material": MaterialPart,
    "ground": GroundPart,
    "view": ViewPart,
}
_LISTS: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "solid": ("solids", Solid),
    "stiff": ("stiff", StiffPart),
    "pin": ("pins", PinPart),
    "bone": ("bones", BonePart),
    "spline": ("splines", SplinePart),
    "check": ("checks", CheckPart),
}
_POSITIVE: Final = frozenset(
    {"spacing_m", "skin_m", "thick_m", "seconds", "rate_hz", "young_pa", "density_kg_m3", "radii", "mass_kg", "factor"}
    | {"stiffness", "radius_m", "width_s", "alpha_min", "tile_m"}
)


def read_scene_file(path: str | Path) -> SceneParts:
    """Read a scene file.

    Raises:
        FormatError: the file is no TOML or breaks the schema; the message names file and line.
    """
    return parse_scene(read_toml_text(path, "scene"), file=str(path))


def parse_scene(text: str, *, file: str = "<scene>") -> SceneParts:
    """Read a scene from TOML text; ``file`` is the name used in error messages."""
    data, place = parse_toml(text, file, positive=_POSITIVE)
    check_keys(data, (*_KEYS, *_TABLES, *_LISTS), place)
    if data.get("version", SCENE_VERSION) != SCENE_VERSION:
        place.fail(f"scene version {data['version']}", f"This marey reads version {SCENE_VERSION}", "version")
    for name in ("mesh", "solid"):
        if name not in data:
            place.fail(f"the scene has no {name}", "Add [mesh] with spacing_m, and at least one [[solid]]")
    tables = {name: read_record(data[name], kind, place.at(name)) for name, kind in _TABLES.items() if name in data}
    lists = {many: read_records(data, one, kind, place) for one, (many, kind) in _LISTS.items()}
    parts = SceneParts(**tables, **lists, **_plain_values(data, place), programmes=_parse_programmes(data, place))
    _check_names(parts, place)
    return parts


def _plain_values(data: Mapping[str, Any], place: TomlLocation) -> dict[str, Any]:
    found: dict[str, Any] = {
        key: as_number(data[key], key, place) for key in ("seconds", "rate_hz", "rate_limit") if key in data
    }
    found |= {key: as_text(data[key], key, place) for key in ("title", "transfer") if key in data}
    if "measure" in data:
        here = place.at("measure")
        found["measure"] = {k: as_number(v, k, here) for k, v in as_table(data["measure"], here).items()}
    return found


def _parse_programmes(data: Mapping[str, Any], place: TomlLocation) -> tuple[ProgrammePart, ...]:
    """Every ``[[programme]]``: the name of a spline, and a programme with the keys of its kind."""
    found: list[ProgrammePart] = []
    for number, row in enumerate(read_tables(data, "programme", place)):
        here = place.at("programme", number)
        table = dict(as_table(row, here))
        spline = as_text(table.pop("spline", ""), "spline", here)
        try:
            found.append(ProgrammePart(spline, programme_from_table(table)))
        except MareyError as error:
            here.fail(str(error).rstrip("."), "See the kinds of programmes", "kind")
    return tuple(found)


def _check_names(parts: SceneParts, place: TomlLocation) -> None:
    """Names are given once and used as given."""
    for table, items in (("spline", parts.splines), ("bone", parts.bones)):
        names = [item.name for item in items]
        for number, name in enumerate(names):
            if name in names[:number]:
                place.at(table, number).fail(f"two of [[{table}]] are called '{name}'", "Names must differ", "name")
    splines, bones = [s.name for s in parts.splines], [b.name for b in parts.bones]
    for number, programme in enumerate(parts.programmes):
        if programme.spline not in splines:
            error = UnknownNameError("spline", programme.spline, "this scene", splines)
            place.at("programme", number).fail(str(error), "Add it with [[spline]]", "spline")
    for number, bone in enumerate(parts.bones):
        if bone.parent and bone.parent not in bones[:number]:
            error = UnknownNameError("bone", bone.parent, "the bones before it", bones[:number])
            place.at("bone", number).fail(str(error), "Parents come before children", "parent")
