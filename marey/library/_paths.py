"""Which files of a folder are motion clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from marey.base import MissingFileError

CLIP_SUFFIXES: Final = frozenset({".bvh", ".amc", ".glb", ".gltf", ".npz", ".json", ".safetensors"})
"""looked for in folders; a file that is named is tried whatever its suffix"""


def expand_paths(paths: str | Path | Iterable[str | Path]) -> tuple[Path, ...]:
    """Replace folders by the motion files in them, sorted; keep files as they are; drop repetitions.

    Raises:
        MissingFileError: a path that was named does not exist.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    return tuple(dict.fromkeys(file for path in given for file in _files(Path(path))))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = (p for p in path.rglob("*") if p.suffix.lower() in CLIP_SUFFIXES and p.is_file())
        yield from sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(path).parts))
    elif path.exists():
        yield path
    else:
        raise MissingFileError(str(path))
