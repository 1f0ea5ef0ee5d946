"""Finite differences against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.differences import finite_difference_jacobian

from marey.base import EPS, InputError, UnknownNameError


def wave(x: np.ndarray) -> np.ndarray:
    return np.array([np.sin(x[0]) * x[1], np.exp(x[1]), x[0] ** 3])


def wave_jacobian(x: np.ndarray) -> np.ndarray:
    return np.array([[np.cos(x[0]) * x[1], np.sin(x[0])], [0.0, np.exp(x[1])], [3 * x[0] ** 2, 0.0]])


@pytest.mark.parametrize(("scheme", "tolerance"), [("forward", 1e-7), ("central", 1e-9), ("five-point", 1e-11)])
def test_each_scheme_reaches_the_accuracy_of_its_order(scheme, tolerance):
    x = np.array([0.7, -1.1])
    np.testing.assert_allclose(finite_difference_jacobian(wave, x, scheme=scheme), wave_jacobian(x), atol=tolerance)


@pytest.mark.parametrize(("scheme", "order"), [("forward", 1), ("central", 2), ("five-point", 4)])
def test_error_falls_with_the_order_of_the_scheme(scheme, order):
    x = np.array([0.7, -1.1])
    exact = wave_jacobian(x)
    errors = [finite_difference_jacobian(wave, x, scheme=scheme, step=h) - exact for h in (0.08, 0.04)]
    coarse, fine = (np.abs(error).max() for error in errors)
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.25)


def test_linear_functions_are_differentiated_exactly_at_any_scale():
    A = np.array([[2.0, -3.0], [0.5, 4.0]])
    for size in (1.0, 1e6, 1e-6):
        jacobian = finite_difference_jacobian(lambda x: A @ x, size * np.ones(2))
        np.testing.assert_allclose(jacobian, A, rtol=1e3 * EPS ** (2 / 3))


def test_output_of_any_shape_keeps_it_and_gains_a_last_axis():
    assert finite_difference_jacobian(lambda x: np.outer(x, x), np.ones(3)).shape == (3, 3, 3)
    assert finite_difference_jacobian(lambda x: x.sum(), np.ones(3)).shape == (3,)
    assert finite_difference_jacobian(lambda x: np.ones(4), np.zeros(0)).shape == (4, 0)


def test_the_function_may_scribble_on_its_argument():
    def rude(x: np.ndarray) -> np.ndarray:
        x *= 2.0
        return x

    np.testing.assert_allclose(finite_difference_jacobian(rude, np.ones(2)), 2 * np.eye(2), atol=1e-9)


def test_a_value_that_is_not_finite_names_its_coordinate():
    with pytest.raises(InputError, match="coordinate 1"), np.errstate(invalid="ignore"):
        finite_difference_jacobian(np.sqrt, np.array([1.0, 0.0]))
    with pytest.raises(UnknownNameError, match="central"):
        finite_difference_jacobian(np.sin, np.zeros(1), scheme="centrl")  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [0.0, -1e-6, np.nan, np.inf])
def test_a_step_that_is_not_positive_is_refused(step):
    with pytest.raises(InputError, match="step is"):
        finite_difference_jacobian(np.sin, [0.3], step=step)
