"""The clips a page can open: files, folders, libraries, samples, and what was uploaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from marey.base import InputError, MissingFileError, UnknownNameError
from marey.motion import Motion

Loader = Callable[[], Motion]
MAX_NAME = 80  # characters of a file name that we keep


class ClipCatalogue:
    """Labels and loaders of clips; a clip is read when it is opened."""

    def __init__(self) -> None:
        self._loaders: dict[str, Loader] = {}

    @classmethod
    def from_paths(cls, paths: Iterable[str | Path]) -> ClipCatalogue:
        """Files are clips, folders are libraries or folders of clips; without any path, the samples."""
        shelf = cls()
        for path in map(Path, paths):
            shelf._put_path(path)
        if not shelf._loaders:
            shelf._put_samples()
        return shelf

    @property
    def labels(self) -> tuple[str, ...]:
        """Available clips, in order of addition."""
        return tuple(self._loaders)

    def load(self, label: str) -> Motion:
        """Read a clip."""
        if label not in self._loaders:
            raise UnknownNameError("clip", label, "this studio", self.labels)
        return self._loaders[label]()

    def put(self, label: str, loader: Loader) -> str:
        """Add a clip; a label that is taken gets a number. Returns the label used."""
        used, count = label, 1
        while used in self._loaders:
            count += 1
            used = f"{label} ({count})"
        self._loaders[used] = loader
        return used

    def copy(self) -> ClipCatalogue:
        """Return a shelf with the same clips, to which a page can add its own."""
        other = ClipCatalogue()
        other._loaders = dict(self._loaders)
        return other

    def _put_path(self, path: Path) -> None:
        from marey.library import is_library

        if not path.exists():
            raise MissingFileError(str(path))
        if path.is_file():
            self._put_file(path, path.name)
        elif is_library(path):
            from marey.library import Library

            with Library(path, create=False) as library:
                for record in library.clips():
                    self.put(record.name, _library_loader(path, record.id))
        else:
            from marey.io import READABLE_SUFFIXES

            files = sorted(f for f in path.rglob("*") if f.suffix.lower() in READABLE_SUFFIXES and f.is_file())
            if not files:
                raise InputError(f"no motion file in '{path}'", f"Known are {', '.join(READABLE_SUFFIXES)}")
            for file in files:
                self._put_file(file, str(file.relative_to(path)))

    def _put_file(self, path: Path, label: str) -> None:
        from marey.io import load

        self.put(label, lambda: load(path))

    def _put_samples(self) -> None:
        from marey import samples

        for name in samples.names():
            self.put(name, _sample_loader(name))


def _library_loader(folder: Path, clip_id: str) -> Loader:
    from marey.library import Library

    def load() -> Motion:
        with Library(folder, create=False) as library:
            return library.load(clip_id)

    return load


def _sample_loader(name: str) -> Loader:
    from marey import samples

    return lambda: samples.load(name)


def safe_name(name: str) -> str:
    """Last part of an uploaded file's name, letters, digits, dot, dash and space only: it arrives raw from the page."""
    last = re.split(r"[\\/]", name)[-1]
    cleaned = re.sub(r"[^\w. ()+-]", "_", last).lstrip(".")[-MAX_NAME:]
    if not cleaned:
        raise InputError("the uploaded file has no name", "Rename it and try again")
    return cleaned
