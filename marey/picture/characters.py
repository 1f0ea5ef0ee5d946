"""Bodies as the user's own character: its mesh, posed at some frames, coloured and ready to draw."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import InputError, IntArray, MareyError, UnknownNameError
from marey.io import Character, fit_joint_order, load_character, pose_vertices
from marey.motion import Contacts, Motion
from marey.picture.bodies import PAPER_COLOUR, Figure, Palette, body_solids
from marey.picture.raycast.meshes import TriangleMesh
from marey.skeleton import tree_difference

BODIES: Final = ("auto", "capsules", "mesh")
MAX_TRIANGLES: Final = 24_000  # of one drawn character: more are smaller than a pixel on a strip
GROWTH: Final = 1.25  # of the cells in which vertices are merged, until few enough triangles are left
CharacterLike = Character | str | os.PathLike[str]


def find_character(motion: Motion, character: CharacterLike | None = None, body: str = "auto") -> Character | None:
    """The character to draw a motion on, or None for a body of capsules.

    Args:
        motion: the clip; by default its own file is looked at.
        character: a character or its file, instead.
        body: ``"capsules"`` wants none; ``"mesh"`` insists on one; ``"auto"`` takes what there is.

    Raises:
        InputError: the character has another skeleton, or a mesh is wanted and the file has none.
    """
    if body not in BODIES:
        raise UnknownNameError("body", body, "a picture", BODIES)
    if character is None and body == "capsules":
        return None
    if character is not None and body == "capsules":
        raise InputError("a character and a body of capsules", "Ask for one of them")
    if character is not None:
        found = character if isinstance(character, Character) else _read(str(character))
        difference = tree_difference(found.skeleton, fit_joint_order(motion, found.skeleton).skeleton)
        if difference is not None:
            raise InputError(f"the motion is not on the skeleton of '{found.name}': {difference}", "Retarget it first")
        return found
    # The clip's own file, if it holds the mesh of this very skeleton
    path = "" if motion.source is None else motion.source.path
    try:
        if Path(path).is_file():
            found = _read(path)
            if tree_difference(found.skeleton, fit_joint_order(motion, found.skeleton).skeleton) is None:
                return found
    except MareyError:
        if body == "mesh":
            raise
    if body == "mesh":
        raise InputError("the motion's own file has no skinned mesh for it", "Name a character's file")
    return None


def _read(path: str) -> Character:
    stamp = Path(path).stat().st_mtime_ns if Path(path).is_file() else 0
    return _read_once(path, stamp)


@lru_cache(maxsize=4)
def _read_once(path: str, stamp: int) -> Character:
    """A character that is light enough to draw; ``stamp`` tells when the file was written."""
    return merge_vertices(load_character(path), MAX_TRIANGLES)


def merge_vertices(character: Character, max_triangles: int) -> Character:
    """A coarser mesh: vertices of one cell of a grid that hang on one joint become their mean ([Rossignac1993]_)."""
    if len(character.triangles) <= max_triangles:
        return character
    size = float(np.ptp(character.vertices, axis=0).max())
    main = character.joints[np.arange(len(character.joints)), character.weights.argmax(axis=1)]
    cell = 0.5 * size / np.sqrt(max_triangles)
    while True:
        # Vertices of each cell, numbered
        cells = np.floor(character.vertices / cell).astype(np.int64)
        keys = np.column_stack([cells, main])
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        group = group.reshape(-1)
        triangles = group[character.triangles]
        triangles = triangles[(triangles != np.roll(triangles, 1, axis=1)).all(axis=1)]
        # Of triangles with the same corners one is left; a cell as large as the body merges no more
        triangles = triangles[np.unique(np.sort(triangles, axis=1), axis=0, return_index=True)[1]]
        if len(triangles) <= max_triangles or cell > size:
            break
        cell *= GROWTH
    counts = np.bincount(group)[:, None]
    tables = (character.vertices, character.colours)
    means = [np.stack([np.bincount(group, t[:, k]) for k in range(3)], axis=1) / counts for t in tables]
    return replace(
        character,
        vertices=means[0],
        triangles=triangles,
        joints=character.joints[first],
        weights=character.weights[first],
        colours=means[1],
    )


def draw_figures(
    motion: Motion,
    frames: IntArray,
    palette: Palette,
    *,
    character: Character | None = None,
    contacts: Contacts | None = None,
    fades: ArrayLike = 0.0,
) -> list[Figure]:
    """One body for each of ``frames`` ``(n,)``: the character's mesh, or capsules in the colours of the palette."""
    if character is None:
        return [Figure(body) for body in body_solids(motion, frames, palette, contacts=contacts, fades=fades)]
    fades = np.broadcast_to(np.asarray(fades, dtype=np.float64), len(frames))
    paler = [character.colours + fade * (PAPER_COLOUR - character.colours) for fade in fades]
    posed = pose_vertices(character, motion, frames)
    return [Figure(mesh=TriangleMesh(p, character.triangles, c)) for p, c in zip(posed, paler, strict=True)]
