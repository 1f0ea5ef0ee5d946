"""Blends of two edges against blends of the motions themselves."""

from __future__ import annotations

import numpy as np
import pytest

from marey.blending import BlendSettings, blend_sources
from marey.dynamics import solve_inverse_dynamics
from marey.graph.paths import (
    anchored_source,
    blended_costs,
    blended_deltas,
    blended_hands,
    blended_paths,
    blended_seconds,
    find_partners,
    planted_feet,
    states_near_events,
)
from marey.lie import SO3
from marey.motion import Motion

pytestmark = pytest.mark.mocap
WEIGHTS = np.linspace(0.0, 1.0, 10)


@pytest.fixture(scope="module")
def pairs(picking):
    """Edges of partner states that end in partner states."""
    arrays, partners = picking.arrays, find_partners(picking)
    source = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, picking.num_edges, (2, 40_000))
    allowed = partners.matrix()
    good = allowed[source[a], source[c]] & allowed[arrays.target[a], arrays.target[c]] & (a != c)
    assert good.sum() > 50
    return a[good][:400], c[good][:400]


def test_partners_are_of_one_class_and_of_one_another(picking):
    partners = find_partners(picking)
    kind = picking.arrays.kind
    for state in range(picking.num_states):
        own = partners.of(state)
        assert state in own
        assert (kind[own] == kind[state]).all()
        assert all(state in partners.of(int(other)) for other in own)
    picks = np.flatnonzero((picking.arrays.event == 1) | (picking.arrays.event == 2))
    for state in picks:
        assert set(np.flatnonzero(kind == kind[state]).tolist()) == set(partners.of(int(state)).tolist())
    assert states_near_events(picking.arrays, 0).sum() == len(picks)


def test_safonova_a18_blended_edges_are_finite_and_keep_the_rule_of_time(picking, pairs):
    a, c = pairs
    arrays = picking.arrays
    assert (arrays.kind[arrays.target[a]] == arrays.kind[arrays.target[c]]).all()
    costs, seconds = blended_costs(picking, a, c, WEIGHTS), blended_seconds(picking, a, c, WEIGHTS)
    assert np.isfinite(costs).all()
    assert (costs > 0.0).all()
    squares = WEIGHTS * arrays.seconds[a][:, None] ** 2 + (1.0 - WEIGHTS) * arrays.seconds[c][:, None] ** 2
    np.testing.assert_allclose(seconds**2, squares, rtol=1e-12)


def test_safonova_a17_whole_weights_are_the_edges_themselves(picking, pairs):
    a, c = pairs
    arrays, ends = picking.arrays, np.array([0.0, 1.0])
    np.testing.assert_allclose(blended_costs(picking, a, c, ends), np.stack([arrays.cost[c], arrays.cost[a]], 1))
    np.testing.assert_allclose(blended_seconds(picking, a, c, ends)[:, 1], arrays.seconds[a])
    np.testing.assert_allclose(blended_deltas(picking, a, c, ends)[:, 1], arrays.delta[a])
    np.testing.assert_allclose(blended_paths(picking, a, c, ends)[:, 0], arrays.path[c])


def test_turns_are_blended_the_short_way(picking, pairs):
    a, c = pairs
    middle = blended_deltas(picking, a, c, np.array([0.5]))[:, 0, 2]
    first, second = picking.arrays.delta[a, 2], picking.arrays.delta[c, 2]
    off = np.abs((middle - first + np.pi) % (2.0 * np.pi) - np.pi)
    apart = np.abs((second - first + np.pi) % (2.0 * np.pi) - np.pi)
    np.testing.assert_allclose(off, 0.5 * apart, atol=1e-9)


def test_equal_edges_blend_into_themselves(picking):
    own = np.arange(20)
    costs = blended_costs(picking, own, own, WEIGHTS)
    np.testing.assert_allclose(costs, np.tile(picking.arrays.cost[:20, None], (1, 10)), rtol=1e-9)


def test_hands_of_blended_picks_are_those_of_the_blended_pose(picking):
    arrays = picking.arrays
    picks = np.flatnonzero((arrays.event == 1) | (arrays.event == 2))
    a, c = (g.ravel() for g in np.meshgrid(picks, picks))
    same = arrays.kind[a] == arrays.kind[c]
    a, c = a[same], c[same]
    hands = blended_hands(picking, a, c, np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(hands[:, 2], arrays.hand[a], atol=1e-6)
    np.testing.assert_allclose(hands[:, 0], arrays.hand[c], atol=1e-6)
    straight = 0.5 * (arrays.hand[a] + arrays.hand[c])
    assert np.linalg.norm(hands[:, 1] - straight, axis=1).max() < 0.15
    mirrored = blended_hands(picking, c, a, np.array([0.5]))
    np.testing.assert_allclose(mirrored[:, 0], hands[:, 1], atol=1e-6)


def true_effort(picking, poses, weight, seconds, planted):
    """Mean squared torque of a true blend of two stretches."""
    database = picking.database
    sources = [anchored_source(database, p, planted) for p in poses]
    shares = np.linspace(0.0, 1.0, 60)
    weights = np.array([weight, 1.0 - weight])
    made = blend_sources(sources, weights, shares, planted_feet(planted), rule=BlendSettings(), body=database.body)
    motion = Motion(database.body.skeleton, 59.0 / seconds, made.roots, SO3(made.wxyz))
    torques = solve_inverse_dynamics(database.body, motion, cutoff_hz=10.0).torques[10:-10]
    return float((torques**2).sum(axis=(1, 2)).mean())


def test_costs_of_blends_are_near_those_of_true_blends(picking):
    """Effort half way between two steps, by the quadratic and by inverse dynamics of the blend itself."""
    database, arrays = picking.database, picking.arrays
    source = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    single = [len(database.classes[arrays.kind[s]]) == 1 for s in source]
    plain = np.flatnonzero(np.array(single) & (np.diff(picking.ways.jump_first) == 0) & (arrays.seconds >= 0.3))
    partners, rng, off = find_partners(picking), np.random.default_rng(1), []
    for _ in range(400):
        a, c = rng.choice(plain, 2, replace=False)
        if len(off) == 25 or source[c] not in partners.of(int(source[a])):
            continue
        planted = database.classes[arrays.kind[source[a]]]
        poses = [np.arange(*picking.stretches(int(e))[0]) for e in (a, c)]
        seconds = blended_seconds(picking, np.array([a]), np.array([c]), np.array([1.0, 0.5, 0.0]))[0]
        n1, true, n2 = (
            true_effort(picking, poses, w, s, planted) for w, s in zip((1.0, 0.5, 0.0), seconds, strict=True)
        )
        likeness = float(arrays.torque[a] @ arrays.torque[c])
        told = 0.25 * n1 + 0.5 * np.sqrt(n1 * n2) * likeness + 0.25 * n2
        off.append(told / true - 1.0)
    assert len(off) >= 10
    assert abs(np.median(off)) < 0.15
    assert np.quantile(np.abs(off), 0.9) < 0.5
