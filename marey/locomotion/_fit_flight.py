"""Flights of runs that fall as bodies fall: the root's height, corrected where averages of runs floated or plunged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3
from marey.locomotion._engine_plan import GRAVITY
from marey.locomotion._model import GAITS, GaitArrays
from marey.locomotion._timing import compute_effector_paths, detect_unit_events, measure_stance_path
from marey.locomotion._units import root_from_rows, rotations_from_rows
from marey.motion import Motion, centre_of_mass
from marey.skeleton import Skeleton

NUM_FLIGHT_SPEEDS: Final = 12  # at which flights are corrected, about from the slowest run to the fastest
SLOW_RUN_FRACTION, FAST_RUN_FRACTION = (
    1.2,
    0.85,
)  # [-] of the slowest and fastest run: where one line in speed serves best
STANCE_WEIGHT: Final = 30.0  # [1/m] a centimetre off its height in stance counts as much as 0.3 g in flight
SMOOTH_WEIGHT: Final = 0.15  # [-] of a change of the root's acceleration in stance
MAX_CADENCE_CHANGE: Final = 0.025  # [-] the planted foot may slip by this part of the speed; plants hold it anyway
RUN_INDEX: Final = GAITS.index("run")


class UnitFlights(NamedTuple):
    """A running unit's flights: phases, and how its centre of mass moves up and down."""

    spans: tuple[tuple[float, float], tuple[float, float]]  # toe off to the other foot's strike, unwrapped
    heights: FloatArray  # (N,) [m] of the centre of mass
    frequency: float  # [Hz]

    def frames(self, *, margin: int = 0) -> BoolArray:
        """Whether each frame ``(N,)`` is in flight, ``margin`` frames away from both ends."""
        count = len(self.heights)
        phases = np.arange(count) / count
        inside = np.zeros(count, dtype=np.bool_)
        for begin, end in self.spans:
            inset = margin / count
            inside |= ((phases - begin - inset) % 1.0) < max(end - begin - 2.0 * inset, 0.0)
        return inside

    def accelerations(self) -> FloatArray:
        """Vertical acceleration ``(N,)`` [m/s²] of the centre of mass."""
        return _second_difference(len(self.heights)) @ self.heights * (len(self.heights) * self.frequency) ** 2


def measure_flights(
    rows: FloatArray, means: FloatArray, skeleton: Skeleton, leg_m: float, speed_mps: float
) -> UnitFlights:
    """Measure the flights of the rows ``(N, D)`` of a run at a speed."""
    paths = compute_effector_paths(rows, means, skeleton, leg_m)
    events = detect_unit_events(paths, run=True, leg_m=leg_m)
    motion = Motion(skeleton, 1.0, root_from_rows(rows, leg_m), SO3(rotations_from_rows(rows, means)))
    spans = ((float(events[3]), float(events[4])), (float(events[7]), float(events[0]) + 1.0))
    return UnitFlights(spans, centre_of_mass(motion)[:, 1], speed_mps / measure_stance_path(paths, events))


def mean_fall(flights: UnitFlights) -> float:
    """Mean vertical acceleration [m/s²] of the centre of mass in flight, first and last frames left out."""
    inside = flights.frames(margin=1)
    return float(flights.accelerations()[inside].mean()) if inside.any() else -GRAVITY


def fit_flight_heights(gaits: GaitArrays, skeleton: Skeleton, leg_m: float) -> FloatArray:
    """Corrections ``(K, 2, N)`` over leg length of the runs' root heights: level part, and part per unit of speed."""
    num_styles = len(gaits.base)
    heights: list[FloatArray] = []
    for k in range(num_styles):
        slowest, fastest = (
            SLOW_RUN_FRACTION * float(gaits.slowest[k, RUN_INDEX]),
            FAST_RUN_FRACTION * float(gaits.limits[RUN_INDEX]),
        )
        speeds = np.linspace(slowest, fastest, NUM_FLIGHT_SPEEDS)
        units = [gaits.row(float(s), 1.0, np.eye(num_styles)[k]) for s in speeds]
        found = [
            measure_flights(rows, gaits.means, skeleton, leg_m, float(s) * leg_m)
            for rows, s in zip(units, speeds, strict=True)
        ]
        heights.append(solve_height_correction(found, speeds) / leg_m)
    return np.stack(heights)


def solve_height_correction(flights: Sequence[UnitFlights], speeds: FloatArray) -> FloatArray:
    r"""Changes ``(2, N)`` [m] of the root's height, level and per speed, that let the body fall freely in flight.

    .. math:: \min_{\delta_0, \delta_1} \sum_s \sum_{flight} \Big(\frac{\ddot y_s + \ddot\delta_s}{g} + 1\Big)^2
              + \sum_{stance} (w_h\,\delta_s)^2 + \Big(w_a \frac{\ddot\delta_s}{g}\Big)^2, \qquad
              \delta_s = \delta_0 + s\,\delta_1

    A line in speed, as everything else in the model; so it holds within a tenth or so, not exactly.
    """
    rows: list[FloatArray] = []
    wanted: list[FloatArray] = []
    count = len(flights[0].heights)
    for flight, s in zip(flights, speeds, strict=True):
        second = _second_difference(count) * (count * flight.frequency) ** 2 / GRAVITY
        flying, near = flight.frames(), flight.frames(margin=-1)
        part = [second[flying], STANCE_WEIGHT * np.eye(count)[~near], SMOOTH_WEIGHT * second[~flying]]
        block = np.concatenate(part)
        rows.append(np.concatenate([block, s * block], axis=1))
        goal = np.zeros(len(block))
        goal[: len(part[0])] = -1.0 - part[0] @ flight.heights
        wanted.append(goal)
    solved = np.linalg.lstsq(np.concatenate(rows), np.concatenate(wanted), rcond=None)[0]
    return np.asarray(solved, dtype=np.float64).reshape(2, count)


def fit_cadence_factors(gaits: GaitArrays, skeleton: Skeleton, leg_m: float) -> FloatArray:
    """Factors ``(K, G)`` on the cadence of runs, within 2.5 % of one, by which flights come nearest to free fall."""
    num_styles = len(gaits.base)
    factors = np.ones((num_styles, len(gaits.speeds)))
    for k in range(num_styles):
        for g, s in enumerate(gaits.speeds):
            speed = max(float(s), float(gaits.slowest[k, RUN_INDEX]))
            rows = gaits.row(speed, 1.0, np.eye(num_styles)[k])
            falls = -mean_fall(measure_flights(rows, gaits.means, skeleton, leg_m, speed * leg_m))
            factors[k, g] = np.clip(
                np.sqrt(GRAVITY / max(falls, 1.0)), 1.0 - MAX_CADENCE_CHANGE, 1.0 + MAX_CADENCE_CHANGE
            )
    return factors


def _second_difference(count: int) -> FloatArray:
    """Matrix ``(N, N)`` of second differences round a cycle."""
    eye = np.eye(count)
    return np.roll(eye, 1, axis=1) - 2.0 * eye + np.roll(eye, -1, axis=1)
