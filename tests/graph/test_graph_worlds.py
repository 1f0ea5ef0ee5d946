"""The search on captured clips: walks, picks and blends of two."""

from __future__ import annotations

import numpy as np
import pytest

from marey.graph import MotionGraph, search_graph
from marey.graph.paths import blended_costs
from marey.graph.search.blended_graph import prepare_graph
from marey.graph.search.ground import GroundGrid
from marey.graph.search.problem import Detours
from marey.world import Event, GroundPose, Path, Sketch, Thing, World

pytestmark = pytest.mark.mocap


def picking_up(graph: MotionGraph, share: float, at: tuple[float, float]) -> Sketch:
    """Something between the lowest and the highest that the clips pick up."""
    heights = graph.arrays.hand[(graph.arrays.event == 1) | (graph.arrays.event == 2), 1]
    height = float(heights.min() + share * np.ptp(heights))
    things = World(objects=(Thing("cup", (at[0], height, at[1])),))
    return Sketch(
        GroundPose((0.0, 0.0), 0.0), GroundPose((0.0, 5.0)), events=(Event("pick", object="cup"),), world=things
    )


def test_safonova_a17_two_are_never_dearer_than_one(picking):
    rng = np.random.default_rng(17)
    solved = 0
    for _ in range(4):
        asked = picking_up(picking, rng.uniform(0.1, 0.9), (rng.uniform(-0.4, 0.4), rng.uniform(1.2, 2.0)))
        one = search_graph(picking, asked, k=1, until=1, budget_s=2.0, pick_tolerance_m=0.1)
        two = search_graph(picking, asked, k=2, until=1, budget_s=5.0, pick_tolerance_m=0.1)
        assert two.is_solved or not one.is_solved
        assert two.violations == 0
        if one.is_solved:
            assert two.cost <= one.cost * (1.0 + 1e-9)
        if two.is_solved:
            solved += 1
            assert two.errors[0] <= 0.1
    assert solved >= 2


def test_safonova_a17_blends_hold_all_that_is_not_blended(picking):
    """The k = 1 graph is part of the k = 2 graph: same edges, same costs, same states."""
    one, two = prepare_graph(picking, 1).roads, prepare_graph(picking, 2)
    assert two.blends is not None
    alone = two.blends.weight == 1.0
    order = np.argsort(two.blends.a[alone], kind="stable")
    np.testing.assert_array_equal(two.blends.a[alone][order], np.arange(len(one.target)))
    np.testing.assert_array_equal(two.roads.cost[alone][order], one.cost)
    np.testing.assert_array_equal(two.roads.target[alone][order], one.target)
    assert len(two.roads.target) > len(one.target)


def test_safonova_a18_blended_edges_join_states_of_equal_contacts_at_equal_weights(picking):
    two, arrays = prepare_graph(picking, 2), picking.arrays
    assert two.blends is not None
    source = np.repeat(np.arange(len(two.roads.first) - 1), np.diff(two.roads.first))
    mixed = np.flatnonzero(two.blends.weight < 1.0)
    a, c = two.blends.a[mixed], two.blends.c[mixed]
    own = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    np.testing.assert_array_equal(arrays.kind[own[a]], arrays.kind[own[c]])
    np.testing.assert_array_equal(arrays.kind[arrays.target[a]], arrays.kind[arrays.target[c]])
    assert (np.isfinite(two.roads.cost[mixed]) & (two.roads.cost[mixed] > 0.0)).all()
    alone = []
    for e in mixed[:: max(len(mixed) // 40, 1)]:
        pair = np.array([two.blends.a[e]]), np.array([two.blends.c[e]])
        least = float(blended_costs(picking, *pair, two.blends.weight[e : e + 1])[0, 0])
        alone.append(two.roads.cost[e] == pytest.approx(least))
        assert two.roads.cost[e] >= least * (1.0 - 1e-9)  # the rest is what the way into the blend costs
    assert any(alone)
    through = mixed[(source[mixed] >= picking.num_states) & (two.roads.target[mixed] >= picking.num_states)]
    here, there = (((ends - picking.num_states) % 8)[through] for ends in (source, two.roads.target))
    assert ((here == there) | (here == 7 - there)).all()  # the other way round where a pair is turned round


def test_a_captured_walk_is_found_stands_at_both_ends_and_keeps_to_its_corridor(picking):
    way = Path(np.array([[0.0, 0.0], [0.0, 3.0]]))
    asked = Sketch(GroundPose((0.0, 0.0), 0.0), GroundPose((0.0, 3.0), tolerance_m=0.4), path=way, corridor_m=1.2)
    found = picking.search(asked, k=1, budget_s=8.0)
    assert found.is_solved
    assert found.violations == 0
    stands = prepare_graph(picking).roads.stands
    assert stands[found.start]
    assert stands[picking.arrays.target[found.edges[-1]]]


def test_safonova_a20_another_way_through_a_phase_keeps_off_what_the_edge_ran_into(picking):
    """Cells that an edge passes are closed: a detour shows other poses, ends alike and is dearer."""
    looks, found = Detours(picking), 0
    ground = GroundGrid.from_sketch(Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 1.0))))
    grid = np.array([*ground.origin, 0.05])
    for edge in range(0, picking.num_edges, max(picking.num_edges // 60, 1)):
        own = looks.find(edge, np.zeros(3), ground.free, grid)
        assert own is not None
        stretches = picking.stretches(edge)
        assert (own.stretches[0][0], own.stretches[-1][1]) == (stretches[0][0], stretches[-1][1])
        middle = picking.arrays.path[edge][4]
        free = ground.free & ~ground.disk(middle, 0.04)
        other = looks.find(edge, np.zeros(3), free, grid)
        if other is not None:
            found += other.cost > own.cost + 1e-12
            assert other.cost >= own.cost - 1e-12
    assert found > 0
