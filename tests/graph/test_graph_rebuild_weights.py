"""Weights off the grid, then arm and spine, bring the hand of a blended pick to its object."""

from __future__ import annotations

import numpy as np
import pytest

from marey.contacts import slide_mm
from marey.graph import MotionGraph, SearchResult, rebuild_for_sketch
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph.paths import PathStep, blended_deltas, blended_hands
from marey.graph.reconstruction.motion import MAX_SHIFT_M, WEIGHT_SPAN, refine_weights
from marey.graph.search.blended_graph import lay_out_pairs, prepare_graph
from marey.world import Event, GroundPose, Sketch, Thing, World

pytestmark = pytest.mark.mocap


@pytest.fixture(scope="module")
def blended(picking: MotionGraph) -> SearchResult:
    """A way of two blended steps: down to a pick between two captured ones, and up again; then one that is plain."""
    roads, _, blends = lay_out_pairs(picking, prepare_graph(picking).roads)
    source = np.repeat(np.arange(len(roads.event)), np.diff(roads.first))
    is_pick = np.isin(roads.event, (PICK_LEFT, PICK_RIGHT)) & (np.arange(len(roads.event)) >= picking.num_states)
    for down in np.flatnonzero(is_pick[roads.target] & (source < picking.num_states)):
        ups = np.flatnonzero((source == roads.target[down]) & (roads.target < picking.num_states))
        for up in ups:
            after = int(picking.arrays.first[roads.target[up]])
            steps, place, places = list[PathStep](), np.array([0.5, 1.0, 0.3]), list[np.ndarray]()
            for e in (down, up):
                steps.append(PathStep(int(blends.a[e]), int(blends.c[e]), float(blends.weight[e]), place))
                places.append(place)
                place = compose_planar(place, roads.delta[e])
            steps.append(PathStep(after, after, 1.0, place))
            places += [place, compose_planar(place, picking.arrays.delta[after])]
            return SearchResult("BOUNDED", tuple(steps), np.array(places), int(source[down]), met=(0,))
    raise AssertionError("no blend is left")


def hand_at(graph: MotionGraph, way: SearchResult, weight: float) -> np.ndarray:
    """Where the hand of the first step is at its end, at some weight."""
    step = way.steps[0]
    delta = blended_deltas(graph, np.array([step.edge]), np.array([step.other]), np.array([weight]))[0, 0]
    targets = (np.array([graph.arrays.target[e]]) for e in (step.edge, step.other))
    x, y, z = blended_hands(graph, *targets, np.array([weight]))[0, 0]
    at = compose_planar(compose_planar(step.place, delta), np.array([x, z, 0.0]))
    return np.array([at[0], y, at[1]])


@pytest.mark.parametrize("change", [-0.06, 0.0, 0.03])
def test_safonova_a22_an_object_between_two_weights_of_the_grid_is_met_to_a_millimetre(picking, blended, change):
    weight = blended.steps[0].weight
    target = hand_at(picking, blended, weight + change)
    better = refine_weights(picking, blended, {0: target})
    assert better.steps[0].weight == pytest.approx(weight + change, abs=WEIGHT_SPAN / 22.0)
    error = np.linalg.norm(hand_at(picking, better, better.steps[0].weight) - target)
    assert error <= 1e-3
    assert error <= np.linalg.norm(hand_at(picking, blended, weight) - target) + 1e-12


def test_what_follows_a_refined_blend_is_carried_along_and_not_far(picking, blended):
    target = hand_at(picking, blended, blended.steps[0].weight + 0.05)
    better = refine_weights(picking, blended, {0: target})
    moved = np.linalg.norm((better.places - blended.places)[:, :2], axis=1)
    assert moved[0] == 0.0
    assert moved.max() <= MAX_SHIFT_M + 0.02 * np.ptp(blended.places[:, :2]) + 1e-9
    for n, step in enumerate(better.steps):
        assert np.array_equal(step.place, better.places[n])
        w = np.array([step.weight])
        delta = blended_deltas(picking, np.array([step.edge]), np.array([step.other]), w)[0, 0]
        assert compose_planar(step.place, delta)[:2] == pytest.approx(better.places[n + 1][:2], abs=1e-9)


def test_weights_of_a_way_without_blends_stay(picking, blended):
    plain = SearchResult("BOUNDED", blended.steps[2:], blended.places[2:], 0, met=(0,))
    assert refine_weights(picking, plain, {0: np.zeros(3)}) is plain


def test_safonova_a22_a_blended_pick_ends_at_its_object(picking, blended):
    """Three centimetres off the hand of the grid, to a millimetre."""
    weight = blended.steps[0].weight
    x, y, z = hand_at(picking, blended, weight + 0.05) + np.array([0.01, 0.02, -0.01])
    sketch = Sketch(
        GroundPose((0.0, 0.0)), GroundPose((0.0, 3.0)), events=(Event("pick", object="cup"),),
        world=World(objects=(Thing("cup", (float(x), float(y), float(z))),)),
    )  # fmt: skip
    raw, before = rebuild_for_sketch(picking, blended, sketch, refine=False, rate_hz=60.0)
    motion, after = rebuild_for_sketch(picking, blended, sketch, rate_hz=60.0)
    assert 0.01 < before[0] < 0.06
    assert after[0] < 1e-3
    assert slide_mm(motion).max() <= 2.0
    assert abs(motion.num_frames - raw.num_frames) <= 6
