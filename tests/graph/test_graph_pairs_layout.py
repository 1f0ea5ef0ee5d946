"""The graph of blends: what it adds, what it keeps, and what its gaps cost."""

from __future__ import annotations

import numpy as np
import pytest

from marey.graph import build_graph
from marey.graph.arrays import FLIGHT, PICK_LEFT, PICK_RIGHT
from marey.graph.paths import blended_costs, blended_flights, blended_hands, gap_cost_per_distance, state_distances
from marey.graph.search.blended_graph import GAP_COST_FACTOR, MAX_STRETCH, WEIGHTS, lay_out_pairs, prepare_graph
from marey.io import load

pytestmark = pytest.mark.mocap
JUMPING = ("16_01", "16_05", "16_07", "16_15")


@pytest.fixture(scope="module")
def picking(picking_clips):
    """Walks and picks, mirrored: more of them are alike."""
    return build_graph(picking_clips, mirror=True)


@pytest.fixture(scope="module")
def laid(picking):
    """Roads with blends, arc lengths, and what is blended."""
    return lay_out_pairs(picking, prepare_graph(picking).roads)


@pytest.fixture(scope="module")
def jumping(mocap):
    """Walks and jumps, mirrored."""
    return build_graph([load(mocap / "cmu-bvh" / f"{name}.bvh") for name in JUMPING], mirror=True)


def sources(roads):
    return np.repeat(np.arange(len(roads.event)), np.diff(roads.first))


def test_safonova_a17_all_edges_of_one_motion_are_there_unchanged(picking, laid):
    roads, arc, blends = laid
    plain = np.flatnonzero(blends.a == blends.c)
    own = blends.a[plain]
    assert sorted(own.tolist()) == list(range(picking.num_edges))
    assert (blends.weight[plain] == 1.0).all()
    assert np.array_equal(roads.cost[plain], picking.arrays.cost[own])
    assert np.array_equal(roads.target[plain], picking.arrays.target[own])
    assert np.array_equal(arc[plain], picking.arrays.arc[own])
    assert np.array_equal(roads.delta[plain], picking.arrays.delta[own])


def test_safonova_a18_every_blended_edge_is_of_one_class_and_lasts_as_the_rule_says(picking, laid):
    roads, _, blends = laid
    mixed = np.flatnonzero(blends.a != blends.c)
    assert len(mixed) > 50
    a, c, w = blends.a[mixed], blends.c[mixed], blends.weight[mixed]
    arrays = picking.arrays
    source = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    assert (arrays.kind[source[a]] == arrays.kind[source[c]]).all()
    assert (arrays.kind[arrays.target[a]] == arrays.kind[arrays.target[c]]).all()
    assert np.isfinite(roads.cost[mixed]).all() and (roads.cost[mixed] > 0.0).all()
    T1, T2 = arrays.seconds[a], arrays.seconds[c]
    T = np.sqrt(w * T1**2 + (1.0 - w) * T2**2)
    most = np.where(w >= 0.5, T1, T2)
    assert np.abs(np.log(T / most)).max() <= np.log(MAX_STRETCH) + 1e-12
    assert np.isin(w.round(9), WEIGHTS.round(9)).all()


def test_gaps_are_small_and_paid_for(picking, laid):
    """From one state into a blend of it and another the pose jumps; the price is that of the jump."""
    roads, _, blends = laid
    arrays, D, price = picking.arrays, state_distances(picking), gap_cost_per_distance(picking)
    source, own = sources(roads), np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    entered = np.flatnonzero((blends.a != blends.c) & (source < picking.num_states))
    jumps = 0
    for e in entered:
        a, c, w = int(blends.a[e]), int(blends.c[e]), float(blends.weight[e])
        plain = blended_costs(picking, np.array([a]), np.array([c]), np.array([w]))[0, 0]
        A, C = own[a], own[c]
        share = (1.0 - w) if source[e] == A else w
        assert source[e] in (A, C)
        assert share**2 * D[A, C] <= GAP_COST_FACTOR * picking.transitions.threshold * (1.0 + 1e-9)
        assert roads.cost[e] >= plain + price * share**2 * D[A, C] - 1e-9
        jumps += A != C
    assert jumps > 10


def test_pairs_of_picks_have_the_hand_of_the_blended_pose(picking, laid):
    roads, _, blends = laid
    into = np.flatnonzero((blends.a != blends.c) & (roads.target >= picking.num_states))
    picks = into[np.isin(roads.event[roads.target[into]], (PICK_LEFT, PICK_RIGHT))]
    assert len(picks) > 20
    arrays = picking.arrays
    for e in picks[:: max(1, len(picks) // 12)]:
        p, q = (arrays.target[[edge]] for edge in (blends.a[e], blends.c[e]))
        hand = blended_hands(picking, p, q, blends.weight[[e]])[0, 0]
        assert np.abs(roads.hand[roads.target[e]] - hand).max() < 1e-9
        assert roads.event[roads.target[e]] == arrays.event[p[0]]


def test_blends_can_be_left_again(picking, laid):
    roads, _, _ = laid
    leaves = np.bincount(sources(roads), minlength=len(roads.event))
    reached = np.unique(roads.target[roads.target >= picking.num_states])
    assert (leaves[reached] > 0).mean() > 0.6  # the others are no way on, and bounds know it


def test_distances_of_states_are_those_of_their_poses(picking):
    D = state_distances(picking)
    kind = picking.arrays.kind
    assert np.array_equal(np.isfinite(D), kind[:, None] == kind[None])
    assert np.array_equal(D, D.T)
    assert (np.diag(D) == 0.0).all()
    assert gap_cost_per_distance(picking) > 0.0


def test_flights_between_two_captured_lengths(jumping):
    """Rivers that no captured jump spans exactly are what blended flights are for."""
    roads, _, blends = lay_out_pairs(jumping, prepare_graph(jumping).roads)
    flown = np.flatnonzero((blends.a != blends.c) & (roads.flight[:, 0] > 0.0))
    assert len(flown) >= 8
    arrays = jumping.arrays
    w = blends.weight[flown][:, None]
    mean = w * arrays.flight[blends.a[flown]] + (1.0 - w) * arrays.flight[blends.c[flown]]
    np.testing.assert_allclose(roads.flight[flown], mean)
    captured = np.unique(arrays.flight[arrays.flight[:, 0] > 0.0, 0].round(3))
    lengths = roads.flight[flown, 0]
    assert lengths.min() >= captured.min() - 1e-3 and lengths.max() <= captured.max() + 1e-3
    assert np.abs(lengths[:, None] - captured[None]).min(axis=1).max() > 0.01  # some lie between
    source = sources(roads)
    assert (roads.event[source[flown]] == FLIGHT).all()
    turns = np.abs(arrays.delta[blends.a[flown], 2] - arrays.delta[blends.c[flown], 2])
    assert ((turns + np.pi) % (2.0 * np.pi) - np.pi).max() < np.deg2rad(20.1)


def test_a_flight_and_a_step_make_no_flight(jumping):
    arrays = jumping.arrays
    fly, step = int(np.argmax(arrays.flight[:, 0])), int(np.argmin(arrays.flight[:, 0]))
    assert not blended_flights(jumping, np.array([fly]), np.array([step]), WEIGHTS).any()
    both = blended_flights(jumping, np.array([fly]), np.array([fly]), WEIGHTS)
    np.testing.assert_allclose(both[0], np.tile(arrays.flight[fly], (len(WEIGHTS), 1)))
