"""Smoothing and differentiation of clips."""

import numpy as np
import pytest

from marey.base import InputError
from marey.dynamics import Body, solve_inverse_dynamics
from marey.dynamics.inverse.differentiation import compute_differences, compute_states, smooth_motion, smooth_values
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion, lowpass
from marey.skeleton import HUMAN, Skeleton

ONE = Skeleton(("root",), np.array([-1]), np.zeros((1, 3)))


def turning(turns: SO3, rate_hz: float = 120.0) -> Motion:
    return Motion(ONE, rate_hz, np.zeros((len(turns), 3)), turns.reshape(len(turns), 1))


def wave(frequency_hz: float, rate_hz: float = 120.0, count: int = 1200) -> np.ndarray:
    return np.sin(2.0 * np.pi * frequency_hz * np.arange(count) / rate_hz)[:, None]


@pytest.mark.parametrize("frequency", [1.0, 3.0, 6.0, 12.0, 30.0])
def test_the_gain_is_the_documented_one_and_nothing_is_delayed(frequency):
    values = wave(frequency)
    found = smooth_values(values, 120.0, 6.0)[300:900]
    ratio = np.sin(np.pi * frequency / 120.0) / np.sin(np.pi * 6.0 / 120.0)
    gain = 1.0 / (1.0 + (np.sqrt(2.0) - 1.0) * ratio**6)
    np.testing.assert_allclose(found, gain * values[300:900], atol=2e-6)


def test_a_parabola_passes_unchanged_up_to_its_ends():
    times = np.arange(80)[:, None] / 120.0
    path = 1.0 + 2.0 * times - 0.5 * 9.81 * times**2
    np.testing.assert_allclose(smooth_values(path, 120.0, 6.0), path, atol=1e-9)
    first, second = compute_differences(path, 120.0)
    np.testing.assert_allclose(first, 2.0 - 9.81 * times, atol=1e-9)
    np.testing.assert_allclose(second, -9.81, atol=1e-7)


def test_smoothing_does_not_depend_on_where_the_world_begins():
    rng = np.random.default_rng(1)
    noise = np.cumsum(rng.normal(size=(60, 3)), axis=0)
    line = 1e4 + np.outer(np.arange(60.0), [1.0, -2.0, 3.0])
    moved = smooth_values(noise + line, 60.0, 4.0) - line
    np.testing.assert_allclose(moved, smooth_values(noise, 60.0, 4.0), atol=1e-8)


def test_differences_are_of_fourth_order():
    def error(rate_hz: float) -> float:
        times = np.arange(int(2 * rate_hz)) / rate_hz
        _, second = compute_differences(np.sin(5.0 * times)[:, None], rate_hz)
        return float(np.abs(second[3:-3, 0] + 25.0 * np.sin(5.0 * times[3:-3])).max())

    assert np.log2(error(60.0) / error(120.0)) == pytest.approx(4.0, abs=0.1)


def test_a_spin_at_constant_rate_has_that_rate_and_no_change():
    axis = np.array([0.6, 0.0, 0.8])
    turns = SO3.exp(np.outer(np.arange(50) / 120.0, 7.0 * axis))
    found = compute_states(turning(turns))
    np.testing.assert_allclose(found.rates[3:-3, 0], np.tile(7.0 * axis, (44, 1)), atol=1e-5)
    np.testing.assert_allclose(found.rate_changes[3:-3, 0], 0.0, atol=1e-6)


def test_rates_of_a_wobble_equal_its_closed_form():
    """Yaw a(t) then pitch b(t): in the body's frame the rate is (b', a' cos b, -a' sin b)."""
    t = np.arange(400) / 400.0
    a, b = 1.2 * np.sin(3.0 * t), 0.9 * np.cos(4.0 * t)
    turns = SO3.from_axis_angle([0.0, 1.0, 0.0], a) @ SO3.from_axis_angle([1.0, 0.0, 0.0], b)
    da, db = 3.6 * np.cos(3.0 * t), -3.6 * np.sin(4.0 * t)
    dda, ddb = -10.8 * np.sin(3.0 * t), -14.4 * np.cos(4.0 * t)
    rates = np.stack([db, da * np.cos(b), -da * np.sin(b)], axis=1)
    changes = np.stack([ddb, dda * np.cos(b) - da * db * np.sin(b), -dda * np.sin(b) - da * db * np.cos(b)], axis=1)
    found = compute_states(turning(turns, 400.0))
    np.testing.assert_allclose(found.rates[3:-3, 0], rates[3:-3], atol=1e-6)
    np.testing.assert_allclose(found.rate_changes[3:-3, 0], changes[3:-3], atol=1e-4)


