"""The search in reduced space: attempts in order, free durations, limits of the upper body, warm starts, same bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import marey.spacetime
from marey.numerics import SolveStatus
from marey.spacetime import BehaviourSpace, build_jump_problem, build_walk_problem, optimize, optimize_reduced
from marey.spacetime.full.solve import compute_duration_slope, find_free_phases
from marey.spacetime.problem.definition import Key
from marey.spacetime.reduced import solve as search_module
from marey.spacetime.reduced.assembly import ReducedSettings, build_reduced_problem, choose_settings
from marey.spacetime.reduced.solve import (
    RESTARTS,
    ReducedSearch,
    RestartSettings,
    compute_reduced_lagrangian,
    count_phase_spans,
    rebuild_at_durations,
    refine_collocation,
    restart_schedule,
    solve_with_restarts,
    transfer_vector,
)
from marey.spacetime.reduced.track import (
    compute_limit_excesses,
    find_stray_coordinates,
    sample_contacts,
    sample_reduced_track,
)

FOLDER = Path(marey.spacetime.__file__).parent / "behaviours"


@pytest.fixture(scope="module")
def whole():
    return BehaviourSpace.load(FOLDER / "jump.safetensors")


@pytest.fixture(scope="module")
def jumps(whole):
    return whole.with_energy()


def quick_problem(length=0.5, flight_s=0.4, **changes):
    """A jump on coarse knots, without torques: solved in a second."""
    problem = build_jump_problem(length, flight_s=flight_s)
    return replace(problem, objective=replace(problem.objective, torque=0.0), span_s=0.15, **changes)


@pytest.fixture(scope="module")
def quick(jumps):
    return optimize_reduced(quick_problem(), behaviour=jumps)


def free_flight(low, high, start):
    problem = quick_problem(flight_s=start)
    push, flight, land = problem.phases
    return replace(problem, phases=(push, replace(flight, duration_range_s=(low, high)), land))


# the ladder


def test_the_ladder_has_the_rungs_of_the_notes_in_order():
    words = [attempt.words for attempt in RESTARTS]
    assert words[0] == "the crouched hold"
    assert len(set(words)) == len(words)
    assert [a.flight for a in RESTARTS if a.flight != 1.0] == pytest.approx([1.15, 0.85])
    assert RESTARTS[-1].is_wider
    assert any(a.deeper_m == 0.05 for a in RESTARTS) and any(a.torque_later for a in RESTARTS)


def test_rungs_that_make_no_sense_are_left_out(jumps):
    walk = build_walk_problem((0.7, 0.7))
    grounded = restart_schedule(ReducedSearch(walk, jumps, choose_settings(walk)), None, None)
    assert all(a.flight == 1.0 and not a.is_wider for a in grounded)
    jump = ReducedSearch(build_jump_problem(), jumps, ReducedSettings(), wider=jumps)
    assert restart_schedule(jump, None, None) == RESTARTS
    assert [a.stages for a in restart_schedule(jump, 2, None)] == [2]


def test_a_warm_start_is_the_only_attempt(quick, jumps):
    search = ReducedSearch(quick_problem(), jumps, ReducedSettings())
    assert restart_schedule(search, None, quick.motion) == (RestartSettings("the given motion"),)


def failing(monkeypatch, wins_at):
    """Attempts that fail until one wins."""
    seen = []

    def attempt(_, attempt, __):
        seen.append(attempt)
        is_last = len(seen) == wins_at
        status = SolveStatus.CONVERGED if is_last else SolveStatus.STALLED
        return "built", _Result(status, 0.0 if is_last else 1.0 / len(seen))

    monkeypatch.setattr(search_module, "_solve_restart", attempt)
    return seen


class _Result:
    def __init__(self, status, violation):
        self.status, self.violation = status, violation
        self.is_solved = status is SolveStatus.CONVERGED


@pytest.mark.parametrize("wins_at", [1, 3, 7])
def test_attempts_end_with_the_first_that_converges(jumps, monkeypatch, wins_at):
    seen = failing(monkeypatch, wins_at)
    search = ReducedSearch(build_jump_problem(), jumps, ReducedSettings(), wider=jumps)
    _, result = solve_with_restarts(search, None, None)
    assert tuple(seen) == RESTARTS[:wins_at]
    assert search.tried == [a.words for a in RESTARTS[:wins_at]]
    assert result.is_solved


def test_the_least_violated_attempt_is_kept_if_none_converges(jumps, monkeypatch):
    seen = failing(monkeypatch, wins_at=99)
    _, result = solve_with_restarts(
        ReducedSearch(build_jump_problem(), jumps, ReducedSettings(), wider=jumps), None, None
    )
    assert len(seen) == len(RESTARTS)
    assert result.violation == pytest.approx(1.0 / len(RESTARTS))


@pytest.mark.slow
@pytest.mark.parametrize("attempt", [a for a in RESTARTS if a.flight != 1.0 or a.is_wider], ids=lambda a: a.words)
def test_every_new_rung_solves_what_the_first_one_solves(whole, jumps, quick, attempt):
    search = ReducedSearch(quick_problem(), jumps, ReducedSettings(), wider=whole.truncate(10))
    built, result = search_module._solve_restart(search, attempt, None)
    assert result.is_solved
    assert built.scene.space.dimension == (10 if attempt.is_wider else 7)
    assert built.problem.duration_s == pytest.approx(quick.problem.duration_s)  # what was asked
    if not attempt.is_wider:
        assert result.objective == pytest.approx(quick.objective, rel=0.05)
        assert f"{attempt.flight * 0.4:.2f} s" in search.remarks[0]


def test_an_impossible_jump_tells_its_worst_rows(jumps):
    problem = quick_problem(keys=(Key("com", "flight", 0.5, target=(None, 4.0, None)),), max_iterations=4)
    result = optimize_reduced(problem, behaviour=jumps, stages=1)
    assert not result.is_solved
    assert result.worst and result.advice
    assert result.sentence.startswith("jump: ")
    assert np.isfinite(result.motion.root_positions).all()


# durations


@pytest.mark.slow
def test_the_slope_by_a_duration_is_the_difference_of_two_solutions(jumps):
    problem = free_flight(0.3, 0.6, 0.4)
    free = find_free_phases(problem)
    search = ReducedSearch(problem, jumps, ReducedSettings())

    def solved(duration):
        other = rebuild_at_durations(built, free, np.array([duration]))
        return search.solve(other, transfer_vector(built, first.x, other), 0.1, 1e-6)

    built = build_reduced_problem(problem, jumps)
    first = search.solve(built, search_module._solve_restart(search, RESTARTS[0], None)[1].x, 0.1, 1e-6)
    slope = compute_duration_slope(
        np.array([0.4]), lambda durations: compute_reduced_lagrangian(built, first, free, durations)
    )
    h = 2e-3
    numeric = (solved(0.4 + h).objective - solved(0.4 - h).objective) / (2 * h)
    assert slope[0] == pytest.approx(numeric, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [pytest.param(0.37, 0.45, marks=pytest.mark.slow), (0.4, 0.45)])
def test_a_free_duration_stays_in_its_range_and_pays(jumps, quick, low, high):
    result = optimize_reduced(free_flight(low, high, 0.4), behaviour=jumps)
    assert result.is_solved and result.check.is_valid
    flight = result.problem.phases[1].duration_s
    assert low - 1e-12 <= flight <= high + 1e-12
    assert result.objective <= quick.objective * (1.0 + 1e-6)
    assert result.motion.num_frames == int(np.floor(result.problem.duration_s * 60.0 + 1e-9)) + 1


def test_a_range_without_room_is_no_free_duration():
    assert find_free_phases(free_flight(0.4, 0.4, 0.4)) == []
    assert find_free_phases(free_flight(0.3, 0.5, 0.4)) == [1]


def test_stretched_problems_keep_their_unknowns_and_the_places_of_added_nodes(jumps):
    problem = free_flight(0.3, 0.6, 0.4)
    built = build_reduced_problem(problem, jumps, ReducedSettings(looks=((1, 1.1), (2, 1.65))))
    for duration in (0.4 * (1 - 1e-5), 0.4 * (1 + 1e-5), 0.33, 0.55):
        other = rebuild_at_durations(built, [1], np.array([duration]))
        assert count_phase_spans(other, [0, 1, 2]) == pytest.approx(count_phase_spans(built, [0, 1, 2]))
        assert len(other.scene.variables.values) == len(built.scene.variables.values)
        (_, first), (_, second) = other.settings.looks
        assert (first - 0.9) / duration == pytest.approx(0.5)
        assert second - 0.9 - duration == pytest.approx(0.35)
    near = rebuild_at_durations(built, [1], np.array([0.4 * (1 + 1e-5)]))
    assert near.programme.row_lower.size == built.programme.row_lower.size


# limits of the upper body


@pytest.mark.slow
def test_the_upper_body_keeps_its_limits_after_the_second_look(whole):
    narrow = whole.with_energy()
    arm = narrow.tree.index("LeftArm_rx")
    first = optimize_reduced(quick_problem(), behaviour=narrow)
    reached = narrow.tree.from_motion(first.motion)[:, arm]
    upper = narrow.upper.copy()
    upper[arm] = max(reached.max() - 0.3, narrow.pose("start").q[arm] + 0.1, narrow.pose("end").q[arm] + 0.1)
    tight = replace(narrow, upper=upper)
    search = ReducedSearch(quick_problem(), tight, ReducedSettings())
    built, result = solve_with_restarts(search, None, None)
    values = built.scene.variables.unpack(result.x)
    seen, _, _ = sample_contacts(built, values)
    stray = find_stray_coordinates(built, seen, 0.05)
    assert arm in stray
    again, better = refine_collocation(search, built, result)
    assert better.is_solved and arm in again.settings.watched
    track, _ = sample_reduced_track(
        again, again.scene.variables.unpack(better.x), [(1, t) for t in np.linspace(0.9, 1.3, 30)]
    )
    assert compute_limit_excesses(again.scene, track)[:, arm].max() < 0.05


def test_rows_of_watched_coordinates_are_linear_and_named(jumps):
    arm = jumps.tree.index("LeftArm_rx")
    plain, watching = (build_reduced_problem(quick_problem(), jumps, ReducedSettings(watched=w)) for w in ((), (arm,)))
    extra = watching.programme.row_lower.size - plain.programme.row_lower.size
    assert extra == watching.scene.nodes.count
    names = [watching.programme.row_name(i) for i in np.flatnonzero(watching.programme.is_linear)]
    assert sum("LeftArm_rx" in name for name in names) == extra


# again and again


def test_the_same_problem_gives_the_same_bytes(quick, jumps):
    again = optimize_reduced(quick_problem(), behaviour=jumps)
    assert again.iterations == quick.iterations
    assert again.objective == quick.objective
    assert np.array_equal(again.motion.root_positions, quick.motion.root_positions)
    assert np.array_equal(again.motion.rotations.wxyz, quick.motion.rotations.wxyz)


@pytest.mark.slow
def test_a_warm_start_of_a_neighbour_reaches_the_same_optimum(quick, jumps):
    problem = quick_problem(length=0.6)
    cold = optimize_reduced(problem, behaviour=jumps)
    warm = optimize_reduced(problem, behaviour=jumps, warm_start=quick.motion)
    assert warm.is_solved
    assert warm.objective <= cold.objective * 1.02


@pytest.mark.slow
def test_two_stages_reach_the_same_optimum(quick, jumps):
    both = optimize_reduced(quick_problem(), behaviour=jumps, stages=2)
    assert both.is_solved
    assert both.objective == pytest.approx(quick.objective, rel=0.02)


def test_plain_data_of_a_result_names_its_terms(quick):
    data = quick.to_json()
    assert set(data["terms"]) == {"accel", "torque", "prior", "border"}
    assert sum(data["terms"].values()) == pytest.approx(quick.objective, rel=1e-9)
    assert data["counts"]["amplitudes"] == 7
    assert data["check"]["limit_excess_rad"] < 0.1


@pytest.mark.slow
def test_more_weight_on_the_prior_stays_nearer_to_the_clips(whole, jumps):
    apart = []
    for weight in (0.1, 10.0):
        problem = quick_problem()
        problem = replace(problem, objective=replace(problem.objective, prior=weight))
        motion = optimize_reduced(problem, behaviour=jumps).motion
        apart.append(float(np.mean(jumps.distance(jumps.tree.from_motion(motion)))))
    assert apart[1] < apart[0]


@pytest.mark.slow
def test_a_higher_jump_is_a_longer_flight(jumps):
    rises = []
    for flight_s in (0.35, 0.5):
        motion = optimize_reduced(quick_problem(flight_s=flight_s), behaviour=jumps).motion
        heights = motion.joint_positions()[:, 0, 1]
        rises.append(float(heights.max() - heights[0]))
    assert rises[1] > rises[0] + 0.05


@pytest.mark.slow
def test_the_entrance_takes_durations_in_reduced_space_too():
    problem = free_flight(0.38, 0.42, 0.4)
    result = optimize(problem)
    assert result.is_solved
    assert 0.38 <= result.problem.phases[1].duration_s <= 0.42
