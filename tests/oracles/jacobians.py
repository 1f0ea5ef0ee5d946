"""The inverse right Jacobian of rotations as a matrix: what compiled products with it are held against."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray
from marey.lie.calculus import left_jacobian_inverse


def right_jacobian_inverse(v: ArrayLike) -> FloatArray:
    """Inverse ``(..., 3, 3)`` of ``right_jacobian``: the transpose of the inverse left Jacobian."""
    return np.swapaxes(left_jacobian_inverse(v), -1, -2)
