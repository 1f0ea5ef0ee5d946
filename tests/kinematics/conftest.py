"""Clips that the tests of kinematics share: a synthetic walk with known foot plants."""

from __future__ import annotations

import numpy as np
import pytest

from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, Skeleton

STRIDE_S, STANCE, SPEED_MPS = 1.0, 0.6, 1.2


def make_walk(skeleton: Skeleton = HUMAN, seconds: float = 2.5, rate_hz: float = 60.0) -> Motion:
    """A stiff but smooth walk: swinging hips, knees that bend in swing, arms that swing against the legs."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    turns = np.zeros((len(t), skeleton.num_joints, 3))
    active = np.zeros((len(t), 4), dtype=bool)
    for k, (side, phase) in enumerate((("left", 0.0), ("right", 0.5))):
        swing = 2.0 * np.pi * (t / STRIDE_S + phase)
        turns[:, skeleton.index(f"{side}_hip"), 0] = -0.45 * np.cos(swing)
        turns[:, skeleton.index(f"{side}_knee"), 0] = 0.3 + 0.3 * np.sin(swing + np.pi)
        turns[:, skeleton.index(f"{side}_ankle"), 0] = 0.15 * np.cos(swing)
        turns[:, skeleton.index(f"{side}_shoulder"), 2] = -1.3 if side == "left" else 1.3
        turns[:, skeleton.index(f"{side}_elbow"), 1] = (-0.4 if side == "left" else 0.4) * (1.0 + 0.5 * np.sin(swing))
        stance = (t / STRIDE_S + phase) % 1.0 < STANCE
        active[:, 2 * k] = stance & ((t / STRIDE_S + phase) % 1.0 < 0.7 * STANCE)
        active[:, 2 * k + 1] = stance & ((t / STRIDE_S + phase) % 1.0 > 0.2 * STANCE)
    roots = np.stack([0.02 * np.sin(2.0 * np.pi * t), 0.9 + 0.02 * np.cos(4.0 * np.pi * t), SPEED_MPS * t], axis=-1)
    names = ("left_heel", "left_toe", "right_heel", "right_toe")
    return Motion(skeleton, rate_hz, roots, SO3.exp(turns), Contacts(names, active), name="stiff walk")


@pytest.fixture
def stiff_walk() -> Motion:
    return make_walk()
