"""Coefficient functions against fifty digits, from 1e-12 rad to π and across every switch."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import EPS
from marey.lie import kernels
from marey.lie.quaternions import half_cotangent_remainder, one_minus_cos_over_square, sinc, stumpff


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.clip(np.exp(x), low, high)))


def exact_stumpff(order: int, theta: float) -> mp.mpf:
    """The closed form, with so many digits that fifty survive its cancellation."""
    with mp.workdps(150):
        t = mp.mpf(theta)
        tail = mp.sin(t) if order % 2 else mp.cos(t)
        for j in range(order // 2):
            power = 2 * j + order % 2
            tail -= (-1) ** j * t**power / mp.factorial(power)
        return (-1) ** (order // 2) * tail / t**order


def ulps(value: float, exact: mp.mpf) -> float:
    return float(abs(mp.mpf(float(value)) - exact) / abs(exact)) / EPS


@given(theta=log_uniform(1e-12, np.pi))
def test_sinc_and_cosine_coefficient_keep_full_precision_at_every_angle(theta):
    assert ulps(sinc(theta), exact_stumpff(1, theta)) <= 2
    assert ulps(one_minus_cos_over_square(theta), exact_stumpff(2, theta)) <= 4


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@given(theta=log_uniform(1e-12, np.pi))
def test_stumpff_functions_keep_full_precision_at_every_angle(order, theta):
    assert ulps(stumpff(order, theta), exact_stumpff(order, theta)) <= 4


@given(theta=log_uniform(1e-12, np.pi))
def test_half_cotangent_remainder_keeps_full_precision_at_every_angle(theta):
    with mp.workdps(150):
        t = mp.mpf(theta)
        exact = (1 - t / 2 * mp.cot(t / 2)) / t**2
    assert ulps(half_cotangent_remainder(theta), exact) <= 5


@pytest.mark.parametrize("order", [3, 4, 5])
def test_series_and_recurrence_agree_where_they_meet(order):
    around = np.pi * (1.0 + EPS * np.arange(-3, 4))
    values = stumpff(order, around)
    assert np.ptp(values) <= 8 * EPS * values.max()


@pytest.mark.parametrize("order", [3, 4, 5])
@given(theta=st.floats(np.pi, 12.0))
def test_stumpff_functions_stay_accurate_beyond_pi(order, theta):
    assert ulps(stumpff(order, theta), exact_stumpff(order, theta)) <= 8


def test_values_at_zero_are_the_limits():
    assert float(sinc(0.0)) == 1.0
    assert float(one_minus_cos_over_square(0.0)) == 0.5
    assert float(stumpff(3, 0.0)) == 1.0 / 6.0
    assert float(half_cotangent_remainder(0.0)) == pytest.approx(1.0 / 12.0, rel=2 * EPS)


def test_coefficients_are_even_and_keep_the_shape_of_a_batch():
    theta = np.linspace(-7.0, 7.0, 24).reshape(2, 3, 4)
    for order in range(1, 6):
        assert stumpff(order, theta).shape == theta.shape
        np.testing.assert_array_equal(stumpff(order, theta), stumpff(order, -theta))


@given(theta=log_uniform(1e-12, np.pi))
def test_compiled_coefficient_of_the_inverse_keeps_full_precision_at_every_angle(theta):
    with mp.workdps(100):
        half = mp.mpf(theta) / 2
        exact = (1 - half * mp.cot(half)) / mp.mpf(theta) ** 2
    assert abs(kernels.half_cotangent_remainder(theta * theta) - exact) <= 16 * EPS * exact
