"""Arms that reach, with the help of the shoulder girdle."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.kinematics._two_bone import Limb, saturation_start
from marey.lie import SO3
from marey.motion import Motion
from marey.numerics import smoothstep

GIRDLE_RAD: Final = np.radians(16.0)  # [rad] how far a collar bone turns to help: half of what people can
KEEP_RAD: Final = np.radians(45.0)  # [rad] the walks of the CMU database need 40: its arms lack two bones
LEAVE_RAD: Final = np.radians(80.0)
ONSET_M: Final = 0.004  # [m] how gradually it starts


def rotate_collar(motion: Motion, collar: int, limb: Limb, goals: FloatArray, stretch: FloatArray) -> Motion:
    """Turn a collar bone towards goals ``(F, 3)`` [m] that its arm is too short for, by no more than it needs."""
    positions, frames = motion.joint_frames()
    arm = np.linalg.norm(np.diff(positions[:, [limb.upper, limb.middle, limb.end]], axis=1), axis=-1).sum(axis=1)
    bone = positions[:, limb.upper] - positions[:, collar]
    gap = goals - positions[:, limb.upper]
    far, length = np.linalg.norm(gap, axis=-1), np.linalg.norm(bone, axis=-1)
    if length.min() < 1e-6 or far.min() < 1e-6:
        return motion
    short = _smooth_onset(far - saturation_start(stretch) * arm)
    axis = np.cross(bone, gap) / (length * far)[:, None]
    lever = length * np.maximum(np.linalg.norm(axis, axis=-1), 0.2)  # along the bone no turn helps
    angle = GIRDLE_RAD * np.tanh(short / lever / GIRDLE_RAD)
    turn = SO3.exp(axis / np.maximum(np.linalg.norm(axis, axis=-1), 1e-9)[:, None] * angle[:, None])
    above = frames[:, int(motion.skeleton.parents[collar])]
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, collar] = (above.inverse() @ turn @ frames[:, collar]).wxyz
    return replace(motion, rotations=SO3(wxyz))


def _smooth_onset(short: FloatArray) -> FloatArray:
    """Nothing below zero, then a parabola that goes over into a straight line."""
    x = np.maximum(short, 0.0)
    return np.where(x < ONSET_M, x * x / (2.0 * ONSET_M), x - 0.5 * ONSET_M)


def limit_elbow_change(motion: Motion, limb: Limb, goals: FloatArray) -> FloatArray:
    """Goals ``(F, 3)`` [m] that ask no elbow to bend quite otherwise than it did.

    A hand that is kept in place by an arm of other length bends the elbow; up to ``KEEP_RAD`` we accept that, from
    ``LEAVE_RAD`` on the arm keeps its directions instead and the hand goes where they lead.
    """
    positions = motion.joint_positions()
    upper, middle, end = (positions[:, j] for j in (limb.upper, limb.middle, limb.end))
    a, b = np.linalg.norm(middle - upper, axis=-1), np.linalg.norm(end - middle, axis=-1)
    if min(a.min(), b.min()) < 1e-6:
        return goals
    change = np.abs(
        _inner_angle(a, b, np.linalg.norm(goals - upper, axis=-1))
        - _inner_angle(a, b, np.linalg.norm(end - upper, axis=-1))
    )
    share = smoothstep((change - KEEP_RAD) / (LEAVE_RAD - KEEP_RAD))[:, None]
    return goals + share * (end - goals)


def _inner_angle(a: FloatArray, b: FloatArray, far: FloatArray) -> FloatArray:
    """Inner angle [rad] between bones ``a`` and ``b`` whose ends are ``far`` apart."""
    return np.arccos(np.clip((a * a + b * b - far * far) / (2.0 * a * b), -1.0, 1.0))
