"""The default detector: low and nearly still, with hysteresis, a floor of its own for each plant, and body rules."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion._contacts_hands import contact_track, hand_contacts
from marey.motion._contacts_rules import clean_feet, runs, support_body, vertical_acceleration
from marey.motion._motion import Contacts, Motion
from marey.motion._points import PointTracks, derivative, point_tracks

# Speeds, against a force plate in a walk at 1.27 m/s: the heel lands at 0.5 to 0.9 m/s, the toe end leaves at 1.1 to
# 1.4 m/s, and in between both are under 0.5 m/s. They grow with walking speed, so they are relative to the pelvis.
ENTER_SPEED_MPS = 0.25  # a plant must once be this slow: twice what 5 mm of noise gives after smoothing
STAY_SPEED_MPS = 0.55  # and lasts while the point is slower than this
ENTER_SHARE, STAY_SHARE = 0.5, 0.8  # [-] of the pelvis speed, where that is more
PELVIS_SPEED_MAX_MPS = 1.5  # a share of more than this is faster than any foot lands or leaves (force plate, above)
# Heights, above the floor of the plant itself, so that steps and a bent capture floor do no harm.
STAY_HEIGHT_M = 0.06  # a toe end sinks 4 cm from flat foot to toe-off; above that the point has left
TOUCH_HEIGHT_M = 0.01  # a plant begins and ends within this of the lowest height nearby, about two noise widths
TOUCH_TIME_S = 0.02  # or within what the point rises or sinks in this time, half a frame at 30 Hz
TOUCH_WINDOW_S = 0.20  # "nearby": longer than a landing, shorter than a stance
HAND_STAY_M, HAND_TOUCH_M = 0.18, 0.08  # a planted palm rolls, and CMU skeletons, short of 0.12 m of chest, let it drift
FLOOR_PERCENTILE = 10.0  # [%] of the heights in a plant: its lowest, but not its lowest outlier


def hysteresis_contacts(motion: Motion) -> Contacts:
    """Points that are low and nearly still ([Safonova2006]_ F3, after [Lee2002]_), cleaned by what a body can do.

    Four things differ from the source. Speed thresholds are relative to the pelvis, else brisk walks lose their double
    support. Each plant has its own floor, so stairs and uneven capture floors work. The first and last frame of a plant
    are where the point meets the lowest height nearby, so a foot that hovers slowly before it lands is not yet down.
    And a foot has three points, as it leaves the ground with the end of its toes.
    """
    tracks = point_tracks(motion)
    planted = still_and_low(tracks)
    fall = vertical_acceleration(motion)
    feet = clean_feet(motion, tracks, planted, fall)
    planted, on_hands = hand_contacts(motion, tracks, planted, feet)
    return contact_track(tracks, planted, support_body(motion, tracks, feet, on_hands, fall))


def still_and_low(tracks: PointTracks) -> BoolArray:
    """Return whether each point ``(F, K)`` is nearly still at the lowest height nearby; no body rules yet."""
    from marey.motion._contacts_kernels import local_floor, runs_with

    heights = np.ascontiguousarray(tracks.heights)
    pelvis = np.where(_is_hand(tracks), tracks.root_speeds[:, None], np.minimum(tracks.root_speeds, PELVIS_SPEED_MAX_MPS)[:, None])
    froude = np.sqrt(tracks.size)
    enter = tracks.speeds < np.maximum(ENTER_SPEED_MPS * froude, ENTER_SHARE * pelvis)
    stay = tracks.speeds < np.maximum(STAY_SPEED_MPS * froude, STAY_SHARE * pelvis)
    slow = runs_with(stay, enter)
    stay_m, touch_m = _tolerances(tracks)
    plant = runs_with(slow & (heights < plant_floors(heights, slow) + stay_m), enter)
    nearby = local_floor(np.where(plant, heights, np.inf), tracks.frames(TOUCH_WINDOW_S))
    rising = np.abs(derivative(heights, tracks.rate_hz))
    touching = plant & (heights - nearby < touch_m + TOUCH_TIME_S * rising)
    return _between_touches(plant, touching)


def _is_hand(tracks: PointTracks) -> BoolArray:
    return np.array([name.endswith("hand") for name in tracks.names], dtype=bool)


def _tolerances(tracks: PointTracks) -> tuple[FloatArray, FloatArray]:
    """Heights ``(K,)`` [m] under which a point stays planted, and under which it touches."""
    is_hand = _is_hand(tracks)
    stay_m = np.where(is_hand, HAND_STAY_M, STAY_HEIGHT_M)
    return stay_m * tracks.size, np.where(is_hand, HAND_TOUCH_M, TOUCH_HEIGHT_M) * tracks.size


def plant_floors(heights: FloatArray, slow: BoolArray) -> FloatArray:
    """Floor of each run of ``slow`` ``(F, K)`` [m], on the frames of the run; minus infinity elsewhere."""
    floors = np.full_like(heights, -np.inf)
    for k in range(heights.shape[1]):
        for start, stop in runs(slow[:, k]):
            floors[start:stop, k] = np.percentile(heights[start:stop, k], FLOOR_PERCENTILE)
    return floors


def _between_touches(plant: BoolArray, touching: BoolArray) -> BoolArray:
    """Cut each run of ``plant`` to the part from its first to its last touching frame."""
    kept = np.zeros_like(plant)
    for k in range(plant.shape[1]):
        for start, stop in runs(plant[:, k]):
            touches = start + np.flatnonzero(touching[start:stop, k])
            if len(touches):
                kept[touches[0] : touches[-1] + 1, k] = True
    return kept
