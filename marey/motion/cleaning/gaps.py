"""Gaps: stretches in which a solver had nothing to follow and repeated one pose, or wrote none at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.lie import SO3, geodesic_distance
from marey.motion.cleaning.interpolation import Correction, format_time, interpolate_frames
from marey.motion.clip import Motion
from marey.motion.time_series import find_runs

SAME_RAD: Final = 1e-7  # [rad] frames nearer than this are the same frame: text files keep six digits
SAME_M: Final = 1e-7


@dataclass(frozen=True, slots=True)
class GapSettings:
    """What counts as a gap."""

    shortest: int = 3  # [frame] fewer equal frames are a hold of the exporter, not a loss
    longest_s: float = 1.0  # [s] longer gaps are reported and left: nobody knows what happened in them
    moving_rad_s: float = 0.3  # [rad/s] a body that moved less before and after stood still: it is no gap
    moving_mps: float = 0.1  # [m/s] the same of the root


GAP_SETTINGS: Final = GapSettings()


def fill_gaps(motion: Motion, settings: GapSettings = GAP_SETTINGS) -> Correction:
    """Replace stretches of equal frames inside a motion by an interpolation of what is around them.

    A stretch counts when the body moves as it begins or as it ends, or jumps there; a person who stands still trembles,
    and is never equal to the last digit. Holds at the very start and end are kept: they are poses for calibration.
    """
    steps = geodesic_distance(motion.rotations[1:], motion.rotations[:-1])
    travel = np.linalg.norm(np.diff(motion.root_positions, axis=0), axis=1)
    still = (steps.max(axis=1, initial=0.0) < SAME_RAD) & (travel < SAME_M)
    moves = (steps.max(axis=1, initial=0.0) > settings.moving_rad_s / motion.rate_hz) | (
        travel > settings.moving_mps / motion.rate_hz
    )
    every = np.ones(motion.skeleton.num_joints, dtype=np.bool_)
    findings: list[str] = []
    # A run of equal steps i..j-1 holds frames i..j: the first may be good or the same wrong pose as the others
    for first, stop in find_runs(still, shortest=settings.shortest - 1):
        start, end = first, stop + 1
        if start == 0 or end >= motion.num_frames or not (moves[start - 1] or moves[end - 1]):
            continue
        when = format_time(motion, start, end)
        if end - start > settings.longest_s * motion.rate_hz:
            findings.append(f"gap {when} is longer than {settings.longest_s:g} s and was left")
            continue
        motion = interpolate_frames(motion, start, end, every, root=True)
        findings.append(f"gap {when} filled")
    return Correction(motion, tuple(findings))


REPEATED_SHARE: Final = 0.9  # [-] of the periods that must have just one new frame


def drop_repeated_frames(motion: Motion) -> Correction:
    """Smooth a clip in which an exporter wrote every captured frame two, three or four times.

    The frames that are new stay; those between them are interpolated, so the rate and the number of frames do not
    change.
    """
    is_new = np.concatenate(
        [[True], geodesic_distance(motion.rotations[1:], motion.rotations[:-1]).max(axis=1, initial=0.0) > SAME_RAD]
    )
    news = np.flatnonzero(is_new)
    gaps = np.diff(news)
    if len(gaps) < 8:
        return Correction(motion)
    period = int(np.median(gaps))
    if not 2 <= period <= 4 or np.mean(gaps == period) < REPEATED_SHARE:
        return Correction(motion)
    # Every frame lies between two new ones; those after the last stay as they are
    at = np.arange(motion.num_frames)
    low = news[np.searchsorted(news, at, side="right") - 1]
    position = np.searchsorted(news, low) + 1
    high = np.where(position < len(news), news[np.minimum(position, len(news) - 1)], low)
    share = np.where(high > low, (at - low) / np.maximum(high - low, 1), 0.0)
    p, R = motion.root_positions, motion.rotations
    wxyz = R[low].slerp(R[high], share[:, None]).wxyz.copy()
    wxyz[share == 0.0] = R.wxyz[low][share == 0.0]
    changed = replace(
        motion,
        root_positions=p[low] + share[:, None] * (p[high] - p[low]),
        rotations=SO3(wxyz),
        source=motion.edited_source(),
    )
    sentence = f"every frame was written {period} times: frames between the {motion.rate_hz / period:g} Hz interpolated"
    return Correction(changed, (sentence,))
