"""From the tables of a scene to a body that moves and a surface that is seen.

Rigid bones are capsules joined by hinges, which carry the nodes inside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.contact import ContactPlane
from marey.muscle.body.soft_body import SoftBody
from marey.muscle.elastic.lattice import Lattice
from marey.muscle.mesh.shapes import Shape, Solid, tetrahedralise_shape, voxelise
from marey.muscle.mesh.tet_mesh import TetMesh
from marey.muscle.muscles.forces import Muscles
from marey.muscle.muscles.programmes import ActivationPlan
from marey.muscle.scene.film import Paint, make_paint
from marey.muscle.scene.surface import EmbeddedSurface, embed_surface, surface_of_mesh, surface_of_plate
from marey.muscle.scene.tables import BonePart, SceneParts

if TYPE_CHECKING:
    from marey.muscle.body.bones import AttachedBones


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
        bones.append(
            Bone(
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
        )
    radii = np.array([np.broadcast_to(part.radii, 2) for part in parts])
    hinges = tuple(part.name for part in parts if part.axis is not None)
    return SceneBones(Bones(bones, joint_damping=JOINT_DAMPING), tuple(part.name for part in parts), hinges, radii)


def _is_carried(part: BonePart, nodes: FloatArray) -> NDArray[np.bool_]:
    """Nodes in the grip of a bone: in its box, or near to its capsule."""
    if len(part.grip) == 2:
        return np.all((nodes >= part.grip[0]) & (nodes <= part.grip[1]), axis=1)
    if part.grip:
        raise InputError(f"the grip of bone '{part.name}' has {len(part.grip)} points", "Give two corners of a box")
    radii = (part.radii[0] + part.grip_m, part.radii[-1] + part.grip_m)
    return Solid("rod", points=(part.start, part.end), radii=radii).distance(nodes) <= 0.0


BONE_FACTOR: Final = 100.0  # [-] stiffer cells than this count as bone; tendons are softer
FrameActivations = Mapping[str, float] | FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SceneModel:
    """A scene set up: its body at rest, its muscles and their plan, and the skin to draw."""

    body: SoftBody
    mesh: TetMesh | Lattice
    muscles: Muscles
    plan: ActivationPlan
    skin: EmbeddedSurface
    paint: Paint
    stiff: NDArray[np.bool_]  # (T,) cells of bones inside the body
    fades: FloatArray  # (S,) 0 to 1: how much of its activity each segment takes
    bones: SceneBones | None = None

    def alphas(self, activations: FrameActivations | None) -> FloatArray:
        """Contraction of each segment ``(S,)``: of activations of splines by name or number, or alphas of segments."""
        return self.apply_fades(self.muscles.alphas(activations))

    def apply_fades(self, alphas: FloatArray) -> FloatArray:
        """Alphas ``(..., S)`` with less activity towards the ends of splines that fade."""
        return 1.0 + self.fades * (alphas - 1.0)


def build_scene(parts: SceneParts) -> SceneModel:
    """Set up a scene."""
    shape = Shape(parts.solids)
    mesh = _make_mesh(parts, shape)
    # Factor on the stiffness of each cell (T,): cells whose middle or two corners lie in a bone are bone.
    corners = mesh.nodes[mesh.cells]
    scale = np.ones(len(mesh.cells))
    for part in sorted(parts.stiff, key=lambda part: part.factor):  # bones win over the soft pads between them
        solid = part.solid()
        inside = solid.distance(corners.reshape(-1, 3)).reshape(corners.shape[:2]) <= 0.0
        meets = (inside.sum(axis=1) >= 2) | (solid.distance(corners.mean(axis=1)) <= 0.0)
        scale = np.where(meets, part.factor, scale)
    muscles = Muscles(
        mesh,
        [part.spline() for part in parts.splines],
        density_kg_m3=parts.material.density_kg_m3,
        young_pa=parts.material.young_pa,
        transfer=parts.transfer,
    )
    bones = make_scene_bones(parts.bones, mesh.nodes) if parts.bones else None
    material = parts.material
    body = SoftBody.from_mesh(
        mesh,
        material=material.model,
        young_pa=material.young_pa,
        poisson=material.poisson,
        density_kg_m3=material.density_kg_m3,
        stiffness_scale=scale if parts.stiff else None,
        damping=material.damping,
        pinned=_find_pinned(parts, mesh.nodes),
        gravity=(0.0, -material.gravity_m_s2, 0.0),
        ground=_make_ground(parts),
        muscles=muscles,
        integrator=material.integrator,
        bones=None if bones is None else bones.bones,
    )
    plan = ActivationPlan(muscles, {p.spline: p.programme for p in parts.programmes}, rate_per_s=parts.rate_limit)
    skin = _make_surface(parts, shape, mesh)
    # A spline paints the skin that is nearest to it, and as far again.
    middles = muscles.points()[muscles.arrays.segments].mean(axis=1)
    rest = skin.at(mesh.nodes)
    reaches: list[float] = []
    for spline in range(muscles.num_splines):
        gaps = np.linalg.norm(middles[muscles.owners == spline][:, None] - rest[None], axis=-1)
        reaches.append(3.0 * float(np.median(gaps.min(axis=1))) + float(muscles.arrays.rest.mean()))
    paint, is_bone = make_paint(rest, middles, np.asarray(muscles.owners), np.array(reaches)), scale >= BONE_FACTOR
    # Parabolas up from the ends of splines that fade, level where they meet 1.
    fades, along = np.ones(muscles.num_segments), muscles.positions_along
    for number, part in enumerate(parts.splines):
        mine = np.asarray(muscles.owners) == number
        if part.fade > 0.0:
            length = float(muscles.arrays.rest[mine].sum())
            t = np.clip(np.minimum(along[mine], length - along[mine]) / (part.fade * length), 0.0, 1.0)
            fades[mine] = t * (2.0 - t)
    return SceneModel(body, mesh, muscles, plan, skin, paint, is_bone, fades, bones)


def _make_mesh(parts: SceneParts, shape: Shape) -> TetMesh | Lattice:
    if parts.mesh.kind == "tets":
        return TetMesh(*tetrahedralise_shape(shape, parts.mesh.spacing_m))
    mask, origin = voxelise(shape, parts.mesh.spacing_m, flat=parts.mesh.kind == "squares")
    return Lattice.from_mask(mask, parts.mesh.spacing_m, origin=origin)


def _find_pinned(parts: SceneParts, nodes: FloatArray) -> NDArray[np.int64]:
    held = np.zeros(len(nodes), dtype=np.bool_)
    for number, pin in enumerate(parts.pins):
        here = np.all((nodes >= pin.low) & (nodes <= pin.high), axis=1)
        if not here.any():
            raise InputError(f"pin {number} holds no node", f"The body lies from {nodes.min(0)} to {nodes.max(0)}")
        held |= here
    return np.flatnonzero(held)


def _make_ground(parts: SceneParts) -> ContactPlane | None:
    if parts.ground is None:
        return None
    part = parts.ground
    friction = part.friction[0] if len(part.friction) == 1 else (part.friction[0], part.friction[1], part.friction[2])
    return ContactPlane(
        np.array([0.0, part.height_m, 0.0]),
        stiffness=part.stiffness,
        friction=friction,
        axis=part.axis if len(part.friction) == 3 else None,
        smoothing_m_s=part.smoothing_m_s,
    )


def _make_surface(parts: SceneParts, shape: Shape, mesh: TetMesh | Lattice) -> EmbeddedSurface:
    if isinstance(mesh, Lattice) and mesh.is_flat:
        return surface_of_plate(mesh.cells, mesh.nodes, parts.mesh.thick_m)
    if parts.mesh.skin_m is None:
        return surface_of_mesh(mesh.surface)
    fine = TetMesh(*tetrahedralise_shape(shape, parts.mesh.skin_m))
    own = surface_of_mesh(fine.surface)
    return embed_surface(own.at(fine.nodes), own.faces, mesh.nodes, mesh.cells)
