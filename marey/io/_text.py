"""Text files as bytes: read with a limit, made plain, and able to say on which line something is wrong."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FormatError, MissingFileError

MAX_FILE_BYTES: Final = 1 << 30  # two hours of 96 channels at 120 Hz fill 0.7 GB; past this a file is a mistake
SHOWN: Final = 32  # characters of a bad word that a message repeats


@dataclass(frozen=True, slots=True)
class TextFile:
    """The bytes of a text file: UTF-8 without a mark, lines ended by a line feed, the last one too."""

    path: str
    data: bytes
    was_cut: bool = False  # the file does not end with a line end

    def line_at(self, offset: int) -> int:
        """Line number, from one, of a byte."""
        return self.data.count(b"\n", 0, offset) + 1

    def word_at(self, offset: int) -> str:
        """Return the word that starts at a byte, made fit to print."""
        return make_printable(self.data[offset : offset + 4 * SHOWN].split(None, 1)[0])

    def error(self, what: str, offset: int, fix: str) -> FormatError:
        """Build the error for something wrong at a byte."""
        return FormatError(what, self.path, self.line_at(offset), fix)

    def error_on_line(self, what: str, line: int, fix: str) -> FormatError:
        """Build the error for something wrong on a line whose number is known."""
        return FormatError(what, self.path, line, fix)

    def array(self) -> NDArray[np.uint8]:
        """Return the bytes as a read-only array, without a copy."""
        return np.frombuffer(self.data, dtype=np.uint8)


def read_text(path: str | os.PathLike[str]) -> TextFile:
    """Read a whole text file.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is a folder, empty, too large, or not text.
    """
    data = _normalise_text(str(path), read_bytes(path))
    was_cut = not data.endswith(b"\n")
    return TextFile(str(path), data + b"\n" if was_cut else data, was_cut)


def read_bytes(path: str | os.PathLike[str], *, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a file of at most ``limit`` bytes; the errors of :func:`read_text`, the encoding apart."""
    file = Path(path)
    try:
        size = file.stat().st_size
        if file.is_dir():
            raise FormatError("this is a folder", str(path), 1, "Name one file in it.")
        if size > limit:
            raise FormatError(f"{size} bytes are too many to read", str(path), 1, f"The limit is {limit} bytes.")
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(str(path)) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read: {error}", str(path), 1, "Check the path and its permissions.") from None
    if not data[:4096].strip() and not data.strip():
        raise FormatError("the file is empty", str(path), 1, "Export it again.")
    return data


def make_printable(word: bytes | str) -> str:
    """Shorten a word and replace what a terminal should not be sent."""
    text = word.decode("utf-8", errors="replace") if isinstance(word, bytes) else word
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: SHOWN + 1])
    return clean if len(clean) <= SHOWN else clean[:SHOWN] + "..."


def plural(count: int, noun: str) -> str:
    """``1 frame``, ``2 frames``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def is_decimal_comma(word: str) -> bool:
    """Tell whether a word is a number written with a decimal comma."""
    return re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?", word) is not None


def parse_float(word: str) -> float | None:
    """Return the finite number that a word spells, or ``None``; stricter than ``float``: no ``1_0``, no ``nan``."""
    if _NUMBER.fullmatch(word) is None:
        return None
    value = float(word)
    return value if np.isfinite(value) else None


_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_UTF16: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def _normalise_text(path: str, data: bytes) -> bytes:
    if data[:2] in _UTF16:
        data = _recode(path, data[2:], _UTF16[data[:2]])
    elif b"\0" in data[:256]:
        data = _recode(path, data, "utf-16-le" if data[1:2] == b"\0" else "utf-16-be")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data


def _recode(path: str, data: bytes, encoding: str) -> bytes:
    text = data.decode(encoding, errors="replace")
    if sum(c.isascii() and c != "\0" for c in text[:256]) < 0.9 * len(text[:256]):
        what, fix = "this is binary data, not text", "Check that the file has the right suffix; save text as UTF-8."
        raise FormatError(what, path, 1, fix)
    return text.encode("utf-8", errors="replace")
