"""FBX files, binary and ASCII: bones, bind pose, one take and the mesh, as ufbx evaluates them in a child process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.io.binary import AnyPath, as_format_error, format_error, map_file
from marey.io.character import SAME_PLACE, Character, fit_similarity, join_parts, strongest_weights
from marey.io.dispatch import load
from marey.io.sandbox import ChildAnswer, run_reader
from marey.io.scene import Local, SceneClip, SceneTree, build_motion, choose_clip, name_clips, order_nodes, pick_joints
from marey.io.scene.clip import MAX_NODES, check_num_frames, find_unit, local_transform, place_binds
from marey.io.scene.motion import place_at_rest, place_frames, sample_contacts
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Skeleton

READER: Final = ("marey.io.fbx.child", "read")
MAX_FBX_BYTES: Final = 2 << 30  # [byte]
EXTRA: Final = ("reading FBX files", "fbx")
DRAWN: Final = ("MESH", "LIGHT", "CAMERA", "STEREO_CAMERA", "NURBS_SURFACE", "NURBS_CURVE", "LINE_CURVE")


def read_fbx(
    path: AnyPath, *, rate_hz: float | None = None, unit: str | None = None, clip: str | int | None = None
) -> Motion:
    """Read the bones of an FBX file and one take.

    Bones, and nodes that a skin hangs on, become the skeleton, with the nodes between them; without any, the animated
    nodes. Unit and axes are those that the file states. They rest in the bind pose where the file has one.

    Args:
        path: the file, binary or ASCII.
        rate_hz: sample at this rate; else at the rate of the keys.
        unit: length unit of the bones, where what the file states is wrong.
        clip: name or number of the take; else the first that moves.

    Raises:
        FormatError: the file is damaged or holds neither bones nor animated nodes.
        UnknownNameError: there is no such take.
        MissingExtraError: ufbx is not installed.
    """
    answer = describe_file(path)
    with as_format_error(path), np.errstate(over="ignore", invalid="ignore"):
        return build_motion(read_scene(path, answer, rate_hz, unit, clip))


def list_fbx_clips(path: AnyPath) -> tuple[str, ...]:
    """Names of the takes of a file; none where it holds a rest pose only."""
    return _take_names(describe_file(path))


def describe_file(path: AnyPath) -> ChildAnswer:
    """Nodes, bind pose and takes of a file, by the child; a file of very many nodes is not even begun."""
    content = map_file(path, limit=MAX_FBX_BYTES)
    # The word before each node: behind its length in a binary file, before a colon in a text
    is_binary = bytes(content[:11]) == b"Kaydara FBX"
    count = sum(1 for _ in re.finditer(rb"\x05ModelL" if is_binary else rb"\bModel: ", content))
    if count > MAX_NODES:
        raise format_error(path, f"{count} nodes; at most {MAX_NODES} are read")
    return run_reader(READER, path, {"job": "describe"}, extra=EXTRA)


def _take_names(answer: ChildAnswer) -> tuple[str, ...]:
    return name_clips(str(take["name"]) for take in answer.facts["takes"])


@dataclass(frozen=True, slots=True, eq=False)
class _Take:
    """The take that is read, and its frames."""

    number: int  # -1 where the file has none
    name: str
    animated: frozenset[int]
    rate_hz: float
    start_s: float
    num_frames: int


def read_scene(
    path: AnyPath, answer: ChildAnswer, rate_hz: float | None, unit: str | None, asked: str | int | None
) -> SceneClip:
    """Choose a take and joints of a described file, and sample the take."""
    facts = answer.facts
    tree = build_tree(answer)
    names, takes = _take_names(answer), cast(list[dict[str, Any]], facts["takes"])
    notes: list[str] = []
    number = -1
    if takes or asked is not None:
        number, notes = choose_clip(path, names, asked, lambda i: bool(takes[i]["moving"]))
    animated = frozenset[int](takes[number]["animated"]) if takes else frozenset[int]()
    joints = pick_joints(path, tree, select_bones(path, answer, tree, animated, notes))
    # The frames of the take, and the nodes that move in it
    declared_hz = float(answer.facts["rate_hz"])
    declared_hz = declared_hz if 1.0 <= declared_hz <= 1000.0 else 30.0
    times: FloatArray = answer.arrays[f"times{number}"] if number >= 0 else np.zeros(0)
    if not len(times):
        notes.append("the file holds no animation: one frame, the rest pose of its nodes")
        take = _Take(-1, "" if number < 0 else names[number], frozenset(), float(rate_hz or declared_hz), 0.0, 1)
    else:
        if not np.isfinite(times).all():
            raise ValueError("a key time is not finite")
        described = answer.facts["takes"][number]
        # Keys inside the range of the take, where the range says something
        begin, end = float(described["begin_s"]), float(described["end_s"])
        inside = times[(times >= begin - 1e-6) & (times <= end + 1e-6)]
        times = inside if end > begin and len(inside) >= 2 else times
        rate, first, frames = place_frames(times, rate_hz, notes, declared_hz=declared_hz)
        take = _Take(number, names[number], frozenset(described["animated"]), rate, first, frames)
    used = sorted(tree.with_ancestors(joint for joint in joints if joint != NO_PARENT) & take.animated)
    keys = len(used) * len(answer.arrays.get(f"times{number}", ()))
    check_num_frames(path, take.num_frames, len(joints), keys, take.rate_hz)
    values = np.zeros((0, 1, 10))
    if used:
        question = {"job": "sample", "take": number, "nodes": used, "start_s": take.start_s}
        question |= {"rate_hz": take.rate_hz, "frames": take.num_frames}
        values = run_reader(READER, path, question, extra=EXTRA).arrays["locals"]
    if not np.isfinite(values).all():
        raise format_error(path, "an animation curve holds a value that is not finite")
    tracks: dict[str, list[tuple[float, float]]] = takes[number]["contacts"] if takes else {}
    contacts = sample_contacts(tracks, take.start_s, take.rate_hz, take.num_frames)
    # The unit is the file's, unless the caller knows better
    metres, called = find_unit(path, unit, float(facts["unit_m"]), tree, joints)
    notes.append(f"the file's unit is {called}, its vertical axis {facts['up']}")
    return SceneClip(
        str(path),
        "fbx",
        take.name,
        tree,
        joints,
        read_binds(answer, tree),
        partial(_sample_node, tree, {node: i for i, node in enumerate(used)}, values),
        take.rate_hz,
        take.num_frames,
        metres_per_unit=metres,
        unit=called,
        up=str(facts["up"]),
        notes=tuple(notes),
        contacts=contacts,
    )


def build_tree(answer: ChildAnswer) -> SceneTree:
    """Nodes of a described file; node 0 is the scene itself, which turns the file's axes into ours."""
    facts, rest = answer.facts, answer.arrays["rest"]
    parents: IntArray = np.array(facts["parents"], dtype=np.int64)
    kinds = cast(list[str], facts["kinds"])
    names = ["root" if i == 0 else str(name) for i, name in enumerate(facts["names"])]

    def rest_local(node: int) -> Local:
        values = rest[node : node + 1]
        return local_transform(values[:, :3], values[:, 3:7], values[:, 7:])

    order = order_nodes(parents)
    return SceneTree(names, parents, order, rest=rest_local, is_bare=lambda node: kinds[node] not in DRAWN)


