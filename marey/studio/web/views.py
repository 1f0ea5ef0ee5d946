"""Questions of the viewport that no tool answers: the world, the skin of a character, the sequence of strips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from marey.base import InputError
from marey.picture import describe_world
from marey.pipeline.recipes import format_toml
from marey.studio.jobs.context import RunContext
from marey.studio.project.patches import Tree
from marey.studio.project.store import MotionArchive
from marey.studio.tools.clips import play_strips
from marey.world import parse_sketch

View = tuple[Any, dict[str, Any]]  # value and arrays of the answer


def show_scenery(context: RunContext, store: MotionArchive, args: Tree) -> View:
    """Triangles of the sketch or world of the project, joined; each thing says where its own begin."""
    vertices: list[Any] = [np.zeros((0, 3))]
    faces: list[Any] = [np.zeros((0, 3), np.int32)]
    things: list[Tree] = []
    tree = context.project["sketch"] or context.project["world"]
    for thing in describe_world(parse_sketch(format_toml(tree), file="sketch"), np.asarray) if tree else ():
        corners = np.reshape(thing["faces"], (-1, 3)).astype(np.int32)
        first_vertex, first_face = sum(map(len, vertices)), sum(map(len, faces))
        places = {"first_vertex": first_vertex, "vertices": len(thing["vertices"])}
        places |= {"first_face": first_face, "faces": len(corners)}
        things.append({"colour": thing["colour"], "opacity": thing["opacity"], **places})
        vertices.append(thing["vertices"])
        faces.append(corners + first_vertex)
    return things, {"vertices": np.concatenate(vertices), "faces": np.concatenate(faces)}


def show_mesh(context: RunContext, store: MotionArchive, args: Tree) -> View:
    """Mesh and skin of a character: vertices, faces, carriers, weights, inverse_bind (J, 4, 4) by columns, colours."""
    character = context.project["characters"].get(args.get("character"))
    if character is None or character["mesh"] is None:
        raise InputError("this character has no skin", "Import a file with a mesh")
    arrays = dict(store.get_arrays(character["mesh"]))
    return {"name": character["name"]}, arrays | {"inverse_bind": np.swapaxes(arrays["inverse_bind"], 1, 2)}


def show_sequence(context: RunContext, store: MotionArchive, args: Tree) -> View:
    """Hash of the motion that the strips of the timeline make, to be played."""
    strips = context.project["timeline"]["strips"]
    if not strips:
        raise InputError("there are no strips", "Put a take on the timeline first")
    return {"hash": store.put(play_strips(context, strips))}, {}


VIEWS: Final[dict[str, Callable[[RunContext, MotionArchive, Tree], View]]] = {
    "scenery": show_scenery,
    "mesh": show_mesh,
    "sequence": show_sequence,
}
