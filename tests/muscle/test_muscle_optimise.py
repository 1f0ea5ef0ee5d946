"""Optimisers of space-time control: their small quadratic models, costs and ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import ConvergenceError, InputError
from marey.muscle import (
    ControlResult,
    OptimalControlProblem,
    StateGoal,
    make_network,
    make_particle,
    simulate_controls,
    solve_control,
)
from marey.muscle.optimal_control.adjoint import (
    BoxQuadraticModel,
    compute_control_cost,
    compute_control_gradient,
    solve_positive,
)
from marey.muscle.optimal_control.problem import make_time_basis
from marey.numerics import SolveStatus, solve_qp

SIZE = 12


def random_model(seed, weight=0.0, box=0.7):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(SIZE + 3, SIZE))
    ends = (np.full(SIZE, -box), np.full(SIZE, box))
    u = rng.uniform(-box, box, SIZE) if box < np.inf else rng.normal(size=SIZE)
    return BoxQuadraticModel(A.T @ A + 0.1 * np.eye(SIZE), 5.0 * rng.normal(size=SIZE), u, ends, weight)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_quadratic_in_a_box_ends_where_an_active_set_method_does(seed):
    model = random_model(seed)
    y, _ = model.solve()
    exact = solve_qp(model.H, model.g, bounds=(model.lower - model.u, model.upper - model.u)).x + model.u
    np.testing.assert_allclose(y, exact, atol=1e-7)


@given(seed=st.integers(0, 10_000), weight=st.sampled_from([0.5, 2.0, 8.0]), box=st.sampled_from([0.4, np.inf]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_cost_of_absolute_values_meets_its_optimality_conditions(seed, weight, box):
    model = random_model(seed, weight, box)
    y, _ = model.solve()
    slope = model.H @ (y - model.u) + model.g
    inside = (np.abs(y) < box) & (y != 0.0)
    np.testing.assert_allclose(slope[inside], -weight * np.sign(y[inside]), atol=1e-6)
    assert np.all(np.abs(slope[y == 0.0]) <= weight + 1e-6)
    at_end = np.abs(y) == box
    assert np.all(slope[at_end] * np.sign(y[at_end]) + weight <= 1e-6)


def test_more_cost_on_absolute_values_leaves_fewer_of_them():
    counts = [int(np.sum(random_model(3, weight, np.inf).solve()[0] != 0.0)) for weight in (0.0, 2.0, 10.0, 1e3)]
    assert counts[0] == SIZE
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def test_a_singular_matrix_is_solved_with_a_share_of_its_diagonal():
    H = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    x = solve_positive(H, np.array([1.0, 2.0, 3.0]))
    assert np.isfinite(x).all()
    np.testing.assert_allclose(H @ x, [1.0, 2.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize(("steps", "knots"), [(40, 1), (40, 2), (40, 3), (40, 9), (9, 9)])
def test_coefficients_over_time_are_weighed_by_parts_of_one(steps, knots):
    basis = make_time_basis(steps, knots).toarray()
    assert basis.shape == (steps, knots)
    assert basis.min() >= 0.0
    np.testing.assert_allclose(basis.sum(axis=1), 1.0, atol=1e-12)
    assert basis[0, 0] == 1.0 and basis[-1, -1] == 1.0


def test_without_knots_every_step_has_its_own_controls():
    np.testing.assert_array_equal(make_time_basis(5, None).toarray(), np.eye(5))


def ball_problem(steps=30, **options):
    ball = make_particle(gravity=(0.0, 0.0))
    goal = StateGoal(steps, [0.5, -0.3], components=[0, 1])
    return OptimalControlProblem(ball, ball.state([[0.0, 0.0]], [[0.2, 0.1]]), steps, [goal], **options)


def test_costs_of_controls_are_effort_rate_and_smoothness():
    problem = ball_problem(3, effort=2.0, rate=4.0, smooth=6.0, rest=1.0)
    controls = np.array([[1.0, 2.0], [1.0, 2.0], [4.0, 2.0]])
    jump = np.sqrt(9.0 + 1e-6) - 1e-3
    assert compute_control_cost(problem, controls) == pytest.approx(1.0 * (3 + 9) + 2.0 * jump + 3.0 * 9.0)


def test_the_gradient_of_the_controls_own_cost_matches_differences():
    rng = np.random.default_rng(0)
    problem = ball_problem(5, effort=0.7, rate=0.4, smooth=0.3, rest=0.2)
    controls = rng.normal(size=problem.shape)
    gradient = compute_control_gradient(problem, controls)
    for i in np.ndindex(problem.shape):
        moved = np.zeros(problem.shape)
        moved[i] = 1e-6
        numeric = (
            compute_control_cost(problem, controls + moved) - compute_control_cost(problem, controls - moved)
        ) / 2e-6
        assert gradient[i] == pytest.approx(numeric, abs=1e-7)


def test_controls_nearest_to_a_start_are_found_among_the_knots():
    problem = ball_problem(40, knots=7)
    wished = problem.controls(np.random.default_rng(1).normal(size=problem.num_unknowns))
    np.testing.assert_allclose(problem.controls(problem.unknowns(wished)), wished, atol=1e-12)


def test_a_start_outside_the_bounds_is_brought_inside():
    problem = ball_problem(10, bounds=(-0.5, 0.5))
    np.testing.assert_array_equal(problem.unknowns(np.full(problem.shape, 3.0)), 0.5)


def test_smoothness_makes_controls_smoother():
    rough, smooth = (solve_control(ball_problem(goal_weight=1e3, smooth=s)).controls for s in (0.0, 100.0))
    assert np.sum(np.diff(smooth, axis=0) ** 2) < 0.3 * np.sum(np.diff(rough, axis=0) ** 2)


def test_controls_at_rest_cost_nothing():
    ball = make_particle(gravity=(0.0, 0.0))
    start = ball.state([[0.0, 0.0]])
    pushed = np.full((20, 2), 0.4)
    free = OptimalControlProblem(ball, start, 20, [StateGoal(20, start)])
    end = simulate_controls(free, pushed)[-1]
    result = solve_control(OptimalControlProblem(ball, start, 20, [StateGoal(20, end)], rest=0.4))
    assert result.cost < 1e-20
    np.testing.assert_allclose(result.controls, 0.4, atol=1e-12)


@pytest.mark.parametrize("method", ["gauss-newton", "lbfgs", "ilqr"])
def test_bounded_controls_end_at_the_same_optimum_whatever_the_method(method):
    problem = ball_problem(goal_weight=200.0, bounds=([-0.6, -0.4], [0.6, 0.4]))
    best = solve_control(problem, tolerance=1e-13)
    found = solve_control(problem, method=method, tolerance=1e-13)
    assert np.any(np.abs(best.controls[:, 0]) == 0.6)
    assert found.cost == pytest.approx(best.cost, rel=1e-6)
    assert np.all(np.abs(found.controls) <= [0.6, 0.4])


@pytest.mark.parametrize("method", ["gauss-newton", "lbfgs", "ilqr"])
def test_the_cost_never_rises_from_iteration_to_iteration(method):
    rng = np.random.default_rng(2)
    net = make_network([1.0, 1.0, 1.0], [(0, 1), (1, 2)], 0.5, stiffness=50.0)
    start = net.state([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    goals = [StateGoal(i, start + 0.2 * rng.normal(size=start.size)) for i in (10, 25)]
    problem = OptimalControlProblem(net, start, 25, goals, goal_weight=50.0, effort=0.1)
    history = solve_control(problem, method=method, max_iterations=30).history
    assert len(history) >= 2
    assert np.all(np.diff(history) <= 1e-9 * history[0])


def test_a_search_that_ran_out_of_iterations_says_so_or_raises():
    problem = ball_problem(goal_weight=1e3)
    result = solve_control(problem, method="lbfgs", max_iterations=1)
    assert result.status is SolveStatus.ITERATION_LIMIT
    assert "more iterations" in result.advice
    with pytest.raises(ConvergenceError, match="iteration limit") as raised:
        solve_control(problem, method="lbfgs", max_iterations=1, on_failure="raise")
    assert isinstance(raised.value.report, ControlResult)


def test_a_search_can_go_on_from_its_own_controls():
    problem = ball_problem(goal_weight=1e3)
    first = solve_control(problem, method="lbfgs", max_iterations=2)
    again = solve_control(problem, method="lbfgs", start=first.controls)
    assert again.cost < first.cost
    assert again.history[0] == pytest.approx(first.cost)


def test_the_same_problem_gives_the_same_bytes():
    one, two = (solve_control(ball_problem(goal_weight=1e3, rate=0.1)).controls.tobytes() for _ in range(2))
    assert one == two


def test_a_result_prints_what_matters():
    text = repr(solve_control(ball_problem(goal_weight=1e3)))
    assert text.startswith("ControlResult(CONVERGED")
    assert "goal error" in text


def test_two_goals_at_one_step_both_count():
    ball = make_particle(gravity=(0.0, 0.0))
    start = ball.state([[0.0, 0.0]])
    both = [StateGoal(20, [1.0], components=[0]), StateGoal(20, [2.0], components=[1])]
    one = [StateGoal(20, [1.0, 2.0], components=[0, 1])]
    found = [solve_control(OptimalControlProblem(ball, start, 20, g, goal_weight=30.0)).controls for g in (both, one)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)


def test_a_weight_of_nought_frees_a_component():
    ball = make_particle(gravity=(0.0, 0.0))
    goal = StateGoal(20, [1.0, 5.0, 0.0, 0.0], weight=[1.0, 0.0, 0.0, 0.0])
    result = solve_control(OptimalControlProblem(ball, ball.state([[0.0, 0.0]]), 20, [goal], goal_weight=1e6))
    assert result.goal_error < 5e-3  # only what weighs is measured
    np.testing.assert_allclose(result.controls[:, 1], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"step": 0, "target": [0.0]}, "step of a goal is 0"),
        ({"step": 1.5, "target": [0.0]}, "whole number"),
        ({"step": "last", "target": [0.0]}, "Give a number"),
        ({"step": 1, "target": [np.nan]}, "target holds nan"),
        ({"step": 1, "target": ["far"]}, "target is not an array"),
        ({"step": 1, "target": [0.0], "weight": -1.0}, "below zero"),
        ({"step": 1, "target": [0.0], "weight": [1.0, 2.0]}, "weight has shape"),
        ({"step": 1, "target": [0.0], "components": [0], "rows": np.ones((1, 4))}, "components and rows"),
    ],
)
def test_bad_goals_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        StateGoal(**given)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.0}, "tolerance is 0"),
        ({"tolerance": np.nan}, "tolerance is nan"),
        ({"goal_tolerance": "near"}, "Give a number"),
        ({"max_iterations": -3}, "max_iterations is -3"),
        ({"on_failure": "shrug"}, "on_failure"),
        ({"start": np.zeros(3)}, "controls has shape"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        solve_control(ball_problem(), **options)


def test_too_many_unknowns_for_gauss_newton_are_refused():
    ball = make_particle(gravity=(0.0, 0.0))
    start = ball.state([[0.0, 0.0]])
    with pytest.raises(InputError, match="knots, or 'lbfgs'"):
        solve_control(OptimalControlProblem(ball, start, 4000, [StateGoal(4000, start)]))
