"""Timing of gaits: cadence and foot events over speed, and flights of runs that obey gravity.

The tables are measured on the synthesised units. The height of the root is corrected where averages of runs float or
plunge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3
from marey.locomotion.model.locomotion_model import EFFECTORS, EVENTS, GAITS, GaitArrays
from marey.locomotion.planning.parameters import GRAVITY
from marey.locomotion.units.gait_unit import rotations_from_rows
from marey.motion import Motion, centre_of_mass
from marey.skeleton import Skeleton, joint_positions

INMAN: Final = 0.743  # [Hz s^1/2] cycles per second of a walk are this times the root of the normalised speed
PATH_FACTORS: Final = (2.0, 3.0)  # path of a cycle over the gap of the heels: walk, run; [Glardon2005]_ §III.1.3.1
STEP_POWER: Final = 0.4  # of the step length below the slowest captured speed
# Phases at which ankle and toe surely stand, of the right foot; the left's are half a cycle later
STANCE_CENTRES: Final = (
    ((0.12, 0.32), (0.18, 0.46)),
    ((0.06, 0.15), (0.08, 0.20)),
)
# [-] of its speed in stance: an ankle that goes back with the ground this well has come down
STANCE_START_FRACTION: Final = 0.6
STANCE_END_FRACTIONS: Final = (0.8, 0.5)  # [-] an ankle, a toe that does no better has left
HEEL_UP: Final = 0.016  # [-] of the leg: an ankle that has risen so far since the foot was flat has left, too
TOE_DOWN: Final = 0.2  # [-] of its height at the heel strike: a toe below has come down
# [-] of its median speed: a point that goes back less does not tell how fast the ground goes
STILL_FRACTION: Final = 0.85
NUM_SUBSAMPLES: Final = 8  # points looked at for every frame


class GaitTables(NamedTuple):
    """Tables of one fit, over style, gait and speed."""

    stance: FloatArray  # (K, 2, G) [Hz]
    glardon: FloatArray  # (K, 2, G) [Hz]
    inman: FloatArray  # (K, 2, G) [Hz]
    events: FloatArray  # (K, 2, G, 8)


def compute_effector_paths(rows: FloatArray, means: FloatArray, skeleton: Skeleton, leg_length_m: float) -> FloatArray:
    """Positions ``(N, 4, 3)`` [m] of the effectors over a unit, in the frame of the carriage."""
    joints = [skeleton.index(name) for name in EFFECTORS]
    return joint_positions(skeleton, leg_length_m * rows[..., :3], rotations_from_rows(rows, means))[:, joints]


def detect_stance_spans(
    paths: FloatArray, run: bool, side: int, leg_m: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Phases between which ankle and toe of a foot (0 right, 1 left) stand, from effector paths ``(N, 4, 3)``.

    A planted point goes back evenly in the carriage's frame. Round the middle of its stance the span reaches as far
    as the point keeps up 0.6 (coming) and 0.8 (leaving) of that speed. A ratio needs no threshold of height, so it
    holds from a run down to the smallest step. The toe must have come down besides.
    """
    count = len(paths)
    phases = np.arange(-NUM_SUBSAMPLES * count // 4, NUM_SUBSAMPLES * count) / (NUM_SUBSAMPLES * count) + 0.5 * side
    back = -0.5 * count * (np.roll(paths[..., 2], -1, axis=0) - np.roll(paths[..., 2], 1, axis=0))
    spans: list[tuple[float, float]] = []
    for part in (0, 1):
        speed = _interpolate_cyclic(back[:, 2 * side + part], phases)
        begin, end = (c + 0.5 * side for c in STANCE_CENTRES[int(run)][part])
        middle = float(np.median(speed[(phases >= begin) & (phases <= end)]))
        late = phases[(phases < begin) & (speed < STANCE_START_FRACTION * middle)]
        gone = speed < STANCE_END_FRACTIONS[part] * middle
        if part == 0:
            height = _interpolate_cyclic(paths[:, 2 * side, 1], phases)
            gone |= height > np.median(height[(phases >= begin) & (phases <= end)]) + HEEL_UP * leg_m
        early = phases[(phases > end) & gone]
        spans.append((float(late[-1]) if len(late) else begin, float(early[0]) if len(early) else end))
    # The toe is down once it is near its level in stance, but not before it stands still.
    heights, (still, off), count = paths[:, 2 * side + 1, 1], spans[1], NUM_SUBSAMPLES * count
    level = float(np.median(_interpolate_cyclic(heights, np.linspace(still, off, count))))
    high = float(_interpolate_cyclic(heights, np.array([0.5 * side]))[0])
    after = np.linspace(0.5 * side, off, count)
    down = after[_interpolate_cyclic(heights, after) <= level + TOE_DOWN * max(high - level, 0.0)]
    return spans[0], (max(float(down[0]) if len(down) else still, still), off)


def _interpolate_cyclic(values: FloatArray, phases: FloatArray) -> FloatArray:
    count = len(values)
    return np.interp(phases % 1.0, np.arange(count + 1) / count, np.append(values, values[0]))


def detect_unit_events(paths: FloatArray, run: bool, leg_m: float) -> FloatArray:
    """Phases ``(8,)`` of the foot events of a unit from its effector paths ``(N, 4, 3)``, in order within each foot."""
    events = np.zeros(len(EVENTS))
    for side in (0, 1):
        (heel, lift), (toe, off) = detect_stance_spans(paths, run, side, leg_m)
        toe = max(toe, heel)
        lift = max(lift, toe)
        events[4 * side : 4 * side + 4] = heel, toe, lift, max(off, lift)
    return events


def measure_stance_path(paths: FloatArray, events: FloatArray) -> float:
    """Displacement [m] of the ground under planted feet per cycle: mean of ``-dz/dphase`` in stance.

    From toe down to toe off the foot stands on that of its two points which stands stiller: the ankle (with the
    heel) goes forward as soon as the heel lifts. Before the toe is down, the foot rolls over its heel; towards toe
    off it rolls over its tip, so instants at which it does not keep up with its own median do not count.
    """
    count = len(paths)
    phases = np.arange(NUM_SUBSAMPLES * count) / (NUM_SUBSAMPLES * count)
    back = -0.5 * count * (np.roll(paths[..., 2], -1, axis=0) - np.roll(paths[..., 2], 1, axis=0))
    found: list[FloatArray] = []
    for side in (0, 1):
        stiller = _interpolate_cyclic(back[:, 2 * side : 2 * side + 2].max(axis=1), phases)
        toe, off = events[4 * side + 1], events[4 * side + 3]
        found.append(stiller[((phases - toe) % 1.0) < max(off - toe, 0.0)])
    planted = np.concatenate(found)
    if not len(planted):
        return 0.0
    return float(planted[planted >= STILL_FRACTION * np.median(planted)].mean())


def measure_gait_tables(gaits: GaitArrays, skeleton: Skeleton, leg_length_m: float) -> GaitTables:
    """Measure every style and gait on the speeds of ``gaits.speeds``; its own tables are not looked at."""
    num_styles, speeds = len(gaits.base), gaits.speeds
    shape = (num_styles, 2, len(speeds))
    stance, steps, events = np.zeros(shape), np.zeros(shape), np.zeros((*shape, len(EVENTS)))
    for k in range(num_styles):
        weights = np.eye(num_styles)[k]
        for run in (0, 1):
            for g, s in enumerate(speeds):
                rows = gaits.row(max(float(s), 1e-3), float(run), weights)
                paths = compute_effector_paths(rows, gaits.means, skeleton, leg_length_m)
                events[k, run, g] = detect_unit_events(paths, bool(run), leg_length_m)
                path = measure_stance_path(paths, events[k, run, g])
                stance[k, run, g] = s * leg_length_m / path if path > 0.0 else 0.0
                # A step is the distance between the ankles at the right strike.
                steps[k, run, g] = float(paths[0, 0, 2] - paths[0, 2, 2]) / leg_length_m
            events[k, run, 0] = events[k, run, 1]
    glardon = np.stack([[_thesis_cadence(steps[k, t], gaits, k, t) for t in (0, 1)] for k in range(num_styles)])
    inman = np.broadcast_to(INMAN * np.sqrt(speeds), shape).copy()
    return GaitTables(stance, glardon, inman, events)


def _thesis_cadence(steps: FloatArray, gaits: GaitArrays, style: int, run: int) -> FloatArray:
    r"""Frequencies ``(G,)`` [Hz] by the thesis's law: :math:`F = s_n / (r\,l)`, the step ``l`` a line in speed.

    Below the slowest captured speed :math:`l = c\,s_n^{0.4}`, so :math:`F = s_n^{0.6} / (r c)`.
    """
    speeds, slowest = gaits.speeds, float(gaits.slowest[style, run])
    fitted = (speeds >= slowest) & (speeds <= gaits.limits[run])
    a, b = (float(c) for c in np.polyfit(speeds[fitted], steps[fitted], 1))
    joint = a * slowest + b
    factor = PATH_FACTORS[run]
    low = speeds ** (1.0 - STEP_POWER) * slowest**STEP_POWER / (factor * joint)
    return np.where(speeds < slowest, low, speeds / (factor * np.maximum(a * speeds + b, 0.2 * joint)))


NUM_FLIGHT_SPEEDS: Final = 12  # at which flights are corrected, about from the slowest run to the fastest
SLOW_RUN_FRACTION, FAST_RUN_FRACTION = 1.2, 0.85  # [-] of the slowest and fastest run: one line in speed serves best
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


def measure_flights(
    rows: FloatArray, means: FloatArray, skeleton: Skeleton, leg_m: float, speed_mps: float
) -> UnitFlights:
    """Measure the flights of the rows ``(N, D)`` of a run at a speed."""
    paths = compute_effector_paths(rows, means, skeleton, leg_m)
    events = detect_unit_events(paths, run=True, leg_m=leg_m)
    motion = Motion(skeleton, 1.0, leg_m * rows[..., :3], SO3(rotations_from_rows(rows, means)))
    spans = ((float(events[3]), float(events[4])), (float(events[7]), float(events[0]) + 1.0))
    return UnitFlights(spans, centre_of_mass(motion)[:, 1], speed_mps / measure_stance_path(paths, events))


def mean_fall(flights: UnitFlights) -> float:
    """Mean vertical acceleration [m/s²] of the centre of mass in flight, first and last frames left out."""
    inside = flights.frames(margin=1)
    count = len(flights.heights)
    falls = _second_difference(count) @ flights.heights * (count * flights.frequency) ** 2
    return float(falls[inside].mean()) if inside.any() else -GRAVITY


def fit_flight_heights(gaits: GaitArrays, skeleton: Skeleton, leg_m: float) -> FloatArray:
    """Corrections ``(K, 2, N)`` over leg length of the runs' root heights: level part, and part per unit of speed."""
    num_styles = len(gaits.base)
    heights: list[FloatArray] = []
    for k in range(num_styles):
        slowest = SLOW_RUN_FRACTION * float(gaits.slowest[k, RUN_INDEX])
        fastest = FAST_RUN_FRACTION * float(gaits.limits[RUN_INDEX])
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
        # Rows: free fall in flight, height in stance, smoothness in stance; the same again times s for the slope
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