def test_signs_of_quaternions_do_not_matter():
    rng = np.random.default_rng(3)
    turns = SO3.exp(np.cumsum(rng.normal(scale=0.02, size=(40, 3)), axis=0))
    flipped = SO3(turns.wxyz * rng.choice([-1.0, 1.0], size=(40, 1)))
    for cutoff in (None, 6.0):
        a, b = compute_states(turning(turns), cutoff), compute_states(turning(flipped), cutoff)
        np.testing.assert_allclose(a.rate_changes, b.rate_changes, atol=1e-8)


def test_smoothing_commutes_with_turning_the_world():
    rng = np.random.default_rng(4)
    turns = SO3.exp(np.cumsum(rng.normal(scale=0.05, size=(60, 3)), axis=0))
    R = SO3.random(rng)
    a = smooth_motion(turning(R @ turns), 6.0).rotations.reshape(60)
    b = R @ smooth_motion(turning(turns), 6.0).rotations.reshape(60)
    assert (a.inverse() @ b).angle().max() < 1e-9


@pytest.mark.parametrize("cutoff", [0.0, -3.0, 60.0, np.inf, np.nan])
def test_a_cutoff_outside_the_band_is_refused(cutoff):
    with pytest.raises(InputError, match="half the rate"):
        smooth_motion(turning(SO3.identity(10)), cutoff)


def test_a_low_frame_rate_caps_the_cutoff():
    still = Motion(HUMAN, 10.0, np.zeros((8, 3)), SO3.identity(8, 22))
    assert solve_inverse_dynamics(Body.from_skeleton(HUMAN), still).cutoff_hz == pytest.approx(4.0)


def test_a_short_clip_is_not_smoothed():
    values = np.array([[0.0], [1.0], [-1.0]])
    np.testing.assert_array_equal(smooth_values(values, 120.0, 6.0), values)


def test_frames_near_the_ends_are_not_settled():
    still = Motion(HUMAN, 120.0, np.zeros((60, 3)), SO3.identity(60, 22))
    settled = solve_inverse_dynamics(Body.from_skeleton(HUMAN), still).settled
    assert not settled[:6].any()
    assert not settled[-6:].any()
    assert settled[6:-6].all()


@pytest.mark.mocap
def test_where_a_clip_is_cut_its_forces_change_less_than_with_a_reflecting_filter(mocap):
    walk = load(mocap / "cmu-bvh" / "16_47.bvh")
    body = Body.from_motion(walk)
    whole = solve_inverse_dynamics(body, walk).vertical_force
    ours, theirs, inside = [], [], []
    for start in range(40, len(walk) - 160, 23):
        part = walk[start : start + 120]
        cut = solve_inverse_dynamics(body, part)
        change = cut.vertical_force - whole[start : start + 120]
        other = (
            solve_inverse_dynamics(body, lowpass(part, 6.0), cutoff_hz=None).vertical_force - whole[start : start + 120]
        )
        edge = ~cut.settled
        ours.append(np.mean(change[edge] ** 2))
        theirs.append(np.mean(other[edge] ** 2))
        inside.append(np.mean(change[cut.settled] ** 2))
    assert np.sqrt(np.mean(ours)) < np.sqrt(np.mean(theirs))
    assert np.sqrt(np.mean(inside)) < 0.02


@pytest.mark.parametrize(("rate_hz", "cutoff_hz"), [(120.0, 6.0), (120.0, 0.5), (1000.0, 6.0), (2000.0, 6.0)])
def test_a_parabola_keeps_its_acceleration_at_any_rate(rate_hz, cutoff_hz):
    t = np.arange(int(4.0 * rate_hz)) / rate_hz
    path = (1.0 + 3.0 * t - 0.5 * 9.81 * t**2)[:, None]
    found = compute_differences(smooth_values(path, rate_hz, cutoff_hz), rate_hz)[1]
    np.testing.assert_allclose(found, -9.81, atol=1e-5)  # rounding of 40 m is 4e-15, times the rate squared


@pytest.mark.parametrize(("rate_hz", "cutoff_hz"), [(120.0, 0.1), (2000.0, 1e-3), (1e6, 6.0)])
def test_a_cutoff_that_rounding_would_hide_is_refused(rate_hz, cutoff_hz):
    with pytest.raises(InputError, match="Resample"):
        smooth_values(np.zeros((10, 3)), rate_hz, cutoff_hz)
