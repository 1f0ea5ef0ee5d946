"""The shortest way round what stands on the ground, beside lengths worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marey.world import Box, Table, Wall, World, shortest_way


def test_with_nothing_in_between_it_is_the_line():
    assert shortest_way(World(), (0.0, 0.0), (3.0, 4.0)) == pytest.approx(5.0)


def test_a_wall_is_passed_a_body_beside_its_end():
    world = World(walls=(Wall((-5.0, 2.0), (1.0, 2.0)),))
    assert shortest_way(world, (0.0, 0.0), (0.0, 4.0)) == pytest.approx(2.0 * np.hypot(1.25, 2.0))


def test_a_table_in_between_is_walked_round_and_one_that_holds_the_end_is_not():
    world = World(tables=(Table((0.0, 2.0), (1.0, 0.5), 0.75),))
    assert shortest_way(world, (0.0, 0.0), (0.0, 2.0)) == pytest.approx(2.0)
    assert shortest_way(world, (0.0, 0.0), (0.0, 4.0)) == pytest.approx(np.hypot(0.75, 1.5) + np.hypot(0.75, 2.5))


def test_a_low_box_is_no_obstacle_and_a_closed_room_is_crossed():
    line = ((0.0, 0.0), (0.0, 4.0))
    assert shortest_way(World(boxes=(Box((0.0, 2.0), (1.0, 0.5), 0.2),)), *line) == pytest.approx(4.0)
    corners = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)]
    far = World(walls=tuple(Wall(a, b) for a, b in pairwise(corners)))
    assert shortest_way(far, *line) == pytest.approx(4.0)
