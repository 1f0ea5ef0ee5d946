"""Splines on phase-aligned knots, against scipy, quadrature and the laws of B-splines (Fang A21, A22)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad_vec
from scipy.interpolate import BSpline

from marey.base import InputError, MareyError
from marey.numerics import KnotSpline, evaluate_clamped_spline

EDGES = [0.0, 0.35, 0.75, 1.3]


def spline(multiplicity=2):
    return KnotSpline.phases(EDGES, 0.1, multiplicity)


def test_a21_values_sum_to_one_and_derivatives_to_zero():
    curve, t = spline(), np.linspace(0.0, 1.3, 401)
    np.testing.assert_allclose(curve.design(t).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for derivative, scale in ((1, 0.1), (2, 0.01), (3, 0.001)):
        assert np.abs(curve.design(t, derivative).sum(axis=1)).max() * scale < 1e-12


def test_a21_at_most_four_functions_live_at_any_time():
    design = spline().design(np.linspace(0.0, 1.3, 97))
    assert np.diff(design.indptr).max() == 4


@pytest.mark.parametrize("derivative", [0, 1, 2, 3])
def test_design_agrees_with_scipy(derivative):
    curve, t = spline(), np.linspace(0.003, 1.297, 211)
    c = np.random.default_rng(0).normal(size=(curve.num_coefficients, 3))
    expected = BSpline(curve.knots, c, 3)(t, nu=derivative)
    np.testing.assert_allclose(curve.design(t, derivative) @ c, expected, rtol=1e-9, atol=1e-9)


def test_a21_second_derivative_jumps_only_at_double_knots():
    curve = spline()
    c = np.random.default_rng(1).normal(size=curve.num_coefficients)
    inner = curve.breaks[1:-1]
    jumps = np.abs(curve.design(inner, 2, "right") @ c - curve.design(inner, 2, "left") @ c)
    is_edge = np.isin(inner, EDGES)
    assert jumps[is_edge].min() > 1.0
    assert jumps[~is_edge].max() < 1e-8
    first = np.abs(curve.design(inner, 1, "right") @ c - curve.design(inner, 1, "left") @ c)
    assert first.max() < 1e-10


def test_simple_knots_keep_accelerations_continuous():
    curve = spline(multiplicity=1)
    c = np.random.default_rng(1).normal(size=curve.num_coefficients)
    inner = curve.breaks[1:-1]
    assert np.abs(curve.design(inner, 2, "right") @ c - curve.design(inner, 2, "left") @ c).max() < 1e-8


def test_ends_are_the_end_coefficients_from_either_side():
    curve = spline()
    for side in ("left", "right"):
        ends = curve.design([0.0, 1.3], side=side).toarray()
        assert ends[0, 0] == pytest.approx(1.0)
        assert ends[1, -1] == pytest.approx(1.0)


def test_a22_gram_equals_adaptive_quadrature():
    curve = spline()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, curve.num_spans)
    gram = curve.second_derivative_gram(weights).toarray()
    exact = np.zeros_like(gram)
    for s, (a, b) in enumerate(zip(curve.breaks[:-1], curve.breaks[1:], strict=True)):

        def integrand(t, middle=0.5 * (a + b), half=0.5 * (b - a)):
            row = curve.design([middle + half * t], 2).toarray()[0]
            return half * np.outer(row, row)

        exact += weights[s] * quad_vec(integrand, -1.0, 1.0, epsrel=1e-12)[0]
    np.testing.assert_allclose(gram, exact, rtol=0, atol=1e-10 * np.abs(exact).max())


def test_a22_gram_has_half_bandwidth_three_and_nullity_two():
    gram = spline().second_derivative_gram().toarray()
    rows, columns = np.nonzero(np.abs(gram) > 1e-9 * np.abs(gram).max())
    assert np.abs(rows - columns).max() == 3
    eigenvalues = np.linalg.eigvalsh(gram)
    assert np.sum(eigenvalues < 1e-10 * eigenvalues[-1]) == 2


@settings(max_examples=25, deadline=None)
@given(factor=st.integers(1, 4), seed=st.integers(0, 99), multiplicity=st.integers(1, 3))
def test_refinement_keeps_the_curve(factor, seed, multiplicity):
    curve = spline(multiplicity)
    finer, matrix = curve.refine(factor)
    c, t = np.random.default_rng(seed).normal(size=curve.num_coefficients), np.linspace(0.0, 1.3, 101)
    assert finer.num_spans == factor * curve.num_spans
    for derivative in range(3):
        old = curve.design(t, derivative) @ c
        new = finer.design(t, derivative) @ (matrix @ c)
        np.testing.assert_allclose(new, old, rtol=0, atol=1e-12 * 400.0**derivative)


def test_fit_gives_back_what_was_sampled():
    curve, t = spline(), np.linspace(0.0, 1.3, 200)
    c = np.random.default_rng(3).normal(size=(curve.num_coefficients, 2))
    np.testing.assert_allclose(curve.fit(t, curve.design(t) @ c), c, atol=1e-5)


def test_a_line_has_its_own_values_as_coefficients():
    curve, t = spline(), np.linspace(0.0, 1.3, 50)
    np.testing.assert_allclose(curve.design(t) @ curve.greville, t, atol=1e-12)


def test_gauss_times_integrate_cubics_exactly():
    times, weights = spline().gauss_times(2)
    assert weights @ times**3 == pytest.approx(1.3**4 / 4, rel=1e-12)
    assert np.all(np.diff(times) > 0.0)


def test_phase_of_whole_spans_is_not_cut_once_more():
    assert KnotSpline.phases([0.0, 0.3], 0.1).num_spans == 3
    assert KnotSpline.phases([0.0, 0.35], 0.1).num_spans == 4
    assert KnotSpline.phases([0.0, 0.4, 1.0], [0.1, 0.3]).num_spans == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KnotSpline.phases([0.0, 0.05, 1.0], 0.1, names=["push", "flight"]), "push"),
        (lambda: KnotSpline.phases([0.0, 0.5, 0.5], 0.1), "phase '1' lasts 0 s"),
        (lambda: KnotSpline.phases([0.0, 1.0], -0.1), "spacing is positive"),
        (lambda: KnotSpline.phases([0.0], 0.1), "two edges"),
        (lambda: KnotSpline(np.zeros(8)), "repeated too often"),
        (lambda: KnotSpline(np.arange(8.0)), "not clamped"),
        (lambda: KnotSpline([0, 0, 0, 0, 2, 1, 3, 3, 3, 3]), "fall after 2"),
        (lambda: KnotSpline([0, 0, 0, 1]), "at least 8"),
        (lambda: spline().design([1.4]), "outside the curve"),
        (lambda: spline().design([0.5], 4), "order 4"),
        (lambda: spline().refine(0), "at least one"),
    ],
)
def test_bad_input_is_refused_with_its_reason(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KnotSpline.phases([0.0, 1.0], 1e-12), "over 100000 spans"),
        (lambda: KnotSpline.phases([0.0, 1.0], [0.1, 0.2]), "span_s has shape"),
        (lambda: KnotSpline.phases([0.0, 1.0], 0.1, names=["a", "b"]), "2 names for 1 phases"),
        (lambda: spline().fit([0.0, 0.5], [np.nan, 1.0]), "values holds nan"),
        (lambda: spline().fit([0.0, 0.5], [1.0, 2.0, 3.0]), "there are 2 times"),
        (lambda: spline().fit([], np.zeros((0, 2))), "there are 0 times"),
        (lambda: spline().second_derivative_gram([1.0, 2.0]), "weights has shape"),
        (lambda: spline().gauss_times(0), "0 Gauss points"),
        (lambda: spline().local([0.1], side="up"), "no side 'up'"),
        (lambda: spline().design([1.4]), "outside the curve"),
    ],
)
def test_what_cannot_be_fitted_is_refused(call, message):
    with pytest.raises(MareyError, match=message):
        call()


@pytest.mark.parametrize("count", [2, 3, 4, 5, 12])
def test_curves_of_control_points_agree_with_scipy(count):
    points = np.random.default_rng(count).normal(size=(count, 3))
    degree = min(3, count - 1)
    spans = count - degree
    knots = np.concatenate([np.zeros(degree), np.linspace(0.0, 1.0, spans + 1), np.ones(degree)])
    u = np.linspace(0.0, 1.0, 97)
    want = BSpline(knots, points, degree)(u)
    np.testing.assert_allclose(evaluate_clamped_spline(points, u), want, atol=1e-14)
    assert evaluate_clamped_spline(points, u.reshape(97, 1, 1)).shape == (97, 1, 1, 3)


def test_curves_of_control_points_meet_their_ends_and_go_no_farther():
    points = np.random.default_rng(0).normal(size=(7, 2))
    ends = evaluate_clamped_spline(points, np.array([0.0, 1.0, np.nextafter(1.0, 2.0)]))
    np.testing.assert_array_equal(ends, points[[0, -1, -1]])
    for outside in (1.5, np.nan):
        with pytest.raises(InputError, match="outside"):
            evaluate_clamped_spline(points, np.array([outside]))
