"""Small laws of tasks and answers that hold whatever the body: scale of weights, copies of goals, held targets."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.raw_ik import solve_ik, track

from marey.base import InputError
from marey.kinematics import BoxLimits, ComTask, OrientationTask, PointTask, PoseTask
from marey.kinematics.ik.tasks import weight_matrix
from marey.lie import SO3, geodesic_distance
from marey.numerics import SolveStatus
from marey.skeleton import HUMAN, Pose

HAND, FOOT = HUMAN.index("left_wrist"), HUMAN.index("right_foot")
FAR = np.array([0.6, 1.9, 0.8])


def pose_near_rest(seed: int, spread: float = 0.2) -> Pose:
    rng = np.random.default_rng(seed)
    return Pose(HUMAN, HUMAN.offsets[0], SO3.exp(rng.normal(0.0, spread, (HUMAN.num_joints, 3))))


def test_a_weight_is_a_number_a_row_or_a_matrix_of_the_same_meaning():
    np.testing.assert_array_equal(weight_matrix(2.0), 2.0 * np.eye(3))
    np.testing.assert_array_equal(weight_matrix((1.0, 2.0, 3.0)), np.diag([1.0, 2.0, 3.0]))
    start, goal = pose_near_rest(1), pose_near_rest(2).joint_positions()[HAND]
    poses = [
        solve_ik(HUMAN, [PointTask(HAND, goal, weight=weight)], start=start).pose
        for weight in (2.0, (2.0, 2.0, 2.0), 2.0 * np.eye(3))
    ]
    for other in poses[1:]:
        assert geodesic_distance(poses[0].rotations, other.rotations).max() < 1e-9


@pytest.mark.parametrize("factor", [0.1, 10.0, 1000.0])
def test_one_factor_on_all_weights_does_not_move_the_nearest_pose(factor: float):
    """Two goals for one fixed body that contradict each other: only the ratio of weights counts."""
    start, options = pose_near_rest(3), {"root": "fixed", "on_failure": "return", "tolerance_m": 1e-9}
    places = [FAR, -FAR + [0.0, 2.0, 0.0]]
    plain, scaled = (
        solve_ik(HUMAN, [PointTask(HAND, place, weight=w) for place in places], start=start, **options)
        for w in (1.0, factor)
    )
    assert scaled.objective == pytest.approx(factor * plain.objective, rel=1e-5)
    assert np.abs(scaled.pose.joint_positions()[HAND] - plain.pose.joint_positions()[HAND]).max() < 1e-3


def test_the_same_goal_twice_is_that_goal_with_twice_the_weight():
    start, options = pose_near_rest(4), {"root": "fixed", "on_failure": "return", "tolerance_m": 1e-9}
    one, other = np.array([0.5, 1.3, 0.4]), np.array([0.3, 1.0, 0.6])
    twice = [PointTask(HAND, one), PointTask(HAND, one), PointTask(HAND, other)]
    heavy = [PointTask(HAND, one, weight=2.0), PointTask(HAND, other)]
    a, b = (solve_ik(HUMAN, tasks, start=start, **options) for tasks in (twice, heavy))
    assert a.objective == pytest.approx(b.objective, rel=1e-8)
    np.testing.assert_allclose(a.pose.joint_positions()[HAND], b.pose.joint_positions()[HAND], atol=1e-4)


def test_joints_may_be_named_or_numbered():
    goal, start = pose_near_rest(5).joint_positions()[HAND], pose_near_rest(6)
    a, b = (solve_ik(HUMAN, [PointTask(joint, goal)], start=start).pose for joint in ("left_wrist", HAND))
    np.testing.assert_array_equal(a.rotations.wxyz, b.rotations.wxyz)


def test_a_point_of_a_joint_is_carried_by_it():
    point, goal = np.array([0.02, -0.05, 0.10]), np.array([0.4, 1.1, 0.3])
    pose = solve_ik(HUMAN, [PointTask(HAND, goal, point=point)]).pose
    carried = pose.joint_positions()[HAND] + pose.joint_rotations()[HAND] @ point
    assert np.linalg.norm(carried - goal) <= 1e-3


@pytest.mark.parametrize("tolerance_m", [1e-1, 1e-3, 1e-6, 1e-9])
def test_a_reached_goal_is_within_the_tolerance_that_was_asked(tolerance_m: float):
    goal = pose_near_rest(7).joint_positions()[HAND]
    result = solve_ik(HUMAN, [PointTask(HAND, goal)], tolerance_m=tolerance_m)
    assert result.status is SolveStatus.CONVERGED
    assert np.linalg.norm(result.pose.joint_positions()[HAND] - goal) <= tolerance_m
    assert result.position_error_m == pytest.approx(result.errors[0])


def test_errors_come_in_the_order_of_the_tasks_and_in_their_units():
    turn = SO3.exp([0.0, 0.9, 0.0])
    tasks = [OrientationTask("head", turn), PointTask(HAND, FAR), PoseTask(), ComTask((0.0, 5.0, 0.0))]
    result = solve_ik(HUMAN, tasks, root="fixed", on_failure="return")
    off = np.linalg.norm(result.pose.joint_positions()[HAND] - FAR)
    angle = geodesic_distance(result.pose.joint_rotations()[HUMAN.index("head")], turn)
    assert result.errors[:2] == pytest.approx([float(angle), float(off)], abs=1e-9)
    assert result.errors[2] == 0.0 and result.reached[2] and not result.reached[3]
    assert result.position_error_m == pytest.approx(max(off, result.errors[3]))


def test_an_answer_is_a_start_that_needs_no_iteration():
    goal = pose_near_rest(8).joint_positions()
    tasks = [PointTask(HAND, goal[HAND]), PointTask(FOOT, goal[FOOT])]
    first = solve_ik(HUMAN, tasks)
    again = solve_ik(HUMAN, tasks, start=first.pose)
    assert again.iterations == 0
    np.testing.assert_array_equal(again.pose.rotations.wxyz, first.pose.rotations.wxyz)


def test_the_start_is_never_written_to():
    start = pose_near_rest(9)
    kept = start.rotations.wxyz.copy(), start.root_position.copy()
    solve_ik(HUMAN, [PointTask(HAND, FAR)], start=start, on_failure="return")
    np.testing.assert_array_equal(start.rotations.wxyz, kept[0])
    np.testing.assert_array_equal(start.root_position, kept[1])


@pytest.mark.parametrize("bound", [0.05, 0.3, 1.0])
def test_wider_limits_never_give_a_worse_answer_than_the_narrow_ones_do_from_there(bound: float):
    """The narrow answer is allowed in the wide box, and descent from it only improves."""
    tasks = [PointTask(HAND, FAR), PointTask("right_wrist", -FAR)]
    narrow, wide = (BoxLimits(HUMAN, -b, b) for b in (np.full((22, 3), bound), np.full((22, 3), 1.5 * bound)))
    options = {"root": "fixed", "on_failure": "return"}
    first = solve_ik(HUMAN, tasks, limits=narrow, **options)
    then = solve_ik(HUMAN, tasks, limits=wide, start=first.pose, **options)
    assert then.objective <= first.objective + 1e-12
    assert narrow.violation(first.pose).max() <= 1e-6 and wide.violation(then.pose).max() <= 1e-6


def test_a_held_target_is_held_in_every_frame_of_a_clip():
    start = pose_near_rest(10, 0.1)
    places = start.joint_positions()
    way = places[HAND] + np.linspace(0.0, 0.2, 30)[:, None] * np.array([-0.5, 0.3, 0.6])
    result = track(HUMAN, [PointTask(HAND, way), PointTask(FOOT, places[FOOT])], start=start)
    found = result.motion.joint_positions()
    assert np.linalg.norm(found[:, FOOT] - places[FOOT], axis=1).max() <= 1e-3
    assert np.linalg.norm(found[:, HAND] - way, axis=1).max() <= 1e-3
    assert result.errors.shape == (30, 2) and result.iterations.shape == (30,)


def test_clips_of_different_lengths_and_clips_of_none_are_refused():
    with pytest.raises(InputError, match="tasks with 3, 5 frames"):
        track(HUMAN, [PointTask(HAND, np.zeros((3, 3))), PointTask(FOOT, np.zeros((5, 3)))])
    with pytest.raises(InputError, match="tasks with no frames"):
        track(HUMAN, [PointTask(HAND, np.zeros(3))])


def test_a_clip_backwards_ends_near_where_the_clip_forwards_began():
    """Nearness settles redundancy, so the way back is not the same pose, but its goals are met all the way."""
    start = pose_near_rest(11, 0.1)
    way = start.joint_positions()[HAND] + 0.15 * np.sin(np.linspace(0.0, np.pi / 2, 40))[:, None] * np.array([0, 1, 1])
    there = track(HUMAN, [PointTask(HAND, way)], start=start)
    back = track(HUMAN, [PointTask(HAND, way[::-1])], start=there.motion[len(way) - 1])
    assert there.reached.all() and back.reached.all()
    assert geodesic_distance(back.motion.rotations[-1], start.rotations).max() < 0.1
