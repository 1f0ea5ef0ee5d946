"""How fast a cycle is played, and when its feet are down: tables over speed, measured on the synthesised units."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray
from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays
from marey.locomotion._units import rows_positions
from marey.skeleton import Skeleton

INMAN: Final = 0.743  # [Hz s^1/2] cycles per second of a walk are this times the root of the normalised speed
PATH_FACTORS: Final = (2.0, 3.0)  # path of a cycle over the gap of the heels: walk, run; [Glardon2005]_ §III.1.3.1
STEP_POWER: Final = 0.4  # of the step length below the slowest captured speed
DELTA: Final = 0.4  # [-] how far between lowest and window ends a foot counts as down; [Glardon2005]_ §III.2.3
WINDOWS: Final = (  # phases that enclose a plant: ankle, toe of the right foot; the left's are half a cycle later
    ((-0.03, 0.50), (0.00, 0.66)),
    ((-0.03, 0.28), (-0.02, 0.36)),
)


class GaitTables(NamedTuple):
    """Tables of one fit, over style, gait and speed."""

    stance: FloatArray  # (K, 2, G) [Hz]
    glardon: FloatArray  # (K, 2, G) [Hz]
    inman: FloatArray  # (K, 2, G) [Hz]
    events: FloatArray  # (K, 2, G, 8)


def effector_paths(rows: FloatArray, means: FloatArray, skeleton: Skeleton, leg_length_m: float) -> FloatArray:
    """Positions ``(N, 4, 3)`` [m] of the effectors over a unit, in the frame of the carriage."""
    joints = [skeleton.index(name) for name in EFFECTORS]
    return rows_positions(rows, means, skeleton, leg_length_m)[:, joints]


def plant_window(heights: FloatArray, begin: float, end: float, delta: float = DELTA) -> tuple[float, float]:
    r"""Phases at which a point of a cyclic height curve ``(N,)`` comes down and leaves, within a window.

    .. math:: \epsilon = \min + \delta\,(\tfrac12(h_b + h_e) - \min)

    The adaptive threshold of [Glardon2005]_ §III.2.3, with crossings between frames by a straight line.
    """
    count = len(heights)
    phases = np.linspace(begin, end, 8 * count)
    curve = np.interp(phases % 1.0, np.arange(count + 1) / count, np.append(heights, heights[0]))
    low = float(curve.min())
    down = np.flatnonzero(curve <= low + delta * (0.5 * float(curve[0] + curve[-1]) - low))
    return (float(phases[down[0]]), float(phases[down[-1]])) if len(down) else (begin, end)


def unit_events(paths: FloatArray, run: bool) -> FloatArray:
    """Phases ``(8,)`` of the foot events of a unit from its effector paths ``(N, 4, 3)``, ordered within each foot."""
    events = np.zeros(len(EVENTS))
    for side in (0, 1):
        spans: list[tuple[float, float]] = []
        for part in (0, 1):
            begin, end = WINDOWS[int(run)][part]
            spans.append(plant_window(paths[:, 2 * side + part, 1], begin + 0.5 * side, end + 0.5 * side))
        (heel, lift), (toe, off) = spans
        toe = max(toe, heel)
        lift = max(lift, toe + 1e-3)
        events[4 * side : 4 * side + 4] = heel, toe, lift, max(off, lift)
    return events


def stance_path(paths: FloatArray, events: FloatArray) -> float:
    """How far [m] the planted feet go back in the carriage's frame, per cycle: mean of ``-dz/dphase`` in stance."""
    count = len(paths)
    phases = np.arange(count) / count
    back = -0.5 * count * (np.roll(paths[..., 2], -1, axis=0) - np.roll(paths[..., 2], 1, axis=0))
    found: list[FloatArray] = []
    for side in (0, 1):
        heel, _, lift, off = events[4 * side : 4 * side + 4]
        for effector, begin, end in ((2 * side, heel, lift), (2 * side + 1, lift, off)):
            inside = ((phases - begin) % 1.0) < max(end - begin, 0.0)
            found.append(back[inside, effector])
    planted = np.concatenate(found)
    return float(planted.mean()) if len(planted) else 0.0


def step_length(paths: FloatArray) -> float:
    """Distance [m] along the path between the ankles at the right strike."""
    return float(paths[0, 0, 2] - paths[0, 2, 2])


def gait_tables(gaits: GaitArrays, skeleton: Skeleton, leg_length_m: float) -> GaitTables:
    """Measure every style and gait on the speeds of ``gaits.speeds``; its own tables are not looked at."""
    num_styles, speeds = len(gaits.base), gaits.speeds
    shape = (num_styles, 2, len(speeds))
    stance, steps, events = np.zeros(shape), np.zeros(shape), np.zeros((*shape, len(EVENTS)))
    for k in range(num_styles):
        weights = np.eye(num_styles)[k]
        for run in (0, 1):
            for g, s in enumerate(speeds):
                rows = gaits.row(max(float(s), 1e-3), float(run), weights)
                paths = effector_paths(rows, gaits.means, skeleton, leg_length_m)
                events[k, run, g] = unit_events(paths, bool(run))
                path = stance_path(paths, events[k, run, g])
                stance[k, run, g] = s * leg_length_m / path if path > 0.0 else 0.0
                steps[k, run, g] = step_length(paths) / leg_length_m
            events[k, run, 0] = events[k, run, 1]
    glardon = np.stack([[_glardon(steps[k, t], gaits, k, t) for t in (0, 1)] for k in range(num_styles)])
    inman = np.broadcast_to(INMAN * np.sqrt(speeds), shape).copy()
    return GaitTables(stance, glardon, inman, events)


def _glardon(steps: FloatArray, gaits: GaitArrays, style: int, run: int) -> FloatArray:
    r"""Frequencies ``(G,)`` [Hz] by the thesis's law: :math:`F = s_n / (r\,l)`, the step ``l`` a line in speed.

    Below the slowest captured speed :math:`l = c\,s_n^{0.4}`, so :math:`F = s_n^{0.6} / (r c)`.
    """
    speeds, slowest = gaits.speeds, float(gaits.slowest[style, run])
    fitted = (speeds >= slowest) & (speeds <= gaits.limits[run])
    a, b = np.polyfit(speeds[fitted], steps[fitted], 1)
    joint = a * slowest + b
    factor = PATH_FACTORS[run]
    low = speeds ** (1.0 - STEP_POWER) * slowest**STEP_POWER / (factor * joint)
    return np.where(speeds < slowest, low, speeds / (factor * np.maximum(a * speeds + b, 0.2 * joint)))
