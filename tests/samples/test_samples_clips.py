"""Clips made for a motion graph: picks by inverse kinematics, walks and jumps by the engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.contacts import contact_phases
from marey.locomotion import Engine
from marey.motion import centre_of_mass
from marey.samples import demo_clips
from marey.samples.figure import pick_up
from marey.samples.graph_clips import HEIGHTS_M, PICKS_M, demo_picks
from marey.skeleton import contact_points


@pytest.fixture(scope="module")
def stand():
    return Engine().pose


@pytest.fixture(scope="module")
def picks():
    return demo_picks()


def palm(motion, hand):
    points = contact_points(motion.skeleton)
    return points.positions(*motion.joint_frames())[:, points.index(f"{hand}_hand")]


def joint(motion, name):
    return motion.joint_positions()[:, motion.skeleton.index(name)]


@pytest.mark.parametrize("hand", ["left", "right"])
@pytest.mark.parametrize("height", [0.1, 0.45, 0.8, 1.2])
def test_hand_is_at_the_thing_to_a_millimetre(stand, hand, height):
    thing = np.array([0.1 if hand == "left" else -0.1, height, 0.45])
    motion = pick_up(stand, thing, hand)
    touch = motion.contacts.track(f"picked_{hand}_hand")
    assert 0.1 < touch.sum() / motion.rate_hz < 0.5
    assert np.linalg.norm(palm(motion, hand)[touch] - thing, axis=1).max() < 1e-3
    assert not motion.contacts.track(f"picked_{'left' if hand == 'right' else 'right'}_hand").any()


def test_feet_stay_and_the_body_stays_in_balance(picks):
    for motion in picks:
        for name in ("left_ankle", "right_ankle", "left_foot", "right_foot"):
            place = joint(motion, name)
            assert np.abs(place - place[0]).max() < 1e-3
        com = centre_of_mass(motion)[:, [0, 2]]
        assert np.abs(com - com[0]).max() < 0.08


def test_lower_things_bend_knees_and_trunk_more(picks):
    depth = [joint(m, "pelvis")[:, 1].min() for m in picks[:: len(PICKS_M)]]
    assert all(low <= high + 1e-9 for low, high in pairwise(depth))
    assert depth[0] < 0.7 * joint(picks[0], "pelvis")[0, 1]
    assert depth[-1] > 0.97 * joint(picks[-1], "pelvis")[0, 1]


def test_knees_bend_forward_and_do_not_overtake_the_toes(picks):
    deep = picks[0]
    middle = deep.num_frames // 2
    for side in ("left", "right"):
        knee, hip, ankle = (joint(deep, f"{side}_{part}")[middle] for part in ("knee", "hip", "ankle"))
        assert knee[2] > hip[2]
        assert knee[2] > ankle[2]
        assert knee[2] - joint(deep, f"{side}_foot")[middle][2] < 0.2


def test_picks_are_smooth(picks):
    for motion in picks:
        speed = np.linalg.norm(np.diff(motion.joint_positions(), axis=0), axis=-1) * motion.rate_hz
        assert speed.max() < 3.0
        assert np.abs(np.diff(speed, axis=0)).max() < 0.35


def test_picks_begin_and_end_with_the_stand(stand, picks):
    for motion in picks:
        for frame in (0, -1):
            away = (motion.rotations[frame].inverse() @ stand.rotations).log()
            assert np.linalg.norm(away, axis=-1).max() < 0.02


def test_thing_out_of_reach_is_refused(stand):
    with pytest.raises(InputError, match="out of reach"):
        pick_up(stand, [0.0, 0.8, 1.6])


def test_hand_must_be_one_of_two(stand):
    with pytest.raises(UnknownNameError, match="left"):
        pick_up(stand, [0.0, 0.8, 0.4], "middle")


def test_picks_cover_the_heights(picks):
    lowest = {round(float(palm(m, "right")[m.contacts.track("picked_right_hand")].mean(axis=0)[1]), 2) for m in picks}
    assert lowest == set(HEIGHTS_M)


def test_demo_clips_stand_at_both_ends_walk_run_jump_and_pick():
    clips = demo_clips()
    kinds = {clip.name.split("-")[0] for clip in clips}
    assert {"walk", "weave", "turn", "run", "leap", "jump", "pick"} <= kinds
    assert len({clip.name for clip in clips}) == len(clips)
    for clip in clips:
        speed = np.linalg.norm(np.diff(clip.root_positions, axis=0), axis=1) * clip.rate_hz
        assert max(speed[:3].max(), speed[-3:].max()) < 0.25, clip.name


def test_leaps_and_jumps_have_flights():
    for clip in demo_clips():
        if clip.name.split("-")[0] in ("leap", "jump", "run"):
            assert any(phase.kind == "flight" for phase in contact_phases(clip)), clip.name
