"""Model files: every array of a model, bit for bit, in one `.safetensors` file that cannot run code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from marey.base import InputError, MareyError, TensorFormat, Tensors
from marey.lie import SO3
from marey.models._contract import PoseModel
from marey.models._geodesic import GeodesicModel
from marey.models._linear import LinearModel
from marey.skeleton import Skeleton

MODEL_FILE: Final = TensorFormat(
    "marey-pose-model", "pose model", 1, "Fit and save the model again.", version_key="model_version"
)

AnyPath = str | os.PathLike[str]

_SHARED: Final = ("explained", "deviations", "root_position")
_OWN: Final = {
    "geodesic": (("basis", "metric"), ("kind", "projection")),
    "linear": (("centre", "full_basis", "reference"), ("space", "covers_root", "residual_variance")),
}


def write_model(model: PoseModel, path: AnyPath) -> None:
    """Write a model that :func:`load_model` gives back bit for bit; the same model makes the same bytes."""
    family = "geodesic" if isinstance(model, GeodesicModel) else "linear"
    arrays, settings = _OWN[family]
    skeleton = model.skeleton
    tensors: Tensors = {name: getattr(model, name) for name in (*_SHARED, *arrays)}
    tensors |= {"parents": skeleton.parents, "offsets": skeleton.offsets, "tips": skeleton.tips}
    if isinstance(model, GeodesicModel):
        tensors["centre"] = model.centre.wxyz
    described = {name: getattr(model, name) for name in ("rate_hz", *settings)}
    described |= {"family": family, "skeleton": skeleton.name, "joints": list(skeleton.names)}
    MODEL_FILE.write(os.fspath(path), tensors, described)


def load_model(path: AnyPath) -> PoseModel:
    """Read a model written by ``PoseModel.save``, of this or any earlier version.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    tensors, described = MODEL_FILE.read(os.fspath(path))
    try:
        return _restore_model(tensors, described)
    except (MareyError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise MODEL_FILE.damaged(os.fspath(path), error) from error


def _restore_model(tensors: Tensors, described: Mapping[str, Any]) -> PoseModel:
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
