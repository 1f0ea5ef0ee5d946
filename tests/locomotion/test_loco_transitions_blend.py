"""Time-aligned blending and run-up: closed forms against their differential equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError, UnknownNameError
from marey.lie import SO3, geodesic_distance
from marey.locomotion.planning.run_up import (
    GAIT_CHANGE_S,
    MAX_ACCELERATION,
    clamp_approach_speed,
    gait_change_speed,
    mean_frequency,
    plan_run_up,
)
from marey.locomotion.transitions.alignment import BLEND_WEIGHTS, Alignment
from marey.locomotion.transitions.clips import PoseFrame, blend_frames

hertz = st.floats(0.3, 3.0)
spans = st.floats(0.05, 0.9)


@given(hertz, hertz, spans, spans)
def test_progress_follows_the_repaired_rate(a_hz, b_hz, span_a, span_b):
    blend = Alignment((0.02, 0.02 + span_a), (0.0, span_b), a_hz, b_hz)
    h = 1e-5
    for u in (0.1, 0.5, 0.9):
        t = u * blend.duration_s
        p = blend.progress(t)
        rate = (blend.progress(t + h) - blend.progress(t - h)) / (2.0 * h)
        assert rate == pytest.approx((1.0 - p) * a_hz / span_a + p * b_hz / span_b, rel=1e-5)


@given(hertz, hertz, spans, spans, st.floats(0.0, 1.0))
def test_time_and_progress_are_inverse(a_hz, b_hz, span_a, span_b, p):
    blend = Alignment((0.0, span_a), (0.1, 0.1 + span_b), a_hz, b_hz)
    assert blend.progress(blend.time_of(p)) == pytest.approx(p, abs=1e-9)
    assert blend.progress(blend.duration_s) == pytest.approx(1.0, abs=1e-12)


def phase_rates(blend, u):
    """Rates of both phases just inside one end of the blend [1/s]."""
    h = 1e-6
    t = (u * (blend.duration_s - 2.0 * h)) + h
    ahead, behind = blend.phases(blend.progress(t + h)), blend.phases(blend.progress(t - h))
    return [(x - y) / (2.0 * h) for x, y in zip(ahead, behind, strict=True)]


def test_both_motions_keep_their_own_pace_at_their_end_of_the_blend():
    blend = Alignment((0.0, 0.6), (0.0, 0.3), 1.0, 0.9)
    assert phase_rates(blend, 0.0)[0] == pytest.approx(1.0, rel=1e-4)
    assert phase_rates(blend, 1.0)[1] == pytest.approx(0.9, rel=1e-4)


def test_the_printed_rate_leaves_a_kink_at_the_end():
    blend = Alignment((0.0, 0.6), (0.0, 0.3), 1.0, 0.9, rate="glardon")
    assert phase_rates(blend, 0.0)[0] == pytest.approx(1.0, rel=1e-4)
    assert phase_rates(blend, 1.0)[1] == pytest.approx(0.9 * 0.3 / 0.6, rel=1e-4)


def test_a_shared_event_lies_between_its_places_in_both_motions():
    blend = Alignment((0.0, 0.5), (0.0, 0.4), 1.0, 1.0)
    assert blend.progress_of_shared_event(0.1, 0.08) == pytest.approx(0.2)
    p = blend.progress_of_shared_event(0.1, 0.24)
    assert p == pytest.approx((1.0 - p) * 0.2 + p * 0.6)
    assert blend.progress_of_shared_event(0.5, 0.0) == pytest.approx(0.5)


bends = st.floats(0.3, 3.0)


@given(hertz, hertz, bends, bends)
def test_bent_motions_follow_the_rate_and_keep_their_pace_at_their_ends(a_hz, b_hz, k_a, k_b):
    blend = Alignment((0.0, 0.6), (0.1, 0.5), a_hz, b_hz, bends=(k_a, k_b))
    h = 1e-5
    for u in (0.2, 0.5, 0.8):
        t = u * blend.duration_s
        p = blend.progress(t)
        rate = (blend.progress(t + h) - blend.progress(t - h)) / (2.0 * h)
        ahead, behind = blend.phases(p + 1e-6), blend.phases(p - 1e-6)
        slopes = [(x - y) / 2e-6 for x, y in zip(ahead, behind, strict=True)]
        assert rate == pytest.approx((1.0 - p) * a_hz / slopes[0] + p * b_hz / slopes[1], rel=2e-3)
    assert phase_rates(blend, 0.0)[0] == pytest.approx(a_hz, rel=2e-3)
    assert phase_rates(blend, 1.0)[1] == pytest.approx(b_hz, rel=2e-3)


@given(st.floats(0.2, 0.8), st.floats(0.2, 0.8))
def test_a_bend_brings_an_event_of_both_motions_together(p_a, p_b):
    straight = Alignment((0.0, 0.6), (0.1, 0.5), 1.0, 1.2)
    events = straight.phases(p_a)[0], straight.phases(p_b)[1]
    bent = straight.bend_to_meet(p_a, p_b)
    assert bent.places(*events) == pytest.approx((0.5 * (p_a + p_b),) * 2, abs=1e-9)
    nearer = straight.bend_to_meet(p_a, p_b, part=0.5).places(*events)
    assert abs(nearer[0] - nearer[1]) <= abs(p_a - p_b) + 1e-12
    assert straight.bend_to_meet(0.0, p_b) == straight


@given(bends, st.floats(-0.5, 1.5))
def test_places_undo_phases_also_outside_the_window(k, p):
    blend = Alignment((0.2, 0.6), (0.0, 1.0), 1.0, 1.0, bends=(k, 1.0 / k))
    assert blend.places(*blend.phases(p)) == pytest.approx((p, p), abs=1e-9)


@pytest.mark.parametrize("bad", [(0.0, 1.0), (1.0, np.nan), (-1.0, 1.0)])
def test_windows_that_cannot_be_lined_up_are_refused(bad):
    with pytest.raises(InputError):
        Alignment((0.0, 0.5), (0.0, 0.5), *bad)


def test_an_unknown_rate_is_refused_by_name():
    with pytest.raises(UnknownNameError, match="repaired"):
        Alignment((0.0, 0.5), (0.0, 0.5), 1.0, 1.0, rate="repared")


@pytest.mark.parametrize("name", sorted(BLEND_WEIGHTS))
def test_weights_go_from_none_to_all(name):
    weight = BLEND_WEIGHTS[name]
    assert weight(0.0) == 0.0
    assert weight(1.0) == pytest.approx(1.0)
    assert weight(0.5) == pytest.approx(0.5)
    assert all(weight(u + 0.01) > weight(u) for u in np.arange(0.0, 0.99, 0.01))
    if name != "linear":
        assert weight(1e-4) < 1e-6 > 1.0 - weight(1.0 - 1e-4)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_blended_rotations_are_slerp(seed, weight):
    rng = np.random.default_rng(seed)
    a, b = SO3.random(rng, 5), SO3.random(rng, 5)
    one, other = PoseFrame(rng.normal(size=3), a.wxyz), PoseFrame(rng.normal(size=3), b.wxyz)
    result = blend_frames(one, other, weight)
    assert geodesic_distance(SO3(result.rotations), a.slerp(b, weight)).max() < 1e-6
    assert np.allclose(result.root, (1.0 - weight) * one.root + weight * other.root)
    opposite = blend_frames(one, PoseFrame(one.root, -a.wxyz), weight)
    assert geodesic_distance(SO3(opposite.rotations), a).max() < 1e-7


def square_root_law(speed, run):
    return 0.743 * np.sqrt(max(speed, 0.0)) * (1.0 + 0.3 * run)


@given(st.floats(0.0, 1.0, exclude_max=True), st.floats(0.0, 3.0), st.floats(0.2, 3.0))
def test_a_run_up_ends_at_the_heel_strike_within_the_acceleration(phase, s1, s2):
    plan = plan_run_up(phase, (s1, 0.0), (s2, 0.0), square_root_law)
    assert abs(s2 - s1) <= MAX_ACCELERATION * (1.0 + 1e-9) * plan.duration_s
    assert (phase + plan.cycles) % 1.0 == pytest.approx(0.0, abs=1e-9) or (phase + plan.cycles) % 1.0 > 1.0 - 1e-9
    times = np.linspace(0.0, plan.duration_s, 4001)
    speeds = s1 + (s2 - s1) * times / max(plan.duration_s, 1e-12)
    law = np.array([square_root_law(s, 0.0) for s in speeds])
    passed = float(np.sum(0.5 * (law[1:] + law[:-1]) * np.diff(times)))
    assert passed == pytest.approx(plan.cycles, rel=2e-3)


def test_the_run_up_takes_the_fewest_cycles_that_are_slow_enough():
    plan = plan_run_up(0.25, (1.0, 0.0), (1.5, 0.0), square_root_law)
    shorter = (plan.cycles - 1.0) / mean_frequency((1.0, 0.0), (1.5, 0.0), square_root_law)
    assert shorter < 0.5 / MAX_ACCELERATION <= plan.duration_s


def test_glardon_s_mean_of_both_ends_misses_the_heel_strike():
    printed = plan_run_up(0.0, (0.0, 0.0), (1.5, 0.0), square_root_law, method="glardon")
    exact = mean_frequency((0.0, 0.0), (1.5, 0.0), square_root_law) * printed.duration_s
    assert abs(exact - printed.cycles) > 0.5


@given(st.floats(0.5, 3.0), st.floats(0.5, 3.0), st.integers(0, 1))
def test_the_gait_changes_where_people_change_it(s1, s2, w1):
    plan = plan_run_up(0.4, (s1, float(w1)), (s2, 1.0 - w1), square_root_law, change_at=2.0)
    times, speeds, runs = plan.knots()
    assert (times[-1], speeds[-1], runs[-1]) == pytest.approx((plan.duration_s, s2, 1.0 - w1))
    a, b = plan.change
    assert (b - a) * plan.duration_s >= GAIT_CHANGE_S * (1.0 - 1e-9)
    fine = np.linspace(0.0, plan.duration_s, 20_001)
    along = zip(np.interp(fine, times, speeds), np.interp(fine, times, runs), strict=True)
    law = np.array([square_root_law(speed, run) for speed, run in along])
    assert np.sum(0.5 * (law[1:] + law[:-1]) * np.diff(fine)) == pytest.approx(plan.cycles, rel=1e-4)
    if min(s1, s2) < 1.9 and max(s1, s2) > 2.1 and plan.duration_s > 2.0:
        middle = np.interp(0.5 * (a + b) * plan.duration_s, times, speeds)
        assert abs(middle - 2.0) < 0.11 + 0.5 * abs(s2 - s1) / plan.duration_s * GAIT_CHANGE_S


def test_people_change_gait_at_a_froude_number_of_one_half():
    assert gait_change_speed(0.9) ** 2 / (9.81 * 0.9) == pytest.approx(0.5)


def test_no_change_means_the_next_heel_strike():
    plan = plan_run_up(0.7, (1.2, 0.0), (1.2, 0.0), square_root_law)
    assert plan.cycles == pytest.approx(0.3)
    assert plan.duration_s == pytest.approx(0.3 / square_root_law(1.2, 0.0))


def test_left_take_off_aims_at_half_a_cycle():
    assert plan_run_up(0.7, (1.2, 0.0), (1.2, 0.0), square_root_law, target_phase=0.5).cycles == pytest.approx(0.8)


def test_a_run_up_of_too_many_cycles_is_infeasible():
    assert not plan_run_up(0.0, (0.5, 0.0), (9.0, 1.0), square_root_law).is_feasible
    assert not plan_run_up(0.0, (0.0, 0.0), (0.0, 0.0), square_root_law).is_feasible


def test_a_bad_acceleration_is_refused():
    with pytest.raises(InputError, match="max_acceleration"):
        plan_run_up(0.0, (1.0, 0.0), (1.2, 0.0), square_root_law, max_acceleration=float("nan"))


def test_the_approach_speed_is_the_nearest_in_the_stripe():
    assert clamp_approach_speed(1.0, 1.0, 0.1) == 1.0
    assert clamp_approach_speed(0.5, 1.0, 0.1) == pytest.approx(0.9)
    assert clamp_approach_speed(1.5, 1.0, 0.1) == pytest.approx(1.1)
