"""Motion units: one cycle of walking or running as a table of numbers, with its subject, gait and speed.

A stretch of a clip becomes a unit when its cycle is closed, straightened and resampled to a fixed number of frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3, frechet_mean
from marey.skeleton import Skeleton, joint_positions

NEAR_RAD: Final = float(np.deg2rad(5.0))  # axes of smaller rotations are noise
FAR_RAD: Final = float(np.deg2rad(90.0))
SPREAD_RAD: Final = float(np.deg2rad(20.0))


@dataclass(frozen=True, slots=True, eq=False)
class MotionUnit:
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


def joint_means(wxyz: FloatArray) -> FloatArray:
    """Karcher means ``(J, 4)`` of the joints of many poses ``(n, J, 4)``."""
    return frechet_mean(SO3(wxyz)).wxyz


def unit_rows(root: FloatArray, wxyz: FloatArray, means: FloatArray) -> FloatArray:
    r"""Rows ``(N, 3 + 3 J)`` of a unit: root, then :math:`v_j = \log(\bar q_j^{-1} q_j)` of every joint."""
    logs = (SO3(means).inverse() @ SO3(wxyz)).log()
    return np.concatenate([root, unwrap_rotation_vectors(logs).reshape(len(root), -1)], axis=1)


def unwrap_rotation_vectors(logs: FloatArray) -> FloatArray:
    r"""Rotation vectors ``(N, J, 3)`` that follow the frame before: :math:`v \leftarrow v (1 - 2\pi/\|v\|)`."""
    out = logs.copy()
    for i in range(1, len(out)):
        far = np.linalg.norm(out[i] - out[i - 1], axis=-1) > np.pi
        size = np.linalg.norm(out[i][far], axis=-1, keepdims=True)
        out[i][far] *= 1.0 - 2.0 * np.pi / size
    return out


def find_far_rotations(table: FloatArray, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Joints for which lines may not replace arcs: largest angle and largest angle between axes [rad], by name.

    Linear operations on rotation vectors are safe while these are short or nearly parallel ([Glardon2005]_ §II.2.2);
    a joint is told when its vectors exceed 90° and their axes differ by more than 20° at one frame.

    Args:
        table: ``(n, N, D)`` rows of units.
        names: ``(J,)`` of the joints.
    """
    logs = table[..., 3:].reshape(*table.shape[:2], len(names), 3)
    sizes = np.linalg.norm(logs, axis=-1)
    spread = np.max([_axis_spread(logs[:, f], sizes[:, f]) for f in range(table.shape[1])], axis=0)
    largest = sizes.max(axis=(0, 1))
    told = (largest > FAR_RAD) & (spread > SPREAD_RAD)
    return {names[j]: (float(largest[j]), float(spread[j])) for j in np.flatnonzero(told).tolist()}


def _axis_spread(logs: FloatArray, sizes: FloatArray) -> FloatArray:
    """Largest angle ``(J,)`` [rad] between the axes of rotation vectors ``(n, J, 3)``, whichever way they turn."""
    axes = logs / np.maximum(sizes[..., None], 1e-12)
    across = np.abs(np.einsum("aji,bji->abj", axes, axes))
    both = (sizes[:, None] > NEAR_RAD) & (sizes[None] > NEAR_RAD)
    return np.arccos(np.clip(np.where(both, across, 1.0), -1.0, 1.0)).max(axis=(0, 1))


def root_from_rows(rows: FloatArray, leg_length_m: float) -> FloatArray:
    """Root positions ``(N, 3)`` [m] of rows, in the frame of the carriage."""
    return leg_length_m * rows[..., :3]


def rotations_from_rows(rows: FloatArray, means: FloatArray) -> FloatArray:
    """Joint rotations ``(..., J, 4)`` of rows ``(..., 3 + 3 J)``."""
    logs = rows[..., 3:].reshape(*rows.shape[:-1], len(means), 3)
    return (SO3(means) @ SO3.exp(logs)).wxyz


def positions_from_rows(rows: FloatArray, means: FloatArray, skeleton: Skeleton, leg_length_m: float) -> FloatArray:
    """Joint positions ``(N, J, 3)`` [m] of rows ``(N, D)`` in the frame of the carriage."""
    return joint_positions(skeleton, root_from_rows(rows, leg_length_m), rotations_from_rows(rows, means))


class Cycle(NamedTuple):
    """Frames of one cycle: root ``(N, 3)`` and joint rotations ``(N, J, 4)`` wxyz."""

    root: FloatArray
    wxyz: FloatArray


def closing_residual(start: FloatArray, end: FloatArray) -> FloatArray:
    """Angle ``(J,)`` [rad] between the first and the last pose ``(J, 4)`` of a cycle."""
    return (SO3(end).inverse() @ SO3(start)).angle()


def close_cycle(root: FloatArray, wxyz: FloatArray) -> Cycle:
    r"""Make the end of a cycle equal its start, end frame included.

    .. math:: x(u) \leftarrow x(u) - u\,(x(1) - x(0)), \qquad q(u) \leftarrow q(u)\exp(u\,\log(q(1)^{-1} q(0)))

    The drift of the root goes too: what is left is the sway of a walk on a treadmill.
    """
    u = np.linspace(0.0, 1.0, len(root))
    drift = (SO3(wxyz[-1]).inverse() @ SO3(wxyz[0])).log()
    turned = SO3(wxyz) @ SO3.exp(u[:, None, None] * drift)
    return Cycle(root - u[:, None] * (root[-1] - root[0]), turned.wxyz)


def straighten_cycle(root: FloatArray, wxyz: FloatArray, heading_rad: float) -> Cycle:
    """Turn a stretch so that it travels along +Z, seen from a carriage that moves evenly with it."""
    R_turn = SO3.exp(np.array([0.0, -heading_rad, 0.0]))
    turned = wxyz.copy()
    turned[:, 0] = (R_turn @ SO3(wxyz[:, 0])).wxyz
    return Cycle(R_turn @ root, turned)


def warp_phases(count: int, opposite: float) -> FloatArray:
    r"""Phases ``(N,)`` of the source at which to sample so that the other foot strikes at one half.

    .. math:: \varphi_{out} = \varphi + (\tfrac12 - \varphi_o) \sin^2 \pi\varphi

    which is smooth all the way round; inverted by a table.
    """
    source = np.linspace(0.0, 1.0, 1001)
    shift = (0.5 - opposite) / np.sin(np.pi * opposite) ** 2
    return np.interp(np.arange(count) / count, source + shift * np.sin(np.pi * source) ** 2, source)


def resample_cycle(cycle: Cycle, phases: FloatArray) -> Cycle:
    """Sample a closed cycle (end frame included) at phases in ``[0, 1]``: vectors by lines, rotations by arcs."""
    where = np.asarray(phases % 1.0, dtype=np.float64) * (len(cycle.root) - 1)
    low = np.minimum(where.astype(np.int64), len(cycle.root) - 2)
    part = where - low
    root = cycle.root[low] + part[:, None] * (cycle.root[low + 1] - cycle.root[low])
    wxyz = SO3(cycle.wxyz[low]).slerp(SO3(cycle.wxyz[low + 1]), part[:, None]).wxyz
    return Cycle(root, wxyz)
