"""Ways on the ground: curves, corners, turns, and the parameters that keep a walker on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import InputError
from marey.locomotion.planning.ground_path import (
    GroundPath,
    arrive_with_heading,
    curvature_speed_limit,
    find_dubins_paths,
    heading_vector,
    join_from_heading,
    limit_acceleration,
    max_distance_to_line,
    resample_evenly,
    round_corners,
    straight_path,
)
from marey.locomotion.steering.obstacles import BODY_RADIUS_M, Obstacle, find_detour, sample_obstacle
from marey.locomotion.steering.path_schedule import compute_turn_rates, plan_cruise

angles = st.floats(-3.1, 3.1)


def circle(radius: float, turn: float) -> GroundPath:
    """An arc to the left that begins at the origin, facing +Z."""
    a = np.linspace(0.0, turn, 400)
    return GroundPath(radius * np.stack([1.0 - np.cos(a), np.sin(a)], axis=-1))


def test_way_of_a_circle_has_its_length_heading_and_curvature():
    way = circle(2.0, 1.5)
    assert abs(way.length_m - 3.0) < 1e-3
    np.testing.assert_allclose(way.curvatures[3:-3], 0.5, atol=1e-3)
    assert abs(float(way.heading_at(1.0)) - 0.5) < 1e-3


def test_way_goes_straight_on_beyond_its_ends():
    way = straight_path((1.0, 2.0), 0.5 * np.pi, 3.0)
    np.testing.assert_allclose(way.point_at([-1.0, 1.0, 5.0]), [[0.0, 2.0], [2.0, 2.0], [6.0, 2.0]], atol=1e-9)
    assert abs(way.nearest((7.0, 2.5)) - 6.0) < 1e-9


def test_way_refuses_points_that_repeat():
    with pytest.raises(InputError, match="alike"):
        GroundPath(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))


def test_curves_are_taken_slowly_enough():
    way = circle(0.5, 3.0)
    limit = curvature_speed_limit(way, 1.5)
    inner = slice(3, -3)
    assert (limit**2 * np.abs(way.curvatures) <= 1.5 + 1e-9).all()
    assert (limit * np.abs(way.curvatures) <= 1.5 + 1e-9).all()
    np.testing.assert_allclose(limit[inner], 0.75, atol=0.01)


def test_speeds_along_a_way_change_no_faster_than_allowed():
    way = straight_path((0.0, 0.0), 0.0, 10.0)
    limit = np.where(np.abs(way.lengths - 5.0) < 0.5, 0.4, 1.4)
    speeds = limit_acceleration(way, limit, acceleration=0.5, first=0.2, last=0.0)
    assert (speeds <= limit + 1e-12).all()
    assert np.abs(np.diff(speeds**2) / np.diff(way.lengths)).max() <= 1.0 + 1e-9
    assert speeds[0] == pytest.approx(0.2)
    assert speeds[-1] == 0.0


@settings(deadline=None)
@given(heading=angles, end_heading=angles, x=st.floats(-2.0, 2.0), z=st.floats(0.1, 2.0), radius=st.floats(0.2, 0.6))
def test_dubins_ways_arrive_and_never_bend_more_than_their_circles(heading, end_heading, x, z, radius):
    ways = find_dubins_paths(np.zeros(2), heading, np.array([x, z]), end_heading, radius)
    assert ways
    for points in ways:
        np.testing.assert_allclose(points[-1], [x, z], atol=1e-6)
        last = points[-1] - points[-2]
        assert np.dot(last / np.hypot(*last), heading_vector(end_heading)) > 0.99
        a, b = np.diff(points, axis=0)[:-1], np.diff(points, axis=0)[1:]
        turned = np.abs(np.arctan2(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], np.einsum("ij,ij->i", a, b)))
        assert (turned <= 0.5 * (np.hypot(*a.T) + np.hypot(*b.T)) / radius + 1e-3).all()


def test_dubins_straight_ahead_is_the_straight_line():
    points = find_dubins_paths(np.zeros(2), 0.0, np.array([0.0, 3.0]), 0.0, 0.5)[0]
    assert np.abs(points[:, 0]).max() < 1e-9
    assert np.hypot(*np.diff(points, axis=0).T).sum() == pytest.approx(3.0)


@settings(max_examples=30, deadline=None)
@given(turn=st.floats(0.2, 3.1), slack=st.floats(0.3, 0.8))
def test_rounded_corners_stay_within_the_slack(turn, slack):
    corners = np.array([[0.0, 0.0], [0.0, 4.0], 4.0 * heading_vector(turn) + [0.0, 4.0]])
    line = round_corners(corners, slack)
    assert max_distance_to_line(line, resample_evenly(corners, 0.005)) <= slack + 0.01
    np.testing.assert_allclose(line[[0, -1]], corners[[0, -1]], atol=1e-6)


def test_rounded_corner_is_as_wide_as_it_may():
    corners = np.array([[0.0, 0.0], [0.0, 5.0], [5.0, 5.0]])
    bends = [np.abs(GroundPath(round_corners(corners, slack)).curvatures).max() for slack in (0.1, 0.3)]
    assert bends[1] < 0.5 * bends[0]


@pytest.mark.parametrize("degrees", [20.0, 90.0, -135.0, 180.0])
def test_turn_at_an_end_begins_in_its_direction_and_stays_near_the_line(degrees):
    line = straight_path((0.0, 0.0), 0.0, 6.0).points
    heading = np.radians(degrees)
    start, end = join_from_heading(line, heading, 0.45), arrive_with_heading(line, heading, 0.45)
    for turned, at in ((start, 0), (end, -1)):
        way = GroundPath(turned)
        assert abs(np.angle(np.exp(1j * (way.headings[at] - heading)))) < 0.05
        assert max_distance_to_line(way.points, line) < 0.46
        np.testing.assert_allclose(way.points[at], line[at], atol=1e-6)


def test_turn_that_does_not_fit_is_refused_with_advice():
    with pytest.raises(InputError, match="Widen the corridor"):
        join_from_heading(straight_path((0.0, 0.0), 0.0, 6.0).points, np.pi, 0.1)


def test_obstacle_is_seen_along_the_heading():
    box = Obstacle((0.0, 5.0), (2.0, 1.0), heading_rad=0.25 * np.pi)
    seen = box.extent_from(np.zeros(2), 0.0)
    half = 1.5 * np.sqrt(0.5)
    np.testing.assert_allclose(seen, (5.0 - half, 5.0 + half, -half, half))


def test_track_crosses_a_wide_oblique_box_along_its_own_line():
    wide = Obstacle((0.0, 5.0), (0.5, 6.0), heading_rad=0.3)
    seen = wide.track_extent_from(np.zeros(2), 0.0, half_width_m=0.2)
    assert seen is not None
    half = 0.25 / np.cos(0.3) + 0.2 * np.tan(
        0.3
    )  # closed form: half the slanted length and what the track's width adds
    np.testing.assert_allclose(seen, (5.0 - half, 5.0 + half, -0.2, 0.2))
    assert wide.track_extent_from(np.array([9.0, 0.0]), 0.0) is None


def test_obstacle_distance_is_zero_inside_and_grows_outside():
    box = Obstacle((1.0, 1.0), (2.0, 1.0), heading_rad=0.5 * np.pi)  # its length lies along x
    np.testing.assert_allclose(box.distance(np.array([[1.9, 1.0], [2.5, 1.0], [3.0, 2.5]])), [0.0, 0.5, np.sqrt(2.0)])


@pytest.mark.parametrize("wrong", [{"size": (0.0, 1.0)}, {"position": (np.nan, 0.0)}, {"height_m": -0.1}])
def test_obstacle_refuses_bad_numbers(wrong):
    with pytest.raises(InputError, match="obstacle"):
        Obstacle(**({"position": (0.0, 1.0)} | wrong))


def test_random_obstacles_are_within_the_ranges_of_the_thesis():
    rng = np.random.default_rng(0)
    for _ in range(100):
        box = sample_obstacle(rng, np.array([1.0, 2.0]), 0.7)
        front = box.extent_from(np.array([1.0, 2.0]), 0.7).front
        assert 2.0 <= front <= 10.0
        assert 0.4 <= box.size[0] <= 2.6
        assert 1.0 <= box.size[1] <= 6.0


@pytest.mark.parametrize("seed", range(12))
def test_way_round_keeps_the_body_clear_and_comes_back_to_the_line(seed):
    box = sample_obstacle(np.random.default_rng(seed), np.zeros(2), 0.4)
    way = find_detour(box, np.zeros(2), 0.4)
    assert way is not None
    assert box.distance(way.points).min() > BODY_RADIUS_M
    left = heading_vector(0.4 + 0.5 * np.pi)
    assert abs(way.points[-1] @ left) < 1e-9
    assert abs(way.headings[-1] - 0.4) < 0.02


def test_way_round_takes_the_free_side():
    box = Obstacle((0.0, 5.0), (0.5, 1.0))
    left, right = (find_detour(box, np.zeros(2), 0.0, side=side) for side in ("left", "right"))
    assert left is not None and left.points[:, 0].max() > 0.8
    assert right is not None and right.points[:, 0].min() < -0.8
    beside = Obstacle((1.6, 5.0), (3.0, 1.0))  # something else stands on the left
    free = find_detour(box, np.zeros(2), 0.0, others=[beside])
    assert free is not None and free.points[:, 0].min() < -0.8


def test_cruise_obeys_curves_and_stops_at_the_end():
    way = GroundPath(round_corners(np.array([[0.0, 0.0], [0.0, 4.0], [4.0, 4.0]]), 0.2))
    course = plan_cruise(way, 0.0, 0.0, 1.4, (0.0, 0.0), last=0.0)
    limit = np.interp(course.along_m, way.lengths, curvature_speed_limit(way, 1.4))
    assert (course.speeds <= limit + 0.03).all()
    assert course.speeds[-1] == 0.0
    assert abs(course.along_m[-1] - way.length_m) < 1e-6
    gone = np.concatenate([[0.0], np.cumsum(np.diff(course.times_s) * 0.5 * (course.speeds[1:] + course.speeds[:-1]))])
    assert np.abs(gone - course.along_m).max() < 0.03


def test_turn_rates_lead_a_walker_back_to_the_way():
    way = straight_path((0.0, 0.0), 0.0, 10.0)
    course = plan_cruise(way, 0.0, 1.2, 1.2, (0.0, 0.0))
    rates = compute_turn_rates(way, course, np.array([0.2, 0.0]), 0.1)
    x, heading = 0.2, 0.1
    for i in range(len(rates) - 1):
        step = course.times_s[i + 1] - course.times_s[i]
        heading += step * rates[i]
        x += step * course.speeds[i] * np.sin(heading)
    assert abs(x) < 0.01
    assert abs(heading) < 0.01
