"""Walks with one thing wrong, made from good ones: the rest of the clip is left as it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import role_map


def drag_root(motion: Motion, speed_mps: float = 0.3) -> Motion:
    """Add a constant drift along the way."""
    way = motion.root_positions[-1] - motion.root_positions[0]
    way = way * [1.0, 0.0, 1.0] / np.hypot(way[0], way[2])
    return replace(motion, root_positions=motion.root_positions + speed_mps * motion.times()[:, None] * way)


def bend_knee_backwards(motion: Motion, frame: int, angle_deg: float = 15.0, frames: int = 3) -> Motion:
    """Set the left knee to a flexion of ``-angle_deg`` in its own bend plane, foot and all."""
    roles = role_map(motion.skeleton)
    positions, R_world_joint = motion.joint_frames()
    hip, knee, ankle = (roles[f"left_{part}"] for part in ("hip", "knee", "ankle"))
    wxyz = motion.rotations.wxyz.copy()
    # The hinge of the knee, from the frame in which it is bent most
    thigh, shank = positions[:, knee] - positions[:, hip], positions[:, ankle] - positions[:, knee]
    across = R_world_joint[:, hip].inverse() @ np.cross(thigh, shank)
    hinge = across[np.argmax(np.linalg.norm(across, axis=1))]
    hinge = hinge / np.linalg.norm(hinge)
    for f in range(frame, frame + frames):
        axis_world = R_world_joint[f, hip] @ hinge
        flexion = np.arctan2(np.cross(thigh[f], shank[f]) @ axis_world, thigh[f] @ shank[f])
        turn = SO3.exp(-(flexion + np.deg2rad(angle_deg)) * axis_world)
        parent = R_world_joint[f, int(motion.skeleton.parents[knee])]
        wxyz[f, knee] = (parent.inverse() @ turn @ R_world_joint[f, knee]).wxyz
    return replace(motion, rotations=SO3(wxyz))


def jump_root(motion: Motion, frame: int, size_m: float = 0.3, *, returns: bool = True) -> Motion:
    """Put one frame, or all from it on, to the side."""
    positions = motion.root_positions.copy()
    positions[frame : frame + 1 if returns else None, 0] += size_m
    return replace(motion, root_positions=positions)


def float_root(motion: Motion, height_m: float = 0.1) -> Motion:
    """Lift the whole clip."""
    return replace(motion, root_positions=motion.root_positions + np.array([0.0, height_m, 0.0]))
