"""Rigid bones of a scene: capsules joined by hinges, which carry the nodes that they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError
from marey.muscle._body import SoftBody
from marey.muscle._bones import Bone, Bones
from marey.muscle._scene_parts import BonePart
from marey.muscle._shapes import Solid

if TYPE_CHECKING:
    from marey.muscle._bones_state import AttachedBones

JOINT_DAMPING: Final = 0.05  # [N m s/rad] of a hinge: cartilage, ligaments, skin


@dataclass(frozen=True, slots=True, eq=False)
class SceneBones:
    """Bones of a body, and their capsules to draw."""

    bones: Bones
    names: tuple[str, ...]
    hinges: tuple[str, ...]
    radii: FloatArray  # (B, 2) [m]

    def ends(self, body: SoftBody) -> FloatArray:
        """Both ends of each bone ``(B, 2, 3)`` [m] where it stands."""
        bound = cast("AttachedBones", body.bones)
        return np.stack([bound.origins, bound.ends], axis=1)

    def angles(self, body: SoftBody) -> FloatArray:
        """Angles of the hinges ``(D,)`` [rad]."""
        angles = cast("AttachedBones", body.bones).angles
        return np.array([angles[name] for name in self.hinges], dtype=np.float64)


def make_scene_bones(parts: tuple[BonePart, ...], nodes: FloatArray) -> SceneBones:
    """The bones of a scene; each carries the nodes in its grip, the first that asks gets a node."""
    free = np.ones(len(nodes), dtype=np.bool_)
    bones: list[Bone] = []
    for part in parts:
        held = np.flatnonzero(_is_carried(part, nodes) & free)
        free[held] = False
        bones.append(_make_bone(part, held))
    radii = np.array([np.broadcast_to(part.radii, 2) for part in parts])
    hinges = tuple(part.name for part in parts if part.axis is not None)
    return SceneBones(Bones(bones, joint_damping=JOINT_DAMPING), tuple(part.name for part in parts), hinges, radii)


def _make_bone(part: BonePart, held: NDArray[np.int64]) -> Bone:
    return Bone(
        part.name,
        part.start,
        part.parent or None,
        "fixed" if part.axis is None else "hinge",
        part.axis or (0.0, 0.0, 1.0),
        limits=None if part.axis is None else (np.deg2rad(part.limits_deg[0]), np.deg2rad(part.limits_deg[1])),
        mass_kg=part.mass_kg,
        nodes=held,
        end=part.end,
    )


def _is_carried(part: BonePart, nodes: FloatArray) -> NDArray[np.bool_]:
    """Nodes in the grip of a bone: in its box, or near to its capsule."""
    if len(part.grip) == 2:
        return np.all((nodes >= part.grip[0]) & (nodes <= part.grip[1]), axis=1)
    if part.grip:
        raise InputError(f"the grip of bone '{part.name}' has {len(part.grip)} points", "Give two corners of a box")
    radii = (part.radii[0] + part.grip_m, part.radii[-1] + part.grip_m)
    return Solid("rod", points=(part.start, part.end), radii=radii).distance(nodes) <= 0.0
