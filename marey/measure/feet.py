"""Feet and flights by geometry: where each sole point has its floor, scrapes, swings, rests; how a free body falls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.measure.tracks import MeasuredBody, MeterSettings, second_difference, smooth
from marey.motion import centre_of_mass, find_runs

PEAK_HZ = 6.0  # [Hz] steps are slower; below it a swing has one peak of speed
SWING_PART = 0.2  # [-] of the rise from a minimum of speed to the peak: there a swing begins
STANCE_PART = 0.6  # [-] of a stance: its middle, without landing and leaving
PEAK_PART = 0.4  # [-] of a peak's speed: a foot slows down by more between two swings
FLOOR_S = 0.75  # [s] within it a foot of a walk or run has been on the ground
STAIR_M = 0.05  # [m] a floor lower by more is another one
FALL_MPS2 = 6.0  # [m/s2] a pelvis over a standing foot accelerates downwards by less, in the air by 9.8
AIR_M = 0.02  # [m] above the floor: higher soles touch nothing
STILL_PART = 0.05  # [-] of the rise to the peaks: a slower foot stands
SLOW_PART, SLOW_MPS = 1.02, 1e-3  # [-], [m/s] frames this near to the slowest are as slow: of those the middlemost
SHORT_STEP_M, SHORT_STEP_RAD = 0.3, np.deg2rad(30.0)  # a step that is shorter and turns less leads nowhere
END_S = 0.05  # [s] from an end of the clip: a minimum of speed this near to it may not be one


@dataclass(frozen=True, slots=True)
class FootStep:
    """One foot between two peaks of its speed: it comes to rest once, on one floor."""

    side: int  # 0 left, 1 right
    start: int
    stop: int  # not included
    slowest: int  # frame in which the slowest point of the sole is slowest
    rests: tuple[float, float, float]  # [m] heights of heel, ball and toe end where each of them is slowest
    speed_mps: float  # of the slowest point in the slowest frame
    is_whole: bool  # the foot comes to rest inside the clip


@dataclass(frozen=True, slots=True)
class FootSwing:
    """The middle of one swing."""

    side: int
    start: int
    stop: int
    clearance_m: float  # lowest point of the sole over the floor, which changes evenly from one stance to the next


@dataclass(frozen=True, slots=True, eq=False)
class FootMeasures:
    """What the soles do, frame by frame and step by step."""

    steps: tuple[FootStep, ...]
    swings: tuple[FootSwing, ...]
    floors: FloatArray  # (F, 2, 3) [m] own floor of each sole point
    heights: FloatArray  # (F, 2, 3) [m] of sole points over it
    slowest: FloatArray  # (F, 2) [m/s] slowest point of each sole
    scraped: FloatArray  # (F, 2) [m] of way over the floor in each frame
    is_middle: BoolArray  # (F, 2) in the middle of a stance
    drifts: FloatArray  # (S,) [m/s] of the soles on the floor, one for each step inside the clip
    is_in_air: BoolArray  # (F,) no sole point is near its floor, and the pelvis falls freely


def measure_feet(tracks: MeasuredBody, settings: MeterSettings) -> FootMeasures:
    """Find steps by speed alone, give each sole point its own floor, and measure against it.

    The speed of a foot is that of its slowest sole point. Its peaks are swings, and what lies between two peaks is a
    step, however fast the foot still is at its slowest (a dragged foot has steps as well). The **own floor** of a
    point at time t is the least height that this point has within 0.75 s of t; heights more than 5 cm below the
    lowest one of its own step are left out, since they are those of another stair. So stairs, slopes, a tilted capture
    volume and an ill-estimated sole do no harm, and no contact is assumed. A point scrapes while it is less than
    ``near_m`` above its floor and moves faster than ``scrape_mps``; the way of a foot is that of its fastest
    scraping point.
    """
    from scipy.signal import find_peaks

    frames, rate = tracks.num_frames, tracks.rate_hz
    # Frames in which the pelvis accelerates downwards like a body in the air
    down = -second_difference(tracks.pelvis[:, 1], tracks.rate_hz, settings.span_s)
    cut = frames - len(down)
    falls = np.pad(down, (cut // 2, cut - cut // 2), mode="edge") > FALL_MPS2 if len(down) else np.zeros(frames, bool)
    slowest = tracks.sole_speeds.min(axis=2)
    floors = np.zeros((frames, 2, 3))
    is_middle = np.zeros((frames, 2), dtype=bool)
    steps: list[FootStep] = []
    swings: list[FootSwing] = []
    for side in range(2):
        speed = smooth(slowest[:, side], rate, PEAK_HZ)
        # Peaks of speed that rise enough above the minima beside them; a swing of two humps is one
        gap = int(settings.swing_gap_s * rate)
        found, beside = find_peaks(speed, prominence=settings.swing_mps, distance=max(gap, 1))
        peaks = [int(peak) for peak in found[beside["prominences"] > PEAK_PART * speed[found]]]
        edges = [0, *peaks, frames]
        own: list[FootStep] = []
        for start, stop in pairwise(edges):
            if stop <= start:
                continue
            # Each point rests where it is slowest; a foot that does so at an end of the clip may still be moving
            still = start + np.argmin(tracks.sole_speeds[start:stop, side], axis=0)
            heel, ball, toe_end = map(float, tracks.soles[still, side, np.arange(3), 1])
            own_speed = slowest[start:stop, side]
            slow = start + np.flatnonzero(own_speed <= SLOW_PART * own_speed.min() + SLOW_MPS)
            least = int(slow[np.argmin(np.abs(slow - 0.5 * (frames - 1)))])
            # ... and nobody stands while the pelvis falls freely: at the top of a jump feet are slow, too
            inside = int(END_S * rate) <= least < frames - int(END_S * rate) and not falls[least]
            # A step that the clip cuts may have no time on the ground: its floor is that of the step beside it
            around, stair_m = (FLOOR_S, STAIR_M) if inside else (2.0 * FLOOR_S, np.inf)
            floors[start:stop, side] = _find_floor(
                tracks.soles[:, side, :, 1], start, stop, int(around * rate), stair_m
            )
            step = FootStep(
                side, start, stop, least, (heel, ball, toe_end), float(slowest[least, side]), is_whole=inside
            )
            own.append(step)
            if inside:
                # The middle of a stance: where the foot is slow against the peaks beside it, cut at both ends
                pace = slowest[:, side]
                earlier, later = pace[step.start : step.slowest + 1], pace[step.slowest : step.stop]
                fast = earlier > step.speed_mps + STILL_PART * (earlier.max() - step.speed_mps)
                begin = step.start + (int(np.flatnonzero(fast)[-1]) + 1 if fast.any() else 0)
                fast = later > step.speed_mps + STILL_PART * (later.max() - step.speed_mps)
                end = step.slowest + (int(np.flatnonzero(fast)[0]) if fast.any() else len(later))
                cut = 0.5 * (1.0 - STANCE_PART) * (end - begin)
                first, last = (
                    min(int(np.ceil(begin + cut)), step.slowest),
                    max(int(np.floor(end - cut)), step.slowest + 1),
                )
                is_middle[first:last, side] = True
        for before, peak, after in zip(own[:-1], peaks, own[1:], strict=False):
            swings += _measure_swing(tracks, before, peak, after, slowest[:, side], settings)
        steps += own
    heights = tracks.soles[..., 1] - floors
    scrapes = (heights < settings.near_m) & (tracks.ground_speeds > settings.scrape_mps)
    scraped = np.where(scrapes, tracks.ground_speeds, 0.0).max(axis=2) / rate
    is_in_air = falls & (heights.min(axis=(1, 2)) > AIR_M)
    drifts = np.array([_measure_drift(step, heights, tracks, settings) for step in steps if step.is_whole])
    drifts = drifts[np.isfinite(drifts)]
    return FootMeasures(tuple(steps), tuple(swings), floors, heights, slowest, scraped, is_middle, drifts, is_in_air)


def count_short_steps(tracks: MeasuredBody, feet: FootMeasures) -> int:
    """Most steps in a row that lead nowhere: shorter than 30 cm, turned by less than 30 degrees, within a second.

    A walker who stops, picks something up and goes on takes one or two; more of them is a dither on the spot. In 15
    captured walks with picks (CMU 64_26-28, 69_68-75, 143_10-13) there is one at most.
    """
    rows: list[tuple[int, bool]] = []
    for side in range(2):
        steps = [step for step in feet.steps if step.side == side]
        # Heel, ball and toe end where each of them is slowest
        rests = [
            tracks.soles[s.start + np.argmin(tracks.sole_speeds[s.start : s.stop, side], axis=0), side, np.arange(3)]
            for s in steps
        ]
        for step, (before, after) in zip(steps[1:], pairwise(rests), strict=True):
            a, b = (np.arctan2(*(rest[2] - rest[0])[[0, 2]]) for rest in (before, after))
            is_straight = np.cos(b - a) > np.cos(SHORT_STEP_RAD)
            away = np.linalg.norm((after - before)[:, [0, 2]], axis=1).min()
            rows.append((step.start, bool(is_straight and away < SHORT_STEP_M)))
    most, run, last = 0, 0, 0
    for start, is_short in sorted(rows):
        run = 0 if not is_short else run + 1 if start - last < tracks.rate_hz else 1
        most, last = max(most, run), start
    return most


def _measure_drift(step: FootStep, heights: FloatArray, tracks: MeasuredBody, settings: MeterSettings) -> float:
    """Median speed [m/s] of a sole in the middle half of its longest time on the floor; NaN if it is not long there.

    Of heel, ball and toe end the slowest counts. The least speed of a step says less: a foot that is dragged backwards
    comes to rest for a moment while it swings forwards.
    """
    least = np.nan
    for point in range(3):
        near = heights[step.start : step.stop, step.side, point] < settings.drift_near_m
        start, stop = max(find_runs(near), key=lambda run: run[1] - run[0], default=(0, 0))
        if stop - start < settings.least_drift_s * tracks.rate_hz:
            continue
        cut = (stop - start) // 4
        speeds = tracks.ground_speeds[step.start + start + cut : step.start + stop - cut, step.side, point]
        least = np.fmin(least, float(np.median(speeds)))
    return float(least)


def _find_floor(heights: FloatArray, start: int, stop: int, around: int, stair_m: float) -> FloatArray:
    """Own floor ``(stop - start, 3)`` [m] of the points of one sole in a step, from their heights ``(F, 3)``."""
    from scipy.ndimage import minimum_filter1d

    low = max(start - around, 0)
    lowest = heights[start:stop].min(axis=0)
    near = heights[low : stop + around]
    level = np.where(near < lowest - stair_m, lowest, near)
    floor = minimum_filter1d(level, 2 * around + 1, axis=0, mode="nearest")[start - low : stop - low]
    # In a slow gait a swing may last longer: the step's own time on the ground counts as well
    return np.minimum(floor, lowest)


def _measure_swing(
    tracks: MeasuredBody, before: FootStep, peak: int, after: FootStep, speed: FloatArray, settings: MeterSettings
) -> list[FootSwing]:
    """Return the swing between two stances, if it lies inside the clip."""
    if not (before.is_whole and after.is_whole):
        return []
    # A swing begins and ends where a fifth of the speed is reached
    rises = speed[before.slowest : peak] < before.speed_mps + SWING_PART * (speed[peak] - before.speed_mps)
    falls = speed[peak : after.slowest] < after.speed_mps + SWING_PART * (speed[peak] - after.speed_mps)
    start = before.slowest + (int(np.flatnonzero(rises)[-1]) + 1 if rises.any() else 0)
    stop = peak + (int(np.flatnonzero(falls)[0]) if falls.any() else len(falls))
    cut = 0.5 * (1.0 - settings.swing_middle) * (stop - start)
    start, stop = int(np.ceil(start + cut)), int(np.floor(stop - cut))
    if stop <= start:
        return []
    low = tracks.soles[start:stop, before.side, :, 1].min(axis=1)
    along = (np.arange(start, stop) - before.slowest) / max(after.slowest - before.slowest, 1)
    floor = (1.0 - along) * min(before.rests) + along * min(after.rests)
    return [FootSwing(before.side, start, stop, float((low - floor).min()))]


GRAVITY_MPS2: Final = 9.81
NOISE_M: Final = 1e-3  # [m] of a captured centre of mass: no fit is better known
LEAST_FRAMES: Final = 5  # of a parabola and something to judge it by
CLEAR_M: Final = 0.02  # [m] higher soles touch nothing
PART, PART_S = 0.6, 0.09  # [-], [s] of a flight that is fitted by itself: its ends may still be carried


@dataclass(frozen=True, slots=True)
class FlightArc:
    """A stretch in which both soles are clear of their floors, and how fast the centre of mass falls in it."""

    start: int
    stop: int  # not included
    lift_m: float  # highest clearance of the lower sole
    whole: float  # [g] acceleration downwards over the whole stretch
    whole_error: float  # [g] standard error of it
    best: float  # [g] of the part of the stretch that falls fastest
    best_error: float
    worst: float  # [g] of the part that falls slowest

    def is_too_slow(self, settings: MeterSettings) -> bool:
        """Whether the body falls all the time, and nowhere as fast as gravity demands: the clip is played slowly."""
        is_arc = self.worst > settings.least_arc_g and self.lift_m > settings.least_lift_m
        if self.best < settings.slow_arc_g:
            is_even = self.best - self.worst < settings.most_uneven_g
            is_arc = is_arc and is_even and self.lift_m > settings.least_slow_lift_m
        return is_arc and self.best + self.best_error < settings.least_flight_g

    def is_too_fast(self, settings: MeterSettings) -> bool:
        """Whether the body falls faster than gravity pulls it."""
        return self.whole - 2.0 * self.whole_error > settings.most_flight_g


def find_flight_arcs(tracks: MeasuredBody, feet: FootMeasures, settings: MeterSettings) -> tuple[FlightArc, ...]:
    r"""Fit a parabola to the height of the centre of mass in every flight inside the clip.

    .. math:: y(t) \approx y_0 + v t - \tfrac12 a t^2,\qquad \sigma_a \approx \sigma_y\sqrt{720/N}/T^2

    A flight is a stretch of at least ``least_flight_s`` in which every sole point is more than 2 cm above its own
    floor. Its ends are uncertain, since soles are estimates; so the fit is repeated on every part of 60 % of it. A
    capture falls freely in the best of them; one that is played at two thirds of its speed falls with 0.44 g in all.
    """
    heights = feet.heights.min(axis=(1, 2))
    stretches = [
        (start, stop)
        for start, stop in find_runs(heights > CLEAR_M)
        if start > 0
        and stop < len(heights)
        and stop - start >= max(LEAST_FRAMES, settings.least_flight_s * tracks.rate_hz)
    ]
    if not stretches:
        return ()
    # The jumps of the root are taken out, as everywhere in the meter
    rise = centre_of_mass(tracks.motion, tracks.roles)[:, 1]
    for frame, offset in zip(tracks.jumps.frames, tracks.jumps.offsets, strict=True):
        rise[frame:] -= offset[1]
    arcs: list[FlightArc] = []
    for start, stop in stretches:
        width = min(max(LEAST_FRAMES, round(PART * (stop - start)), round(PART_S * tracks.rate_hz)), stop - start)
        whole, whole_error = _fit_fall(rise[None, start:stop], tracks.rate_hz)
        parts = np.lib.stride_tricks.sliding_window_view(rise[start:stop], width)
        falls, errors = _fit_fall(parts, tracks.rate_hz)
        fastest = int(np.argmax(falls))
        arcs.append(
            FlightArc(
                start,
                stop,
                float(heights[start:stop].max()),
                float(whole[0]),
                float(whole_error[0]),
                float(falls[fastest]),
                float(errors[fastest]),
                float(falls.min()),
            )
        )
    return tuple(arcs)


def _fit_fall(heights: FloatArray, rate_hz: float) -> tuple[FloatArray, FloatArray]:
    """Acceleration downwards ``(B,)`` [g] of parabolas through heights ``(B, N)`` [m], and its standard error."""
    count = heights.shape[1]
    times: FloatArray = (np.arange(count, dtype=np.float64) - 0.5 * (count - 1)) / rate_hz
    basis = np.stack([np.ones(count), times, times**2], axis=1)
    solution = np.linalg.lstsq(basis, heights.T, rcond=None)[0]
    scatter = np.maximum((heights.T - basis @ solution).std(axis=0), NOISE_M)
    errors = scatter * np.sqrt(720.0 / count) / (count / rate_hz) ** 2
    return -2.0 * solution[2] / GRAVITY_MPS2, errors / GRAVITY_MPS2
