"""A seated person moving the arms, made by rule: the protocol of the thesis with a known truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError
from marey.kinematics import BoxLimits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

SEATED_FRAMES: Final = 675  # 45 s at 15 frames a second, as the clip of [Engell2012]_ §9.1
SEATED_RATE_HZ: Final = 15.0
SEAT_M: Final = 0.55  # [m] height of the pelvis
WAVES_HZ: Final = (0.1, 0.8)  # [Hz] slowest and fastest wave of each coordinate
NUM_WAVES: Final = 4
RAMP_S: Final = 2.0  # [s] the person starts from the middle posture and is in full motion after this time
LIMIT_MARGIN_RAD: Final = 0.3  # [rad] the limits leave so much room around what the person does

# rotation vectors [rad] of the left side and the middle: centre and half width. Left arm: x twists, y swings it forward
# (negative), z lowers it (negative).
_JOINT_RANGES: Final = {
    "spine1": ((0.05, 0.0, 0.0), (0.12, 0.10, 0.08)),
    "spine2": ((0.05, 0.0, 0.0), (0.08, 0.10, 0.06)),
    "spine3": ((0.00, 0.0, 0.0), (0.06, 0.08, 0.05)),
    "neck": ((0.05, 0.0, 0.0), (0.20, 0.30, 0.15)),
    "head": ((0.00, 0.0, 0.0), (0.15, 0.25, 0.10)),
    "left_collar": ((0.0, -0.05, 0.0), (0.0, 0.10, 0.12)),
    "left_shoulder": ((0.0, -0.60, -0.55), (0.40, 0.80, 0.85)),
    "left_elbow": ((0.0, -1.10, 0.0), (0.20, 1.00, 0.0)),
    "left_wrist": ((0.0, 0.0, 0.0), (0.0, 0.25, 0.35)),
}
_FORWARD_RANGES: Final = {"left_shoulder": ((0.0, -0.75, -0.55), (0.40, 0.65, 0.85))}  # a chair's back stops the elbows
_SEATED_LEGS: Final = {"hip": (-1.45, 0.0, 0.0), "knee": (1.45, 0.0, 0.0)}


def seated_motion(
    rng: np.random.Generator,
    *,
    frames: int = SEATED_FRAMES,
    rate_hz: float = SEATED_RATE_HZ,
    reach_back: bool = False,
    skeleton: Skeleton = HUMAN,
) -> Motion:
    r"""Sit, hip fixed, and move arms, trunk and head smoothly at random.

    Every coordinate of every rotation vector is a sum of waves around the middle of its range,

    .. math:: v(t) = c + \frac{h}{\sum_i a_i} \sum_{i=1}^4 a_i \sin(2\pi f_i t + \varphi_i)

    so that the clip stays inside :func:`seated_limits`. It replaces the video of [Engell2012]_ §9.1, which is not
    available: same length, same rate, same three end effectors, and a truth to measure against.

    Args:
        rng: draws amplitudes, frequencies and phases.
        frames: how many.
        rate_hz: frames per second.
        reach_back: let the elbows go behind the shoulders too. Where they cross, one camera cannot tell before from
            behind, and no tracker without more knowledge can be right every time.
        skeleton: with the joints of the canonical human.
    """
    if frames < 1:
        raise InputError(f"frames is {frames}", "Ask for at least one")
    centres, halves = _expand_ranges(skeleton, _JOINT_RANGES if reach_back else {**_JOINT_RANGES, **_FORWARD_RANGES})
    # Four waves of each coordinate, from log-uniform frequencies
    times = np.arange(frames) / rate_hz
    shape = (NUM_WAVES, *centres.shape)
    amplitudes, phases = rng.uniform(0.3, 1.0, shape), rng.uniform(0.0, 2.0 * np.pi, shape)
    frequencies = WAVES_HZ[0] * (WAVES_HZ[1] / WAVES_HZ[0]) ** rng.random(shape)
    waves = amplitudes * np.sin(2.0 * np.pi * frequencies * times[:, None, None, None] + phases)
    # The person starts from the middle of all ranges
    ramp = np.minimum(times / RAMP_S, 1.0) ** 2
    vectors = centres + ramp[:, None, None] * halves * waves.sum(axis=1) / amplitudes.sum(axis=0)
    roots = np.tile((0.0, SEAT_M, 0.0), (frames, 1))
    return Motion(skeleton, rate_hz, roots, SO3.exp(vectors), name="seated")


def seated_limits(skeleton: Skeleton = HUMAN) -> BoxLimits:
    """Joint limits of the seated person, reaching back or not; legs are fixed, elbows are hinges that may twist."""
    centres, halves = _expand_ranges(skeleton, _JOINT_RANGES)
    room = np.where(halves > 0.0, LIMIT_MARGIN_RAD, 0.0)
    return BoxLimits(skeleton, centres - halves - room, centres + halves + room)


def _expand_ranges(
    skeleton: Skeleton, ranges: Mapping[str, tuple[ArrayLike, ArrayLike]]
) -> tuple[FloatArray, FloatArray]:
    centres, halves = np.zeros((skeleton.num_joints, 3)), np.zeros((skeleton.num_joints, 3))
    for name, (centre, half) in ranges.items():
        centres[skeleton.index(name)], halves[skeleton.index(name)] = centre, half
        if name.startswith("left_"):
            mirrored = skeleton.index(name.replace("left_", "right_"))
            centres[mirrored], halves[mirrored] = np.multiply(centre, (1.0, -1.0, -1.0)), half
    for part, vector in _SEATED_LEGS.items():
        for side in ("left", "right"):
            centres[skeleton.index(f"{side}_{part}")] = vector
    return centres, halves
