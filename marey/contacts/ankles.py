"""Ankles that flipped in a capture, turned back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.lie import SO3
from marey.motion import Motion, find_runs
from marey.skeleton import RoleMap, t_pose

ANKLE_RAD: Final = np.radians(85.0)  # [rad] an ankle turns no further from standing, in any direction
USUAL_RAD: Final = np.radians(60.0)  # [rad] and one that is farther on its way there flips already


def mend_ankles(motion: Motion, roles: RoleMap) -> tuple[Motion, str]:
    """Turn back ankles that are farther from standing than an ankle can turn; says how many frames there were.

    Captures with few markers on the feet leave the roll of a foot to chance, and its Euler angles flip. The foot then
    keeps the direction to its ball and takes its roll from the shank; where that direction is impossible too, its angle
    is drawn from the frames before and after.
    """
    pose = t_pose(motion.skeleton, roles)
    R_world_rest, p_rest = pose.joint_rotations(), pose.joint_positions()
    legs = {
        side: (knee, ankle, roles.get(f"{side}_foot"))
        for side in ("left", "right")
        if (knee := roles.get(f"{side}_knee")) is not None and (ankle := roles.get(f"{side}_ankle")) is not None
    }

    def find_bend(frames: SO3, knee: int, ankle: int) -> tuple[SO3, SO3]:
        # Turn of the shank from standing, and of the ankle against it
        shank = frames[:, knee] @ R_world_rest[knee].inverse()
        return shank, shank.inverse() @ frames[:, ankle] @ R_world_rest[ankle].inverse()

    # Joint frames of the whole clip are made only if an ankle is wrong somewhere
    angles = (
        motion.map_frames(
            lambda _, frames: np.stack([find_bend(frames, k, a)[1].angle() for k, a, _ in legs.values()], axis=-1)
        )
        if legs
        else np.zeros((motion.num_frames, 0))
    )
    if not (angles > ANKLE_RAD).any():
        return motion, ""
    positions, frames = motion.joint_frames()
    wxyz, told = motion.rotations.wxyz.copy(), list[str]()
    for number, (side, (knee, ankle, ball)) in enumerate(legs.items()):
        # From where it leaves what ankles do until it is back
        is_wrong = np.zeros(len(angles), dtype=np.bool_)
        for start, stop in find_runs(angles[:, number] > USUAL_RAD, 0):
            is_wrong[start:stop] = angles[start:stop, number].max() > ANKLE_RAD
        if not is_wrong.any():
            continue
        shank, bend = find_bend(frames, knee, ankle)
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
    note = f"ankles turned back that were more than {np.degrees(ANKLE_RAD):.0f} degrees from standing: "
    return replace(motion, rotations=SO3(wxyz), source=None), f"{note}{', '.join(told)} of {len(wxyz)} frames"
