"""Key frames to frames: the samplers of glTF 2.0 ([Khronos2021]_ §3.11 and appendix C), and their frame rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.io.binary import format_error
from marey.io.gltf.buffers import GltfDocument, read_accessor
from marey.lie import SO3
from marey.skeleton import NO_PARENT

USUAL_HZ: Final = (24.0, 25.0, 30000 / 1001, 30.0, 48.0, 50.0, 60000 / 1001, 60.0, 72.0, 90.0, 100.0, 120.0, 240.0)
SLOWEST_HZ: Final = 12.0  # evenly spaced keys that are rarer than this are poses, not captured frames
FALLBACK_HZ: Final = 60.0
_OFF_GRID: Final = 0.02  # [frame] how far a key may lie from a frame


def guess_rate(times: FloatArray) -> tuple[float, str]:
    """Frame rate [Hz] of rising key times [s], and a sentence on how it was found.

    Evenly spaced keys give their own rate, set to a usual one where it agrees to float32; else the lowest usual rate
    on whose frames all keys lie; else 60 Hz.
    """
    if len(times) < 2:
        return 30.0, "there is one key time only; 30 Hz is assumed"
    steps = times - times[0]
    rate = (len(times) - 1) / steps[-1]
    if rate >= SLOWEST_HZ and _grid_error(steps, rate) < _OFF_GRID:
        return _nearest_usual_rate(rate), f"the keys are evenly spaced: {_nearest_usual_rate(rate):g} Hz"
    for usual in USUAL_HZ:
        if _grid_error(steps, usual) < _OFF_GRID:
            return usual, f"all keys lie on frames of {usual:g} Hz, the rate used"
    return FALLBACK_HZ, f"the keys lie on no usual frame rate; the motion is sampled at {FALLBACK_HZ:g} Hz"


def _grid_error(steps: FloatArray, rate: float) -> float:
    frames = steps * rate
    return float(np.abs(frames - np.round(frames)).max())


def _nearest_usual_rate(rate: float) -> float:
    whole = float(round(rate))
    near = min((*USUAL_HZ, whole), key=lambda usual: abs(usual - rate))
    return near if abs(near - rate) < 1e-4 * rate else float(rate)


SNAP: Final = 1e-3  # [frame] a key this near to a frame is that frame: float32 times are not exact
_WIDTHS: Final = {"translation": 3, "rotation": 4, "scale": 3}


@dataclass(frozen=True, slots=True, eq=False)
class AnimationTrack:
    """Keys of one property of one node."""

    node: int
    path: str  # "translation", "rotation" (xyzw) or "scale"
    times: FloatArray  # (K,) [s] rising
    keys: FloatArray  # (K, C), or (K, 3, C) for CUBICSPLINE: in-tangent, value, out-tangent
    interpolation: str  # "LINEAR", "STEP" or "CUBICSPLINE"


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
        document.item("nodes", target["node"])
        tracks.append(_read_track(document, target["node"], target["path"], samplers[channel["sampler"]]))
    return tracks


def _read_track(document: GltfDocument, node: int, path: str, sampler: dict[str, Any]) -> AnimationTrack:
    times = read_accessor(document, sampler.get("input"))[:, 0]
    values = read_accessor(document, sampler.get("output"))
    mode = sampler.get("interpolation", "LINEAR")
    rows = len(times) * (3 if mode == "CUBICSPLINE" else 1)
    if mode not in ("LINEAR", "STEP", "CUBICSPLINE"):
        raise format_error(document.path, f"an animation is interpolated by '{mode}'")
    if values.shape != (rows, _WIDTHS[path]):
        what = f"a {path} track has {len(times)} times and values of shape {values.shape}"
        raise format_error(document.path, what)
    if (np.diff(times) <= 0.0).any():
        raise format_error(document.path, f"the key times of a {path} track do not rise")
    return AnimationTrack(
        node, path, times, values.reshape(len(times), 3, -1) if mode == "CUBICSPLINE" else values, mode
    )


def sample_track(track: AnimationTrack, times: FloatArray, rate_hz: float) -> FloatArray:
    """Values ``(F, C)`` of a track at ``times`` [s]; before the first key and after the last it stands still."""
    keys = track.times
    snap = SNAP / rate_hz
    # Keys around each time and how far it is between them, in [0, 1]
    before = np.clip(np.searchsorted(keys, times + snap, side="right") - 1, 0, max(len(keys) - 2, 0))
    after = np.minimum(before + 1, len(keys) - 1)
    spans = np.where(after > before, keys[after] - keys[before], 1.0)
    elapsed = times - keys[before]
    elapsed = np.where(np.abs(elapsed) < snap, 0.0, np.where(np.abs(elapsed - spans) < snap, spans, elapsed))
    u = np.clip(elapsed / spans, 0.0, 1.0)
    if track.interpolation == "CUBICSPLINE":
        # Hermite: values, out-tangent of the key before, in-tangent of the key after
        t, d = u[:, None], spans[:, None]
        value = (2 * t**3 - 3 * t**2 + 1) * track.keys[before, 1] + (3 * t**2 - 2 * t**3) * track.keys[after, 1]
        leave, arrive = d * (t**3 - 2 * t**2 + t), d * (t**3 - t**2)
        values = value + leave * track.keys[before, 2] + arrive * track.keys[after, 0]
    elif track.interpolation == "STEP":
        values = track.keys[np.where(u >= 1.0, after, before)]
    elif track.path == "rotation":
        # \frac{\sin((1-u)\theta)}{\sin\theta}a + \frac{\sin(u\theta)}{\sin\theta}b along the shorter arc
        a, b, t = track.keys[before], track.keys[after], u[:, None]
        cosine = np.einsum("fc,fc->f", a, b)[:, None]
        b = np.where(cosine < 0.0, -b, b)
        angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
        sine = np.sin(angle)
        near = sine < 1e-6  # [-] below this the chord and the arc agree to 1e-12
        safe = np.where(near, 1.0, sine)
        from_a = np.where(near, 1.0 - t, np.sin((1.0 - t) * angle) / safe)
        from_b = np.where(near, t, np.sin(t * angle) / safe)
        values = from_a * a + from_b * b
    else:
        values = track.keys[before] * (1.0 - u[:, None]) + track.keys[after] * u[:, None]
    return values


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
    linear = SO3(xyzw[:, [3, 0, 1, 2]]).matrix() * scale[:, None, :]
    return linear, translation


def compose_transforms(above: Local, local: Local) -> Local:
    """Transform of a child in world, from its parent's and its own."""
    linear = above[0] @ local[0]
    return linear, above[1] + np.einsum("fij,fj->fi", above[0], np.broadcast_to(local[1], (len(linear), 3)))


