"""Arrays into a glTF buffer: each becomes a buffer view and an accessor."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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
            accessor |= {"min": _to_list(array.min(axis=0)), "max": _to_list(array.max(axis=0))}
        self.accessors.append(accessor)
        padding = -len(content) % 4
        self._parts += [content, b"\0" * padding]
        self._size += len(content) + padding
        return len(self.accessors) - 1

    def data(self) -> bytes:
        """Return the whole buffer."""
        return b"".join(self._parts)


def _to_list(values: NDArray[Any]) -> list[float]:
    return [float(value) for value in np.atleast_1d(values)]
