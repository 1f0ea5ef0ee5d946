"""Feet of one character on the ground: the plant kernel with its memory, contacts and footprints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.locomotion._engine_source import RawFrame
from marey.locomotion._model import LocomotionModel
from marey.locomotion._plant_arrays import allocate_plant_state, make_leg_arrays, make_plant_options, read_plant_goals

LEG_SOLVERS: Final = ("analytic", "priority")
SIDES: Final = ("right", "left")


class Footprint(NamedTuple):
    """Where a foot came down."""

    side: str  # "right" or "left"
    position: FloatArray  # (3,) [m] the ankle, in world
    heading_rad: float  # direction of the foot; 0 is +Z, positive to the left
    time_s: float


def _select_plant_kernel(ik: str) -> Callable[..., int]:
    """The kernel of a way to pose legs; they compile when first used."""
    if ik == "priority":
        from marey.locomotion._plant_priority_kernels import plant_step_priority

        return plant_step_priority
    from marey.locomotion._plant_kernels import plant_step

    return plant_step


class FootPlanter:
    """Holds the feet of one character to the ground."""

    def __init__(self, model: LocomotionModel, ik: str) -> None:
        self._own_leg, self._ik = model.leg_length_m, ik
        self._legs, self._options, self._state = (
            make_leg_arrays(model.skeleton),
            make_plant_options(),
            allocate_plant_state(),
        )
        self.contacts: BoolArray = np.zeros(4, dtype=np.bool_)

    def plant(self, dt: float, frame: RawFrame) -> None:
        """Correct a frame in place; ``dt`` [s] has passed since the last one."""
        scale = frame.leg_length_m / self._own_leg
        self._options.shift[:] = 0.0 if frame.shift is None else frame.shift
        self._options.toe_in[:] = 0.0 if frame.yaw is None else frame.yaw
        bits = _select_plant_kernel(self._ik)(
            dt, frame.planted, frame.until_s, frame.landing, self._options, 0.0, scale, self._legs, self._state,
            frame.root_position, frame.rotations,
        )  # fmt: skip
        self.contacts = np.array([bits >> e & 1 for e in range(4)], dtype=np.bool_)

    def pass_through(self, frame: RawFrame) -> None:
        """Let a frame be as it is; the contacts are those that the source tells."""
        self.contacts = frame.planted.copy()
        self._state[:] = 0.0

    def goals(self) -> FloatArray:
        """Where the effectors ``(4, 3)`` [m] are held, are about to land, or were held last."""
        return read_plant_goals(self._state)

    def new_footprints(self, before: BoolArray, feet: FloatArray, time_s: float) -> list[Footprint]:
        """Footprints of the feet that were in the air and are not; ``feet`` ``(4, 3)`` [m] is where they are."""
        found: list[Footprint] = []
        for side in range(2):
            pair = slice(2 * side, 2 * side + 2)
            if self.contacts[pair].any() and not before[pair].any():
                ankle, toe = feet[2 * side], feet[2 * side + 1]
                heading = float(np.arctan2(toe[0] - ankle[0], toe[2] - ankle[2]))
                found.append(Footprint(SIDES[side], ankle.copy(), heading, time_s))
        return found

    def snapshot(self) -> tuple[FloatArray, BoolArray]:
        """Remember this moment."""
        return self._state.copy(), self.contacts.copy()

    def restore(self, snapshot: tuple[FloatArray, BoolArray]) -> None:
        """Come back to a moment."""
        self._state[:], self.contacts = snapshot[0], snapshot[1].copy()
