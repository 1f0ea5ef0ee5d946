"""Distances of poses and of places on the ground."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.graph_parts import planar_distance

from marey.base import InputError
from marey.graph.arrays import compose_planar, to_frame
from marey.graph.database.pose_metric import PointClouds, squared_distances
from marey.graph.database.settings import AS_CAPTURED, GraphSettings
from marey.graph.search.ground import GRID_STEPS, GroundGrid, grid_distances
from marey.lie import SO3
from marey.world import GroundPose, River, Sketch, Stone, Thing, Wall, World, box_distance, segment_distance

UP = np.array([0.0, 1.0, 0.0])


def test_matrix_products_give_the_distance_of_each_pair():
    clouds = np.random.default_rng(0).normal(size=(20, 31, 3))
    table = PointClouds.from_points(clouds).distances(slice(0, 20), slice(5, 15))
    direct = [[planar_distance(a, b) for b in clouds[5:15]] for a in clouds]
    np.testing.assert_allclose(table, direct, atol=1e-12)


def test_turned_and_shifted_clouds_are_the_same():
    cloud = np.random.default_rng(1).normal(size=(12, 3))
    other = SO3.exp(0.7 * UP) @ cloud + [3.0, 0.0, -1.0]
    assert planar_distance(cloud, other) < 1e-24
    assert planar_distance(cloud, cloud + 0.1 * UP) == pytest.approx(0.01)


def test_no_other_turn_brings_clouds_nearer():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 9, 3))
    centred = [c - c.mean(axis=0) * [1.0, 0.0, 1.0] for c in (a, b)]
    tried = [((centred[0] - SO3.exp(t * UP) @ centred[1]) ** 2).sum() / 9 for t in np.linspace(-np.pi, np.pi, 721)]
    assert planar_distance(a, b) <= min(tried) + 1e-12


def test_squared_distances_are_those_of_rows():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(7, 5)), rng.normal(size=(4, 5))
    np.testing.assert_allclose(squared_distances(a, b), ((a[:, None] - b[None]) ** 2).sum(axis=-1), atol=1e-12)


def test_places_seen_from_a_frame_come_back():
    rng = np.random.default_rng(4)
    place, frame = rng.uniform(-3.0, 3.0, (2, 50, 3))
    back = compose_planar(frame, to_frame(place, frame))
    np.testing.assert_allclose(back[:, :2], place[:, :2], atol=1e-12)
    np.testing.assert_allclose(np.exp(1j * back[:, 2]), np.exp(1j * place[:, 2]), atol=1e-12)


def test_grid_ways_are_at_most_3_percent_longer_than_straight_ones():
    free, start = np.ones((81, 81), dtype=bool), np.full((81, 81), np.inf)
    start[40, 40] = 0.0
    found = grid_distances(free, start, GRID_STEPS)
    rows, columns = np.indices(free.shape) - 40
    straight = np.hypot(rows, columns)
    assert (found >= straight - 1e-9).all()
    assert (found * 0.973 <= straight + 1e-9).all()


def test_a_wall_makes_the_way_longer_and_a_closed_room_has_none():
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 4.0)), world=World(walls=(Wall((-2.0, 2.0), (2.0, 2.0)),)))
    for settings, from_wall_m in ((replace(AS_CAPTURED, arm_room_m=0.0), 0.25), (AS_CAPTURED, 0.37)):
        ground = GroundGrid.from_sketch(sketch, settings)
        way = ground.distances(np.where(ground.disk((0.0, 4.0), 0.1), 0.0, np.inf))
        row, column = int((0.0 - ground.origin[1]) / 0.05), int((0.0 - ground.origin[0]) / 0.05)
        round_it = 2.0 * np.hypot(2.0 + from_wall_m, 2.0)
        assert 0.9 * round_it < way[row, column] < round_it
    room = tuple(Wall(a, b) for a, b in (((-1, 3), (1, 3)), ((1, 3), (1, 5)), ((1, 5), (-1, 5)), ((-1, 5), (-1, 3))))
    closed = GroundGrid.from_sketch(Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 4.0)), world=World(walls=room)))
    way = closed.distances(np.where(closed.disk((0.0, 4.0), 0.1), 0.0, np.inf))
    assert np.isinf(way[int((0.0 - closed.origin[1]) / 0.05), int((0.0 - closed.origin[0]) / 0.05)])


def test_distances_to_strips_and_boxes():
    X, Z = np.array([[0.0, 3.0]]), np.array([[1.0, 0.0]])
    np.testing.assert_allclose(segment_distance((-1, 0), (1, 0), X, Z), [[1.0, 2.0]])
    np.testing.assert_allclose(box_distance((0, 0), (2, 1), 0.0, X, Z), [[0.5, 2.0]])
    np.testing.assert_allclose(box_distance((0, 0), (2, 1), 90.0, X, Z), [[0.0, 2.5]], atol=1e-12)


@pytest.mark.parametrize("bad", [{"density": -1.0}, {"rate_hz": 0.0}, {"metric": "l2"}, {"cross": float("nan")}])
def test_settings_that_make_no_graph_are_refused(bad):
    with pytest.raises(InputError):
        GraphSettings(**bad)


def test_soles_on_stones_are_as_far_from_water_as_those_on_banks():
    stone, half_sole_m = Stone((0.0, 2.0), 0.3), 0.12
    world = World(rivers=(River((-3.0, 2.0), (3.0, 2.0), 2.0),), stones=(stone,))
    ground = GroundGrid.from_sketch(Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 4.0)), world=world))
    rows, columns = np.nonzero(ground.stand)
    corners = np.array([(a, b) for a in (-0.5, 0.5) for b in (-0.5, 0.5)]) * 0.05
    away = np.stack([ground.x[columns], ground.z[rows]], axis=1)[:, None] + corners - np.array(stone.position)
    away = away[np.abs(away[..., 0]).max(axis=1) < 1.0]
    in_river = np.abs(away[..., 1]).min(axis=1) < 1.0
    assert in_river.any()
    assert np.hypot(*away[in_river].T).max() + half_sole_m < stone.radius_m + 0.02
    assert (np.abs(away[~in_river][..., 1]).min() - half_sole_m) > 1.0 - 0.02


def test_there_is_room_for_arms_beside_walls_unless_it_closes_the_way():
    def draw(*walls, goal=4.0, objects=()):
        world = World(walls=walls, objects=objects)
        sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, goal)), world=world)
        ground = GroundGrid.from_sketch(sketch)
        return ground.free[ground.cell((0.33, 2.0))]

    # A wall whose end is 0.33 m from a place, and a door that is too narrow for swinging arms
    assert not draw(Wall((0.66, 2.0), (3.0, 2.0)))
    door = Wall((0.66, 2.0), (5.0, 2.0)), Wall((0.0, 2.0), (-5.0, 2.0)), *far_walls()
    assert draw(*door)
    # Nothing leads through the door, then a thing behind it does
    assert not draw(*door, goal=1.0)
    assert draw(*door, goal=1.0, objects=(Thing("cup", (0.0, 0.8, 4.0)),))


def far_walls() -> list[Wall]:
    """Walls around all, so that the door is the only way."""
    corners = [(-5.0, -2.0), (5.0, -2.0), (5.0, 6.0), (-5.0, 6.0)]
    return [Wall(a, b) for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)]
