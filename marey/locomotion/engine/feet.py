"""Feet of one character on the ground: the state of the plant kernel, contacts and footprints."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.locomotion.model.locomotion_model import LocomotionModel
from marey.locomotion.model.walker import RawFrame
from marey.locomotion.plants.baselines import plant_step_priority
from marey.locomotion.plants.state import (
    FEET,
    PlantForecast,
    PlantOptions,
    PlantState,
    allocate_plant_state,
    make_leg_arrays,
)
from marey.locomotion.plants.step import plant_step

NO_SHIFT: Final = np.zeros((4, 3))  # [m]
NO_YAW: Final = np.zeros(2)  # [rad]


class Footprint(NamedTuple):
    """Where a foot came down."""

    side: str  # "right" or "left"
    position: FloatArray  # (3,) [m] the ankle, in world
    heading_rad: float  # direction of the foot; 0 is +Z, positive to the left
    time_s: float


class FootPlanter:
    """Holds the feet of one character to the ground."""

    def __init__(self, model: LocomotionModel, ik: str) -> None:
        self._own_leg, self._plant = model.leg_length_m, plant_step_priority if ik == "priority" else plant_step
        self._legs, self._state = make_leg_arrays(model.skeleton), allocate_plant_state()
        self.contacts: BoolArray = np.zeros(4, dtype=np.bool_)

    def plant(self, dt: float, frame: RawFrame) -> None:
        """Correct a frame in place; ``dt`` [s] has passed since the last one."""
        shift, yaw = (NO_SHIFT if frame.shift is None else frame.shift), (NO_YAW if frame.yaw is None else frame.yaw)
        forecast = PlantForecast(frame.planted, frame.until_s, frame.landing, shift, yaw)
        options = PlantOptions(scale=frame.leg_length_m / self._own_leg)
        bits = self._plant(dt, forecast, options, self._legs, self._state, frame.root_position, frame.rotations)
        self.contacts = np.array([bits >> e & 1 for e in range(4)], dtype=np.bool_)

    def pass_through(self, frame: RawFrame) -> None:
        """Let a frame be as it is; the contacts are those that the source tells."""
        self.contacts = frame.planted.copy()
        self._state = allocate_plant_state()

    def goals(self) -> FloatArray:
        """Where the effectors ``(4, 3)`` [m] are held, are about to land, or were held last."""
        return self._state.goals()

    def new_footprints(self, before: BoolArray, feet: FloatArray, time_s: float) -> list[Footprint]:
        """Footprints of the feet that were in the air and are not; ``feet`` ``(4, 3)`` [m] is where they are."""
        found: list[Footprint] = []
        for side in range(2):
            pair = slice(2 * side, 2 * side + 2)
            if self.contacts[pair].any() and not before[pair].any():
                ankle, toe = feet[2 * side], feet[2 * side + 1]
                heading = float(np.arctan2(toe[0] - ankle[0], toe[2] - ankle[2]))
                found.append(Footprint(FEET[side], ankle.copy(), heading, time_s))
        return found

    def snapshot(self) -> tuple[PlantState, BoolArray]:
        """Remember this moment."""
        return self._state.copy(), self.contacts.copy()

    def restore(self, snapshot: tuple[PlantState, BoolArray]) -> None:
        """Come back to a moment."""
        self._state, self.contacts = snapshot[0].copy(), snapshot[1].copy()
