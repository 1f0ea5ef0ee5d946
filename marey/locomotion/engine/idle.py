"""A stand that breathes: the chest rises, the body sways over its feet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.lie import SO3
from marey.locomotion.model.walker import RawFrame

BREATH_HZ: Final = 0.25  # [Hz] fifteen breaths a minute, of people at rest
BREATH_RAD: Final = np.radians(1.2)  # [rad] of the chest, to both sides
SWAY_PART: Final = (0.004, 0.006)  # [-] of the leg, to the side and ahead: 4 and 5 mm, as of quiet standing
SWAY_HZ: Final = ((0.11, 0.29), (0.17, 0.37))  # [Hz] two slow waves each, of no common period
EASE_S: Final = 0.8  # [s] in which it sets in, and
LEAVE_S: Final = 0.15  # [s] ends before a step


@dataclass(slots=True, eq=False)
class Idle:
    """How much of the idle shows: a share that goes to one while the character stands, and to zero when it moves."""

    share: float = 0.0

    def copy(self) -> Idle:
        """Return an independent copy."""
        return replace(self)

    def move(self, is_settled: bool, time_s: float, dt: float, frame: RawFrame, spine: tuple[int, int]) -> bool:
        """Add breath and sway to a frame, in place; returns whether there was anything to add.

        Feet are left behind: their legs have to be posed again. ``spine`` are the lowest and the highest joint of it.
        """
        wanted, ease_s = (1.0, EASE_S) if is_settled else (0.0, LEAVE_S)
        self.share = wanted + (self.share - wanted) * float(np.exp(-dt / ease_s))
        if self.share < 1e-4:
            self.share = 0.0 if not is_settled else self.share
            return False
        root, rotations, size = frame.root_position, frame.rotations, frame.leg_length_m
        # Waves that start at zero with the character
        sway = [
            size * part * (np.sin(2.0 * np.pi * low * time_s) + 0.4 * np.sin(2.0 * np.pi * high * time_s))
            for part, (low, high) in zip(SWAY_PART, SWAY_HZ, strict=True)
        ]
        level = SO3(rotations[0]) @ np.array([sway[0], 0.0, sway[1]])
        root += self.share * np.array([level[0], 0.0, level[2]])
        # The lower spine takes back what the chest opens, so that the head stays
        breath = self.share * BREATH_RAD * float(np.sin(2.0 * np.pi * BREATH_HZ * time_s))
        for joint, angle in zip(spine, (0.5 * breath, -breath), strict=True):
            rotations[joint] = (SO3(rotations[joint]) @ SO3.exp(np.array([angle, 0.0, 0.0]))).wxyz
        return True
