"""Posing of a standing person by one goal: the limb that can do it does it, and the rest of the body stays."""

from __future__ import annotations

import numpy as np
import pytest

from marey.kinematics import PointTask, solve_ik
from marey.samples import jump
from marey.skeleton import Pose

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
