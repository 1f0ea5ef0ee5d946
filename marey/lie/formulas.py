"""Quaternion arithmetic, written once and run twice.

Each function takes components, which are arrays in numpy and scalars in a compiled loop (``batch_kernels``,
``kernels``). They only add and multiply, so both ways give the same bits and the choice between them is one of speed
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marey.base import EPS

UNIT_TOL = 8 * EPS  # [-] a norm this near to one is left alone, so that normalising twice changes nothing

Four = tuple[Any, Any, Any, Any]
Three = tuple[Any, Any, Any]


def renormalise(w: Any, x: Any, y: Any, z: Any) -> Four:
    r"""Bring a product of unit quaternions back to norm one where it has drifted by more than ``UNIT_TOL``.

    One Newton step, :math:`q\,(1 + \frac12(1 - \|q\|^2))`, is exact to rounding for a drift of a few ulp.
    """
    excess = w * w + x * x + y * y + z * z - 1.0
    scale = 1.0 - 0.5 * excess * (np.abs(excess) > 2.0 * UNIT_TOL)
    return scale * w, scale * x, scale * y, scale * z


def product(a: Any, b: Any, c: Any, d: Any, w: Any, x: Any, y: Any, z: Any) -> Four:
    """Hamilton product of ``(a, b, c, d)`` and ``(w, x, y, z)``."""
    return (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )


def rotate_xyz(w: Any, x: Any, y: Any, z: Any, a: Any, b: Any, c: Any) -> Three:
    r"""Turn the point ``p = (a, b, c)``: :math:`p + w\,t + u \times t` with :math:`t = 2\,u \times p`."""
    r = 2.0 * (y * c - z * b)
    s = 2.0 * (z * a - x * c)
    t = 2.0 * (x * b - y * a)
    return a + w * r + (y * t - z * s), b + w * s + (z * r - x * t), c + w * t + (x * s - y * r)


def matrix_entries(w: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any, Any, Any]:
    """Entries of the rotation matrix, row by row."""
    return (
        1.0 - 2.0 * (y * y + z * z),
        2.0 * (x * y - w * z),
        2.0 * (x * z + w * y),
        2.0 * (x * y + w * z),
        1.0 - 2.0 * (x * x + z * z),
        2.0 * (y * z - w * x),
        2.0 * (x * z - w * y),
        2.0 * (y * z + w * x),
        1.0 - 2.0 * (x * x + y * y),
    )
