"""Arrays out of a `.npz` archive that nobody trusts: no pickle, no bomb, nothing that is not asked for."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FormatError
from marey.io._bytes import AnyPath, file_size, format_error

MAX_ARCHIVE_BYTES: Final = 2 << 30
MAX_ARRAY_BYTES: Final = 1 << 30  # [byte] two hours of 156 numbers at 120 Hz
FREE_BYTES: Final = 32 << 20  # [byte] arrays below this may be packed as tightly as they like ...
MAX_RATIO: Final = 50  # ... larger ones not: captured motion packs to a fifth at best
MAX_MEMBERS: Final = 1000


def read_arrays(path: AnyPath, wanted: Iterable[str], *, spare: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return those of the wanted arrays that the archive holds; damaged ``spare`` ones are left out.

    Raises:
        FormatError: the archive is damaged, an array needs pickle, or its packed form is a bomb.
    """
    file_size(path, limit=MAX_ARCHIVE_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_MEMBERS:
                raise format_error(path, f"{len(archive.infolist())} arrays in one archive", "Give an AMASS archive.")
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            found = {name: _read(archive, members[name], path, name in spare) for name in wanted if name in members}
            return {name: array for name, array in found.items() if array is not None}
    except zipfile.BadZipFile as error:
        raise format_error(path, f"not a readable .npz archive: {error}") from error
    except (zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, OverflowError, MemoryError) as error:
        raise format_error(path, f"the archive is damaged: {error or type(error).__name__}") from error


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: AnyPath, is_spare: bool) -> NDArray[Any] | None:
    name, size = info.filename, info.file_size
    if size > MAX_ARRAY_BYTES or size > max(FREE_BYTES, MAX_RATIO * info.compress_size):
        what = f"'{name}' unpacks from {info.compress_size} to {size} bytes"
        raise format_error(path, what, "This looks like a decompression bomb; it was not read.")
    with archive.open(info) as member:
        try:
            content = member.read(size + 1)
            return _array(content, name, path)
        except FormatError:
            if is_spare:
                return None
            raise
        except ValueError as error:
            raise format_error(path, f"'{name}' is no plain array: {str(error)[:120]}") from error


def _array(content: bytes, name: str, path: AnyPath) -> NDArray[Any]:
    """Decode one `.npy` member, after its header was checked against the bytes that follow."""
    from io import BytesIO

    stream = BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array format {version}")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, in_columns, kind = read_header(stream)
    if kind.hasobject:
        raise format_error(path, f"'{name}' holds Python objects", "They could run code. Save it with plain arrays.")
    count = 1
    for length in shape:
        count *= length
    if count * kind.itemsize != len(content) - stream.tell():
        raise ValueError(f"it announces {count} values, {len(content) - stream.tell()} bytes follow")
    array = np.frombuffer(content, dtype=kind, count=count, offset=stream.tell())
    return array.reshape(shape, order="F" if in_columns else "C")
