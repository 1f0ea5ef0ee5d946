"""Triangles of a solid body, for viewers and files that support meshes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.skeleton.body import Capsules

MAX_SEGMENTS: Final = 256  # of a ring: edges are then shorter than a millimetre on any body


@dataclass(frozen=True, slots=True, eq=False)
class BodyMesh:
    """V vertices, each fixed to one joint, and T triangles seen from outside counter-clockwise."""

    vertices: FloatArray  # (V, 3) [m] in the frame of the carrying joint
    faces: IntArray  # (T, 3)
    joints: IntArray  # (V,) carrying joint
    segments: IntArray  # (V,) capsule that the vertex belongs to

    def __post_init__(self) -> None:
        vertices = frozen(self.vertices, None, 3, name="vertices")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", frozen_ints(self.faces, None, 3, name="faces"))
        object.__setattr__(self, "joints", frozen_ints(self.joints, len(vertices), name="joints"))
        object.__setattr__(self, "segments", frozen_ints(self.segments, len(vertices), name="segments"))


def capsule_mesh(capsules: Capsules, segments: int = 12) -> BodyMesh:
    """Triangulate capsules: rings of ``segments`` vertices round each axis, closed at both ends.

    The wall is the cone that touches both balls, so that a tapered capsule is smooth where cone and ball meet.

    Raises:
        InputError: fewer than three vertices a ring, or absurdly many.
    """
    if not 3 <= segments <= MAX_SEGMENTS:
        raise InputError(f"rings of {segments} vertices", f"Give 3 to {MAX_SEGMENTS}")
    arcs = max(2, segments // 4)
    rings = 2 * arcs
    # Triangles of one capsule: a fan round each pole, two triangles between neighbours of two rings
    k = np.arange(segments)
    after = (k + 1) % segments
    last = 1 + rings * segments
    triangles = [np.stack([np.zeros_like(k), 1 + after, 1 + k], axis=1)]
    for ring in range(rings - 1):
        low, high = 1 + ring * segments, 1 + (ring + 1) * segments
        triangles.append(np.stack([low + k, low + after, high + after], axis=1))
        triangles.append(np.stack([low + k, high + after, high + k], axis=1))
    triangles.append(np.stack([np.full_like(k, last), last - segments + k, last - segments + after], axis=1))
    faces = np.concatenate(triangles).astype(np.int64)
    # Vertices of each capsule: the pole of the first ball, rings, the pole of the second
    shells: list[FloatArray] = []
    turn = 2.0 * np.pi * np.arange(segments) / segments
    for i in range(len(capsules)):
        a, b = capsules.starts[i], capsules.ends[i]
        r, s = float(capsules.start_radii[i]), float(capsules.end_radii[i])
        length = float(np.linalg.norm(b - a))
        axis = (b - a) / length if length > 1e-9 else np.array([0.0, 1.0, 0.0])
        # Latitude at which the cone touches both balls
        tilt = np.arcsin(np.clip((r - s) / length, -1.0, 1.0)) if length > 1e-9 else 0.0
        first = np.linspace(-0.5 * np.pi, tilt, arcs + 1)[1:]
        second = np.linspace(tilt, 0.5 * np.pi, arcs + 1)[:-1]
        along = np.concatenate([r * np.sin(first), length + s * np.sin(second)])
        wide = np.concatenate([r * np.cos(first), s * np.cos(second)])
        # A circle across the axis
        u = np.cross(np.eye(3)[int(np.argmin(np.abs(axis)))], axis)
        u = u / np.linalg.norm(u)
        v = np.cross(axis, u)
        circle = np.cos(turn)[:, None] * u + np.sin(turn)[:, None] * v
        wall = a + along[:, None, None] * axis + wide[:, None, None] * circle
        shells.append(np.concatenate([(a - r * axis)[None], wall.reshape(-1, 3), (b + s * axis)[None]]))
    count = rings * segments + 2
    return BodyMesh(
        np.concatenate(shells) if shells else np.zeros((0, 3)),
        np.concatenate([faces + i * count for i in range(len(shells))]) if shells else np.zeros((0, 3), dtype=np.int64),
        np.repeat(capsules.joints, count),
        np.repeat(np.arange(len(shells)), count),
    )
