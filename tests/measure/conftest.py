"""Clips whose figures are known by construction."""

from __future__ import annotations

import numpy as np
import pytest

from marey.lie import SO3
from marey.motion import Motion, place
from marey.skeleton import HUMAN, foot_points, t_pose


def stand(
    rate_hz: float = 60.0, seconds: float = 3.0, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Motion:
    """A human in the T-pose, soles on the floor, that is carried along at a constant velocity [m/s]."""
    pose = t_pose(HUMAN)
    soles = foot_points(HUMAN).positions(pose.joint_positions(), pose.joint_rotations())
    count = round(rate_hz * seconds) + 1
    root = pose.root_position - [0.0, soles[:, 1].min(), 0.0] + np.arange(count)[:, None] / rate_hz * np.array(velocity)
    return Motion(HUMAN, rate_hz, root, SO3(np.repeat(pose.rotations.wxyz[None], count, axis=0)), name="stand")


@pytest.fixture(scope="session")
def walk() -> Motion:
    """The walk that ships, along +Z from the origin."""
    import marey

    return place(marey.samples.load("walk"), (0.0, 0.0), 0.0)
