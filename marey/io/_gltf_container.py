"""The outer shell of glTF 2.0: one JSON text and its buffers, as `.glb` or `.gltf` ([Khronos2021]_ §4)."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

from marey.io._bytes import AnyPath, format_error, map_file, parse_json

MAX_GLTF_BYTES: Final = 2 << 30  # [byte] the size field of a GLB file has 32 bits
MAX_TEXT_BYTES: Final = 256 << 20  # [byte] a .gltf file may carry its buffers inside the text
_MAGIC: Final = b"glTF"
_JSON_CHUNK: Final = 0x4E4F534A
_BIN_CHUNK: Final = 0x004E4942
_GENERATOR: Final = "marey"


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
            self.lists[name] = self._check_items(name)
        return self.lists[name]

    def _check_items(self, name: str) -> list[dict[str, Any]]:
        found = self.root.get(name, [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in cast(list[Any], found)):
            raise format_error(self.path, f"'{name}' is not a list of objects")
        return cast(list[dict[str, Any]], found)

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
        text, chunk = _split_glb(content, len(content), path)
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


def _split_glb(content: memoryview, size: int, path: AnyPath) -> tuple[memoryview, memoryview | None]:
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
    if len(rest) < 8:
        return text, None
    second, kind = struct.unpack("<II", rest[:8])
    if second > len(rest) - 8:
        raise format_error(path, f"the binary chunk announces {second} bytes, {len(rest) - 8} are left: it is cut off")
    return text, rest[8 : 8 + second] if kind == _BIN_CHUNK else None


def _buffer(shell: GltfDocument, index: int, item: dict[str, Any], chunk: memoryview | None) -> memoryview:
    uri, length = item.get("uri"), item.get("byteLength")
    if not isinstance(length, int) or length < 0:
        raise format_error(shell.path, f"buffer {index} has no byteLength")
    if uri is None:
        data = chunk
    elif isinstance(uri, str) and uri.startswith("data:"):
        data = _decode_uri(uri, shell.path)
    else:
        data = _read_beside(str(uri), shell.path)
    if data is None or len(data) < length:
        have = 0 if data is None else len(data)
        raise format_error(shell.path, f"buffer {index} announces {length} bytes, there are {have}")
    return data[:length]


def _decode_uri(uri: str, path: AnyPath) -> memoryview:
    try:
        return memoryview(base64.b64decode(uri.partition("base64,")[2], validate=True))
    except (binascii.Error, ValueError):
        raise format_error(path, "a buffer inside the file is no valid base64") from None


def _read_beside(uri: str, path: AnyPath) -> memoryview:
    name = unquote(uri)
    folder = Path(path).resolve().parent
    file = (folder / name).resolve()
    if "://" in name or folder not in file.parents:
        raise format_error(path, f"the buffer '{name}' lies outside the file's folder", "Put it beside the file.")
    if not file.is_file():
        raise format_error(path, f"its buffer '{name}' is not there", "Put it beside the file.")
    return map_file(file, limit=MAX_GLTF_BYTES)


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
