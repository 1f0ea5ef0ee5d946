"""A clip of a node scene as every reader of one hands it over: which clip, which nodes become joints, its unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray, UnknownNameError
from marey.io.binary import AnyPath, format_error
from marey.io.conventions import METRES, unit_in_metres
from marey.lie import SO3
from marey.motion import Contacts
from marey.skeleton import MAX_JOINTS, NO_PARENT

MAX_NODES: Final = 100_000
MAX_CELLS: Final = 2_000_000  # frames x joints that a file may ask for ...
CELLS_PER_KEY: Final = 64  # ... unless it holds that many keys
SHOWN: Final = 5  # names of other clips that a note lists
Local = tuple[FloatArray, FloatArray]  # linear part (F, 3, 3) and translation (F, 3), F may be 1


@dataclass(frozen=True, eq=False)
class SceneTree:
    """All nodes of a scene: names, parents, and how they stand where nothing is animated."""

    names: Sequence[str]  # (N,) empty where a node has none
    parents: IntArray  # (N,) NO_PARENT for the top nodes
    order: Sequence[int]  # every node once, parents first
    rest: Callable[[int], Local]  # transform of a node relative to its parent, F = 1
    is_bare: Callable[[int], bool]  # whether a node carries nothing that is drawn: it may be the end of a bone

    @cached_property
    def child_lists(self) -> list[list[int]]:
        """The nodes directly below each node, rising."""
        return list_children(self.parents)

    def with_ancestors(self, nodes: Iterable[int]) -> set[int]:
        """Return the nodes and all that lie above them."""
        found: set[int] = set()
        for start in nodes:
            node = start
            while node != NO_PARENT and node not in found:
                found.add(node)
                node = int(self.parents[node])
        return found

    def rest_worlds(self, nodes: Iterable[int]) -> dict[int, Local]:
        """World transforms of nodes, and of those above them, where nothing is animated."""
        wanted = self.with_ancestors(nodes)
        worlds: dict[int, Local] = {}
        for node in (node for node in self.order if node in wanted):
            local, above = self.rest(node), int(self.parents[node])
            worlds[node] = local if above == NO_PARENT else compose_transforms(worlds[above], local)
        return worlds


@dataclass(frozen=True, slots=True, eq=False)
class SceneClip:
    """One clip of a scene: joints, where they rest, and their transforms frame by frame."""

    path: str
    format: str  # "gltf", "fbx", "usd"
    name: str  # of the clip
    tree: SceneTree
    joints: list[int]  # node of each joint, parents first; NO_PARENT for a root of our own at the origin
    binds: Mapping[int, Local]  # world transforms in the bind pose, of the nodes that a skin or a pose names
    sample: Callable[[int, slice], Local]  # transform of a node relative to its parent, at frames
    rate_hz: float
    num_frames: int
    metres_per_unit: float = 1.0
    unit: str = "m"  # name of the file's unit
    up: str = "+y"  # the file's vertical axis; the tree is in our axes
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    contacts: Contacts | None = None


def name_clips(names: Iterable[str]) -> tuple[str, ...]:
    """Give each clip a name of its own: blanks get a number, and so do repetitions, ``Walk``, ``Walk (2)``."""
    given: list[str] = []
    for number, name in enumerate(names):
        plain = name.strip() or f"clip {number}"
        unique, count = plain, 1
        while unique in given:
            count += 1
            unique = f"{plain} ({count})"
        given.append(unique)
    return tuple(given)


def choose_clip(
    path: AnyPath, names: Sequence[str], asked: str | int | None, moves: Callable[[int], bool]
) -> tuple[int, list[str]]:
    """Return the number of the clip to read, and a note on the others where nobody asked for one.

    Args:
        path: the file, for messages.
        names: of its clips, at least one.
        asked: a name or a number from zero; None takes the first clip that moves, else the first.
        moves: whether a clip moves anything.

    Raises:
        UnknownNameError: no clip has this name or number; the message suggests the nearest name.
    """
    if asked is None:
        chosen = next((i for i in range(len(names)) if moves(i)), 0) if len(names) > 1 else 0
        others = [f"'{name}'" for i, name in enumerate(names) if i != chosen]
        if not others:
            return chosen, []
        listed = ", ".join(others[:SHOWN]) + (", ..." if len(others) > SHOWN else "")
        return chosen, [f"the file holds {len(names)} clips; '{names[chosen]}' was read, not {listed} (clip= chooses)"]
    if isinstance(asked, bool) or not isinstance(cast(object, asked), (str, int)):
        raise InputError(f"clip is {asked!r}", "Give the name of a clip, or its number from 0")
    if asked in names:
        return names.index(str(asked)), []
    # A number, also as the text of a command line
    number = int(asked) if isinstance(asked, int) or asked.isdecimal() else -1
    if not 0 <= number < len(names):
        raise UnknownNameError("clip", str(asked), f"'{Path(path).name}'", names)
    return number, []


def list_children(parents: IntArray) -> list[list[int]]:
    """Return the nodes directly below each node, rising."""
    below: list[list[int]] = [[] for _ in range(len(parents))]
    for node, parent in enumerate(parents):
        if parent != NO_PARENT:
            below[int(parent)].append(node)
    return below


def order_nodes(parents: IntArray, children: Callable[[int], Sequence[int]] | None = None) -> list[int]:
    """Node numbers as they are where parents come first, else branch by branch; nodes of a ring are left out.

    ``children`` gives the nodes below one in an order of the file's own; else they rise.
    """
    if (parents < np.arange(len(parents))).all():
        return list(range(len(parents)))
    below = children if children is not None else list_children(parents).__getitem__
    order: list[int] = []
    waiting = [int(i) for i in np.flatnonzero(parents == NO_PARENT)[::-1]]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(reversed(below(node)))
    return order


def pick_joints(path: AnyPath, tree: SceneTree, wanted: Iterable[int]) -> list[int]:
    """Order ``wanted`` nodes parents first, with the nodes that lie between them; a common root comes first.

    The list starts with NO_PARENT where the wanted nodes have no common ancestor: a root at the origin is then needed.

    Raises:
        FormatError: there are no such nodes, or too many.
    """
    chosen = set(wanted)
    inside = _below_chosen(tree, chosen)
    tops = [node for node in tree.order if node in chosen and not inside[node]]
    root = NO_PARENT
    if len(tops) > 1:
        # The lowest node that holds all of them
        counts = _counts_below(tree, tops)
        root = next((node for node in reversed(tree.order) if counts[node] == len(tops)), NO_PARENT)
    if root != NO_PARENT:
        chosen.add(root)
        inside = _below_chosen(tree, chosen)
    holds = _counts_below(tree, chosen)
    joints = [node for node in tree.order if holds[node] and (node in chosen or inside[node])]
    if not joints:
        what = "no node is animated or part of a skin, so there is no skeleton"
        raise format_error(path, what, "Export the file with its armature and animation.")
    if len(joints) > MAX_JOINTS:
        raise format_error(path, f"{len(joints)} joints; at most {MAX_JOINTS} are read")
    return [NO_PARENT, *joints] if len(tops) > 1 and root == NO_PARENT else joints


def _below_chosen(tree: SceneTree, chosen: set[int]) -> list[bool]:
    """Whether a chosen node lies above, for every node."""
    inside = [False] * len(tree.names)
    for node in tree.order:
        above = int(tree.parents[node])
        inside[node] = above != NO_PARENT and (above in chosen or inside[above])
    return inside


def _counts_below(tree: SceneTree, chosen: Iterable[int]) -> list[int]:
    """How many chosen nodes each node and its descendants hold."""
    counts = [0] * len(tree.names)
    for node in chosen:
        counts[node] = 1
    for node in reversed(tree.order):
        if tree.parents[node] != NO_PARENT:
            counts[tree.parents[node]] += counts[node]
    return counts


def check_num_frames(path: AnyPath, frames: int, joints: int, keys: int, rate_hz: float) -> None:
    """Refuse a few keys that are spread over more frames than memory should hold."""
    if frames * joints > max(MAX_CELLS, CELLS_PER_KEY * keys):
        what = f"{keys} keys spread over {frames} frames at {rate_hz:g} Hz"
        raise format_error(path, what, "Give a lower rate_hz, or cut the animation.")


def find_unit(
    path: AnyPath, unit: str | None, stated_m: float, tree: SceneTree, joints: Sequence[int]
) -> tuple[float, str]:
    """Metres for each unit of a scene, and the name of the unit.

    It is what the file states, unless the user knows in which ``unit`` its bones are measured. Nodes above the bones
    may scale them: an armature in centimetres below a node of scale 100 says metres.

    Raises:
        FormatError: what the file states is no length.
    """
    metres = named = stated_m
    if unit is not None:
        above = NO_PARENT if joints[0] == NO_PARENT else int(tree.parents[joints[0]])
        size = 1.0 if above == NO_PARENT else abs(float(np.linalg.det(tree.rest_worlds([above])[above][0][0])))
        named = unit_in_metres(unit)
        metres = named / (float(np.cbrt(size)) if size > 0.0 else 1.0)
    if not (np.isfinite(metres) and 1e-9 < metres < 1e9):
        raise format_error(path, f"its unit of length is {metres:g} m", "Give unit=.")
    return metres, next((name for name, m in METRES.items() if abs(m / named - 1.0) < 1e-6), f"{metres:g} m")


def local_transform(translation: FloatArray, xyzw: FloatArray, scale: FloatArray) -> Local:
    """Compose translation ``(F, 3)``, rotation ``(F, 4)`` and scale ``(F, 3)``: first scale, then turn, then move."""
    linear = SO3(xyzw[:, [3, 0, 1, 2]]).matrix() * scale[:, None, :]
    return linear, translation


def compose_transforms(above: Local, local: Local) -> Local:
    """Transform of a child in world, from its parent's and its own."""
    linear = above[0] @ local[0]
    return linear, above[1] + np.einsum("fij,fj->fi", above[0], np.broadcast_to(local[1], (len(linear), 3)))


