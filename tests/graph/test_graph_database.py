"""Clips made ready for a graph: events, stances, tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from oracles.graph_parts import prepare_clips

from marey.base import InputError
from marey.contacts import ContactPhase, StancePlant, contact_phases, ensure_contacts
from marey.graph import build_graph
from marey.graph.arrays import compose_planar, to_frame
from marey.graph.construction.layout import _feet_gap
from marey.graph.database.clips import classify_behaviour
from marey.graph.database.events import (
    MIN_HOLD_FRAMES,
    PICKED_PREFIX,
    STANDING,
    calibration_range,
    find_picks,
    lift_pivots,
    split_events,
)
from marey.io import load
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, resample
from marey.samples import jump
from marey.skeleton import HUMAN, contact_points, joint_frames, role_map

UP = np.array([0.0, 1.0, 0.0])


def standing(frames: int) -> Motion:
    """Somebody who stands in the rest pose."""
    roots = np.tile(HUMAN.rest_positions()[0], (frames, 1))
    return Motion(HUMAN, 30.0, roots, SO3(np.tile([1.0, 0.0, 0.0, 0.0], (frames, HUMAN.num_joints, 1))))


def stance(start: int, stop: int, planted: tuple[str, ...] = ("right", "left")) -> ContactPhase:
    plants = tuple(StancePlant(foot, np.array([0.1, 0.0, 0.0]), 0.0, 0.0) for foot in planted)
    return ContactPhase(start, stop, planted, "double" if len(planted) == 2 else planted[0], plants)


def test_no_clips_make_no_graph():
    with pytest.raises(InputError, match="no clips"):
        prepare_clips([])
    with pytest.raises(InputError, match="two clean phases"):
        prepare_clips([standing(60)])


def test_arms_held_out_at_the_ends_are_cut_away():
    clip = standing(90)
    roles = role_map(clip.skeleton)
    wxyz = clip.rotations.wxyz.copy()
    out = np.zeros(90, dtype=bool)
    out[:25] = True
    for side, sign in (("left", 1.0), ("right", -1.0)):
        rest = clip.joint_positions()[0]
        arm = rest[roles[f"{side}_wrist"]] - rest[roles[f"{side}_shoulder"]]
        level = np.array([sign, 0.0, 0.0])
        for frames, wanted in ((out, level), (~out, -UP)):
            axis = np.cross(arm, wanted)
            size = np.linalg.norm(axis)
            angle = np.arctan2(size, arm @ wanted)
            turn = SO3.exp(angle * axis / max(size, 1e-9))
            wxyz[np.flatnonzero(frames), roles[f"{side}_shoulder"]] = turn.wxyz
    start, stop = calibration_range(Motion(clip.skeleton, 30.0, clip.root_positions, SO3(wxyz)))
    assert (start, stop) == (25, 90)


def test_a_standing_body_is_cut_off_with_its_feet_in_one_order():
    pieces = split_events(standing(60), [stance(0, 10, ("left",)), stance(10, 60)], 0.62)
    assert pieces[0].planted == ("left",)
    assert pieces[-1].planted == ("left", "right", STANDING)
    assert [plant.foot for plant in pieces[-1].plants] == ["left", "right"]
    assert pieces[0].start == 0
    assert pieces[-1].stop == 60
    assert all(a.stop == b.start for a, b in pairwise(pieces))


def test_picks_named_in_the_contact_track_are_believed():
    clip = ensure_contacts(standing(60))
    assert clip.contacts is not None
    touched = np.zeros((60, 1), dtype=bool)
    touched[30:34] = True
    names = (*clip.contacts.names, "picked_left_hand")
    clip = replace(clip, contacts=Contacts(names, np.concatenate([clip.contacts.active, touched], axis=1)))
    assert find_picks(clip, [stance(0, 60)], 0.62) == [(32, "picked_left_hand")]
    pieces = split_events(clip, [stance(0, 60)], 0.62)
    assert [piece.start for piece in pieces if piece.planted[-1] == "picked_left_hand"] == [32]


def test_low_hands_near_a_flight_pick_nothing_up():
    clip = standing(90)
    low = clip.root_positions - np.where((np.arange(90) > 40) & (np.arange(90) < 50), 1.0, 0.0)[:, None] * UP
    clip = replace(clip, root_positions=low)
    flight = ContactPhase(60, 70, (), "flight")
    assert find_picks(clip, [stance(0, 90)], 0.62) != []
    assert find_picks(clip, [stance(0, 60), flight, stance(70, 90)], 0.62) == []


def test_behaviours_are_told_by_events():
    flight = ContactPhase(10, 14, (), "flight")
    left, right = stance(0, 10, ("left",)), stance(14, 20, ("right",))
    assert classify_behaviour([left, right]) == "walk"
    assert classify_behaviour([stance(0, 10), flight, stance(14, 20)]) == "jump"
    assert classify_behaviour([left, flight, right, flight, left]) == "run"
    assert classify_behaviour([left, replace(right, planted=("right", PICKED_PREFIX + "left_hand"))]) == "pick"


@pytest.mark.mocap
def test_all_picks_of_the_captured_clips_are_found(mocap):
    found = {}
    for number in range(68, 76):
        clip = resample(load(mocap / "cmu-bvh" / f"69_{number}.bvh"), 30.0)
        found[number] = len(find_picks(clip, contact_phases(clip), 0.62))
    assert found == {68: 2, 69: 1, 70: 2, 71: 2, 72: 2, 73: 2, 74: 2, 75: 2}


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["16_09", "16_10", "83_47", "91_39"])
def test_crouches_of_captured_jumps_are_no_picks(mocap, name):
    clip = resample(load(mocap / "cmu-bvh" / f"{name}.bvh"), 30.0)
    phases = contact_phases(clip)
    assert any(phase.kind == "flight" for phase in phases)
    assert find_picks(clip, phases, 0.62) == []


@pytest.mark.mocap
@pytest.mark.xfail(strict=True, reason="0.87 of 0.85: fewer of its heels are called planted in the first place")
def test_a_foot_that_pivots_is_lifted_meanwhile(mocap):
    """83_47 lands and turns by half a turn on both feet, which stay labelled as planted."""
    clip = ensure_contacts(load(mocap / "cmu-bvh" / "83_47.bvh"))
    lifted = lift_pivots(clip, 0.08)

    def worst(motion):
        names = contact_points(motion.skeleton).names
        points = contact_positions(motion)
        far = 0.0
        for phase in contact_phases(motion):
            for plant in phase.plants:
                ball = points[phase.start : phase.stop, names.index(f"{plant.foot}_toe")]
                far += float(np.hypot(*(ball - plant.position)[:, [0, 2]].T).sum())
        return far

    assert len(contact_phases(lifted)) > len(contact_phases(clip))
    assert worst(lifted) < 0.85 * worst(clip)


@pytest.mark.mocap
def test_tables_of_a_database_fit_together(picking):
    database = picking.database
    table = database.phases
    for phase in range(len(table.start)):
        assert (database.phase[table.start[phase] : table.stop[phase]] == phase).all()
    inner = table.after >= 0
    assert (table.start[table.after[inner]] == table.stop[inner]).all()
    assert (table.kind[table.after[inner]] != table.kind[inner]).mean() > 0.99
    np.testing.assert_allclose(database.effort[:10] >= 0.0, True)
    kept = (database.torque**2).sum(axis=1) / database.effort
    assert np.median(kept) > 0.95
    assert database.body.mass_kg > 40.0


@pytest.mark.mocap
def test_standing_states_are_slow_and_upright(picking):
    database = picking.database
    standing_phases = [
        s for s in range(len(database.phases.start)) if STANDING in database.classes[database.phases.kind[s]]
    ]
    assert len(standing_phases) >= 5
    for s in standing_phases:
        start = int(database.phases.start[s])
        if database.clip[start] == database.clip[max(start - 1, 0)] and start:
            speed = np.linalg.norm(database.roots[start + 1] - database.roots[start - 1]) * database.rate_hz / 2.0
            assert speed < 0.3
            assert database.roots[start, 1] > 0.93 * np.quantile(database.roots[:, 1], 0.6)
    assert picking.arrays.is_standing.sum() >= 3


def roots_on_ground(database):
    """Places ``(P, 3)`` of the root: x, z, yaw."""
    yaw = SO3(database.wxyz[:, 0]).twist_angle(UP)
    return np.stack([database.roots[:, 0], database.roots[:, 2], yaw], axis=1)


def anchor_balls(database):
    """Where the ball of the anchor foot really is ``(P, 2)`` [m], seen from its anchor; NaN in flight."""
    points, table = contact_points(database.body.skeleton), database.phases
    places = points.positions(*joint_frames(database.body.skeleton, database.roots, database.wxyz))
    found = np.full((database.num_poses, 2), np.nan)
    for s in range(len(table.start)):
        feet = [name for name in database.classes[table.kind[s]] if name in ("left", "right")]
        if feet:
            own = slice(table.start[s], table.stop[s])
            ball = places[own, points.index(f"{feet[-1]}_toe")][:, [0, 2]]
            found[own] = to_frame(np.concatenate([ball, np.zeros((len(ball), 1))], axis=1), table.anchor[s])[:, :2]
    return found


@pytest.mark.mocap
@pytest.mark.xfail(strict=True, reason="3.6 cm: a foot that lands on its heel moves its ball until it is flat")
def test_safonova_a16_two_ways_through_a_stance_end_at_one_place(picking):
    """A thousand pairs of ways: placed on their anchors they end within 1 cm and 1 degree; summed up frame by frame
    as in the source they do not, which is why they are placed on anchors.
    """
    database, found = picking.database, picking.transitions
    table, roots, balls = database.phases, roots_on_ground(database), anchor_balls(database)
    count = len(table.start)
    key = database.phase[found.source] * count + database.phase[found.target]
    order = np.argsort(key, kind="stable")
    pairs, first, number = np.unique(key[order], return_index=True, return_counts=True)
    rng = np.random.default_rng(0)
    slid, turned, summed = [], [], []
    for at in rng.choice(np.flatnonzero(number >= 2), 1000, replace=False):
        s, p = divmod(int(pairs[at]), count)
        begin, end = int(table.start[s]), int(table.stop[p]) - 1
        ends, sums = [], []
        for e in order[first[at] + rng.choice(number[at], 2, replace=False)]:
            i, j = int(found.source[e]), int(found.target[e])
            slide = balls[i] - balls[begin] + balls[end] - balls[j]
            here = to_frame(roots[end], table.anchor[p])
            ends.append(np.concatenate([here[:2] - slide, here[2:]]))
            onward = compose_planar(to_frame(roots[i], roots[begin]), to_frame(roots[j], roots[j - 1]))
            sums.append(compose_planar(onward, to_frame(roots[end], roots[j])))
        slid.append(np.hypot(*(ends[0] - ends[1])[:2]))
        turned.append(abs(ends[0][2] - ends[1][2]))
        summed.append(np.hypot(*(sums[0] - sums[1])[:2]))
    assert max(slid) < 0.01
    assert max(turned) < np.deg2rad(1.0)
    assert np.quantile(summed, 0.9) > 0.03


def test_jumps_are_measured_from_toe_to_heel():
    """The clip jumps a metre from ball to ball: a foot's length less lies between the feet."""
    database = prepare_clips([jump(1.0)])
    (flight,) = np.flatnonzero(np.array([not planted for planted in database.classes])[database.phases.kind])
    points = contact_points(database.body.skeleton)
    ends = [points.index("left_toe"), points.index("left_heel")]
    foot = np.linalg.norm(np.diff(points.positions(*standing(1).joint_frames())[0, ends], axis=0))
    assert _feet_gap(database, int(flight)) == pytest.approx(1.0 - foot, abs=0.03)


