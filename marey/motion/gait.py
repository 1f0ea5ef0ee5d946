"""Foot strikes, gait cycles and cadence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.motion.clip import Motion
from marey.motion.placement import headings
from marey.motion.time_series import lowpass_values
from marey.skeleton import RoleMap, role_map

SMOOTHING_HZ: Final = 6.0
HEADING_HZ: Final = 0.8
WALKING_MPS: Final = 0.3  # below, on a treadmill or in a stand, the heading is that of the pelvis, not of its path
PROMINENCE_M: Final = 0.12  # least forward excursion of a strike over the adjacent minima
SPACING_S: Final = 0.3
TOGETHER_S: Final = 0.1  # strikes of both feet within this time are one step
SWING_M: Final = 0.12  # least movement of a foot in the half second before its strike; less is sway of the body
SWING_S: Final = 0.5
CYCLE_S: Final = (0.4, 2.2)
OPPOSITE_PART: Final = (0.42, 0.58)  # fraction of the cycle at which the other foot strikes
STRAIGHTNESS: Final = 0.985  # chord over path
MAX_TURN_RAD: Final = float(np.deg2rad(20.0))
SIDES: Final = ("left", "right")


@dataclass(frozen=True, slots=True)
class GaitCycle:
    """Two steps, from a strike of one foot to the next strike of the same foot."""

    side: str  # "left" or "right": the foot that strikes at start and stop
    start: int  # frame of the first strike
    stop: int  # frame of the next strike of that foot
    opposite: int  # frame at which the other foot strikes
    duration_s: float
    speed_mps: float  # over ground, or of the treadmill's belt
    heading_rad: float  # direction of travel: 0 is +Z, positive towards +X
    is_treadmill: bool

    @property
    def cadence_spm(self) -> float:
        """Steps per minute."""
        return 120.0 / self.duration_s

    @property
    def stride_m(self) -> float:
        """Length of the two steps [m]."""
        return self.speed_mps * self.duration_s


def foot_strikes(motion: Motion, roles: RoleMap | None = None) -> dict[str, IntArray]:
    r"""Frames at which each foot reaches furthest forward, ``{"left": ..., "right": ...}``.

    .. math:: f_{side}(t) = (x_{ankle} - x_{root}) \cdot d(t)

    with :math:`d` the direction of travel; strikes are its peaks of at least 0.12 m, 0.3 s apart. This replaces the
    manual segmentation of [Glardon2005]_ §3.1 and works on the ground and on a treadmill. Feet that the skeleton lacks
    have no strikes.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    return _find_strikes(motion, roles, _travel_headings(motion, roles))[0]


