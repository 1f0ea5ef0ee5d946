"""Files: the cache folder of the user, files written whole or not at all, `.safetensors` files of named arrays.

A `.safetensors` file cannot run code when it is read.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base.errors import FormatError, InputError, MareyError, MissingFileError


def cache_folder() -> Path:
    """Return ``MAREY_CACHE``, or marey's part of the user's cache; the folder need not exist."""
    if own := os.environ.get("MAREY_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "marey"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "marey"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marey"


@contextmanager
def atomic_file(target: Path) -> Generator[Path]:
    """Yield a draft beside ``target`` that takes its name when the block succeeds and is removed when it fails.

    A reader sees the old file or the whole new one, also when this process is killed.
    """
    # Beside the target, so that the last step is a rename on one disk
    draft = target.with_name(f".{target.stem[:64]}-{secrets.token_hex(6)}{target.suffix}")
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_atomically(target: Path, data: bytes) -> None:
    """Write a file so that its name appears only when all of its bytes are on the disk."""
    with atomic_file(target) as draft, draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


MAX_BYTES: Final = 1 << 30  # [byte] far above any model or limits in use
MAX_HEADER_BYTES: Final = 1 << 24

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TensorFormat:
    """A kind of file: how its header names it, and what its errors call it.

    The facts stand in the header as JSON, with the kind and its version; the same arrays and facts make the same bytes.
    """

    name: str  # "marey-pose-model", in the header
    called: str  # "pose model", in errors
    version: int  # raise it when a reader of the old version would misread a new file
    fix: str  # what to do about a file that cannot be read
    version_key: str = "version"

    def pack(self, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> bytes:
        """Bytes of a file."""
        from safetensors.numpy import save

        # Sorted keys and contiguous arrays, so that the same content makes the same bytes
        described = {**facts, "format": self.name, self.version_key: self.version}
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        packed = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        return save(packed, metadata={"marey": text})

    def write(self, path: str | Path, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Write a file whose name ends in `.safetensors`."""
        target = Path(path)
        if target.suffix != ".safetensors":
            raise InputError(f"'{target.name}' is no name for a {self.called} file", "End it in .safetensors")
        if not target.parent.is_dir():
            raise MissingFileError(str(target.parent), "Make the folder first.")
        target.write_bytes(self.pack(tensors, facts))

    def read(self, path: str | Path) -> tuple[Tensors, dict[str, Any]]:
        """Arrays and facts of a file.

        Raises:
            MissingFileError: there is no such file.
            FormatError: the file is damaged, holds something else, or was written by a newer marey.
        """
        from safetensors import SafetensorError, safe_open

        # Refuse what is no safetensors file before the library sees it
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
                facts = self._check_header(json.loads(metadata.get("marey", "{}")), path)
                return {name: file.get_tensor(name) for name in cast(list[str], file.keys())}, facts
        except MareyError:
            raise
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.format_error(path, f"not a readable safetensors file: {_first_line(error)}") from error

    def damaged(self, path: str | Path, error: Exception) -> FormatError:
        """The error to raise when what was read does not fit together."""
        text = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) and error.args else _first_line(error)
        return self.format_error(path, f"a damaged {self.called}: {text}")

    def format_error(self, path: str | Path, what: str, fix: str | None = None) -> FormatError:
        """An error about a file of this kind."""
        return FormatError(what, str(path), 0, self.fix if fix is None else fix)

    def _check_header(self, described: Any, path: str | Path) -> dict[str, Any]:
        # The header names the kind of file and its version
        facts = cast(dict[str, Any], described) if isinstance(described, dict) else {}
        version: Any = facts.get(self.version_key)
        if facts.get("format") != self.name or type(version) is not int or version < 1:
            held = f": it holds a '{facts['format']}'" if "format" in facts else ""
            raise self.format_error(path, f"a safetensors file, but not a {self.called}{held}"[:200])
        if version > self.version:
            what = f"{self.called} version {version}; this marey reads versions up to {self.version}"
            raise self.format_error(path, what, "Upgrade marey: pip install --upgrade marey")
        return facts


def _first_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
