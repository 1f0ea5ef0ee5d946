"""Flights by geometry: where nothing carries the body, its centre of mass falls with gravity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.measure.feet import FootMeasures
from marey.measure.settings import MeterSettings
from marey.measure.tracks import MeasuredBody
from marey.motion import centre_of_mass, find_runs

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
