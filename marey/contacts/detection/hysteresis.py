"""The default detector: low and nearly still, with hysteresis, a floor of its own for each plant, and body rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.contacts.ankles import mend_ankles
from marey.contacts.detection.points import (
    DEFAULT_SETTINGS,
    SIDES,
    ContactSettings,
    PointTracks,
    differentiate,
    track_points,
)
from marey.contacts.detection.rules import build_contact_track, clean_feet, filter_hand_contacts, support_body
from marey.motion.clip import Contacts, Motion
from marey.motion.time_series import find_runs
from marey.skeleton import find_lost_bones, known_thorax, restore_bones, restored_roles


@kernel
def local_floor(heights: FloatArray, before: int, after: int) -> FloatArray:
    """Lowest height ``(F, K)`` from ``before`` frames before to ``after`` frames after each frame."""
    num_frames, num_points = heights.shape
    floor = np.empty_like(heights)
    for k in range(num_points):
        for i in range(num_frames):
            lowest = heights[i, k]
            for j in range(max(0, i - before), min(num_frames, i + after + 1)):
                lowest = min(lowest, heights[j, k])
            floor[i, k] = lowest
    return floor


@kernel
def keep_entered_runs(stay: BoolArray, enter: BoolArray) -> BoolArray:
    """Keep those runs of ``stay`` ``(F, K)`` in which ``enter`` holds at least once: hysteresis, the same both ways."""
    num_frames, num_points = stay.shape
    kept = np.zeros(stay.shape, dtype=np.bool_)
    for k in range(num_points):
        start = 0
        while start < num_frames:
            if not stay[start, k]:
                start += 1
                continue
            stop, found = start, False
            while stop < num_frames and stay[stop, k]:
                found = found or enter[stop, k]
                stop += 1
            for i in range(start, stop):
                kept[i, k] = found
            start = stop
    return kept


def detect_by_hysteresis(motion: Motion, settings: ContactSettings = DEFAULT_SETTINGS) -> Contacts:
    """Points that are low and nearly still ([Safonova2006]_ F3, after [Lee2002]_), cleaned by what a body can do.

    Five things differ from the source. Speed thresholds are relative to the pelvis, else brisk walks lose their double
    support. Each plant has its own floor, so stairs and uneven capture floors work. The first and last frame of a plant
    are where the point meets the lowest height nearby, so a foot that hovers slowly before it lands is not yet down.
    A foot has three points, as it leaves the ground with the end of its toes. And what is known to be wrong with a
    capture, bones that a conversion lost and ankles that flipped, is mended before it is looked at.
    """
    # The person, not the file: bones that a conversion lost move the centre of mass, flipped ankles the soles
    if motion.translations is None and find_lost_bones(motion.skeleton):
        skeleton = restore_bones(motion.skeleton, thorax=known_thorax(motion.skeleton))
        motion = replace(motion, skeleton=skeleton, source=None)
    roles = restored_roles(motion.skeleton)
    if all(f"{side}_{part}" in roles for side in SIDES for part in ("hip", "knee", "ankle")):
        motion, _ = mend_ankles(motion, roles)
    tracks = track_points(motion)
    planted = detect_still_and_low(tracks, settings)
    feet = clean_feet(tracks, planted, settings)
    planted, on_hands = filter_hand_contacts(tracks, planted, feet, settings)
    return build_contact_track(tracks, planted, support_body(tracks, feet, on_hands, settings))


def detect_still_and_low(tracks: PointTracks, settings: ContactSettings = DEFAULT_SETTINGS) -> BoolArray:
    """Return whether each point ``(F, K)`` is nearly still at the lowest height nearby; no body rules yet."""
    heights = np.ascontiguousarray(tracks.heights)
    is_hand = np.array([name.endswith("hand") for name in tracks.names], dtype=bool)
    # Slow enough: speeds against thresholds that follow the pelvis, with hysteresis
    pelvis = np.minimum(tracks.root_speeds[:, None], np.where(is_hand, np.inf, settings.pelvis_speed_max_mps))
    froude = np.sqrt(tracks.size)
    enter = tracks.speeds < np.maximum(settings.enter_speed_mps * froude, settings.enter_share * pelvis)
    stay = tracks.speeds < np.maximum(settings.stay_speed_mps * froude, settings.stay_share * pelvis)
    slow = keep_entered_runs(stay, enter)
    # Heights (K,) [m] of a plant: within it, at its start and at its end
    stay_m = tracks.size * np.where(is_hand, settings.hand_stay_m, settings.stay_height_m)
    landing_m = tracks.size * np.where(is_hand, settings.hand_touch_m, settings.landing_m)
    leaving_m = tracks.size * np.where(is_hand, settings.hand_touch_m, settings.leaving_m)
    # Floor (F, K) [m] of each slow run, on its frames; minus infinity elsewhere
    floors = np.full_like(heights, -np.inf)
    for k in range(heights.shape[1]):
        for start, stop in find_runs(slow[:, k]):
            rank = int(settings.floor_share * (stop - start))
            floors[start:stop, k] = np.partition(heights[start:stop, k], rank)[rank]
    plant = keep_entered_runs(slow & (heights < floors + stay_m), enter)
    sunk, window = np.where(plant, heights, np.inf), tracks.frames(settings.touch_window_s)
    near = settings.touch_time_s * np.abs(differentiate(heights, tracks.rate_hz))
    landed = heights - local_floor(sunk, 0, window) < landing_m + near
    resting = heights - local_floor(sunk, window, 0) < leaving_m + near
    # A plant lasts from its first landed to its last resting frame
    kept = np.zeros_like(plant)
    for k in range(plant.shape[1]):
        for start, stop in find_runs(plant[:, k]):
            first, last = np.argmax(landed[start:stop, k]), np.argmax(resting[start:stop, k][::-1])
            if landed[start + first, k] and resting[stop - 1 - last, k]:
                kept[start + first : stop - last, k] = True
    return kept
