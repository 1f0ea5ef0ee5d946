"""Clips that the tests of motion share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN


def make_wild(frames: int = 90, rate_hz: float = 60.0, seed: int = 3) -> Motion:
    """A smooth motion of the canonical human in which every joint turns, with a contact track."""
    rng = np.random.default_rng(seed)
    times = np.arange(frames) / rate_hz
    phases = rng.uniform(0, 2 * np.pi, (HUMAN.num_joints, 3))
    speeds = rng.uniform(1.0, 4.0, (HUMAN.num_joints, 3))
    turns = 0.6 * np.sin(times[:, None, None] * speeds + phases)
    path = np.stack([0.8 * times, 0.95 + 0.03 * np.sin(9 * times), 1.1 * times + 0.1 * np.sin(3 * times)], axis=-1)
    active = np.stack([np.sin(7 * times) > 0, np.sin(7 * times + 2) > 0, np.sin(5 * times) > 0], axis=-1)
    contacts = Contacts(("left_heel", "right_heel", "left_hand"), active)
    return Motion(HUMAN, rate_hz, path, SO3.exp(turns), contacts, name="wild")


@pytest.fixture
def wild() -> Motion:
    return make_wild()


@pytest.fixture(scope="session")
def wild_maker() -> Callable[..., Motion]:
    return make_wild