def test_a_crouch_before_a_jump_is_no_stand():
    database = prepare_clips([jump(1.0)])
    table = database.phases
    (flight,) = np.flatnonzero(np.array([not planted for planted in database.classes])[table.kind])
    before = database.classes[table.kind[flight - 1]]
    assert STANDING not in before
    assert STANDING in database.classes[table.kind[flight - 2]]
    low = database.roots[table.start[flight - 1] : table.stop[flight - 1], 1].min()
    assert low < 0.9 * database.roots[table.start[flight - 2], 1]


def test_somebody_who_holds_still_over_a_pick_does_not_stand():
    clip = ensure_contacts(standing(90))
    assert clip.contacts is not None
    touched = np.zeros((90, 1), dtype=bool)
    touched[40:44] = True
    names = (*clip.contacts.names, "picked_left_hand")
    clip = replace(clip, contacts=Contacts(names, np.concatenate([clip.contacts.active, touched], axis=1)))
    pieces = split_events(clip, [stance(0, 90)], 0.62)
    (picked,) = [piece for piece in pieces if piece.planted[-1] == "picked_left_hand"]
    assert picked.start == 42
    assert len(picked) >= MIN_HOLD_FRAMES
    assert pieces[-1].planted[-1] == STANDING


@pytest.mark.mocap
def test_behaviours_can_be_given_by_name(picking_clips):
    graph = build_graph(picking_clips[2:3], behaviours={"69_13": "stroll"})
    assert set(graph.database.behaviours) == {"stroll"}


