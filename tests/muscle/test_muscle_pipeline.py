"""From places of the hand to muscles, and from a captured elbow to muscles."""

from __future__ import annotations

import numpy as np
import pytest

import marey
from marey.base import InputError
from marey.kinematics import fit_limits
from marey.lie import SO3
from marey.motion import Motion
from marey.muscle import (
    HandGoal,
    make_hanging_pose,
    make_reach_film,
    make_soft_arm,
    measure_arm,
    measure_elbow_angles,
    solve_elbow_flexion,
    solve_reach,
)
from marey.muscle.human.arm_reach import make_arm_motion
from marey.skeleton import HUMAN

SHOULDER = HUMAN.names.index("left_shoulder")


@pytest.fixture(scope="module")
def swings() -> Motion:
    """A clip of arms that swing forwards and bend, with a little of everything else."""
    rng = np.random.default_rng(3)
    t = np.linspace(0.0, 1.0, 90)
    lift, bend = 1.2 * np.sin(2 * np.pi * t), 0.1 + 1.1 * (1 - np.cos(2 * np.pi * t))
    clip = make_arm_motion(np.stack([np.roll(lift, 20), bend], axis=1), 30.0, "both")
    wobble = SO3.exp(0.02 * rng.standard_normal((len(t), HUMAN.num_joints, 3)))
    return Motion(HUMAN, 30.0, clip.root_positions, clip.rotations @ wobble)


@pytest.fixture(scope="module")
def places() -> np.ndarray:
    shoulder = make_hanging_pose().joint_positions()[SHOULDER]
    return shoulder + np.array([[0.0, -0.36, 0.30], [0.0, -0.22, 0.36], [0.0, -0.48, 0.20]])


def test_angles_of_an_arm_come_back_from_its_motion():
    angles = np.array([[0.3, 0.2], [1.0, 1.5], [-0.4, 0.9]])
    for side in ("left", "right"):
        clip = make_arm_motion(angles, 30.0, side)
        np.testing.assert_allclose(measure_elbow_angles(clip, side), angles[:, 1], atol=1e-7)
        elbow = clip.joint_positions()[:, HUMAN.names.index(f"{side}_elbow")]
        shoulder = clip.joint_positions()[:, HUMAN.names.index(f"{side}_shoulder")]
        np.testing.assert_allclose(np.arctan2(*(elbow - shoulder)[:, [2, 1]].T * [[1], [-1]]), angles[:, 0], atol=1e-7)


def test_a_soft_arm_hangs_still_and_has_the_lengths_of_the_figure():
    body = make_soft_arm(*measure_arm())
    for _ in range(10):
        body.step(1 / 60)
    ends = dict(zip(body.bones.names, body.bones.ends, strict=True))
    np.testing.assert_allclose(ends["fore"], [0.0, -sum(measure_arm()), 0.0], atol=0.01)


def test_engell_67_three_places_of_the_hand_become_a_muscle_driven_arm(swings, places):
    limits = fit_limits(swings, "sdf")
    goals = [HandGoal(0.3 * (i + 1), place) for i, place in enumerate(places)]
    found = solve_reach(goals, limits=limits, arm=make_soft_arm(counts=(2, 8, 2)))
    assert found.misses_m.max() < 0.03
    assert found.violations_rad.max() < 1e-6
    assert found.activations.min() >= 0.0 and found.activations.max() <= 1.0
    wrist = found.motion().joint_positions()[:, HUMAN.names.index("left_wrist")]
    np.testing.assert_allclose(wrist, found.hand, atol=1e-6)  # figure and soft arm are one


