"""Stance: feet that stay where they stand, and points that may bear a figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, UnknownNameError
from marey.control._features import Feature
from marey.control._features_feet import sole_frame
from marey.control._tasks import SIDES
from marey.simulate import ConstraintRows, Mechanics, Simulator

Stance = Iterable[str]
STICK_WEIGHT: Final = 1e4  # [s²/m²] points that stand stay: above all goals, below what must hold
FLAT_WEIGHT: Final = 1e3  # [s²/m²] soles that stand come down flat
STANCE_TOUCH_M: Final = 1e-3  # [m] points that come nearer than this in the step may bear the figure
FOOT_M: Final = 0.1  # [m] a sole's turn counts as much as a shift by its half length
DOWN: Final = 0.2  # [-] part of a gap that a sole which stands closes in a step
DOWN_SPEED: Final = 0.1  # [m/s] at most


def check_stance(stance: Stance) -> tuple[str, ...]:
    """Feet that stand.

    Raises:
        UnknownNameError: a foot is neither left nor right.
    """
    feet = tuple(stance)
    for side in feet:
        if side not in SIDES:
            raise UnknownNameError("foot", str(side), "the stance", SIDES)
    return feet


def _stance_rows(rows: ConstraintRows, stance: tuple[str, ...]) -> BoolArray:
    """Rows ``(m,)`` of the soles that stand."""
    starts = tuple(f"contact of {side}_{part}" for side in stance for part in ("heel", "ball"))
    return np.array([name.startswith(starts) for name in rows.names], dtype=np.bool_)


def stance_features(
    rows: ConstraintRows, stance: tuple[str, ...], dt: float, simulator: Simulator, here: Mechanics
) -> tuple[ConstraintRows, list[Feature]]:
    """Rows that may bear a figure, and features that keep its soles where they stand.

    A plan must not lean on points that do not touch, so that these are left out. Points that touch by a hair are taken
    to touch: what leans on them brings them down.

    Args:
        rows: all rows of the step, with friction as bounds ("staggered").
        stance: feet that stand.
        dt: length of the step [s].
        simulator: the figure.
        here: its mechanics.
    """
    velocity = simulator.state.velocity
    stands = _stance_rows(rows, stance)
    is_normal = (rows.owners >= 0) & (rows.partners < 0)
    gaps = -rows.b * dt
    far = is_normal & (gaps > STANCE_TOUCH_M) & (gaps + dt * (rows.J @ velocity) > STANCE_TOUCH_M)
    lying = far & stands
    lie = Feature(rows.J[lying], -np.minimum(DOWN * gaps[lying] / dt, DOWN_SPEED), FLAT_WEIGHT)
    landing = [
        _landing_position(side, simulator, here) for side in stance if (lying & _stance_rows(rows, (side,))).any()
    ]
    near = is_normal & (gaps > 0.0) & (gaps <= STANCE_TOUCH_M)
    rows = replace(rows, b=np.where(near, -DOWN * gaps / dt, rows.b))
    stuck = ~far & (rows.owners >= 0) & (stands | (rows.partners >= 0))
    return select_rows(rows, ~far), [Feature(rows.J[stuck], rows.b[stuck], STICK_WEIGHT), lie, *landing]


def _landing_position(side: str, simulator: Simulator, here: Mechanics) -> Feature:
    """A sole that is still in the air comes down where it is."""
    joint, middle, _ = sole_frame(simulator.body.skeleton, side)
    matrix = np.concatenate([here.point_jacobian(joint, middle)[[0, 2]], here.angular[joint][1:2] * FOOT_M])
    return Feature(matrix, np.zeros(3), FLAT_WEIGHT)


def select_rows(rows: ConstraintRows, kept: BoolArray) -> ConstraintRows:
    """Some rows of many; rows of friction go with their partners."""
    numbers = np.cumsum(kept) - 1
    partners = np.where(rows.partners >= 0, numbers[rows.partners], -1)[kept]
    columns = ("J", "b", "lower", "upper", "directions", "owners", "slots", "grips", "priorities")
    picked = {column: getattr(rows, column)[kept] for column in columns}
    return replace(rows, partners=partners, names=(), **picked)
