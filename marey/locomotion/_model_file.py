"""Locomotion models on disk: one `.safetensors` file of plain numbers that cannot run code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, FormatError, InputError, MareyError, MissingFileError
from marey.locomotion._gait_model import gait_arrays
from marey.locomotion._model import GAITS, LocomotionModel
from marey.models import Components, HierarchicalModel, SpeedLaw
from marey.models._hierarchy import Leaf, Person  # the two parts of a tree that are only ever made by a fit or a file
from marey.skeleton import HUMAN, Skeleton

SHIPPED: Final = Path(__file__).parents[1] / "samples" / "locomotion.safetensors"
VERSION: Final = 1  # raise it when a reader of the old version would misread a new file
MAX_BYTES: Final = 1 << 28
FORMAT: Final = "marey-locomotion"
JUMP_PREFIX: Final = "jump/"

AnyPath = str | os.PathLike[str]
Tensors = dict[str, NDArray[Any]]


def load_model(path: AnyPath | None = None) -> LocomotionModel:
    """Read a locomotion model; the one that ships with marey by default.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    file = SHIPPED if path is None else Path(path)
    tensors, facts = _read(file)
    try:
        return _restored(tensors, facts)
    except (MareyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        text = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else str(error)
        raise _broken(file, f"a damaged model: {' '.join(text.split())[:200]}") from error


def write_model(model: LocomotionModel, path: AnyPath) -> None:
    """Write a model that :func:`load_model` gives back; the same model makes the same bytes."""
    from safetensors.numpy import save

    if Path(path).suffix != ".safetensors":
        raise InputError(f"'{Path(path).name}' is no name for a model file", "End it in .safetensors")
    if not Path(path).parent.is_dir():
        raise MissingFileError(str(Path(path).parent), "Make the folder first.")
    tensors = _tree_tensors(model.tree)
    tensors |= {
        "standing": stored(standing_rows(model)),
        "means": model.gaits.means,
        "limits": model.gaits.limits,
        "events": stored(model.gaits.events),
        "lent": model.lent.astype(np.uint8),
        "rest_heights": model.rest_heights,
        "scale": np.array([model.leg_length_m / HUMAN_LEG]),
    }
    tensors |= {f"frequency/{name}": stored(table) for name, table in model.frequencies.items()}
    for kind, jump in model.jumps.items():
        tensors |= {f"{JUMP_PREFIX}{kind}/{name}": array for name, array in jump.to_arrays().items()}
    facts = {
        "format": FORMAT,
        "model_version": VERSION,
        "styles": list(model.styles),
        "default_style": dict(model.default_style),
        "num_frames": int(model.gaits.base.shape[2]),
        "info": dict(model.info),
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    packed = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    Path(path).write_bytes(save(packed, metadata={"marey": text}))


def standing_rows(model: LocomotionModel) -> FloatArray:
    """Rows ``(K, D)`` of the standing poses."""
    gaits = model.gaits
    return (gaits.base[:, 0] + gaits.lift[:, 0, 1]).mean(axis=1)


def stored(array: FloatArray) -> NDArray[np.float32]:
    """Single precision: 1e-7 of a radian, a hundred times below what anybody measured."""
    return np.asarray(array, dtype=np.float32)


def rounded(tree: HierarchicalModel) -> HierarchicalModel:
    """Return a tree as it will be read back from a file, so that tables are measured on what is shipped."""
    return _tree(_tree_tensors(tree), list(tree.people))


def human_leg() -> float:
    """Leg length [m] of the canonical human, hip joint to floor."""
    positions = HUMAN.rest_positions()
    hip, knee, ankle = (positions[HUMAN.index(f"right_{part}")] for part in ("hip", "knee", "ankle"))
    return float(np.linalg.norm(hip - knee) + np.linalg.norm(knee - ankle) + ankle[1])


HUMAN_LEG: Final = human_leg()


def _tree_tensors(tree: HierarchicalModel) -> Tensors:
    tensors: Tensors = {"main/mean": stored(tree.main.mean), "main/lifting": stored(tree.main.lifting)}
    tensors |= {"main/scales": stored(tree.main.scales), "main/variances": tree.main.variances}
    tensors["main/shares"] = tree.main.shares
    for name, person in tree.people.items():
        tensors |= _space(f"person/{name}", person.space)
        for gait, leaf in person.leaves.items():
            key = f"person/{name}/{gait}"
            tensors |= _space(key, leaf.space)
            tensors[f"{key}/law"] = np.stack([leaf.law.standing, leaf.law.slope, leaf.law.offset])
            tensors[f"{key}/slowest"] = np.array([leaf.law.slowest, leaf.law.power])
    return tensors


def _space(key: str, space: Components) -> Tensors:
    return {
        f"{key}/mean": space.mean,
        f"{key}/directions": space.directions,
        f"{key}/variances": space.variances,
        f"{key}/shares": space.shares,
    }


def _tree(tensors: Mapping[str, NDArray[Any]], people: list[str]) -> HierarchicalModel:
    scales = _double(tensors["main/scales"])
    lifting = _double(tensors["main/lifting"])
    main = Components(
        _double(tensors["main/mean"]),
        lifting.T * scales[:, None],
        scales,
        _double(tensors["main/variances"]),
        _double(tensors["main/shares"]),
    )
    return HierarchicalModel(main, {name: _person(tensors, f"person/{name}") for name in people})


def _person(tensors: Mapping[str, NDArray[Any]], key: str) -> Person:
    leaves = {gait: _leaf(tensors, f"{key}/{gait}") for gait in GAITS if f"{key}/{gait}/law" in tensors}
    return Person(_components(tensors, key), leaves)


def _leaf(tensors: Mapping[str, NDArray[Any]], key: str) -> Leaf:
    standing, slope, offset = _double(tensors[f"{key}/law"])
    slowest, power = _double(tensors[f"{key}/slowest"]).tolist()
    return Leaf(_components(tensors, key), SpeedLaw(standing, slope, offset, slowest, power))


def _components(tensors: Mapping[str, NDArray[Any]], key: str) -> Components:
    mean, directions, variances, shares = (
        _double(tensors[f"{key}/{part}"]) for part in ("mean", "directions", "variances", "shares")
    )
    return Components(mean, directions, np.ones(len(mean)), variances, shares)


def _double(array: NDArray[Any]) -> FloatArray:
    out = np.asarray(array, dtype=np.float64)
    if not np.isfinite(out).all():
        raise InputError("a tensor holds a number that is not finite")
    out.setflags(write=False)
    return out


def _restored(tensors: Tensors, facts: Mapping[str, Any]) -> LocomotionModel:
    styles = tuple(str(name) for name in facts["styles"])
    tree = _tree(tensors, list(styles))
    skeleton: Skeleton = HUMAN.scaled(float(tensors["scale"][0])) if float(tensors["scale"][0]) != 1.0 else HUMAN
    frames = int(facts["num_frames"])
    gaits = gait_arrays(
        tree,
        _double(tensors["standing"]),
        _double(tensors["means"]),
        _double(tensors["limits"]),
        num_frames=frames,
    )
    frequencies = {
        name.removeprefix("frequency/"): _double(t) for name, t in tensors.items() if name.startswith("frequency/")
    }
    gaits = gaits._replace(events=_double(tensors["events"]), frequency=frequencies["stance"])
    return LocomotionModel(
        skeleton,
        HUMAN_LEG * float(tensors["scale"][0]),
        styles,
        {str(name): float(weight) for name, weight in facts["default_style"].items()},
        gaits,
        tree,
        _double(tensors["rest_heights"]),
        frequencies,
        np.asarray(tensors["lent"], dtype=np.bool_),
        _jumps(tensors),
        cast(Mapping[str, Any], facts["info"]),
    )


def _jumps(tensors: Tensors) -> dict[str, Any]:
    """Jump models by kind; none in a file without them."""
    kinds = dict.fromkeys(name.split("/")[1] for name in tensors if name.startswith(JUMP_PREFIX))
    if not kinds:
        return {}
    from marey.locomotion._jump_model import JumpModel

    found: dict[str, Any] = {}
    for kind in kinds:
        start = f"{JUMP_PREFIX}{kind}/"
        arrays = {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}
        found[kind] = JumpModel.from_arrays(arrays)
    return found


def _read(path: Path) -> tuple[Tensors, Mapping[str, Any]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise MissingFileError(str(path))
    if path.stat().st_size > MAX_BYTES:
        raise _broken(path, f"{path.stat().st_size} bytes; the limit is {MAX_BYTES}")
    try:
        with cast(Any, safe_open(str(path), framework="np")) as file:
            metadata: dict[str, str] = file.metadata() or {}
            facts = _checked(json.loads(metadata.get("marey", "{}")), path)
            tensors: Tensors = {name: file.get_tensor(name) for name in cast(list[str], file.keys())}
    except MareyError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise _broken(path, f"not a readable safetensors file: {first}") from error
    return tensors, facts


def _checked(facts: Any, path: Path) -> Mapping[str, Any]:
    known = cast(dict[str, Any], facts) if isinstance(facts, dict) else {}
    if known.get("format") != FORMAT:
        raise _broken(
            path, "a safetensors file, but no locomotion model", "Give one that `marey fit locomotion` wrote."
        )
    version: Any = known.get("model_version")
    if not isinstance(version, int) or version < 1:
        raise _broken(path, "a locomotion model without a version")
    if version > VERSION:
        what = f"model version {version}; this marey reads versions up to {VERSION}"
        raise _broken(path, what, "Upgrade marey: pip install --upgrade marey")
    return known


def _broken(path: Path, what: str, fix: str = "Fit and save the model again.") -> FormatError:
    return FormatError(what, str(path), 0, fix)
