"""What the feet of a clip do: where they were planted, and how much they slide there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.locomotion._plant_arrays import FEET, make_leg_arrays
from marey.locomotion._plant_schedule import effector_flags, standing_position
from marey.motion import Motion, ensure_contacts, find_runs


@dataclass(frozen=True, slots=True, eq=False)
class FootPlant:
    """One stance of one foot."""

    side: str  # "right" or "left"
    start: int  # first frame of the contact
    stop: int  # first frame after it
    ankle: FloatArray  # (3,) [m] where the ankle stands
    toe: FloatArray  # (3,) [m] where the ball of the foot stands
    heading_rad: float  # ankle to ball: 0 is +Z, positive to the left


def effector_positions(motion: Motion) -> FloatArray:
    """Right ankle, right toe, left ankle, left toe ``(F, 4, 3)`` [m] of a clip."""
    return np.ascontiguousarray(motion.joint_positions()[:, make_leg_arrays(motion.skeleton).joints[:, 2:].reshape(4)])


def foot_plants(motion: Motion) -> tuple[FootPlant, ...]:
    """Footprints of a clip in the order of time: each stance of each foot, by the contact track or by detection."""
    points, flags = effector_positions(motion), _contact_flags(motion)
    found: list[FootPlant] = []
    for s, side in enumerate(FEET):
        a, t = 2 * s, 2 * s + 1
        for start, stop in find_runs(flags[:, a] | flags[:, t]):
            ankle = _held_position(points[start:stop, a], flags[start:stop, a])
            toe = _held_position(points[start:stop, t], flags[start:stop, t])
            heading = float(np.arctan2(toe[0] - ankle[0], toe[2] - ankle[2]))
            found.append(FootPlant(side, start, stop, ankle, toe, heading))
    return tuple(sorted(found, key=lambda plant: plant.start))


def plant_slide_mm(motion: Motion, plants: BoolArray | None = None) -> FloatArray:
    """How far each planted effector has moved over the ground since the frame before ``(F, 4)`` [mm].

    Right ankle, right toe, left ankle, left toe. Zero where the effector is not planted, and in the first and the last
    frame of a plant, in which it may land and leave ([Glardon2005]_, acceptance A26-A27).

    Args:
        motion: any clip.
        plants: flags ``(F, 4)``; those of the contact track if not given, which is detected if there is none.
    """
    points = effector_positions(motion)
    flags = _contact_flags(motion) if plants is None else np.asarray(plants, dtype=np.bool_)
    steps = np.diff(points[..., [0, 2]], axis=0)
    slides = np.zeros(flags.shape)
    slides[1:] = 1000.0 * np.hypot(steps[..., 0], steps[..., 1])
    inner = np.zeros_like(flags)
    inner[1:-1] = flags[:-2] & flags[1:-1] & flags[2:]
    return np.where(inner, slides, 0.0)


def _contact_flags(motion: Motion) -> BoolArray:
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    return effector_flags(contacts)


def _held_position(path: FloatArray, held: BoolArray) -> FloatArray:
    return standing_position(path[held] if held.any() else path)
