"""The skinned capsule body that a glTF file shows: what to draw, in the rest pose, with its joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.skeleton import Capsules, Skeleton, capsules


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
    vertices, faces, joints = _capsule_mesh(body, segments)
    positions = skeleton.rest_positions()[joints] + vertices
    return Skin(positions, vertex_normals(positions, faces), faces, joints)


def _capsule_mesh(body: Capsules, around: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Vertices in the frame of their joint, triangles, and the joint of each vertex."""
    vertices, faces, joints = [], [], []
    first = 0
    lat = np.linspace(-np.pi / 2, 0, 5)
    turn = 2 * np.pi * np.arange(around) / around
    for s in range(len(body)):
        axis = body.ends[s] - body.starts[s]
        axis = axis / np.linalg.norm(axis)
        side = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
        side /= np.linalg.norm(side)
        other = np.cross(axis, side)
        ring = np.cos(turn)[:, None] * side + np.sin(turn)[:, None] * other
        rings = [body.starts[s] + body.start_radii[s] * (np.sin(a) * axis + np.cos(a) * ring) for a in lat]
        rings += [body.ends[s] + body.end_radii[s] * (np.sin(-a) * axis + np.cos(a) * ring) for a in lat[::-1]]
        points = np.concatenate(rings)
        for r in range(len(rings) - 1):
            for k in range(around):
                a, b = r * around + k, r * around + (k + 1) % around
                faces += [
                    (first + a, first + b, first + b + around),
                    (first + a, first + b + around, first + a + around),
                ]
        vertices.append(points)
        joints += [body.joints[s]] * len(points)
        first += len(points)
    return np.concatenate(vertices), np.array(faces), np.array(joints)


def vertex_normals(positions: FloatArray, faces: IntArray) -> FloatArray:
    """Unit normals ``(V, 3)``: the mean of the faces around a vertex, weighted by their area."""
    a, b, c = (positions[faces[:, i]] for i in range(3))
    areas = np.cross(b - a, c - a)
    normals = np.zeros_like(positions)
    for corner in range(3):
        np.add.at(normals, faces[:, corner], areas)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(lengths > 0.0, normals / np.where(lengths > 0.0, lengths, 1.0), [0.0, 1.0, 0.0])
