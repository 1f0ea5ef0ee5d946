"""The compact graph against the full one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.graph_parts import transitions_per_s

from marey.graph import GraphSettings, build_graph
from marey.graph.algorithms import cluster_complete_linkage, select_cheapest, shortest_costs_to
from marey.graph.arrays import compose_planar, to_frame
from marey.graph.construction.build import assemble_graph, merge_states
from marey.graph.construction.layout import keep_planted_feet, sum_pairwise
from marey.graph.database.compact import (
    compute_pose_costs,
    compute_transition_costs,
    count_ways,
    cull_transitions,
    median_step_cost,
    path_pose_ranges,
)
from marey.graph.database.pose_metric import PoseMetric
from marey.io import load
from marey.skeleton import foot_points
from marey.world import GroundPose, Path, Sketch


def full_graph(database, transitions, settings):
    """Source, target and cost of every step from pose to pose."""
    cost = compute_pose_costs(database, settings)
    own = np.flatnonzero(database.clip[1:] == database.clip[:-1])
    source = np.concatenate([own, transitions.source])
    target = np.concatenate([own + 1, transitions.target])
    extra = np.concatenate([np.zeros(len(own)), compute_transition_costs(database, transitions, settings)])
    return source, target, cost[source] + extra


@pytest.mark.mocap
def test_safonova_a14_culling_loses_nothing(picking):
    """A hundred problems, each with phases that must not be entered: costs of the full graph to 1e-6."""
    database, settings = picking.database, picking.settings
    ways = cull_transitions(database, picking.transitions, settings)
    source, target, cost = full_graph(database, picking.transitions, settings)
    table = database.phases
    after = table.after[ways.through]
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(10):
        forbidden = rng.random(len(table.start)) < 0.1
        starts = rng.choice(np.flatnonzero(~forbidden), 10, replace=False)
        goal = int(rng.choice(np.flatnonzero(~forbidden)))
        enters = forbidden[database.phase[target]] & (table.start[database.phase[target]] == target)
        full = shortest_costs_to(
            table.start[[goal]], source[~enters], target[~enters], cost[~enters], database.num_poses
        )
        free = ~forbidden[after]
        compact = shortest_costs_to(np.array([goal]), ways.source[free], after[free], ways.cost[free], len(table.start))
        a, b = full[table.start[starts]], compact[starts]
        assert (np.isfinite(a) == np.isfinite(b)).all()
        np.testing.assert_allclose(b[np.isfinite(a)], a[np.isfinite(a)], rtol=1e-6)
        solved += int(np.isfinite(a).sum())
    assert solved > 50


@pytest.mark.mocap
def test_states_begin_with_the_cheapest_of_their_phases(picking):
    """Ways of groups, with prices to begin with, against the ways of all phases; all of these are counted."""
    database, settings, table = picking.database, picking.settings, picking.database.phases
    plain = cull_transitions(database, picking.transitions, settings)
    assert count_ways(database, picking.transitions) == len(plain.source)
    rng = np.random.default_rng(3)
    group = np.unique(table.kind * 3 + rng.integers(0, 3, len(table.kind)), return_inverse=True)[1]
    entry = rng.uniform(0.0, 2.0, len(group))
    ways = cull_transitions(database, picking.transitions, settings, group, entry)
    # Of each group and phase reached, the cheapest
    keys = [group[plain.source], plain.through]
    best = select_cheapest(keys, plain.cost + entry[plain.source])
    order = np.lexsort((ways.through, group[ways.source]))
    assert (ways.through[order] == plain.through[best]).all()
    assert (ways.source[order] == plain.source[best]).all()
    assert (ways.cost[order] == plain.cost[best]).all()
    for mine, other in zip(order[::50].tolist(), best[::50].tolist(), strict=True):
        assert ways.jumps(mine).tolist() == plain.jumps(other).tolist()


@pytest.mark.mocap
def test_ways_cost_what_their_poses_and_transitions_cost(picking):
    database, settings, ways = picking.database, picking.settings, picking.ways
    cost = compute_pose_costs(database, settings)
    price = compute_transition_costs(database, picking.transitions, settings)
    chosen = np.random.default_rng(1).choice(len(ways.source), 200, replace=False)
    first, start, stop = path_pose_ranges(database, picking.transitions, ways, chosen)
    for n, way in enumerate(chosen):
        own = range(first[n], first[n + 1])
        shown = sum(cost[start[k] : stop[k]].sum() for k in own)
        assert len(own) == len(ways.jumps(int(way))) + 1
        assert ways.cost[way] == pytest.approx(shown + price[ways.jumps(int(way))].sum(), rel=1e-9)
        assert start[own[0]] == database.phases.start[ways.source[way]]
        assert stop[own[-1]] == database.phases.stop[ways.through[way]]


@pytest.mark.mocap
def test_one_jump_is_never_cheaper_and_takes_one_at_most(picking):
    database, settings = picking.database, picking.settings
    all_ways = cull_transitions(database, picking.transitions, settings)
    one = cull_transitions(database, picking.transitions, replace(settings, culling="one-jump"))
    assert np.diff(one.jump_first).max() == 1
    count = len(database.phases.start)
    best = dict(zip((all_ways.source * count + all_ways.through).tolist(), all_ways.cost.tolist(), strict=True))
    keys = (one.source * count + one.through).tolist()
    assert all(cost >= best[key] - 1e-9 for key, cost in zip(keys, one.cost.tolist(), strict=True))


@pytest.mark.mocap
def test_costs_are_physical(picking):
    """A second of walking costs about one: (100 N m)² s; transitions that can be seen cost half a step."""
    database, settings = picking.database, picking.settings
    single = np.array([len(planted) == 1 for planted in database.classes])[database.phases.kind[database.phase]]
    assert 0.3 < np.median(compute_pose_costs(database, settings)[single]) * database.rate_hz < 4.0
    price = compute_transition_costs(database, picking.transitions, settings)
    # A stand may be cut short for what its poses are apart: a tenth of the threshold at most
    source, target = picking.transitions.source, picking.transitions.target
    is_cut = database.has_stand[database.phase[source]] & (database.phase[source] == database.phase[target])
    step = median_step_cost(database, settings)
    assert price[~is_cut].min() >= settings.transition_price * step - 1e-12
    cheap = price < settings.transition_price * step - 1e-12
    assert cheap.sum() < 0.01 * len(price)
    assert (target[cheap] > source[cheap]).all()
    assert picking.transitions.distance[cheap].max() < 0.1 * picking.transitions.threshold


@pytest.mark.mocap
def test_arrays_of_the_graph_fit_together(picking):
    arrays = picking.arrays
    np.testing.assert_allclose(arrays.cost, arrays.seconds * arrays.power + arrays.price, rtol=1e-9)
    source = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    costs = shortest_costs_to(np.array([0]), source, arrays.target, arrays.cost, picking.num_states)
    assert np.isfinite(costs).all()
    c, s = np.cos(arrays.delta[:, 2]), np.sin(arrays.delta[:, 2])
    root = arrays.root[arrays.target]
    end = arrays.delta[:, :2] + np.stack([c * root[:, 0] + s * root[:, 1], -s * root[:, 0] + c * root[:, 1]], axis=1)
    np.testing.assert_allclose(arrays.path[:, -1], end, atol=1e-12)
    chords = np.linalg.norm(arrays.path[:, -1] - arrays.path[:, 0], axis=1)
    assert (arrays.arc >= chords - 1e-9).all()
    assert np.isfinite(transitions_per_s(picking, [0, 1]))


@pytest.mark.mocap
def test_feet_of_states_are_the_middles_of_their_soles(picking):
    database, arrays = picking.database, picking.arrays
    phases = np.array([own[0] for own in picking.members])
    balls = to_frame(database.phases.feet[phases], database.phases.anchor[phases][:, None])
    away = balls[..., :2] - arrays.feet
    known = np.isfinite(away[..., 0])
    assert (known == np.isfinite(arrays.feet[..., 0])).all()
    np.testing.assert_allclose(np.arctan2(away[known][:, 0], away[known][:, 1]), balls[known][:, 2], atol=1e-9)
    # Heel and tip of the toes, as the poses have them in the frame of the anchor, are equally far from there
    points = foot_points(database.body.skeleton)
    apart = []
    for n, phase in enumerate(phases):
        start, anchor = int(database.phases.start[phase]), database.phases.anchor[phase]
        soles = points.positions(*database.motion(start, start + 1).joint_frames())[0]
        for f, side in enumerate(("left", "right")):
            if known[n, f]:
                ends = [soles[points.index(f"{side}_{part}")] for part in ("heel", "toe_end")]
                local = to_frame(np.array([[p[0], p[2], 0.0] for p in ends]), anchor)[:, :2]
                apart.append(np.linalg.norm(local - arrays.feet[n, f], axis=1))
    assert np.abs(np.median(np.diff(apart, axis=1))) < 0.01
    assert 0.09 < np.median(apart) < 0.14


def test_complete_linkage_does_not_chain():
    places = np.array([0.0, 1.0, 2.0, 3.0])
    labels = cluster_complete_linkage(np.abs(places[:, None] - places[None]), 1.5)
    assert labels[0] == labels[1]
    assert labels[0] != labels[3]


def test_the_cheapest_of_equal_rows_stays():
    kept = select_cheapest([np.array([0, 0, 1, 1]), np.array([2, 2, 2, 3])], np.array([5.0, 4.0, 1.0, 1.0]))
    assert sorted(kept.tolist()) == [1, 2, 3]


@pytest.mark.mocap
def test_groups_are_of_one_class_and_nearer_than_the_limit(picking):
    database, settings = picking.database, picking.settings
    metric = PoseMetric(database, settings)
    threshold = picking.transitions.threshold
    group, gap = merge_states(database, settings, metric, threshold)
    for label in np.unique(group):
        members = np.flatnonzero(group == label)
        assert len(set(database.phases.kind[members].tolist())) == 1
        assert gap[members].max() <= settings.merge * threshold + 1e-9
        assert gap[members].min() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.mocap
def test_safonova_a15_merging_loses_little(picking):
    """Costs between the same states, merged and thinned or not: median within 5 %, solvable within 2 points."""
    database = picking.database
    plain = cull_transitions(database, picking.transitions, picking.settings)
    table, arrays = database.phases, picking.arrays
    after = table.after[plain.through]
    state = np.full(len(table.start), -1)
    for number, members in enumerate(picking.members):
        state[members] = number
    source = np.repeat(np.arange(picking.num_states), np.diff(arrays.first))
    rng = np.random.default_rng(2)
    inside = np.flatnonzero(state >= 0)
    ratios, lost, solvable = [], 0, 0
    for goal in rng.choice(inside, 25, replace=False):
        full = shortest_costs_to(np.array([goal]), plain.source, after, plain.cost, len(table.start))
        merged = shortest_costs_to(state[[goal]], source, arrays.target, arrays.cost, picking.num_states)
        starts = rng.choice(inside, 40)
        a, b = full[starts], merged[state[starts]]
        solvable += int(np.isfinite(a).sum())
        lost += int((np.isfinite(a) & ~np.isfinite(b)).sum())
        both = np.isfinite(a) & np.isfinite(b) & (a > 0.0)
        ratios += (b[both] / a[both]).tolist()
    assert np.median(ratios) <= 1.05
    assert lost <= 0.02 * solvable


def straight_to(goal: tuple[float, float]) -> Sketch:
    """From a stand to a stand, in a corridor of a metre."""
    return Sketch(GroundPose((0.0, 0.0), 0.0), GroundPose(goal), path=Path(np.array([(0.0, 0.0), goal])))


@pytest.mark.mocap
@pytest.mark.parametrize("ways", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_safonova_a15_merging_loses_little_on_the_ground(picking, ways):
    """Best ways through corridors, with states merged or not: median cost within 5 %, and none is lost.

    They cost no less than a tenth below either: merging would else make transitions free.
    """
    plain = assemble_graph(picking.database, replace(picking.settings, merge=0.0))
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(ways):
        way, turn = rng.uniform(1.5, 3.5), rng.uniform(-0.6, 0.6)
        sketch = straight_to((float(way * np.sin(turn)), float(way * np.cos(turn))))
        merged, full = (
            graph.search(sketch, k=1, few=False, epsilon=(3.0, 1.5, 1.0), budget_s=60.0) for graph in (picking, plain)
        )
        assert merged.status == full.status == "OPTIMAL"
        ratios.append(merged.cost / full.cost)
    assert 0.9 < np.median(ratios) <= 1.05


@pytest.mark.mocap
@pytest.mark.slow
def test_safonova_a13_compression_of_walks_and_jumps(mocap):
    """Subjects 16 and 118, mirrored: 12 and 20 times fewer states, 4 and 16 times fewer transitions."""
    folder = mocap / "cmu-bvh"
    clips = [load(path) for name in ("16", "118") for path in sorted(folder.glob(f"{name}_*.bvh"))]
    graph = build_graph(clips, mirror=True)
    size = graph.size
    assert size.poses >= 10_000
    assert size.poses >= 12 * size.phases
    assert size.poses >= 20 * graph.num_states
    assert size.transitions >= 4 * size.ways
    assert size.transitions >= 16 * graph.num_edges
    assert (graph.arrays.flight[:, 0] > 0.3).sum() >= 20


@pytest.mark.mocap
@pytest.mark.slow
def test_safonova_a13_compression_of_walks_and_picks(mocap):
    """All 29 clips of subject 69, 15 240 poses, and all of its 15 picks in the graph."""
    graph = build_graph([load(path) for path in sorted((mocap / "cmu-bvh").glob("69_*.bvh"))])
    size = graph.size
    assert size.poses >= 10_000
    assert size.poses >= 20 * graph.num_states
    assert size.transitions >= 16 * graph.num_edges
    assert int(((graph.arrays.event == 1) | (graph.arrays.event == 2)).sum()) == 15


@pytest.mark.mocap
def test_without_merging_every_phase_is_a_state(picking):
    settings = GraphSettings(merge=0.0, step_bin_m=0.0)
    graph = assemble_graph(picking.database, settings)
    assert all(len(members) == 1 for members in graph.members)
    assert graph.num_states > picking.num_states
    assert graph.num_edges > picking.num_edges


def test_feet_that_stand_at_both_ends_of_an_edge_stay_and_no_cycle_without_a_step_leads_anywhere():
    rng = np.random.default_rng(3)
    feet = rng.normal(size=(9, 2, 3)) * (0.2, 0.2, 0.3)
    # States 6 and 7 stand on the left foot, state 8 on the right: there the anchor is
    feet[:6, 1] = feet[6:8, 0] = feet[8, 1] = 0.0
    feet[6:8, 1] = feet[8, 0] = np.nan
    source, target = (rows.ravel() for rows in np.meshgrid(np.arange(9), np.arange(9)))
    own = rng.normal(size=(81, 3)) * 0.1
    delta = keep_planted_feet(own, feet, source, target)
    before, after = feet[source], compose_planar(delta[:, None], feet[target])
    both = np.isfinite(before + after).all(axis=(1, 2))
    single = np.isfinite(before + after).any(axis=(1, 2)) & ~both
    moved = np.nan_to_num(after - before)
    np.testing.assert_allclose(moved[single], 0.0, atol=1e-12)
    np.testing.assert_allclose(moved[both][..., :2].mean(axis=1), 0.0, atol=1e-12)
    neither = ~np.isfinite(before + after).any(axis=(1, 2))
    np.testing.assert_array_equal(delta[neither], own[neither])
    # Round a cycle of stands, with feet as far apart as they like, one comes back to where one was
    place = np.zeros(3)
    for s, t in ((0, 3), (3, 1), (1, 5), (5, 0)):
        place = compose_planar(place, delta[(source == s) & (target == t)][0])
    np.testing.assert_allclose(place, 0.0, atol=1e-12)


@pytest.mark.mocap
def test_no_edge_moves_a_planted_foot_farther_than_a_step(picking):
    arrays, table = picking.arrays, picking.database.phases
    middle = np.array([own[0] for own in picking.members])
    feet = to_frame(table.feet[middle], table.anchor[middle][:, None])
    moved = compose_planar(arrays.delta[:, None], feet[arrays.target]) - feet[arrays.source]
    assert np.nan_to_num(np.linalg.norm(moved[..., :2], axis=-1)).max() <= picking.settings.max_foot_jump_m


def test_sums_of_edges_are_those_of_numpy_to_the_last_bit():
    rng = np.random.default_rng(0)
    for count in (0, 1, 7, 8, 9, 15, 127, 128, 129, 136, 255, 257, 1000, 4321):
        values = rng.lognormal(sigma=4.0, size=count)
        assert sum_pairwise(values) == values.sum()
