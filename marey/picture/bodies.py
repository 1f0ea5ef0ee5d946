"""From a motion to solid bodies in world, and to marks on the ground: footprints and the path of the root.

A body is capsules, or the user's own character: its mesh, posed at some frames, coloured and ready to draw.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, MareyError, UnknownNameError
from marey.contacts import detect_contacts
from marey.io import Character, fit_joint_order, load_character, pose_vertices
from marey.motion import Contacts, Motion, contact_positions, find_runs, mean_speed
from marey.picture.scene import CapsuleBatch, GroundMarks, TriangleMesh, linear_from_srgb
from marey.skeleton import (
    NO_PARENT,
    Capsules,
    Skeleton,
    assess_anatomy,
    capsules,
    contact_points,
    joint_frames,
    role_map,
    tree_difference,
)

PAPER_COLOUR: Final = linear_from_srgb("#eceff2")  # what older bodies fade to


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """Colours of one figure (linear RGB): muted, left and right distinguished by hue."""

    trunk: FloatArray = field(default_factory=lambda: linear_from_srgb("#d3d6d8"))
    left: FloatArray = field(default_factory=lambda: linear_from_srgb("#6d9bc8"))
    right: FloatArray = field(default_factory=lambda: linear_from_srgb("#e0a76f"))
    contact: FloatArray = field(default_factory=lambda: linear_from_srgb("#c8452f"))


OTHER_COLOURS: Final = (  # trunk, left and right of the second figure and on
    ("#b5c9b4", "#5fa58d", "#a9b85c"),
    ("#cbb9cc", "#8f7fc4", "#d288ae"),
    ("#d3c7ae", "#b98d4a", "#d9b84f"),
)
PALETTES: Final = (Palette(), *(Palette(*map(linear_from_srgb, colours)) for colours in OTHER_COLOURS))


@dataclass(frozen=True, slots=True, eq=False)
class _MotionBody:
    """The body of a clip, and at which joint each capsule ends."""

    capsules: Capsules
    ends_at: IntArray  # (S,) joint at whose origin the capsule ends, NO_PARENT where it ends elsewhere


def place_capsules(motion: Motion, frames: IntArray) -> tuple[Capsules, FloatArray, FloatArray]:
    """The body's capsules and where they start and end in world ``(n, S, 3)`` [m], at some frames.

    Bones that change their length end where their next joint is.
    """
    found = body_of(motion)
    body, moving = found.capsules, None if motion.translations is None else motion.translations[frames]
    positions, R_world_joint = joint_frames(
        motion.skeleton, motion.root_positions[frames], motion.rotations.wxyz[frames], moving
    )
    carried, turned = positions[:, body.joints], R_world_joint[:, body.joints]
    starts, ends = carried + turned @ body.starts, carried + turned @ body.ends
    if moving is not None:
        is_bone = found.ends_at != NO_PARENT
        ends[:, is_bone] = positions[:, found.ends_at[is_bone]]
    return body, starts, ends


@lru_cache(maxsize=16)
def body_of(motion: Motion) -> _MotionBody:
    """The solid body of a clip, kept because a film asks for it at every frame; a lone joint is a ball.

    Where bones change their length, their usual one shapes the body.
    """
    skeleton = motion.skeleton
    if motion.translations is not None:
        usual = np.median(motion.translations, axis=0)
        usual[0] = skeleton.offsets[0]
        skeleton = replace(skeleton, offsets=usual)
    body = capsules(skeleton)
    if not len(body):
        body = Capsules(np.zeros(1, int), np.zeros((1, 3)), np.zeros((1, 3)), np.full(1, 0.1), np.full(1, 0.1))
    ends_at = np.full(len(body), NO_PARENT)
    for s in range(len(body)) if motion.translations is not None else ():
        if not body.starts[s].any():
            for child in skeleton.children(int(body.joints[s])).tolist():
                if np.array_equal(skeleton.offsets[child], body.ends[s]):
                    ends_at[s] = child
    return _MotionBody(body, ends_at)


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """One body at one instant: capsules, or the triangles of a character, and what it holds."""

    solids: CapsuleBatch = field(default_factory=CapsuleBatch.none)
    mesh: TriangleMesh = field(default_factory=TriangleMesh.none)

    @classmethod
    def join(cls, parts: Sequence[Figure]) -> Figure:
        """Put several bodies in one picture."""
        return cls(CapsuleBatch.join([p.solids for p in parts]), TriangleMesh.join([p.mesh for p in parts]))

    def moved(self, offset: ArrayLike) -> Figure:
        """Return the same body, shifted by ``offset`` ``(3,)`` [m]."""
        return Figure(self.solids.moved(offset), self.mesh.moved(offset))

    def balls(self) -> tuple[FloatArray, FloatArray]:
        """Points ``(N, 3)`` [m] and radii ``(N,)`` [m] that a camera must hold to see all of it."""
        solids = self.solids
        points = np.concatenate([solids.starts, solids.ends, self.mesh.vertices])
        return points, np.concatenate([solids.start_radii, solids.end_radii, np.zeros(len(self.mesh.vertices))])


def body_solids(
    motion: Motion,
    frames: IntArray,
    palette: Palette,
    *,
    contacts: Contacts | None = None,
    fades: ArrayLike = 0.0,
) -> list[CapsuleBatch]:
    """One coloured body for each of ``frames`` ``(n,)``.

    Args:
        motion: the clip.
        frames: which frames to show.
        palette: its colours.
        contacts: colours feet and hands that touch; none by default.
        fades: how far each body is faded to paper, 0 to 1, ``(n,)`` or one number.
    """
    body, starts, ends = place_capsules(motion, frames)
    fades = np.broadcast_to(np.asarray(fades, dtype=np.float64), len(frames))
    sides = joint_sides(motion.skeleton)[body.joints]
    plain = np.stack([palette.trunk, palette.left, palette.right])[sides]
    # Capsules (n, S) that are carried by a joint whose contact point touches.
    touching = np.zeros((len(frames), len(body)), dtype=np.bool_)
    points = contact_points(motion.skeleton)
    for name, joint in zip(points.names, points.joints, strict=True):
        if contacts is not None and name in contacts.names:
            touching |= contacts.track(name)[frames][:, None] & (body.joints == joint)
    # Touching parts take the colour of contacts; older bodies fade to paper.
    colours = np.where(touching[..., None], palette.contact, plain)
    colours = colours + fades[:, None, None] * (PAPER_COLOUR - colours)
    return [CapsuleBatch(starts[i], ends[i], body.start_radii, body.end_radii, colours[i]) for i in range(len(frames))]


@lru_cache(maxsize=64)
def joint_sides(skeleton: Skeleton) -> IntArray:
    """Side of each joint ``(J,)``: 0 trunk, 1 left, 2 right; joints without a role follow their parent."""
    sides = np.zeros(skeleton.num_joints, dtype=np.int64)
    known = {joint: role for role, joint in role_map(skeleton).joints.items()}
    for j in range(skeleton.num_joints):
        role = known.get(j)
        if role is None:
            sides[j] = sides[skeleton.parents[j]] if j else 0
        elif not role.endswith("collar"):  # collars carry the chest's upper corners
            sides[j] = 1 if role.startswith("left_") else 2 if role.startswith("right_") else 0
    return sides


HEEL_RADIUS_M: Final = 0.034
TOE_RADIUS_M: Final = 0.046
HAND_RADIUS_M: Final = 0.055
PRINT_OPACITY: Final = 0.55
PATH_WIDTH_M: Final = 0.018
MAX_PATH_POINTS: Final = 100  # a smooth line on a picture


def contacts_or_detect(motion: Motion) -> Contacts:
    """The clip's own contact track, or a detected one."""
    return detect_contacts(motion) if motion.contacts is None else motion.contacts


