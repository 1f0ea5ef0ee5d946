"""When ankles and toes are planted in one gait cycle, from their heights ([Glardon2005]_ §III.2.3)."""

from __future__ import annotations

from math import isfinite
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, frozen

# [-] where the threshold lies between the lowest height of the window and that of its ends
THRESHOLD_FRACTION: Final = 0.4
MARGIN_M: Final = 0.010  # [m] two widths of a capture's noise: lower than this over the lowest point is down
WINDOWS: Final = (  # phases, right ankle, right toe, left ankle, left toe: walk start and end, run start and end
    (0.04, 0.48, 0.04, 0.28),
    (0.12, 0.60, 0.04, 0.36),
    (0.52, 1.04, 0.48, 0.76),
    (0.60, 1.16, 0.52, 0.88),
)
HEIGHT_M: Final = 0.02  # [m] of the baseline: lower than this over the lowest point ...
SPEED_MPS: Final = 0.5  # [m/s] ... and slower than this


class PlantInterval(NamedTuple):
    """One plant of one effector, in frames with fractions; may reach beyond the last frame of a cycle."""

    start: float
    stop: float


def plant_windows(run: float = 0.0) -> FloatArray:
    """Enclosed windows ``(4, 2)`` as phases, for a share of running between 0 and 1 (linear between both)."""
    if not 0.0 <= _check_number("run", run) <= 1.0:
        raise InputError(f"run is {run}", "Give the share of running, from 0 (walk) to 1 (run)")
    table = np.array(WINDOWS)
    return (1.0 - run) * table[:, :2] + run * table[:, 2:]


def detect_plants(
    heights: ArrayLike,
    *,
    run: float = 0.0,
    delta: float = THRESHOLD_FRACTION,
    windows: ArrayLike | None = None,
    margin_m: float = MARGIN_M,
) -> tuple[PlantInterval, ...]:
    r"""Find the plant of each effector in one cycle by an adaptive height threshold.

    .. math:: \epsilon = h_{min} + \delta\,(\tfrac12(h_b + h_e) - h_{min})

    In the window that encloses the plant, :math:`h_b` and :math:`h_e` are the heights at its ends. The plant lasts from
    the first to the last place of the window that is not above :math:`\epsilon`: one plant per effector, whatever the
    noise; an offset of the floor cancels. Crossings are interpolated between frames, as a truncated short plant shows.
    A window that lies within the plant has ends as low as its middle: the threshold is no lower than ``margin_m``.

    Args:
        heights: of right ankle, right toe, left ankle, left toe over one cycle that starts with the strike of the right
            heel ``(N, 4)`` [m]; the cycle closes.
        run: share of running: windows of walks and runs are mixed.
        delta: larger trusts the ends of the windows more.
        windows: other windows ``(4, 2)``, as phases.
        margin_m: heights this little over the lowest are down whatever the threshold [m].
    """
    table = frozen(heights, None, 4, name="heights")
    ends = plant_windows(run) if windows is None else frozen(windows, 4, 2, name="windows")
    if len(table) < 4:
        raise InputError(f"a cycle of {len(table)} frames", "Foot plants need at least four")
    if np.abs(ends).max() > 2.0 or (ends[:, 0] > ends[:, 1]).any():
        raise InputError("windows are not phases, each from a start to an end", "Give cycles, as 0.1 and 0.5")
    _check_number("delta", delta)
    _check_number("margin_m", margin_m)
    return tuple(
        _detect_in_window(table[:, k], float(ends[k, 0]) * len(table), float(ends[k, 1]) * len(table), delta, margin_m)
        for k in range(4)
    )


