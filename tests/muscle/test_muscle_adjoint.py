"""The adjoint gradient: against differences, with checkpoints, and what it costs."""

from __future__ import annotations

from time import thread_time

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.muscle import (
    OptimalControlProblem,
    StateGoal,
    compute_adjoint_gradient,
    make_network,
    make_particle,
    make_spring_pair,
    simulate_controls,
    solve_control,
)
from marey.muscle.optimal_control.adjoint import compute_total_cost, make_gauss_newton_model
from marey.numerics import SolveStatus

STEP = 1e-5  # of central differences, for controls of size one


def gradient_error(problem, controls, rng, directions=6):
    """Largest relative difference between the adjoint and central differences, along random directions."""
    gradient = compute_adjoint_gradient(problem, controls).by_controls
    worst = 0.0
    for _ in range(directions):
        d = rng.normal(size=controls.shape)
        ahead, behind = (
            compute_total_cost(problem, controls + h * d, simulate_controls(problem, controls + h * d))
            for h in (STEP, -STEP)
        )
        numeric = (ahead - behind) / (2 * STEP)
        worst = max(worst, abs(numeric - np.sum(gradient * d)) / abs(numeric))
    return worst


def ring(nodes: int = 10, *, printed: bool = False):
    """Ten masses in a ring with spokes to every second neighbour."""
    around = np.arange(nodes)
    pairs = np.concatenate([np.stack([around, (around + k) % nodes], axis=1) for k in (1, 2)])
    angles = 2 * np.pi * around / nodes
    x = np.stack([np.cos(angles), np.sin(angles), 0.1 * np.sin(3 * angles)], axis=1)
    lengths = 0.9 * np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
    net = make_network(
        np.linspace(1, 2, nodes), pairs, lengths, stiffness=100.0, damping=1.0, gravity=(0, -9.82, 0), printed=printed
    )
    return net, net.state(x)


def systems(printed: bool = False):
    pair = make_spring_pair(printed=printed)
    return {
        "particle": (make_particle(), make_particle().state([[0.0, 1.0]])),
        "pair": (pair, pair.state([[0.0, 0.0], [1.2, 0.1]], [[1.0, 0.0], [0.0, 1.0]])),
        "ring": ring(printed=printed),
    }


def random_problem(system, start, rng, steps=30, **options):
    goals = [StateGoal(i, rng.normal(size=system.num_states), weight=rng.uniform(0.2, 1.0)) for i in (10, 20, steps)]
    return OptimalControlProblem(system, start, steps, goals, **options), rng.normal(size=(steps, system.num_controls))


@pytest.mark.parametrize("name", ["particle", "pair", "ring"])
def test_engell_60_the_adjoint_gradient_matches_differences(name):
    rng = np.random.default_rng(0)
    problem, controls = random_problem(
        *systems()[name], rng, effort=0.3, rate=0.2, smooth=0.1, goal_weight=5.0, rest=0.1
    )
    assert gradient_error(problem, controls, rng) < 1e-6


@pytest.mark.parametrize("name", ["pair", "ring"])
def test_engell_60_the_printed_block_of_equation_139a_fails(name):
    rng = np.random.default_rng(0)
    problem, controls = random_problem(*systems(printed=True)[name], rng, goal_weight=5.0)
    assert gradient_error(problem, controls, rng) > 1e-3


