"""Where plants are put, how they ease in and out, and what the floor is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.kinematics.foot_plants import (
    FloorPlane,
    PointPlant,
    compute_corrections,
    contact_depth_weights,
    plan_plants,
    smooth_upper_envelope,
)

LEVEL = FloorPlane(0.0, np.zeros(2))
RATE = 120.0
AHEAD = np.array([0.0, 0.0, 0.2])


def still(frames: int, at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    return np.tile(np.array(at), (frames, 1))


def flags(frames: int, start: int, stop: int) -> np.ndarray:
    down = np.zeros(frames, dtype=bool)
    down[start:stop] = True
    return down


@given(a=st.floats(-0.03, 0.03), b=st.floats(-0.03, 0.03), h=st.floats(-1.0, 1.0), seed=st.integers(0, 99))
def test_a_tilted_floor_is_found(a, b, h, seed):
    points = np.random.default_rng(seed).uniform(-2.0, 2.0, (200, 3))
    points[:, 1] = h + a * points[:, 0] + b * points[:, 2]
    floor = FloorPlane.fit(points)
    np.testing.assert_allclose(floor.under(points), points[:, 1], atol=2e-3)


def test_contacts_in_one_spot_say_nothing_about_tilt():
    rng = np.random.default_rng(0)
    points = rng.normal(0.0, 0.01, (50, 3))
    assert np.abs(FloorPlane.fit(points).slope).max() < 0.02


def test_a_contact_stays_where_the_point_was_most_of_the_time_and_on_the_floor():
    path = still(60, (1.0, 0.004, 2.0)) + np.random.default_rng(0).normal(0.0, 0.001, (60, 3))
    heels, toes = plan_plants(path, path + AHEAD, flags(60, 10, 50), flags(60, 0, 0), LEVEL, RATE)
    assert not toes
    assert (heels[0].start, heels[0].stop) == (10, 50)
    np.testing.assert_allclose(heels[0].place, (1.0, 0.0, 2.0), atol=2e-3)
    np.testing.assert_allclose(heels[0].path[:, 1], 0.0, atol=1e-3)


def test_a_step_keeps_its_own_height():
    path = still(40, (0.0, 0.2, 0.0))
    heels, _ = plan_plants(path, path + AHEAD, flags(40, 5, 35), flags(40, 0, 0), LEVEL, RATE)
    assert heels[0].place[1] == pytest.approx(0.2)


def test_heel_and_toe_that_are_down_together_are_a_foot_apart():
    rng = np.random.default_rng(1)
    heel = still(100) + rng.normal(0.0, 0.002, (100, 3))
    toe = heel + np.array([0.03, 0.0, 0.19]) + rng.normal(0.0, 0.002, (100, 3))
    heels, toes = plan_plants(heel, toe, flags(100, 10, 60), flags(100, 30, 90), LEVEL, RATE)
    apart = np.linalg.norm(toes[0].place - heels[0].place)
    assert apart == pytest.approx(np.linalg.norm([0.03, 0.0, 0.19]), abs=2e-3)


def test_a_point_that_leaves_creeps_and_then_lets_go():
    path = still(100)
    path[60:, 2] = 0.0006 * np.arange(40) ** 1.5  # rolls away, faster and faster
    heels, _ = plan_plants(path, path + AHEAD, flags(100, 0, 100), flags(100, 0, 0), LEVEL, RATE)
    held = heels[0]
    steps = np.linalg.norm(np.diff(held.path[:, [0, 2]], axis=0), axis=1)
    assert steps.max() <= 0.0013 + 1e-12
    assert steps[:50].max() == 0.0
    assert 65 < held.stop < 100
    assert np.abs(held.path - path[: held.stop]).max() <= 0.012


def test_a_point_that_lifts_is_let_go_upwards():
    path = still(50)
    path[30:, 1] = np.linspace(0.0, 0.08, 20)
    heels, _ = plan_plants(path, path + AHEAD, flags(50, 0, 50), flags(50, 0, 0), LEVEL, RATE)
    np.testing.assert_allclose(heels[0].path[-1, 1], 0.08, atol=1e-9)
    assert (np.diff(heels[0].path[:, 1]) >= 0.0).all()


@given(seed=st.integers(0, 500))
def test_corrected_paths_meet_their_plants_and_have_no_pops(seed):
    rng = np.random.default_rng(seed)
    path = np.cumsum(rng.normal(0.0, 0.0005, (200, 3)), axis=0)
    plants = [PointPlant(a, np.zeros(3), path[a] + still(30, tuple(rng.normal(0.0, 0.01, 3)))) for a in (20, 80, 150)]
    shift = compute_corrections(path, plants, RATE)
    for plant in plants:
        np.testing.assert_allclose((path + shift)[plant.start : plant.stop], plant.path, atol=1e-12)
    free = np.ones(200, dtype=bool)
    for plant in plants:
        free[plant.start : plant.stop] = False
    jumps = np.linalg.norm(np.diff(shift, axis=0), axis=1)[free[1:]]
    assert jumps.max() < 0.005


def test_far_from_contacts_nothing_is_corrected():
    path = np.random.default_rng(0).normal(0.0, 1.0, (400, 3))
    shift = compute_corrections(path, [PointPlant(100, np.zeros(3), np.zeros((20, 3)))], RATE)
    assert np.abs(shift[:70]).max() == 0.0
    assert np.abs(shift[150:]).max() == 0.0


def test_weight_passes_from_the_point_that_lifts_to_the_one_that_stays():
    heel, toe = [PointPlant(10, np.zeros(3), np.zeros((40, 3)))], [PointPlant(30, np.zeros(3), np.zeros((50, 3)))]
    w_heel, w_toe = contact_depth_weights(heel, 100), contact_depth_weights(toe, 100)
    share = w_heel / (w_heel + w_toe)
    assert share[29] > 0.99
    assert share[50] < 0.01
    assert np.abs(np.diff(share[10:80])).max() < 0.15


@given(seed=st.integers(0, 300))
def test_the_raised_floor_is_smooth_and_never_below(seed):
    rng = np.random.default_rng(seed)
    needed = np.maximum(rng.normal(-0.01, 0.01, 150), 0.0)
    raised = smooth_upper_envelope(needed, RATE)
    assert raised.shape == needed.shape
    assert (raised >= needed - 1e-12).all()
    assert np.abs(np.diff(raised)).max() <= 0.15 * max(needed.max(), 1e-9)
