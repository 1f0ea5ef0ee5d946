"""Jump models on disk, alone or as a part of a locomotion model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from marey.base import MareyError, TensorFormat
from marey.locomotion._jump_model import JumpModel

FORMAT: Final = TensorFormat(
    "marey-jumps", "jump model", 1, "Fit it again: marey fit locomotion LIBRARY -o MODEL.safetensors"
)
PREFIX: Final = "jump/"


def jumps_to_arrays(jumps: Mapping[str, JumpModel]) -> dict[str, NDArray[Any]]:
    """Arrays of all kinds, named ``jump/KIND/NAME``."""
    return {f"{PREFIX}{kind}/{name}": array for kind, m in jumps.items() for name, array in m.to_arrays().items()}


def jumps_from_arrays(tensors: Mapping[str, NDArray[Any]]) -> dict[str, JumpModel]:
    """The models that :func:`jumps_to_arrays` gave; arrays of other names are passed over."""
    kinds: dict[str, dict[str, NDArray[Any]]] = {}
    for key, array in tensors.items():
        if key.startswith(PREFIX):
            _, kind, name = key.split("/", 2)
            kinds.setdefault(kind, {})[name] = array
    return {kind: JumpModel.from_arrays(arrays) for kind, arrays in kinds.items()}


def save_jumps(jumps: Mapping[str, JumpModel], path: str | Path) -> None:
    """Write jump models alone."""
    FORMAT.write(path, jumps_to_arrays(jumps), {"kinds": list(jumps)})


def load_jumps(path: str | Path) -> dict[str, JumpModel]:
    """Read jump models by kind.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, or holds something else.
    """
    tensors, _ = FORMAT.read(path)
    try:
        return jumps_from_arrays(tensors)
    except (MareyError, KeyError, TypeError, ValueError) as error:
        raise FORMAT.damaged(path, error) from error
