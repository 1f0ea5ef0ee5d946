"""Schedules along a path: parameters over time for an engine."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion.planning.ground_path import FAST_CURVES, GroundPath, curvature_speed_limit, limit_acceleration
from marey.locomotion.planning.speed_profile import SpeedProfile

KNOT_S: Final = 1.0 / 30.0  # [s] a quadratic is a straight line within 0.1 mm/s
CORRECTION_DISTANCE_M: Final = 0.6  # [m] over which an offset from the way dies out
CRUISE_ACCELERATION: Final = 0.5  # [m/s²] of a change of speed on the way
SLOWEST_RUN: Final = (1.4, 2.0)  # [m/s] below the first it is a walk, from the second on a run
MAX_CORRECTED_TURN_RADPS: Final = 2.5  # [rad/s] to come back to a way; on it the speed keeps turns slower
MIN_SPEED_MPS: Final = 0.02  # slower is standing, for which the duration is infinite


@dataclass(frozen=True, slots=True, eq=False)
class PathSchedule:
    """Speed and arc length along a path by time."""

    times_s: FloatArray  # (P,) from 0, even but for the last
    speeds: FloatArray  # (P,) [m/s]
    along_m: FloatArray  # (P,)
    run: FloatArray  # (P,)


def plan_cruise(
    way: GroundPath,
    along_m: float,
    speed_now: float,
    speed_mps: float,
    run: tuple[float, float],
    *,
    last: float | None = None,
    acceleration: float = CRUISE_ACCELERATION,
    slowest: float = 0.0,
    curves: tuple[float, float] = FAST_CURVES,
) -> PathSchedule:
    """Walk the rest of a way as fast as its curves and the acceleration allow.

    Args:
        way: what is walked.
        along_m: where on it now.
        speed_now: [m/s].
        speed_mps: requested.
        run: share of running now and requested.
        last: speed at the end of the way [m/s]; by default whatever it is.
        acceleration: [m/s²].
        slowest: curves are not taken slower than this [m/s].
        curves: how hard they may push [m/s²], and the fastest turn [rad/s].
    """
    ahead = GroundPath(way.points[max(0, min(int(np.searchsorted(way.lengths, along_m)), len(way.points) - 3)) :])
    first = max(speed_now, MIN_SPEED_MPS)
    limit = curvature_speed_limit(ahead, speed_mps, lateral=curves[0], turn=curves[1])
    speeds = limit_acceleration(ahead, np.maximum(limit, min(slowest, speed_mps)), acceleration=acceleration, last=last)
    rising = np.sqrt(first**2 + 2.0 * acceleration * ahead.lengths)
    falling = np.sqrt(np.maximum(first**2 - 2.0 * acceleration * ahead.lengths, 0.0))
    speeds = np.maximum(np.minimum(speeds, rising), np.maximum(falling, MIN_SPEED_MPS))
    gone = np.concatenate([[0.0], np.cumsum(2.0 * np.diff(ahead.lengths) / (speeds[1:] + speeds[:-1]))])
    times = knot_times(float(gone[-1]))
    planned = np.interp(times, gone, speeds)
    planned[0] = speed_now
    if last == 0.0:
        planned[-1] = 0.0
    # Share of running `(P,)`: what is requested, less where the speed is a walk's; a change takes a second
    low, high = min(0.5 * speed_mps, SLOWEST_RUN[0]), min(0.8 * speed_mps, SLOWEST_RUN[1])
    asked = run[1] * np.clip((planned - low) / max(high - low, 1e-6), 0.0, 1.0)
    shares = np.empty_like(asked)
    shares[0] = run[0]
    for i in range(1, len(shares)):
        room = float(times[i] - times[i - 1])
        shares[i] = shares[i - 1] + min(max(float(asked[i] - shares[i - 1]), -room), room)
    return PathSchedule(times, planned, along_m + np.interp(times, gone, ahead.lengths), shares)


def schedule_from_profile(profile: SpeedProfile, along_m: float) -> PathSchedule:
    """The course of a speed profile that begins at an arc length."""
    times = knot_times(profile.duration_s)
    return PathSchedule(times, profile.speed(times), along_m + profile.distance(times), profile.run_at(times))


def knot_times(duration_s: float) -> FloatArray:
    """Times from zero to the end, a thirtieth of a second apart."""
    return np.linspace(0.0, duration_s, max(2, int(np.ceil(duration_s / KNOT_S)) + 1))


def compute_turn_rates(way: GroundPath, course: PathSchedule, position: FloatArray, heading_rad: float) -> FloatArray:
    r"""Turn rates ``(P,)`` [rad/s] that bring a walker to the way and keep it there.

    .. math:: \kappa = \kappa_{way} - \frac{e}{L^2} - \frac{2\sin\vartheta}{L}

    with the offset :math:`e` to the left and the heading error :math:`\vartheta`: both die out over :math:`L`
    without swinging. The walker's motion is predicted, so that the rates need no later correction.
    """
    points, headings = way.point_at(course.along_m), way.heading_at(course.along_m)
    bends = np.interp(course.along_m, way.lengths, way.curvatures, left=0.0, right=0.0)
    rates = np.empty(len(course.times_s))
    (x, z), heading = (float(v) for v in position), heading_rad
    for i in range(len(rates)):
        angle = float(headings[i])
        left = (x - points[i, 0]) * cos(angle) - (z - points[i, 1]) * sin(angle)
        bend = float(bends[i]) - left / CORRECTION_DISTANCE_M**2 - 2.0 * sin(heading - angle) / CORRECTION_DISTANCE_M
        rates[i] = min(max(float(course.speeds[i]) * bend, -MAX_CORRECTED_TURN_RADPS), MAX_CORRECTED_TURN_RADPS)
        # The walker's own arc up to the next knot
        if i + 1 == len(rates):
            break
        step = float(course.times_s[i + 1] - course.times_s[i])
        gone, turned = step * 0.5 * float(course.speeds[i] + course.speeds[i + 1]), step * float(rates[i])
        x += gone * sin(heading + 0.5 * turned)
        z += gone * cos(heading + 0.5 * turned)
        heading += turned
    return rates
