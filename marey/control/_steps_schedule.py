"""Schedule: when a clip puts its feet down, rolls over them and lifts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.motion import find_runs

AIR, HEEL, FLAT, BALL = range(4)  # how a foot stands: not at all, on its heel, on its sole, on its ball
FLAT_M: Final = 0.02  # [m] a sole whose corners are all lower lies flat


@dataclass(frozen=True, slots=True, eq=False)
class FootSchedule:
    """How both feet of a clip stand, frame by frame."""

    phases: IntArray  # (F, 2) AIR, HEEL, FLAT or BALL
    landings: IntArray  # (F, 2) frame in which a foot that is in the air lands; F where it never does
    lifts: IntArray  # (F, 2) frame in which a foot that is down is lifted; F where it never is

    def __len__(self) -> int:
        return len(self.phases)


def make_schedule(corners: FloatArray, down: BoolArray) -> FootSchedule:
    """Schedule of a clip.

    Args:
        corners: of the soles, and toes ``(F, 2, 5, 3)`` [m] above a floor at height zero.
        down: feet on the ground ``(F, 2)``.
    """
    heels, balls = corners[:, :, :2, 1].max(axis=-1), corners[:, :, 2:4, 1].max(axis=-1)
    rolling = np.where(heels < balls, HEEL, BALL)
    phases = np.where(np.maximum(heels, balls) < FLAT_M, FLAT, rolling)
    return FootSchedule(np.where(down, phases, AIR), _run_ends(~down), _run_ends(down))


def _run_ends(flags: BoolArray) -> IntArray:
    """Frame after the run that each frame is in ``(F, 2)``; the frame itself where there is none."""
    count = len(flags)
    ends = np.repeat(np.arange(count)[:, None], 2, axis=1)
    for side in range(2):
        for start, stop in find_runs(flags[:, side]):
            ends[start:stop, side] = stop
    return ends
