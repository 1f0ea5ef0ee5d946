"""Limits in one `.safetensors` file: named arrays, the skeleton, a version; nothing in it can run code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from marey.base import FormatError, MareyError, MissingFileError
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.kinematics._limits import Arrays, JointLimits

LIMITS_VERSION = 1
MAX_BYTES = 1 << 30  # [byte] far above a face rig at 64 nodes an axis
SKELETON = ("parents", "offsets", "tips")


def save_limits(limits: JointLimits, path: str | Path) -> None:
    """Write limits that :func:`load_limits` gives back; the same limits make the same bytes."""
    from safetensors.numpy import save

    skeleton = limits.skeleton
    described = {
        "format": "marey-limits",
        "limits_version": LIMITS_VERSION,
        "kind": limits.kind,
        "skeleton": skeleton.name,
        "joints": list(skeleton.names),
    }
    arrays = {f"skeleton.{name}": getattr(skeleton, name) for name in SKELETON}
    arrays |= {f"limits.{name}": array for name, array in limits.to_arrays().items()}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    target = Path(path)
    if not target.parent.is_dir():
        raise MissingFileError(str(target.parent), "Make the folder first.")
    target.write_bytes(save(contiguous, metadata={"marey": text}))


def load_limits(path: str | Path) -> JointLimits:
    """Read limits of any kind that ``JointLimits.save`` wrote, of this or an earlier version.

    Raises:
        FormatError: the file is damaged, holds no limits, or was written by a newer marey.
    """
    arrays, described = _read(Path(path))
    try:
        parents, offsets, tips = (arrays[f"skeleton.{name}"] for name in SKELETON)
        skeleton = Skeleton(tuple(described["joints"]), parents, offsets, tips, name=str(described["skeleton"]))
        own = {name.removeprefix("limits."): a for name, a in arrays.items() if name.startswith("limits.")}
        return _kind(str(described["kind"])).from_arrays(skeleton, own)
    except (MareyError, KeyError, ValueError, TypeError, IndexError) as error:
        raise _broken(path, f"the limits do not fit together: {error}") from error


def _kind(name: str) -> type[JointLimits]:
    from marey.kinematics._cones import ConeLimits, ReachConeLimits
    from marey.kinematics._ellipsoids import EllipsoidLimits
    from marey.kinematics._limits_box import BoxLimits, EulerBoxLimits
    from marey.kinematics._limits_field import QuaternionFieldLimits
    from marey.kinematics._sdf import SdfLimits

    kinds: tuple[type[JointLimits], ...] = (
        BoxLimits,
        EulerBoxLimits,
        ConeLimits,
        ReachConeLimits,
        EllipsoidLimits,
        SdfLimits,
        QuaternionFieldLimits,
    )
    return {kind.kind: kind for kind in kinds}[name]


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise MissingFileError(str(path))
    if path.stat().st_size > MAX_BYTES:
        raise _broken(path, f"larger than {MAX_BYTES} bytes")
    try:
        with cast(Any, safe_open(str(path), framework="np")) as file:
            metadata: dict[str, str] = file.metadata() or {}
            described = json.loads(metadata.get("marey", "{}"))
            arrays: Arrays = {name: file.get_tensor(name) for name in cast(list[str], file.keys())}
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise _broken(path, f"not a readable safetensors file: {str(error).splitlines()[0]}") from error
    facts = cast(dict[str, Any], described if isinstance(described, dict) else {})
    version = facts.get("limits_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _broken(path, "a safetensors file, but no joint limits")
    if version > LIMITS_VERSION:
        raise FormatError(
            f"limits version {version}; this marey reads versions up to {LIMITS_VERSION}",
            str(path),
            1,
            "Upgrade marey: pip install --upgrade marey",
        )
    return arrays, facts


def _broken(path: str | Path, what: str) -> FormatError:
    return FormatError(what, str(path), 1, "Give a file that `marey limits fit` or JointLimits.save wrote.")
