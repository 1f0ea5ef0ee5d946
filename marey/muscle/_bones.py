"""Rigid bones that carry nodes of a soft body."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.muscle._solver import BoneArrays, System, no_bones


class NoBones:
    """A body without bones."""

    num_rows = 0
    arrays: BoneArrays

    def __init__(self) -> None:
        self.arrays = no_bones()

    def start(self, velocities: FloatArray) -> FloatArray:
        """Unknowns (V, 3) that a solve starts from."""
        return velocities.copy()

    def weigh(self, h: float) -> None:
        """Nothing to weigh."""

    def prepare(self, system: System) -> None:
        """Nothing to prepare."""

    def push(self, right: FloatArray) -> None:
        """Nothing pushes."""

    def carry(self, positions: FloatArray, velocities: FloatArray, h: float) -> FloatArray:
        """Positions (V, 3) after a step."""
        return np.add(positions, h * velocities)