def list_facts(motion: Motion) -> list[tuple[str, str]]:
    """What is said about a clip beside its picture."""
    return [
        ("joints", f"{motion.skeleton.num_joints}"),
        ("frames", f"{motion.num_frames} at {motion.rate_hz:g} Hz"),
        ("duration", f"{motion.duration_s:.2f} s"),
        ("mean speed", f"{mean_speed(motion):.2f} m/s"),
    ]


def foot_prints(motion: Motion, contacts: Contacts, palette: Palette) -> GroundMarks:
    """A print for each time a foot or a hand of a person stood on the ground, at its mean place while it stood.

    An animal has no prints: its contact points are those of a human with such names.
    """
    if not assess_anatomy(motion.skeleton).is_human and motion.contacts is None:
        return GroundMarks.join([])
    names = contact_points(motion.skeleton).names
    places = dict(zip(names, np.moveaxis(contact_positions(motion), 1, 0), strict=True))
    limbs = [
        (points, radii, colour)
        for side, colour in (("left", palette.left), ("right", palette.right))
        for points, radii in (
            ((f"{side}_heel", f"{side}_toe"), (HEEL_RADIUS_M, TOE_RADIUS_M)),
            ((f"{side}_hand",), (HAND_RADIUS_M, HAND_RADIUS_M)),
        )
    ]
    prints: list[GroundMarks] = []
    for points, radii, colour in limbs:
        known = [name for name in points if name in contacts.names and name in places]
        if not known:
            continue
        tracks = [contacts.track(name) for name in known]
        for first, last in find_runs(np.any(tracks, axis=0)):
            # Frames with the whole foot in contact, or all of the interval if there are none.
            flat = np.all(tracks, axis=0)
            flat[:first] = flat[last:] = False
            when = np.flatnonzero(flat) if flat.any() else np.arange(first, last)
            start, end = (places[name][when].mean(axis=0)[[0, 2]] for name in (known[0], known[-1]))
            opacity = np.array([PRINT_OPACITY])
            ends = start[None], end[None], np.array(radii[:1]), np.array(radii[1:])
            prints.append(GroundMarks(*ends, colour[None], opacity))
    return GroundMarks.join(prints)


def root_path(motion: Motion, colour: FloatArray) -> GroundMarks:
    """The way of the root, dropped onto the ground."""
    step = max(1, motion.num_frames // MAX_PATH_POINTS)
    return GroundMarks.path(motion.root_positions[::step][:, [0, 2]], width_m=PATH_WIDTH_M, colour=colour)


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
