"""The rest pose of glTF joints, in world: from the skins' inverse bind matrices where they are, else from the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from marey.base import FloatArray
from marey.io._gltf_accessors import read_accessor
from marey.io._gltf_container import GltfDocument
from marey.io._gltf_nodes import Local, NodeTree, compose_transforms, default_local
from marey.lie import SO3
from marey.skeleton import NO_PARENT

_SAME_SCALE: Final = 0.01  # [-] bind and node scale agree
_SAME_FRAME: Final = 1.0  # [rad] a mesh node turned further than this is no frame of the bind pose
_ROUND: Final = 1e-7  # [-] a matrix this near to a scaled rotation is one


def default_worlds(tree: NodeTree, nodes: Iterable[int]) -> dict[int, Local]:
    """World transform of nodes, and of those above them, where nothing is animated."""
    wanted = tree.with_ancestors(nodes)
    worlds: dict[int, Local] = {}
    for node in (node for node in tree.order if node in wanted):
        local, above = default_local(tree.items[node]), int(tree.parents[node])
        worlds[node] = local if above == NO_PARENT else compose_transforms(worlds[above], local)
    return worlds


def rest_worlds(document: GltfDocument, tree: NodeTree, joints: list[int], skins: list[dict[str, Any]]) -> list[Local]:
    """Rest transform of each joint, in the order of ``joints``; NO_PARENT stands for a root at the origin.

    A skin fixes its joints up to one transform of the mesh, which glTF does not use. We take the mesh node's where
    it agrees with the top joint of the skin, and else let that joint rest as its node does.
    """
    carriers = [i for i, item in enumerate(tree.items) if "skin" in item]
    nodes = default_worlds(tree, [*joints, *carriers])
    bound: dict[int, Local] = {}
    for skin in skins:
        for joint, bind in _bind_transforms(document, tree, skin, nodes).items():
            bound.setdefault(joint, bind)
    rest: dict[int, Local] = {NO_PARENT: (np.eye(3)[None], np.zeros((1, 3)))}
    for joint in joints:
        if joint == NO_PARENT:
            continue
        above = int(tree.parents[joint])
        if joint in bound:
            rest[joint] = bound[joint]
        elif above in rest and above != NO_PARENT:
            rest[joint] = compose_transforms(rest[above], default_local(tree.items[joint]))
        else:
            rest[joint] = nodes[joint]
    return [rest[joint] for joint in joints]


def _bind_transforms(
    document: GltfDocument, tree: NodeTree, skin: dict[str, Any], nodes: dict[int, Local]
) -> dict[int, Local]:
    joints = [int(j) for j in skin["joints"]]
    if "inverseBindMatrices" not in skin:
        return {}
    inverse = read_accessor(document, skin["inverseBindMatrices"])[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
    if len(inverse) < len(joints) or not _are_affine(inverse):
        return {}
    binds = np.linalg.inv(inverse)
    rank = {node: i for i, node in enumerate(tree.order)}
    top = min(range(len(joints)), key=lambda i: rank[joints[i]])
    frame = _mesh_frame(document, skin, nodes, nodes[joints[top]], binds[top])
    world = frame @ binds
    return {joint: (world[i : i + 1, :3, :3], world[i : i + 1, :3, 3]) for i, joint in enumerate(joints)}


def _mesh_frame(
    document: GltfDocument, skin: dict[str, Any], nodes: dict[int, Local], top: Local, bind: FloatArray
) -> FloatArray:
    number = document.items("skins").index(skin)
    carriers = [i for i, item in enumerate(document.items("nodes")) if item.get("skin") == number]
    if carriers:
        frame = _matrix(nodes[carriers[0]])
        placed = frame @ bind
        ratio = abs(np.linalg.det(placed[:3, :3]) / np.linalg.det(top[0][0])) if np.linalg.det(top[0][0]) else 0.0
        turned = (rotation_part(placed[None, :3, :3]).inverse() @ rotation_part(top[0])).angle()[0]
        if abs(np.cbrt(ratio) - 1.0) < _SAME_SCALE and turned < _SAME_FRAME:
            return frame
    return _matrix(top) @ np.linalg.inv(bind)


def _matrix(transform: Local) -> FloatArray:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = transform[0][0], transform[1][0]
    return matrix


def _are_affine(matrices: FloatArray) -> bool:
    last_row = np.abs(matrices[:, 3] - np.array([0.0, 0.0, 0.0, 1.0])).max() < 1e-4
    return bool(last_row and np.abs(np.linalg.det(matrices[:, :3, :3])).min() > 1e-18)


def rotation_part(linear: FloatArray) -> SO3:
    """Nearest rotations to linear maps ``(F, 3, 3)``: exact for a uniform scale, by singular values for others."""
    square = np.einsum("fki,fkj->fij", linear, linear)
    scale2 = np.trace(square, axis1=1, axis2=2) / 3.0
    scale2 = np.where(scale2 > 0.0, scale2, 1.0)
    uneven = np.abs(square / scale2[:, None, None] - np.eye(3)).max(axis=(1, 2)) > _ROUND
    matrices = linear / np.sqrt(scale2)[:, None, None]
    uneven |= np.linalg.det(matrices) < 0.0
    if uneven.any():
        u, _, vt = np.linalg.svd(matrices[uneven])
        u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
        matrices[uneven] = u @ vt
    return SO3.from_matrix(matrices)
