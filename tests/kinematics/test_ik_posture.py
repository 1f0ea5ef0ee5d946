"""Posing of a standing person by one goal: the limb that can do it does it, and the rest of the body stays."""

from __future__ import annotations

import numpy as np
import pytest

from marey.io import load
from marey.kinematics import PointTask, posing_limits, solve_ik, track
from marey.kinematics.ik.active_set import swing_rates
from marey.kinematics.limits.anatomy.check import swing_and_twist
from marey.lie import SO3
from marey.samples import jump
from marey.skeleton import HUMAN, Pose, role_map

STAND = jump(1.2)[0]
ARM_GOALS = [
    ("right_wrist", (0.0, 1.6, 0.4)),
    ("right_wrist", (-0.5, 1.0, -0.3)),
    ("right_wrist", (0.3, 1.1, 0.3)),
    ("left_wrist", (0.5, 1.2, 0.3)),
    ("left_wrist", (0.6, 1.5, 0.0)),
]


def position(pose: Pose, joint: str) -> np.ndarray:
    return pose.joint_positions()[pose.skeleton.index(joint)]


def trunk_turn_deg(pose: Pose) -> float:
    """Angle of pelvis to neck against the same line of the stand."""
    lines = [position(p, "neck") - position(p, "pelvis") for p in (STAND, pose)]
    cosine = lines[0] @ lines[1] / np.prod([np.linalg.norm(line) for line in lines])
    return float(np.degrees(np.arccos(cosine)))


@pytest.mark.parametrize(("joint", "goal"), ARM_GOALS)
def test_a_hand_within_reach_is_brought_there_by_its_arm(joint, goal):
    pose = solve_ik(STAND.skeleton, [PointTask(joint, goal)], start=STAND).pose
    assert np.linalg.norm(position(pose, joint) - goal) < 1e-3
    assert trunk_turn_deg(pose) < 20.0
    other = "left_wrist" if joint == "right_wrist" else "right_wrist"
    assert np.linalg.norm(position(pose, other) - position(STAND, other)) < 0.25
    for foot in ("left_ankle", "right_ankle"):
        assert np.linalg.norm(position(pose, foot) - position(STAND, foot)) < 1e-3


def test_a_raised_foot_and_a_squat_keep_the_trunk_upright():
    raised = solve_ik(STAND.skeleton, [PointTask("left_ankle", (0.2, 0.5, 0.4))], start=STAND).pose
    squat = solve_ik(STAND.skeleton, [PointTask("pelvis", (0.0, 0.6, 0.0))], start=STAND).pose
    for pose in (raised, squat):
        assert trunk_turn_deg(pose) < 20.0
        assert np.linalg.norm(position(pose, "right_ankle") - position(STAND, "right_ankle")) < 1e-3


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["104_06", "118_14"])
def test_a_clip_posed_by_six_goals_keeps_elbows_knees_and_shoulders(mocap, name):
    """Hands, feet, head and pelvis alone are given: a body that wrings more and more loses its elbows by 20 cm."""
    clip = load(mocap / "cmu-bvh" / f"{name}.bvh")[::4]
    roles, places = role_map(clip.skeleton), clip.joint_positions()
    goals = [roles[role] for role in ("left_wrist", "right_wrist", "left_ankle", "right_ankle", "head", "pelvis")]
    tasks = [PointTask(joint, places[:, joint]) for joint in goals]
    found = track(clip.skeleton, tasks, rate_hz=clip.rate_hz, start=clip[0]).motion.joint_positions()
    assert np.abs(found - places)[:, goals].max() < 1e-3
    for role in ("elbow", "knee"):
        middles = [roles[f"{side}_{role}"] for side in ("left", "right")]
        assert np.linalg.norm(found - places, axis=-1)[:, middles].mean() < 0.06


@pytest.mark.parametrize("size", [0.0, 1e-4, 0.3, 2.5])
def test_rates_of_swing_and_twist_are_their_derivatives(size):
    """A turn in world moves the coordinates of a joint by the rates that the active set uses."""
    rng, h = np.random.default_rng(7), 1e-6
    swing = rng.normal(size=2)
    swing *= size / np.linalg.norm(swing)
    D = SO3.exp([0.0, *swing]) @ SO3.exp([0.8, 0.0, 0.0])
    R_world = SO3.random(rng)
    rates = swing_rates(tuple(D.wxyz.tolist()), 0.5 * size, tuple(R_world.wxyz.tolist()))
    for axis in np.eye(3):
        turn = R_world.inverse() @ axis
        ahead, behind = (
            np.array(swing_and_twist(tuple((D @ SO3.exp(sign * h * turn)).wxyz.tolist()))) for sign in (1.0, -1.0)
        )
        np.testing.assert_allclose(np.array(rates) @ axis, (ahead - behind) / (2.0 * h), rtol=0, atol=2e-6)


def test_joints_are_combined_as_people_do_where_a_goal_allows_it():
    """Where none inside is found, the result names the joint; each joint keeps its own range in any case."""
    start, limits = STAND, posing_limits(HUMAN)
    rng, outside = np.random.default_rng(3), 0
    for _ in range(12):
        goals = [
            PointTask(name, start.joint_positions()[HUMAN.index(name)] + rng.uniform(-0.3, 0.3, 3))
            for name in ("left_wrist", "right_wrist")
        ]
        found = solve_ik(HUMAN, goals, start=start, on_failure="return")
        is_outside = found.limit_violation_rad > 1e-3
        outside += is_outside
        assert found.limit_violation_rad == pytest.approx(limits.violation(found.pose).max(), abs=1e-9)
        assert ("do not combine joints" in found.advice) == is_outside
        coordinates = limits.coordinates(found.pose.rotations[None]).ravel()
        assert (coordinates >= limits.tables().low - 1e-6).all() and (coordinates <= limits.tables().high + 1e-6).all()
    assert outside <= 6
