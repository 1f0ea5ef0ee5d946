"""The pyramid of tracks: Tournier's checks 30 to 33."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.lifting import lift_points, lift_rotations, unlift_points, unlift_rotations

from marey.base import InputError
from marey.compression.tournier import coarsest_safe_level, level_sizes, upsample_points, upsample_rotations
from marey.lie import SO3, geodesic_distance

LENGTHS = (1, 2, 3, 5, 17, 141, 1000)


@pytest.mark.parametrize("length", LENGTHS)
def test_tournier_30_all_levels_give_points_back(length):
    track = np.random.default_rng(length).normal(size=(length, 4, 3)).cumsum(axis=0)
    assert np.abs(unlift_points(*lift_points(track)) - track).max() <= 1e-12 * max(1.0, np.abs(track).max())


@pytest.mark.parametrize("length", LENGTHS)
def test_tournier_30_all_levels_give_rotations_back(length):
    track = SO3.random(np.random.default_rng(length), length, 2)
    assert geodesic_distance(unlift_rotations(*lift_rotations(track)), track).max() <= 1e-10


@given(st.integers(1, 400))
def test_tournier_33_there_are_one_and_log2_levels(length):
    sizes = level_sizes(length)
    assert len(sizes) == 1 + int(np.ceil(np.log2(length)))
    assert sizes[0] == length and sizes[-1] == 1
    assert all(b == (a + 1) // 2 for a, b in pairwise(sizes))


def test_tournier_31_cubics_are_predicted_exactly_inside():
    t = np.linspace(-1.0, 2.0, 33)[:, None]
    cubic = 0.3 + t * [1.0, -2.0, 0.5] + t**2 * [0.2, 1.0, -1.0] + t**3 * [0.5, -0.3, 2.0]
    _, details = lift_points(cubic)
    assert np.abs(details[0][1:-1]).max() < 1e-10


def test_tournier_31_turning_steadily_is_predicted_exactly():
    track = SO3.exp(np.arange(40)[:, None] * 0.13 * np.array([0.48, -0.6, 0.64]))
    for detail in lift_rotations(track)[1][:3]:
        assert np.abs(detail[1:-1]).max() < 1e-10


def test_tournier_32_catmull_rom_has_a_quarter_of_the_kinks_of_straight_lines():
    t = np.linspace(0.0, 2.0, 641)[:, None]
    track = np.concatenate([np.sin(2.0 * np.pi * t), np.cos(1.7 * np.pi * t), 0.2 * t**2], axis=1)
    kept = track[::16]
    straight = np.stack([np.interp(t[:, 0], t[::16, 0], column) for column in kept.T], axis=-1)
    kinks = [np.abs(np.diff(filled, 2, axis=0)).max() for filled in (straight, upsample_points(kept, len(track)))]
    assert kinks[0] >= 4.0 * kinks[1]


def test_tournier_32_holds_for_rotations_too():
    t = np.linspace(0.0, 2.0, 641)[:, None]
    track = SO3.exp(np.concatenate([np.sin(2.0 * np.pi * t), 0.5 * np.cos(1.7 * np.pi * t), 0.2 * t**2], axis=1))
    kept, along = track[::16], np.arange(641) / 16.0
    start = np.minimum(along.astype(int), 39)
    straight = kept[start].slerp(kept[start + 1], (along - start)[:, None])
    kinks = []
    for filled in (straight, upsample_rotations(kept, 641)):
        steps = (filled[:-1].inverse() @ filled[1:]).log()
        kinks.append(np.abs(np.diff(steps, axis=0)).max())
    assert kinks[0] >= 4.0 * kinks[1]


@pytest.mark.parametrize("dropped", [1, 2, 4])
def test_filling_in_is_lifting_without_the_finest_details(dropped):
    track = np.random.default_rng(3).normal(size=(141, 3)).cumsum(axis=0)
    coarsest, details = lift_points(track)
    expected = unlift_points(coarsest, [d * (level >= dropped) for level, d in enumerate(details)])
    np.testing.assert_allclose(upsample_points(track[:: 1 << dropped], 141), expected, atol=1e-12)


def test_kept_samples_are_kept():
    track = SO3.exp(np.random.default_rng(4).normal(size=(65, 3)))
    assert geodesic_distance(upsample_rotations(track[::8], 65)[::8], track[::8]).max() < 1e-12


def test_a_fast_turn_forbids_to_drop_levels():
    slow, fast = (SO3.exp(np.arange(64)[:, None] * [0.0, rate, 0.0]) for rate in (0.01, 0.5))
    assert coarsest_safe_level(slow) == 6
    assert coarsest_safe_level(fast) == 1


def test_wrong_sizes_are_refused():
    with pytest.raises(InputError, match="no level"):
        upsample_points(np.zeros((7, 3)), 141)
    with pytest.raises(InputError):
        level_sizes(0)