_SAME_SCALE: Final = 0.01  # [-] bind and node scale agree
_SAME_FRAME: Final = 1.0  # [rad] a mesh node rotated further than this is not a frame of the bind pose
_ROUND: Final = 1e-7  # [-] a matrix this near to a scaled rotation is one


def rest_worlds(document: GltfDocument, tree: NodeTree, joints: list[int], skins: list[dict[str, Any]]) -> list[Local]:
    """Rest transform of each joint, in the order of ``joints``; NO_PARENT stands for a root at the origin.

    A skin fixes its joints up to one transform of the mesh, which glTF does not use. We take the mesh node's where
    it agrees with the top joint of the skin, and else let that joint rest as its node does.
    """
    carriers = [i for i, item in enumerate(tree.items) if "skin" in item]
    # World transform of nodes, and of those above them, where nothing is animated
    wanted = tree.with_ancestors([*joints, *carriers])
    worlds: dict[int, Local] = {}
    for node in (node for node in tree.order if node in wanted):
        local, above = default_local(tree.items[node]), int(tree.parents[node])
        worlds[node] = local if above == NO_PARENT else compose_transforms(worlds[above], local)
    # What the skins say about their joints; the first one counts
    bound: dict[int, Local] = {}
    for skin in skins:
        for joint, bind in _bind_transforms(document, tree, skin, worlds).items():
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
            rest[joint] = worlds[joint]
    return [rest[joint] for joint in joints]


def _bind_transforms(
    document: GltfDocument, tree: NodeTree, skin: dict[str, Any], nodes: dict[int, Local]
) -> dict[int, Local]:
    joints = [int(j) for j in skin["joints"]]
    if "inverseBindMatrices" not in skin:
        return {}
    inverse = read_accessor(document, skin["inverseBindMatrices"])[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
    # Matrices that are not affine or flatten space say nothing
    is_affine = np.abs(inverse[:, 3] - np.array([0.0, 0.0, 0.0, 1.0])).max() < 1e-4
    if len(inverse) < len(joints) or not is_affine or np.abs(np.linalg.det(inverse[:, :3, :3])).min() <= 1e-18:
        return {}
    binds = np.linalg.inv(inverse)
    # The top joint of the skin decides in which frame the mesh stands
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
