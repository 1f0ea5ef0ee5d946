r"""From a clip of a scene to a motion.

Bones of other tools have rest frames of their own (a bone's own axis along it, say). We turn them into ours, aligned
with the world at rest: with the rest frame :math:`G_j` of a joint and its frame :math:`W_j` in the animation,

.. math:: R_{world,j} = W_j G_j^{-1}, \qquad R_j = R_{world,p(j)}^{-1} R_{world,j},

and bones are what joins the joints in world, so positions in world stay exactly what the file says.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io.conventions import METRES
from marey.io.scene.clip import Local, SceneClip, compose_transforms, rotation_part
from marey.lie import SO3
from marey.motion import LoadReport, Motion, Source
from marey.skeleton import NO_PARENT, Skeleton

RIGID_TOL: Final = 2e-6  # [m] bones whose ends move less than this have one length: float32 noise
RIGID_SHARE: Final = 1e-6  # [-] ... or than this part of a larger body's extent
BLOCK: Final = 2048  # [frame] frames converted at a time, so that memory stays small


def build_motion(clip: SceneClip) -> Motion:
    """Sample a clip and turn it into a motion in metres, with +Y up and joint frames aligned with the world at rest."""
    place = {node: i for i, node in enumerate(clip.joints)}
    above = [int(clip.tree.parents[node]) if node != NO_PARENT else NO_PARENT for node in clip.joints]
    parents = [place.get(parent, 0) if i else NO_PARENT for i, parent in enumerate(above)]
    rest = place_at_rest(clip)
    positions, rotations, translations = _sample_clip(clip, parents, rest)
    # Joints need names of their own
    names: list[str] = []
    taken: set[str] = set()
    for joint in clip.joints:
        name = "root" if joint == NO_PARENT else clip.tree.names[joint] or f"node_{joint}"
        if name in taken:
            name = f"{name}_{joint}"
        names.append(name)
        taken.add(name)
    # Bones of one length give offsets; those that move keep their translations, and rest as the skin says
    metres = clip.metres_per_unit
    places = np.concatenate([position for _, position in rest])
    drift = np.abs(translations - translations[:1]).max() if translations.size else 0.0
    is_moving = bool(drift * metres > max(RIGID_TOL, RIGID_SHARE * metres * np.ptp(places, axis=0).max()))
    offsets = translations[0].copy()
    if is_moving:
        offsets = places - places[[max(parent, 0) for parent in parents]]
    offsets[0] = places[0]
    # Where a joint without joints below it carries one bare node, that node is where its bone ends: (J, 3)
    tips = np.zeros((len(clip.joints), 3))
    joints = set(clip.joints)
    for i, joint in enumerate(clip.joints):
        below = [] if joint == NO_PARENT else clip.tree.child_lists[joint]
        if len(below) == 1 and below[0] not in joints and clip.tree.is_bare(below[0]):
            tips[i] = rest[i][0][0] @ clip.tree.rest(below[0])[1][0]
    skeleton = Skeleton(tuple(names), np.array(parents), offsets * metres, tips * metres)
    notes = list(clip.notes)
    if is_moving:
        notes.append("bones change their length in the animation, so joint translations are kept frame by frame")
    return Motion(
        skeleton,
        clip.rate_hz,
        positions * metres,
        rotations,
        contacts=clip.contacts,
        translations=translations * metres if is_moving else None,
        source=Source(clip.path, clip.format, clip.unit, METRES.get(clip.unit, metres), clip.up),
        load_report=LoadReport(clip.warnings, notes),
        name=clip.name or "motion",
    )


def place_at_rest(clip: SceneClip) -> list[Local]:
    """World transform of each joint at rest: in the bind pose, else below its parent, else as its node stands."""
    worlds = clip.tree.rest_worlds(joint for joint in clip.joints if joint != NO_PARENT)
    rest: dict[int, Local] = {NO_PARENT: (np.eye(3)[None], np.zeros((1, 3)))}
    for joint in clip.joints:
        if joint == NO_PARENT:
            continue
        above = int(clip.tree.parents[joint])
        if joint in clip.binds:
            rest[joint] = clip.binds[joint]
        elif above in rest and above != NO_PARENT:
            rest[joint] = compose_transforms(rest[above], clip.tree.rest(joint))
        else:
            rest[joint] = worlds[joint]
    return [rest[joint] for joint in clip.joints]


def _sample_clip(clip: SceneClip, parents: list[int], rest: list[Local]) -> tuple[FloatArray, SO3, FloatArray]:
    """Root positions, local rotations and joint translations of every frame, block by block, in the file's unit."""
    count, frames = len(clip.joints), clip.num_frames
    positions, wxyz = np.empty((frames, 3)), np.empty((frames, count, 4))
    translations = np.zeros((frames, count, 3))
    undo_rest = rotation_part(np.concatenate([linear for linear, _ in rest])).inverse()
    above = np.array(parents[1:], dtype=np.int64)
    for first in range(0, frames, BLOCK):
        block = slice(first, min(first + BLOCK, frames))
        size = block.stop - block.start
        # World transforms of all joints, and of the nodes above them, parents first
        worlds: dict[int, Local] = {NO_PARENT: (np.tile(np.eye(3), (size, 1, 1)), np.zeros((size, 3)))}
        for joint in clip.joints:
            waiting = [joint]
            while waiting[-1] not in worlds:
                waiting.append(int(clip.tree.parents[waiting[-1]]))
            for node in waiting[-2::-1]:
                worlds[node] = compose_transforms(worlds[int(clip.tree.parents[node])], clip.sample(node, block))
        linear = np.stack([worlds[joint][0] for joint in clip.joints], axis=1)
        places = np.stack([worlds[joint][1] for joint in clip.joints], axis=1)
        # R_world,j = W_j G_j^-1, then relative to the parent
        turned = rotation_part(linear.reshape(-1, 3, 3)).reshape(-1, count) @ undo_rest
        to_parent = turned[:, above].inverse()
        positions[block], wxyz[block, 0] = places[:, 0], turned[:, 0].wxyz
        wxyz[block, 1:] = (to_parent @ turned[:, 1:]).wxyz
        translations[block, 1:] = to_parent @ (places[:, 1:] - places[:, above])
    return positions, SO3(wxyz), translations
