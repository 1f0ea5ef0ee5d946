"""Where a clip stands and which way it faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3
from marey.motion._motion import Motion
from marey.skeleton import RoleMap, role_map

UP = np.array([0.0, 1.0, 0.0])
_ACROSS = (("left_hip", "right_hip"), ("left_shoulder", "right_shoulder"))


def headings(motion: Motion, roles: RoleMap | None = None) -> FloatArray:
    r"""Yaw of the facing direction ``(F,)`` [rad]: 0 is +Z, positive towards +X, continuous in time.

    The body's left is the mean of right-to-left vectors between the hips and between the shoulders, and it faces
    across that: :math:`f = \ell \times e_y`, which is level, so it holds for a body bent forward or lying on its front.
    While the line of hips and shoulders is nearly vertical (a cartwheel, lying on a side) the yaw is interpolated.
    Without such roles the root's own +Z axis is used.
    """
    across = _left_vectors(motion, role_map(motion.skeleton) if roles is None else roles)
    level = np.hypot(across[:, 0], across[:, 2])
    sure = level > 0.3 * np.linalg.norm(across, axis=1)
    if not sure.any():
        sure = level >= level.max()
    yaw = np.unwrap(np.arctan2(-across[sure, 2], across[sure, 0]))
    frames = np.arange(len(across))
    return np.asarray(np.interp(frames, frames[sure], yaw), dtype=np.float64)


def _left_vectors(motion: Motion, roles: RoleMap) -> FloatArray:
    """The body's left ``(F, 3)``: the mean of unit vectors across hips and shoulders, or the root's +X axis."""
    pairs = [(roles[a], roles[b]) for a, b in _ACROSS if a in roles and b in roles]
    if not pairs:
        return motion.rotations[:, 0] @ np.array([1.0, 0.0, 0.0])
    positions = motion.joint_positions()
    lines = np.stack([positions[:, left] - positions[:, right] for left, right in pairs])
    lines /= np.maximum(np.linalg.norm(lines, axis=-1, keepdims=True), 1e-9)
    return lines.sum(axis=0)


def place(
    motion: Motion,
    position: Sequence[float] | None = None,
    heading: float | None = None,
    *,
    frame: int = 0,
) -> Motion:
    """Move a clip on the ground so that at ``frame`` its root is at ``position`` and its body faces ``heading``.

    Args:
        motion: any clip.
        position: ``(x, z)`` [m]; where it is by default.
        heading: yaw [rad], 0 is +Z, positive towards +X; as it is by default.
        frame: which frame is placed; negative counts from the end.
    """
    if not -motion.num_frames <= frame < motion.num_frames:
        raise InputError(f"frame {frame} of a motion of {motion.num_frames} frames")
    here = motion.root_positions[frame] * [1.0, 0.0, 1.0]
    there = here if position is None else frozen([position[0], 0.0, position[1]], 3, name="position")
    turn = 0.0 if heading is None else float(heading) - float(headings(motion)[frame])
    return transform_motion(motion, turn, here, there)


def transform_motion(motion: Motion, turn_rad: float, here: FloatArray, there: FloatArray) -> Motion:
    """Turn a clip by ``turn_rad`` about the vertical through ``here`` and carry ``here`` to ``there`` (3,) [m]."""
    R_turn = SO3.exp(turn_rad * UP)
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = (R_turn @ motion.rotations[:, 0]).wxyz
    return replace(
        motion,
        root_positions=R_turn @ (motion.root_positions - here) + there,
        rotations=SO3(wxyz),
        source=None if motion.source is None else replace(motion.source, channels=None, dropped=None),
    )
