"""Rigid bones with joints that carry nodes of a soft body; what the soft body does to them comes back to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.muscle._mesh import IndexArray, freeze_indices

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody
    from marey.muscle._bones_state import AttachedBones
    from marey.skeleton import Skeleton

FREEDOMS: Final = {"fixed": 0, "hinge": 1, "ball": 3, "free": 6}
JointSpec: TypeAlias = "str | tuple[str, ArrayLike] | tuple[str, ArrayLike, tuple[float, float]]"


@dataclass(frozen=True, slots=True, eq=False)
class Bone:
    """One rigid bone and the joint at its origin, as they are at rest, in world axes."""

    name: str
    origin: ArrayLike  # (3,) [m] its joint
    parent: str | None = None  # the bone that carries the joint; None is the world
    kind: str = "hinge"  # hinge, ball, fixed or free
    axis: ArrayLike = (0.0, 0.0, 1.0)  # (3,) of a hinge
    limits: tuple[float, float] | None = None  # [rad] of a hinge; of a ball joint (0, greatest turn)
    mass_kg: float = 0.0  # beside that of the nodes it carries
    centre: ArrayLike | None = None  # (3,) [m] of that mass; half way to the end
    end: ArrayLike | None = None  # (3,) [m] its tip
    nodes: ArrayLike = ()  # numbers of nodes it carries

    def __post_init__(self) -> None:
        if self.kind not in FREEDOMS:
            raise UnknownNameError("kind of joint", self.kind, f"bone {self.name}", FREEDOMS)
        where = f"of bone '{self.name}'"
        origin = frozen(self.origin, 3, name=f"origin {where}")
        end = origin if self.end is None else frozen(self.end, 3, name=f"end {where}")
        axis = frozen(self.axis, 3, name=f"axis {where}")
        centre = (origin + end) / 2 if self.centre is None else self.centre
        length = float(np.linalg.norm(axis))
        if length == 0.0 or not (np.isfinite(self.mass_kg) and self.mass_kg >= 0):
            raise InputError(
                f"axis {axis.tolist()} or mass {self.mass_kg} kg {where}", "No zero axis, no negative mass"
            )
        if self.limits is not None and not self.limits[0] <= self.limits[1]:
            raise InputError(f"limits {self.limits} {where}", "The lower comes first [rad]")
        kept = {
            "origin": origin,
            "end": end,
            "axis": axis / length,
            "centre": frozen(centre, 3, name=f"centre {where}"),
        }
        for field, value in kept.items():
            object.__setattr__(self, field, value)


@dataclass(frozen=True, slots=True, eq=False)
class Bones:
    """Bones, parents first, and how stiff the limits of their joints are."""

    bones: Sequence[Bone]
    limit_stiffness: float = 50.0  # [N m/rad] beyond a limit
    joint_damping: float = 0.0  # [N m s/rad]

    def __post_init__(self) -> None:
        names: list[str] = []
        for bone in self.bones:
            if bone.parent is not None and bone.parent not in names:
                raise UnknownNameError("parent", bone.parent, f"the bones before '{bone.name}'", names)
            if bone.name in names:
                raise InputError(f"two bones are called '{bone.name}'")
            if bone.kind == "free" and bone.parent is not None:
                raise InputError(f"free bone '{bone.name}' has the parent '{bone.parent}'", "Only the world can be one")
            names.append(bone.name)
        if not (self.limit_stiffness >= 0 and self.joint_damping >= 0):
            raise InputError("limit_stiffness or joint_damping is negative")

    @staticmethod
    def from_skeleton(
        skeleton: Skeleton, *, joints: Mapping[str, JointSpec], nodes: Mapping[str, ArrayLike],
        masses: Mapping[str, float] | None = None, origin: ArrayLike = (0.0, 0.0, 0.0), limit_stiffness: float = 50.0,
        joint_damping: float = 0.0,
    ) -> Bones:  # fmt: skip
        """Bones of a skeleton at rest; a joint that is not named is fixed.

        Args:
            skeleton: joints and offsets.
            joints: kind of a joint by its name: ``"ball"``, ``("hinge", axis)`` or ``("hinge", axis, limits)``.
            nodes: numbers of nodes carried by the bone of each joint.
            masses: [kg] of bones beside their nodes.
            origin: (3,) [m] where the root is.
            limit_stiffness: [N m/rad] beyond a limit.
            joint_damping: [N m s/rad].
        """
        for name in (*joints, *nodes, *(masses or {})):
            if name not in skeleton.names:
                raise UnknownNameError("joint", name, "the skeleton", skeleton.names)
        places = skeleton.rest_positions() + frozen(origin, 3, name="origin")
        bones = [
            _bone_from_joint(
                skeleton, j, places, joints.get(name, "fixed"), nodes.get(name, ()), (masses or {}).get(name, 0.0)
            )
            for j, name in enumerate(skeleton.names)
        ]
        return Bones(bones, limit_stiffness, joint_damping)

    def bind(self, body: SoftBody) -> AttachedBones:
        """Hand the attached nodes of a body to the bones."""
        from marey.muscle._bones_state import AttachedBones

        for number, bone in enumerate(self.bones):
            carried = freeze_indices(bone.nodes, None, len(body.masses), name=f"nodes of bone '{bone.name}'")
            if (body.carriers[carried] >= 0).any():
                node = int(carried[body.carriers[carried] >= 0][0])
                raise InputError(f"node {node} is carried by two bones, one is '{bone.name}'", "Give it to one")
            body.carriers[carried] = number
        return AttachedBones(self, body)


def _bone_from_joint(
    skeleton: Skeleton, j: int, places: FloatArray, joint: JointSpec, nodes: ArrayLike, mass_kg: float
) -> Bone:
    kind = joint if isinstance(joint, str) else joint[0]
    axis = (0.0, 0.0, 1.0) if isinstance(joint, str) else joint[1]
    limits = joint[2] if not isinstance(joint, str) and len(joint) == 3 else None
    children = np.flatnonzero(np.asarray(skeleton.parents) == j)
    end = places[children].mean(axis=0) if len(children) else places[j]
    parent = int(skeleton.parents[j])
    name = None if parent < 0 else skeleton.names[parent]
    return Bone(skeleton.names[j], places[j], name, kind, axis, limits, mass_kg=mass_kg, end=end, nodes=nodes)


def find_carried_nodes(carriers: IndexArray) -> IndexArray:
    """Numbers of the nodes that bones carry."""
    return np.flatnonzero(carriers >= 0).astype(np.int32)