@pytest.mark.parametrize("checkpoints", [1, 5, 7, 30])
def test_engell_63_checkpoints_give_the_same_gradient_with_less_memory(checkpoints):
    rng = np.random.default_rng(1)
    problem, controls = random_problem(*systems()["pair"], rng)
    whole, kept = (
        compute_adjoint_gradient(problem, controls),
        compute_adjoint_gradient(problem, controls, checkpoints=checkpoints),
    )
    np.testing.assert_allclose(kept.by_controls, whole.by_controls, rtol=1e-12, atol=1e-14)
    assert kept.cost == pytest.approx(whole.cost, rel=1e-12)
    assert whole.stored == 31
    assert kept.stored <= checkpoints + -(-30 // checkpoints)


class Counter:
    """A system that counts how often it is asked."""

    def __init__(self, system):
        self.system, self.steps, self.sweeps = system, 0, 0
        self.num_states, self.num_controls, self.dt = system.num_states, system.num_controls, system.dt

    def step(self, *given):
        self.steps += 1
        return self.system.step(*given)

    def vjp(self, *given):
        self.sweeps += 1
        return self.system.vjp(*given)

    def jvp(self, *given):
        return self.system.jvp(*given)


def test_engell_63_work_and_memory_are_linear_in_the_number_of_steps():
    pair, start = systems()["pair"]
    lengths, work, memory = [50, 100, 200, 400, 800, 1600], [], []
    for steps in lengths:
        counter = Counter(pair)
        problem = OptimalControlProblem(counter, start, steps, [StateGoal(steps, start)])
        found = compute_adjoint_gradient(problem, np.zeros((steps, 4)))
        work.append(counter.steps + counter.sweeps)
        memory.append(found.stored)
    assert work == [2 * steps for steps in lengths]
    assert memory == [steps + 1 for steps in lengths]


@pytest.mark.timing
def test_engell_63_a_gradient_costs_at_most_five_simulations_and_its_time_is_linear():
    pair, start = systems()["pair"]
    lengths = np.array([50, 100, 200, 400, 800, 1600])
    forward, backward = np.empty(len(lengths)), np.empty(len(lengths))
    for k, steps in enumerate(lengths):
        problem = OptimalControlProblem(pair, start, int(steps), [StateGoal(int(steps), start)])
        controls = np.zeros((int(steps), 4))
        jobs = (lambda: simulate_controls(problem, controls), lambda: compute_adjoint_gradient(problem, controls))  # noqa: B023
        for times, job in zip((forward, backward), jobs, strict=True):
            tries: list[float] = []
            for _ in range(5):
                begin = thread_time()
                job()
                tries.append(thread_time() - begin)
            times[k] = min(tries)
    assert (backward <= 5.0 * forward).all()
    assert np.corrcoef(lengths, backward)[0, 1] ** 2 > 0.98


def test_forward_sensitivities_give_the_adjoint_gradient():
    rng = np.random.default_rng(2)
    problem, controls = random_problem(*systems()["ring"], rng, knots=7, rate=0.3)
    controls = problem.controls(problem.unknowns(controls))
    model = make_gauss_newton_model(problem, controls, simulate_controls(problem, controls))
    by_unknowns = (problem.basis.T @ compute_adjoint_gradient(problem, controls).by_controls).ravel()
    np.testing.assert_allclose(model.gradient, by_unknowns, rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(model.hessian).min() > 0.0


def test_goals_at_times_are_goals_at_steps():
    ball = make_particle(dt=0.02)
    start = ball.state([[0.0, 0.0]])
    targets = np.arange(8.0).reshape(2, 4)
    problem = OptimalControlProblem(ball, start, 50, ([1.0, 0.5], targets, [1.0, 0.25]))
    assert [goal.step for goal in problem.goals] == [25, 50]
    np.testing.assert_array_equal(problem.goals[0].target, targets[1])
    np.testing.assert_array_equal(problem.goals[0].weight, 0.25)


def test_a_goal_on_a_mean_of_states_uses_its_rows():
    pair, start = systems()["pair"]
    rows = np.zeros((2, 8))
    rows[0, [0, 2]] = rows[1, [1, 3]] = 0.5
    problem = OptimalControlProblem(pair, start, 40, [StateGoal(40, [2.0, 1.0], rows=rows)], goal_weight=1e5)
    result = solve_control(problem)
    np.testing.assert_allclose(pair.split(result.states)[0][-1].mean(axis=0), [2.0, 1.0], atol=1e-2)


def test_the_caller_can_end_a_search():
    problem, controls = random_problem(*systems()["pair"], np.random.default_rng(3))
    result = solve_control(problem, method="lbfgs", start=controls, on_iteration=lambda i, cost: i < 3)
    assert result.status is SolveStatus.STOPPED
    assert result.iterations == 3


def test_controls_that_explode_are_told_and_give_no_nan():
    stiff = make_spring_pair(stiffness=1e6)
    start = stiff.state([[0.0, 0.0], [1.5, 0.0]])
    result = solve_control(OptimalControlProblem(stiff, start, 400, [StateGoal(400, start)]))
    assert result.status is SolveStatus.NOT_FINITE
    assert not result.reached
    assert np.isfinite(result.states).all() and np.isfinite(result.cost)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start": np.zeros(3)}, "start has shape"),
        ({"steps": 0}, "steps is 0"),
        ({"goals": []}, "no goal"),
        ({"goals": [StateGoal(99, np.zeros(8))]}, "step 99"),
        ({"goals": [StateGoal(5, np.zeros(3))]}, "target of 3"),
        ({"goals": [StateGoal(5, [0.0], components=[8])]}, "outside 0..7"),
        ({"effort": -1.0}, "effort is -1"),
        ({"rate": np.nan}, "rate is nan"),
        ({"bounds": (1.0, -1.0)}, "lower ends"),
        ({"knots": 21}, "only 20 steps"),
        ({"rest": [1.0, 2.0]}, "rest has shape"),
    ],
)
def test_bad_problems_are_refused(change, words):
    pair, start = systems()["pair"]
    given = {"start": start, "steps": 20, "goals": [StateGoal(20, start)]} | change
    with pytest.raises(InputError, match=words):
        OptimalControlProblem(pair, given.pop("start"), given.pop("steps"), given.pop("goals"), **given)


def test_bad_calls_are_refused():
    pair, start = systems()["pair"]
    problem = OptimalControlProblem(pair, start, 20, [StateGoal(20, start)], knots=5)
    with pytest.raises(UnknownNameError, match="gauss-newton"):
        solve_control(problem, method="gauss")
    with pytest.raises(InputError, match="ilqr"):
        solve_control(problem, method="ilqr")
    with pytest.raises(InputError, match="controls has shape"):
        compute_adjoint_gradient(problem, np.zeros((3, 4)))
    with pytest.raises(InputError, match="checkpoints"):
        compute_adjoint_gradient(problem, np.zeros((20, 4)), checkpoints=0)
