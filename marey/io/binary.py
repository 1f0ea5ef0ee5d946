"""Shared parts of readers of binary and structured files: existence, size limits, errors with the file name."""

from __future__ import annotations

import json
import mmap
from collections.abc import Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Final

from marey.base import FormatError, InputError, MareyError, MissingFileError

MAX_JSON_BYTES: Final = 16 << 20  # [byte] the largest description we parse, unless a format needs more
MAX_JSON_VALUES: Final = 1_000_000  # objects, lists and values of a description; Python takes about 100 bytes for each

AnyPath = str | PathLike[str]


def file_size(path: AnyPath, *, limit: int) -> int:
    """Size of a file [byte].

    Raises:
        MissingFileError: there is none.
        FormatError: it is empty or above ``limit``.
    """
    file = Path(path)
    if not file.is_file():
        fix = "It is a folder; name a file in it." if file.is_dir() else "Check the path."
        raise MissingFileError(str(path), fix)
    size = file.stat().st_size
    if size == 0:
        raise FormatError("the file is empty", str(path), 0, "Copy or export it again.")
    if size > limit:
        what = f"the file has {size / 2**20:.0f} MB, the limit is {limit / 2**20:.0f} MB"
        raise FormatError(what, str(path), 0, "Cut it into shorter clips.")
    return size


def map_file(path: AnyPath, *, limit: int) -> memoryview:
    """Return the bytes of a file without reading them yet; raises as :func:`file_size` does."""
    file_size(path, limit=limit)
    with Path(path).open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def format_error(path: AnyPath, what: str, fix: str = "Copy or export the file again.") -> FormatError:
    """An error about a file that has no lines."""
    return FormatError(what, str(path), 0, fix)


@contextmanager
def as_format_error(path: AnyPath, fix: str = "Copy or export the file again.") -> Generator[None]:
    """Turn what a damaged file provokes inside into a :class:`FormatError` that names the file."""
    try:
        yield
    except InputError as error:
        advice = error.fix or fix
        raise format_error(path, error.what, advice if advice.endswith((".", "?", "!")) else advice + ".") from error
    except MareyError:
        raise
    except RecursionError as error:
        raise format_error(path, "the description is nested too deeply", fix) from error
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
        # The first line of what Python says about it
        text = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__
        raise format_error(path, f"a field is missing or has a wrong form ({said})", fix) from error


def count_json_values(text: bytes) -> int:
    """An upper bound on the values in a JSON text, without parsing it."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def parse_json(text: bytes | str, path: AnyPath, *, limit: int = MAX_JSON_BYTES) -> Any:
    """Parse JSON of limited size, count and depth.

    Raises:
        FormatError: it is not JSON, too large or nested too deeply; the line is where parsing stopped.
    """
    content = text.encode() if isinstance(text, str) else text
    if len(content) > limit:
        raise format_error(path, f"its description has {len(content) / 2**20:.0f} MB, the limit is {limit >> 20} MB")
    if count_json_values(content) > MAX_JSON_VALUES:
        raise format_error(
            path, f"its description holds more than {MAX_JSON_VALUES} values", "Cut it into shorter clips."
        )
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON: {error.msg}", str(path), error.lineno, "Export the file again.") from None
    except UnicodeDecodeError:
        raise format_error(path, "the text is not UTF-8") from None
    except RecursionError:
        raise format_error(path, "the description is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise format_error(path, f"not valid JSON: {error}") from None
