"""The skinned capsule body that a glTF file shows: what to draw, in the rest pose, with its joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.skeleton import Skeleton, capsule_mesh, capsules


@dataclass(frozen=True, slots=True, eq=False)
class Skin:
    """Triangles of the rest body; each vertex hangs on one joint."""

    positions: FloatArray  # (V, 3) [m] in world, rest pose
    normals: FloatArray  # (V, 3) unit
    faces: IntArray  # (T, 3) vertex numbers, counter-clockwise seen from outside
    joints: IntArray  # (V,)


def skinned_body(skeleton: Skeleton, *, segments: int = 12) -> Skin | None:
    """Return the capsule body of a skeleton, or None where no bone has a length."""
    body = capsules(skeleton)
    if len(body) == 0:
        return None
    mesh = capsule_mesh(body, segments)
    positions = skeleton.rest_positions()[mesh.joints] + mesh.vertices
    return Skin(positions, vertex_normals(positions, mesh.faces), mesh.faces, mesh.joints)


def vertex_normals(positions: FloatArray, faces: IntArray) -> FloatArray:
    """Unit normals ``(V, 3)``: the mean of the faces around a vertex, weighted by their area."""
    a, b, c = (positions[faces[:, i]] for i in range(3))
    areas = np.cross(b - a, c - a)
    normals = np.zeros_like(positions)
    for corner in range(3):
        np.add.at(normals, faces[:, corner], areas)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(lengths > 0.0, normals / np.where(lengths > 0.0, lengths, 1.0), [0.0, 1.0, 0.0])
