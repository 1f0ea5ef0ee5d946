"""Events inside a phase: a hand that picks something up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion, Phase
from marey.skeleton import role_map

PICKED: Final = "picked_"
"""A phase that begins with a pick has ``picked_left_hand`` or ``picked_right_hand`` among its contacts."""
MIN_SPLIT: Final = 4  # poses on either side of a pick


def split_picks(motion: Motion, phases: Sequence[Phase], height_m: float) -> list[Phase]:
    """Cut stances at the instant at which a wrist is lowest, if that is lower than ``height_m``.

    The rest of the stance gets a class of its own, so that a pick is a change of contacts like any other, and blends
    are aligned at it ([Safonova2006]_ §4.3.2).
    """
    roles = role_map(motion.skeleton)
    hands = [f"{side}_wrist" for side in ("left", "right") if f"{side}_wrist" in roles]
    heights = motion.joint_positions()[:, [roles[hand] for hand in hands], 1] if hands else np.zeros((0, 0))
    cut: list[Phase] = []
    for phase in phases:
        cut += _split(phase, heights, hands, height_m) if hands and phase.plants else [phase]
    return cut


def _split(phase: Phase, heights: FloatArray, hands: list[str], height_m: float) -> list[Phase]:
    own = heights[phase.start : phase.stop]
    frame, hand = np.unravel_index(int(np.argmin(own)), own.shape)
    is_inside = MIN_SPLIT <= frame < len(own) - MIN_SPLIT
    if own[frame, hand] >= height_m or not is_inside:
        return [phase]
    at = phase.start + int(frame)
    event = PICKED + hands[int(hand)].replace("wrist", "hand")
    return [replace(phase, stop=at), replace(phase, start=at, planted=(*phase.planted, event))]
