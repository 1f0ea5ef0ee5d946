"""Euler angles and quaternions: there and back, smooth in time, safe at the gimbal."""

from __future__ import annotations

from itertools import permutations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.io.euler import ChannelMap, compose_euler, decompose_euler, half_sincos
from marey.lie import SO3, geodesic_distance

ORDERS = [np.array([order], dtype=np.int64) for order in permutations(range(3))]
COLUMNS = np.array([[0, 1, 2]], dtype=np.int64)


@given(st.floats(-1e6, 1e6, allow_nan=False))
def test_half_angle_sine_and_cosine_keep_full_precision(degrees):
    sines, cosines = np.empty(1), np.empty(1)
    half_sincos(np.array([degrees]), sines, cosines)
    with mp.workdps(50):
        half = mp.mpf(degrees) * mp.pi / 360
        exact = float(mp.sin(half)), float(mp.cos(half))
    assert abs(sines[0] - exact[0]) < 3e-16 and abs(cosines[0] - exact[1]) < 3e-16


@pytest.mark.parametrize("degrees", [0.0, 90.0, -90.0, 180.0, -180.0, 270.0, 360.0, 540.0, -720.0])
def test_quarter_turns_are_exact(degrees):
    sines, cosines = np.empty(1), np.empty(1)
    half_sincos(np.array([2.0 * degrees]), sines, cosines)
    assert sines[0] == pytest.approx(round(np.sin(np.deg2rad(degrees))), abs=0)
    assert cosines[0] == pytest.approx(round(np.cos(np.deg2rad(degrees))), abs=0)


def wander(rng: np.random.Generator, frames: int = 400) -> np.ndarray:
    return np.cumsum(rng.normal(0.0, 4.0, (frames, 3)), axis=0)


@pytest.mark.parametrize("axes", ORDERS)
def test_angles_that_wander_through_full_turns_are_found_again(axes):
    angles = wander(np.random.default_rng(1))
    found = decompose_euler(compose_euler(angles, axes, COLUMNS), axes, np.zeros((1, 1, 3)), False)
    np.testing.assert_allclose(found[:, 0], angles, atol=1e-8)


@pytest.mark.parametrize("axes", ORDERS)
def test_rotations_return_at_the_gimbal_and_the_free_angle_rests(axes):
    angles = wander(np.random.default_rng(2))
    angles[:, 1] = 90.0
    wxyz = compose_euler(angles, axes, COLUMNS)
    found = decompose_euler(wxyz, axes, np.zeros((1, 1, 3)), False)
    again = compose_euler(found[:, 0], axes, COLUMNS)
    assert geodesic_distance(SO3(wxyz), SO3(again)).max() < 1e-9
    assert np.ptp(found[:, 0, 2]) < 1e-6


@given(st.lists(st.floats(-1, 1, allow_nan=False), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_any_rotation_returns_in_every_order(q):
    wxyz = SO3(np.array([[q]])).wxyz
    for axes in ORDERS:
        found = decompose_euler(wxyz, axes, np.zeros((1, 1, 3)), False)
        assert geodesic_distance(SO3(compose_euler(found[:, 0], axes, COLUMNS)), SO3(wxyz)).max() < 1e-9


def test_given_angles_are_kept_where_they_still_hold():
    axes = ORDERS[3]
    angles = wander(np.random.default_rng(4)) + 720.0
    wxyz = compose_euler(angles, axes, COLUMNS)
    edited = wxyz.copy()
    edited[200:210] = SO3.exp([0.3, 0.0, 0.0]).wxyz
    found = decompose_euler(edited, axes, angles[:, None], True)
    np.testing.assert_array_equal(found[:200, 0], angles[:200])
    np.testing.assert_array_equal(found[210:, 0], angles[210:])
    assert geodesic_distance(SO3(compose_euler(found[200:210, 0], axes, COLUMNS)), SO3(edited[200:210])).max() < 1e-12
    assert np.abs(found[200:210] - angles[199]).max() <= 360.0  # the branch nearest to the frame before


def test_columns_are_numbered_joint_after_joint():
    layout = ChannelMap.from_names([("Zposition", "Xrotation"), (), ("Yrotation", "Xposition", "Zrotation")])
    np.testing.assert_array_equal(layout.axes, [[0, -1, -1], [-1, -1, -1], [1, 2, -1]])
    np.testing.assert_array_equal(layout.columns, [[1, -1, -1], [-1, -1, -1], [2, 4, -1]])
    np.testing.assert_array_equal(layout.positions, [[-1, -1, 0], [-1, -1, -1], [3, -1, -1]])
    assert layout.num_channels == 5
