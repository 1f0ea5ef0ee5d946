"""Closed forms of blending: durations, gravity, velocities, forces, pressure, polygons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.blend_laws import blend_acceleration, blend_pressure, gravity_factor, velocity_jump

from marey.base import InputError, UnknownNameError
from marey.blending import blend_duration, polygon_margin
from marey.blending.phases import blend_velocity, check_blend_weights

G = np.array([0.0, -9.81, 0.0])
UP = np.array([0.0, 1.0, 0.0])
share = st.floats(0.0, 1.0)
ratio = st.floats(1.0, 4.0)


@given(share, ratio, st.floats(0.1, 1.0))
def test_safonova_a26_sqrt_rule_keeps_gravity(w, rho, T1):
    T, weights = np.array([T1, rho * T1]), np.array([w, 1.0 - w])
    duration = blend_duration(T, weights)
    acceleration = blend_acceleration(np.stack([G, G]), T, weights, duration)
    np.testing.assert_allclose(acceleration, G, atol=1e-9)


@given(share, ratio, st.floats(0.1, 1.0))
def test_safonova_a26_linear_rule_multiplies_gravity(w, rho, T1):
    T, weights = np.array([T1, rho * T1]), np.array([w, 1.0 - w])
    duration = blend_duration(T, weights, "linear")
    fall = blend_acceleration(np.stack([G, G]), T, weights, duration)[1]
    assert fall == pytest.approx(-9.81 * (w + (1 - w) * rho**2) / (w + (1 - w) * rho) ** 2, abs=1e-9)
    assert gravity_factor(T, weights) == pytest.approx(fall / -9.81, abs=1e-9)


@pytest.mark.parametrize(("rho", "printed"), [(1.5, 1.042), (2.0, 1.125), (3.0, 1.333)])
def test_safonova_a26_largest_factor_of_the_linear_rule(rho, printed):
    grid = np.linspace(0.0, 1.0, 20_001)
    factors = [gravity_factor([1.0, rho], [w, 1.0 - w]) for w in grid]
    assert max(factors) == pytest.approx((1 + rho) ** 2 / (4 * rho), abs=1e-8)
    assert max(factors) == pytest.approx(printed, abs=1e-3)
    assert grid[int(np.argmax(factors))] == pytest.approx(rho / (1 + rho), abs=1e-3)


@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6), share, ratio)
def test_the_derivative_laws_are_those_of_the_blended_path(numbers, w, rho):
    a, b = np.array(numbers[:3]), np.array(numbers[3:])
    T, weights = np.array([0.4, 0.4 * rho]), np.array([w, 1.0 - w])
    duration = blend_duration(T, weights)

    def path(t):  # the blend of two parabolas, each scaled to the blended duration
        times = t * T / duration
        return weights[0] * (a * times[0] + 0.5 * b * times[0] ** 2) + weights[1] * (b * times[1] + a * times[1] ** 2)

    h, t = 1e-4, 0.1
    times = t * T / duration
    velocity = blend_velocity(np.stack([a + b * times[0], b + 2 * a * times[1]]), T, weights, duration)
    acceleration = blend_acceleration(np.stack([b, 2 * a]), T, weights, duration)
    np.testing.assert_allclose((path(t + h) - path(t - h)) / (2 * h), velocity, atol=1e-6)
    np.testing.assert_allclose((path(t + h) - 2 * path(t) + path(t - h)) / h**2, acceleration, atol=1e-4)


def test_durations_of_blends_of_blends_are_those_of_blends():
    T, w = np.array([0.3, 0.5, 0.9]), np.array([0.2, 0.3, 0.5])
    pair = blend_duration(T[:2], [0.4, 0.6])
    assert blend_duration([pair, T[2]], [0.5, 0.5]) == pytest.approx(blend_duration(T, w), abs=1e-12)


def test_safonova_a30_blends_of_forces_in_the_cone_are_in_the_cone():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        normal = rng.uniform(10.0, 1500.0, 2)
        size = rng.uniform(0.0, 0.8, 2) * normal
        angle = rng.uniform(0.0, 2.0 * np.pi, 2)
        forces = np.stack([size * np.cos(angle), normal, size * np.sin(angle)], axis=1)
        w = rng.uniform()
        T, weights = rng.uniform(0.2, 1.0, 2), np.array([w, 1.0 - w])
        blended = blend_acceleration(forces, T, weights, blend_duration(T, weights))
        assert blended[1] > 0.0
        assert np.hypot(blended[0], blended[2]) <= 0.8 * blended[1] + 1e-9


def test_safonova_a30_force_of_the_blend_is_the_blend_of_the_forces():
    """F = m (A - G) of the blended path equals the weighted forces only with the square-root rule."""
    rng = np.random.default_rng(1)
    A, T, w = rng.normal(size=(2, 3)), np.array([0.3, 0.6]), np.array([0.3, 0.7])
    for rule, is_equal in (("sqrt", True), ("linear", False)):
        duration = blend_duration(T, w, rule)
        of_blend = blend_acceleration(A, T, w, duration) - G
        of_forces = blend_acceleration(A - G, T, w, duration)
        assert np.allclose(of_blend, of_forces, atol=1e-9) == is_equal


def test_safonova_a30_opposite_tangential_forces_cancel():
    forces = np.array([[400.0, 600.0, 0.0], [-400.0, 600.0, 0.0]])
    T, w = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    np.testing.assert_allclose(blend_acceleration(forces, T, w, 0.5), [0.0, 600.0, 0.0], atol=1e-12)


def test_safonova_a31_a_common_polygon_holds_the_blend():
    rng = np.random.default_rng(2)
    for _ in range(300):
        polygon = rng.normal(size=(6, 2))
        inside = rng.dirichlet(np.ones(6), 2) @ polygon
        w = rng.uniform()
        assert polygon_margin(w * inside[0] + (1 - w) * inside[1], polygon) >= -1e-9


def test_safonova_a31_different_stances_may_lose_the_blend():
    first, second = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])
    blended = 0.5 * first + 0.5 * second
    com = 0.5 * np.array([1.0, 0.0]) + 0.5 * np.array([0.0, 0.0])
    assert polygon_margin(com, blended) == pytest.approx(-np.sqrt(0.125), abs=1e-12)


def test_margins_of_polygons_are_distances_to_edges():
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])
    assert polygon_margin([1.0, 0.5], square) == pytest.approx(0.5)
    assert polygon_margin([3.0, 3.0], square) == pytest.approx(-np.sqrt(2.0))
    assert polygon_margin([1.0, 0.0], [[1.0, 1.0]]) == pytest.approx(-1.0)


def test_safonova_a32_pressure_of_a_blend_is_the_direct_one():
    rng = np.random.default_rng(3)
    for _ in range(1000):
        w = rng.uniform()
        weights, T = np.array([w, 1.0 - w]), rng.uniform(0.2, 1.0, 2)
        centres = rng.normal(size=(2, 3)) + UP
        forces = rng.normal(size=(2, 3)) * [100.0, 0.0, 100.0] + rng.uniform(200.0, 900.0) * UP
        spin = rng.normal(size=(2, 3)) * 10.0  # rate of angular momentum about the centre of mass
        pressures = np.stack([_pressure(c, f, s) for c, f, s in zip(centres, forces, spin, strict=True)])
        duration = blend_duration(T, weights)
        centre = weights @ centres
        force, rate = (blend_acceleration(v, T, weights, duration) for v in (forces, spin))
        told = blend_pressure(pressures, forces, centres, T, weights)
        np.testing.assert_allclose(told, _pressure(centre, force, rate), atol=1e-9)


def _pressure(c, f, rate):
    """Where on the floor y = 0 a force acts that gives the rate of angular momentum about the centre of mass."""
    # (p - c) x f = rate, with p_y = 0
    x = c[0] + (rate[2] - c[1] * f[0]) / f[1]
    z = c[2] - (rate[0] + c[1] * f[2]) / f[1]
    return np.array([x, z])


def test_safonova_a33_velocity_jump_is_the_numeric_one():
    rng = np.random.default_rng(4)
    for _ in range(50):
        V, before, after = rng.normal(size=(2, 3)), rng.uniform(0.2, 1.0, 2), rng.uniform(0.2, 1.0, 2)
        w = np.array([0.3, 0.7])
        T, T_next = blend_duration(before, w), blend_duration(after, w)
        h = 1e-6
        left = sum(w[i] * V[i] * (-h * before[i] / T) for i in range(2)) / -h
        right = sum(w[i] * V[i] * (h * after[i] / T_next) for i in range(2)) / h
        np.testing.assert_allclose(velocity_jump(V, before, after, w), right - left, atol=1e-6)


def test_safonova_a33_equal_ratios_leave_no_jump():
    V = np.random.default_rng(5).normal(size=(2, 3))
    before, w = np.array([0.3, 0.5]), np.array([0.6, 0.4])
    assert np.abs(velocity_jump(V, before, 1.7 * before, w)).max() < 1e-12
    assert np.abs(velocity_jump(V, before, before[::-1], w)).max() > 1e-3


def test_safonova_a37_extrapolation_is_refused_by_default():
    with pytest.raises(InputError, match="extrapolate"):
        check_blend_weights([1.1, -0.1], 2)
    assert check_blend_weights([1.1, -0.1], 2, extrapolate=True).tolist() == [1.1, -0.1]
    with pytest.raises(InputError, match=r"-0\.25 to 1\.25"):
        check_blend_weights([1.5, -0.5], 2, extrapolate=True)


def test_durations_that_vanish_are_refused():
    with pytest.raises(InputError, match="no time"):
        blend_duration([0.1, 1.0], [1.25, -0.25])
    with pytest.raises(InputError, match="positive"):
        blend_duration([0.0, 1.0], [0.5, 0.5])
    with pytest.raises(UnknownNameError, match="sqrt"):
        blend_duration([1.0, 1.0], [0.5, 0.5], "square")


@pytest.mark.parametrize("weights", [[0.5], [0.4, 0.4], [np.nan, 1.0], [0.5, 0.5, 0.0]])
def test_weights_that_make_no_mixture_are_refused(weights):
    with pytest.raises(InputError):
        check_blend_weights(weights, 2)
