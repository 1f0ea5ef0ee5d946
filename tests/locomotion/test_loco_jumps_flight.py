"""What a jump is made of: sampling, free flight, held feet, bent knees, laws, in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.locomotion.fitting.jumps import (
    JumpTable,
    compute_event_marks,
    condense_components,
    fit_poses,
    share_leg_offsets,
)
from marey.locomotion.fitting.trials import load_manifest, make_loader
from marey.locomotion.units.captured_jumps import (
    CapturedJump,
    canonical_steps,
    canonical_times,
    interpolate_cubic,
)
from marey.locomotion.units.gait_unit import sample_frames
from marey.locomotion.units.jump_flight import (
    GRAVITY,
    LEAST_FLEXION_RAD,
    Airtime,
    JumpGeometry,
    StanceTimes,
    bend_knees,
    fit_ballistic_path,
    ground_root_path,
    hold_jump_feet,
    list_stances,
    measure_jump_length,
)
from marey.motion import Motion
from marey.skeleton import HUMAN

TIMES = np.linspace(0.0, 1.0, 101)
AIR = Airtime(0.3, 0.7, 1.0, ("right",), ("left",))


def point_body(foot: FloatArray) -> JumpGeometry:
    """A body whose mass is at its root; both feet hang at ``foot`` (N, 3) from it."""
    feet = np.repeat(foot[:, None], 2, axis=1)
    return JumpGeometry(np.zeros((len(foot), 3)), feet, feet, feet)


def test_smooth_samples_go_through_their_points_and_give_parabolas_back() -> None:
    times = np.array([0.0, 0.1, 0.15, 0.4, 0.7, 1.0])
    values = np.stack([2.0 * times**2 - times + 1.0, times], axis=1)
    assert interpolate_cubic(times, values, times) == pytest.approx(values)
    at = np.linspace(0.0, 1.0, 37)
    assert interpolate_cubic(times, values, at)[:, 0] == pytest.approx(2.0 * at**2 - at + 1.0, abs=1e-12)


def test_smooth_samples_pass_over_pieces_of_no_length() -> None:
    times = np.array([0.0, 0.5, 0.5, 1.0, 2.0])
    values = times[:, None]
    assert interpolate_cubic(times, values, np.array([0.25, 0.75])) == pytest.approx(np.array([[0.25], [0.75]]))


def test_canonical_times_hold_all_knots() -> None:
    knots = np.array([0.0, 0.3, 0.8, 1.2])
    times = canonical_times(knots, canonical_steps("run"))
    places = np.cumsum((0, *canonical_steps("run")))
    assert len(times) == places[-1] + 1
    assert times[places] == pytest.approx(knots)
    assert np.all(np.diff(times) > 0.0)


def test_sampling_a_clip_at_its_frames_gives_the_frames() -> None:
    rng = np.random.default_rng(3)
    motion = Motion(HUMAN, 50.0, rng.normal(size=(8, 3)), SO3.exp(0.3 * rng.normal(size=(8, HUMAN.num_joints, 3))))
    root, wxyz = sample_frames(motion.root_positions, motion.rotations.wxyz, np.arange(float(motion.num_frames)))
    assert root == pytest.approx(motion.root_positions)
    assert (SO3(wxyz).inverse() @ motion.rotations).angle().max() < 1e-7


def test_a_flight_is_a_parabola_between_its_stances() -> None:
    geometry = point_body(np.tile([0.0, -1.0, 0.0], (101, 1)))
    root = np.stack([np.zeros(101), np.ones(101), np.where(TIMES < 0.5, 0.0, 2.0)], axis=1)
    path = fit_ballistic_path(geometry, TIMES, root, AIR, None)
    t = TIMES[31:70] - 0.3
    T = 0.4
    assert path[31:70, 1] == pytest.approx(1.0 + 0.5 * GRAVITY * T * t - 0.5 * GRAVITY * t**2)
    assert path[31:70, 2] == pytest.approx(2.0 * t / T)


def test_the_stances_take_over_the_velocity_of_the_flight() -> None:
    geometry = point_body(np.tile([0.0, -1.0, 0.0], (101, 1)))
    root = np.stack([np.zeros(101), np.ones(101), np.where(TIMES < 0.5, 0.0, 2.0)], axis=1)
    path = fit_ballistic_path(geometry, TIMES, root, AIR, None)
    v = np.gradient(path, TIMES, axis=0)
    jump_without = 0.5 * GRAVITY * 0.4
    assert np.abs(np.diff(v, axis=0))[25:35].max() < 0.75 * max(jump_without, 5.0)
    assert path[:15] == pytest.approx(root[:15])
    assert path[[30, 70]] == pytest.approx(root[[30, 70]], abs=1e-9)


def test_a_jump_is_shifted_to_the_length_asked_for() -> None:
    geometry = point_body(np.tile([0.0, -1.0, 0.0], (101, 1)))
    root = np.stack([np.zeros(101), np.ones(101), np.where(TIMES < 0.5, 0.0, 2.0)], axis=1)
    assert measure_jump_length(geometry, TIMES, root, AIR) == pytest.approx(2.0)
    longer = fit_ballistic_path(geometry, TIMES, root, AIR, 2.5)
    assert measure_jump_length(geometry, TIMES, longer, AIR) == pytest.approx(2.5, abs=1e-6)


def test_stances_are_held_over_their_feet() -> None:
    foot = np.stack([np.zeros(101), -1.0 - 0.02 * np.sin(3.0 * TIMES), -1.5 * TIMES], axis=1)
    geometry = point_body(foot)
    root = np.stack([np.zeros(101), np.full(101, 1.05), 1.3 * TIMES], axis=1)
    path = ground_root_path(geometry, TIMES, root, AIR, np.zeros(101))
    toe = path + foot
    assert np.ptp(toe[TIMES <= 0.3, 2]) < 1e-9
    assert np.ptp(toe[TIMES >= 0.7, 2]) < 1e-9
    assert np.abs(toe[TIMES <= 0.3, 1]).max() < 2e-3
    assert np.abs(toe[TIMES >= 0.7, 1]).max() < 2e-3


def test_knees_are_never_straighter_than_the_least_flexion() -> None:
    means = SO3.identity(HUMAN.num_joints).wxyz
    rows = np.zeros((5, 3 + 3 * HUMAN.num_joints))
    knee = 3 + 3 * HUMAN.index("left_knee")
    rows[:, knee] = np.deg2rad([-20.0, 0.0, 8.0, 40.0, 100.0])
    bent = bend_knees(rows, means)[:, knee]
    assert bent.min() >= LEAST_FLEXION_RAD
    assert np.all(np.diff(bent) > 0.0)
    assert bent[3:] == pytest.approx(rows[3:, knee], abs=np.deg2rad(0.5))
    others = np.delete(bend_knees(rows, means), [knee, 3 + 3 * HUMAN.index("right_knee")], axis=1)
    assert np.abs(others).max() < 1e-12


def test_a_held_foot_stays_and_a_sunken_foot_is_lifted() -> None:
    wxyz = SO3.identity(101, HUMAN.num_joints).wxyz.copy()
    for name, angle in (("hip", -0.4), ("knee", 0.8), ("ankle", -0.4)):
        for side in ("left", "right"):
            wxyz[:, HUMAN.index(f"{side}_{name}")] = SO3.exp([angle, 0.0, 0.0]).wxyz
    root = np.stack([np.zeros(101), np.full(101, 0.88) - 0.03 * TIMES, 0.1 * TIMES], axis=1)
    held = Motion(HUMAN, 100.0, root, SO3(hold_jump_feet(wxyz, root, TIMES, (StanceTimes("right", 0.2, 0.25, 0.6),))))
    toe = held.joint_positions()[:, HUMAN.index("right_foot")]
    assert np.ptp(toe[25:60], axis=0).max() < 1e-3
    free = Motion(HUMAN, 100.0, root, SO3(wxyz)).joint_positions()[:, HUMAN.index("right_foot")]
    assert toe[-1, [0, 2]] == pytest.approx(free[-1, [0, 2]], abs=2e-3)
    assert held.joint_positions()[:, HUMAN.index("left_foot"), 1].min() > 0.0


def test_a_standing_jump_has_two_stances_of_each_foot() -> None:
    events = np.array([0.0, 0.1, 0.8, 1.0, 1.4, 1.5, 2.0, 2.0])
    assert [s.side for s in list_stances("run", events)] == ["right", "left"]
    stances = list_stances("standing", events)
    assert sorted((s.side, s.strike_s, s.off_s) for s in stances) == [
        ("left", 0.0, 1.0),
        ("left", 1.4, 2.0),
        ("right", 0.0, 1.0),
        ("right", 1.4, 2.0),
    ]


def captured(length_m: float, flight_s: float, subject: str) -> CapturedJump:
    motion = Motion(HUMAN, 100.0, np.zeros((2, 3)), SO3.identity(2, HUMAN.num_joints))
    knots = np.array([0.0, 0.3, 0.3 + flight_s, 1.0])
    events = np.array([0.0, 0.03, 0.2, 0.3, 0.3 + flight_s, 0.35 + flight_s, 0.8, 0.9])
    return CapturedJump(motion, knots, events, length_m, flight_s, 0.2, 2.0, 2.0, -9.8, subject)


def test_shared_slopes_and_personal_offsets_are_found() -> None:
    rng = np.random.default_rng(5)
    people = ["a"] * 12 + ["b"] * 12
    jumps = [captured(float(rng.uniform(0.3, 2.0)), float(rng.uniform(0.1, 0.6)), who) for who in people]
    table = JumpTable.from_jumps("run", jumps)
    centre = table.at[table.is_leap].mean(axis=0)
    offset = np.where(table.who == 0, -1.0, 1.0)
    scores = np.stack([offset + (table.at - centre) @ [2.0, -3.0]], axis=1)
    offsets, slopes = fit_poses(scores, table, centre)
    assert slopes[:, 0] == pytest.approx([2.0, -3.0], abs=0.05)
    assert offsets[:, 0] == pytest.approx([-1.0, 1.0], abs=0.05)


def test_condensing_keeps_the_law() -> None:
    rng = np.random.default_rng(6)
    offsets, slopes = rng.normal(size=(3, 40)), rng.normal(size=(2, 40))
    a, b, lift = condense_components(offsets, slopes)
    assert a @ lift == pytest.approx(offsets)
    assert b @ lift == pytest.approx(slopes)
    assert lift.shape == (5, 40)


def test_who_never_leapt_keeps_the_posture_and_borrows_legs() -> None:
    columns = 3 + 3 * HUMAN.num_joints
    offsets = np.stack([np.zeros(2 * columns), np.ones(2 * columns)])
    lent = share_leg_offsets(offsets, np.array([True, False])).reshape(2, 2, columns)
    head, hip = 3 + 3 * HUMAN.index("head"), 3 + 3 * HUMAN.index("left_hip")
    assert np.all(lent[0] == 0.0)
    assert np.all(lent[1, :, head] == 1.0)
    assert np.all(lent[1, :, hip] == lent[1, 0, 0])
    assert 0.0 < lent[1, 0, hip] < 1.0


def test_event_marks_are_parts_of_their_pieces() -> None:
    assert compute_event_marks(captured(1.0, 0.4, "a")) == pytest.approx([0.1, 2 / 3, 0.05 / 0.3, 0.1 / 0.3, 0.2 / 0.3])


def test_trials_of_jumps_stand_in_the_manifest() -> None:
    plan = load_manifest()
    leaps = [clip for _, clip in plan.clips_of("train", "run-jump")]
    assert "49_05" in leaps
    assert plan.rates["75_04"] == 60.0
    with pytest.raises(InputError, match="int"):
        make_loader(3)  # pyright: ignore[reportArgumentType]
