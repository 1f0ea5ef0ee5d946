"""Limits in one `.safetensors` file: named arrays, the skeleton, a version; nothing in it can run code."""

from __future__ import annotations

from pathlib import Path

from marey.base import MareyError
from marey.kinematics._cones import ConeLimits, ReachConeLimits
from marey.kinematics._ellipsoids import EllipsoidLimits
from marey.kinematics._limits import LIMITS_FILE, SKELETON_ARRAYS, JointLimits
from marey.kinematics._limits_box import BoxLimits, EulerBoxLimits
from marey.kinematics._limits_field import QuaternionFieldLimits
from marey.kinematics._sdf import SdfLimits
from marey.skeleton import Skeleton


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
