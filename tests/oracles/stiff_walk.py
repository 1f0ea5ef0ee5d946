"""A walk that no body could make: it hardly bobs, goes on at constant speed, and its soles scrape the floor."""

from __future__ import annotations

from functools import lru_cache
from unittest import mock

import numpy as np

from marey.motion import Motion
from marey.samples import figure, gaits
from marey.samples.figure import StanceRoll, pose_body
from marey.skeleton import human


@lru_cache(maxsize=8)
def make_stiff_walk(speed_mps: float = 1.3, seconds: float = 4.0, rate_hz: float = 60.0) -> Motion:
    """The walk that early versions shipped: red for the physics report, on whose poses simulations were compared."""
    skeleton = human(1.75)
    leg, pace = gaits._leg_length(skeleton), speed_mps / 1.3
    roll = StanceRoll(strike_rad=-0.32 * pace, leave_rad=0.55 + 0.4 * pace)
    stride_s = 1.0 / (0.776 * (speed_mps / leg) ** 0.425)
    gait = gaits._SteadyGait(speed_mps, stride_s, duty=0.62, half_width=0.6, behind_m=0.10)
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    with mock.patch.object(figure, "SOLE_CLEARANCE_M", -1.0):
        feet = gaits._plan_feet(skeleton, times, gait, roll, clearance_m=0.03)
    phase = 2.0 * np.pi * times / stride_s
    bob = -0.5 * (0.018 * pace * leg) * np.cos(2.0 * phase - 0.9)
    height = gaits._standing_com(skeleton) - (0.016 + 0.022 * pace) * leg + bob
    com = np.stack([0.022 * leg * np.sin(phase - 0.4), height, speed_mps * times], axis=1)
    targets = gaits._plan_arm_swing(
        com, feet, phase, arm=0.36 * pace, elbow=(0.25, 0.2), yaw=-0.09 * pace, roll=0.06, lean=0.05
    )
    return pose_body(skeleton, rate_hz, targets, name="walk")
