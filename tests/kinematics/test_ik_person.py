"""Inverse kinematics by default keeps the person: planted feet, anatomical limits, the branch of the start."""

from __future__ import annotations

import numpy as np
import pytest

from marey import samples
from marey.base import InputError
from marey.kinematics import (
    BoxLimits,
    ComTask,
    OrientationTask,
    PointTask,
    posing_limits,
    solve_ik,
    track,
)
from marey.lie import SO3
from marey.numerics import SolveStatus
from marey.skeleton import HUMAN, Pose, Skeleton, foot_points

ANKLES = [HUMAN.index("left_ankle"), HUMAN.index("right_ankle")]


@pytest.fixture(scope="module")
def standing() -> Pose:
    return samples.jump(1.2)[0]


def soles(pose: Pose) -> np.ndarray:
    return foot_points(pose.skeleton).positions(pose.joint_positions(), pose.joint_rotations())


def test_a_reach_leaves_the_soles_where_they_stand(standing):
    result = solve_ik(HUMAN, [PointTask("right_wrist", (0.0, 1.6, 0.4))], start=standing)
    assert result.status is SolveStatus.CONVERGED and result.planted == ("left_ankle", "right_ankle")
    assert np.abs(soles(result.pose) - soles(standing)).max() < 1e-4
    assert posing_limits(HUMAN).violation(result.pose).max() < 1e-6


@pytest.mark.parametrize("goal", [(0.0, 1.6, 30.0), (30.0, 0.5, 0.0)])
def test_a_goal_thirty_metres_away_is_out_of_reach_unless_the_root_is_freed(standing, goal):
    far = solve_ik(HUMAN, [PointTask("right_wrist", goal)], start=standing, on_failure="return")
    assert far.status is SolveStatus.INFEASIBLE
    assert np.abs(soles(far.pose) - soles(standing)).max() < 1e-4
    free = solve_ik(HUMAN, [PointTask("right_wrist", goal)], start=standing, root="free")
    assert free.status is SolveStatus.CONVERGED and not free.planted


def test_a_squat_keeps_the_feet_flat(standing):
    low = standing.root_position - np.array([0.0, 0.35, 0.0])
    result = solve_ik(HUMAN, [PointTask("pelvis", low)], start=standing)
    assert np.abs(soles(result.pose)[:, 1] - soles(standing)[:, 1]).max() < 1e-4


def test_a_foot_that_a_goal_names_is_free_and_the_other_stays(standing):
    goal = standing.joint_positions()[ANKLES[0]] + np.array([0.1, 0.2, 0.1])
    result = solve_ik(HUMAN, [PointTask("left_foot", goal)], start=standing)
    assert result.planted == ("right_ankle",)
    moves = np.linalg.norm(result.pose.joint_positions() - standing.joint_positions(), axis=1)[ANKLES]
    assert moves[0] > 0.1 and moves[1] < 1e-4


def test_feet_in_the_air_are_free_and_can_be_planted(standing):
    up = Pose(HUMAN, standing.root_position + np.array([0.0, 0.4, 0.0]), standing.rotations)
    task = [PointTask("right_wrist", up.joint_positions()[HUMAN.index("right_wrist")] + np.array([0.0, 0.1, 0.1]))]
    assert solve_ik(HUMAN, task, start=up).planted == ()
    assert len(solve_ik(HUMAN, task, start=up, feet="planted").planted) == 2
    with pytest.raises(InputError, match="feet is"):
        solve_ik(HUMAN, task, feet="glued")


def test_engell_17_goals_with_a_nan_are_skipped_and_flagged(standing):
    hand, head = PointTask("right_wrist", (0.0, 1.5, 0.4)), PointTask("head", (0.0, np.nan, 1.0))
    result = solve_ik(HUMAN, [head, hand], start=standing)
    assert result.skipped.tolist() == [True, False] and "task 0" in result.advice
    alone = solve_ik(HUMAN, [hand], start=standing)
    np.testing.assert_allclose(result.pose.rotations.wxyz, alone.pose.rotations.wxyz, atol=1e-9)
    with pytest.raises(InputError, match="holds inf"):
        PointTask("head", (0.0, np.inf, 0.0))


