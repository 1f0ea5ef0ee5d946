"""Problems by name: motions to optimise that ship with the product."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from marey.base import UnknownNameError

FOLDER: Final = Path(__file__).parent / "problems"


def problem_names() -> tuple[str, ...]:
    """Names of the shipped problems, in order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


def problem_file(name: str) -> Path:
    """File of a shipped problem.

    Raises:
        UnknownNameError: no such problem; the nearest names are in the message.
    """
    file = FOLDER / f"{name}.toml"
    if name not in problem_names():
        raise UnknownNameError("problem", name, "marey.samples", problem_names())
    return file
