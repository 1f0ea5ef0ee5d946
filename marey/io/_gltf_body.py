"""The skinned capsule body that a glTF file shows: what to draw, in the rest pose, with its joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.skeleton import Capsules, Skeleton, capsule_mesh, capsules


@dataclass(frozen=True, slots=True, eq=False)
class SkinnedBody:
    """Triangles of the rest body; each vertex hangs on one joint."""

    positions: FloatArray  # (V, 3) [m] in world, rest pose
    normals: FloatArray  # (V, 3) unit
    faces: IntArray  # (T, 3) vertex numbers, counter-clockwise seen from outside
    joints: IntArray  # (V,)


def build_skinned_body(skeleton: Skeleton, *, segments: int = 12) -> SkinnedBody | None:
    """Return the capsule body of a skeleton, or None where no bone has a length."""
    body = _marker_balls(skeleton) if _is_star(skeleton) else capsules(skeleton)
    if len(body) == 0:
        return None
    mesh = capsule_mesh(body, segments)
    positions = skeleton.rest_positions()[mesh.joints] + mesh.vertices
    return SkinnedBody(positions, vertex_normals(positions, mesh.faces), mesh.faces, mesh.joints)


def _is_star(skeleton: Skeleton) -> bool:
    """Whether every joint hangs on the root alone, as markers do: there are no bones to draw then."""
    return skeleton.num_joints > 2 and not skeleton.parents[1:].any() and bool(skeleton.tips[1:].any(axis=1).all())


def _marker_balls(skeleton: Skeleton) -> Capsules:
    count = skeleton.num_joints - 1
    radii = 0.5 * np.linalg.norm(skeleton.tips[1:], axis=1)
    return Capsules(np.arange(1, count + 1), np.zeros((count, 3)), skeleton.tips[1:], radii, radii)


def vertex_normals(positions: FloatArray, faces: IntArray) -> FloatArray:
    """Unit normals ``(V, 3)``: the mean of the faces around a vertex, weighted by their area."""
    a, b, c = (positions[faces[:, i]] for i in range(3))
    areas = np.cross(b - a, c - a)
    normals = np.zeros_like(positions)
    for corner in range(3):
        np.add.at(normals, faces[:, corner], areas)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(lengths > 0.0, normals / np.where(lengths > 0.0, lengths, 1.0), [0.0, 1.0, 0.0])
