"""Motions made by hand on the canonical human: a walk-like swing that travels, and one that stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from marey import HUMAN, SO3, Motion
from marey.motion import Contacts

NAMES = ("left_heel", "left_toe", "right_heel", "right_toe")


def make_swing(
    num_frames: int = 61, *, speed_mps: float = 2.0, rate_hz: float = 30.0, heading_rad: float = 0.0
) -> Motion:
    """Limbs swing once a second, the root moves at a constant speed, heels and toes take turns on the ground."""
    times = np.arange(num_frames) / rate_hz
    phase = 2.0 * np.pi * times
    vectors = np.zeros((num_frames, HUMAN.num_joints, 3))
    vectors[:, 0, 1] = heading_rad
    for name, axis, sign in (
        ("left_hip", 0, -0.5),
        ("right_hip", 0, 0.5),
        ("left_shoulder", 1, -0.4),
        ("right_shoulder", 1, -0.4),
    ):
        vectors[:, HUMAN.index(name), axis] = sign * np.sin(phase)
    forward = np.array([np.sin(heading_rad), 0.0, np.cos(heading_rad)])
    roots = HUMAN.offsets[0] + speed_mps * times[:, None] * forward
    left = np.sin(phase) > -1e-9  # the first half of every second
    contacts = Contacts(NAMES, np.stack([left, left, ~left, ~left], axis=1))
    return Motion(HUMAN, rate_hz, roots, SO3.exp(vectors), contacts=contacts, name="swing")


@pytest.fixture(scope="session")
def travelling() -> Motion:
    return make_swing()


@pytest.fixture(scope="session")
def staying() -> Motion:
    return make_swing(speed_mps=0.0)


@pytest.fixture(scope="session")
def swing() -> Callable[..., Motion]:
    return make_swing
