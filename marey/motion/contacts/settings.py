"""Thresholds of the default contact detector; lengths are for the human of 1.75 m and scale with the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ContactSettings:
    """When a point of the body counts as planted, and what a body can and cannot do."""

    # Speeds, against a force plate in a walk at 1.27 m/s: the heel lands at 0.5 to 0.9 m/s, the toe end leaves at 1.1
    # to 1.4 m/s, and in between both are under 0.5 m/s. They grow with walking speed, so the pelvis sets the scale.
    enter_speed_mps: float = 0.25  # a plant must once be this slow: twice what 5 mm of noise gives after smoothing
    stay_speed_mps: float = 0.55  # and lasts while the point is slower than this
    enter_share: float = 0.5  # [-] of the pelvis speed, where that is more
    stay_share: float = 0.8  # [-]
    pelvis_speed_max_mps: float = 1.5  # a share of more than this is faster than any foot lands or leaves
    # Heights, above the floor of the plant itself, so that steps and a bent capture floor do no harm
    stay_height_m: float = 0.06  # a toe end sinks 4 cm from flat foot to toe-off; above that the point has left
    landing_m: float = 0.010  # a plant begins where the point sinks no more than this (two noise widths): it has landed
    leaving_m: float = 0.015  # and ends where it has risen more than this: toes roll before they leave
    touch_window_s: float = 0.20  # time over which it sinks or has risen: longer than a landing, shorter than a stance
    touch_time_s: float = 0.02  # both heights are more by what the point moves in this time, half a frame at 30 Hz
    hand_stay_m: float = 0.18  # a planted palm rolls, and CMU skeletons, short of 0.12 m of chest, let it drift
    hand_touch_m: float = 0.08  # the same at the start and the end of a hand's plant
    floor_share: float = 0.1  # [-] of the heights in a plant lie below its floor: the lowest, but for outliers
    # Rules of the body
    gap_s: float = 0.10  # a foot cannot leave, swing and land in less
    short_s: float = 0.08  # shorter contacts are a foot passing low; a sprinter's stance lasts 0.1 s
    flight_close_s: float = 0.40  # a longer time without feet, not in free fall, is sitting, hanging or hands
    roll_speed_mps: float = 0.5  # a "swing" slower than this and shorter than the next is a foot rolling on its toes
    roll_travel_m: float = 0.06
    lifted_m: float = 0.08  # a still foot this much above the standing one carries nothing
    standing_share: float = 0.5  # [-] of the leg: on a step one stands at least this upright
    squat_share: float = 0.78  # [-] of the median pelvis height: below it the body squats
    squat_leg_m: float = 0.10  # the feet are at least this much below the pelvis, or the body lies or rolls
    bearing_m: float = 0.30  # a body whose centre is this far from its feet topples, unless a hand carries it
    # Hands
    hand_height_m: float = 0.30  # palm above the ground of the feet: CMU skeletons lack 0.12 m of chest and lean
    hand_short_s: float = 0.10  # a hand that carries weight stays at least this long
    bearing_share: float = 0.3  # [-] of the contact during which a hand must carry


DEFAULT_SETTINGS: Final = ContactSettings()
