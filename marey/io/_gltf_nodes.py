"""The node tree of a glTF file: which nodes are joints, and where they are at rest and over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.io._bytes import format_error
from marey.io._gltf_container import GltfDocument
from marey.skeleton import NO_PARENT

MAX_NODES: Final = 100_000
Local = tuple[FloatArray, FloatArray]  # linear part (F, 3, 3) and translation (F, 3), F may be 1


@dataclass(frozen=True, slots=True, eq=False)
class NodeTree:
    """All nodes: parents and default transforms."""

    items: list[dict[str, Any]]
    parents: IntArray  # (N,) NO_PARENT for the top nodes
    order: list[int]  # every node once, parents first

    def with_ancestors(self, nodes: Iterable[int]) -> set[int]:
        """Return the nodes and all that lie above them."""
        found: set[int] = set()
        for start in nodes:
            node = start
            while node != NO_PARENT and node not in found:
                found.add(node)
                node = int(self.parents[node])
        return found

    def children(self, node: int) -> list[int]:
        """Return the nodes directly below one."""
        return list(self.items[node].get("children", []))


def read_tree(document: GltfDocument) -> NodeTree:
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
    order = _order(items, parents)
    if len(order) < len(items):
        raise format_error(document.path, "the nodes form a ring")
    return NodeTree(items, parents, order)


def _order(items: list[dict[str, Any]], parents: IntArray) -> list[int]:
    """Node numbers as they are where parents come first, else branch by branch; nodes of a ring are left out."""
    if (parents < np.arange(len(parents))).all():
        return list(range(len(items)))
    order: list[int] = []
    waiting = [int(i) for i in np.flatnonzero(parents == NO_PARENT)[::-1]]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(reversed(items[node].get("children", [])))
    return order


def choose_joints(tree: NodeTree, wanted: Iterable[int]) -> list[int]:
    """Order ``wanted`` nodes parents first, with the nodes that lie between them; a common root comes first.

    The list starts with NO_PARENT where the wanted nodes have no common ancestor: a root at the origin is then needed.
    """
    chosen = set(wanted)
    inside = _below_chosen(tree, chosen)
    tops = [node for node in tree.order if node in chosen and not inside[node]]
    root = _common_ancestor(tree, tops) if len(tops) > 1 else NO_PARENT
    if root != NO_PARENT:
        chosen.add(root)
        inside = _below_chosen(tree, chosen)
    holds = _counts_below(tree, chosen)
    joints = [node for node in tree.order if holds[node] and (node in chosen or inside[node])]
    return [NO_PARENT, *joints] if len(tops) > 1 and root == NO_PARENT else joints


def _below_chosen(tree: NodeTree, chosen: set[int]) -> list[bool]:
    """Whether a chosen node lies above, for every node."""
    inside = [False] * len(tree.items)
    for node in tree.order:
        above = int(tree.parents[node])
        inside[node] = above != NO_PARENT and (above in chosen or inside[above])
    return inside


def _counts_below(tree: NodeTree, chosen: Iterable[int]) -> list[int]:
    """How many chosen nodes each node and its descendants hold."""
    counts = [0] * len(tree.items)
    for node in chosen:
        counts[node] = 1
    for node in reversed(tree.order):
        if tree.parents[node] != NO_PARENT:
            counts[tree.parents[node]] += counts[node]
    return counts


def _common_ancestor(tree: NodeTree, nodes: list[int]) -> int:
    counts = _counts_below(tree, nodes)
    shared = [node for node in tree.order if counts[node] == len(nodes)]
    return shared[-1] if shared else NO_PARENT


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


def local_transform(translation: FloatArray, xyzw: FloatArray, scale: FloatArray) -> Local:
    """Compose translation ``(F, 3)``, rotation ``(F, 4)`` and scale ``(F, 3)``: first scale, then turn, then move."""
    from marey.lie import SO3

    linear = SO3(xyzw[:, [3, 0, 1, 2]]).matrix() * scale[:, None, :]
    return linear, translation


def compose_transforms(above: Local, local: Local) -> Local:
    """Transform of a child in world, from its parent's and its own."""
    linear = above[0] @ local[0]
    return linear, above[1] + np.einsum("fij,fj->fi", above[0], np.broadcast_to(local[1], (len(linear), 3)))
