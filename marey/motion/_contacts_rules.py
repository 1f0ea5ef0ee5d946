"""Rules of the body for foot contacts: what a body cannot do is taken out, what it must do is put in."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.motion._motion import Motion
from marey.motion._points import LEG_M, NYQUIST_SHARE, SIDES, PointTracks, derivative

GAP_S = 0.10  # a foot cannot leave, swing and land in less
SHORT_S = 0.08  # shorter contacts are a foot passing low; a sprinter's stance lasts 0.1 s
FLIGHT_MIN_S = 0.06  # two frames at 30 Hz; a flight this short is the error of two boundaries
FLIGHT_CLOSE_S = 0.30  # a longer time without feet, not in free fall, is sitting, hanging or hands: left as it is
FREE_FALL_MPS2 = -5.0  # half of gravity: between standing (0) and flight (-9.81)
BODY_HZ = 10.0  # [Hz] cutoff for the acceleration of the centre of mass
ROLL_SPEED_MPS, ROLL_TRAVEL_M = 0.5, 0.06  # a "swing" slower and shorter than this is a foot rolling on its toes
LIFTED_M = 0.08  # a still foot this much above the standing one carries nothing
STANDING_SHARE = 0.5  # [-] of the leg: on a step one stands at least this upright
SQUAT_SHARE = 0.78  # [-] of the median pelvis height: below it the body squats
SQUAT_RISE_M = 0.15  # how far a ball rises when one squats on tiptoe


def clean_feet(motion: Motion, tracks: PointTracks, planted: BoolArray) -> BoolArray:
    """Apply the rules to point flags ``(F, K)`` and return whether each foot is down ``(F, 2)``."""
    fall = vertical_acceleration(motion)
    feet = np.stack([_tidy(planted[:, tracks.columns(side)].any(axis=1), tracks) for side in SIDES], axis=1)
    feet = _without_falling_plants(feet, fall)
    feet = _without_lifted_plants(feet, tracks)
    feet = _with_squats(feet, tracks)
    feet = np.stack([_with_rolls(feet[:, s], tracks, side) for s, side in enumerate(SIDES)], axis=1)
    return _without_false_flights(feet, fall, tracks)


def vertical_acceleration(motion: Motion) -> FloatArray:
    """Vertical acceleration of the centre of mass ``(F,)`` [m/s²], low-passed."""
    from marey.motion import centre_of_mass
    from marey.motion._filter import lowpass_values

    heights = centre_of_mass(motion)[:, 1]
    if len(heights) < 4:
        return np.zeros_like(heights)
    heights = lowpass_values(heights, motion.rate_hz, min(BODY_HZ, NYQUIST_SHARE * motion.rate_hz))
    return derivative(derivative(heights, motion.rate_hz), motion.rate_hz)


def runs(flags: BoolArray) -> IntArray:
    """Start and stop ``(R, 2)`` of each run of true flags ``(F,)``; the stop is not included."""
    padded = np.concatenate([[False], flags, [False]]).astype(np.int8)
    return np.flatnonzero(np.diff(padded)).reshape(-1, 2)


def inner_runs(flags: BoolArray) -> list[tuple[int, int]]:
    """Runs that touch neither end of the clip: those at the ends may be longer than they look."""
    return [(int(a), int(b)) for a, b in runs(flags) if 0 < a and b < len(flags)]


def is_falling(fall: FloatArray, start: int, stop: int) -> bool:
    """Return whether the centre of mass falls freely over the middle 60 % of a run."""
    margin = int(0.2 * (stop - start))
    return float(fall[start + margin : max(start + margin + 1, stop - margin)].mean()) < FREE_FALL_MPS2


def _tidy(down: BoolArray, tracks: PointTracks) -> BoolArray:
    """Fill short gaps, then drop short contacts."""
    down = down.copy()
    for start, stop in inner_runs(~down):
        down[start:stop] |= stop - start < tracks.frames(GAP_S)
    for start, stop in inner_runs(down):
        down[start:stop] &= stop - start >= tracks.frames(SHORT_S)
    return down


def _without_falling_plants(feet: BoolArray, fall: FloatArray) -> BoolArray:
    """A foot that is still at the top of a jump is not planted."""
    kept = feet.copy()
    for s in range(2):
        for start, stop in runs(feet[:, s]):
            kept[start:stop, s] &= not is_falling(fall, start, stop)
    return kept


def _without_lifted_plants(feet: BoolArray, tracks: PointTracks) -> BoolArray:
    """A foot held still in the air is not planted.

    It is in the air if it is above the other foot, which carries the body all the while, or if it is above all other
    plants and the body never stands up on it (a handstand).
    """
    soles = np.stack([tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES], axis=1)
    kept = feet.copy()
    ground = min((float(np.median(soles[a:b, s])) for s in range(2) for a, b in runs(feet[:, s])), default=0.0)
    for s in range(2):
        for start, stop in runs(feet[:, s]):
            level = float(np.median(soles[start:stop, s]))
            above = level - float(np.median(soles[start:stop, 1 - s])) > LIFTED_M * tracks.size
            idle = above and bool(feet[start:stop, 1 - s].all())
            upright = float(tracks.root_heights[start:stop].max()) - level > STANDING_SHARE * LEG_M * tracks.size
            aloft = level - ground > LIFTED_M * tracks.size and not upright
            kept[start:stop, s] &= not (idle or aloft)
    return kept


def _with_squats(feet: BoolArray, tracks: PointTracks) -> BoolArray:
    """In a deep squat on tiptoe both slow, low feet are planted, however far the heels and balls have risen."""
    low = tracks.root_heights < SQUAT_SHARE * np.median(tracks.root_heights)
    squat = low
    for side in SIDES:
        columns = tracks.columns(side)
        if not columns:
            return feet
        heights = tracks.heights[:, columns].min(axis=1)
        slow = tracks.speeds[:, columns].min(axis=1) < ROLL_SPEED_MPS
        squat = squat & slow & (heights < np.percentile(heights, 10.0) + SQUAT_RISE_M * tracks.size)
    return feet | squat[:, None]


def _with_rolls(down: BoolArray, tracks: PointTracks, side: str) -> BoolArray:
    """A slow, short "swing" is a foot rolling on its toes: it stays down."""
    columns = tracks.columns(side, "toe")
    down = down.copy()
    for start, stop in inner_runs(~down) if columns else ():
        speed = tracks.speeds[start:stop, columns].min(axis=1).max()
        path = tracks.positions[start - 1 : stop + 1, columns[0]]
        travel = np.linalg.norm(path - path[0], axis=1).max()
        down[start:stop] |= speed < ROLL_SPEED_MPS and travel < ROLL_TRAVEL_M * tracks.size
    return down


def _without_false_flights(feet: BoolArray, fall: FloatArray, tracks: PointTracks) -> BoolArray:
    """A short time without a foot down in which the body does not fall: close it in the middle."""
    closed = feet.copy()
    for start, stop in inner_runs(~feet.any(axis=1)):
        short = stop - start < tracks.frames(FLIGHT_MIN_S)
        false = stop - start < tracks.frames(FLIGHT_CLOSE_S) and not is_falling(fall, start, stop)
        if short or false:
            middle = (start + stop + 1) // 2
            closed[start:middle] |= feet[start - 1]
            closed[middle:stop] |= feet[stop]
    return closed
