"""Files: the user's cache folder, atomic writing, `.safetensors` files, CSV tables, names of shipped files.

Reading a `.safetensors` file cannot execute code.
"""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import sys
from collections.abc import Generator, Iterable, Mapping, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base.errors import FormatError, InputError, MareyError, MissingFileError, WriteError


def cache_folder() -> Path:
    """Return ``MAREY_CACHE``, or marey's folder in the user's cache; it need not exist."""
    if own := os.environ.get("MAREY_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "marey"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "marey"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marey"


@contextmanager
def atomic_file(target: Path) -> Generator[Path]:
    """Yield a draft beside ``target``, renamed to it when the block succeeds and removed when it fails.

    A reader sees either the old file or the complete new one, even if this process is killed.

    Raises:
        WriteError: the disk is full, the folder cannot be written, or the name is too long.
    """
    if not target.name:
        raise WriteError(str(target), "it names no file")
    # Beside the target, so that the last step is a rename on one disk
    draft = target.with_name(f".{target.stem[:64]}-{secrets.token_hex(6)}{target.suffix}")
    try:
        yield draft
        draft.replace(target)
    except BaseException as error:
        # A draft whose name is too long was never created, and cannot be unlinked either
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, WriteError) and error.path == str(draft):  # of what wrote the draft as a whole too
            raise WriteError(str(target), error.reason) from error
        if isinstance(error, OSError) and not isinstance(error, MareyError):
            raise WriteError(str(target), error.strerror or str(error)) from error
        raise


