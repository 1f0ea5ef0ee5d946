"""What ships with marey goes by its name wherever a path is taken: clips, problems, scripts and sketches.

Readers live on low floors, what ships lives higher up. The package itself is asked for its room ``samples``, which
loads when a name that is no file is met for the first time.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from marey.base.errors import MissingFileError


def find_shipped_file(path: str | os.PathLike[str], kind: str) -> Path:
    """Return the path itself, or the file of the problem, script or sketch that ships under this name.

    Raises:
        UnknownNameError: neither a path nor a name; the message suggests the nearest name.
        MissingFileError: there is no such file, and a name that ships is nearly the same.
    """
    name = os.fspath(path)
    if Path(name).exists() or Path(name).name != name:
        return Path(name)
    samples: Any = import_module("marey").samples
    names = getattr(samples, f"{kind}_names")()
    if name in names or not Path(name).suffix:
        return getattr(samples, f"{kind}_file")(name)
    if Path(name).stem in names:
        raise MissingFileError(name, f"A {kind} '{Path(name).stem}' ships with marey: leave out the suffix.")
    return Path(name)


def load_shipped_clip(name: str | os.PathLike[str]) -> Any | None:
    """Return the clip that ships under this name, or None where there is no such clip."""
    samples: Any = import_module("marey").samples
    return samples.load(os.fspath(name)) if os.fspath(name) in samples.names() else None
