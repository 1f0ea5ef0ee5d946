"""Rigs as other tools write them: a clip with nodes above its hips, other names, units, axes, extra bones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marey.base import FloatArray
from marey.io.vertical_axis import rotate_wxyz, to_file
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Skeleton


def insert_nodes(
    motion: Motion, offsets: Sequence[Sequence[float]], rng: np.random.Generator, *, moves: bool = True
) -> Motion:
    """Hang the root on nodes of given offsets [m] that turn and travel; joints stay where they are in world."""
    count, frames = len(offsets), motion.num_frames
    times = np.linspace(0.0, 1.0, frames)[:, None]
    wxyz = np.concatenate([SO3.identity(frames, count).wxyz, motion.rotations.wxyz], axis=1)
    local = np.zeros((frames, count + motion.skeleton.num_joints, 3))
    local[:, :count] = np.asarray(offsets)
    local[:, count + 1 :] = motion.skeleton.offsets[1:] if motion.translations is None else motion.translations[:, 1:]
    R_world, p_world = SO3.identity(frames), np.zeros((frames, 3))
    for node in range(count):
        turn = SO3.exp(rng.normal(size=3)) if moves else SO3.identity()
        if moves:
            local[:, node] = np.asarray(offsets)[node] + times * rng.normal(size=3)
        wxyz[:, node] = np.broadcast_to(turn.wxyz, (frames, 4))
        p_world = p_world + R_world @ local[:, node]
        R_world = R_world @ SO3(wxyz[:, node])
    wxyz[:, count] = (R_world.inverse() @ motion.rotations[:, 0]).wxyz
    local[:, count] = R_world.inverse() @ (motion.root_positions - p_world)
    parents = np.concatenate([np.arange(count) - 1, motion.skeleton.parents + count])
    parents[0] = NO_PARENT
    bones = np.concatenate([np.asarray(offsets, dtype=float), motion.skeleton.offsets])
    bones[count] = local[0, count]
    skeleton = Skeleton(
        (*(f"node {k}" for k in range(count)), *motion.skeleton.names),
        parents,
        bones,
        np.concatenate([np.zeros((count, 3)), motion.skeleton.tips]),
    )
    return Motion(skeleton, motion.rate_hz, local[:, 0], SO3(wxyz), translations=local, name=motion.name)


def rename(motion: Motion, names: Sequence[str]) -> Motion:
    """Give the joints other names."""
    return replace(motion, skeleton=replace(motion.skeleton, names=tuple(names)), source=None)


def scale(motion: Motion, factor: float) -> Motion:
    """Write lengths in another unit: ``factor`` units a metre."""
    return replace(
        motion,
        skeleton=motion.skeleton.scaled(factor),
        root_positions=motion.root_positions * factor,
        translations=None if motion.translations is None else motion.translations * factor,
        source=None,
    )


def turn_up(motion: Motion) -> Motion:
    """Turn a clip from Y up to Z up."""
    body = replace(
        motion.skeleton, offsets=to_file(motion.skeleton.offsets, "+z"), tips=to_file(motion.skeleton.tips, "+z")
    )
    return replace(
        motion,
        skeleton=body,
        root_positions=to_file(motion.root_positions, "+z"),
        rotations=SO3(rotate_wxyz(motion.rotations.wxyz, "+z", back=True)),
        translations=None if motion.translations is None else to_file(motion.translations, "+z"),
        source=None,
    )


def add_twigs(motion: Motion, rng: np.random.Generator, count: int = 40) -> Motion:
    """Hang short bones on random joints: twist bones, fingers, buckles; the file lists them last."""
    skeleton = motion.skeleton
    hosts = rng.integers(0, skeleton.num_joints, size=count)
    sizes = 0.02 + 0.08 * rng.random(count)
    twigs = rng.normal(size=(count, 3))
    twigs *= (sizes / np.linalg.norm(twigs, axis=1))[:, None]
    body = Skeleton(
        (*skeleton.names, *(f"twig {k}" for k in range(count))),
        np.concatenate([skeleton.parents, hosts]),
        np.concatenate([skeleton.offsets, twigs]),
        np.concatenate([skeleton.tips, np.zeros((count, 3))]),
    )
    wxyz = np.concatenate([motion.rotations.wxyz, SO3.identity(motion.num_frames, count).wxyz], axis=1)
    return replace(motion, skeleton=body, rotations=SO3(wxyz), translations=None, source=None)


def drop_joints(motion: Motion, lost: Sequence[int]) -> Motion:
    """Take joints out that carry no others that stay."""
    skeleton = motion.skeleton
    kept = [j for j in range(skeleton.num_joints) if j not in set(lost)]
    place = {joint: i for i, joint in enumerate(kept)}
    parents = np.array([place.get(int(skeleton.parents[j]), NO_PARENT) for j in kept])
    body = Skeleton(
        tuple(skeleton.names[j] for j in kept), parents, skeleton.offsets[kept], skeleton.tips[kept], name=skeleton.name
    )
    return replace(motion, skeleton=body, rotations=motion.rotations[:, kept], translations=None, source=None)


def change_rest(motion: Motion, R_rest_joint: SO3) -> Motion:
    """Draw the skeleton in another rest pose, given by world rotations of its joints; the motion stays the same.

    With the new frames :math:`G_j` in the old rest pose, :math:`R'_j = G_{p(j)}^{-1} R_j G_j` and
    :math:`o'_j = G_{p(j)}^{-1} o_j`.
    """
    skeleton = motion.skeleton
    above = np.maximum(skeleton.parents, 0)
    offsets: FloatArray = skeleton.offsets.copy()
    offsets[1:] = R_rest_joint[above[1:]].inverse() @ skeleton.offsets[1:]
    tips = R_rest_joint.inverse() @ skeleton.tips
    wxyz = (motion.rotations @ R_rest_joint).wxyz.copy()
    wxyz[:, 1:] = (R_rest_joint[above[1:]].inverse() @ motion.rotations[:, 1:] @ R_rest_joint[1:]).wxyz
    body = replace(skeleton, offsets=offsets, tips=tips)
    return replace(motion, skeleton=body, rotations=SO3(wxyz), translations=None, source=None)
