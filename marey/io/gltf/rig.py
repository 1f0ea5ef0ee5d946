r"""Nodes of a character file and the joints that :func:`marey.load` made of them, side by side.

The reader turns bone frames into frames aligned with the world at rest, may fold nodes above the pelvis into the root,
and may change unit and axes. All of this is found again by comparing one pose both ways: with the world transform
:math:`W_j` of a node and the loaded position and rotation of its joint in the first frame,

.. math:: x_j = s\,Q\,\mathrm{pos}(W_j) + t, \qquad G_j = R_{world,j}^{-1}\, s\,Q\, W_j,

where :math:`G_j` is the node's frame (rotation and scale) in the rest pose of the skeleton. Nothing of the reader but
its result is used, so a writer that inverts this gives back what is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.io.binary import format_error
from marey.io.character import SAME_PLACE, fit_similarity
from marey.io.gltf.buffers import GltfDocument
from marey.io.gltf.nodes import default_local, read_tracks, read_tree
from marey.io.scene.clip import Local, SceneTree, compose_transforms, local_transform
from marey.io.scene.keys import sample_track
from marey.motion import Motion
from marey.skeleton import NO_PARENT

_STILL: Final = {"translation": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0, 1.0), "scale": (1.0, 1.0, 1.0)}


@dataclass(frozen=True, slots=True, eq=False)
class CharacterRig:
    """How nodes of a file and joints of the loaded skeleton belong together."""

    document: GltfDocument
    tree: SceneTree
    nodes: IntArray  # (J,) node of each joint; NO_PARENT for a root that has no node
    frames: FloatArray  # (J, 3, 3) G: node to rest world, file unit to metre, scale included
    worlds: FloatArray  # (N, 4, 4) every node in the file's world, in the first frame
    scale: float  # [m] of one unit of the file's world
    R_ours_file: FloatArray  # (3, 3) Q
    shift: FloatArray  # (3,) [m] t

    def rest_frame(self, node: int) -> tuple[int, FloatArray]:
        """Return the joint that carries a node, and the node's transform ``(4, 4)`` in that joint's rest frame [m].

        The joint's own node lies at the joint; other nodes keep the place they have in the first frame.
        """
        # The joint of the node, or of the nearest node above it that has one; else the root
        place, nearest = {int(n): j for j, n in enumerate(self.nodes) if n != NO_PARENT}, node
        while nearest != NO_PARENT and nearest not in place:
            nearest = int(self.tree.parents[nearest])
        joint = place.get(nearest, 0)
        carrier = int(self.nodes[joint])
        frame: FloatArray = np.eye(4)
        frame[:3, :3] = self.frames[joint]
        if carrier not in (node, NO_PARENT):
            above: FloatArray = self.worlds[carrier]
            frame = np.asarray(frame @ np.linalg.solve(above, self.worlds[node]), dtype=np.float64)
        return joint, frame


def find_rig(document: GltfDocument, motion: Motion) -> CharacterRig:
    """Compare a file with the motion that was loaded from it.

    Raises:
        FormatError: the joints lie elsewhere than the nodes of the same names.
    """
    tree = read_tree(document)
    # Node of each joint name: name, name_7 for the second of one name, node_7 without one
    names = motion.skeleton.names
    skinned = {int(j) for skin in document.items("skins") for j in skin["joints"]}
    by_name: dict[str, list[int]] = {}
    for node in sorted(tree.order, key=lambda n: n not in skinned):
        by_name.setdefault(tree.names[node] or f"node_{node}", []).append(node)
    nodes = np.full(len(names), NO_PARENT, dtype=np.int64)
    taken: set[int] = set()
    # Names with a number first: they leave the plain name to the other node
    for joint, name in enumerate(names):
        stem, _, number = name.rpartition("_")
        if name not in by_name and number.isdigit() and int(number) in by_name.get(stem, ()):
            nodes[joint] = int(number)
            taken.add(int(number))
    for joint, name in enumerate(names):
        free = [node for node in by_name.get(name, ()) if node not in taken]
        if nodes[joint] == NO_PARENT and free:
            nodes[joint] = free[0]
            taken.add(free[0])
    missing = [name for joint, name in enumerate(names) if nodes[joint] == NO_PARENT and joint]
    if missing:
        raise format_error(document.path, f"no node is called '{missing[0]}'", "Report this file.")
    has_node = nodes != NO_PARENT
    positions, R_world_joint = motion[:1].joint_frames()
    ours = positions[0, has_node]
    unit_m = motion.source.metres_per_unit if motion.source else 1.0
    size = max(float(np.ptp(ours, axis=0).max(initial=0.0)), float(np.abs(ours).max(initial=0.0)), 1e-9)
    # The clip that was loaded is the one that begins where the motion does
    for clip in [*document.items("animations"), None]:
        worlds = _first_frame(document, tree, nodes, clip)
        places = worlds[nodes[has_node], :3, 3]
        scale, turn, shift = fit_similarity(places, ours, unit_m)
        if np.abs(scale * places @ turn.T + shift - ours).max(initial=0.0) <= 10.0 * SAME_PLACE * size:
            break
    else:
        what = "joints do not lie where the nodes of the same names are"
        raise format_error(document.path, what, "Report this file.")
    frames = np.tile(np.eye(3), (len(nodes), 1, 1))
    frames[has_node] = scale * turn @ worlds[nodes[has_node], :3, :3]
    frames = R_world_joint.matrix()[0].transpose(0, 2, 1) @ frames
    return CharacterRig(document, tree, nodes, frames, worlds, scale, turn, shift)


def _first_frame(
    document: GltfDocument, tree: SceneTree, nodes: IntArray, animation: dict[str, Any] | None
) -> FloatArray:
    """World transform ``(N, 4, 4)`` of every node at the start of an animation, as the reader samples it."""
    found = [] if animation is None else read_tracks(document, animation)
    used = tree.with_ancestors([int(n) for n in nodes if n != NO_PARENT])
    tracks = {(track.node, track.path): track for track in found}
    starts = [track.times[0] for track in found if track.node in used]
    start = np.array([min(starts, default=0.0)])
    items = document.items("nodes")
    worlds = np.tile(np.eye(4), (len(items), 1, 1))
    for node in tree.order:
        item, above = items[node], int(tree.parents[node])
        local: Local = default_local(item)
        if any((node, path) in tracks for path in _STILL):
            values = [
                sample_track(tracks[node, path], start, 1000.0)
                if (node, path) in tracks
                else np.array([item.get(path, still)], dtype=np.float64)
                for path, still in _STILL.items()
            ]
            local = local_transform(values[0], values[1], values[2])
        if above != NO_PARENT:
            local = compose_transforms((worlds[None, above, :3, :3], worlds[None, above, :3, 3]), local)
        worlds[node, :3, :3], worlds[node, :3, 3] = local[0][0], local[1][0]
    return worlds
