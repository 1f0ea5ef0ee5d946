"""Neutral poses of the full space, and the line between the key poses."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, UnknownNameError
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_state import Character

# [rad] neutral poses by limb; arms and legs go forward with negative angles, knees and elbows bend with positive ones
NEUTRAL_POSES: Final[dict[str, dict[str, float]]] = {
    "hang": {"shoulder": -2.9, "elbow": 0.1, "hip": -0.1, "knee": 0.2},
    "stand": {"shoulder": 0.0, "elbow": 0.2, "hip": -0.1, "knee": 0.2},
    "crouch": {"shoulder": 0.1, "elbow": 0.4, "hip": -0.4, "knee": 0.8},
    "run": {"shoulder": 0.0, "elbow": 1.2, "hip": -0.3, "knee": 0.6},
    "tuck": {"shoulder": -0.8, "elbow": 0.8, "hip": -1.8, "knee": 2.0},
}


def neutral_pose(figure: Character, name: str) -> FloatArray:
    """Angles ``(D,)`` of a neutral pose."""
    if name not in NEUTRAL_POSES:
        raise UnknownNameError("neutral pose", name, "the full space", NEUTRAL_POSES)
    angles = np.zeros(len(figure.angles))
    for part, value in NEUTRAL_POSES[name].items():
        for i, dof in enumerate(figure.names):
            if dof in (part, f"left_{part}", f"right_{part}", f"left_{part}_rx", f"right_{part}_rx"):
                angles[i] = value
    return angles


def interpolate_pose_keys(layout: FullLayout) -> FloatArray:
    """Angles at the control points ``(K, D)``: the neutral pose, or linear in time between the pose keys."""
    times = layout.timeline.spline.greville
    points = np.tile(neutral_pose(layout.figure, layout.problem.guess), (len(times), 1))
    keyed: dict[int, list[tuple[float, float]]] = {}
    for key in layout.problem.keys:
        if key.kind == "pose" and key.at is not None:
            time = layout.timeline.time_of(layout.problem.phase_index(key.phase), key.at)
            for name, value in key.joints.items():
                keyed.setdefault(layout.figure.angle_index(name), []).append((time, value))
    for i, keys in keyed.items():
        points[:, i] = _interpolate_angle(times, sorted(keys), points[0, i])
    return points


def _interpolate_angle(times: FloatArray, keys: list[tuple[float, float]], neutral: float) -> FloatArray:
    """Line through keys; a motion without a key at its start leaves from the neutral pose."""
    if keys[0][0] > 0.0:
        keys = [(0.0, neutral), *keys]
    return np.interp(times, [time for time, _ in keys], [value for _, value in keys])
