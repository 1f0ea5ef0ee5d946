"""The plants of the thesis with the closed-form leg: what the baseline does, and the engine did."""

from __future__ import annotations

from marey.base import FloatArray, kernel
from marey.locomotion.plants.leg import bend_toes, get3, get4, needed_toe_bend, pose_leg, relax_toe_bend
from marey.locomotion.plants.state import LegArrays, PlantForecast, PlantOptions, PlantState
from marey.locomotion.plants.step import encode_foot_flags, update_feet


@kernel
def plant_step(
    dt: float, forecast: PlantForecast, options: PlantOptions, legs: LegArrays, state: PlantState, root: FloatArray,
    rotations: FloatArray,
) -> int:  # fmt: skip
    """Plant the feet of one character in one frame, in place and without allocating.

    Args:
        dt: time since the last frame [s].
        forecast: what is held now, and what lands where and when.
        options: ease time, floor and size.
        legs: of the skeleton.
        state: zeros before the first frame.
        root: ``(3,)`` [m] raw position of the root, lowered if a leg does not reach.
        rotations: ``(J, 4)`` raw local rotations; those of the legs are changed.

    Returns:
        Bits 0-3: effector is held. Bits 4, 5: the right, left ankle is farther than 0.5 mm from where it should be.
    """
    update_feet(dt, forecast, options, legs, state, root, rotations)
    flags = 0
    for side in range(2):
        foot = state.feet[side]
        ankle, miss = pose_leg(foot, side, get3(foot.target), get4(foot.turn), legs, rotations)
        needed, axis = needed_toe_bend(foot, side, ankle, get4(foot.turn), options.floor_y + foot.level, legs)
        relax_toe_bend(foot, needed, dt)
        bend_toes(foot, side, get4(foot.turn), axis, foot.toe_bend, legs, rotations)
        flags |= encode_foot_flags(foot, side, ankle, miss)
    return flags
