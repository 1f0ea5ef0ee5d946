"""Defects put into good clips are found where they were put and mended; nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.stiff_walk import make_stiff_walk

from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.motion.cleaning import (
    GapSettings,
    drop_repeated_frames,
    fill_gaps,
    measure_tremor,
    remove_spikes,
    remove_tremor,
    undo_exchanges,
    undo_flips,
    undo_root_jumps,
)

LEGS = [("left_hip", "right_hip"), ("left_knee", "right_knee"), ("left_ankle", "right_ankle")]


@pytest.fixture(scope="module")
def good() -> Motion:
    return make_stiff_walk()


def damage(motion: Motion, wxyz: np.ndarray | None = None, positions: np.ndarray | None = None) -> Motion:
    rotations = motion.rotations if wxyz is None else SO3(wxyz)
    return replace(
        motion, rotations=rotations, root_positions=motion.root_positions if positions is None else positions
    )


def furthest_mm(a: Motion, b: Motion) -> float:
    return 1e3 * float(np.linalg.norm(a.joint_positions() - b.joint_positions(), axis=-1).max())


def test_a_good_clip_is_returned_as_it_is(good):
    for step in (fill_gaps, drop_repeated_frames, remove_spikes, undo_flips, undo_exchanges, undo_root_jumps):
        correction = step(good)
        assert correction.motion is good, step
        assert correction.findings == (), step


def test_a_gap_is_filled_near_to_what_was_lost(good):
    lost = round(0.08 * good.rate_hz)
    wxyz, positions = good.rotations.wxyz.copy(), good.root_positions.copy()
    wxyz[30 : 30 + lost], positions[30 : 30 + lost] = wxyz[30], positions[30]
    correction = fill_gaps(damage(good, wxyz, positions))
    assert len(correction.findings) == 1
    assert furthest_mm(correction.motion, good) < 15.0
    assert furthest_mm(damage(good, wxyz, positions), good) > 60.0


def test_a_drop_to_the_origin_is_a_gap(good):
    wxyz, positions = good.rotations.wxyz.copy(), good.root_positions.copy()
    wxyz[40:46], positions[40:46] = SO3.identity(wxyz.shape[1]).wxyz, 0.0
    assert furthest_mm(fill_gaps(damage(good, wxyz, positions)).motion, good) < 20.0


def test_a_long_gap_is_reported_and_left(good):
    wxyz, positions = good.rotations.wxyz.copy(), good.root_positions.copy()
    wxyz[20:40], positions[20:40] = wxyz[20], positions[20]
    broken = damage(good, wxyz, positions)
    correction = fill_gaps(broken, GapSettings(longest_s=5.0 / good.rate_hz))
    assert correction.motion is broken
    assert "left" in correction.findings[0]


def test_a_person_who_stands_still_has_no_gap(good):
    rows = np.full(50, 30)
    still = replace(good, root_positions=good.root_positions[rows], rotations=good.rotations[rows], contacts=None)
    assert fill_gaps(still).findings == ()


@pytest.mark.parametrize("period", [2, 3])
def test_repeated_frames_are_interpolated(good, period):
    held = np.arange(good.num_frames) // period * period
    broken = replace(good, rotations=good.rotations[held], root_positions=good.root_positions[held])
    correction = drop_repeated_frames(broken)
    assert len(correction.findings) == 1
    inside = slice(0, good.num_frames - period)
    assert furthest_mm(correction.motion[inside], good[inside]) < 0.2 * furthest_mm(broken[inside], good[inside])


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_spike_of_a_joint_is_removed_and_named(good, width):
    joint = good.skeleton.index("right_elbow")
    wxyz = good.rotations.wxyz.copy()
    wxyz[50 : 50 + width, joint] = (SO3(wxyz[50 : 50 + width, joint]) @ SO3.exp([0.0, 0.6, 0.3])).wxyz
    correction = remove_spikes(damage(good, wxyz))
    assert len(correction.findings) == 1
    assert good.skeleton.names[joint] in correction.findings[0]
    apart = geodesic_distance(correction.motion.rotations, good.rotations)
    assert np.rad2deg(apart.max()) < 1.5


def test_a_spike_of_the_root_is_removed(good):
    positions = good.root_positions.copy()
    positions[60, 1] += 0.25
    correction = remove_spikes(damage(good, positions=positions))
    assert furthest_mm(correction.motion, good) < 3.0


def test_a_fast_but_smooth_turn_is_no_spike(good):
    joint = good.skeleton.index("right_shoulder")
    frames = np.arange(good.num_frames)
    # A throw: 120 degrees in 0.15 s, a smooth bell of speed of 1 300 degrees a second
    s = np.clip((frames / good.rate_hz - 0.8) / 0.15, 0.0, 1.0)
    angle = np.deg2rad(120.0) * s**3 * (10 - 15 * s + 6 * s * s)
    wxyz = good.rotations.wxyz.copy()
    wxyz[:, joint] = (SO3(wxyz[:, joint]) @ SO3.exp(angle[:, None] * np.array([0.0, 0.0, 1.0]))).wxyz
    throw = damage(good, wxyz)
    for step in (remove_spikes, undo_flips, undo_exchanges):
        assert step(throw).findings == (), step


def test_a_flip_that_comes_back_is_interpolated_and_one_that_stays_is_said(good):
    joint = good.skeleton.index("left_wrist")
    half_turn = SO3.exp([np.pi, 0.0, 0.0])
    wxyz = good.rotations.wxyz.copy()
    wxyz[40:50, joint] = (SO3(wxyz[40:50, joint]) @ half_turn).wxyz
    correction = undo_flips(damage(good, wxyz))
    assert np.rad2deg(geodesic_distance(correction.motion.rotations, good.rotations).max()) < 10.0
    wxyz = good.rotations.wxyz.copy()
    wxyz[40:, joint] = (SO3(wxyz[40:, joint]) @ half_turn).wxyz
    assert "does not return" in undo_flips(damage(good, wxyz)).findings[0]


def test_exchanged_legs_are_exchanged_back_exactly(good):
    left, right = ([good.skeleton.index(pair[k]) for pair in LEGS] for k in (0, 1))
    # Legs that are alike cannot be told apart: exchange them where they are not
    apart = geodesic_distance(good.rotations[:, left], good.rotations[:, right]).sum(axis=1)
    start = 30 + int(np.argmax(apart[30:60]))
    stop = start + 3 + int(np.argmax(apart[start + 3 : start + 40]))
    wxyz = good.rotations.wxyz.copy()
    wxyz[start:stop, left + right] = good.rotations.wxyz[start:stop, right + left]
    correction = undo_exchanges(damage(good, wxyz))
    assert len(correction.findings) == 1
    assert furthest_mm(correction.motion, good) < 1e-6


def test_a_root_that_is_suddenly_elsewhere_goes_on(good):
    positions = good.root_positions.copy()
    positions[70:] += [0.3, 0.0, 0.2]
    correction = undo_root_jumps(damage(good, positions=positions))
    assert "36 cm" in correction.findings[0] or "jumps" in correction.findings[0]
    assert furthest_mm(correction.motion, good) < 5.0


def test_a_cut_between_two_takes_is_said_and_left(good):
    joint = good.skeleton.index("left_shoulder")
    positions, wxyz = good.root_positions.copy(), good.rotations.wxyz.copy()
    positions[70:] += [0.5, 0.0, 0.0]
    wxyz[70:, joint] = (SO3(wxyz[70:, joint]) @ SO3.exp([0.0, 0.0, 1.2])).wxyz
    correction = undo_root_jumps(damage(good, wxyz, positions))
    assert "cut" in correction.findings[0]
    assert (correction.motion.root_positions == positions).all()


@pytest.mark.parametrize("noise_mm", [2.0, 4.0])
def test_tremor_is_measured_within_a_fifth_and_halved(good, noise_mm):
    """White noise of known size on the joint angles; its size at the joints is computed, not assumed."""
    from marey.motion import resample

    clip = resample(good, 120.0)
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(*clip.rotations.shape, 3))
    vectors[:, 0] = 0.0

    def shake(size: float) -> Motion:
        return damage(clip, (clip.rotations @ SO3.exp(size * vectors)).wxyz)

    def rms_mm(a: Motion, b: Motion) -> float:
        p, q = (m.joint_positions() - m.joint_positions()[:, :1] for m in (a, b))
        return 1e3 * float(np.sqrt(np.mean((p - q)[:, 1:] ** 2)))

    size = 0.01 * noise_mm / rms_mm(shake(0.01), clip)
    noisy = shake(size)
    measured, cutoff_hz = measure_tremor(noisy)
    assert 1e3 * measured == pytest.approx(noise_mm, rel=0.2)
    assert 6.0 <= cutoff_hz <= 16.0
    assert rms_mm(remove_tremor(noisy).motion, clip) < 0.5 * noise_mm
    assert remove_tremor(clip).motion is clip


@pytest.mark.mocap
def test_captured_walks_keep_all_but_single_frames_of_hands_and_toes(mocap):
    """Spikes of captures are those of toes and thumbs, which their solver shakes: no other joint is changed much."""
    from marey import load

    for name in ("07_03", "16_31", "35_14", "91_42", "69_68"):
        clip = load(next(mocap.rglob(f"{name}.bvh")))
        for step in (fill_gaps, undo_exchanges, undo_root_jumps):
            assert step(clip).findings == (), (name, step)
        changed = geodesic_distance(remove_spikes(clip).motion.rotations, clip.rotations) > np.deg2rad(5.0)
        assert changed.any(axis=1).mean() < 0.05, name