_ROUND: Final = 1e-7  # [-] a matrix this near to a scaled rotation is one


def rotation_part(linear: FloatArray) -> SO3:
    """Nearest rotations to linear maps ``(F, 3, 3)``: exact for a uniform scale, by singular values for others."""
    # A uniform scale s makes L^T L = s^2 I
    square = np.einsum("fki,fkj->fij", linear, linear)
    scale2 = np.trace(square, axis1=1, axis2=2) / 3.0
    scale2 = np.where(scale2 > 0.0, scale2, 1.0)
    uneven = np.abs(square / scale2[:, None, None] - np.eye(3)).max(axis=(1, 2)) > _ROUND
    matrices = linear / np.sqrt(scale2)[:, None, None]
    uneven |= np.linalg.det(matrices) < 0.0
    # Polar decomposition, without reflections, for the others
    if uneven.any():
        u, _, vt = np.linalg.svd(matrices[uneven])
        u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
        matrices[uneven] = u @ vt
    return SO3.from_matrix(matrices)


_SAME_SCALE: Final = 0.01  # [-] bind and node scale agree
_SAME_FRAME: Final = 1.0  # [rad] a frame turned further than this is not that of the bind pose


def place_binds(binds: FloatArray, top: int, top_rest: Local, frame: FloatArray | None) -> FloatArray:
    """Bind transforms ``(n, 4, 4)`` of one skin in world.

    A skin fixes its joints up to one transform of the mesh. ``frame`` (4, 4) is taken where it agrees with how the
    top joint of the skin, number ``top``, stands at rest; else that joint rests as its node does.
    """
    if frame is not None:
        placed = frame @ binds[top]
        size = np.linalg.det(top_rest[0][0])
        ratio = abs(np.linalg.det(placed[:3, :3]) / size) if size else 0.0
        turned = (rotation_part(placed[None, :3, :3]).inverse() @ rotation_part(top_rest[0])).angle()[0]
        if abs(np.cbrt(ratio) - 1.0) < _SAME_SCALE and turned < _SAME_FRAME:
            return frame @ binds
    bind: FloatArray = binds[top]
    undone: FloatArray = np.linalg.inv(bind).astype(np.float64)
    return as_matrix(top_rest) @ undone @ binds


def as_matrix(transform: Local) -> FloatArray:
    """Return the matrix (4, 4) of one transform."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = transform[0][0], transform[1][0]
    return matrix
