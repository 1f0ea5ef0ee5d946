"""The outer shell of glTF 2.0: one JSON text and its buffers, as `.glb` or `.gltf` ([Khronos2021]_ §4).

Numbers are read through accessors, with every count checked against the bytes that are there, and packed the same way.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io.binary import AnyPath, format_error, map_file, parse_json

GLTF_SUFFIXES: Final = (".glb", ".gltf", ".vrm")  # of files that hold characters; VRM is GLB with notes of its own
MAX_GLTF_BYTES: Final = 2 << 30  # [byte] the size field of a GLB file has 32 bits
MAX_TEXT_BYTES: Final = 256 << 20  # [byte] a .gltf file may carry its buffers inside the text
_MAGIC: Final = b"glTF"
_JSON_CHUNK: Final = 0x4E4F534A
_BIN_CHUNK: Final = 0x004E4942


@dataclass(frozen=True, slots=True)
class GltfDocument:
    """A glTF file: its description and its buffers."""

    path: str
    root: dict[str, Any]
    buffers: tuple[memoryview, ...]
    lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])  # checked ones

    def items(self, name: str) -> list[dict[str, Any]]:
        """Return a top-level list of objects; empty where the file has none."""
        if name not in self.lists:
            found = self.root.get(name, [])
            if not isinstance(found, list) or not all(isinstance(item, dict) for item in cast(list[Any], found)):
                raise format_error(self.path, f"'{name}' is not a list of objects")
            self.lists[name] = cast(list[dict[str, Any]], found)
        return self.lists[name]

    def item(self, name: str, index: Any) -> dict[str, Any]:
        """Return one object of a top-level list; a number outside it is an error of the file."""
        items = self.items(name)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(items):
            raise format_error(self.path, f"it refers to {name}[{index}], but there are {len(items)}")
        return items[index]


def read_document(path: AnyPath) -> GltfDocument:
    """Read the shell of a `.glb` or `.gltf` file, whichever the content is; buffers are mapped, not copied.

    Raises:
        FormatError: the shell is damaged, or a buffer is missing, too short or outside the file's folder.
    """
    content = map_file(path, limit=MAX_GLTF_BYTES)
    chunk = None
    text: bytes | memoryview = content
    if bytes(content[:4]) == _MAGIC:
        # A binary file: a header, a chunk of JSON and, if there is one, a chunk of data
        size = len(content)
        if size < 20:
            raise format_error(path, f"the file ends after {size} bytes, inside the GLB header")
        _, version, length, first, kind = struct.unpack("<4sIIII", content[:20])
        if version != 2:
            raise format_error(path, f"GLB version {version}; version 2 is read", "Export the file as glTF 2.0.")
        if length > size:
            raise format_error(path, f"the header announces {length} bytes, the file has {size}: it is cut off")
        if kind != _JSON_CHUNK or 20 + first > length:
            raise format_error(path, "the first chunk is no JSON or runs past the end of the file")
        text, rest = content[20 : 20 + first], content[20 + first : length]
        if len(rest) >= 8:
            second, kind = struct.unpack("<II", rest[:8])
            if second > len(rest) - 8:
                what = f"the binary chunk announces {second} bytes, {len(rest) - 8} are left: it is cut off"
                raise format_error(path, what)
            chunk = rest[8 : 8 + second] if kind == _BIN_CHUNK else None
    if len(text) > MAX_TEXT_BYTES:
        raise format_error(path, f"its description has {len(text) >> 20} MB, the limit is {MAX_TEXT_BYTES >> 20} MB")
    root = parse_json(bytes(text), path, limit=MAX_TEXT_BYTES)
    if not isinstance(root, dict) or not isinstance(cast(dict[str, Any], root).get("asset"), dict):
        raise format_error(path, "the description has no 'asset': this is no glTF file")
    described = cast(dict[str, Any], root)
    version = str(described["asset"].get("version", ""))
    if not version.startswith("2."):
        raise format_error(path, f"glTF version '{version}'; version 2 is read", "Export the file as glTF 2.0.")
    shell = GltfDocument(str(path), described, ())
    buffers = tuple(_buffer(shell, i, item, chunk) for i, item in enumerate(shell.items("buffers")))
    return GltfDocument(str(path), described, buffers)


def _buffer(shell: GltfDocument, index: int, item: dict[str, Any], chunk: memoryview | None) -> memoryview:
    uri, length = item.get("uri"), item.get("byteLength")
    if not isinstance(length, int) or length < 0:
        raise format_error(shell.path, f"buffer {index} has no byteLength")
    if uri is None:
        data = chunk
    elif isinstance(uri, str) and uri.startswith("data:"):
        try:
            data = memoryview(base64.b64decode(uri.partition("base64,")[2], validate=True))
        except (binascii.Error, ValueError):
            raise format_error(shell.path, "a buffer inside the file is no valid base64") from None
    else:
        # A file beside this one, and nowhere else
        name, fix = unquote(str(uri)), "Put it beside the file."
        folder = Path(shell.path).resolve().parent
        file = (folder / name).resolve()
        if "://" in name or folder not in file.parents:
            raise format_error(shell.path, f"the buffer '{name}' lies outside the file's folder", fix)
        if not file.is_file():
            raise format_error(shell.path, f"its buffer '{name}' is not there", fix)
        data = map_file(file, limit=MAX_GLTF_BYTES)
    if data is None or len(data) < length:
        have = 0 if data is None else len(data)
        raise format_error(shell.path, f"buffer {index} announces {length} bytes, there are {have}")
    return data[:length]


def to_glb(root: dict[str, Any], data: bytes) -> bytes:
    """Join a description and its one buffer to the content of a `.glb` file."""
    text = _json(root | {"buffers": [{"byteLength": len(data)}]})
    text += b" " * (-len(text) % 4)
    data += b"\0" * (-len(data) % 4)
    total = 12 + 8 + len(text) + 8 + len(data)
    head = struct.pack("<4sIIII", _MAGIC, 2, total, len(text), _JSON_CHUNK)
    return head + text + struct.pack("<II", len(data), _BIN_CHUNK) + data


def to_gltf(root: dict[str, Any], data: bytes) -> bytes:
    """Join a description and its one buffer to the content of a `.gltf` file that stands alone."""
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    return _json(root | {"buffers": [{"byteLength": len(data), "uri": uri}]})


def _json(root: dict[str, Any]) -> bytes:
    return json.dumps(root, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


MAX_SPARSE_COUNT: Final = 1 << 18  # elements that no byte of the file stands for
_TYPES: Final = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_SIZES: Final = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}


def read_accessor(document: GltfDocument, index: Any) -> FloatArray:
    """Values ``(count, components)`` of one accessor; normalised integers become numbers in [-1, 1] or [0, 1].

    Raises:
        FormatError: the accessor asks for more than its buffer holds, or is of an unknown kind.
    """
    accessor = document.item("accessors", index)
    component, shape, count = accessor.get("componentType"), accessor.get("type"), accessor.get("count")
    if component not in _TYPES or shape not in _SIZES:
        raise format_error(document.path, f"accessor {index} is of an unknown kind ({component}, {shape})")
    if not isinstance(count, int) or count < 1:
        raise format_error(document.path, f"accessor {index} has count {count}")
    kind = np.dtype(_TYPES[component])
    size = _SIZES[shape]
    if "bufferView" in accessor:
        raw = _view(document, accessor, kind, count, size)
    elif count <= MAX_SPARSE_COUNT:
        raw = np.zeros((count, size), dtype=kind)
    else:
        raise format_error(document.path, f"accessor {index} asks for {count} elements without any data")
    # A few elements may be replaced by others
    if "sparse" in accessor:
        sparse = accessor["sparse"]
        few = sparse["count"]
        if not isinstance(few, int) or not 1 <= few <= len(raw):
            raise format_error(document.path, f"a sparse accessor replaces {few} of {len(raw)} elements")
        where = _TYPES[sparse["indices"]["componentType"]]
        places = _view(document, sparse["indices"], np.dtype(where), few, 1)[:, 0].astype(np.int64)
        replaced = _view(document, sparse["values"], kind, few, size)
        if places.min() < 0 or places.max() >= len(raw):
            raise format_error(document.path, "a sparse accessor replaces an element that does not exist")
        raw = raw.copy()
        raw[places] = replaced
    values = raw.astype(np.float64)
    if accessor.get("normalized") and kind.kind != "f":
        values = np.maximum(values / float(np.iinfo(kind).max), -1.0)
    if not np.isfinite(values).all():
        raise format_error(document.path, f"accessor {index} holds a value that is not finite")
    return values


def _view(document: GltfDocument, accessor: dict[str, Any], kind: np.dtype[Any], count: int, size: int) -> NDArray[Any]:
    view = document.item("bufferViews", accessor["bufferView"])
    number, start, length = view.get("buffer"), view.get("byteOffset", 0), view.get("byteLength", 0)
    document.item("buffers", number)
    buffer = document.buffers[int(number or 0)]
    skip, element = accessor.get("byteOffset", 0), kind.itemsize * size
    stride = view.get("byteStride", element)
    if not all(isinstance(x, int) and x >= 0 for x in (start, length, skip, stride)) or stride < element:
        raise format_error(document.path, f"bufferView {accessor['bufferView']} has a wrong offset, length or stride")
    needed = skip + stride * (count - 1) + element
    if start + length > len(buffer) or needed > length:
        have = min(length, max(0, len(buffer) - start))
        raise format_error(document.path, f"an accessor of {count} elements needs {needed} bytes, its view has {have}")
    data = buffer[start + skip : start + needed]
    # Elements side by side need no copy; else rows are gathered
    if stride == element:
        return np.frombuffer(data, dtype=kind).reshape(count, size)
    rows = np.ndarray((count, element), np.uint8, buffer=data, strides=(stride, 1))
    return np.ascontiguousarray(rows).view(kind)


VERTICES: Final = 34962  # bufferView.target: vertex attributes
INDICES: Final = 34963  # bufferView.target: vertex numbers of triangles
_COMPONENTS: Final = {"float32": 5126, "uint32": 5125, "uint16": 5123}
_SHAPES: Final = {(): "SCALAR", (3,): "VEC3", (4,): "VEC4", (4, 4): "MAT4"}


class GltfPack:
    """Collects arrays; :attr:`views`, :attr:`accessors` and :meth:`data` go into the file."""

    def __init__(self) -> None:
        self.views: list[dict[str, Any]] = []
        self.accessors: list[dict[str, Any]] = []
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, array: NDArray[Any], *, target: int | None = None, bounds: bool = False) -> int:
        """Append an array ``(n, ...)`` of float32, uint32 or uint16 and return its accessor's number.

        Matrices go in as rows of columns: pass them transposed, since glTF stores columns first.
        """
        content = np.ascontiguousarray(array).tobytes()
        view: dict[str, Any] = {"buffer": 0, "byteOffset": self._size, "byteLength": len(content)}
        self.views.append(view if target is None else view | {"target": target})
        accessor: dict[str, Any] = {
            "bufferView": len(self.views) - 1,
            "componentType": _COMPONENTS[array.dtype.name],
            "count": len(array),
            "type": _SHAPES[array.shape[1:]],
        }
        if bounds:
            for name, values in (("min", array.min(axis=0)), ("max", array.max(axis=0))):
                accessor[name] = [float(value) for value in np.atleast_1d(values)]
        self.accessors.append(accessor)
        padding = -len(content) % 4
        self._parts += [content, b"\0" * padding]
        self._size += len(content) + padding
        return len(self.accessors) - 1

    def data(self) -> bytes:
        """Return the whole buffer."""
        return b"".join(self._parts)