def write_atomically(target: Path, data: bytes | str) -> None:
    """Write bytes, or text as UTF-8, so that the file appears only when it is completely on disk."""
    content = data.encode() if isinstance(data, str) else data
    with atomic_file(target) as draft, draft.open("wb") as file:
        # Reserve the space first, so that a full disk is reported before anything is written
        if len(content) >= RESERVED_BYTES and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, len(content))
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def save_figure(figure: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a Matplotlib figure; the suffix selects the format.

    Raises:
        MissingFileError: there is no such folder.
        InputError: no format has this suffix.
    """
    target = Path(path)
    if target.suffix.lower() not in FIGURE_SUFFIXES:
        fix = f"Use one of {', '.join(FIGURE_SUFFIXES)}"
        raise InputError(f"'{target.name[:200]}' has no suffix that can be written", fix)
    if not target.parent.is_dir():
        raise MissingFileError(str(target.parent), "Make the folder first.")
    with atomic_file(target) as draft:
        figure.savefig(draft, **options)


FIGURE_SUFFIXES: Final = (".png", ".pdf", ".svg", ".jpg")
RESERVED_BYTES: Final = 1 << 20  # space is reserved for files of at least this size
MAX_BYTES: Final = 1 << 30  # [byte] far above any model or limits in use
MAX_HEADER_BYTES: Final = 1 << 24

Tensors = dict[str, NDArray[Any]]


def read_format(path: str | Path) -> str:
    """Return the kind of a marey tensor file, such as ``"marey-pose-model"``; empty for any other file."""
    try:
        with Path(path).open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: Any = json.loads(file.read(size)) if size <= MAX_HEADER_BYTES else {}
        return str(json.loads(header["__metadata__"]["marey"])["format"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


@dataclass(frozen=True, slots=True)
class TensorFormat:
    """A kind of tensor file: its name in the header and in errors, and its version.

    The header holds metadata as JSON with the kind and version. The same arrays and metadata give the same bytes.
    """

    name: str  # "marey-pose-model", in the header
    called: str  # "pose model", in errors
    version: int  # raise it when a reader of the old version would misread a new file
    fix: str  # advice for a file that cannot be read
    version_key: str = "version"

    def pack(self, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> bytes:
        """Return the bytes of a file."""
        from safetensors.numpy import save

        # Sorted keys and contiguous arrays, so that equal content gives equal bytes
        described = {**facts, "format": self.name, self.version_key: self.version}
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        packed = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        return save(packed, metadata={"marey": text})

    def write(
        self, path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> None:
        """Write a file whose name ends in `.safetensors`."""
        target = Path(path)
        if target.suffix != ".safetensors":
            raise InputError(f"a {self.called} file cannot be named '{target.name}'", "Use the suffix .safetensors")
        if not target.parent.is_dir():
            raise MissingFileError(str(target.parent), "Make the folder first.")
        write_atomically(target, self.pack(tensors, facts))

    def read(self, path: str | Path) -> tuple[Tensors, dict[str, Any]]:
        """Return the arrays and metadata of a file.

        Raises:
            MissingFileError: there is no such file.
            FormatError: the file is damaged, holds something else, or was written by a newer marey.
        """
        from safetensors import SafetensorError, safe_open

        # Refuse anything but a safetensors file before the library reads it
        if not Path(path).is_file():
            raise MissingFileError(str(path), self.fix)
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise self.format_error(path, f"{size} bytes; the limit is {MAX_BYTES}")
        with Path(path).open("rb") as file:
            announced = int.from_bytes(file.read(8), "little")
        if size < 8 or announced > min(size - 8, MAX_HEADER_BYTES):
            raise self.format_error(path, "not a readable safetensors file: cut off, or something else")
        try:
            with cast(Any, safe_open(str(path), framework="np")) as file:
                metadata: dict[str, str] = file.metadata() or {}
                described = json.loads(metadata.get("marey", "{}"))
                facts = cast(dict[str, Any], described) if isinstance(described, dict) else {}
                version: Any = facts.get(self.version_key)
                if facts.get("format") != self.name or type(version) is not int or version < 1:
                    held = f": it holds a '{facts['format']}'" if "format" in facts else ""
                    raise self.format_error(path, f"a safetensors file, but not a {self.called}{held}"[:200])
                if version > self.version:
                    what = f"{self.called} version {version}; this marey reads versions up to {self.version}"
                    raise self.format_error(path, what, "Upgrade marey: pip install --upgrade marey")
                return {name: file.get_tensor(name) for name in cast(list[str], file.keys())}, facts
        except MareyError:
            raise
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.format_error(path, f"not a readable safetensors file: {_first_line(error)}") from error

    def damage_error(self, path: str | Path, error: Exception) -> FormatError:
        """Return the error for contents that are inconsistent."""
        text = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) and error.args else _first_line(error)
        return self.format_error(path, f"a damaged {self.called}: {text}")

    def format_error(self, path: str | Path, what: str, fix: str | None = None) -> FormatError:
        """Return an error about a file of this kind."""
        return FormatError(what, str(path), 0, self.fix if fix is None else fix)


def _first_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


# Shipped clips, sketches, scripts and problems can be named wherever a path is accepted. They belong to the higher room
# `samples`, which is loaded through the package when a name is not a file.


def find_shipped_file(path: str | os.PathLike[str], kind: str) -> Path:
    """Return the path itself, or the file of the problem, script or sketch that ships under this name.

    Raises:
        UnknownNameError: neither a path nor a name; the message suggests the nearest name.
        MissingFileError: there is no such file; the message suggests a similar shipped name.
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
    """Return the shipped clip of this name, or None if there is none."""
    samples: Any = import_module("marey").samples
    return samples.load(os.fspath(name)) if os.fspath(name) in samples.names() else None


def format_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Format rows as CSV with a header; the columns are the union of the keys in order of appearance."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_table(rows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Write rows as a CSV file."""
    write_atomically(Path(path), format_table(rows))


class Result:
    """Base of results: a one-line description, a table and a plot.

    The table has one row per frame, step or task if arrays share their first dimension, else one row of scalars. A
    class can override it by a method ``table_rows``.
    """

    __slots__ = ()

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the table as CSV text, and write it if a path is given."""
        text = format_table(_list_rows(self))
        if path is not None:
            write_atomically(Path(path), text)
        return text

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot each column of the table over its first column; write the picture if a path is given."""
        from matplotlib.figure import Figure

        rows = _list_rows(self)
        first, *others = rows[0] if rows else [""]
        names = [name for name in others if isinstance(rows[0][name], (int, float))]
        if not names:
            raise InputError(f"nothing to plot in a {type(self).__name__}", "Its table has no columns of numbers")
        figure: Any = Figure(figsize=(8.0, 1.2 + 1.3 * len(names)), layout="constrained")
        panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for panel, name in zip(panels, names, strict=True):
            panel.plot([row[first] for row in rows], [row[name] for row in rows])
            panel.set_ylabel(name)
        panels[-1].set_xlabel(first)
        if path is not None:
            save_figure(figure, path)
        return figure

    def __repr__(self) -> str:
        sentence = getattr(self, "sentence", None)
        if isinstance(sentence, str):
            return f"{type(self).__name__}({sentence})"
        shown = [f"{field.name}={_format_brief(getattr(self, field.name))}" for field in fields(cast(Any, self))]
        return f"{type(self).__name__}({', '.join(shown)})"


def _list_rows(result: Any) -> list[dict[str, Any]]:
    """Rows of the table of a result."""
    if hasattr(result, "table_rows"):
        return list(result.table_rows())
    values: dict[str, Any] = {field.name: getattr(result, field.name) for field in fields(result)}
    found = cast(Tensors, {name: value for name, value in values.items() if isinstance(value, np.ndarray)})
    arrays = {name: value for name, value in found.items() if value.ndim in (1, 2)}
    if not arrays:
        single = {name: value for name, value in values.items() if isinstance(value, (bool, int, float, str))}
        return [single]
    # The longest dimension is that of frames or steps; arrays (N, k) are k columns, named if there are k names
    names = tuple(getattr(result, "names", ()))
    length = max(len(array) for array in arrays.values())
    columns: dict[str, list[Any]] = {} if "times" in arrays else {"index": list(range(length))}
    for name, array in sorted(arrays.items(), key=lambda item: item[0] != "times"):
        if len(array) == length and array.ndim == 1:
            columns[name] = array.tolist()
        elif len(array) == length:
            labels = names if len(names) == array.shape[1] else range(array.shape[1])
            columns |= {f"{name}_{label}": column.tolist() for label, column in zip(labels, array.T, strict=True)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _format_brief(value: Any) -> str:
    """Abbreviate a value: rounded numbers, shapes of arrays, lengths of collections."""
    text, kind = repr(value), type(value).__name__
    if isinstance(value, np.ndarray):
        return f"array{cast(NDArray[Any], value).shape}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (tuple, list, dict)) and len(cast(Sized, value)) > 3:
        return f"<{len(cast(Sized, value))} items>"
    return text if len(text) <= 60 else f"<{kind}>"