def gait_cycles(motion: Motion, roles: RoleMap | None = None) -> tuple[GaitCycle, ...]:
    """Regular, straight walking or running cycles of both feet, in order of their start.

    A pair of strikes of one foot is a cycle if it takes 0.4 to 2.2 s, the other foot strikes exactly once, at 42 to
    58 % of it, and over ground its path is straight (chord over path at least 0.985) and turns at most 20°.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    heading = _travel_headings(motion, roles)
    strikes, ahead = _find_strikes(motion, roles, heading)
    pairs = [
        (side, other, int(start), int(stop))
        for side, other in (SIDES, SIDES[::-1])
        for start, stop in pairwise(strikes[side])
    ]
    cycles: list[GaitCycle] = []
    for side, other, start, stop in pairs:
        between = strikes[other][(strikes[other] > start) & (strikes[other] < stop)]
        duration = (stop - start) / motion.rate_hz
        if len(between) != 1 or not CYCLE_S[0] < duration < CYCLE_S[1]:
            continue
        opposite = int(between[0])
        if not OPPOSITE_PART[0] <= (opposite - start) / (stop - start) <= OPPOSITE_PART[1]:
            continue
        path = motion.root_positions[start : stop + 1, [0, 2]]
        chord = path[-1] - path[0]
        speed = float(np.hypot(*chord)) / duration
        if speed < WALKING_MPS:
            # On a treadmill the belt carries a standing foot back; the median backward speed is that of the belt
            yaw = float(np.median(heading[start : stop + 1]))
            back = -np.diff(ahead[side][start : stop + 1]) * motion.rate_hz
            belt = float(np.median(back[back > 0.0])) if (back > 0.0).any() else 0.0
            cycles.append(GaitCycle(side, start, stop, opposite, duration, belt, yaw, is_treadmill=True))
            continue
        # Over ground the path, without the sway within a step, must be straight
        smooth = _smooth_track(path, motion.rate_hz, 2.0 / duration)
        length = float(np.hypot(*np.diff(smooth, axis=0).T).sum())
        turn = (float(heading[stop] - heading[start]) + np.pi) % (2.0 * np.pi) - np.pi
        if np.hypot(*chord) >= STRAIGHTNESS * length and abs(turn) <= MAX_TURN_RAD:
            yaw = float(np.arctan2(chord[0], chord[1]))
            cycles.append(GaitCycle(side, start, stop, opposite, duration, speed, yaw, is_treadmill=False))
    return tuple(sorted(cycles, key=lambda cycle: (cycle.start, cycle.side)))


def cadence(motion: Motion, roles: RoleMap | None = None) -> float:
    """Steps per minute, from the median time between strikes of either foot; zero for fewer than two.

    Feet that strike together, as in hopping, count as one step.
    """
    strikes = np.sort(np.concatenate(list(foot_strikes(motion, roles).values())))
    apart = np.diff(strikes) / motion.rate_hz
    apart = apart[apart > TOGETHER_S]
    return 60.0 / float(np.median(apart)) if len(apart) else 0.0


def _find_strikes(motion: Motion, roles: RoleMap, yaw: FloatArray) -> tuple[dict[str, IntArray], dict[str, FloatArray]]:
    """Strikes by side, and the distance ``(F,)`` [m] of each ankle ahead of the root in the direction ``yaw``."""
    spacing = max(1, round(SPACING_S * motion.rate_hz))
    window = max(1, round(SWING_S * motion.rate_hz))
    positions = _smooth_track(motion.joint_positions(), motion.rate_hz, SMOOTHING_HZ)[..., [0, 2]]
    forward = np.stack([np.sin(yaw), np.cos(yaw)], axis=-1)
    strikes = {side: np.zeros(0, dtype=np.int64) for side in SIDES}
    ahead: dict[str, FloatArray] = {}
    for side in SIDES:
        joint = roles.get(f"{side}_ankle")
        if joint is None:
            continue
        ankle = positions[:, joint]
        ahead[side] = ((ankle - positions[:, 0]) * forward).sum(axis=-1)
        # A foot that did not swing before its peak has not struck
        peaks = find_peaks(ahead[side], PROMINENCE_M, spacing)
        swings = [np.ptp(ankle[max(0, p - window) : p + 1], axis=0) for p in peaks]
        strikes[side] = peaks[[bool(np.hypot(*span) > SWING_M) for span in swings]]
    return strikes, ahead


def _travel_headings(motion: Motion, roles: RoleMap) -> FloatArray:
    """Direction of travel ``(F,)`` [rad]: of the slow root velocity over ground, else of the pelvis."""
    facing = _smooth_track(headings(motion, roles), motion.rate_hz, HEADING_HZ)
    if motion.num_frames < 2:
        return facing
    velocity = _smooth_track(np.gradient(motion.root_positions, axis=0) * motion.rate_hz, motion.rate_hz, HEADING_HZ)
    moving = np.hypot(velocity[:, 0], velocity[:, 2]) > WALKING_MPS
    return np.where(moving, np.arctan2(velocity[:, 0], velocity[:, 2]), facing)


def _smooth_track(values: FloatArray, rate_hz: float, cutoff_hz: float) -> FloatArray:
    return lowpass_values(values, rate_hz, cutoff_hz, order=2) if 2.5 * cutoff_hz < rate_hz else values


def find_peaks(values: FloatArray, prominence: float, spacing: int) -> IntArray:
    """Frames of local maxima of at least ``prominence``; of two within ``spacing``, the higher is kept."""
    rising = np.diff(values) > 0.0
    peaks: list[int] = []
    for peak in np.flatnonzero(rising[:-1] & ~rising[1:]) + 1:
        # Prominence: height above the higher of the two minima that separate the peak from higher values
        higher = np.flatnonzero(values > values[peak])
        left, right = higher[higher < peak], higher[higher > peak]
        before = values[left[-1] if len(left) else 0 : peak + 1]
        after = values[peak : right[0] + 1 if len(right) else len(values)]
        if values[peak] - max(before.min(), after.min()) >= prominence:
            peaks.append(int(peak))
    kept: list[int] = []
    for peak in sorted(peaks, key=lambda peak: -values[peak]):
        if all(abs(peak - other) >= spacing for other in kept):
            kept.append(peak)
    return np.array(sorted(kept), dtype=np.int64)
