r"""NumPy's `.npz` archives read with bounds: no pickle, no bomb, no byte that is not asked for.

A `.npz` file is a zip archive of `.npy` members. A member starts with ``\x93NUMPY``, a version, the length of a
header and the header itself, a Python literal of three entries (NumPy enhancement proposal 1)::

    {'descr': '<f8', 'fortran_order': False, 'shape': (120, 156), }

The literal is matched by a pattern, never evaluated, and what it announces is compared with the size of the member
before anything is unpacked.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, FormatError, MareyError
from marey.io.binary import AnyPath, file_size, format_error
from marey.motion import Contacts

MAX_ARCHIVE_BYTES: Final = 2 << 30
MAX_ARRAY_BYTES: Final = 1 << 30  # [byte] two hours of 156 numbers at 120 Hz
FREE_BYTES: Final = 32 << 20  # [byte] arrays that unpack to less in all may be packed as tightly as they like ...
MAX_RATIO: Final = 50  # ... more of them not: captured motion packs to a fifth at best
MAX_MEMBERS: Final = 1000
MAX_LISTING_BYTES: Final = 1 << 20  # [byte] of a zip's table of members: 1000 of them take a tenth
MAX_HEADER_BYTES: Final = 4096  # [byte] of an array; NumPy writes 118
MAX_TEXT_BYTES: Final = 1 << 16  # [byte] of an array of names
MAX_AXES: Final = 8
MAX_NUMBER: Final = 1e6  # [m], [rad], [rad/s] or [Hz]: nobody is a thousand kilometres away
CONTACT_NAMES: Final = ("left_heel", "left_toe", "right_heel", "right_toe")  # in Kimodo's order
SHOWN_ARRAYS: Final = 12  # of an unknown archive, in a message

_ENTRY: Final = re.compile(
    rb"""\s*(?:
        '(?P<key>descr|fortran_order|shape)'\s*:\s*(?:
            '(?P<kind>[^']{0,40})' | (?P<records>\[) | (?P<columns>True|False)
            | \(\s*(?P<shape>(?:\d{1,12}L?\s*,\s*)*(?:\d{1,12}L?)?)\s*\)
        )\s*,?
    )""",
    re.VERBOSE,
)
_KIND: Final = re.compile(r"[<>|=]?(?:([biuf])([1248])|([US])(\d{1,6}))")


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """What the first bytes of a member announce."""

    name: str
    kind: str  # NumPy's type string, "<f4"; "" for Python objects and records
    shape: tuple[int, ...]
    in_columns: bool  # Fortran order
    start: int  # [byte] where the values begin

    @property
    def is_plain(self) -> bool:
        """Whether it holds numbers or text that can be read without running code."""
        return _KIND.fullmatch(self.kind) is not None

    def __str__(self) -> str:
        return f"{self.name} {'x'.join(map(str, self.shape)) or 'scalar'}{'' if self.is_plain else ' (Python objects)'}"


class NpzArchive:
    """An open archive: the headers of its arrays, and the values of those asked for."""

    def __init__(self, path: AnyPath, archive: zipfile.ZipFile) -> None:
        self.path, self._archive, self._unpacked = path, archive, 0
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arrays, in the order of the archive."""
        return tuple(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def header(self, name: str) -> ArrayHeader:
        """Read the header of an array, and no value of it.

        Raises:
            FormatError: the member does not start as an array does.
        """
        info = self._members[name]
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self._not_plain(name, "it is encrypted or packed in an unusual way")
        with self._archive.open(info) as member:
            head = member.read(12)
            if head[:6] != b"\x93NUMPY" or len(head) < 12 or head[6] not in (1, 2, 3):
                raise self._not_plain(name, "it does not start as NumPy's arrays do")
            size, first = (unpack_from("<H", head, 8)[0], 10) if head[6] == 1 else (unpack_from("<I", head, 8)[0], 12)
            if size > MAX_HEADER_BYTES:
                raise self._not_plain(name, f"its header has {size} bytes")
            text = head[first:] + member.read(size - (12 - first))
        if len(text) != size:
            raise self._not_plain(name, "its header is cut off")
        start = first + size
        body = text.strip()
        if not (body.startswith(b"{") and body.endswith(b"}")):
            raise self._not_plain(name, "its header is not that of an array")
        found = dict[str, Any]()
        at, end = 1, len(body) - 1
        while at < end and body[at:end].strip():
            entry = _ENTRY.match(body, at, end)
            if entry is None or entry["key"].decode() in found:
                raise self._not_plain(name, "its header is not that of an array")
            key = entry["key"].decode()
            if entry["records"] is not None:
                raise self._not_plain(name, "it holds records, not numbers")
            kind, columns, shape = entry["kind"], entry["columns"], entry["shape"]
            value = {"descr": kind, "fortran_order": columns, "shape": shape}[key]
            if value is None:
                raise self._not_plain(name, f"'{key}' of its header has a wrong form")
            found[key] = value
            at = entry.end()
        if len(found) != 3:
            raise self._not_plain(name, "its header is not that of an array")
        shape = tuple(int(part.strip().rstrip(b"L")) for part in found["shape"].split(b",") if part.strip())
        if len(shape) > MAX_AXES:
            raise self._not_plain(name, f"it has {len(shape)} axes")
        return ArrayHeader(name, found["descr"].decode("latin-1"), shape, found["fortran_order"] == b"True", start)

    def plain_header(self, name: str) -> ArrayHeader:
        """Read the header of an array that must hold numbers or text.

        Raises:
            FormatError: it holds anything else; Python objects are never unpickled.
        """
        header = self.header(name)
        if header.kind.lstrip("<>|=") == "O":
            raise format_error(
                self.path, f"'{name}' holds Python objects", "They could run code. Save it with plain arrays."
            )
        if not header.is_plain:
            raise self._not_plain(name, f"values of the kind '{header.kind}'")
        return header

    def read(self, name: str) -> NDArray[Any]:
        """Read the values of an array of numbers or text.

        Raises:
            FormatError: the member is damaged, needs pickle, or its packed form is a bomb.
        """
        header, info = self.plain_header(name), self._members[name]
        kind = np.dtype(header.kind)
        count = 1
        for length in header.shape:
            count *= length
        size = count * kind.itemsize
        if kind.kind in "US" and size > MAX_TEXT_BYTES:
            raise self._not_plain(name, f"{size} bytes of text")
        # Refused before a byte is unpacked
        self._unpacked += info.file_size
        packed = sum(member.compress_size for member in self._members.values())
        if info.file_size > MAX_ARRAY_BYTES or self._unpacked > max(FREE_BYTES, MAX_RATIO * packed):
            what = f"'{info.filename}' unpacks from {info.compress_size} to {info.file_size} bytes"
            raise format_error(self.path, what, "This looks like a decompression bomb; it was not read.")
        if header.start + size != info.file_size:
            raise self._not_plain(name, f"it announces {count} values, {info.file_size - header.start} bytes follow")
        with self._archive.open(info) as member:
            content = member.read(info.file_size + 1)
        if len(content) != info.file_size:
            raise self._not_plain(name, f"it announces {info.file_size} bytes and holds {len(content)}")
        array = np.frombuffer(content, dtype=kind, count=count, offset=header.start)
        return array.reshape(header.shape, order="F" if header.in_columns else "C")

    def read_numbers(self, name: str) -> FloatArray:
        """Read an array of real numbers, all of them finite and of the size that a motion has.

        Raises:
            FormatError: as :meth:`read`; or it holds text, or a value that is not finite or above ``MAX_NUMBER``.
        """
        kind = self.plain_header(name).kind.lstrip("<>|=")
        if kind[:1] not in ("f", "i", "u") or (kind[:1] in ("i", "u") and self._members[name].file_size > 1 << 20):
            raise format_error(self.path, f"'{name}' holds values of the kind '{kind}', not real numbers")
        values = np.asarray(self.read(name), dtype=np.float64)
        is_bad = ~(np.abs(values) <= MAX_NUMBER)  # not finite, or so large that squares overflow
        if is_bad.any():
            bad = np.argwhere(is_bad)[0]
            shown = values[tuple(bad)]
            where = ", ".join(map(str, bad)) or "its only place"
            raise format_error(self.path, f"'{name}' holds {shown} at {where}", "Fill or cut the gap first.")
        return values

    def read_spare(self, name: str) -> NDArray[Any] | None:
        """Read an array that a motion can do without: nothing where it is missing, damaged or needs pickle."""
        try:
            return self.read(name) if name in self else None
        except FormatError:
            return None

    def describe(self) -> str:
        """Names and shapes of the arrays, for messages."""
        shown = list[str]()
        for name in self.names[:SHOWN_ARRAYS]:
            try:
                shown.append(str(self.header(name))[:60])
            except FormatError:
                shown.append(f"{name[:40]} (no array)")
        more = len(self.names) - SHOWN_ARRAYS
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def _not_plain(self, name: str, why: str) -> FormatError:
        return format_error(self.path, f"'{name[:80]}' is not a plain array: {why}")


@contextmanager
def open_archive(path: AnyPath) -> Generator[NpzArchive]:
    """Open an archive, and turn what a damaged one provokes into errors that name the file.

    Raises:
        FormatError: it is no archive, it is damaged, or it lists more members than a motion has.
    """
    size = file_size(path, limit=MAX_ARCHIVE_BYTES)
    # Refuse a zip whose table of members is large before it is parsed: each entry costs memory and time. The end record
    # (PK\5\6) has the table's size in bytes 12 to 16; that of zip64, which lies before it, has it in bytes 40 to 48
    # (PKWARE, APPNOTE.TXT, 4.3.14 and 4.3.16)
    with Path(path).open("rb") as file:
        file.seek(max(0, size - (1 << 16) - 256))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(tail):
        raise format_error(path, "not a readable .npz archive: it has no table of members")
    sizes = [unpack_from("<I", tail, at + 12)[0] if tail[at - 20 : at - 16] != b"PK\x06\x07" or at < 20 else 0]
    wide = tail.rfind(b"PK\x06\x06", 0, at)
    if wide >= 0 and wide + 48 <= len(tail):
        sizes.append(unpack_from("<Q", tail, wide + 40)[0])
    if max(sizes) > MAX_LISTING_BYTES:
        raise format_error(path, f"its table of members has {max(sizes)} bytes", "Give one motion a file.")
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_MEMBERS:
                raise format_error(path, f"{len(archive.infolist())} arrays in one archive", "Give one motion a file.")
            yield NpzArchive(path, archive)
    except zipfile.BadZipFile as error:
        raise format_error(path, f"not a readable .npz archive: {str(error)[:160]}") from error
    except (zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, OverflowError, MemoryError) as error:
        said = str(error)[:160] or type(error).__name__
        raise format_error(path, f"the archive is damaged: {said}") from error
    except (ValueError, IndexError) as error:
        if isinstance(error, MareyError):
            raise
        raise format_error(path, f"the archive is damaged: {str(error)[:160]}") from error


def read_contacts(archive: NpzArchive, frames: int, notes: list[str], prefix: str = "") -> Contacts | None:
    """Contact track of an archive: ``contacts`` ``(F, K)`` with ``contact_names``, or ``foot_contacts`` ``(F, 4)``.

    Heels and toes without names stand in the order of Kimodo. A track of another shape is left out with a note.
    """
    key = next((prefix + name for name in ("contacts", "foot_contacts") if prefix + name in archive), None)
    if key is None:
        return None
    try:
        values = archive.read(key)
        named = archive.read(f"{prefix}contact_names") if f"{prefix}contact_names" in archive else None
    except FormatError:
        notes.append(f"'{key}' cannot be read and was left out")
        return None
    names = CONTACT_NAMES if named is None else tuple(str(name)[:60] for name in named.reshape(-1))
    is_track = values.dtype.kind in "biuf" and values.shape[-2:] == (frames, len(names)) and values.ndim <= 3
    if not is_track or len(set(names)) < len(names):
        notes.append(f"'{key}' has shape {values.shape}, not {frames} x {len(names)}, and was left out")
        return None
    return Contacts(names, np.asarray(values.reshape(-1, frames, len(names))[0] > 0.5, dtype=np.bool_))
