"""Model files: every array of a model, bit for bit, in one `.safetensors` file that cannot run code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FormatError, InputError, MareyError, MissingFileError
from marey.lie import SO3
from marey.models._contract import PoseModel
from marey.models._geodesic import GeodesicModel
from marey.models._linear import LinearModel
from marey.skeleton import Skeleton

MODEL_VERSION: Final = 1  # raise it when a reader of the old version would misread a new file
MAX_MODEL_BYTES: Final = 1 << 30  # [byte] far above a thousand components of the largest skeleton in use
MAX_HEADER_BYTES: Final = 1 << 24

AnyPath = str | os.PathLike[str]
Tensors = dict[str, NDArray[Any]]

_SHARED: Final = ("explained", "deviations", "root_position")
_OWN: Final = {
    "geodesic": (("basis", "metric"), ("kind", "projection")),
    "linear": (("centre", "full_basis", "reference"), ("space", "covers_root", "residual_variance")),
}


def write_model(model: PoseModel, path: AnyPath) -> None:
    """Write a model that :func:`load_model` gives back bit for bit; the same model makes the same bytes."""
    from safetensors.numpy import save

    if Path(path).suffix != ".safetensors":
        raise InputError(f"'{Path(path).name}' is no name for a model file", "End it in .safetensors")
    if not Path(path).parent.is_dir():
        raise MissingFileError(str(Path(path).parent), "Make the folder first.")
    family = "geodesic" if isinstance(model, GeodesicModel) else "linear"
    arrays, settings = _OWN[family]
    skeleton = model.skeleton
    tensors: Tensors = {name: getattr(model, name) for name in (*_SHARED, *arrays)}
    tensors |= {"parents": skeleton.parents, "offsets": skeleton.offsets, "tips": skeleton.tips}
    if isinstance(model, GeodesicModel):
        tensors["centre"] = model.centre.wxyz
    described = {name: getattr(model, name) for name in ("rate_hz", *settings)}
    described |= {"format": "marey-pose-model", "model_version": MODEL_VERSION, "family": family}
    described |= {"skeleton": skeleton.name, "joints": list(skeleton.names)}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    packed = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    Path(path).write_bytes(save(packed, metadata={"marey": text}))


def load_model(path: AnyPath) -> PoseModel:
    """Read a model written by ``PoseModel.save``, of this or any earlier version.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    tensors, described = _read(path)
    try:
        return _restored(tensors, described)
    except (MareyError, KeyError, TypeError, ValueError, AttributeError) as error:
        text = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) and error.args else str(error)
        raise _broken(path, f"a damaged model: {' '.join(text.split())[:200]}") from error


def _restored(tensors: Tensors, described: Mapping[str, Any]) -> PoseModel:
    family = str(described["family"])
    arrays, settings = _OWN[family]
    for name in (*_SHARED, *arrays, "centre", "offsets", "tips"):
        if tensors[name].dtype != np.float64:
            raise InputError(f"tensor '{name}' holds {tensors[name].dtype}, expected float64")
    joints = tuple(str(name) for name in cast(list[Any], described["joints"]))
    name = str(described["skeleton"])
    skeleton = Skeleton(joints, tensors["parents"], tensors["offsets"], tensors["tips"], name=name)
    parts: dict[str, Any] = {name: tensors[name] for name in (*_SHARED, *arrays)}
    parts |= {name: described[name] for name in settings}
    parts |= {"skeleton": skeleton, "rate_hz": float(described["rate_hz"])}
    if family == "linear":
        return LinearModel(**parts)
    return GeodesicModel(**parts, centre=SO3(tensors["centre"]))


def _read(path: AnyPath) -> tuple[Tensors, Mapping[str, Any]]:
    from safetensors import SafetensorError, safe_open

    _check_size(path)
    try:
        with cast(Any, safe_open(str(path), framework="np")) as file:
            metadata: dict[str, str] = file.metadata() or {}
            described = _checked(json.loads(metadata.get("marey", "{}")), path)
            tensors: Tensors = {name: file.get_tensor(name) for name in cast(list[str], file.keys())}
    except MareyError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise _broken(path, f"not a readable safetensors file: {first}") from error
    return tensors, described


def _check_size(path: AnyPath) -> None:
    if not Path(path).is_file():
        raise MissingFileError(str(path))
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        announced = int.from_bytes(file.read(8), "little")
    if size < 8 or announced > min(size - 8, MAX_HEADER_BYTES):
        raise _broken(path, "the header is longer than the file or than any model's: cut off, or no safetensors file")
    if size > MAX_MODEL_BYTES:
        raise _broken(path, f"{size} bytes; the limit is {MAX_MODEL_BYTES}")


def _checked(described: Any, path: AnyPath) -> Mapping[str, Any]:
    known = cast(dict[str, Any], described) if isinstance(described, dict) else {}
    version: Any = known.get("model_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _broken(path, "a safetensors file, but not a pose model", "Give a file that `marey fit` wrote.")
    if version > MODEL_VERSION:
        what = f"model version {version}; this marey reads versions up to {MODEL_VERSION}"
        raise _broken(path, what, "Upgrade marey: pip install --upgrade marey")
    return known


def _broken(path: AnyPath, what: str, fix: str = "Fit and save the model again.") -> FormatError:
    return FormatError(what, str(path), 0, fix)
