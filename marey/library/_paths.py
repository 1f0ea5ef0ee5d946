"""Which files of a folder are motion clips."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from marey.base import MissingFileError

CATALOGUE_NAME: Final = "catalogue.sqlite"
SNIFFED_BYTES: Final = 4096


def is_library(folder: str | Path) -> bool:
    """Whether a folder holds a clip library."""
    return (Path(folder) / CATALOGUE_NAME).is_file()


def expand_paths(paths: str | Path | Iterable[str | Path]) -> tuple[Path, ...]:
    """Replace folders by the motion files in them, sorted; keep files as they are; drop repetitions.

    Hidden files and libraries inside a folder are passed over; a library that is named gives its clips.

    Raises:
        MissingFileError: a path that was named does not exist.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    return tuple(dict.fromkeys(file for path in given for file in _expand_path(Path(path))))


def _expand_path(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(_find_clips(path / "clips" if is_library(path) else path))
    elif path.exists():
        yield path
    else:
        raise MissingFileError(str(path))


def _find_clips(folder: Path) -> Iterator[Path]:
    for home, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".") and not is_library(Path(home) / name)]
        for path in (Path(home) / name for name in names if not name.startswith(".")):
            if _LOOKS_LIKE_A_CLIP.get(path.suffix.lower(), _never)(path):
                yield path


def _always(_: Path) -> bool:
    return True


def _never(_: Path) -> bool:
    return False


def _is_deepmimic(path: Path) -> bool:
    """Whether a JSON or text file has frames; folders are full of other ones."""
    with path.open("rb") as file:
        return b'"Frames"' in file.read(SNIFFED_BYTES)


def _is_amass(path: Path) -> bool:
    """Whether an archive has poses; AMASS keeps archives of body shapes beside them. A broken one is tried."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "poses.npy" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return True


_LOOKS_LIKE_A_CLIP: Final[Mapping[str, Callable[[Path], bool]]] = {
    ".bvh": _always,
    ".amc": _always,
    ".glb": _always,
    ".gltf": _always,
    ".safetensors": _always,
    ".json": _is_deepmimic,
    ".txt": _is_deepmimic,
    ".npz": _is_amass,
}
"""files looked for in folders; a file that is named is tried whatever it is"""
