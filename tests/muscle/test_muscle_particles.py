"""Particles and springs: laws of the step, derivatives, and the problems of the thesis solved on them."""

from __future__ import annotations

from itertools import pairwise
from time import thread_time

import numpy as np
import pytest
from oracles.differences import finite_difference_jacobian

from marey.base import InputError
from marey.muscle import (
    OptimalControlProblem,
    StateGoal,
    make_network,
    make_particle,
    make_spring_pair,
    simulate_controls,
    solve_control,
)
from marey.numerics import SolveStatus

STEPS = 60
PATH_KEYS = tuple(range(4, STEPS + 1, 4))


def shot_pair(rng: np.random.Generator):
    """The experiment of §28: two particles shot apart, a true motion, and the state at every fourth frame."""
    pair = make_spring_pair()
    start = pair.state([[0.0, 0.0], [1.1, 0.0]], [[1.0, 0.5], [0.5, 1.2]])
    true = 0.5 * rng.normal(size=(STEPS, 4))
    free = OptimalControlProblem(pair, start, STEPS, [StateGoal(STEPS, start)])
    return pair, start, true, simulate_controls(free, true)


def keys_of(states):
    return [StateGoal(i, states[i]) for i in PATH_KEYS]


def test_a_free_particle_falls_as_the_sum_of_its_steps_says():
    ball = make_particle(2.0, dt=0.01)
    problem = OptimalControlProblem(ball, ball.state([[0.0, 0.0]]), 100, [StateGoal(100, np.zeros(4))])
    x, v = ball.split(simulate_controls(problem, np.zeros((100, 2))))
    np.testing.assert_allclose(v[-1, 0], [0.0, -9.82 * 1.0], rtol=1e-12)
    np.testing.assert_allclose(x[-1, 0, 1], -9.82 * 0.01**2 * 100 * 101 / 2, rtol=1e-12)


