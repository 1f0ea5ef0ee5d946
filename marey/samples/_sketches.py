"""Sketches by name: ways to walk, rivers to cross and things to pick up that ship with the product."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from marey.base import UnknownNameError

SKETCHES: Final = Path(__file__).parent / "sketches"


def sketch_names() -> tuple[str, ...]:
    """Names of the shipped sketches, in order."""
    return tuple(sorted(file.stem for file in SKETCHES.glob("*.toml")))


def sketch_file(name: str) -> Path:
    """File of a shipped sketch.

    Raises:
        UnknownNameError: no such sketch; the nearest names are in the message.
    """
    if name not in sketch_names():
        raise UnknownNameError("sketch", name, "marey.samples", sketch_names())
    return SKETCHES / f"{name}.toml"
