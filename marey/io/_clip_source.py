"""How a clip file keeps `Motion.source`: plain values as JSON, channel tables as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import InputError
from marey.motion import Source


def describe_source(source: Source, *, channels: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the JSON part and the tensors of a source."""
    described: dict[str, Any] = {
        "path": source.path,
        "format": source.format,
        "unit": source.unit,
        "metres_per_unit": source.metres_per_unit,
        "up": source.up,
        "layout": [[to_plain(key), to_plain(value)] for key, value in source.layout.items()],
    }
    tensors: dict[str, NDArray[Any]] = {}
    if channels and source.channels is not None:
        tensors["source.channels"] = np.asarray(source.channels, dtype=np.float64)
    if channels and source.dropped is not None:
        tensors["source.dropped"] = np.asarray(source.dropped, dtype=np.float64)
    return described, tensors


def restore_source(described: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Source:
    """Undo :func:`describe_source`."""
    return Source(
        path=str(described["path"]),
        format=str(described["format"]),
        unit=str(described["unit"]),
        metres_per_unit=float(described["metres_per_unit"]),
        up=str(described["up"]),
        layout={from_plain(key): from_plain(value) for key, value in described["layout"]},
        channels=tensors.get("source.channels"),
        dropped=tensors.get("source.dropped"),
    )


def to_plain(value: Any) -> Any:
    """Turn nested tuples, mappings and arrays into JSON that :func:`from_plain` turns back without loss.

    Raises:
        InputError: the value holds something that is not plain data.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        items = [to_plain(item) for item in cast(tuple[Any, ...] | list[Any], value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        return {"mapping": [[to_plain(key), to_plain(item)] for key, item in pairs]}
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if isinstance(value, np.ndarray):
        array = cast(NDArray[Any], value)
        return {"array": array.tolist(), "dtype": array.dtype.str, "shape": list(array.shape)}
    raise InputError(f"source.layout holds a {type(value).__name__}", "Keep plain numbers, texts, lists and arrays")


def from_plain(value: Any) -> Any:
    """Undo :func:`to_plain`."""
    if isinstance(value, list):
        return [from_plain(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    tagged = cast(dict[str, Any], value)
    if "tuple" in tagged:
        return tuple(from_plain(item) for item in tagged["tuple"])
    if "mapping" in tagged:
        return {from_plain(key): from_plain(item) for key, item in tagged["mapping"]}
    return _array(tagged)


def _array(tagged: Mapping[str, Any]) -> NDArray[Any]:
    kind = np.dtype(tagged["dtype"])
    if kind.kind not in "biufU":
        raise InputError(f"an array of {kind} in the source's layout", "Write the clip again")
    return np.array(tagged["array"], dtype=kind).reshape(tagged["shape"])
