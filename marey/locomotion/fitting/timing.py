"""Timing of gaits: cadence and foot events over speed, measured on the synthesised units."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.locomotion.model.locomotion_model import EFFECTORS, EVENTS, GaitArrays
from marey.locomotion.model.synthesis import synthesise_unit
from marey.locomotion.units.gait_unit import rotations_from_rows
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
# [s, 1/s] longest flight of a runner on the model's legs, and the normalised speed of half of it: 66 flights of 02, 09,
# 16, 35 and 38 (rms 0.022 s), mean of what soles and forces tell; 37 of others and held-out clips 0.014 s shorter
FLIGHT_LAW: Final = (0.145, 1.98)
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


def shorten_run_stances(events: FloatArray, speed_n: float, hertz: float) -> FloatArray:
    r"""Events ``(8,)`` of a run that strikes at the first frame and half a cycle later, and flies as people do.

    .. math:: t_\mathrm{flight} = T\,\frac{s^3}{s^3 + s_h^3}

    with the constants of ``FLIGHT_LAW``. Feet of a mean of runs go back before they touch, and leave late.

    Args:
        events: as found on the unit.
        speed_n: normalised speed [1/s].
        hertz: cycles per second at the model's own leg length.
    """
    longest_s, half = FLIGHT_LAW
    stance = min(0.5 - hertz * longest_s * speed_n**3 / (speed_n**3 + half**3), 0.495)  # if only for an instant
    both = 0.5 * (events[:4] + events[4:] - 0.5)
    toe = min(max(both[1], 0.0), 0.5 * stance)
    step = np.array([0.0, toe, min(max(both[2], toe), stance), stance])
    return np.concatenate([step, step + 0.5])


def measure_gait_tables(gaits: GaitArrays, skeleton: Skeleton, leg_length_m: float) -> GaitTables:
    """Measure every style and gait on the speeds of ``gaits.speeds``; runs bounce as the tables of ``gaits`` ask."""
    num_styles, speeds = len(gaits.base), gaits.speeds
    shape = (num_styles, 2, len(speeds))
    stance, steps, events = np.zeros(shape), np.zeros(shape), np.zeros((*shape, len(EVENTS)))
    for k in range(num_styles):
        weights = np.eye(num_styles)[k]
        for run in (0, 1):
            for g, s in enumerate(speeds):
                rows = synthesise_unit(gaits, leg_length_m, max(float(s), 1e-3), float(run), weights)
                paths = compute_effector_paths(rows, gaits.means, skeleton, leg_length_m)
                events[k, run, g] = detect_unit_events(paths, bool(run), leg_length_m)
                path = measure_stance_path(paths, events[k, run, g])
                stance[k, run, g] = s * leg_length_m / path if path > 0.0 else 0.0
                if run:
                    events[k, run, g] = shorten_run_stances(events[k, run, g], float(s), stance[k, run, g])
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