def test_engell_17_without_goals_the_start_is_projected():
    outside = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(np.full((HUMAN.num_joints, 3), 0.4)))
    limits = posing_limits(HUMAN)
    for tasks in ([], [PointTask("head", np.full(3, np.nan))]):
        result = solve_ik(HUMAN, tasks, start=outside)
        np.testing.assert_array_equal(result.pose.rotations.wxyz, limits.project(outside).rotations.wxyz)
        assert result.status is SolveStatus.CONVERGED and result.start_moved_rad > 0.0
    rest = solve_ik(HUMAN, [], limits=None)
    np.testing.assert_array_equal(rest.pose.rotations.wxyz, Pose.rest(HUMAN).rotations.wxyz)


def test_engell_17_frozen_joints_keep_their_angles_and_wrong_bounds_are_refused(standing):
    task = [PointTask("right_wrist", (0.0, 1.5, 0.4))]
    result = solve_ik(HUMAN, task, start=standing, limits=None, frozen_joints=["right_elbow", "spine1"])
    for name in ("right_elbow", "spine1"):
        joint = HUMAN.index(name)
        np.testing.assert_array_equal(result.pose.rotations.wxyz[joint], standing.rotations.wxyz[joint])
    low = np.zeros((HUMAN.num_joints, 3))
    low[3] = 1.0
    with pytest.raises(InputError, match="above the upper"):
        BoxLimits(HUMAN, low, 0.5 * low)


def test_a_clip_skips_goals_with_a_nan_and_keeps_the_feet(standing):
    way = standing.joint_positions()[HUMAN.index("right_wrist")] + np.linspace([0.0, 0, 0], [0.1, 0.3, 0.2], 12)
    way[4:7] = np.nan
    clip = track(HUMAN, [PointTask("right_wrist", way)], rate_hz=30.0, start=standing)
    assert clip.status is SolveStatus.CONVERGED and clip.skipped[:, 0].sum() == 3
    assert max(np.abs(soles(clip.motion[f]) - soles(standing)).max() for f in range(12)) < 1e-3


def test_gaze_balance_and_orientation_are_goals_beside_planted_feet(standing):
    hand = HUMAN.index("right_wrist")
    tasks = [
        PointTask(hand, (-0.2, 1.2, 0.45)),
        OrientationTask(hand, standing.joint_rotations()[hand], weight=0.1),
        ComTask((0.0, 0.0, 0.03), weight=(1.0, 0.0, 1.0)),
    ]
    result = solve_ik(HUMAN, tasks, start=standing, limits=None)
    assert result.status is SolveStatus.CONVERGED and result.planted_error_m < 1e-4


def test_a_pose_outside_its_limits_is_never_called_converged(standing):
    """A kind of limits that projects nowhere near the allowed set: what comes out is measured, not believed."""

    class Liar(BoxLimits):
        def project_rotations(self, rotations):
            return rotations

    tight = np.full((HUMAN.num_joints, 3), 1e-3)
    limits = Liar(HUMAN, -tight, tight)
    result = solve_ik(HUMAN, [], start=standing, limits=limits, on_failure="return")
    assert result.status is not SolveStatus.CONVERGED and result.limit_violation_rad > 0.0
    assert "outside its limits by" in result.advice


def straight_arm() -> tuple[Skeleton, Pose]:
    """Two bones of 0.3 m, straight."""
    arm = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.array([[0.0, 0, 0], [0.3, 0, 0], [0.3, 0, 0]]))
    return arm, Pose(arm, np.zeros(3), SO3.exp(np.array([[0.0, 0, 0], [0, 0, 1e-3], [0, 0, 0]])))


def test_a_straight_limb_bends_no_faster_than_its_goal_allows_and_says_so():
    arm, pose = straight_arm()
    result, largest, ends = pose, 0.0, 0
    for k in range(1, 31):
        before = result if isinstance(result, Pose) else result.pose
        goal = [PointTask("c", (0.6 - 0.01 * k, 0.0, 0.0))]
        result = solve_ik(arm, goal, start=result, root="turn", on_failure="return")
        largest = max(
            largest, float(np.linalg.norm((before.rotations.inverse() @ result.pose.rotations).log(), axis=1).max())
        )
        ends += "branch" in result.advice
        assert result.reached.all() or "branch" in result.advice
    assert largest < 0.2 and ends >= 1
    assert result.reached.all()
