"""Gaze: the frame that a head should have, and how it turns as what it looks at moves."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray

NEAREST_M: Final = 1e-3  # [m] to look at something nearer has no direction
LEAST_ACROSS: Final = 0.05  # [-] part of "up" across the gaze; below it, upright has no meaning


def gaze_frame(view: FloatArray, up: FloatArray) -> FloatArray | None:
    r"""Frame ``(3, 3)`` whose columns are the gaze, the crown and their product.

    .. math:: e_1 = w/\|w\|,\quad e_2 \propto u - e_1 (e_1\cdot u),\quad e_3 = e_1\times e_2

    [Tournier2011]_ §15.1. None where the gaze has no direction, or is along ``up``.
    """
    far, length = float(np.linalg.norm(view)), float(np.linalg.norm(up))
    if far < NEAREST_M or length < 1e-12:
        return None
    first = view / far
    across = up / length - first * float(first @ up) / length
    part = float(np.linalg.norm(across))
    if part < LEAST_ACROSS:
        return None
    second = across / part
    return np.stack([first, second, np.cross(first, second)], axis=1)


def gaze_rate(frame: FloatArray, view: FloatArray, view_velocity: FloatArray, up: FloatArray) -> FloatArray:
    r"""Angular velocity ``(3,)`` of a gaze's frame, in that frame, while the view changes.

    .. math:: y = g^T\dot w/\|w\|,\quad g^T u = (a, b, 0):\qquad d^b g = (-\tfrac ab y_3,\ -y_3,\ y_2)

    The source leaves this out; ours, so that a moving target is followed without lag.
    """
    y = frame.T @ view_velocity / float(np.linalg.norm(view))
    a, b, _ = frame.T @ up
    return np.array([-a / b * y[2], -y[2], y[1]])
