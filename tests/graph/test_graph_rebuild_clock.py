"""The clock of rebuilt motions, and jumps spread in time, without any clips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.graph._rebuild_clock import at_times, frame_times
from marey.graph._rebuild_feet import pins, runs, stepped
from marey.graph._rebuild_track import RAMP_S, Cut, Track, mixed_places, spread
from marey.lie import SO3


def some_track(count: int = 41, joints: int = 3, seed: int = 0) -> Track:
    rng = np.random.default_rng(seed)
    times = np.arange(count) / 30.0
    turns = 0.3 * np.sin(times[:, None, None] * rng.uniform(1.0, 4.0, (joints, 3)))
    roots = np.stack([times, 0.9 + 0.0 * times, times**2], axis=1)
    return Track(times, roots, SO3.exp(turns).wxyz, np.full((count, 2, 3), np.nan), np.zeros((count, 2), dtype=bool))


@given(
    seconds=st.floats(1.0, 20.0),
    shares=st.lists(st.floats(0.05, 0.95), max_size=4),
    rate_hz=st.sampled_from([24.0, 29.97, 30.0, 60.0, 120.0]),
)
def test_events_fall_on_frames_and_time_goes_on(seconds, shares, rate_hz):
    events = np.array(sorted(shares)) * seconds
    apart = np.diff(np.concatenate([[0.0], events, [seconds]]))
    if apart.min() < 1.01 / rate_hz:
        return
    times = frame_times(seconds, events, rate_hz)
    assert (np.diff(times) > 0.0).all()
    assert times[0] == 0.0 and times[-1] == pytest.approx(seconds)
    assert all(np.abs(times - event).min() < 1e-9 for event in events)
    assert np.abs(times - np.arange(len(times)) / rate_hz).max() <= 0.5 / rate_hz + 1e-9


def test_poses_at_their_own_times_are_themselves():
    track = some_track()
    same = at_times(track, track.times)
    assert np.abs(same.roots - track.roots).max() < 1e-12
    assert (SO3(same.wxyz).inverse() @ SO3(track.wxyz)).log() == pytest.approx(0.0, abs=1e-9)


def test_poses_in_between_follow_a_parabola_exactly_and_turns_closely():
    track, fine = some_track(81), some_track(81)
    times = track.times[2:-2][:-1] + 0.4 / 30.0
    between = at_times(track, times)
    assert np.abs(between.roots - np.stack([times, 0.9 + 0.0 * times, times**2], axis=1)).max() < 1e-12
    rng = np.random.default_rng(0)
    turns = 0.3 * np.sin(times[:, None, None] * rng.uniform(1.0, 4.0, (3, 3)))
    assert np.linalg.norm((SO3(between.wxyz).inverse() @ SO3.exp(turns)).log(), axis=-1).max() < 1e-4
    assert fine.seconds == pytest.approx(80 / 30.0)


@pytest.mark.parametrize("fixed", [[], [0.5], [0.7], [0.6, 0.75]])
def test_a_jump_is_spread_and_fixed_poses_stay(fixed):
    track, knot = some_track(), 20
    shift = np.array([0.03, -0.01, 0.02])
    roots = track.roots.copy()
    roots[knot:] += shift
    broken = Track(track.times, roots, track.wxyz, track.plants, track.is_anchor)
    times = np.array(fixed)
    whole = spread(broken, [Cut(knot, shift, np.zeros((3, 3)))], times)
    steps = np.linalg.norm(np.diff(whole.roots - track.roots, axis=0), axis=1)
    assert steps.max() < (0.3 if len(fixed) < 2 else 0.8) * np.linalg.norm(shift)
    for time in times:
        frame = int(np.argmin(np.abs(track.times - time)))
        if abs(track.times[frame] - time) < 1e-9:
            assert np.abs(whole.roots[frame] - roots[frame]).max() < 1e-12
    far = np.abs(track.times - track.times[knot]) > RAMP_S
    assert np.abs(whole.roots - roots)[far].max() < 1e-12


def test_a_cut_at_an_event_leaves_the_pose_after_it():
    track, knot = some_track(), 15
    shift = np.array([0.0, 0.0, 0.05])
    roots = track.roots.copy()
    roots[knot:] += shift
    whole = spread(
        Track(track.times, roots, track.wxyz, track.plants, track.is_anchor),
        [Cut(knot, shift, np.zeros((3, 3)))],
        track.times[[knot]],
    )
    assert np.abs(whole.roots[knot:] - roots[knot:]).max() == 0.0
    assert np.linalg.norm(np.diff(whole.roots - track.roots, axis=0), axis=1).max() < 0.012


def test_a_stance_has_one_place_and_it_is_that_of_the_anchor():
    track = some_track(10)
    plants, anchor = track.plants.copy(), track.is_anchor.copy()
    plants[2:8, 0] = [1.0, 2.0, 0.1]
    plants[6:8, 0] = [1.2, 2.0, 0.3]  # seen from the other foot
    anchor[2:6, 0] = True
    held = pins(Track(track.times, track.roots, track.wxyz, plants, anchor))
    assert np.abs(held[2:8, 0] - [1.0, 2.0, 0.1]).max() < 1e-12
    assert np.isnan(held[[0, 1, 8, 9], 0]).all() and np.isnan(held[:, 1]).all()


def test_gaps_are_filled_by_a_cubic_step():
    known = np.array([True, False, False, False, True])
    filled = stepped(np.array([[0.0], [9.0], [9.0], [9.0], [1.0]]), known)[:, 0]
    assert filled == pytest.approx([0.0, 0.15625, 0.5, 0.84375, 1.0])
    assert stepped(np.ones((3, 1)), np.zeros(3, dtype=bool)).max() == 0.0
    assert runs(np.array([True, False, True, True])) == [(0, 1), (2, 4)]


def test_headings_are_mixed_the_shorter_way():
    mixed = mixed_places(np.array([0.0, 0.0, 3.1]), np.array([1.0, 0.0, -3.1]), 0.5)
    assert mixed[2] == pytest.approx(np.pi)
