"""A walk whose centre of mass hardly bobs and goes on at constant speed: its feet would have to press beside them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from marey.motion import Motion
from marey.samples import gaits
from marey.samples.figure import StanceRoll, pose_body
from marey.skeleton import human, leg_length, role_map

SPEED_MPS = 1.3


@lru_cache(maxsize=8)
def make_stiff_walk(seconds: float = 4.0, rate_hz: float = 60.0) -> Motion:
    """The feet, arms and trunk of the shipped walk under a stiff path; the physics report calls it red."""
    skeleton = human(1.75)
    leg = leg_length(skeleton, role_map(skeleton))
    gait = gaits._SteadyGait(SPEED_MPS, 1.08, duty=0.62, half_width=0.6, behind_m=0.10)
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    feet = gaits._plan_feet(skeleton, times, gait, StanceRoll(strike_rad=-0.32, leave_rad=0.95), clearance_m=0.03)
    phase = 2.0 * np.pi * times / gait.stride_s
    height = gaits._standing_com(skeleton) - 0.038 * leg - 0.009 * leg * np.cos(2.0 * phase - 0.9)
    com = np.stack([0.022 * leg * np.sin(phase - 0.4), height, SPEED_MPS * times], axis=1)
    targets = gaits._plan_arm_swing(com, feet, phase, arm=0.36, elbow=(0.25, 0.2), yaw=-0.09, roll=0.06, lean=0.05)
    return pose_body(skeleton, rate_hz, targets, name="walk")