def select_bones(
    path: AnyPath, answer: ChildAnswer, tree: SceneTree, animated: Iterable[int], notes: list[str]
) -> set[int]:
    """Nodes that are bones or that a skin hangs on, of the largest body; without any, the animated nodes."""
    kinds = cast(list[str], answer.facts["kinds"])
    bones = {i for i, kind in enumerate(kinds) if kind == "BONE"} | set(answer.facts["clusters"])
    bones -= set(answer.facts["helpers"]) - set(answer.facts["clusters"])
    moving = set(animated)
    if not bones:
        bones = {node for node in moving if kinds[node] not in ("CAMERA", "LIGHT", "STEREO_CAMERA")}
        if not bones:
            what = "it holds no bones, and nothing in it is animated"
            raise format_error(path, what, "Export the file with its armature and animation.")
        notes.append("the file has no bones: its animated nodes were read as joints")
    # Bodies are what stands side by side in the scene; the one with most moving bones is read
    bodies: dict[int, set[int]] = {}
    tops: dict[int, int] = {}
    for node in tree.order:
        parent = int(tree.parents[node])
        tops[node] = node if parent <= 0 else tops[parent]
        if node in bones:
            bodies.setdefault(tops[node], set()).add(node)
    largest = max(bodies.values(), key=lambda body: (len(body & moving), len(body)))
    if len(bodies) > 1:
        others = ", ".join(f"'{tree.names[top]}'" for top, body in bodies.items() if body is not largest)
        notes.append(f"the file holds {len(bodies)} bodies; the one that moves most was read, not {others[:200]}")
    return largest


def _sample_node(tree: SceneTree, places: dict[int, int], values: FloatArray, node: int, block: slice) -> Local:
    if node not in places:
        return tree.rest(node)
    moved = values[places[node], block]
    return local_transform(moved[:, :3], moved[:, 3:7], moved[:, 7:])


def read_binds(answer: ChildAnswer, tree: SceneTree) -> dict[int, Local]:
    """World transforms of nodes in the bind pose, which FBX gives in the world of the file."""
    nodes = cast(list[int], answer.facts["bound"])
    if not nodes:
        return {}
    matrices = np.tile(np.eye(4), (len(nodes), 1, 1))
    matrices[:, :3] = answer.arrays["binds"]
    # Matrices that flatten space say nothing
    is_sound = np.isfinite(matrices).all(axis=(1, 2)) & (np.abs(np.linalg.det(matrices[:, :3, :3])) > 1e-18)
    nodes = [node for node, sound in zip(nodes, is_sound, strict=True) if sound]
    matrices = matrices[is_sound]
    if not nodes:
        return {}
    rank = {node: i for i, node in enumerate(tree.order)}
    top = min(range(len(nodes)), key=lambda i: rank[nodes[i]])
    world = place_binds(matrices, top, tree.rest_worlds([nodes[top]])[nodes[top]], np.eye(4))
    return {node: (world[i : i + 1, :3, :3], world[i : i + 1, :3, 3]) for i, node in enumerate(nodes)}


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
