"""A source made fit to be measured: bones that a conversion lost are put back, ankles that flipped are turned back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import MareyError
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import (
    RoleMap,
    find_lost_bones,
    known_thorax,
    restore_bones,
    t_pose,
    thorax_from,
)

MAX_ASF_FILES: Final = 8  # original skeletons looked at beside a BVH file
ANKLE_RAD: Final = np.radians(85.0)  # [rad] an ankle turns no further from standing, in any direction


def restore_source(motion: Motion) -> tuple[Motion, str]:
    """Put back bones that a conversion lost: from the ASF file beside the clip, a known person, or anthropometry."""
    lost = find_lost_bones(motion.skeleton)
    if not lost or motion.translations is not None:
        return motion, ""
    thorax, told = None, "from the bone below it and half the forearm"
    folder = Path(motion.source.path).parent if motion.source is not None and motion.source.path else None
    for file in sorted(folder.glob("*.asf"))[:MAX_ASF_FILES] if folder is not None and folder.is_dir() else ():
        from marey.io import load  # the readers are needed by few clips

        try:
            thorax = thorax_from(load(file).skeleton, motion.skeleton)
        except (MareyError, OSError):
            continue
        if thorax is not None:
            told = f"from {file.name}"
            break
    if thorax is None:
        thorax = known_thorax(motion.skeleton)
        told = told if thorax is None else "from the original skeleton of this person"
    skeleton = restore_bones(motion.skeleton, thorax=thorax)
    return replace(motion, skeleton=skeleton, source=None), f"thorax and wrists put back {told}"


def mend_ankles(motion: Motion, roles: RoleMap) -> tuple[Motion, str]:
    """Turn back ankles that are farther from standing than an ankle can turn; says how many frames there were.

    Captures with few markers on the feet leave the roll of a foot to chance, and its Euler angles flip. The foot then
    keeps the direction to its ball and takes its roll from the shank; where that direction is impossible too, its angle
    is drawn from the frames before and after.
    """
    pose = t_pose(motion.skeleton, roles)
    R_world_rest, p_rest = pose.joint_rotations(), pose.joint_positions()
    positions, frames = motion.joint_frames()
    wxyz, told = motion.rotations.wxyz.copy(), list[str]()
    for side in ("left", "right"):
        knee, ankle, ball = (roles.get(f"{side}_{part}") for part in ("knee", "ankle", "foot"))
        if knee is None or ankle is None:
            continue
        shank = frames[:, knee] @ R_world_rest[knee].inverse()
        bend = shank.inverse() @ frames[:, ankle] @ R_world_rest[ankle].inverse()
        is_wrong = bend.angle() > ANKLE_RAD
        if not is_wrong.any():
            continue
        vectors = bend.log()
        if ball is not None:
            foot, rest = positions[:, ball] - positions[:, ankle], p_rest[ball] - p_rest[ankle]
            if min(np.linalg.norm(foot, axis=-1).min(), np.linalg.norm(rest)) > 1e-5:
                arc = SO3.from_two_vectors(rest, shank.inverse() @ foot)
                vectors[is_wrong] = arc.log()[is_wrong]
        known = np.flatnonzero(np.linalg.norm(vectors, axis=-1) <= ANKLE_RAD)
        for axis in range(3):
            vectors[:, axis] = np.interp(np.arange(len(vectors)), known, vectors[known, axis]) if len(known) else 0.0
        R_world_ankle = shank @ SO3.exp(vectors) @ R_world_rest[ankle]
        R_above = frames[:, int(motion.skeleton.parents[ankle])]
        wxyz[is_wrong, ankle] = (R_above.inverse() @ R_world_ankle).wxyz[is_wrong]
        if ball is not None:
            wxyz[is_wrong, ball] = pose.rotations.wxyz[ball]
        told.append(f"{side} in {int(is_wrong.sum())}")
    if not told:
        return motion, ""
    note = f"ankles turned back that were more than {np.degrees(ANKLE_RAD):.0f} degrees from standing: "
    return replace(motion, rotations=SO3(wxyz), source=None), f"{note}{', '.join(told)} of {len(wxyz)} frames"
