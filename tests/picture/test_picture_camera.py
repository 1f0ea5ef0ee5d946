"""The camera: projection law, framing and views."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError
from marey.picture import Margins, PinholeCamera, fit_height, frame_balls, view_direction

SIZE = (400, 300)
angles = st.floats(-3.0, 3.0)


def test_the_target_is_drawn_in_the_middle():
    camera = PinholeCamera([3.0, 2.0, 5.0], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(camera.project([0.0, 1.0, 0.0], SIZE), [200, 150, np.sqrt(9 + 1 + 25)])


def test_axes_are_orthonormal_and_right_handed():
    right, up, forward = PinholeCamera([3.0, 2.0, 5.0], [0.0, 1.0, 0.0]).axes()
    np.testing.assert_allclose(np.stack([right, up, forward]) @ np.stack([right, up, forward]).T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(up, right), forward, atol=1e-12)
    assert up[1] > 0 and right[1] == pytest.approx(0.0, abs=1e-12)


def test_the_edges_of_the_picture_are_half_the_field_of_view_away():
    camera = PinholeCamera([0.0, 0.0, 4.0], [0.0, 0.0, 0.0], fov_rad=np.deg2rad(60))
    top = 4.0 * np.tan(np.deg2rad(30))
    np.testing.assert_allclose(camera.project([[0, top, 0], [0, -top, 0]], SIZE)[:, 1], [0.0, 300.0], atol=1e-9)
    assert camera.project([top, 0, 0], SIZE)[0] == pytest.approx(200 + 150)  # +X is on the right, seen from +Z


def test_twice_as_far_is_half_as_large():
    sizes = [
        np.ptp(PinholeCamera([0.0, 0.0, z], [0, 0, 0]).project([[-0.5, 0, 0], [0.5, 0, 0]], SIZE)[:, 0])
        for z in (2.0, 4.0)
    ]
    assert sizes[0] == pytest.approx(2 * sizes[1])


def test_looking_straight_down_has_axes_too():
    axes = PinholeCamera([0.0, 5.0, 0.0], [0.0, 0.0, 0.0]).axes()
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("bad", [{"position": [0, 1, 0]}, {"fov_rad": 0.0}, {"fov_rad": 4.0}])
def test_an_impossible_camera_is_refused(bad):
    arguments = {"position": [0.0, 1.0, 3.0], "target": [0.0, 1.0, 0.0]} | bad
    with pytest.raises(InputError):
        PinholeCamera(**arguments)


@given(heading=angles, turn=st.floats(-0.4, 0.4), elevation=st.floats(0.0, 0.8))
def test_motion_runs_to_the_right_of_its_side_view(heading, turn, elevation):
    direction = view_direction(heading, turn_rad=turn, elevation_rad=elevation)
    camera = PinholeCamera(-5.0 * direction, np.zeros(3))
    step = camera.project([np.sin(heading), 0.0, np.cos(heading)], SIZE) - camera.project(np.zeros(3), SIZE)
    assert step[0] > 0
    assert camera.position[1] >= 0.0


def test_side_view_is_seen_from_the_right_of_the_body():
    assert -view_direction(0.0, turn_rad=0.0, elevation_rad=0.0)[0] == pytest.approx(-1.0)  # right of +Z is -X


@given(seed=st.integers(0, 10_000), turn=angles, elevation=st.floats(-0.5, 1.2))
def test_framed_balls_are_inside_the_margins_and_touch_one(seed, turn, elevation):
    rng = np.random.default_rng(seed)
    points, radii = rng.normal(size=(12, 3)), rng.uniform(0.05, 0.3, 12)
    margins = Margins(sides=20, top=10, bottom=40)
    direction = view_direction(0.3, turn_rad=turn, elevation_rad=elevation)
    camera = frame_balls(points, radii, direction, SIZE, fov_rad=0.5, margins=margins)
    # the outline of a ball: points of its surface in many directions
    around = rng.normal(size=(4000, 3))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    surface = (points[:, None] + radii[:, None, None] * around).reshape(-1, 3)
    u, v, depth = camera.project(surface, SIZE).T
    free = np.array([u.min() - 20, 380 - u.max(), v.min() - 10, 260 - v.max()])
    assert (depth > 0).all()
    assert free.min() > -1e-6  # inside
    assert free.min() < 2.0  # and tight: a sampled outline misses the true edge by little


def test_fitted_height_is_the_lowest_that_does_not_move_the_camera_away():
    points = np.array([[-2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.5, 0.0]])
    direction = np.array([0.0, 0.0, -1.0])
    camera, height = fit_height(points, 0.1, direction, 800, wide_rad=0.4, limits=(50, 800))
    u, v, _ = camera.project(points, (800, height)).T
    assert 0 < u.min() < 25 and 775 < u.max() < 800
    assert np.ptp(v) + 40 == pytest.approx(height, abs=8)  # 1.5 m and two radii, at 4.2 m for 800 pixels
