"""Euler angles: they live in files and die here, between channel values and quaternions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import SO3

AXES: Final = "xyz"
NONE: Final = -1  # a joint has fewer than three channels of this kind


@dataclass(frozen=True, slots=True, eq=False)
class ChannelMap:
    """Which column of the channel table ``(F, C)`` drives which joint, and how.

    Rotations multiply in the order of their channels: ``Zrotation Yrotation Xrotation`` is ``Rz @ Ry @ Rx``.
    """

    names: tuple[tuple[str, ...], ...]  # (J,) channel names of each joint, "Xposition" .. "Zrotation"
    axes: IntArray  # (J, 3) rotation axis (0, 1, 2) in order, or NONE
    columns: IntArray  # (J, 3) column of each rotation, or NONE
    positions: IntArray  # (J, 3) column of the x, y and z position, or NONE

    @classmethod
    def from_names(cls, names: Sequence[Sequence[str]]) -> ChannelMap:
        """Number the channels of all joints one after the other, as BVH does."""
        axes, columns, positions = (np.full((len(names), 3), NONE, dtype=np.int64) for _ in range(3))
        column = 0
        for joint, channels in enumerate(names):
            turns = 0
            for channel in channels:
                axis = AXES.index(channel[0].lower())
                if channel[1] == "p":
                    positions[joint, axis] = column
                else:
                    axes[joint, turns], columns[joint, turns] = axis, column
                    turns += 1
                column += 1
        return cls(tuple(tuple(n) for n in names), axes, columns, positions)

    @property
    def num_channels(self) -> int:
        """How many columns the table has."""
        return sum(len(n) for n in self.names)


def wrap_rotations(wxyz: FloatArray) -> SO3:
    """Wrap quaternions that our own kernel made: finite, unit to rounding and read-only, so not checked again."""
    rotations = SO3.__new__(SO3)
    wxyz.setflags(write=False)
    object.__setattr__(rotations, "wxyz", wxyz)
    return rotations


def channels_to_positions(channels: FloatArray, layout: ChannelMap, joint: int, default: FloatArray) -> FloatArray:
    """Position ``(F, 3)`` of one joint in file units; axes without a channel take ``default`` (3,)."""
    result = np.empty((len(channels), 3))
    for axis in range(3):
        column = layout.positions[joint, axis]
        result[:, axis] = default[axis] if column == NONE else channels[:, column]
    return result