@pytest.mark.parametrize(("side", "step"), [("left", [0.3, -0.2, 0.2]), ("right", [0.1, 0.1, 0.4])])
def test_engell_67_places_out_of_the_plane_of_the_arm_are_reached_in_the_film(side, step):
    shoulder = make_hanging_pose().joint_positions()[HUMAN.names.index(f"{side}_shoulder")]
    goal = shoulder + step
    found = solve_reach([(0.6, goal)], side=side, arm=make_soft_arm(counts=(2, 8, 2)))
    film = make_reach_film(found)
    hand = film.bones.ends[np.argmin(np.abs(film.times - 0.6)), -1, 1]
    assert np.linalg.norm(hand - goal) < 0.02
    assert found.status == "REACHED" and found.is_reachable.all()
    assert found.violations_rad.max() == 0.0
    wrist = found.motion().joint_positions()[:, HUMAN.names.index(f"{side}_wrist")]
    np.testing.assert_allclose(wrist, found.hand, atol=1e-6)


def test_one_place_is_reached_by_a_coarse_arm(swings, places):
    found = solve_reach([(0.4, places[0])], limits=fit_limits(swings, "box"), arm=make_soft_arm(counts=(2, 8, 2)))
    assert found.misses_m.max() < 0.03
    assert found.violations_rad.max() < 1e-6
    assert found.activations[:, 2].mean() > found.activations[:, 3].mean()  # biceps more than triceps


def test_stages_can_be_replaced(places):
    seen = []

    def stop_at_once(problem):
        seen.append(problem)
        return marey.muscle.solve_control(problem, max_iterations=1)

    pose = make_hanging_pose(bent_rad=0.5)
    found = solve_reach([(0.2, places[0])], poses=lambda goals: [pose] * len(goals), solve=stop_at_once)
    assert found.poses == (pose,)
    wrist = pose.joint_positions()[HUMAN.names.index("left_wrist")]
    np.testing.assert_allclose(seen[0].goals[0].target, wrist - found.shoulder, atol=1e-12)


def test_a_place_out_of_reach_gives_the_nearest_pose(places):
    far = places[0] + [0.0, 0.0, 2.0]
    found = solve_reach([(0.2, far)], solve=lambda problem: marey.muscle.solve_control(problem, max_iterations=1))
    assert found.misses_m[0] > 1.0
    assert np.isfinite(found.hand).all()
    assert found.status == "UNREACHABLE" and not found.is_reachable.any()


@pytest.mark.slow
@pytest.mark.mocap
def test_a_captured_elbow_is_reproduced_by_activations(mocap):
    clip = marey.load(mocap / "cmu-bvh" / "79_20.bvh")
    span = clip[round(0.9 * clip.rate_hz) : round(2.4 * clip.rate_hz)]
    found = solve_elbow_flexion(span, side="right")
    assert np.ptp(found.wanted_rad) > 1.0
    assert np.rad2deg(found.error_rad) < 6.0
    assert found.activations.min() >= 0.0 and found.activations.max() <= 1.0


def test_a_made_elbow_is_reproduced_by_activations():
    t = np.linspace(0.0, 0.4, 25)
    clip = make_arm_motion(0.4 * np.sin(np.pi * t / 0.8)[:, None], 60.0)
    found = solve_elbow_flexion(clip, arm=make_soft_arm(shoulder="fixed", counts=(2, 8, 2)))
    assert np.rad2deg(found.error_rad) < 4.0


def test_bad_goals_are_refused(places):
    for goals, words in (
        ([], "no goals"),
        ([(0.0, places[0])], "goal at 0"),
        ([(1.0, [0.0, np.nan, 0.0])], "place of the hand"),
        ([(99.0, places[0])], "goal at 99"),
    ):
        with pytest.raises(InputError, match=words):
            solve_reach(goals)
    with pytest.raises(InputError, match="side"):
        solve_reach([(0.4, places[0])], side="middle")
    with pytest.raises(InputError, match="key poses"):
        solve_reach([(0.4, places[0])], poses=lambda goals: [])
    with pytest.raises(InputError, match="arm of"):
        make_soft_arm(5.0, 0.2)
    with pytest.raises(InputError, match="clip of"):
        solve_elbow_flexion(make_arm_motion(np.zeros((600, 1)), 30.0))
