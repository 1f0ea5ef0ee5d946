"""Zero-phase low-pass filtering."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from marey.base import InputError
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion, lowpass
from marey.motion.time_series import continuous_signs, lowpass_values
from marey.skeleton import HUMAN


def test_a_slow_wave_passes_and_a_fast_one_is_removed():
    times = np.arange(600) / 120.0
    slow, fast = np.sin(2 * np.pi * times), np.sin(2 * np.pi * 40 * times)
    middle = slice(120, 480)
    assert np.abs(lowpass_values(slow + fast, 120.0, 6.0) - slow)[middle].max() < 2e-3


def test_the_amplitude_at_the_cutoff_has_dropped_by_3_db():
    times = np.arange(1200) / 120.0
    passed = lowpass_values(np.sin(2 * np.pi * 6.0 * times), 120.0, 6.0)
    assert np.abs(passed[400:800]).max() == pytest.approx(1 / np.sqrt(2), abs=2e-3)


def test_it_agrees_with_a_filter_run_forwards_and_backwards():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(2000)
    sections = butter(2, 5.0, fs=1000.0, output="sos")  # two passes of order 2: gain 1 / (1 + r^4)
    gain = 1.0 / (1.0 + (np.fft.rfftfreq(2000, 1e-3) / 5.0) ** 4)
    ours = lowpass_values(noise, 1000.0, 5.0, order=4)
    passes = sosfiltfilt(sections, noise)
    reference = np.fft.irfft(np.fft.rfft(noise) * gain, 2000)
    assert np.std((passes - reference)[500:1500]) < 1e-2 * np.std(noise)
    assert np.corrcoef(ours[500:1500], passes[500:1500])[0, 1] > 0.97  # the same band, the same phase


def test_a_straight_path_is_left_alone_up_to_its_ends(wild):
    times = np.arange(90) / 60.0
    straight = np.outer(times, [1.0, 0.0, 2.0]) + np.array([5.0, 0.9, -3.0])
    clip = lowpass(replace(wild, root_positions=straight), 6.0)
    np.testing.assert_allclose(clip.root_positions, straight, atol=1e-9)


def test_a_steady_spin_is_left_alone_up_to_its_ends():
    times = np.arange(240) / 120.0
    turns = np.zeros((240, HUMAN.num_joints, 3))
    turns[:, 0, 1] = 9.0 * times  # nearly three turns: the quaternion changes sign on the way
    clip = Motion(HUMAN, 120.0, np.zeros((240, 3)), SO3.exp(turns))
    assert geodesic_distance(lowpass(clip, 6.0).rotations, clip.rotations).max() < 1e-3


def test_noise_is_reduced_without_delay(wild_maker):
    clean = wild_maker(frames=480, rate_hz=120.0)
    rng = np.random.default_rng(1)
    shaken = replace(clean, rotations=clean.rotations @ SO3.exp(0.02 * rng.standard_normal((480, 22, 3))))
    before = geodesic_distance(shaken.rotations, clean.rotations).mean()
    after = geodesic_distance(lowpass(shaken, 6.0).rotations, clean.rotations).mean()
    assert after < 0.45 * before


def test_filtering_commutes_with_turning_the_world(wild):
    turn = SO3.exp([0.3, -1.2, 2.0])
    wxyz = wild.rotations.wxyz.copy()
    wxyz[:, 0] = (turn @ wild.rotations[:, 0]).wxyz
    turned = lowpass(replace(wild, rotations=SO3(wxyz)), 5.0).rotations[:, 0]
    assert geodesic_distance(turned, turn @ lowpass(wild, 5.0).rotations[:, 0]).max() < 1e-7


def test_the_sign_of_stored_quaternions_does_not_matter(wild):
    flipped = wild.rotations.wxyz * np.where(np.arange(90) % 4 == 1, -1.0, 1.0)[:, None, None]
    a, b = lowpass(wild, 5.0), lowpass(replace(wild, rotations=SO3(flipped)), 5.0)
    assert geodesic_distance(a.rotations, b.rotations).max() < 1e-7


def test_continuous_signs_keep_neighbours_on_one_side(wild):
    signed = continuous_signs(wild.rotations.wxyz * np.where(np.arange(90) % 2, -1.0, 1.0)[:, None, None])
    assert ((signed[1:] * signed[:-1]).sum(axis=-1) > 0).all()


def test_contacts_and_frame_count_are_kept(wild):
    clip = lowpass(wild, 6.0)
    assert clip.num_frames == wild.num_frames
    np.testing.assert_array_equal(clip.contacts.active, wild.contacts.active)


@pytest.mark.parametrize("frames", [1, 2, 3, 7])
def test_clips_of_a_few_frames_are_filtered_without_complaint(frames, wild):
    clip = lowpass(wild[:frames], 6.0)
    assert np.isfinite(clip.root_positions).all() and clip.num_frames == frames


@pytest.mark.parametrize("cutoff_hz", [0.0, -1.0, 30.0, 31.0])
def test_a_cutoff_outside_the_band_is_refused(cutoff_hz, wild):
    with pytest.raises(InputError, match="half the rate, 30"):
        lowpass(wild, cutoff_hz)


def test_an_order_below_one_is_refused(wild):
    with pytest.raises(InputError, match="order is 0"):
        lowpass(wild, 6.0, order=0)