def detect_events(heights: ArrayLike, *, run: float = 0.0, delta: float = THRESHOLD_FRACTION) -> FloatArray:
    """Unwrapped phases ``(8,)`` of RHS, RTS, RHO, RTO, LHS, LTS, LHO, LTO in one cycle.

    From heights ``(N, 4)`` [m], see :func:`detect_plants`. A toe strikes and leaves no earlier than its heel.
    """
    table = frozen(heights, None, 4, name="heights")
    right_ankle, right_toe, left_ankle, left_toe = detect_plants(table, run=run, delta=delta)
    phases: list[float] = []
    for ankle, toe in ((right_ankle, right_toe), (left_ankle, left_toe)):
        strike = max(ankle.start, toe.start)
        phases += [ankle.start, strike, min(ankle.stop, toe.stop), max(ankle.stop, toe.stop)]
    return np.array(phases) / len(table)


def _detect_in_window(heights: FloatArray, begin: float, end: float, delta: float, margin_m: float) -> PlantInterval:
    """Plant in ``[begin, end]`` frames of a closed curve."""
    inner: FloatArray = np.arange(np.ceil(begin), np.floor(end) + 1.0, dtype=np.float64)
    places = np.unique(np.concatenate([np.array([begin]), inner, np.array([end])]))
    # The closed curve at these places, linear between frames
    below = np.floor(places).astype(np.int64)
    part = places - below
    count = len(heights)
    curve = (1.0 - part) * heights[below % count] + part * heights[(below + 1) % count]
    lowest = float(curve.min())
    threshold = lowest + max(delta * (0.5 * float(curve[0] + curve[-1]) - lowest), margin_m)
    low = np.flatnonzero(curve <= threshold)
    first, last = int(low[0]), int(low[-1])
    start = places[0] if first == 0 else _interpolate_crossing(places, curve, first - 1, threshold)
    stop = places[-1] if last == len(places) - 1 else _interpolate_crossing(places, curve, last, threshold)
    return PlantInterval(float(start), float(stop))


def _interpolate_crossing(places: FloatArray, curve: FloatArray, k: int, threshold: float) -> float:
    """Where the curve passes the threshold between places ``k`` and ``k + 1``."""
    part = (threshold - curve[k]) / (curve[k + 1] - curve[k])
    return float(places[k] + part * (places[k + 1] - places[k]))


def detect_plants_by_threshold(
    positions: ArrayLike, rate_hz: float, *, height_m: float = HEIGHT_M, speed_mps: float = SPEED_MPS, average: int = 1
) -> BoolArray:
    """Flags ``(N, K)`` of the plain baseline: low and slow, one threshold each; to compare with.

    It splits plants when positions are noisy, and needs other thresholds for other gaits.

    Args:
        positions: of the effectors ``(N, K, 3)`` [m], on the spot or over ground.
        rate_hz: frames per second.
        height_m: over the lowest height of each effector.
        speed_mps: over ground.
        average: frames of a window average taken first.
    """
    points = frozen(positions, None, None, 3, name="positions")
    if len(points) < 2:
        raise InputError(f"positions of {len(points)} frames", "Speeds need at least two")
    for name, value in (("rate_hz", rate_hz), ("height_m", height_m), ("speed_mps", speed_mps)):
        if _check_number(name, value) <= 0.0:
            raise InputError(f"{name} is {value:g}", "It must be a positive number")
    if not 1 <= _check_number("average", average) <= len(points) or int(average) != average:
        raise InputError(f"average is {average}", f"Give a whole number of frames, from 1 to {len(points)}")
    if average > 1:
        weights = np.full(int(average), 1.0 / average)
        points = np.apply_along_axis(lambda v: np.convolve(v, weights, mode="same"), 0, points)
    speeds = np.linalg.norm(np.gradient(points, axis=0), axis=-1) * rate_hz
    return (points[..., 1] < points[..., 1].min(axis=0) + height_m) & (speeds < speed_mps)


def _check_number(name: str, value: object) -> float:
    """Return a finite number."""
    if not isinstance(value, int | float) or not isfinite(value):
        raise InputError(f"{name} is {value!r}", "It must be a finite number")
    return float(value)
