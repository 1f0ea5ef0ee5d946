"""Forces that act on a simulated figure from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen
from marey.skeleton import ROLES, Skeleton, role_map


@dataclass(frozen=True, slots=True, eq=False, init=False)
class PointForce:
    """A force on a point that rides on a joint's segment."""

    joint: str  # name of a joint, or its part in the body, such as "right_wrist"
    force_n: FloatArray  # (3,) [N] in world
    offset_m: FloatArray  # (3,) [m] in the joint's frame

    def __init__(self, joint: str, force_n: ArrayLike, offset_m: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "force_n", frozen(force_n, 3, name="force_n"))
        object.__setattr__(self, "offset_m", frozen(offset_m, 3, name="offset_m"))


class ForceArrays(NamedTuple):
    """Forces on points as plain arrays, for the kernels."""

    joints: IntArray  # (N,)
    offsets: FloatArray  # (N, 3) [m]
    forces: FloatArray  # (N, 3) [N]


NO_FORCES = ForceArrays(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros((0, 3)))


def pack_forces(skeleton: Skeleton, forces: Iterable[PointForce]) -> ForceArrays:
    """Plain arrays of forces.

    Raises:
        InputError: one is no ``PointForce``.
        UnknownNameError: one is on a joint that does not exist.
    """
    given = list(forces)
    if not given:
        return NO_FORCES
    for force in given:
        if not isinstance(force, PointForce):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(f"a force is a {type(force).__name__}", "Pass PointForce(joint, force_n)")
    joints = np.array([_resolve_joint(skeleton, force.joint) for force in given], dtype=np.int64)
    return ForceArrays(joints, np.stack([f.offset_m for f in given]), np.stack([f.force_n for f in given]))


def _resolve_joint(skeleton: Skeleton, name: str) -> int:
    """Number of a joint, by its own name or by its part in the body."""
    if name in skeleton.names:
        return skeleton.names.index(name)
    if name in ROLES:
        return role_map(skeleton)[name]
    raise UnknownNameError("joint", str(name), f"'{skeleton.name}'", skeleton.names)
