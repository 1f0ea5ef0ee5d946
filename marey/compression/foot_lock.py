"""Stance flags of feet, stored in few bits, so that decoding keeps planted feet from sliding."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.compression.measures import CONTACT_HEIGHT_M, CONTACT_SPEED_MPS
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton, role_map

LEGS: Final = (("left_leg", "left_ankle", "left_foot"), ("right_leg", "right_ankle", "right_foot"))
STANCE_WEIGHT: Final = 60.0  # weight of staying against following the track, while a point stands


def has_lockable_feet(skeleton: Skeleton) -> bool:
    """Whether the skeleton has legs with knees, ankles and toes."""
    roles = role_map(skeleton)
    needed = {name for leg in LEGS for name in leg[1:]} | {"left_hip", "right_hip", "left_knee", "right_knee"}
    return all(name in roles for name in needed)


def detect_standing_points(motion: Motion) -> BoolArray:
    """When left ankle, left toe, right ankle and right toe stand ``(F, 4)``: low and slow.

    Raises:
        InputError: the skeleton has no such legs.
    """
    if not has_lockable_feet(motion.skeleton):
        raise InputError(f"{motion.skeleton!r} lacks two legs with ankles and toes", "Leave lock_feet out")
    roles = role_map(motion.skeleton)
    tracks = motion.joint_positions()[:, [roles[name] for leg in LEGS for name in leg[1:]]]
    height = tracks[..., 1] - tracks[..., 1].min(axis=0)
    steps = np.linalg.norm(np.diff(tracks, axis=0, prepend=tracks[:1]), axis=-1) * motion.rate_hz
    return (height < CONTACT_HEIGHT_M) & (steps < CONTACT_SPEED_MPS)


def lock_feet(motion: Motion, stands: BoolArray) -> Motion:
    """Move ankles and toes so that they hardly move while they stand; the knees follow.

    Each track is replaced by the nearest one whose steps are small between frames in which the point stands.
    """
    roles = role_map(motion.skeleton)
    for number, (leg, ankle, toe) in enumerate(LEGS):
        positions, frames = motion.joint_frames()
        end, tip = roles[ankle], roles[toe]
        ends = _smooth_stance(positions[:, end], stands[:, 2 * number])
        tips = _smooth_stance(positions[:, tip], stands[:, 2 * number + 1])
        # The foot turns with its toe
        turn = SO3.from_two_vectors(positions[:, tip] - positions[:, end], tips - ends)
        motion = solve_two_bone(motion, leg, ends, end_rotations=turn @ frames[:, end]).motion
    return motion


def _smooth_stance(track: FloatArray, stands: BoolArray) -> FloatArray:
    r"""Minimise :math:`\sum_t |y_t - x_t|^2 + w \sum_{t\ stands} |y_t - y_{t-1}|^2`: a tridiagonal system."""
    from scipy.linalg import solveh_banded  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    if len(track) < 2:
        return track
    # Diagonal and the band above it
    pulls = STANCE_WEIGHT * stands[1:].astype(np.float64)
    bands = np.ones((2, len(track)))
    bands[1, 1:] += pulls
    bands[1, :-1] += pulls
    bands[0, 0], bands[0, 1:] = 0.0, -pulls
    return np.asarray(solveh_banded(bands, track), dtype=np.float64)
