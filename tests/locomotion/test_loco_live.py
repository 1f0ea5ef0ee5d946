"""Characters that are driven live."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marey.base import InputError
from marey.locomotion import load_model
from marey.locomotion.live import MAX_WALKERS, RATE_HZ, LiveWalk


@pytest.fixture
def walk() -> LiveWalk:
    return LiveWalk(load_model())


def drive(walk: LiveWalk, seconds: float) -> None:
    for _ in range(round(seconds * RATE_HZ)):
        walk.advance(1.0 / RATE_HZ + 1e-9)


def test_glardon_a48_obstacles_lie_within_the_ranges(walk: LiveWalk) -> None:
    walk.active_character.engine.step(0.1)
    engine = walk.active_character.engine
    ahead = np.array([np.sin(engine.heading_rad), np.cos(engine.heading_rad)])
    seen = []
    for _ in range(12):
        walk.drop_obstacle()
        box = walk.active_character.obstacles()[-1].obstacle
        distance = (np.array(box.position) - engine.position) @ ahead - 0.5 * box.size[0]
        seen.append((distance, *box.size))
        assert box.height_m == pytest.approx(0.1) and box.heading_rad == engine.heading_rad
        walk.clear_obstacles()
    for values, (low, high) in zip(np.array(seen).T, ((2.0, 10.0), (0.4, 2.6), (1.0, 6.0)), strict=True):
        assert low - 1e-9 <= values.min() and values.max() <= high + 1e-9
        assert np.ptp(values) > 0.5 * (high - low)  # and they differ


def test_there_is_room_for_a_few_only(walk: LiveWalk) -> None:
    for _ in range(MAX_WALKERS - 1):
        walk.add()
    with pytest.raises(InputError, match="already"):
        walk.add()


def test_real_time_passes_in_equal_steps_and_a_sleep_is_not_made_up_for(walk: LiveWalk) -> None:
    for _ in range(30):
        walk.advance(1.0 / 30.0)
    assert walk.active_character.engine.time_s == pytest.approx(1.0, abs=1.5 / RATE_HZ)
    before = walk.active_character.engine.time_s
    walk.advance(100.0)
    assert walk.active_character.engine.time_s - before < 0.3


def test_footprints_alternate_one_step_apart(walk: LiveWalk) -> None:
    walk.active_character.ask("speed", 1.3, 0.5)
    drive(walk, 8.0)
    prints = walk.active_character.engine.footprints[-6:]
    assert all(a.side != b.side for a, b in pairwise(prints))
    strides = [b.position[2] - a.position[2] for a, b in zip(prints, prints[2:], strict=False)]
    speeds, hertz = walk.active_character.engine.frequency_table()
    expected = 1.3 / np.interp(1.3, speeds, hertz[0])
    np.testing.assert_allclose(strides, expected, atol=0.02)
