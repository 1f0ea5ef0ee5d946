"""From a stretch of a clip to a motion unit: one cycle, closed, straight ahead, at a fixed number of frames."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3


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


def centre_root_path(root: FloatArray) -> FloatArray:
    """Root path ``(N, 3)`` about the middle of its sway on the ground; heights stay."""
    return root - root.mean(axis=0) * np.array([1.0, 0.0, 1.0])


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