@pytest.mark.mocap
def test_a_clip_that_names_its_picks_is_made_ready(picking_clips):
    clip = ensure_contacts(picking_clips[0])
    touched = np.zeros((clip.num_frames, 1), dtype=bool)
    touched[100:110] = True
    names = (*clip.contacts.names, "picked_right_hand")
    clip = replace(clip, contacts=Contacts(names, np.concatenate([clip.contacts.active, touched], axis=1)))
    database = prepare_clips([clip])
    assert sum(planted[-1:] == ("picked_right_hand",) for planted in database.classes) == 1
    assert database.behaviours == ("pick",)


@pytest.mark.mocap
def test_a_flight_is_kept_when_its_clip_is_retargeted(mocap):
    """Contacts are those that were captured, not those of the body that the clip is carried to."""
    other, jump = (load(mocap / "cmu-bvh" / f"{name}.bvh") for name in ("16_01", "83_53"))
    database = prepare_clips([other, jump])
    flights = np.array([not planted for planted in database.classes])[database.phases.kind]
    clips = database.clip[database.phases.start[flights]]
    assert np.bincount(clips, minlength=2).tolist() == [1, 1]
    own = np.flatnonzero(flights)[clips == 1][0]
    assert database.phases.stop[own] - database.phases.start[own] == 18
    assert any("retargeted" in note for note in database.notes)