def test_springs_neither_push_nor_turn_the_whole():
    rng = np.random.default_rng(1)
    net = make_network(
        rng.uniform(1, 2, 5), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)], 0.7, gravity=(0.0, 0.0, 0.0)
    )
    q = net.state(rng.normal(size=(5, 3)), rng.normal(size=(5, 3)))
    x, v = net.split(q)
    _, after = net.split(net.step(q, np.zeros(15), 0))
    impulse = net.masses[:, None] * (after - v)
    np.testing.assert_allclose(impulse.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cross(x, impulse).sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_derivatives_of_a_step_match_differences(dim):
    rng = np.random.default_rng(2)
    net = make_network(
        rng.uniform(1, 3, 4), [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], 0.8,
        stiffness=[20, 30, 40, 50, 60], damping=2.0, gravity=np.arange(dim) - 5.0, actuated=[1, 3],
    )  # fmt: skip
    q, a = net.state(rng.normal(size=(4, dim)), rng.normal(size=(4, dim))), rng.normal(size=2 * dim)
    by_q = finite_difference_jacobian(lambda z: net.step(z, a, 0), q)
    by_a = finite_difference_jacobian(lambda z: net.step(q, z, 0), a)
    size = net.num_states
    forward = net.jvp(q, a, 0, q, np.eye(size, size + a.size), np.eye(a.size, size + a.size, k=size))
    np.testing.assert_allclose(forward, np.hstack([by_q, by_a]), atol=1e-8)
    for r in np.eye(size):
        back_q, back_a = net.vjp(q, a, 0, q, r)
        np.testing.assert_allclose(back_q, r @ by_q, atol=1e-8)
        np.testing.assert_allclose(back_a, r @ by_a, atol=1e-8)


def test_two_particles_in_one_place_pull_nowhere():
    pair = make_spring_pair()
    q = pair.state([[0.3, 0.3], [0.3, 0.3]], [[1.0, 0.0], [0.0, 0.0]])
    after = pair.step(q, np.zeros(4), 0)
    assert np.isfinite(after).all()
    np.testing.assert_allclose(pair.split(after)[1], [[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("method", ["gauss-newton", "ilqr", "lbfgs"])
def test_engell_61_one_particle_reaches_the_closed_form_optimum(method):
    ball, steps, weight = make_particle(1.5, gravity=(0.0, 0.0), dt=0.05), 20, 40.0
    start, target = ball.state([[0.2, -0.1]], [[0.5, 0.3]]), np.array([1.0, 2.0])
    problem = OptimalControlProblem(
        ball, start, steps, [StateGoal(steps, target, components=[0, 1])], goal_weight=weight
    )
    # x^N = x + N h v + sum_i (N - i) h² / m a_i: linear, so the normal equations give the optimum
    reach = (steps - np.arange(steps)) * 0.05**2 / 1.5
    drift = start[:2] + steps * 0.05 * start[2:]
    exact = weight / (1.0 + weight * reach @ reach) * np.outer(reach, target - drift)
    tolerance = 1e-16 if method == "lbfgs" else 1e-12
    result = solve_control(problem, method=method, tolerance=tolerance)
    np.testing.assert_allclose(result.controls, exact, atol=1e-8 * np.abs(exact).max())


def test_engell_62_gauss_newton_recovers_the_shot_pair_from_every_fourth_frame():
    rng = np.random.default_rng(0)
    pair, start, true, states = shot_pair(rng)
    problem = OptimalControlProblem(pair, start, STEPS, keys_of(states), effort=1e-6)
    result = solve_control(problem, start=true + 0.3 * rng.normal(size=true.shape))
    x, x_true = pair.split(result.states)[0], pair.split(states)[0]
    path = np.linalg.norm(np.diff(x_true, axis=0), axis=-1).sum(axis=0).mean()
    assert result.status is SolveStatus.CONVERGED
    assert result.iterations <= 10
    assert np.sqrt(np.mean(np.sum((x - x_true) ** 2, axis=-1))) < 1e-3 * path


@pytest.mark.timing
def test_engell_62_the_shot_pair_takes_at_most_two_seconds():
    rng = np.random.default_rng(0)
    pair, start, true, states = shot_pair(rng)
    problem = OptimalControlProblem(pair, start, STEPS, keys_of(states), effort=1e-6)
    first = true + 0.3 * rng.normal(size=true.shape)
    solve_control(problem, start=first)  # compiled
    start_s = thread_time()
    solve_control(problem, start=first)
    assert thread_time() - start_s <= 2.0


def test_engell_62_every_method_ends_at_the_same_optimum():
    rng = np.random.default_rng(3)
    pair, start, _, states = shot_pair(rng)
    problem = OptimalControlProblem(pair, start, STEPS, keys_of(states), goal_weight=1e4)
    newton, riccati = (solve_control(problem, method=name) for name in ("gauss-newton", "ilqr"))
    quasi = solve_control(problem, method="lbfgs", max_iterations=400)
    assert riccati.cost == pytest.approx(newton.cost, rel=1e-7)
    assert quasi.cost == pytest.approx(newton.cost, rel=1e-3)
    assert newton.iterations <= 10


def test_engell_64_more_weight_on_the_rate_gives_less_variation():
    rng = np.random.default_rng(4)
    pair, start, _, states = shot_pair(rng)
    variations = []
    for rate in (0.0, 1.0, 10.0):
        problem = OptimalControlProblem(pair, start, STEPS, keys_of(states), goal_weight=1e3, rate=rate)
        variations.append(np.abs(np.diff(solve_control(problem, tolerance=1e-4).controls, axis=0)).sum())
    assert all(b < a for a, b in pairwise(variations))


@pytest.mark.parametrize("method", ["gauss-newton", "lbfgs"])
def test_engell_64_the_absolute_cost_leaves_a_third_of_the_controls_at_zero(method):
    rng = np.random.default_rng(5)
    pair, start, _, states = shot_pair(rng)
    problem = OptimalControlProblem(pair, start, STEPS, keys_of(states), effort=0.0, sparse=1.0, goal_weight=1e3)
    result = solve_control(problem, method=method, max_iterations=None if method == "gauss-newton" else 300)
    assert np.mean(np.abs(result.controls) < 1e-6) >= 0.3
    assert np.abs(result.controls).max() > 0.1
    assert result.goal_error < 0.5


def test_engell_64_both_sparse_searches_agree():
    rng = np.random.default_rng(6)
    pair, start, _, states = shot_pair(rng)
    problem = OptimalControlProblem(pair, start, STEPS, keys_of(states), effort=0.1, sparse=1.0, goal_weight=1e3)
    newton, quasi = solve_control(problem), solve_control(problem, method="lbfgs")
    assert newton.cost == pytest.approx(quasi.cost, rel=1e-4)


@pytest.mark.parametrize("method", ["gauss-newton", "ilqr", "lbfgs"])
def test_engell_65_an_unreachable_goal_is_approached_as_its_weight_grows(method):
    ball = make_particle(gravity=(0.0, 0.0), dt=0.02)
    errors = []
    for weight in (1.0, 10.0, 100.0, 1000.0):
        problem = OptimalControlProblem(
            ball, ball.state([[0.0, 0.0]]), 50, [StateGoal(50, [10.0, 0.0], components=[0, 1])],
            goal_weight=weight, effort=1.0, bounds=(-50.0, 5.0),
        )  # fmt: skip
        result = solve_control(problem, method=method)
        errors.append(result.goal_error)
        assert np.isfinite(result.cost)
        assert result.controls.max() <= 5.0
    assert all(b < a for a, b in pairwise(errors))
    assert errors[-1] > 5.0  # half a second of 5 N moves 1 kg by about 2.5 m


def test_a_goal_out_of_reach_is_flagged_and_the_nearest_motion_handed_back():
    ball = make_particle(gravity=(0.0, 0.0))
    goal = StateGoal(50, [10.0, 0.0], components=[0, 1])
    problem = OptimalControlProblem(ball, ball.state([[0.0, 0.0]]), 50, [goal], bounds=(-1.0, 1.0))
    result = solve_control(problem, goal_tolerance=1e-2)
    assert not result.reached
    assert "step 50 is missed" in result.advice
    np.testing.assert_allclose(result.controls[:-1, 0], 1.0, atol=1e-6)


def test_a_growing_goal_weight_meets_the_tolerance():
    ball = make_particle()
    goal = StateGoal(50, [1.0, 0.5, 0.0, 0.0])
    result = solve_control(OptimalControlProblem(ball, ball.state([[0.0, 0.0]]), 50, [goal]), goal_tolerance=1e-3)
    assert result.reached
    assert result.goal_error <= 1e-3
    assert result.goal_weight > 1.0


def test_knots_keep_the_controls_within_bounds_and_need_fewer_unknowns():
    ball = make_particle(gravity=(0.0, 0.0))
    goal = StateGoal(60, [1.0, 0.2], components=[0, 1])
    problem = OptimalControlProblem(
        ball, ball.state([[0.0, 0.0]]), 60, [goal], goal_weight=1e4, effort=1e-3, knots=8, bounds=(-0.5, 2.0)
    )
    result = solve_control(problem)
    assert problem.num_unknowns == 16
    assert result.goal_error < 1e-2
    assert result.controls.min() >= -0.5 and result.controls.max() <= 2.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"masses": [1.0, 0.0]}, "mass above zero"),
        ({"springs": [(0, 2)]}, "outside 0..1"),
        ({"dt": 0.0}, "time step above zero"),
        ({"masses": [1.0, np.nan]}, "masses holds nan"),
        ({"actuated": [0, 0]}, "twice"),
    ],
)
def test_bad_networks_are_refused(change, words):
    given = {"masses": [1.0, 1.0], "springs": [(0, 1)], "rest_lengths": 1.0} | change
    with pytest.raises(InputError, match=words):
        make_network(**given)
