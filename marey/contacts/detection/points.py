"""Positions and speeds of contact points, the input of every contact detector, and the settings of the default one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion.clip import Motion
from marey.motion.mass import centre_of_mass
from marey.motion.time_series import lowpass_values
from marey.skeleton import ContactPoints, Skeleton, contact_points, foot_points

SIDES = ("left", "right")
SMOOTHING_HZ = 12.0  # [Hz] keeps the jolt of a heel strike (about 0.03 s) and takes 5 mm of marker noise to 0.1 m/s
BODY_HZ = 10.0  # [Hz] the same for the centre of mass, which is heavier and is differentiated twice
NYQUIST_SHARE = 0.4  # [-] largest cutoff as a share of the frame rate: a 30 Hz clip is filtered at 12 Hz as well
LEG_M = 0.96  # [m] path from root to ankle of the 1.75 m human, the body for which the thresholds are stated


@dataclass(frozen=True, slots=True)
class ContactSettings:
    """When a point of the body counts as planted, and what a body can and cannot do.

    Thresholds of the default detector; lengths are for the human of 1.75 m and scale with the body.
    """

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


@dataclass(frozen=True, slots=True, eq=False)
class PointTracks:
    """Points of the body in time, smoothed: heel, ball and toe end of each foot, then the hands."""

    names: tuple[str, ...]  # (K,)
    rate_hz: float
    positions: FloatArray  # (F, K, 3) [m] in world
    speeds: FloatArray  # (F, K) [m/s]
    root_heights: FloatArray  # (F,) [m]
    root_speeds: FloatArray  # (F,) [m/s]
    centres: FloatArray  # (F, 3) [m] centre of mass
    falls: FloatArray  # (F,) [m/s²] its vertical acceleration: -9.81 in flight
    size: float  # leg length over that of the 1.75 m human: lengths scale with it, speeds with its root (Froude)

    @property
    def heights(self) -> FloatArray:
        """Heights ``(F, K)`` [m]."""
        return self.positions[..., 1]

    def frames(self, seconds: float) -> int:
        """Return how many frames a time lasts, at least one."""
        return max(1, round(seconds * self.rate_hz))

    def columns(self, side: str, part: str = "") -> list[int]:
        """Return the points of one foot: all, those of its ``"heel"`` or those of its ``"toe"`` (ball and toe end)."""
        parts = {"heel": ("heel",), "toe": ("ball", "toe_end"), "": ("heel", "ball", "toe_end"), "hand": ("hand",)}
        wanted = {f"{side}_{p}" for p in parts[part]}
        return [k for k, name in enumerate(self.names) if name in wanted]


def track_points(motion: Motion) -> PointTracks:
    """Feet and hands of a clip with their speeds, low-passed at ``SMOOTHING_HZ``."""
    points = find_body_points(motion.skeleton)
    rate_hz = motion.rate_hz
    positions = smooth_values(motion.map_frames(points.positions), rate_hz)
    roots, centres = smooth_values(motion.root_positions, rate_hz), centre_of_mass(motion)
    return PointTracks(
        points.names,
        rate_hz,
        positions,
        np.linalg.norm(differentiate(positions, rate_hz), axis=-1),
        roots[:, 1],
        np.linalg.norm(differentiate(roots, rate_hz), axis=-1),
        centres,
        vertical_accelerations(centres, rate_hz),
        body_size(motion.skeleton, points),
    )


def find_body_points(skeleton: Skeleton) -> ContactPoints:
    """Heel, ball and toe end of each foot, and the hands.

    A foot leaves the ground with the end of its toes, about 0.1 s after the ball, so the detectors
    look at both, while a contact track has one toe.
    """
    feet, points = foot_points(skeleton), contact_points(skeleton)
    hands = [k for k, name in enumerate(points.names) if name.endswith("hand")]
    return ContactPoints(
        (*feet.names, *(points.names[k] for k in hands)),
        np.concatenate([feet.joints, points.joints[hands]]),
        np.concatenate([feet.offsets, points.offsets[hands]]),
    )


def smooth_values(values: FloatArray, rate_hz: float, cutoff_hz: float = SMOOTHING_HZ) -> FloatArray:
    """Values ``(F, ...)`` low-passed without delay; a clip of fewer than four frames is left as it is."""
    if len(values) < 4:
        return values
    return lowpass_values(values, rate_hz, min(cutoff_hz, NYQUIST_SHARE * rate_hz))


def vertical_accelerations(positions: FloatArray, rate_hz: float) -> FloatArray:
    """Vertical acceleration ``(F,)`` [m/s²] of points ``(F, 3)``, low-passed at ``BODY_HZ``."""
    return differentiate(differentiate(smooth_values(positions[:, 1], rate_hz, BODY_HZ), rate_hz), rate_hz)


def differentiate(values: FloatArray, rate_hz: float) -> FloatArray:
    """Central differences over time, one-sided at the ends; zero for a single frame."""
    return np.gradient(values, axis=0) * rate_hz if len(values) > 1 else np.zeros_like(values)


def body_size(skeleton: Skeleton, points: ContactPoints) -> float:
    """Longest path from the root to a heel over that of the 1.75 m human; one for a body without feet."""
    heels = [int(j) for name, j in zip(points.names, points.joints, strict=True) if name.endswith("heel")]
    longest = 0.0
    for heel in heels:
        length, joint = 0.0, heel
        while joint > 0:
            length += float(np.linalg.norm(skeleton.offsets[joint]))
            joint = int(skeleton.parents[joint])
        longest = max(longest, length)
    return longest / LEG_M if longest > 0.0 else 1.0
