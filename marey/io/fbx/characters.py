"""Characters of FBX files: the mesh that ufbx finds, on the skeleton that :func:`marey.load` gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.io.binary import AnyPath, as_format_error, format_error
from marey.io.character import SAME_PLACE, Character, fit_similarity, join_parts, strongest_weights
from marey.io.dispatch import load
from marey.io.fbx.reader import EXTRA, READER, describe_file, read_scene
from marey.io.sandbox.parent import ChildAnswer, run_reader
from marey.io.scene import SceneClip, build_motion
from marey.io.scene.motion import place_at_rest
from marey.skeleton import NO_PARENT, Skeleton

JOINTS_PER_VERTEX = 4


def read_fbx_character(path: AnyPath) -> Character:
    """Read the mesh, the skin and the colours of an `.fbx` file; see :func:`marey.io.load_character`.

    Loading may fold bones above the pelvis into the root and change unit and axes: the mesh follows the joints that
    both have, and what hung on a folded bone hangs on the nearest joint above it, or on the root.
    """
    mesh, skeleton = read_fbx_mesh(path), load(path).skeleton
    names = mesh.skeleton.names
    shared = [name for name in names if name in skeleton.names]
    before = mesh.skeleton.rest_positions()[[names.index(name) for name in shared]]
    after = skeleton.rest_positions()[[skeleton.names.index(name) for name in shared]]
    size = max(float(np.abs(after).max(initial=0.0)), 1e-9)
    scale, turn, shift = fit_similarity(before, after, 1.0)
    if not shared or np.abs(scale * before @ turn.T + shift - after).max() > 100.0 * SAME_PLACE * size:
        raise format_error(path, "its mesh and its animation have different skeletons", "Export them together.")
    # Joint of the loaded skeleton for each bone, parents first
    numbers = np.zeros(len(names), dtype=np.int64)
    for bone, name in enumerate(names):
        above = int(mesh.skeleton.parents[bone])
        inherited = 0 if above == NO_PARENT else int(numbers[above])
        numbers[bone] = skeleton.names.index(name) if name in skeleton.names else inherited
    joints, weights = strongest_weights(numbers[mesh.joints], mesh.weights)
    vertices = scale * mesh.vertices @ turn.T + shift
    return Character(skeleton, vertices, mesh.triangles, joints, weights, mesh.colours, Path(path).stem, str(path))


def read_fbx_mesh(path: AnyPath, *, unit: str | None = None) -> Character:
    r"""Read the meshes of an FBX file that bones carry, by a skin or as a whole.

    A vertex of a skin stands where its bones take it in the rest pose, with the bind matrices :math:`M_j` of its
    clusters and the rest transforms :math:`G_j`: :math:`x = \sum_j w_j G_j M_j v`; its four largest weights are kept.

    Raises:
        FormatError: the file is damaged.
        InputError: no mesh hangs on a bone.
    """
    described = describe_file(path)
    meshes = run_reader(READER, path, {"job": "mesh"}, extra=EXTRA)
    with as_format_error(path):
        scene = read_scene(path, described, None, unit, None)
        skeleton = build_motion(scene).skeleton
        # Rest transforms in metres; the places of joints are those of the skeleton
        rest = np.concatenate([linear for linear, _ in place_at_rest(scene)]) * scene.metres_per_unit
        parts = [_read_part(meshes, i, scene, rest, skeleton) for i in range(len(meshes.facts["meshes"]))]
    parts = [part for part in parts if part is not None]
    if not parts:
        raise InputError(f"'{path}' has no mesh that hangs on bones", "Export the character with its skin")
    return join_parts(parts, path)


def _read_part(
    meshes: ChildAnswer, number: int, scene: SceneClip, rest: FloatArray, skeleton: Skeleton
) -> Character | None:
    facts, arrays = cast(dict[str, Any], meshes.facts["meshes"][number]), meshes.arrays
    vertices = arrays[f"vertices{number}"]
    matrices = arrays[f"matrices{number}"]
    places = {node: i for i, node in enumerate(scene.joints)}
    # A sparse table of weights: vertex, joint, weight, and the matrix that takes the vertex to the joint
    rows: list[tuple[IntArray, int, FloatArray, FloatArray]] = []
    for k, node in enumerate(facts["clusters"]):
        if node in places:
            held = arrays[f"held{number}.{k}"].astype(np.int64)
            rows.append((held, places[node], arrays[f"weights{number}.{k}"], matrices[k]))
    if not facts["clusters"]:
        # Without a skin the whole mesh hangs on the nearest joint above it
        node, matrix = int(facts["node"]), np.vstack([matrices[-1], [0.0, 0.0, 0.0, 1.0]])
        while node not in places and node != NO_PARENT:
            linear, shift = scene.tree.rest(node)
            above = np.eye(4)
            above[:3, :3], above[:3, 3] = linear[0], shift[0]
            node, matrix = int(scene.tree.parents[node]), above @ matrix
        if node in places:
            rows.append((np.arange(len(vertices)), places[node], np.ones(len(vertices)), matrix[:3]))
    if not rows or not len(vertices):
        return None
    joints, weights = _strongest(rows, len(vertices))
    # x = sum_j w_j G_j M_j v
    origins = skeleton.rest_positions()
    posed, total = np.zeros((len(vertices), 3)), np.zeros(len(vertices))
    for held, joint, weight, matrix in rows:
        local = vertices[held] @ matrix[:, :3].T + matrix[:, 3]
        np.add.at(posed, held, weight[:, None] * (local @ rest[joint].T + origins[joint]))
        np.add.at(total, held, weight)
    loose = total <= 0.0
    posed /= np.where(loose, 1.0, total)[:, None]
    # Vertices that no bone holds stay where the strongest bone of the mesh has them
    _, joint, _, matrix = max(rows, key=lambda row: float(row[2].sum()))
    posed[loose] = (vertices[loose] @ matrix[:, :3].T + matrix[:, 3]) @ rest[joint].T + origins[joint]
    joints[loose], weights[loose] = joint, np.array([1.0, 0.0, 0.0, 0.0])
    # Polygons become fans of triangles (T, 3) from their first corners, each with its polygon's material
    faces, corners, of_faces = (arrays[f"{name}{number}"] for name in ("faces", "corners", "painted"))
    begins, sizes = faces[:, 0].astype(np.int64), faces[:, 1].astype(np.int64)
    counts = np.maximum(sizes - 2, 0)
    face = np.repeat(np.arange(len(faces)), counts)
    step = np.arange(len(face)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = begins[face]
    fans = np.stack([first, first + step + 1, first + step + 2], axis=1)
    painted = of_faces[face].astype(np.int64) if len(of_faces) == len(faces) else np.zeros(len(face), dtype=np.int64)
    triangles = corners.astype(np.int64)[fans].reshape(-1, 3)
    # A vertex has the colour of the last triangle around it; grey without materials
    colours = np.full((len(vertices), 3), 0.5)
    palette = np.clip(arrays["colours"], 0.0, 1.0)[facts["materials"]] if facts["materials"] else np.zeros((0, 3))
    if len(palette) and len(painted):
        colours[triangles] = palette[np.minimum(painted, len(palette) - 1)][:, None]
    return Character(skeleton, posed, triangles, joints, weights, colours)


def _strongest(rows: list[tuple[IntArray, int, FloatArray, FloatArray]], count: int) -> tuple[IntArray, FloatArray]:
    """Return the four joints ``(V, 4)`` that hold each vertex most, and their weights with sum 1."""
    held = np.concatenate([row[0] for row in rows])
    joint = np.concatenate([np.full(len(row[0]), row[1]) for row in rows])
    weight = np.concatenate([row[2] for row in rows])
    # By vertex, the largest weight first
    order = np.lexsort((-weight, held))
    held, joint, weight = held[order], joint[order], weight[order]
    rank = np.arange(len(held)) - np.searchsorted(held, held)
    kept = (rank < JOINTS_PER_VERTEX) & (weight > 0.0)
    joints = np.zeros((count, JOINTS_PER_VERTEX), dtype=np.int64)
    weights = np.zeros((count, JOINTS_PER_VERTEX))
    joints[held[kept], rank[kept]] = joint[kept]
    weights[held[kept], rank[kept]] = weight[kept]
    sums = weights.sum(axis=1, keepdims=True)
    return joints, weights / np.where(sums > 0.0, sums, 1.0)
