"""Quadratic programmes: optimality conditions, an independent solver, and programmes without a solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from marey.base import ConvergenceError, InputError
from marey.numerics import SolveStatus, solve_qp
from marey.numerics.dense_qp import QPResult

INF = np.inf


def random_programme(rng: np.random.Generator, rank_share: float):
    """A feasible programme in a box, with equalities, one-sided rows and a Hessian of any rank."""
    n, m = int(rng.integers(1, 30)), int(rng.integers(0, 30))
    B = rng.normal(size=(max(1, int(rank_share * n)), n))
    A, inside = rng.normal(size=(m, n)), rng.normal(size=n)
    middle = A @ inside
    lower = middle - rng.exponential(size=m) * (rng.random(m) < 0.8)
    upper = middle + rng.exponential(size=m) * (rng.random(m) < 0.8)
    upper[rng.random(m) < 0.2] = INF
    return B.T @ B, rng.normal(size=n), A, lower, upper, (inside - 1.0, inside + 1.0)


def assert_optimal(result: QPResult, H, g, A, lower, upper, bounds, tolerance: float = 1e-7) -> None:
    """Karush, Kuhn and Tucker: a flat Lagrangian, a feasible point, multipliers only at the end they hold."""
    assert result.status is SolveStatus.CONVERGED
    slope = H @ result.x + g + A.T @ result.multipliers + result.bound_multipliers
    assert np.abs(slope).max() <= tolerance
    for value, low, high, multiplier in (
        (A @ result.x, lower, upper, result.multipliers),
        (result.x, *bounds, result.bound_multipliers),
    ):
        assert np.all(value >= low - tolerance) and np.all(value <= high + tolerance)
        gap = np.where(multiplier > 0, np.minimum(high, 1e9) - value, np.where(multiplier < 0, value - low, 0.0))
        assert np.abs(multiplier * gap).max(initial=0.0) <= tolerance * max(1.0, np.abs(multiplier).max(initial=0.0))


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), rank_share=st.sampled_from([0.1, 0.5, 1.0, 2.0]))
def test_solutions_meet_the_optimality_conditions(seed, rank_share):
    programme = random_programme(np.random.default_rng(seed), rank_share)
    *rows, bounds = programme
    assert_optimal(solve_qp(*rows, bounds=bounds), *programme)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_objective_and_rows_does_not_matter(scale):
    H, g, A, lower, upper, bounds = random_programme(np.random.default_rng(5), 0.5)
    plain = solve_qp(H, g, A, lower, upper, bounds=bounds)
    scaled = solve_qp(scale * H, scale * g, A, lower, upper, bounds=bounds)
    rows = solve_qp(H, g, scale * A, scale * lower, scale * upper, bounds=bounds)
    for other in (scaled, rows):
        assert other.is_solved
        assert 0.5 * other.x @ H @ other.x + g @ other.x == pytest.approx(plain.objective, rel=1e-7, abs=1e-7)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_non_negative_least_squares_agrees_with_scipy(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(12, 6)), rng.normal(size=12)
    result = solve_qp(A.T @ A, -A.T @ b, bounds=(0.0, INF))
    np.testing.assert_allclose(result.x, nnls(A, b)[0], atol=1e-8)


def test_without_constraints_it_is_a_linear_system():
    H = np.array([[4.0, 1.0], [1.0, 3.0]])
    result = solve_qp(H, [1.0, 2.0])
    np.testing.assert_allclose(result.x, -np.linalg.solve(H, [1.0, 2.0]), atol=1e-14)
    assert result.multipliers.shape == (0,)
    assert result.objective == pytest.approx(0.5 * result.x @ H @ result.x + result.x @ [1.0, 2.0])


def test_multipliers_are_positive_above_and_negative_below():
    above = solve_qp(np.eye(1), [-2.0], [[1.0]], -INF, 1.0)
    below = solve_qp(np.eye(1), [2.0], [[1.0]], -1.0, INF)
    assert (float(above.x[0]), float(above.multipliers[0])) == pytest.approx((1.0, 1.0))
    assert (float(below.x[0]), float(below.multipliers[0])) == pytest.approx((-1.0, -1.0))
    box = solve_qp(np.eye(2), [-2.0, 2.0], bounds=(-1.0, 1.0))
    np.testing.assert_allclose(box.bound_multipliers, [1.0, -1.0])


def test_a_linear_programme_is_solved_at_its_corner():
    result = solve_qp(np.zeros((2, 2)), [-1.0, -2.0], [[1.0, 1.0]], -INF, 4.0, bounds=(0.0, 3.0))
    np.testing.assert_allclose(result.x, [1.0, 3.0], atol=1e-9)


def test_repeated_equalities_are_no_contradiction():
    result = solve_qp(np.diag([1.0, 2.0]), [1.0, 1.0], [[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0], [1.0, 1.0])
    assert result.is_solved
    np.testing.assert_allclose(result.x.sum(), 1.0)


@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        (([[1, 1], [1, 1]], [3, -INF], [INF, -3]), ("row 0 of A", "row 1 of A")),
        (([[1, 1], [1, 1]], [1, 2], [1, 2]), ("row 0 of A", "row 1 of A")),
        (([[0, 0]], [1], [2]), ("row 0 of A",)),
        (([[1, 0], [0, 1]], [2, 0], [1, 5]), ("row 0 of A",)),
    ],
)
def test_contradictions_are_reported_by_name(arguments, blamed):
    result = solve_qp(np.eye(2), [1.0, 1.0], *arguments)
    assert result.status is SolveStatus.INFEASIBLE and not result.is_solved
    assert all(name in result.advice for name in blamed)
    assert np.isfinite(result.x).all() and np.isfinite(result.multipliers).all() and np.isfinite(result.objective)


def test_crossed_bounds_and_rows_against_bounds_are_reported():
    crossed = solve_qp(np.eye(2), [1, 1], bounds=([2.0, 0.0], 1.0))
    assert crossed.status is SolveStatus.INFEASIBLE and "bound of x[0]" in crossed.advice
    against = solve_qp(np.eye(2), [1, 1], [[1.0, 0.0]], 5.0, INF, bounds=(-1.0, 1.0))
    assert "row 0 of A" in against.advice and "bound of x[0]" in against.advice
    assert "missed by 2" in against.advice


@pytest.mark.parametrize(
    ("H", "g", "options", "status"),
    [
        (np.zeros((2, 2)), [1.0, 1.0], {"bounds": (-INF, 1.0)}, SolveStatus.UNBOUNDED),
        (np.diag([1.0, 0.0]), [1.0, 1.0], {}, SolveStatus.UNBOUNDED),
        (np.diag([1.0, -1.0]), [1.0, 1.0], {"bounds": (-5.0, 5.0)}, SolveStatus.NOT_CONVEX),
    ],
)
def test_programmes_without_a_lowest_point_are_reported(H, g, options, status):
    result = solve_qp(H, g, **options)
    assert result.status is status
    assert np.isfinite(result.x).all()
    with pytest.raises(ConvergenceError) as caught:
        solve_qp(H, g, on_failure="raise", **options)
    assert caught.value.report.status is status


def test_an_iteration_limit_is_reported():
    H, g, A, lower, upper, bounds = random_programme(np.random.default_rng(8), 2.0)
    result = solve_qp(H, g, A, lower, upper, bounds=bounds, max_iterations=1)
    assert result.status is SolveStatus.ITERATION_LIMIT
    assert np.all(result.x >= bounds[0] - 1e-6) and np.all(result.x <= bounds[1] + 1e-6)  # still a feasible point
    assert repr(result).startswith("QPResult(ITERATION_LIMIT")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 0.5], [0.0, 1.0]], [1.0, 1.0]), "not symmetric"),
        ((np.eye(2), [1.0, np.nan]), "nan"),
        ((np.eye(3), [1.0, 1.0]), "expected"),
        ((np.eye(2), [1.0, 1.0], [[1.0]]), "expected"),
        ((np.eye(2), [1.0, 1.0], [[1.0, 1.0]], [0.0, 0.0]), "rows of A have shape"),
        ((np.eye(2), [1.0, 1.0], [[1.0, 1.0]], np.nan), "NaN"),
    ],
)
def test_wrong_data_are_refused_by_name(arguments, message):
    with pytest.raises(InputError, match=message):
        solve_qp(*arguments)
