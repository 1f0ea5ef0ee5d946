"""Uniform B-splines against scipy, closed forms and the laws of splines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from marey.base import InputError
from marey.numerics import UniformBSpline
from marey.numerics.differences import finite_difference_jacobian

DEGREES = [0, 1, 2, 3, 5]


def random_curve(degree: int, is_clamped: bool, num_spans: int = 7, shape: tuple[int, ...] = (3,)) -> UniformBSpline:
    rng = np.random.default_rng(100 * degree + num_spans)
    return UniformBSpline(rng.normal(size=(num_spans + degree, *shape)), degree, -1.3, 2.9, is_clamped)


def between_knots(curve: UniformBSpline) -> np.ndarray:
    width = (curve.stop - curve.start) / curve.num_spans
    return curve.start + width * (np.arange(curve.num_spans)[:, None] + np.array([0.1, 0.37, 0.81])).ravel()


@pytest.mark.parametrize("is_clamped", [True, False])
@pytest.mark.parametrize("degree", DEGREES)
def test_values_and_all_derivatives_agree_with_scipy(degree, is_clamped):
    curve = random_curve(degree, is_clamped)
    oracle = BSpline(curve.knots, curve.coefficients, degree)
    times = between_knots(curve)
    for order in range(degree + 1):
        want = oracle(times, nu=order)
        np.testing.assert_allclose(curve(times, order), want, atol=1e-13 * max(1.0, np.abs(want).max()))
    assert np.all(curve(times, degree + 1) == 0.0)


@pytest.mark.parametrize("is_clamped", [True, False])
@pytest.mark.parametrize("degree", DEGREES)
def test_sparse_basis_times_coefficients_is_the_curve(degree, is_clamped):
    curve = random_curve(degree, is_clamped)
    times = np.linspace(curve.start, curve.stop, 50)
    for order in range(degree + 2):
        basis = curve.basis_matrix(times, order)
        assert basis.shape == (50, curve.num_coefficients)
        assert basis.nnz <= 50 * (degree + 1)
        want = curve(times, order)
        np.testing.assert_allclose(basis @ curve.coefficients, want, atol=1e-13 * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("is_clamped", [True, False])
@pytest.mark.parametrize("degree", DEGREES)
def test_basis_functions_sum_to_one_and_are_not_negative(degree, is_clamped):
    curve = random_curve(degree, is_clamped)
    basis = curve.basis_matrix(np.linspace(curve.start, curve.stop, 101)).toarray()
    np.testing.assert_allclose(basis.sum(axis=1), 1.0, rtol=1e-14)
    assert basis.min() >= 0.0


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("is_clamped", [True, False])
@pytest.mark.parametrize("degree", DEGREES)
def test_refinement_keeps_the_curve(degree, is_clamped, factor):
    curve = random_curve(degree, is_clamped)
    finer = curve.refine(factor)
    assert finer.num_spans == factor * curve.num_spans
    times = np.linspace(curve.start, curve.stop, 97)[:-1] if degree == 0 else np.linspace(curve.start, curve.stop, 97)
    for order in range(degree):
        want = curve(times, order)
        np.testing.assert_allclose(finer(times, order), want, atol=1e-12 * max(1.0, np.abs(want).max()))
    np.testing.assert_allclose(finer(between_knots(curve)), curve(between_knots(curve)), atol=4e-15)


def test_doubling_an_open_cubic_gives_the_known_masks():
    """Lane and Riesenfeld: (1, 6, 1)/8 on old points and (1, 1)/2 between them."""
    c = np.array([3.0, -1.0, 2.0, 5.0, 0.5])
    finer = UniformBSpline(c, is_clamped=False).refine().coefficients
    np.testing.assert_allclose(finer[0::2], (c[:-1] + c[1:]) / 2, atol=1e-15)
    np.testing.assert_allclose(finer[1::2], (c[:-2] + 6 * c[1:-1] + c[2:]) / 8, atol=1e-15)


@pytest.mark.parametrize("is_clamped", [True, False])
@pytest.mark.parametrize("degree", DEGREES)
def test_fit_gives_back_a_curve_from_its_samples(degree, is_clamped):
    curve = random_curve(degree, is_clamped)
    times = np.sort(np.random.default_rng(1).uniform(curve.start, curve.stop, 120))
    again = UniformBSpline.fit(
        times,
        curve(times),
        num_spans=7,
        degree=degree,
        interval=(curve.start, curve.stop),
        is_clamped=is_clamped,
    )
    np.testing.assert_allclose(again.coefficients, curve.coefficients, atol=1e-9)


def test_fit_keeps_its_digits_where_the_basis_is_badly_conditioned():
    rng = np.random.default_rng(0)
    curve = UniformBSpline(rng.normal(size=(27, 3)), 7, 0.0, 3.0, is_clamped=False)
    times = np.sort(rng.uniform(0.0, 3.0, 400))
    again = UniformBSpline.fit(times, curve(times), num_spans=20, degree=7, interval=(0.0, 3.0), is_clamped=False)
    np.testing.assert_allclose(again.coefficients, curve.coefficients, atol=2e-10)


def test_fit_is_the_least_squares_solution_of_numpy():
    rng = np.random.default_rng(2)
    times, values, weights = np.sort(rng.uniform(0, 5, 80)), rng.normal(size=(80, 2)), rng.uniform(0.1, 2.0, 80)
    curve = UniformBSpline.fit(times, values, num_spans=9, weights=weights)
    root = np.sqrt(weights)[:, None]
    want = np.linalg.lstsq(root * curve.basis_matrix(times).toarray(), root * values, rcond=None)[0]
    np.testing.assert_allclose(curve.coefficients, want, atol=1e-11)


def test_fit_reproduces_polynomials_of_its_degree():
    times = np.linspace(0.0, 2.0, 30)
    curve = UniformBSpline.fit(times, times**3 - 2 * times, num_spans=4)
    np.testing.assert_allclose(curve(times, 1), 3 * times**2 - 2, atol=1e-11)
    np.testing.assert_allclose(curve(times, 3), 6.0, atol=1e-9)


@pytest.mark.parametrize("is_clamped", [True, False])
def test_a_straight_line_has_its_values_at_the_greville_times_as_coefficients(is_clamped):
    curve = UniformBSpline(np.zeros(9), 3, 1.0, 4.0, is_clamped)
    line = UniformBSpline(2.0 * curve.greville - 1.0, 3, 1.0, 4.0, is_clamped)
    times = np.linspace(1.0, 4.0, 40)
    np.testing.assert_allclose(line(times), 2.0 * times - 1.0, atol=1e-14)
    np.testing.assert_allclose(line(times, 1), 2.0, atol=1e-13)


def test_clamped_ends_meet_the_outer_coefficients():
    curve = random_curve(3, True)
    np.testing.assert_array_equal(curve(curve.start), curve.coefficients[0])
    np.testing.assert_array_equal(curve(curve.stop), curve.coefficients[-1])


@given(t=st.floats(-1.2, 2.8))
def test_derivative_agrees_with_differences(t):
    curve = random_curve(4, True)
    numeric = finite_difference_jacobian(lambda x: curve(x[0]), [t])[:, 0]
    np.testing.assert_allclose(curve(t, 1), numeric, atol=1e-7)


def test_values_of_any_shape_at_times_of_any_shape():
    curve = random_curve(3, True, shape=(4, 2))
    assert curve(np.zeros((5, 6))).shape == (5, 6, 4, 2)
    assert curve(0.0).shape == (4, 2)
    scalar = random_curve(3, True, shape=())
    assert scalar(np.zeros(5)).shape == (5,)
    assert scalar.refine().num_coefficients == 17


def test_times_at_the_end_may_miss_it_by_rounding():
    curve = random_curve(3, True)
    np.testing.assert_array_equal(curve(np.nextafter(curve.stop, 9.0)), curve(curve.stop))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformBSpline(np.zeros(3)), "more than the degree"),
        (lambda: UniformBSpline(np.zeros(5), degree=-1), "negative"),
        (lambda: UniformBSpline(np.zeros(5), 3, 1.0, 1.0), "after the start"),
        (lambda: UniformBSpline([1.0, np.nan, 2.0, 3.0]), "nan at index"),
        (lambda: UniformBSpline(np.zeros(5))(1.5), "time 1.5 is outside"),
        (lambda: UniformBSpline(np.zeros(5))(np.nan), "outside"),
        (lambda: UniformBSpline(np.zeros(5)).refine(0), "at least one"),
        (lambda: UniformBSpline(np.zeros(5)).derivative(-1), "negative"),
        (lambda: UniformBSpline.fit([0.0, 1.0], [0.0, 1.0], num_spans=5), "no sample is left for coefficient"),
        (lambda: UniformBSpline.fit([0.0, 0.1, 0.2, 0.3, 0.4, 3.0], np.zeros(6), num_spans=3), "coefficient 5"),
        (lambda: UniformBSpline.fit([0.0, 1.0], [0.0], num_spans=1, degree=1), "there are 2 times"),
        (lambda: UniformBSpline.fit([0.0, 1.0], [0.0, 1.0], num_spans=1, degree=1, weights=[1, 0]), "not positive"),
        (lambda: UniformBSpline.fit([], [], num_spans=1), "0 samples"),
    ],
)
def test_impossible_curves_are_refused_by_name(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_curve_is_read_only_and_prints_what_it_is():
    curve = random_curve(3, False)
    assert repr(curve) == "UniformBSpline(degree 3, 7 spans, open, values (3,))"
    with pytest.raises(ValueError, match="read-only"):
        curve.coefficients[0] = 0.0
