"""Forces that act on a simulated figure from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.simulate._mechanics import Mechanics
from marey.skeleton import Skeleton


@dataclass(frozen=True, slots=True, eq=False)
class PointForce:
    """A force on a point that rides on a joint's segment."""

    joint: str
    force_n: FloatArray  # (3,) [N] in world
    offset_m: FloatArray = (0.0, 0.0, 0.0)  # pyright: ignore[reportAssignmentType]  # (3,) [m] in the joint's frame

    def __post_init__(self) -> None:
        object.__setattr__(self, "force_n", frozen(self.force_n, 3, name="force_n"))
        object.__setattr__(self, "offset_m", frozen(self.offset_m, 3, name="offset_m"))


def generalised(mechanics: Mechanics, skeleton: Skeleton, forces: Iterable[PointForce]) -> FloatArray:
    r"""Body covector ``(d,)`` of point forces, :math:`\sum J_P^T F_P`."""
    total = np.zeros(mechanics.inertia.shape[0])
    for force in forces:
        if not isinstance(force, PointForce):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(f"a force is a {type(force).__name__}", "Pass PointForce(joint, force_n)")
        if force.joint not in skeleton.names:
            raise UnknownNameError("joint", force.joint, f"'{skeleton.name}'", skeleton.names)
        total += mechanics.point_jacobian(skeleton.names.index(force.joint), force.offset_m).T @ force.force_n
    return total
