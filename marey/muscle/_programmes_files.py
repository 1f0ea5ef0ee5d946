"""Programmes from tables and files."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import (
    FormatError,
    InputError,
    MissingFileError,
    UnknownNameError,
    parse_toml,
    read_toml_text,
)
from marey.muscle._programmes import ActivationProfile, ActivationProgramme, Constant, Cosine, Impulse, Keyframed, Wave

PROGRAMME_KINDS: Final[Mapping[str, type[ActivationProgramme]]] = {
    "constant": Constant,
    "impulse": Impulse,
    "cosine": Cosine,
    "wave": Wave,
    "keyframed": Keyframed,
    "profile": ActivationProfile,
}


def programme_from_table(table: Mapping[str, Any]) -> ActivationProgramme:
    """A programme of a table: ``{"kind": "cosine", "amplitude": 0.3, "rate_hz": 1.0}``.

    Raises:
        UnknownNameError: the kind or a key is not known.
        InputError: a value is missing or bad.
    """
    given = dict(table)
    kind = given.pop("kind", None)
    if kind not in PROGRAMME_KINDS:
        raise UnknownNameError("kind", str(kind), "programmes", PROGRAMME_KINDS)
    known = [f.name for f in fields(PROGRAMME_KINDS[kind])]
    for key in given:
        if key not in known:
            raise UnknownNameError("key", key, f"a programme of kind '{kind}'", known)
    for key, value in given.items():
        numbers = cast(list[Any], value) if isinstance(value, list) else [value]
        if key != "unit" and any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
            raise InputError(f"{key} of a programme is {value!r}", "It must be a number")
    try:
        return cast(ActivationProgramme, PROGRAMME_KINDS[kind](**given))
    except TypeError as error:
        raise InputError(f"a programme of kind '{kind}' is not whole: {error}", "Give what it needs") from None


def load_programmes(path: str | Path) -> dict[str, ActivationProgramme]:
    """Programmes by the names of splines, from a TOML file of tables or a CSV file of key frames.

    A CSV file has a row of names, the first being ``time_s``, then a row of values for each time.

    Raises:
        FormatError: the file breaks its form; the message names the line.
    """
    file = Path(path)
    if not file.is_file():
        raise MissingFileError(str(path))
    return _load_csv(file) if file.suffix.lower() == ".csv" else _load_toml(file)


def _load_toml(file: Path) -> dict[str, ActivationProgramme]:
    tables, place = parse_toml(read_toml_text(file, "programme"), str(file))
    out: dict[str, ActivationProgramme] = {}
    for name, table in tables.items():
        here = place.at(name)
        if not isinstance(table, dict):
            place.fail(f"'{name}' is no table", f"Write [{name}] and its keys below", name)
        try:
            out[name] = programme_from_table(cast(Mapping[str, Any], table))
        except (InputError, UnknownNameError) as error:
            here.fail(str(error).rstrip("."), "Mend the table")
    return out


def _load_csv(file: Path) -> dict[str, ActivationProgramme]:
    with file.open(newline="", encoding="utf-8-sig") as stream:
        rows = [row for row in csv.reader(stream) if row]
    if not rows or rows[0][0].strip() != "time_s" or len(rows[0]) < 2:
        raise FormatError("the first row names no columns", str(file), 1, "Write time_s,NAME,NAME,...")
    names = [name.strip() for name in rows[0][1:]]
    values = np.array([_parse_row(row, len(rows[0]), file, i + 2) for i, row in enumerate(rows[1:])])
    if len(values) == 0:
        raise FormatError("there are no rows", str(file), 2, "Write a row for each time")
    try:
        return {name: Keyframed(values[:, 0], values[:, i + 1]) for i, name in enumerate(names)}
    except InputError as error:
        raise FormatError(error.what, str(file), 2, error.fix or "Mend the column") from None


def _parse_row(row: list[str], count: int, file: Path, line: int) -> list[float]:
    if len(row) != count:
        raise FormatError(f"expected {count} values, found {len(row)}", str(file), line, "Check that the row is whole")
    try:
        values = [float(text) for text in row]
    except ValueError:
        raise FormatError(f"'{','.join(row)}' holds no numbers", str(file), line, "Write numbers") from None
    if not np.isfinite(values).all():
        raise FormatError("a value is not finite", str(file), line, "Write finite numbers")
    return values
