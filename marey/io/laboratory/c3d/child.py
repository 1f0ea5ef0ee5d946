"""C3D files by ezc3d, inside a child process: points, analog values, and the parameters that say what they are."""

from __future__ import annotations

from array import array
from typing import Any

import ezc3d
import numpy as np

GROUPS = ("POINT", "ANALOG", "FORCE_PLATFORM")
Answer = tuple[dict[str, Any], dict[str, tuple["array[Any]", tuple[int, ...]]]]


def read(path: str, question: dict[str, Any]) -> Answer:
    """Numbers of a file as arrays; texts and parameters as facts."""
    del question
    content: Any = ezc3d.c3d(path)
    data = content["data"]
    numbers = {
        "points": data["points"][:3],
        "residuals": data["meta_points"]["residuals"][0],
        "analogs": data["analogs"][0],
    }
    texts: dict[str, list[str]] = {}
    for group in GROUPS:
        for name, entry in content["parameters"].get(group, {}).items():
            value = np.asarray(entry.get("value")) if name != "__METADATA__" else np.zeros(0, dtype=object)
            if value.dtype.kind == "U":
                texts[f"{group}:{name}"] = [str(text) for text in value.ravel()]
            elif value.dtype.kind in "iuf":
                numbers[f"{group}:{name}"] = value
    plain = {name: np.ascontiguousarray(values, dtype=np.float64) for name, values in numbers.items()}
    return {"texts": texts}, {name: (array("d", values.tobytes()), values.shape) for name, values in plain.items()}
