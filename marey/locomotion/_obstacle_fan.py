"""A fan of curved run-ups, for when the straight one comes to no heel strike in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._obstacle_box import Obstacle
from marey.locomotion._obstacle_decide import MEAN_ACCELERATION, ObstacleDecision, find_leap
from marey.locomotion._steer import SPACING_M, GroundPath, heading_vector, resample_evenly
from marey.locomotion._steer_approach import plan_approach_profile

if TYPE_CHECKING:
    from marey.locomotion._engine import Engine

RUN_UP_TURNS_RAD: Final = tuple(np.radians((6.0, -6.0, 12.0, -12.0, 18.0, -18.0, 24.0, -24.0, 30.0, -30.0)).tolist())
ARC_M: Final = 1.2  # [m] on which the turn is made
BEHIND_M: Final = 1.5  # [m] of straight way behind the landing


def sample_arc(start: FloatArray, heading_rad: float, turn_rad: float, length_m: float) -> FloatArray:
    """Points ``(M, 2)`` [m] of an arc with constant curvature."""
    s = np.linspace(0.0, length_m, int(np.ceil(length_m / SPACING_M)) + 1)
    half = 0.5 * turn_rad * s / length_m
    chord = s * np.sinc(half / np.pi)
    return start + chord[:, None] * np.stack([np.sin(heading_rad + half), np.cos(heading_rad + half)], axis=-1)


def find_curved_leap(
    engine: Engine, obstacle: Obstacle, *, mean_acceleration: float = MEAN_ACCELERATION
) -> ObstacleDecision | None:
    r"""Try run-ups that turn by a constant rate first: their ways to the obstacle have other lengths.

    Of the run-ups that end with a heel strike before the edge, the one with the smallest change of acceleration
    :math:`|2 a t_2|` is taken, then the one that turns least ([Glardon2005]_ §IV.1.6 leaves the choice open).
    """
    found: list[tuple[float, float, ObstacleDecision]] = []
    for turn in RUN_UP_TURNS_RAD:
        decision = _try_curved_run_up(engine, obstacle, turn, mean_acceleration)
        if decision is not None:
            found.append((decision[0], abs(turn), decision[1]))
    return min(found, key=lambda one: one[:2])[2] if found else None


def _try_curved_run_up(
    engine: Engine, obstacle: Obstacle, turn: float, mean_acceleration: float
) -> tuple[float, ObstacleDecision] | None:
    heading = engine.heading_rad + turn
    points = sample_arc(engine.position, engine.heading_rad, turn, ARC_M)
    extent = obstacle.track_extent_from(points[-1], heading)
    if extent is None or extent.front < 0.3:
        return None
    leap, reasons = find_leap(engine, extent, obstacle.height_m, mean_acceleration)
    if leap is None or leap.ahead_m < 0.3:
        return None
    profile = plan_approach_profile(engine, leap.length_m, leap.kind, ARC_M + leap.ahead_m)
    if isinstance(profile, str):
        return None
    end = points[-1] + (leap.ahead_m + leap.length_m + BEHIND_M) * heading_vector(heading)
    x, z = (float(v) for v in points[-1] + leap.ahead_m * heading_vector(heading))
    way = GroundPath(resample_evenly(np.concatenate([points, end[None]])))
    bend = abs(2.0 * float(profile[0].powers[2]) / profile[0].duration_s)
    leap = replace(leap, ahead_m=ARC_M + leap.ahead_m)
    return bend, ObstacleDecision("jump", obstacle, tuple(reasons), leap, (x, z), profile[1], way)
