"""A file of jump models alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, frozen
from marey.base._tensors import TensorFormat
from marey.locomotion._jump_model import JumpModel
from marey.skeleton import HUMAN, Skeleton

FORMAT: Final = TensorFormat(
    "marey-jumps", "jump model", 1, "Fit it again: marey fit locomotion LIBRARY -o MODEL.safetensors"
)
SHIPPED: Final = Path(__file__).parents[1] / "samples" / "jumps.safetensors"


def jumps_to_arrays(jumps: Mapping[str, JumpModel]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and facts of all kinds, names beginning with ``jump.KIND.``; for a file that holds more than jumps."""
    tensors: dict[str, NDArray[Any]] = {}
    facts: dict[str, Any] = {}
    for kind, model in jumps.items():
        arrays, facts[kind] = model.to_arrays()
        tensors |= {f"jump.{kind}.{name}": array for name, array in arrays.items()}
    return tensors, facts


def jumps_from_arrays(
    tensors: Mapping[str, NDArray[Any]],
    facts: Mapping[str, Any],
    *,
    means: FloatArray,
    skeleton: Skeleton,
    leg_length_m: float,
) -> dict[str, JumpModel]:
    """The models that :func:`jumps_to_arrays` gave; other arrays are passed over."""
    found: dict[str, JumpModel] = {}
    for kind, own in facts.items():
        head = f"jump.{kind}."
        arrays = {name.removeprefix(head): array for name, array in tensors.items() if name.startswith(head)}
        found[kind] = JumpModel.from_arrays(arrays, own, means=means, skeleton=skeleton, leg_length_m=leg_length_m)
    return found


def save_jumps(jumps: Mapping[str, JumpModel], path: str | Path) -> None:
    """Write jump models with their own means."""
    tensors, facts = jumps_to_arrays(jumps)
    first = next(iter(jumps.values()))
    tensors["means"] = first.means
    FORMAT.write(path, tensors, {"jumps": facts, "leg_length_m": first.leg_length_m})


def load_jumps(path: str | Path = SHIPPED, skeleton: Skeleton = HUMAN) -> dict[str, JumpModel]:
    """Read jump models by kind."""
    tensors, facts = FORMAT.read(path)
    try:
        means = frozen(np.asarray(tensors["means"], dtype=np.float64), None, 4, name="means")
        leg_m = float(facts["leg_length_m"])
        return jumps_from_arrays(tensors, facts["jumps"], means=means, skeleton=skeleton, leg_length_m=leg_m)
    except (KeyError, TypeError, ValueError) as error:
        raise FORMAT.damaged(path, error) from error
