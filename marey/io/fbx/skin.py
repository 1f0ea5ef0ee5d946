"""The mesh of a character as FBX objects: geometry, skin and one cluster for each joint that moves a vertex."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.io.character import Character, weight_matrix
from marey.io.fbx.records import CENTIMETRES, FbxRecord, FbxScene, add_properties, matrix_values, pack_array, short

MOST_TINTS: Final = 32  # materials; a texture has more colours


def add_mesh(scene: FbxScene, character: Character, models: list[int], rest: FloatArray) -> list[int]:
    """Add a character's mesh, skinned to its joints; returns the number of its model, in a list.

    Args:
        scene: what is being written.
        character: the mesh.
        models: limb node of each joint of its skeleton.
        rest: joint positions ``(J, 3)`` [cm] in the rest pose.
    """
    name = character.name
    geometry, record = scene.add("Geometry", name, "Geometry", "Mesh")
    record.add("GeometryVersion", short(124))
    record.add("Vertices", pack_array((character.vertices * CENTIMETRES).reshape(-1)))
    # The last corner of a polygon is stored as its complement
    corners = character.triangles.astype(np.int32)
    corners[:, 2] = ~corners[:, 2]
    record.add("PolygonVertexIndex", pack_array(corners.reshape(-1)))
    # Colours of the materials, and which one each triangle has: the mean of all where they are many
    first = np.round(character.colours[character.triangles[:, 0]], 3)
    tints, painted = np.unique(first, axis=0, return_inverse=True)
    painted = painted.reshape(-1).astype(np.int64)
    if len(tints) > MOST_TINTS:
        tints, painted = character.colours.mean(axis=0, keepdims=True), np.zeros(len(first), dtype=np.int64)
    _add_layers(record, character, painted)
    model, record = scene.add("Model", name, "Model", "Mesh")
    record.add("Version", short(232))
    add_properties(
        record,
        ("InheritType", "enum", "", "", short(1)),
        ("DefaultAttributeIndex", "int", "Integer", "", short(0)),
    )
    record.add("Shading", True)
    record.add("Culling", "CullingOff")
    scene.connect(model, 0)
    scene.connect(geometry, model)
    for number, tint in enumerate(tints):
        material, record = scene.add("Material", f"{name}_{number}", "Material", "")
        record.add("Version", short(102))
        record.add("ShadingModel", "lambert")
        add_properties(record, ("DiffuseColor", "Color", "", "A", *(float(x) for x in tint)))
        scene.connect(material, model)
    skin, record = scene.add("Deformer", name, "Deformer", "Skin")
    record.add("Version", short(101))
    record.add("Link_DeformAcuracy", 50.0)
    scene.connect(skin, geometry)
    # One cluster for each joint: which vertices, how much, and both frames when they were bound
    weights = weight_matrix(character).tocsc()
    for joint, bone in enumerate(models):
        held = slice(weights.indptr[joint], weights.indptr[joint + 1])
        shares = weights.data[held]
        some = shares > 0.0
        if not some.any():
            continue
        cluster, record = scene.add("Deformer", character.skeleton.names[joint], "SubDeformer", "Cluster")
        record.add("Version", short(100))
        record.add("UserData", "", "")
        record.add("Indexes", pack_array(weights.indices[held][some].astype(np.int32)))
        record.add("Weights", pack_array(shares[some]))
        record.add("Transform", matrix_values(-rest[joint]))
        record.add("TransformLink", matrix_values(rest[joint]))
        scene.connect(cluster, skin)
        scene.connect(bone, cluster)
    return [model]


def _add_layers(record: FbxRecord, character: Character, painted: IntArray) -> None:
    """Add vertex colours and the material of each triangle."""
    colours = record.add("LayerElementColor", short(0))
    colours.add("Version", short(101))
    colours.add("Name", "colours")
    colours.add("MappingInformationType", "ByPolygonVertex")
    colours.add("ReferenceInformationType", "IndexToDirect")
    rgba = np.concatenate([character.colours, np.ones((len(character.colours), 1))], axis=1)
    colours.add("Colors", pack_array(rgba.reshape(-1)))
    colours.add("ColorIndex", pack_array(character.triangles.reshape(-1).astype(np.int32)))
    materials = record.add("LayerElementMaterial", short(0))
    materials.add("Version", short(101))
    materials.add("Name", "")
    materials.add("MappingInformationType", "ByPolygon")
    materials.add("ReferenceInformationType", "IndexToDirect")
    materials.add("Materials", pack_array(painted.astype(np.int32)))
    layer = record.add("Layer", short(0))
    layer.add("Version", short(100))
    for kind in ("LayerElementColor", "LayerElementMaterial"):
        element = layer.add("LayerElement")
        element.add("Type", kind)
        element.add("TypedIndex", short(0))
