"""The way back from three numbers to a rotation, which the product does in compiled loops."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3


def from_chart(space: str, triples: FloatArray) -> SO3:
    """Rotations of triples ``(..., 3)`` [rad]: rotation vectors, or Euler angles about x, then y, then z."""
    if space == "exponential":
        return SO3.exp(triples)
    about = [SO3.exp(triples[..., axis, None] * np.eye(3)[axis]) for axis in range(3)]
    return about[2] @ about[1] @ about[0]
