"""Limits in one `.safetensors` file: named arrays, the skeleton, a version; nothing in it can run code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from marey.base import MareyError, TensorFormat
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.kinematics._limits import JointLimits

SKELETON_ARRAYS: Final = ("parents", "offsets", "tips")
LIMITS_FILE: Final = TensorFormat(
    "marey-limits",
    "file of joint limits",
    1,
    "Give a file that `marey limits fit` or JointLimits.save wrote.",
    version_key="limits_version",
)


def save_limits(limits: JointLimits, path: str | Path) -> None:
    """Write limits that :func:`load_limits` gives back; the same limits make the same bytes."""
    skeleton = limits.skeleton
    arrays = {f"skeleton.{name}": getattr(skeleton, name) for name in SKELETON_ARRAYS}
    arrays |= {f"limits.{name}": array for name, array in limits.to_arrays().items()}
    facts = {"kind": limits.kind, "skeleton": skeleton.name, "joints": list(skeleton.names)}
    LIMITS_FILE.write(path, arrays, facts)


def load_limits(path: str | Path) -> JointLimits:
    """Read limits of any kind that ``JointLimits.save`` wrote, of this or an earlier version.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds no limits, or was written by a newer marey.
    """
    arrays, described = LIMITS_FILE.read(path)
    try:
        parents, offsets, tips = (arrays[f"skeleton.{name}"] for name in SKELETON_ARRAYS)
        skeleton = Skeleton(tuple(described["joints"]), parents, offsets, tips, name=str(described["skeleton"]))
        own = {name.removeprefix("limits."): a for name, a in arrays.items() if name.startswith("limits.")}
        return _find_kind(str(described["kind"])).from_arrays(skeleton, own)
    except (MareyError, KeyError, ValueError, TypeError, IndexError) as error:
        raise LIMITS_FILE.damaged(path, error) from error


def _find_kind(name: str) -> type[JointLimits]:
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
