"""Gauss-Newton and Levenberg-Marquardt on problems with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from marey.base import ConvergenceError, InputError, UnknownNameError
from marey.numerics import SolveStatus
from marey.numerics.least_squares import solve_least_squares

METHODS = ["gauss-newton", "levenberg-marquardt"]
TIMES = np.linspace(0.0, 3.0, 40)
DECAY = 2.0 * np.exp(-1.3 * TIMES) + 0.05 * np.sin(20.0 * TIMES)


def rosenbrock(x: np.ndarray) -> np.ndarray:
    return np.array([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])


def rosenbrock_jacobian(x: np.ndarray) -> np.ndarray:
    return np.array([[-20.0 * x[0], 10.0], [-1.0, 0.0]])


def decay(p: np.ndarray) -> np.ndarray:
    return p[0] * np.exp(p[1] * TIMES) - DECAY


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("jacobian", [None, rosenbrock_jacobian])
def test_rosenbrock_valley_is_followed_to_its_end(method, jacobian):
    result = solve_least_squares(rosenbrock, [-1.2, 1.0], jacobian=jacobian, method=method)
    np.testing.assert_allclose(result.x, [1.0, 1.0], atol=1e-12)
    assert result.is_solved and result.iterations <= 25 and result.cost < 1e-24
    assert repr(result).startswith("LeastSquaresResult(CONVERGED")


@pytest.mark.parametrize("method", METHODS)
def test_noisy_decay_agrees_with_scipy(method):
    result = solve_least_squares(decay, [1.0, 0.0], method=method)
    oracle = least_squares(decay, [1.0, 0.0], xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(result.x, oracle.x, rtol=1e-8)
    np.testing.assert_array_equal(result.residual, decay(result.x))
    assert result.optimality <= 1e-10


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_linear_problems_are_solved_like_numpy(method, seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(12, 5)), rng.normal(size=12)
    result = solve_least_squares(lambda x: A @ x - b, np.zeros(5), jacobian=lambda _: A, method=method)
    np.testing.assert_allclose(result.x, np.linalg.lstsq(A, b, rcond=None)[0], atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_bounded_linear_problems_agree_with_scipy(method, seed):
    from scipy.optimize import lsq_linear

    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(15, 4)), 3.0 * rng.normal(size=15)
    box = (-0.3 * np.ones(4), 0.3 * np.ones(4))
    result = solve_least_squares(lambda x: A @ x - b, np.zeros(4), jacobian=lambda _: A, method=method, bounds=box)
    want = lsq_linear(A, b, box, tol=1e-14).x
    assert np.all(result.x >= box[0]) and np.all(result.x <= box[1])
    assert np.linalg.norm(A @ result.x - b) <= np.linalg.norm(A @ want - b) * (1 + 1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_bound_in_the_way_is_met(method):
    result = solve_least_squares(rosenbrock, [-1.2, 1.0], method=method, bounds=([-2.0, -2.0], [0.5, 2.0]))
    np.testing.assert_allclose(result.x, [0.5, 0.25], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_start_outside_the_box_is_projected(method):
    seen: list[float] = []

    def watched(x: np.ndarray) -> np.ndarray:
        seen.append(float(x[0]))
        return x - 0.5

    result = solve_least_squares(watched, [7.0], jacobian=lambda _: np.eye(1), method=method, bounds=(0.0, 1.0))
    assert seen[0] == 1.0 and max(seen) <= 1.0
    np.testing.assert_allclose(result.x, [0.5], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_fewer_residuals_than_variables_still_have_a_solution(method):
    result = solve_least_squares(lambda x: np.array([x[0] + x[1] - 3.0]), [0.0, 0.0], method=method)
    assert result.x.sum() == pytest.approx(3.0)
    np.testing.assert_allclose(result.x, [1.5, 1.5], atol=1e-9)  # from the origin, the nearest one


@pytest.mark.parametrize("method", METHODS)
def test_a_variable_without_effect_stays_where_it_was(method):
    result = solve_least_squares(lambda x: np.array([x[0] - 2.0, 0.0]), [0.0, 5.0], method=method)
    np.testing.assert_allclose(result.x, [2.0, 5.0], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_steps_into_forbidden_ground_are_shortened(method):
    with np.errstate(invalid="ignore"):
        result = solve_least_squares(lambda x: np.log(np.where(x > 0.0, x, np.nan)), [5.0, 1e-3], method=method)
    np.testing.assert_allclose(result.x, [1.0, 1.0], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_residuals_at_the_rounding_of_their_terms_count_as_solved(method):
    result = solve_least_squares(
        lambda x: 1e8 * (x + 1e4) - 1e8 * (np.array([1.0, 2.0]) + 1e4), [0.0, 0.0], method=method
    )
    assert result.is_solved
    np.testing.assert_allclose(result.x, [1.0, 2.0], atol=1e-10)


def test_what_cannot_be_solved_is_raised_or_returned_with_advice():
    def kinked(x: np.ndarray) -> np.ndarray:
        return np.array([1.0 + np.sqrt(abs(x[0] - 1.0))])

    with pytest.raises(ConvergenceError, match="kink") as caught:
        solve_least_squares(kinked, [0.2])
    assert caught.value.report.status is SolveStatus.STALLED
    result = solve_least_squares(rosenbrock, [-1.2, 1.0], max_iterations=2, on_failure="return")
    assert result.status is SolveStatus.ITERATION_LIMIT and result.iterations == 2
    assert "more iterations" in result.advice


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_no_result_ever_holds_a_nan(bad):
    result = solve_least_squares(lambda x: np.array([bad, 1.0]), [1.0], on_failure="return")
    assert result.status is SolveStatus.NOT_FINITE
    assert np.isfinite(result.x).all() and np.isfinite(result.residual).all() and np.isfinite(result.cost)
    derivative = solve_least_squares(lambda x: x, [1.0], jacobian=lambda x: np.array([[bad]]), on_failure="return")
    assert np.isfinite(derivative.x).all() and np.isfinite(derivative.cost)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "gauss-newtn"}, UnknownNameError, "Did you mean 'gauss-newton'"),
        ({"on_failure": "ignore"}, InputError, "'raise' or 'return'"),
        ({"bounds": (2.0, 1.0)}, InputError, "variable 0"),
        ({"jacobian": lambda x: np.eye(3)}, InputError, r"expected \(2, 2\)"),
    ],
)
def test_wrong_options_are_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        solve_least_squares(rosenbrock, [0.0, 0.0], **arguments)


def test_residuals_have_to_be_a_vector():
    with pytest.raises(InputError, match="expected"):
        solve_least_squares(lambda x: np.eye(2), [0.0])


def test_bounds_of_another_shape_are_refused():
    with pytest.raises(InputError, match="bounds have shape"):
        solve_least_squares(lambda x: x, [1.0, 2.0], bounds=([0.0, 0.0, 0.0], 1.0))


def test_no_iterations_are_an_iteration_limit_whatever_their_sign():
    result = solve_least_squares(lambda x: x - 1.0, [3.0], max_iterations=-1, on_failure="return")
    assert (result.status, result.iterations) == (SolveStatus.ITERATION_LIMIT, 0)
