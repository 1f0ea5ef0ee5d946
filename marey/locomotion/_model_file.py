"""Locomotion models on disk: one `.safetensors` file of plain numbers that cannot run code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, MareyError, TensorFormat
from marey.locomotion._gait_model import expand_gait_arrays
from marey.locomotion._model import GAITS, TIMINGS, LocomotionModel
from marey.models import Components, HierarchicalModel, Leaf, Person, SpeedLaw
from marey.skeleton import HUMAN

SHIPPED_MODEL: Final = Path(__file__).parents[1] / "samples" / "locomotion.safetensors"
FORMAT: Final = TensorFormat(
    "marey-locomotion", "locomotion model", 1, "Give a file that `marey fit locomotion` wrote, or write it again."
)
JUMP_PREFIX: Final = "jump/"
TIMING_PREFIX: Final = "frequency/"

AnyPath = str | os.PathLike[str]
Tensors = dict[str, NDArray[Any]]


def load_model(path: AnyPath | None = None) -> LocomotionModel:
    """Read a locomotion model; the one that ships with marey by default.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    file = SHIPPED_MODEL if path is None else Path(path)
    tensors, facts = FORMAT.read(file)
    try:
        return _read_locomotion_model(tensors, facts)
    except (MareyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FORMAT.damaged(file, error) from error


def write_model(model: LocomotionModel, path: AnyPath) -> None:
    """Write a model that :func:`load_model` gives back; the same model makes the same bytes."""
    tensors = _tree_tensors(model.tree)
    tensors |= {
        "standing": to_single(standing_rows(model)),
        "means": model.gaits.means,
        "limits": model.gaits.limits,
        "events": to_single(model.gaits.events),
        "heights": to_single(model.heights),
        "lent": model.lent.astype(np.uint8),
        "rest_heights": model.rest_heights,
        "scale": np.array([model.leg_length_m / HUMAN_LEG_M]),
    }
    tensors |= {f"{TIMING_PREFIX}{name}": to_single(table) for name, table in model.frequencies.items()}
    for kind, jump in model.jumps.items():
        tensors |= {f"{JUMP_PREFIX}{kind}/{name}": array for name, array in jump.to_arrays().items()}
    facts = {
        "styles": list(model.styles),
        "default_style": dict(model.default_style),
        "num_frames": int(model.gaits.base.shape[2]),
        "jumps": list(model.jumps),
        "info": dict(model.info),
    }
    FORMAT.write(Path(path), tensors, facts)


def standing_rows(model: LocomotionModel) -> FloatArray:
    """Rows ``(K, D)`` of the standing poses."""
    gaits = model.gaits
    return (gaits.base[:, 0] + gaits.lift[:, 0, 1]).mean(axis=1)


def to_single(array: FloatArray) -> NDArray[np.float32]:
    """Single precision: 1e-7 of a radian, a hundred times below what anybody measured."""
    return np.asarray(array, dtype=np.float32)


def round_tree(tree: HierarchicalModel) -> HierarchicalModel:
    """Return a tree as it will be read back from a file, so that tables are measured on what is shipped."""
    return _read_tree(_tree_tensors(tree), list(tree.people))


def human_leg_length() -> float:
    """Leg length [m] of the canonical human, hip joint to floor."""
    positions = HUMAN.rest_positions()
    hip, knee, ankle = (positions[HUMAN.index(f"right_{part}")] for part in ("hip", "knee", "ankle"))
    return float(np.linalg.norm(hip - knee) + np.linalg.norm(knee - ankle) + ankle[1])


HUMAN_LEG_M: Final = human_leg_length()


def _tree_tensors(tree: HierarchicalModel) -> Tensors:
    tensors: Tensors = {"main/mean": to_single(tree.main.mean), "main/lifting": to_single(tree.main.lifting)}
    tensors |= {"main/scales": to_single(tree.main.scales), "main/variances": tree.main.variances}
    tensors["main/shares"] = tree.main.shares
    for name, person in tree.people.items():
        tensors |= _component_tensors(f"person/{name}", person.space)
        for gait, leaf in person.leaves.items():
            key = f"person/{name}/{gait}"
            tensors |= _component_tensors(key, leaf.space)
            tensors[f"{key}/law"] = np.stack([leaf.law.standing, leaf.law.slope, leaf.law.offset])
            tensors[f"{key}/slowest"] = np.array([leaf.law.slowest, leaf.law.power])
    return tensors


def _component_tensors(key: str, space: Components) -> Tensors:
    return {
        f"{key}/mean": space.mean,
        f"{key}/directions": space.directions,
        f"{key}/variances": space.variances,
        f"{key}/shares": space.shares,
    }


def _read_tree(tensors: Mapping[str, NDArray[Any]], people: list[str]) -> HierarchicalModel:
    scales = _to_double(tensors["main/scales"])
    lifting = _to_double(tensors["main/lifting"])
    main = Components(
        _to_double(tensors["main/mean"]),
        lifting.T * scales[:, None],
        scales,
        _to_double(tensors["main/variances"]),
        _to_double(tensors["main/shares"]),
    )
    return HierarchicalModel(main, {name: _read_person(tensors, f"person/{name}") for name in people})


def _read_person(tensors: Mapping[str, NDArray[Any]], key: str) -> Person:
    leaves = {gait: _read_leaf(tensors, f"{key}/{gait}") for gait in GAITS if f"{key}/{gait}/law" in tensors}
    return Person(_read_components(tensors, key), leaves)


def _read_leaf(tensors: Mapping[str, NDArray[Any]], key: str) -> Leaf:
    standing, slope, offset = _to_double(tensors[f"{key}/law"])
    slowest, power = _to_double(tensors[f"{key}/slowest"]).tolist()
    return Leaf(_read_components(tensors, key), SpeedLaw(standing, slope, offset, slowest, power))


def _read_components(tensors: Mapping[str, NDArray[Any]], key: str) -> Components:
    mean, directions, variances, shares = (
        _to_double(tensors[f"{key}/{part}"]) for part in ("mean", "directions", "variances", "shares")
    )
    return Components(mean, directions, np.ones(len(mean)), variances, shares)


def _to_double(array: NDArray[Any]) -> FloatArray:
    out = np.asarray(array, dtype=np.float64)
    if not np.isfinite(out).all():
        raise InputError("a tensor holds a number that is not finite")
    out.setflags(write=False)
    return out


def _read_locomotion_model(tensors: Tensors, facts: Mapping[str, Any]) -> LocomotionModel:
    styles = tuple(str(name) for name in facts["styles"])
    scale = float(tensors["scale"][0])
    skeleton, leg_m = HUMAN if scale == 1.0 else HUMAN.scaled(scale), HUMAN_LEG_M * scale
    tree = _read_tree(tensors, list(styles))
    named = ("standing", "means", "limits", "heights", "events", "rest_heights")
    standing, means, limits, heights, events, rest = (_to_double(tensors[name]) for name in named)
    gaits = expand_gait_arrays(tree, standing, means, limits, num_frames=int(facts["num_frames"]), heights=heights)
    found = {name: _to_double(tensors[f"{TIMING_PREFIX}{name}"]) for name in TIMINGS}
    gaits = gaits._replace(events=events, frequency=found["stance"])
    return LocomotionModel(
        skeleton,
        leg_m,
        styles,
        {str(name): float(weight) for name, weight in facts["default_style"].items()},
        gaits,
        tree,
        rest,
        found,
        np.asarray(tensors["lent"], dtype=np.bool_),
        heights,
        _read_jumps(tensors, facts),
        cast(Mapping[str, Any], facts["info"]),
    )


def _read_jumps(tensors: Tensors, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Jump models by kind; none in a file without them."""
    found: dict[str, Any] = {}
    for kind in facts["jumps"]:
        from marey.locomotion._jump_model import JumpModel

        start = f"{JUMP_PREFIX}{kind}/"
        arrays = {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}
        found[str(kind)] = JumpModel.from_arrays(arrays)
    return found
