r"""The person in a file: nodes above the pelvis become a part of its path, whatever format they come from.

Tools hang the hips on nodes of their own: a scene's root, an armature, a reference, the root bone of an engine. With
the pelvis :math:`p` found by anatomy and the nodes :math:`0 \dots a` above it,

.. math:: T_{world,p} = T_0 T_1 \cdots T_a T_p

is what the first joint of the motion gets, frame by frame, so every joint stays where the file puts it, and speed,
heading and size are those of the body.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, IntArray
from marey.io.conventions import METRES, localise_frames
from marey.io.euler import ChannelMap, channels_to_positions, compose_euler
from marey.io.vertical_axis import rotate_wxyz, to_file, to_world
from marey.lie import SO3
from marey.motion import Motion, assess_motion, standing_height
from marey.skeleton import NO_PARENT, Skeleton, joint_frames

SAMPLED_FRAMES: Final = 24  # enough to see which joints a joint follows
LOOSE: Final = (
    0.02  # [-] of the body's size: a joint whose offset changes by more hangs on a joint that does not carry it
)
RIGID: Final = 0.003  # [-] of the body's size: a joint that stays within this in another's frame is carried by it
RIGID_M: Final = 1e-10  # a joint that leaves its offset by less does not move in its parent
HUMAN_M: Final = (1.0, 2.4)  # heights outside of this raise a warning
DECLARING: Final = ("fbx", "gltf", "usd")  # formats whose files state their unit: it is not guessed from the body
ABSURD_M: Final = (0.35, 4.0)  # heights outside of this are a wrong scale, not a person: a newborn has 0.45 m
STATURE_M: Final = (1.3, 2.1)  # what a corrected scale must give
SCALES: Final = (0.1, 10.0, 0.01, 100.0, 0.001, 1000.0, 0.0254, 1.0 / 0.0254, 2.54, 1.0 / 2.54)  # [-] decades, inches
THING_M: Final = (0.2, 5.0)  # extents of skeletons outside of this raise a warning, animals and props too
MAX_NAMED: Final = 6  # nodes named in one note


def find_person(motion: Motion, *, is_unit_given: bool = False) -> Motion:
    """Return the motion with the pelvis as its first joint; world positions of the body stay as they are.

    Nodes above the pelvis are folded into the path of the root, and what else hangs on them (props, cameras, targets,
    a second person) is left out with a note. The source remembers the nodes, so that a BVH is written as it was. An
    animal, a prop or a face keeps its tree. A human of an unlikely size is warned of; one of an absurd size in a file
    that states its unit (an armature that an exporter scaled by 100, say) is brought to a person's size by a power of
    ten or by inches, with a warning.

    Args:
        motion: what a reader made of a file.
        is_unit_given: the user knows the unit: the size stays as it is.
    """
    anatomy = assess_motion(motion)
    if not anatomy.is_human:
        joined = join_chains(motion)
        motion, anatomy = (motion, anatomy) if joined is None else (joined, assess_motion(joined))
    pelvis, names = anatomy.pelvis, motion.skeleton.names
    if not anatomy.is_human or pelvis is None:
        note = f"not a human: {'; '.join(anatomy.reasons)}"
        # An animal or a thing of an unlikely size, where the file states its unit
        extent = float(np.ptp(motion.skeleton.rest_positions(), axis=0).max())
        is_stated = motion.source is not None and motion.source.format in DECLARING
        is_odd = is_stated and motion.skeleton.num_joints >= 5 and not THING_M[0] < extent < THING_M[1]
        warned = [f"the skeleton is {extent:.3g} m large; if its unit is wrong, give unit="] if is_odd else []
        return replace(motion, load_report=motion.load_report.adding(*warned, notes=[note]))
    notes: list[str] = []
    warnings: list[str] = []
    if pelvis > 0:
        kept, above = _find_body(motion.skeleton, pelvis)
        lost = sorted({*range(motion.skeleton.num_joints)} - {*above, *kept})
        notes.append(f"the pelvis is '{names[pelvis]}'; folded into its path: {_list_names(names, above)}")
        if lost:
            notes.append(f"left out, since not a part of the body: {_list_names(names, lost)}")
        motion = _fold_nodes(motion, kept, above, lost)
        assess_motion(motion)  # so that the body alone is known as a human, too
    height = _measure_height(motion.skeleton)
    is_stated = motion.source is not None and motion.source.format in DECLARING
    factor = 1.0
    if is_stated and not is_unit_given and not ABSURD_M[0] <= height <= ABSURD_M[1]:
        # The first factor that makes a person's height of it, 1 where none does
        low, high = STATURE_M
        factor = next((f for f in SCALES if low <= standing_height(motion.skeleton.scaled(f)) <= high), 1.0)
    if factor != 1.0:
        # Lengths of the skeleton and of all tracks, and what the source says of its unit
        source = motion.source
        if source is not None:
            metres = factor * source.metres_per_unit
            unit = next((name for name, m in METRES.items() if abs(m / metres - 1.0) < 1e-6), f"{metres:g} m")
            source = replace(source, unit=unit, metres_per_unit=metres)
        motion = replace(
            motion,
            skeleton=motion.skeleton.scaled(factor),
            root_positions=factor * motion.root_positions,
            translations=None if motion.translations is None else factor * motion.translations,
            source=source,
        )
        assess_motion(motion)
        warnings.append(
            f"the person is {height:.3g} m tall in the file's own unit; lengths were multiplied by {factor:.6g}, which "
            f"makes {_measure_height(motion.skeleton):.2f} m (unit='file' keeps the file's own)"
        )
    elif not HUMAN_M[0] <= height <= HUMAN_M[1]:
        warnings.append(f"the person is {height:.3g} m tall; if the unit of length is wrong, give unit=")
    if not notes and not warnings:
        return motion
    return replace(motion, load_report=motion.load_report.adding(*warnings, notes=notes))


def join_chains(motion: Motion) -> Motion | None:
    """Hang limbs whose chains are interrupted on the joints that they follow; ``None`` where nothing is to be joined.

    Exports of deforming bones alone (Blender's Rigify) leave out the bones between thigh and shank, so the shank hangs
    on the root and its offset changes in every frame. Its true parent is the nearest joint in whose frame it stays at
    one place. World positions stay as they are.
    """
    source, skeleton = motion.source, motion.skeleton
    if motion.translations is None or source is None or source.format not in DECLARING:
        return None
    size = float(np.ptp(skeleton.rest_positions(), axis=0).max())
    loose = np.flatnonzero(np.ptp(motion.translations, axis=0).max(axis=1) > LOOSE * size)
    positions, world = joint_frames(skeleton, motion.root_positions, motion.rotations.wxyz, motion.translations)
    index = np.unique(np.linspace(0, motion.num_frames - 1, SAMPLED_FRAMES).astype(np.int64))
    reach = np.linalg.norm(skeleton.rest_positions() - skeleton.rest_positions()[0], axis=1)
    parents, notes = skeleton.parents.copy(), list[str]()
    for joint in loose[loose > 0].tolist():
        # The joint's place in the frame of every other, which changes in all but those that carry it
        seen = world[index].inverse() @ (positions[index, joint, None] - positions[index])
        spread = np.ptp(seen, axis=0).max(axis=1)
        below = _find_body(skeleton, joint)[0]
        spread[below] = np.inf
        # A stiff wrist is steady in its elbow's frame as well: limbs lead outwards
        spread[reach >= reach[joint]] = np.inf
        steady = np.flatnonzero(spread < RIGID * size)
        if len(steady) == 0:
            continue
        nearest = int(steady[np.argmin(np.linalg.norm(seen[:, steady].mean(axis=0), axis=1))])
        chain = [nearest, *_nodes_above(parents, nearest)]
        if nearest != parents[joint] and joint not in chain:
            parents[joint] = nearest
            notes.append(f"'{skeleton.names[joint]}' to '{skeleton.names[nearest]}'")
    if not notes:
        return None
    # Parents before children
    order = sorted(range(len(parents)), key=lambda j: (len(_nodes_above(parents, j)), j))
    place = {joint: i for i, joint in enumerate(order)}
    above = np.array([place.get(int(parents[j]), NO_PARENT) for j in order], dtype=np.int64)
    posed = localise_frames(world[:, order], positions[:, order], above)
    offsets = posed.offsets.copy()
    offsets[0] = skeleton.offsets[0]
    names = tuple(skeleton.names[j] for j in order)
    bones = posed.bones.copy()
    bones[:, 0] = positions[:, order[0]]
    shown = ", ".join(notes[:MAX_NAMED]) + (f" and {len(notes) - MAX_NAMED} more" if len(notes) > MAX_NAMED else "")
    return replace(
        motion,
        skeleton=Skeleton(names, above, offsets, skeleton.tips[order], skeleton.limits, skeleton.name),
        rotations=posed.rotations,
        translations=bones if posed.stretch_m > RIGID_M else None,
        load_report=motion.load_report.adding(notes=[f"chains were interrupted; joined by how they move: {shown}"]),
    )


_measure_height = lru_cache(maxsize=64)(standing_height)  # trials of one person share a skeleton


def restore_scene(motion: Motion) -> Motion:
    """Undo the folding of a motion read from a BVH: the file's own nodes above the pelvis and beside the body.

    Nodes move as in the file while the motion has the file's frames, and rest otherwise; the pelvis takes what they do
    not, so world positions stay as they are.
    """
    source = motion.source
    scene = None if source is None else source.layout.get("scene")
    if source is None or source.format != "bvh" or scene is None:
        return motion
    joints: IntArray = np.array([int(j) for j in scene["joints"]], dtype=np.int64)
    names = tuple(cast(tuple[str, ...], scene["names"]))
    if tuple(names[int(j)] for j in scene["joints"]) != motion.skeleton.names:
        return motion
    parents = np.asarray(scene["parents"], dtype=np.int64)
    offsets, tips = (np.array(scene[key], dtype=np.float64) for key in ("offsets", "tips"))
    offsets[joints[1:]], tips[joints] = motion.skeleton.offsets[1:], motion.skeleton.tips
    frames, count, pelvis = motion.num_frames, len(names), int(joints[0])
    # Nodes as the file moves them, or at rest
    wxyz = np.zeros((frames, count, 4))
    wxyz[..., 0] = 1.0
    local = np.repeat(offsets[None], frames, axis=0)
    if source.channels is not None and len(source.channels) == frames:
        layout = ChannelMap.from_names(source.layout["channels"])
        channels = np.ascontiguousarray(source.channels)
        wxyz = rotate_wxyz(compose_euler(channels, layout.axes, layout.columns), source.up).copy()
        is_relative = source.layout.get("positions") == "relative"
        for j in sorted(set(range(count)) - set(joints.tolist())):
            raw = to_file(offsets[j], source.up) / source.metres_per_unit
            track = channels_to_positions(channels, layout, j, raw) + (raw if is_relative and j else 0.0)
            local[:, j] = to_world(track, source.up) * source.metres_per_unit
    wxyz[:, joints[1:]] = motion.rotations.wxyz[:, 1:]
    if motion.translations is not None:
        local[:, joints[1:]] = motion.translations[:, 1:]
    # What the pelvis adds to the nodes above it
    R_world, p_world = _follow_nodes(SO3(wxyz), local[:, 0], local, _nodes_above(parents, pelvis))
    wxyz[:, pelvis] = (R_world.inverse() @ motion.rotations[:, 0]).wxyz
    local[:, pelvis] = R_world.inverse() @ (motion.root_positions - p_world)
    is_rigid = np.abs(local[:, 1:] - offsets[1:]).max(initial=0.0) < RIGID_M
    return replace(
        motion,
        skeleton=Skeleton(names, parents, offsets, tips, motion.skeleton.limits, motion.skeleton.name),
        root_positions=local[:, 0],
        rotations=SO3(wxyz),
        translations=None if is_rigid else local,
    )


def _find_body(skeleton: Skeleton, pelvis: int) -> tuple[list[int], list[int]]:
    """Joints of the body, the pelvis first, and nodes above it, topmost first."""
    inside = np.zeros(skeleton.num_joints, dtype=bool)
    inside[pelvis] = True
    for j in range(pelvis + 1, skeleton.num_joints):
        inside[j] = inside[skeleton.parents[j]]
    return np.flatnonzero(inside).tolist(), _nodes_above(skeleton.parents, pelvis)


def _nodes_above(parents: IntArray, joint: int) -> list[int]:
    above: list[int] = []
    node = int(parents[joint])
    while node != NO_PARENT:
        above.append(node)
        node = int(parents[node])
    return above[::-1]


def _follow_nodes(
    rotations: SO3, root_positions: FloatArray, local: FloatArray, nodes: list[int]
) -> tuple[SO3, FloatArray]:
    """World frame of the last of a chain of nodes that begins at the root: rotations ``(F,)``, positions ``(F, 3)``.

    ``local`` holds offsets in the parent's frame, ``(F, J, 3)`` or ``(1, J, 3)``.
    """
    R_world, p_world = rotations[:, nodes[0]], np.asarray(root_positions)
    for node in nodes[1:]:
        p_world = p_world + R_world @ local[:, node]
        R_world = R_world @ rotations[:, node]
    return R_world, p_world


def _fold_nodes(motion: Motion, kept: list[int], above: list[int], lost: list[int]) -> Motion:
    skeleton, source = motion.skeleton, motion.source
    local = skeleton.offsets[None] if motion.translations is None else motion.translations
    R_world, p_world = _follow_nodes(motion.rotations, motion.root_positions, local, [*above, kept[0]])
    wxyz = motion.rotations.wxyz[:, kept].copy()
    wxyz[:, 0] = R_world.wxyz
    # The body's own tree; the pelvis rests where it rested in the scene
    place = {joint: i for i, joint in enumerate(kept)}
    parents = np.array([place.get(int(skeleton.parents[j]), NO_PARENT) for j in kept], dtype=np.int64)
    offsets = skeleton.offsets[kept].copy()
    offsets[0] = skeleton.rest_positions()[kept[0]]
    names = tuple(skeleton.names[j] for j in kept)
    limits = tuple(limit for limit in skeleton.limits if limit.joint in names)
    body = Skeleton(names, parents, offsets, skeleton.tips[kept], limits, skeleton.name)
    translations = None if motion.translations is None else motion.translations[:, kept]
    if translations is not None and np.abs(translations[:, 1:] - offsets[1:]).max(initial=0.0) < RIGID_M:
        translations = None
    if source is not None:
        layout: dict[str, Any] = dict(source.layout)
        layout["folded"] = tuple(skeleton.names[j] for j in above)
        layout["left_out"] = tuple(skeleton.names[j] for j in lost)
        if source.format == "bvh":
            layout["scene"] = {
                "joints": tuple(kept),
                "names": skeleton.names,
                "parents": skeleton.parents,
                "offsets": skeleton.offsets,
                "tips": skeleton.tips,
            }
        source = replace(source, layout=layout)
    return replace(
        motion, skeleton=body, root_positions=p_world, rotations=SO3(wxyz), translations=translations, source=source
    )


def _list_names(names: tuple[str, ...], joints: list[int]) -> str:
    shown = ", ".join(f"'{names[j]}'" for j in joints[:MAX_NAMED])
    return shown + (f" and {len(joints) - MAX_NAMED} more" if len(joints) > MAX_NAMED else "")
