"""A few problems of Table 4.1 of [Safonova2006]_ on a small graph; the whole is a study (benchmarks/study_picks.py)."""

from __future__ import annotations

import numpy as np
import pytest

from marey.graph import MotionGraph, SearchResult, search_graph
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph.paths import blended_hands
from marey.graph.search.blended_graph import prepare_graph
from marey.world import Event, GroundPose, Sketch, Thing, World

pytestmark = pytest.mark.mocap


def task(point: np.ndarray, root: np.ndarray | None = None) -> Sketch:
    x, y, z = (float(v) for v in point)
    at = None if root is None else (float(root[0]), float(root[1]))
    events = (Event("pick", at=at, object="cup"),)
    return Sketch(
        GroundPose((0.0, 0.0), 0.0),
        GroundPose((0.0, 5.0)),
        events=events,
        world=World(objects=(Thing("cup", (x, y, z)),)),
    )


def solve(graph: MotionGraph, sketch: Sketch, tolerance_m: float) -> SearchResult:
    return search_graph(
        graph, sketch, k=2, budget_s=10.0, epsilon=(3.0, 1.5), pick_tolerance_m=tolerance_m, until=1
    )  # fmt: skip


def hand_and_root(graph: MotionGraph, result: SearchResult, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Hand (3,) and root (2,) [m] at the end of a step, as the search has them."""
    own, arrays = result.steps[step], graph.arrays
    a, c, w = int(arrays.target[own.edge]), int(arrays.target[own.other]), own.weight
    x, y, z = blended_hands(graph, np.array([a]), np.array([c]), np.array([w]))[0, 0]
    root = w * arrays.root[a] + (1.0 - w) * arrays.root[c]
    hand = compose_planar(result.places[step + 1], np.array([x, z, 0.0]))
    return np.array([hand[0], y, hand[1]]), compose_planar(result.places[step + 1], root)[:2]


def cost_alone(found: SearchResult) -> float:
    """Of the best way without blends, which the same search finds first."""
    return min((s.cost for s in found.history if s.k == 1), default=np.inf)


@pytest.fixture(scope="module")
def solved(picking: MotionGraph) -> list[tuple[np.ndarray, SearchResult]]:
    """Points within the heights that the clips reach, and what was found for each."""
    heights = picking.arrays.hand[np.isin(picking.arrays.event, (PICK_LEFT, PICK_RIGHT)), 1]
    rng = np.random.default_rng(2)
    points = [
        np.array([rng.uniform(-1.0, 1.0), rng.uniform(heights.min(), heights.max()), rng.uniform(1.2, 2.4)])
        for _ in range(4)
    ]
    return [(point, solve(picking, task(point), 0.1)) for point in points]


def test_safonova_a21_blends_solve_all_that_single_motions_solve(solved):
    assert sum(found.is_solved for _, found in solved) >= 3
    for _, found in solved:
        assert found.is_solved or not np.isfinite(cost_alone(found))


def test_safonova_a24_blends_never_cost_more(solved):
    for _, found in solved:
        if found.is_solved:
            assert found.cost <= cost_alone(found) + 1e-9


def test_safonova_a22_the_hand_is_within_the_tolerance_where_the_search_says(picking, solved):
    for point, found in solved:
        if found.is_solved:
            hand, _ = hand_and_root(picking, found, found.met[0])
            assert np.linalg.norm(hand - point) == pytest.approx(found.errors[0], abs=1e-6)
            assert found.errors[0] <= 0.1 + 1e-9


def test_a_pinned_root_is_where_it_is_pinned(picking, solved):
    """The second problem of the table: root and object both; posed where a way is known to end."""
    _, found = next(pair for pair in solved if pair[1].is_solved)
    hand, root = hand_and_root(picking, found, found.met[0])
    again = solve(picking, task(hand + np.array([0.01, 0.0, 0.0]), root), 0.1)
    assert again.is_solved
    there, stands = hand_and_root(picking, again, again.met[0])
    assert np.linalg.norm(stands - root) <= 0.1 + 1e-9
    assert np.linalg.norm(there - hand) <= 0.11 + 1e-9


def test_no_pick_has_its_root_two_metres_away(picking):
    found = solve(picking, task(np.array([0.0, 0.15, 2.0]), np.array([0.0, 0.0])), 0.05)
    assert found.status.startswith("PARAM_OUT_OF_RANGE")
    assert found.advice


def test_heights_between_two_picks_are_reached_by_blends_alone(picking):
    """Where no captured hand is as high, blends have hands in between."""
    arrays, roads = picking.arrays, prepare_graph(picking, 2).roads
    picks = np.isin(arrays.event, (PICK_LEFT, PICK_RIGHT))
    captured = np.unique(arrays.hand[picks, 1])
    every = np.unique(roads.hand[np.isin(roads.event, (PICK_LEFT, PICK_RIGHT)), 1])
    assert len(every) > 2 * len(captured)
    assert np.diff(every).max() <= np.diff(captured).max()
    assert every.min() > captured.min() - 0.05 and every.max() < captured.max() + 0.05
