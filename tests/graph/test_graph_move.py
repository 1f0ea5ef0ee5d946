"""Footsteps give way so that picks stand where they shall: kernels, and problems of Table 4.1 of [Safonova2006]_."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import UnknownNameError
from marey.contacts import slide_mm
from marey.graph import MotionGraph, SearchResult, rebuild_for_sketch, search_graph
from marey.graph.arrays import (
    EMPTY,
    MAX_STEP_ROTATION_RAD,
    MAX_STEP_SHIFT_M,
    PICK_LEFT,
    PICK_RIGHT,
    compose_planar,
    to_frame,
)
from marey.graph.paths import blended_deltas
from marey.graph.search.blended_graph import prepare_graph
from marey.graph.search.footsteps import feasible_fraction, move_steps, solve_step_changes
from marey.world import Event, GroundPose, Sketch, Thing, Wall, World

WALK = np.array([[0.1 * (-1) ** n, 0.55 * n, 0.02 * n] for n in range(7)])
TOLERANCE_M = 0.025


def test_the_last_step_comes_to_its_target_and_the_first_stays():
    target = WALK[-1] + np.array([0.07, -0.05, 0.12])
    moved = move_steps(WALK, target)
    assert np.array_equal(moved[0], WALK[0])
    assert np.abs(moved[-1] - target).max() < 1e-12
    ends = to_frame(moved[1:], moved[:-1]) - to_frame(WALK[1:], WALK[:-1])
    assert np.linalg.norm(ends[:, :2], axis=1).max() < 0.03  # every step gives way by a little, the last as well
    assert np.abs(ends[:, 2]).max() < 0.05


def test_no_other_change_of_steps_is_smaller():
    """Against the pseudo-inverse of the linear map from changes to the end, in the same norm."""
    target = WALK[-1] + np.array([0.03, 0.02, -0.05])
    changes = solve_step_changes(WALK, target)
    length = MAX_STEP_SHIFT_M / MAX_STEP_ROTATION_RAD
    weight = np.linalg.norm(np.diff(WALK[:, :2], axis=0), axis=1)
    blocks = []
    for n in range(1, len(WALK)):
        lever = WALK[-1] - WALK[n]
        block = np.array([[1.0, 0.0, lever[1]], [0.0, 1.0, -lever[0]], [0.0, 0.0, 1.0]])
        blocks.append(block * np.sqrt(weight[n - 1]) @ np.diag([1.0, 1.0, 1.0 / length]))
    A = np.concatenate(blocks, axis=1)
    least = (np.linalg.pinv(A) @ (target - WALK[-1])).reshape(-1, 3)
    least = least * np.sqrt(weight)[:, None] * [1.0, 1.0, 1.0 / length]
    assert np.abs(changes[1:] - least).max() < 1e-12


def test_feet_that_do_not_step_stay():
    places = WALK[[0, 1, 1, 2, 3, 3]]
    moved = move_steps(places, places[-1] + np.array([0.04, 0.02, 0.03]))
    assert np.abs(moved[2] - moved[1]).max() < 1e-12
    assert np.abs(moved[5] - moved[4]).max() < 1e-12


def test_no_step_gives_way_by_more_than_its_bound():
    changes = solve_step_changes(WALK, WALK[-1] + np.array([0.5, 0.0, 0.0]))
    part = feasible_fraction(changes)
    assert 0.0 < part < 1.0
    assert np.linalg.norm(part * changes[:, :2], axis=1).max() <= MAX_STEP_SHIFT_M + 1e-12
    assert np.abs(part * changes[:, 2]).max() <= MAX_STEP_ROTATION_RAD + 1e-12
    assert feasible_fraction(0.01 * changes) == 1.0


@pytest.mark.mocap
def test_states_that_lead_to_one_pick_know_where_it_is(picking: MotionGraph):
    roads = prepare_graph(picking, 1, calm=True).roads
    leads = np.flatnonzero(roads.pick != EMPTY)
    assert len(leads) > 0
    for state in leads:
        at, node = np.zeros(3), int(state)
        while node != roads.pick[state]:
            edge = int(roads.first[node])
            assert roads.first[node + 1] == edge + 1
            at, node = compose_planar(at, roads.delta[edge]), int(roads.target[edge])
        assert np.abs(at - roads.pick_end[state])[:2].max() < 1e-9


def pinned(graph: MotionGraph, count: int, walls: tuple[Wall, ...] = ()) -> list[Sketch]:
    """Objects with places for the root beside them, at heights and distances at which picks of the graph are."""
    arrays, rng, found = graph.arrays, np.random.default_rng(11), list[Sketch]()
    picks = np.flatnonzero(np.isin(arrays.event, (PICK_LEFT, PICK_RIGHT)))
    for _ in range(count):
        a, b = rng.choice(picks, 2)
        w = rng.uniform()
        reach, height = (
            float(w * v[a] + (1.0 - w) * v[b])
            for v in (np.linalg.norm(arrays.hand[:, [0, 2]] - arrays.root[:, :2], axis=1), arrays.hand[:, 1])
        )
        turn, side = rng.uniform(-0.5, 0.5), rng.uniform(-0.6, 0.6)
        x, z = 2.2 * np.sin(side), 2.2 * np.cos(side)
        at = (float(x - reach * np.sin(side + turn)), float(z - reach * np.cos(side + turn)))
        world = World(objects=(Thing("cup", (float(x), height, float(z))),), walls=walls)
        event = Event("pick", at=at, object="cup")
        found.append(Sketch(GroundPose((0.0, 0.0), 0.0), GroundPose((0.0, 5.0)), events=(event,), world=world))
    return found


def solve(graph: MotionGraph, sketch: Sketch, method: str) -> SearchResult:
    return search_graph(
        graph, sketch, k=2, budget_s=10.0, epsilon=(3.0,), pick_tolerance_m=TOLERANCE_M, until=1, method=method,
        on_solution=lambda _: True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def solved(picking: MotionGraph) -> list[tuple[Sketch, SearchResult]]:
    return [(sketch, solve(picking, sketch, "moved")) for sketch in pinned(picking, 4)]


@pytest.mark.mocap
def test_safonova_a21_pinned_picks_are_solved_to_25_mm(solved):
    assert sum(found.is_solved for _, found in solved) >= 3
    for _, found in solved:
        if found.is_solved:
            assert found.errors[0] <= TOLERANCE_M
            assert found.violations == 0


@pytest.mark.mocap
def test_safonova_a22_hand_and_pinned_root_of_the_final_motion(picking, solved):
    for sketch, found in solved:
        if not found.is_solved:
            continue
        motion, away = rebuild_for_sketch(picking, found, sketch)
        assert away[0] <= 1e-3
        pin = np.array(sketch.events[0].at)
        roots = np.linalg.norm(motion.root_positions[:, [0, 2]] - pin, axis=1)
        assert roots.min() <= TOLERANCE_M
        assert slide_mm(motion).max() <= 2.0


@pytest.mark.mocap
def test_steps_of_a_found_way_give_way_by_three_centimetres_at_most(picking, solved):
    for _, found in solved:
        for n, step in enumerate(found.steps):
            own = blended_deltas(picking, np.array([step.edge]), np.array([step.other]), np.array([step.weight]))[0, 0]
            change = to_frame(found.places[n + 1], found.places[n]) - own
            assert np.linalg.norm(change[:2]) <= MAX_STEP_SHIFT_M + 0.1  # cells of the search are as wide as 10 cm
        assert np.array_equal(found.steps[0].place, found.places[0]) if found.is_solved else True


@pytest.mark.mocap
def test_moved_steps_keep_off_walls(picking):
    """A wall beside the way: the root of the final way is nowhere in it."""
    wall = Wall((-1.2, 0.8), (-0.45, 0.8), thickness_m=0.1)
    for sketch in pinned(picking, 2, walls=(wall,)):
        found = solve(picking, sketch, "moved")
        if found.is_solved:
            root = found.motion.root_positions[:, [0, 2]]
            inside = (root[:, 0] < -0.45) & (np.abs(root[:, 1] - 0.8) < 0.05)
            assert not inside.any()


@pytest.mark.mocap
def test_the_plain_search_moves_nothing(picking, solved):
    sketch = solved[0][0]
    with pytest.raises(UnknownNameError):
        solve(picking, sketch, "dragged")
    loose = search_graph(
        picking, sketch, k=1, budget_s=5.0, epsilon=(3.0,), pick_tolerance_m=0.1, until=1, method="img_ara"
    )  # fmt: skip
    if loose.is_solved:
        assert loose.errors == loose.found_errors
        assert loose.errors[0] <= 0.1


@pytest.mark.mocap
@pytest.mark.slow
def test_the_graph_alone_blends_steps_to_pinned_picks(picking, solved):
    """No footstep is moved: every step is a captured one or a blend of two, and the next begins where it ends."""
    found = [solve(picking, sketch, "img_ara") for sketch, _ in solved]
    blended = [way for way in found if way.is_solved and any(step.is_blended for step in way.steps)]
    assert blended
    for way in blended:
        assert way.found_errors[0] <= TOLERANCE_M
        for n, step in enumerate(way.steps):
            own = blended_deltas(picking, np.array([step.edge]), np.array([step.other]), np.array([step.weight]))[0, 0]
            change = to_frame(way.places[n + 1], way.places[n]) - own
            assert 0.0 <= step.weight <= 1.0
            assert np.linalg.norm(change[:2]) < 1e-9 and abs(np.sin(change[2])) < 1e-9
        # The hand of the motion as the graph has it, nothing refined, is at its object
        sketch = solved[next(n for n, one in enumerate(found) if one is way)][0]
        assert rebuild_for_sketch(picking, way, sketch, refine=False)[1][0] <= TOLERANCE_M + 1e-3
