"""Resampling in time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion, resample
from marey.skeleton import HUMAN


def spin(frames: int, rate_hz: float, omega: float) -> Motion:
    times = np.arange(frames) / rate_hz
    turns = np.zeros((frames, HUMAN.num_joints, 3))
    turns[..., 1] = omega * times[:, None]
    return Motion(HUMAN, rate_hz, np.outer(times, [1.0, 0.0, 2.0]), SO3.exp(turns))


def test_halving_the_rate_keeps_every_second_frame_bit_by_bit(wild):
    half = resample(wild, 30.0)
    np.testing.assert_array_equal(half.root_positions, wild.root_positions[::2])
    np.testing.assert_array_equal(half.rotations.wxyz, wild.rotations.wxyz[::2])
    np.testing.assert_array_equal(half.contacts.active, wild.contacts.active[::2])


def test_doubling_the_rate_and_halving_it_again_is_nothing(wild):
    back = resample(resample(wild, 120.0), 60.0)
    np.testing.assert_array_equal(back.rotations.wxyz, wild.rotations.wxyz)
    np.testing.assert_array_equal(back.root_positions, wild.root_positions)


def test_the_same_rate_gives_the_same_motion(wild):
    assert resample(wild, 60.0) is wild


@given(rate_hz=st.floats(5.0, 500.0))
def test_a_steady_motion_stays_steady_at_any_rate(rate_hz):
    clip = spin(61, 60.0, 2.5)
    other = resample(clip, rate_hz)
    times = other.times()
    np.testing.assert_allclose(other.root_positions, np.outer(times, [1.0, 0.0, 2.0]), atol=1e-12)
    exact = SO3.exp(np.stack([0 * times, 2.5 * times, 0 * times], axis=-1))
    assert geodesic_distance(other.rotations[:, 4], exact).max() < 1e-7


@pytest.mark.parametrize("rate_hz", [23.976, 29.97, 59.94, 119.88])
def test_film_and_television_rates_are_kept_as_they_are(rate_hz, wild):
    clip = resample(wild, rate_hz)
    assert clip.rate_hz == rate_hz
    assert clip.num_frames == int(wild.duration_s * rate_hz) + 1
    assert wild.duration_s - clip.duration_s < 1.0 / rate_hz


def test_a_long_clip_does_not_drift_at_29_97_hz():
    clip = spin(36001, 120.0, 0.01)
    other = resample(clip, 29.97)
    last = other.num_frames - 1
    assert other.root_positions[-1, 0] == pytest.approx(last / 29.97, abs=1e-9)


def test_contacts_are_those_of_the_nearest_frame(wild):
    other = resample(wild, 47.0)
    nearest = np.minimum(np.floor(np.arange(other.num_frames) * 60.0 / 47.0 + 0.5), 89).astype(int)
    np.testing.assert_array_equal(other.contacts.active, wild.contacts.active[nearest])


def test_quaternions_of_either_sign_give_the_same_rotations(wild):
    flipped = wild.rotations.wxyz.copy()
    flipped[::3] *= -1.0
    a, b = resample(wild, 101.0), resample(replace(wild, rotations=SO3(flipped)), 101.0)
    assert geodesic_distance(a.rotations, b.rotations).max() < 1e-7


def test_moving_offsets_are_interpolated_too(wild):
    moving = np.broadcast_to(np.arange(90.0)[:, None, None], (90, 22, 3))
    clip = resample(replace(wild, translations=moving), 120.0)
    np.testing.assert_allclose(clip.translations[:, 5, 1], np.arange(179) / 2.0, atol=1e-12)


def test_a_single_frame_stays_a_single_frame(wild):
    assert resample(wild[:1], 30.0).num_frames == 1


@pytest.mark.parametrize("rate_hz", [0.0, -30.0, float("nan"), float("inf")])
def test_a_rate_that_is_no_rate_is_refused(rate_hz, wild):
    with pytest.raises(InputError, match="positive"):
        resample(wild, rate_hz)


def test_a_request_for_absurdly_many_frames_is_refused_with_their_count():
    with pytest.raises(InputError, match=r"asks for 3.98e\+12 frames"):
        resample(spin(240, 60.0, 1.0), 1e12)


def test_a_slice_that_never_moves_on_is_refused():
    with pytest.raises(InputError, match="step 0"):
        spin(3, 60.0, 1.0)[::0]
