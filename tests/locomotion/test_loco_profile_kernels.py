"""The compiled parts of the profile search, each against plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gait_tables import tabulate_frequency

from marey.locomotion.planning.baselines import search_linear_frequency_profile
from marey.locomotion.planning.speed_profile import (
    BACKWARDS,
    FOUND,
    TOO_CLOSE,
    TOO_FAST,
    TOO_HARD,
    FrequencyTable,
    ProfileProblem,
    StrikePlace,
    evaluate_speed,
    integrate_cycles,
    interpolate_cadence,
    plan_profile,
    profile_coefficients,
    profile_extremes,
    search_heel_strikes,
    solve_duration,
)

SPEEDS = np.array([0.0, 0.3, 0.8, 1.5, 2.5, 4.0])
HERTZ = np.array([[0.0, 0.45, 0.75, 0.98, 1.2, 1.45], [0.0, 0.9, 1.15, 1.28, 1.4, 1.55]])


@given(speed=st.floats(0.0, 5.0), run=st.floats(0.0, 1.0))
def test_frequency_is_linear_between_speeds_and_gaits(speed, run):
    walks, runs = (np.interp(speed, SPEEDS, row) for row in HERTZ)
    assert interpolate_cadence(SPEEDS, HERTZ, speed, run) == pytest.approx((1.0 - run) * walks + run * runs, abs=1e-12)


def test_frequency_of_a_speed_below_zero_is_zero():
    assert interpolate_cadence(SPEEDS, HERTZ, -0.5, 0.5) == 0.0


@settings(max_examples=60)
@given(
    s1=st.floats(0.0, 2.0),
    s2=st.floats(0.0, 2.0),
    distance=st.floats(0.5, 12.0),
    duration=st.floats(0.5, 12.0),
    push=st.floats(-0.5, 0.5),
)
def test_coefficients_solve_their_linear_equations(s1, s2, distance, duration, push):
    """Both ends, the distance and, for the quartic, both end accelerations, by a general solver."""
    powers = np.empty(5)
    rows = [[1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]]
    for is_quartic, more, values in (
        (False, [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], [0.0, 0.0]),
        (True, [[0, 1, 0, 0, 0], [0, 1, 2, 3, 4]], [push * duration, 0.0]),
    ):
        profile_coefficients(is_quartic, np.array([s1, s2, push]), distance, duration, powers)
        solved = np.linalg.solve(np.array(rows + more), [s1, s2, distance / duration, *values])
        np.testing.assert_allclose(powers, solved, atol=1e-8)


def test_cycles_are_the_integral_of_the_frequency():
    powers, runs = np.array([0.4, 1.0, -0.3, 0.2, -0.1]), np.array([0.2, 0.9])
    u = np.linspace(0.0, 1.0, 200_001)
    speed = np.polynomial.polynomial.polyval(u, powers)
    share = runs[0] + (runs[1] - runs[0]) * u
    walks, ran = (np.interp(speed, SPEEDS, row) for row in HERTZ)
    rates = (1.0 - share) * walks + share * ran
    for end in (0.3, 1.0):
        inside = u <= end + 1e-12
        exact = 3.0 * np.trapezoid(rates[inside], u[inside])
        assert integrate_cycles(SPEEDS, HERTZ, powers, runs, 3.0, end) == pytest.approx(exact, abs=2e-4)


def test_speed_and_shape_of_a_parabola():
    powers = np.array([1.0, -2.0, 2.0, 0.0, 0.0])
    assert evaluate_speed(powers, 0.5) == pytest.approx(0.5)
    low, high, hardest = profile_extremes(powers, 4.0)
    assert (low, high, hardest) == pytest.approx((0.5, 1.0, 0.5))


@settings(max_examples=40)
@given(cycles=st.floats(2.0, 9.0), s1=st.floats(0.4, 2.0), s2=st.floats(0.4, 2.0))
def test_duration_makes_the_cycles_asked_for_or_says_on_which_side_it_fails(cycles, s1, s2):
    ends, runs, powers = np.array([s1, s2, 0.0]), np.zeros(2), np.empty(5)
    bracket = (6.0 / 4.0, 18.0 / (s1 + s2 - np.sqrt(s1 * s2)))
    duration = solve_duration(ProfileProblem(SPEEDS, HERTZ, runs, ends, False), 6.0, cycles, *bracket, powers)
    if duration > 0.0:
        assert bracket[0] <= duration <= bracket[1]
        assert integrate_cycles(SPEEDS, HERTZ, powers, runs, duration, 1.0) == pytest.approx(cycles, abs=1e-9)
    else:
        at = bracket[0] if duration == -1.0 else bracket[1]
        profile_coefficients(False, ends, 6.0, at, powers)
        missing = integrate_cycles(SPEEDS, HERTZ, powers, runs, at, 1.0) - cycles
        assert missing > 0.0 if duration == -1.0 else missing < 0.0


@pytest.mark.parametrize(
    ("ends", "place", "limits", "code"),
    [
        ((1.1, 1.3, 0.0), (6.0, 0.2, 0.0, 0.05, 0.0), (4.0, 1.0), FOUND),
        ((2.0, 2.0, 0.0), (0.15, 0.0, 0.0, 0.05, 0.0), (2.1, 9.0), BACKWARDS),
        ((1.1, 1.3, 0.0), (6.0, 0.2, 0.0, 0.05, 0.0), (4.0, 1e-3), TOO_HARD),
        ((1.1, 1.3, 0.0), (6.0, 0.2, 0.0, 0.05, 0.0), (1.2, 9.0), TOO_FAST),
        ((1.1, 1.3, 0.0), (1.0, 0.2, 0.0, 50.0, 0.0), (4.0, 1.0), TOO_CLOSE),
    ],
)
def test_search_tells_what_is_wrong(ends, place, limits, code):
    problem = ProfileProblem(SPEEDS, HERTZ, np.zeros(2), np.array(ends), False)
    assert search_heel_strikes(problem, StrikePlace(*place, *limits), np.zeros(8)) == code


def test_search_prefers_the_duration_asked_for():
    table = FrequencyTable(SPEEDS, HERTZ)
    short, long = (plan_profile(table, 0.0, 0.0, 3.0, 0.0, lasting_s=s).duration_s for s in (4.0, 8.0))
    assert short < long
    assert abs(short - 4.0) < 1.6


def test_linear_profile_gives_up_where_there_is_no_way_or_no_speed():
    for speeds, hertz, distance in (
        ((1.0, 1.0), (0.8, 0.8), 0.0),
        ((0.0, 0.0), (0.8, 0.8), 2.0),
        ((1.0, 1.0), (0.0, 0.0), 2.0),
    ):
        assert search_linear_frequency_profile(speeds, hertz, distance, 0.0, is_signed=False)[3] != 0


def test_linear_profile_walks_towards_the_smaller_change_of_acceleration():
    """Example A of the thesis: s1 0.2, s2 1.6 m/s over 16 m from phase 0.3; its neighbours bend more."""
    hertz = (0.743 * np.sqrt(0.2 / 0.88), 0.743 * np.sqrt(1.6 / 0.88))
    powers, duration, final, code = search_linear_frequency_profile((0.2, 1.6), hertz, 16.0, 0.3, is_signed=False)
    assert code == 0
    assert 9.0 <= final <= 14.0  # the candidates that the thesis lists
    bend = abs(2.0 * powers[2] / duration)
    for other in (final - 1.0, final + 1.0):
        t = 2.0 * (other - 0.3) / sum(hertz)
        assert abs(6.0 * (1.8 * t - 32.0) / t**2) >= bend - 1e-9


def test_profile_of_a_changing_gait_takes_the_mixed_frequency():
    table = FrequencyTable(SPEEDS, HERTZ)
    walk = plan_profile(table, 1.5, 1.5, 8.0, 0.0)
    mixed = plan_profile(table, 1.5, 1.5, 8.0, 0.0, run=(0.0, 1.0))
    assert mixed.num_cycles / mixed.duration_s > walk.num_cycles / walk.duration_s
    assert float(mixed.run_at(mixed.duration_s)) == 1.0


def test_table_of_a_function_is_dense_where_cadence_bends():
    table = tabulate_frequency(lambda s, run: float(np.sqrt(s)) * (1.0 + run), fastest_mps=4.0)
    speeds = np.linspace(0.05, 4.0, 300)
    errors = [abs(table.at(float(s), 0.5) - 1.5 * np.sqrt(s)) for s in speeds]
    assert max(errors) < 2e-3
