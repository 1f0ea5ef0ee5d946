"""Scripts by name: walks, runs and jumps that ship with the product."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from marey.base import UnknownNameError

SCRIPTS: Final = Path(__file__).parent / "scripts"


def script_names() -> tuple[str, ...]:
    """Names of the shipped scripts, in order."""
    return tuple(sorted(file.stem for file in SCRIPTS.iterdir() if file.suffix in (".toml", ".xml")))


def script_file(name: str) -> Path:
    """File of a shipped script.

    Raises:
        UnknownNameError: no such script; the nearest names are in the message.
    """
    for suffix in (".toml", ".xml"):
        if name in script_names() and (file := SCRIPTS / f"{name}{suffix}").is_file():
            return file
    raise UnknownNameError("script", name, "marey.samples", script_names())
