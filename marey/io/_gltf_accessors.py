"""Numbers out of a glTF buffer, with every count checked against the bytes that are there."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray
from marey.io._bytes import format_error
from marey.io._gltf_container import GltfDocument

MAX_SPARSE_COUNT: Final = 1 << 18  # elements that no byte of the file stands for
_TYPES: Final = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_SIZES: Final = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}


def read_accessor(document: GltfDocument, index: Any) -> FloatArray:
    """Values ``(count, components)`` of one accessor; normalised integers become numbers in [-1, 1] or [0, 1].

    Raises:
        FormatError: the accessor asks for more than its buffer holds, or is of an unknown kind.
    """
    accessor = document.item("accessors", index)
    kind, size, count = _layout(document, index, accessor)
    if "bufferView" in accessor:
        raw = _view(document, accessor, kind, count, size)
    elif count <= MAX_SPARSE_COUNT:
        raw = np.zeros((count, size), dtype=kind)
    else:
        raise format_error(document.path, f"accessor {index} asks for {count} elements without any data")
    if "sparse" in accessor:
        raw = _apply_sparse(document, accessor, raw)
    values = _normalise_integers(raw) if accessor.get("normalized") else raw.astype(np.float64)
    if not np.isfinite(values).all():
        raise format_error(document.path, f"accessor {index} holds a value that is not finite")
    return values


def _layout(document: GltfDocument, index: Any, accessor: dict[str, Any]) -> tuple[np.dtype[Any], int, int]:
    component, shape, count = accessor.get("componentType"), accessor.get("type"), accessor.get("count")
    if component not in _TYPES or shape not in _SIZES:
        raise format_error(document.path, f"accessor {index} is of an unknown kind ({component}, {shape})")
    if not isinstance(count, int) or count < 1:
        raise format_error(document.path, f"accessor {index} has count {count}")
    return np.dtype(_TYPES[component]), _SIZES[shape], count


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
    if stride == element:
        return np.frombuffer(data, dtype=kind).reshape(count, size)
    rows = np.ndarray((count, element), np.uint8, buffer=data, strides=(stride, 1))
    return np.ascontiguousarray(rows).view(kind)


def _apply_sparse(document: GltfDocument, accessor: dict[str, Any], raw: NDArray[Any]) -> NDArray[Any]:
    sparse = accessor["sparse"]
    count = sparse["count"]
    if not isinstance(count, int) or not 1 <= count <= len(raw):
        raise format_error(document.path, f"a sparse accessor replaces {count} of {len(raw)} elements")
    where = _TYPES[sparse["indices"]["componentType"]]
    places = _view(document, sparse["indices"], np.dtype(where), count, 1)[:, 0].astype(np.int64)
    values = _view(document, sparse["values"], raw.dtype, count, raw.shape[1])
    if places.min() < 0 or places.max() >= len(raw):
        raise format_error(document.path, "a sparse accessor replaces an element that does not exist")
    changed = raw.copy()
    changed[places] = values
    return changed


def _normalise_integers(raw: NDArray[Any]) -> FloatArray:
    if raw.dtype.kind == "f":
        return raw.astype(np.float64)
    return np.maximum(raw.astype(np.float64) / float(np.iinfo(raw.dtype).max), -1.0)
