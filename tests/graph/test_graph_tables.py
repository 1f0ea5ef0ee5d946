"""Tables of costs to events, and who reaches them, against searches by hand."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.graph import graph_report, register_event
from marey.graph.arrays import FLIGHT, NUM_TORQUES, PICK_RIGHT, GraphArrays
from marey.graph.construction.event_tables import (
    EVENT_KINDS,
    event_table,
    find_reaching_pairs,
    measure_event_reach,
)
from marey.graph.paths import BlendPartners
from marey.graph.reconstruction.track import place_poses


def random_arrays(seed: int, count: int = 50, degree: int = 2) -> GraphArrays:
    """A random graph of ``count`` states that pick, fly or walk."""
    rng = np.random.default_rng(seed)
    source = np.sort(rng.integers(0, count, degree * count))
    edges = len(source)
    event = np.where(rng.random(count) < 0.1, PICK_RIGHT, np.where(rng.random(count) < 0.1, FLIGHT, 0))
    return GraphArrays(
        first=np.searchsorted(source, np.arange(count + 1)), target=rng.integers(0, count, edges),
        cost=rng.uniform(0.1, 3.0, edges), seconds=np.ones(edges), arc=np.ones(edges), delta=np.zeros((edges, 3)),
        path=np.zeros((edges, 9, 2)), way=np.arange(edges), event=event, hand=rng.uniform(0.0, 1.2, (count, 3)),
        root=np.zeros((count, 3)), feet=np.zeros((count, 2, 2)), kind=rng.integers(0, 3, count),
        flight=rng.uniform(0.1, 1.5, (edges, 2)), is_standing=np.zeros(count, dtype=bool), price=np.zeros(edges),
        power=np.ones(edges), torque=np.zeros((edges, NUM_TORQUES)),
    )  # fmt: skip


def costs_by_hand(arrays: GraphArrays, goals: set[int]) -> np.ndarray:
    """Dijkstra from every state, one at a time."""
    found = np.full(len(arrays.event), np.inf)
    for start in range(len(found)):
        queue, seen = [(0.0, start)], set()
        while queue:
            cost, state = heapq.heappop(queue)
            if state in seen:
                continue
            seen.add(state)
            if state in goals:
                found[start] = cost
                break
            for e in range(arrays.first[state], arrays.first[state + 1]):
                heapq.heappush(queue, (cost + arrays.cost[e], int(arrays.target[e])))
    return found


@pytest.mark.parametrize("kind", ["pick", "jump"])
def test_tables_hold_the_least_cost_to_each_cell(kind):
    arrays = random_arrays(0)
    table = event_table(kind, arrays)
    assert len(table.cells) > 1
    for number, cell in enumerate(table.cells):
        own = (np.floor(table.numbers / 0.2).astype(int) == cell).all(axis=1)
        direct = costs_by_hand(arrays, set(table.states[own].tolist()))
        np.testing.assert_allclose(table.costs[:, number], direct, atol=1e-12)


def test_a_bound_counts_every_cell_that_a_range_meets():
    table = event_table("pick", random_arrays(1))
    whole = table.bound((0.0, 0.0), (9.0, 9.0))
    np.testing.assert_array_equal(whole, table.costs.min(axis=1))
    height = float(table.numbers[0, 0])
    near = table.bound((height - 0.01, 0.0), (height + 0.01, 9.0))
    assert (near >= whole).all()
    assert near[table.states[0]] == 0.0
    assert np.isinf(table.bound((5.0, 0.0), (6.0, 9.0))).all()


def test_bounds_never_rise_by_more_than_an_edge_costs():
    arrays = random_arrays(2)
    bound = event_table("pick", arrays).bound((0.2, 0.0), (0.8, 9.0))
    source = np.repeat(np.arange(len(bound)), np.diff(arrays.first))
    there = bound[arrays.target]
    known = np.isfinite(there)
    assert (bound[source][known] <= arrays.cost[known] + there[known] + 1e-12).all()


def test_no_event_has_no_bound():
    empty = event_table("pick", random_arrays(3)._replace(event=np.zeros(50, dtype=np.int64)))
    assert np.isinf(empty.bound((0.0, 0.0), (9.0, 9.0))).all()


def test_other_kinds_of_events_can_be_added():
    def kicks(arrays):
        return np.array([3, 4]), np.array([[0.3, 0.5], [0.7, 0.1]])

    register_event("kick", ("height", "reach"), kicks)
    try:
        table = event_table("kick", random_arrays(4))
        assert table.costs[3].min() == 0.0
        with pytest.raises(InputError, match="already"):
            register_event("kick", ("height", "reach"), kicks)
    finally:
        del EVENT_KINDS["kick"]
    with pytest.raises(UnknownNameError, match="kick"):
        event_table("kick", random_arrays(4))


def test_safonova_a19_the_report_is_that_of_a_search_by_hand():
    arrays = random_arrays(5)
    table = event_table("pick", arrays)
    reach = measure_event_reach(table, arrays)
    events = set(table.states.tolist())
    assert reach.share_to == pytest.approx(np.isfinite(costs_by_hand(arrays, events)).mean())
    onward: set[int] = set(events)
    queue = list(events)
    while queue:
        state = queue.pop()
        for e in range(arrays.first[state], arrays.first[state + 1]):
            if int(arrays.target[e]) not in onward:
                onward.add(int(arrays.target[e]))
                queue.append(int(arrays.target[e]))
    assert reach.share_from == pytest.approx(len(onward) / 50)
    assert sum(cell.events for cell in reach.cells) == len(table.states)


def test_safonova_a19_pairs_reach_what_both_reach_in_step():
    arrays = random_arrays(6, count=20)
    allowed = arrays.kind[:, None] == arrays.kind[None]
    picks = arrays.event == PICK_RIGHT
    goal = allowed & picks[:, None] & picks[None]
    found = find_reaching_pairs(arrays, allowed, goal)
    for a in range(20):
        for c in range(20):
            seen, queue = {(a, c)}, [(a, c)] if allowed[a, c] else []
            hit = False
            while queue:
                x, y = queue.pop()
                hit |= bool(goal[x, y])
                for p in arrays.target[arrays.first[x] : arrays.first[x + 1]].tolist():
                    for q in arrays.target[arrays.first[y] : arrays.first[y + 1]].tolist():
                        if allowed[p, q] and (p, q) not in seen:
                            seen.add((p, q))
                            queue.append((p, q))
            assert found[a, c] == hit


def test_partners_tell_which_pairs_they_hold():
    partners = BlendPartners(np.array([0, 2, 3]), np.array([0, 1, 1]), np.zeros(2, dtype=bool))
    assert partners.matrix().tolist() == [[True, True], [False, True]]
    assert partners.of(0).tolist() == [0, 1]


@pytest.mark.mocap
def test_a_report_says_what_a_graph_can_do(picking):
    report = graph_report(picking)
    (pick,) = [event for event in report.events if event.kind == "pick"]
    assert pick.events == 6
    assert pick.share_to == pick.share_from == 1.0
    assert 0.0 < pick.share_of_pairs <= 1.0
    text = "\n".join(report.lines())
    assert "6 events" in text
    assert f"{picking.num_states} states" in text
    assert report.poses == picking.size.poses


@pytest.mark.mocap
def test_a_report_tells_what_a_graph_shows_and_lacks(picking):
    report = graph_report(picking, pairs=False)
    poses = {pose for edge in range(picking.num_edges) for a, b in picking.stretches(edge) for pose in range(a, b)}
    assert report.shown == len(poses) < report.poses
    assert 0.2 < report.speeds_mps[0] < report.speeds_mps[1] < 2.0
    assert min(report.turns_deg) > 0.0
    clips = {picking.database.clips[picking.database.clip[pose]] for pose in poses}
    lost = set(picking.database.clips) - clips
    told = " ".join(report.warnings)
    assert all(name in told for name in lost)


@pytest.mark.mocap
def test_the_report_measures_how_far_joins_move_the_root_over_its_foot(picking):
    def root(pose: int) -> np.ndarray:
        return place_poses(picking, np.array([pose]), int(picking.database.phase[pose]), np.zeros(3)).roots[0, [0, 2]]

    # The last pose shown of each stretch, and the one that the next stretch goes on from
    gaps = [
        float(np.linalg.norm(root(before[1] - 1) - root(after[0] - 1)))
        for edge in range(picking.num_edges)
        for before, after in pairwise(picking.stretches(edge))
    ]
    report = graph_report(picking, pairs=False)
    assert report.join_m == pytest.approx(float(np.median(gaps)), abs=1e-9)
    assert not any("alike" in warning for warning in report.warnings)
    # A clip whose body is half a metre off its feet
    database = picking.database
    moved = database.roots + 0.5 * (database.clip[:, None] % 2) * [1.0, 0.0, 0.0]
    far = graph_report(replace(picking, database=replace(database, roots=moved)), pairs=False)
    assert far.join_m > 0.09
    assert any("few poses are alike" in warning for warning in far.warnings)
