"""Nodes, skins and key frames of glTF 2.0 ([Khronos2021]_ §3.5, §3.7, §3.11 and appendix C)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from marey.base import FloatArray
from marey.io.binary import format_error
from marey.io.gltf.buffers import GltfDocument, read_accessor
from marey.io.scene.clip import (
    MAX_NODES,
    Local,
    SceneTree,
    as_matrix,
    local_transform,
    order_nodes,
    place_binds,
)
from marey.io.scene.keys import AnimationTrack
from marey.skeleton import NO_PARENT

_WIDTHS: Final = {"translation": 3, "rotation": 4, "scale": 3}


def read_tracks(document: GltfDocument, animation: dict[str, Any]) -> list[AnimationTrack]:
    """Return every translation, rotation and scale track of an animation; other channels are skipped."""
    tracks: list[AnimationTrack] = []
    samplers = animation.get("samplers", [])
    for channel in animation.get("channels", []):
        target = channel["target"]
        if "node" not in target or target.get("path") not in _WIDTHS:
            continue
        if not 0 <= channel["sampler"] < len(samplers):
            raise format_error(document.path, f"an animation uses sampler {channel['sampler']} of {len(samplers)}")
        node, path, sampler = target["node"], target["path"], samplers[channel["sampler"]]
        document.item("nodes", node)
        times = read_accessor(document, sampler.get("input"))[:, 0]
        values = read_accessor(document, sampler.get("output"))
        mode = sampler.get("interpolation", "LINEAR")
        rows = len(times) * (3 if mode == "CUBICSPLINE" else 1)
        if mode not in ("LINEAR", "STEP", "CUBICSPLINE"):
            raise format_error(document.path, f"an animation is interpolated by '{mode}'")
        if values.shape != (rows, _WIDTHS[path]):
            what = f"a {path} track has {len(times)} times and values of shape {values.shape}"
            raise format_error(document.path, what)
        values = values.reshape(len(times), 3, -1) if mode == "CUBICSPLINE" else values
        steps = np.diff(times)
        if (steps < 0.0).any():
            raise format_error(document.path, f"the key times of a {path} track do not rise")
        # Exporters repeat a time where a curve jumps, and where float32 cannot tell two keys apart: the later counts
        kept = np.append(steps > 0.0, True)
        tracks.append(AnimationTrack(node, path, times[kept], values[kept], mode))
    return tracks


def read_tree(document: GltfDocument) -> SceneTree:
    """Check the node hierarchy: every child exists, has one parent, and no node is its own ancestor."""
    items = document.items("nodes")
    if not 0 < len(items) <= MAX_NODES:
        raise format_error(document.path, f"{len(items)} nodes; between 1 and {MAX_NODES} are read")
    parents = np.full(len(items), NO_PARENT, dtype=np.int64)
    for index, item in enumerate(items):
        for child in item.get("children", []):
            document.item("nodes", child)
            if parents[child] != NO_PARENT:
                raise format_error(document.path, f"node {child} has two parents")
            parents[child] = index
    order = order_nodes(parents, lambda node: items[node].get("children", []))
    if len(order) < len(items):
        raise format_error(document.path, "the nodes form a ring")
    names = [str(item.get("name") or "") for item in items]
    return SceneTree(
        names,
        parents,
        order,
        rest=lambda node: default_local(items[node]),
        is_bare=lambda node: not {"mesh", "camera"} & items[node].keys(),
    )


def default_local(item: Mapping[str, Any]) -> Local:
    """Transform of a node where no animation moves it."""
    if "matrix" in item:
        matrix = np.array(item["matrix"], dtype=np.float64).reshape(4, 4).T
        return matrix[None, :3, :3], matrix[None, :3, 3]
    translation = np.array(item.get("translation", (0.0, 0.0, 0.0)), dtype=np.float64).reshape(1, 3)
    if not {"rotation", "scale"} & item.keys():
        return np.eye(3)[None], translation
    xyzw = np.array(item.get("rotation", (0.0, 0.0, 0.0, 1.0)), dtype=np.float64).reshape(1, 4)
    scale = np.array(item.get("scale", (1.0, 1.0, 1.0)), dtype=np.float64).reshape(1, 3)
    return local_transform(translation, xyzw, scale)


def read_binds(
    document: GltfDocument, tree: SceneTree, joints: list[int], skins: list[dict[str, Any]]
) -> dict[int, Local]:
    """World transforms of joints in the bind pose, as the skins say; the first one that names a joint counts.

    glTF does not say where the mesh stood; we take the mesh node where it agrees with the top joint of the skin.
    """
    items = document.items("nodes")
    carriers = [i for i, item in enumerate(items) if "skin" in item]
    worlds = tree.rest_worlds([*(joint for joint in joints if joint != NO_PARENT), *carriers])
    rank = {node: i for i, node in enumerate(tree.order)}
    bound: dict[int, Local] = {}
    for skin in skins:
        numbers = [int(j) for j in skin["joints"]]
        if "inverseBindMatrices" not in skin:
            continue
        inverse = read_accessor(document, skin["inverseBindMatrices"])[: len(numbers)]
        inverse = inverse.reshape(-1, 4, 4).transpose(0, 2, 1)
        # Matrices that are not affine or flatten space say nothing
        is_affine = np.abs(inverse[:, 3] - np.array([0.0, 0.0, 0.0, 1.0])).max() < 1e-4
        if len(inverse) < len(numbers) or not is_affine or np.abs(np.linalg.det(inverse[:, :3, :3])).min() <= 1e-18:
            continue
        # The top joint of the skin decides in which frame the mesh stands
        top = min(range(len(numbers)), key=lambda i: rank[numbers[i]])
        number = document.items("skins").index(skin)
        mesh = next((i for i in carriers if items[i]["skin"] == number), None)
        frame = None if mesh is None else as_matrix(worlds[mesh])
        binds: FloatArray = np.linalg.inv(inverse).astype(np.float64)
        world = place_binds(binds, top, worlds[numbers[top]], frame)
        for i, joint in enumerate(numbers):
            bound.setdefault(joint, (world[i : i + 1, :3, :3], world[i : i + 1, :3, 3]))
    return bound
