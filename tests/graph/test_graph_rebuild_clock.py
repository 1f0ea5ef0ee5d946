"""The clock of rebuilt motions, and jumps spread in time, without any clips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import marey
from marey.contacts import ensure_contacts
from marey.graph.database.clips import level_soles
from marey.graph.reconstruction.joins import (
    LONGEST_RAMP_S,
    Discontinuity,
    PoseTrack,
    fade_out,
    hold_last_pose,
    join_tracks,
    output_times,
    sample_track,
    spread_discontinuities,
    velocity_ramp,
)
from marey.graph.reconstruction.track import blend_positions, plant_positions, smooth_knees
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3


def some_track(count: int = 41, joints: int = 3, seed: int = 0) -> PoseTrack:
    rng = np.random.default_rng(seed)
    times = np.arange(count) / 30.0
    turns = 0.3 * np.sin(times[:, None, None] * rng.uniform(1.0, 4.0, (joints, 3)))
    roots = np.stack([times, 0.9 + 0.0 * times, times**2], axis=1)
    return PoseTrack(
        times, roots, SO3.exp(turns).wxyz, np.full((count, 2, 3), np.nan), np.zeros((count, 2), dtype=bool)
    )


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
    times = output_times(seconds, events, rate_hz)
    assert (np.diff(times) > 0.0).all()
    assert times[0] == 0.0 and times[-1] == pytest.approx(seconds)
    assert all(np.abs(times - event).min() < 1e-9 for event in events)
    assert np.abs(times - np.arange(len(times)) / rate_hz).max() <= 0.5 / rate_hz + 1e-9


def test_poses_at_their_own_times_are_themselves():
    track = some_track()
    same = sample_track(track, track.times)
    assert np.abs(same.roots - track.roots).max() < 1e-12
    assert (SO3(same.wxyz).inverse() @ SO3(track.wxyz)).log() == pytest.approx(0.0, abs=1e-9)


def test_poses_in_between_follow_a_parabola_exactly_and_turns_closely():
    track, fine = some_track(81), some_track(81)
    times = track.times[2:-2][:-1] + 0.4 / 30.0
    between = sample_track(track, times)
    assert np.abs(between.roots - np.stack([times, 0.9 + 0.0 * times, times**2], axis=1)).max() < 1e-12
    rng = np.random.default_rng(0)
    turns = 0.3 * np.sin(times[:, None, None] * rng.uniform(1.0, 4.0, (3, 3)))
    assert np.linalg.norm((SO3(between.wxyz).inverse() @ SO3.exp(turns)).log(), axis=-1).max() < 1e-4
    assert fine.seconds == pytest.approx(80 / 30.0)


def jump(knot: int, shift: np.ndarray, pace: np.ndarray | None = None) -> Discontinuity:
    return Discontinuity(knot, shift, np.zeros((3, 3)), np.zeros(3) if pace is None else pace, np.zeros((3, 3)))


@pytest.mark.parametrize("fixed", [[], [0.5], [0.7], [0.6, 0.75]])
def test_a_jump_is_spread_and_fixed_poses_stay(fixed):
    track, knot = on_ground(some_track()), 20
    shift = np.array([0.03, -0.01, 0.02])
    roots = track.roots.copy()
    roots[knot:] += shift
    times = np.array(fixed)
    whole = spread_discontinuities(replace(track, roots=roots), [jump(knot, shift)], times)
    steps = np.linalg.norm(np.diff(whole.roots - track.roots, axis=0), axis=1)
    assert steps.max() < (0.3 if len(fixed) < 2 else 0.8) * np.linalg.norm(shift)
    for time in times:
        frame = int(np.argmin(np.abs(track.times - time)))
        if abs(track.times[frame] - time) < 1e-9:
            assert np.abs(whole.roots[frame] - roots[frame]).max() < 1e-12
    far = np.abs(track.times - track.times[knot]) > LONGEST_RAMP_S
    assert np.abs(whole.roots - roots)[far].max(initial=0.0) < 1e-12


def on_ground(track: PoseTrack) -> PoseTrack:
    plants = track.plants.copy()
    plants[:, 0] = 0.0
    return replace(track, plants=plants)


def test_a_cut_at_an_event_leaves_the_pose_after_it():
    track, knot = on_ground(some_track()), 25
    shift = np.array([0.0, 0.0, 0.05])
    roots = track.roots.copy()
    roots[knot:] += shift
    whole = spread_discontinuities(replace(track, roots=roots), [jump(knot, shift)], track.times[[knot]])
    assert np.abs(whole.roots[knot:] - roots[knot:]).max() == 0.0
    assert np.linalg.norm(np.diff(whole.roots - track.roots, axis=0), axis=1).max() < 0.012


def test_a_root_that_jumps_far_takes_its_time():
    track, knot = on_ground(some_track(61)), 30
    for far, longest in ((0.02, 0.012 * 30.0), (0.1, 0.16)):
        roots = track.roots.copy()
        roots[knot:, 0] += far
        whole = spread_discontinuities(
            replace(track, roots=roots), [jump(knot, np.array([far, 0.0, 0.0]))], np.zeros(0)
        )
        added = np.diff(whole.roots - track.roots, axis=0)[:, 0] * 30.0
        assert added.min() > -1e-9  # no hook
        assert added.max() < longest  # [m/s]


def test_speed_has_no_step_where_two_pieces_meet():
    """Two straight ways of other speeds: the step of speed is gone, and so is that of place."""
    track = on_ground(some_track(31))
    t = track.times[:, None]
    slow = replace(track, roots=t * np.array([0.0, 0.0, 0.6]), wxyz=np.tile(track.wxyz[:1], (31, 1, 1)))
    ahead = slow.roots[-1] + np.array([0.02, 0.0, 0.01])
    fast = replace(slow, roots=ahead + t * np.array([0.0, 0.0, 1.2]))
    whole, cuts = join_tracks([slow, fast])
    assert len(cuts) == 1 and cuts[0].knot == 30
    assert cuts[0].pace == pytest.approx([0.0, 0.0, 0.6])
    before = np.abs(np.diff(whole.roots, n=2, axis=0)).max() * 900.0
    after = np.abs(np.diff(spread_discontinuities(whole, cuts, np.zeros(0)).roots, n=2, axis=0)).max() * 900.0
    assert before > 15.0
    assert after < 0.4 * before


def test_a_clip_that_goes_on_is_not_changed():
    track = on_ground(some_track(31))
    whole, pieces = track, [track.rows(slice(0, 16), track.times[:16]), track.rows(slice(15, 31), track.times[:16])]
    lead = track.rows(slice(14, 16), track.times[:2]).velocity(0)
    again, cuts = join_tracks([pieces[0], replace(pieces[1], arrival=lead)])
    assert np.abs(spread_discontinuities(again, cuts, np.zeros(0)).roots - whole.roots).max() < 1e-12


def test_flights_are_left_alone_if_the_ground_has_room():
    track, knot = on_ground(some_track(61)), 30
    plants = track.plants.copy()
    plants[knot : knot + 12] = np.nan
    shift = np.array([0.0, 0.02, 0.0])
    roots = track.roots.copy()
    roots[knot:] += shift
    whole = spread_discontinuities(replace(track, roots=roots, plants=plants), [jump(knot, shift)], np.zeros(0))
    assert np.abs(whole.roots[knot:] - roots[knot:]).max() == 0.0
    assert np.abs(whole.roots - track.roots)[: knot - 1].max() > 0.015


def test_a_held_pose_comes_to_rest():
    track = on_ground(some_track(31))
    moving = replace(track, roots=track.times[:, None] * np.array([0.0, 0.0, 0.5]))
    whole, cuts = join_tracks([moving, hold_last_pose(moving, 0.4, 30.0)])
    shown = spread_discontinuities(whole, cuts, np.zeros(0))
    speed = np.diff(shown.roots[:, 2]) * 30.0
    assert speed[-1] < 0.05
    assert np.abs(np.diff(speed)).max() < 0.2  # 6 m/s² where the step was 15


@given(u=st.floats(0.0, 1.0))
def test_what_is_added_fades_from_its_value_and_slope(u):
    h = 1e-6
    ends = np.array([0.0, 1.0])
    assert fade_out(ends) == pytest.approx([1.0, 0.0]) and velocity_ramp(ends) == pytest.approx([0.0, 0.0], abs=1e-12)
    assert (velocity_ramp(np.array([h])) / h)[0] == pytest.approx(1.0, abs=1e-5)
    assert 0.0 <= fade_out(np.array([u]))[0] <= 1.0 and 0.0 <= velocity_ramp(np.array([u]))[0] < 0.2
    assert abs((fade_out(np.array([u + h])) - fade_out(np.array([u - h])))[0]) / (2.0 * h) <= 1.875 + 1e-6


def test_a_stance_has_one_place_and_it_is_that_of_the_anchor():
    track = some_track(10)
    plants, anchor = track.plants.copy(), track.is_anchor.copy()
    plants[2:8, 0] = [1.0, 2.0, 0.1]
    plants[6:8, 0] = [1.2, 2.0, 0.3]  # seen from the other foot
    anchor[2:6, 0] = True
    held = plant_positions(PoseTrack(track.times, track.roots, track.wxyz, plants, anchor))
    assert np.abs(held[2:8, 0] - [1.0, 2.0, 0.1]).max() < 1e-12
    assert np.isnan(held[[0, 1, 8, 9], 0]).all() and np.isnan(held[:, 1]).all()


def test_headings_are_mixed_the_shorter_way():
    mixed = blend_positions(np.array([0.0, 0.0, 3.1]), np.array([1.0, 0.0, -3.1]), 0.5)
    assert mixed[2] == pytest.approx(np.pi)


@pytest.mark.parametrize("landed", [0, 20])
def test_a_foot_that_is_suddenly_elsewhere_takes_a_step_while_the_other_carries(landed):
    track = some_track(61)
    plants, anchor = track.plants.copy(), track.is_anchor.copy()
    plants[:, 0], plants[20:, 0, 0] = [0.0, 0.0, 0.1], 0.2
    plants[landed:, 1] = [0.3, 0.0, 0.0]
    anchor[:20, 0], anchor[20:, 1] = True, True
    held = plant_positions(replace(track, plants=plants, is_anchor=anchor))
    swing = np.flatnonzero(np.isnan(held[:, 0, 0]))
    assert 8 <= len(swing) <= 13 and (np.diff(swing) == 1).all()
    assert not np.isnan(plants[swing, 1, 0]).any() and swing[0] >= landed
    assert (held[: swing[0], 0, 0] == 0.0).all()
    assert (held[swing[-1] + 1 :, 0, 0] == 0.2).all()


def test_a_foot_that_carries_alone_takes_no_step():
    track = some_track(61)
    plants, anchor = track.plants.copy(), track.is_anchor.copy()
    plants[:, 0], plants[20:, 0, 0] = [0.0, 0.0, 0.1], 0.2
    anchor[:, 0] = True
    held = plant_positions(replace(track, plants=plants, is_anchor=anchor))
    assert not np.isnan(held[:, 0, 0]).any()
    assert np.ptp(held[:, 0, 0]) == 0.0


def test_knees_turn_more_evenly_for_a_fraction_of_a_millimetre():
    walk = marey.samples.walk(1.2)
    leg = Limb.from_name(walk.skeleton, "left_leg")
    # A foot that is held a third of a millimetre too high or too low, by turns
    ankles = walk.joint_positions()[:, leg.end] + np.random.default_rng(3).normal(0.0, 3e-4, (walk.num_frames, 3))
    held = solve_two_bone(walk, leg, ankles, stretch=0.99999).motion

    def bend_knee(motion):
        hip, knee, ankle = (motion.joint_positions()[:, j] for j in (leg.upper, leg.middle, leg.end))
        cosine = ((knee - hip) * (ankle - knee)).sum(axis=1)
        return np.arccos(cosine / (np.linalg.norm(knee - hip, axis=1) * np.linalg.norm(ankle - knee, axis=1)))

    smooth = smooth_knees(held, walk)
    before, after = (np.diff(bend_knee(motion) - bend_knee(walk), n=2) for motion in (held, smooth))
    assert np.std(after) < 0.5 * np.std(before)
    assert np.linalg.norm(smooth.joint_positions()[:, leg.end] - ankles, axis=1).max() < 2e-3
    np.testing.assert_array_equal(smooth.root_positions, held.root_positions)


def test_soles_that_rise_and_sink_with_the_pelvis_are_levelled():
    walk = ensure_contacts(marey.samples.walk(1.2))
    bob = 0.012 * np.sin(2.0 * np.pi * 0.7 * walk.times())
    raised = replace(walk, root_positions=walk.root_positions + bob[:, None] * [0.0, 1.0, 0.0])
    off = level_soles(raised).root_positions[:, 1] - walk.root_positions[:, 1]
    assert np.std(off) < 0.3 * np.std(bob)
