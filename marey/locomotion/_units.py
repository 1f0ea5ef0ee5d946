"""Motion units: one cycle of walking or running as a table of numbers, with who did what how fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3, frechet_mean
from marey.skeleton import Skeleton, joint_positions


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One cycle, from right strike to right strike (end excluded), on the model's skeleton."""

    root: FloatArray  # (N, 3) sway of the root over leg length; y is its height
    wxyz: FloatArray  # (N, J, 4) the root's relative to the heading
    subject: str
    gait: str  # "walk", "run" or "stand"
    speed_n: float  # [1/s] normalised speed
    speed_mps: float  # as captured
    leg_length_m: float  # of the performer
    duration_s: float  # as captured
    clip: str = ""
    start: int = 0  # frames of the clip
    stop: int = 0
    side: str = "right"  # the foot that strikes at its first captured frame
    opposite: float = 0.5  # phase at which the other foot struck, before time was warped

    @property
    def num_frames(self) -> int:
        """Frames of the unit."""
        return len(self.root)


def mean_rotations(wxyz: FloatArray) -> FloatArray:
    """Karcher means ``(J, 4)`` of the joints of many poses ``(n, J, 4)``."""
    return frechet_mean(SO3(wxyz)).wxyz


def unit_rows(root: FloatArray, wxyz: FloatArray, means: FloatArray) -> FloatArray:
    r"""Rows ``(N, 3 + 3 J)`` of a unit: root, then :math:`v_j = \log(\bar q_j^{-1} q_j)` of every joint."""
    logs = (SO3(means).inverse() @ SO3(wxyz)).log()
    return np.concatenate([root, unwrapped(logs).reshape(len(root), -1)], axis=1)


def unwrapped(logs: FloatArray) -> FloatArray:
    r"""Rotation vectors ``(N, J, 3)`` that follow the frame before: :math:`v \leftarrow v (1 - 2\pi/\|v\|)`."""
    out = logs.copy()
    for i in range(1, len(out)):
        far = np.linalg.norm(out[i] - out[i - 1], axis=-1) > np.pi
        size = np.linalg.norm(out[i][far], axis=-1, keepdims=True)
        out[i][far] *= 1.0 - 2.0 * np.pi / size
    return out


def rows_root(rows: FloatArray, leg_length_m: float) -> FloatArray:
    """Root positions ``(N, 3)`` [m] of rows, in the frame of the carriage."""
    return leg_length_m * rows[..., :3]


def rows_wxyz(rows: FloatArray, means: FloatArray) -> FloatArray:
    """Joint rotations ``(..., J, 4)`` of rows ``(..., 3 + 3 J)``."""
    logs = rows[..., 3:].reshape(*rows.shape[:-1], len(means), 3)
    return (SO3(means) @ SO3.exp(logs)).wxyz


def rows_positions(rows: FloatArray, means: FloatArray, skeleton: Skeleton, leg_length_m: float) -> FloatArray:
    """Joint positions ``(N, J, 3)`` [m] of rows ``(N, D)`` in the frame of the carriage."""
    return joint_positions(skeleton, rows_root(rows, leg_length_m), rows_wxyz(rows, means))
