"""Facts that every answer of inverse kinematics obeys: conflicts, symmetries, what stays put, what is said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from oracles.raw_ik import solve_ik, track

from marey.base import ConvergenceError, FloatArray, InputError, UnknownNameError
from marey.kinematics import BoxLimits, ComTask, LookAtTask, OrientationTask, PointTask, PoseTask
from marey.kinematics.ik.methods import METHODS
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion, centre_of_mass
from marey.numerics import SolveStatus
from marey.skeleton import HUMAN, Pose, Skeleton

ENDS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")
INDICES = [HUMAN.index(name) for name in ENDS]
HAND = HUMAN.index("left_wrist")
FAST = ("projected-lm", "projected-dogleg", "dls", "ccd")
ROD = Skeleton(("base", "mid", "end"), np.array([-1, 0, 1]), np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.3, 0, 0]]))
STICK = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]]), name="stick")


def random_pose(seed: int, spread: float = 0.3, skeleton: Skeleton = HUMAN) -> Pose:
    rng = np.random.default_rng(seed)
    turns = SO3.exp(rng.normal(0.0, spread, (skeleton.num_joints, 3)))
    return Pose(skeleton, skeleton.offsets[0] + rng.normal(0.0, 0.1, 3), turns)


def near(pose: Pose, spread: float, seed: int = 99) -> Pose:
    turns = SO3.exp(np.random.default_rng(seed).normal(0.0, spread, (pose.skeleton.num_joints, 3)))
    return Pose(pose.skeleton, pose.root_position, pose.rotations @ turns)


def ends_of(pose: Pose) -> list[PointTask]:
    return [PointTask(name, place) for name, place in zip(ENDS, pose.joint_positions()[INDICES], strict=True)]


def whole_of(pose: Pose) -> list[PointTask | OrientationTask]:
    """Every place and every orientation: one pose alone meets them."""
    places = [PointTask(name, p) for name, p in zip(HUMAN.names, pose.joint_positions(), strict=True)]
    return [*places, *(OrientationTask(n, R) for n, R in zip(HUMAN.names, pose.joint_rotations(), strict=True))]


def centre_of(pose: Pose) -> FloatArray:
    return centre_of_mass(Motion(pose.skeleton, 1.0, pose.root_position[None], pose.rotations.reshape(1, -1)))[0]


def moved(pose: Pose, turn: SO3, shift: FloatArray) -> Pose:
    wxyz = pose.rotations.wxyz.copy()
    wxyz[0] = (turn @ pose.rotations[0]).wxyz
    return Pose(pose.skeleton, turn @ pose.root_position + shift, SO3(wxyz))


def bone_lengths(pose: Pose) -> FloatArray:
    places = pose.joint_positions()
    return np.linalg.norm(places[1:] - places[pose.skeleton.parents[1:]], axis=1)


# --- goals that conflict -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((9.0, 1.0, 4.0), (1.0, 9.0, 4.0)),
        ((1.0, 0.0, 2.0), (0.0, 1.0, 1.0)),
        (np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 3.0]]), 1.0),
        (100.0, 1.0),
    ],
    ids=["axes", "each-its-own-axis", "matrix", "numbers"],
)
def test_two_places_for_one_hand_end_in_the_mean_weighted_by_the_matrices(first: object, second: object) -> None:
    a, b = np.array([0.3, 1.0, 0.4]), np.array([0.4, 1.1, 0.3])
    tasks = [PointTask("left_wrist", a, weight=first), PointTask("left_wrist", b, weight=second)]
    place = solve_ik(HUMAN, tasks, on_failure="return", tolerance_m=1e-9).pose.joint_positions()[HAND]
    W, V = (w * np.eye(3) if np.ndim(w) == 0 else np.diag(w) if np.ndim(w) == 1 else w for w in (first, second))
    np.testing.assert_allclose(place, np.linalg.solve(W + V, W @ a + V @ b), atol=1e-5)


@pytest.mark.parametrize("weight", [1.0, 3.0, 20.0])
def test_two_orientations_of_one_hand_share_the_angle_between_them_by_weight(weight: float) -> None:
    a, b = SO3.exp([0.2, 0.1, 0.0]), SO3.exp([0.2, 0.1, 0.0]) @ SO3.exp([0.0, 0.3, 0.4])
    tasks = [OrientationTask("left_wrist", a, weight=weight), OrientationTask("left_wrist", b)]
    result = solve_ik(HUMAN, tasks, on_failure="return", tolerance_rad=1e-9)
    assert result.errors == pytest.approx([0.5 / (1.0 + weight), 0.5 * weight / (1.0 + weight)], abs=1e-5)


@pytest.mark.parametrize(("levels", "winner"), [((0, 1), 0), ((1, 0), 1), ((2, 3), 0), ((5, 1), 1)])
def test_the_lower_level_number_wins_whatever_the_weights(levels: tuple[int, int], winner: int) -> None:
    places = (np.array([0.3, 1.0, 0.4]), np.array([0.5, 1.2, 0.4]))
    weights = [1.0 if i == winner else 10.0 for i in range(2)]
    tasks = [
        PointTask("left_wrist", place, priority=level, weight=weight)
        for place, level, weight in zip(places, levels, weights, strict=True)
    ]
    result = solve_ik(HUMAN, tasks, on_failure="return")
    assert result.reached[winner] and not result.reached[1 - winner]


def test_a_gaze_on_a_lower_level_does_not_disturb_an_orientation_above() -> None:
    wanted = SO3.exp([0.0, 0.5, 0.0])
    tasks = [OrientationTask("head", wanted), LookAtTask("head", (-5.0, 1.6, 0.0), priority=1)]
    result = solve_ik(HUMAN, tasks, root="fixed", on_failure="return")
    assert geodesic_distance(result.pose.joint_rotations()[HUMAN.index("head")], wanted) <= 1e-3
    assert not result.reached[1]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("kind", ["point", "com"])
def test_an_axis_without_weight_is_free_and_the_other_two_are_met(kind: str, axis: int) -> None:
    weight, target = np.ones(3), np.array([0.1, 1.0, 0.1])
    weight[axis], target[axis] = 0.0, 50.0
    task = ComTask(target, weight=weight) if kind == "com" else PointTask("left_wrist", target, weight=weight)
    pose = solve_ik(HUMAN, [task]).pose
    off = (centre_of(pose) if kind == "com" else pose.joint_positions()[HAND]) - target
    assert np.linalg.norm(np.delete(off, axis)) <= 1e-3
    assert abs(off[axis]) > 40.0


# --- goals that are met ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", ["head", "left_wrist", "right_foot", "pelvis"])
@pytest.mark.parametrize("seed", range(3))
def test_any_orientation_is_met_to_a_milliradian(joint: str, seed: int) -> None:
    wanted = SO3.random(np.random.default_rng(seed))
    pose = solve_ik(HUMAN, [OrientationTask(joint, wanted)]).pose
    assert geodesic_distance(pose.joint_rotations()[HUMAN.index(joint)], wanted) <= 1e-3


@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, -7.0, 0.0), (0.3, 0.2, 0.1)])
@pytest.mark.parametrize("target", [(1.0, 1.5, 2.0), (-3.0, 0.0, -1.0)])
def test_a_gaze_passes_through_its_place(axis: tuple[float, ...], target: tuple[float, ...]) -> None:
    pose = solve_ik(HUMAN, [LookAtTask("head", target, axis=axis)]).pose
    head = HUMAN.index("head")
    ray, way = pose.joint_rotations()[head] @ np.array(axis), target - pose.joint_positions()[head]
    angle = np.arctan2(np.linalg.norm(np.cross(ray, way)), ray @ way)
    assert angle <= 1.0001e-3


@pytest.mark.parametrize("shift", [(0.0, -0.1, 0.0), (0.08, 0.0, 0.05), (2.0, 1.0, -3.0)])
def test_the_centre_of_mass_goes_where_it_is_asked(shift: tuple[float, ...]) -> None:
    target = centre_of(Pose.rest(HUMAN)) + shift
    assert np.linalg.norm(centre_of(solve_ik(HUMAN, [ComTask(target)]).pose) - target) <= 1e-3


def test_the_centre_of_mass_is_kept_while_a_hand_reaches_and_the_feet_stand() -> None:
    rest = Pose.rest(HUMAN)
    feet = [PointTask(n, rest.joint_positions()[HUMAN.index(n)]) for n in ("left_foot", "right_foot")]
    tasks = [*feet, ComTask(centre_of(rest)), PointTask("left_wrist", (0.3, 1.2, 0.4))]
    result = solve_ik(HUMAN, tasks)
    assert np.linalg.norm(centre_of(result.pose) - centre_of(rest)) <= 1e-3
    assert np.linalg.norm(result.pose.joint_positions()[HAND] - [0.3, 1.2, 0.4]) <= 1e-3


@pytest.mark.parametrize("method", [m for m in METHODS if m != "jacobian-transpose"])
@pytest.mark.parametrize("seed", [1, 4])
def test_all_methods_reach_what_can_be_reached_with_finite_poses_and_whole_bones(method: str, seed: int) -> None:
    goal = random_pose(seed)
    result = solve_ik(HUMAN, ends_of(goal), start=near(goal, 0.1), method=method)
    off = result.pose.joint_positions()[INDICES] - goal.joint_positions()[INDICES]
    assert np.linalg.norm(off, axis=1).max() <= 1e-3
    assert np.isfinite(result.pose.rotations.wxyz).all()
    np.testing.assert_allclose(bone_lengths(result.pose), bone_lengths(Pose.rest(HUMAN)), rtol=1e-12)


@pytest.mark.parametrize("method", ["projected-lm", "pg-armijo", "projected-cg", "projected-dogleg", "dls"])
def test_methods_agree_on_the_pose_where_the_goals_leave_no_choice(method: str) -> None:
    goal = random_pose(3)
    pose = solve_ik(HUMAN, whole_of(goal), start=near(goal, 0.1), method=method).pose
    assert geodesic_distance(pose.joint_rotations(), goal.joint_rotations()).max() <= 1e-3
    assert np.abs(pose.joint_positions() - goal.joint_positions()).max() <= 1e-3


# --- what does not move ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("held", [("left_elbow",), ("spine1", "spine2", "neck"), (HAND,)])
def test_frozen_joints_keep_their_rotation_to_the_bit(method: str, held: tuple[str | int, ...]) -> None:
    start = random_pose(5, 0.2)
    goal = near(start, 0.2)
    result = solve_ik(HUMAN, ends_of(goal), start=start, method=method, frozen_joints=held, on_failure="return")
    indices = [HUMAN.index(j) if isinstance(j, str) else j for j in held]
    np.testing.assert_array_equal(result.pose.rotations.wxyz[indices], start.rotations.wxyz[indices])
    assert geodesic_distance(result.pose.rotations, start.rotations).max() > 0.01


@pytest.mark.parametrize("method", FAST)
@pytest.mark.parametrize("root", ["turn", "fixed"])
def test_the_root_keeps_its_place_and_turns_only_where_it_may(method: str, root: str) -> None:
    start = random_pose(6, 0.2)
    places = ends_of(moved(near(start, 0.1), SO3.exp([0.0, 0.4, 0.0]), np.zeros(3)))
    result = solve_ik(HUMAN, places, start=start, method=method, root=root, on_failure="return")
    np.testing.assert_array_equal(result.pose.root_position, start.root_position)
    turned = float(geodesic_distance(result.pose.rotations[0], start.rotations[0]))
    assert turned == 0.0 if root == "fixed" else turned > 0.01


def test_a_clip_keeps_a_fixed_root_and_frozen_joints_in_every_frame() -> None:
    start = random_pose(7, 0.1)
    way = start.joint_positions()[HAND] + np.linspace(0.0, 0.1, 20)[:, None] * [-1.0, 0.5, 0.5]
    result = track(HUMAN, [PointTask("left_wrist", way)], start=start, root="fixed", frozen_joints=["left_elbow"])
    assert (result.motion.root_positions == start.root_position).all()
    elbow = HUMAN.index("left_elbow")
    assert (result.motion.rotations.wxyz[:, elbow] == start.rotations.wxyz[elbow]).all()
    assert result.position_error_m.max() <= 1e-3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["projected-lm", "pg-armijo", "dls", "ccd"])
def test_a_warm_start_takes_fewer_iterations_than_a_cold_one(method: str, seed: int) -> None:
    goal = random_pose(seed, 0.6)
    options = {"method": method, "restarts": 0, "on_failure": "return"}
    cold = solve_ik(HUMAN, ends_of(goal), **options)
    warm = solve_ik(HUMAN, ends_of(goal), start=near(goal, 0.005), **options)
    assert warm.reached.all() and 0 < warm.iterations < cold.iterations


# --- symmetries of the whole problem -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_the_order_of_the_tasks_does_not_matter(order: tuple[int, ...]) -> None:
    goal, start = random_pose(1), random_pose(2, 0.1)
    tasks = ends_of(goal)
    first = solve_ik(HUMAN, tasks, start=start)
    other = solve_ik(HUMAN, [tasks[i] for i in order], start=start)
    assert geodesic_distance(first.pose.rotations, other.pose.rotations).max() < 1e-9
    np.testing.assert_allclose(other.errors, first.errors[list(order)], atol=1e-9)


@pytest.mark.parametrize("method", ["projected-lm", "projected-dogleg", "dls", "svd-clamp", "ccd"])
@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.5, -1.2, 0.8)])
def test_moving_start_and_goals_rigidly_moves_the_answer_rigidly(method: str, turn: tuple[float, ...]) -> None:
    R, shift = SO3.exp(turn), np.array([1.0, -2.0, 3.0])
    goal, start = random_pose(1), random_pose(2, 0.1)
    here = solve_ik(HUMAN, ends_of(goal), start=start, method=method).pose
    there = solve_ik(HUMAN, ends_of(moved(goal, R, shift)), start=moved(start, R, shift), method=method).pose
    expected = moved(here, R, shift)
    assert geodesic_distance(there.rotations, expected.rotations).max() < 1e-7
    np.testing.assert_allclose(there.joint_positions(), expected.joint_positions(), atol=1e-7)


def test_gazes_orientations_and_the_centre_of_mass_move_rigidly_too() -> None:
    R, shift, start = SO3.exp([0.4, 1.0, -0.3]), np.array([-3.0, 0.5, 2.0]), random_pose(2, 0.1)
    gaze, turn, centre = np.array([1.0, 1.6, 3.0]), SO3.exp([0.3, 0.8, -0.2]), np.array([0.1, 0.95, 0.05])

    def tasks(Q: SO3, t: FloatArray) -> list[LookAtTask | OrientationTask | ComTask]:
        hand = OrientationTask("right_wrist", Q @ turn)
        return [LookAtTask("head", Q @ gaze + t), hand, ComTask(Q @ centre + t)]

    here = solve_ik(HUMAN, tasks(SO3.identity(), np.zeros(3)), start=start).pose
    there = solve_ik(HUMAN, tasks(R, shift), start=moved(start, R, shift)).pose
    assert geodesic_distance(there.rotations, moved(here, R, shift).rotations).max() < 1e-7


@pytest.mark.parametrize("factor", [0.5, 2.0, 10.0])
def test_a_body_of_another_size_takes_the_same_pose_for_goals_that_leave_no_choice(factor: float) -> None:
    goal, start, sized = random_pose(1), random_pose(2, 0.1), HUMAN.scaled(factor)
    large = [Pose(sized, factor * pose.root_position, pose.rotations) for pose in (goal, start)]
    tight = {"tolerance_m": 1e-8, "tolerance_rad": 1e-8}
    first = solve_ik(HUMAN, whole_of(goal), start=start, **tight).pose
    other = solve_ik(sized, whole_of(large[0]), start=large[1], **tight).pose
    assert geodesic_distance(first.rotations, other.rotations).max() < 1e-7
    np.testing.assert_allclose(other.joint_positions(), factor * first.joint_positions(), atol=1e-7 * factor)


# --- what cannot be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distance", "missing"), [(1.5, 0.7), (0.81, 0.01), (0.1, 0.1), (0.15, 0.05)], ids=["far", "just", "near", "inside"]
)
def test_two_rods_miss_a_goal_outside_their_ring_by_the_distance_to_it(distance: float, missing: float) -> None:
    target = distance * np.array([0.6, 0.64, 0.48])
    start = Pose(ROD, np.zeros(3), SO3.exp([[0.1, 0.2, 0.3], [0.2, -0.4, 2.5], [0.0, 0.0, 0.0]]))
    result = solve_ik(ROD, [PointTask("end", target)], start=start, root="turn", on_failure="return")
    assert result.position_error_m == pytest.approx(missing, abs=1e-4)
    assert result.status is SolveStatus.INFEASIBLE and not result.reached[0]


@pytest.mark.parametrize("distance", [0.21, 0.5, 0.79])
def test_two_rods_reach_a_goal_inside_their_ring(distance: float) -> None:
    target = distance * np.array([0.6, 0.64, 0.48])
    place = solve_ik(ROD, [PointTask("end", target)], root="turn").pose.joint_positions()[2]
    assert np.linalg.norm(place - target) <= 1e-3


@pytest.mark.parametrize(
    ("method", "options", "status", "words"),
    [
        ("projected-lm", {}, SolveStatus.INFEASIBLE, "out of reach: task 1 \\('head'\\).*nearest pose"),
        ("projected-lm", {"limits": BoxLimits.free(HUMAN)}, SolveStatus.INFEASIBLE, "out of reach or against a limit"),
        (
            "projected-lm",
            {"max_iterations": 1},
            SolveStatus.INFEASIBLE,
            "iterations ended before the pose was the nearest",
        ),
        ("ccd", {}, SolveStatus.INFEASIBLE, "out of reach: task 1"),
    ],
)
def test_a_missed_goal_has_a_status_and_advice_that_names_it(
    method: str, options: dict[str, object], status: SolveStatus, words: str
) -> None:
    start = random_pose(1, 0.1)
    foot = PointTask("left_ankle", start.joint_positions()[HUMAN.index("left_ankle")])
    tasks = [foot, PointTask("head", (0.0, 30.0, 0.0))]
    options = {"start": start, "method": method, "root": "fixed", **options}
    with pytest.raises(ConvergenceError, match=words) as caught:
        solve_ik(HUMAN, tasks, **options)
    result = caught.value.report
    assert result.status is status and "task 1 ('head')" in result.advice
    assert result.reached.tolist() == [True, False] and "left_ankle" not in result.advice
    assert np.isfinite(result.pose.rotations.wxyz).all()
    np.testing.assert_allclose(bone_lengths(result.pose), bone_lengths(Pose.rest(HUMAN)), rtol=1e-12)


def test_goals_that_are_met_are_said_to_be_met() -> None:
    result = solve_ik(HUMAN, ends_of(random_pose(1)))
    assert result.advice == "All goals are met." and "missed" not in repr(result)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PointTask("head", (0, 0, 0), weight=np.diag([1.0, -1.0, 1.0])), "symmetric matrix of positive"),
        (lambda: PointTask("head", (0, 0, 0), weight=(0.0, 0.0, 0.0)), "symmetric matrix of positive"),
        (lambda: PointTask("head", (0, 0, 0), weight=0.0), "weight is 0.0. Give a positive number"),
        (lambda: ComTask((0, 0, 0), weight=float("nan")), "weight is nan"),
        (lambda: ComTask((0, 0, 0), weight=(1.0, 1.0)), "weight has shape \\(2,\\)"),
        (lambda: PointTask("head", (0, 0)), "target_world has shape \\(2,\\)"),
        (lambda: LookAtTask("head", (0, np.inf, 0)), "target_world"),
        (lambda: LookAtTask("head", (0, 0, 1), axis=(0, 0, 0)), "axis is zero"),
        (lambda: OrientationTask("head", SO3.identity(2, 2)), "target has batch \\(2, 2\\)"),
        (lambda: PointTask("head", (0, 0, 0), priority=-1), "priority is -1"),
        (lambda: PointTask("head", (0, 0, 0), priority=1.5), "priority is 1.5"),
        (lambda: PoseTask(weight=-1.0), "weight is -1.0. Give a number that is not negative"),
        (lambda: PoseTask(root_weight=float("inf")), "root_weight is inf"),
    ],
)
def test_tasks_that_mean_nothing_are_refused_when_made(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"root": "loose"}, "root is 'loose'. Say 'auto', 'free', 'turn' or 'fixed'"),
        ({"on_failure": "shrug"}, "Say 'raise' or 'return'"),
        ({"tolerance_rad": -1.0}, "tolerance_rad is -1.0"),
        ({"tolerance_m": float("nan")}, "tolerance_m is nan"),
        ({"frozen_joints": [22]}, "joint 22 of a skeleton of 22"),
        ({"start": Pose.rest(STICK)}, "start is a pose of Skeleton\\('stick', 2 joints\\), not of Skeleton\\('human'"),
        ({"limits": BoxLimits.free(STICK)}, "limits are those of Skeleton\\('stick'"),
    ],
)
@pytest.mark.parametrize("call", [solve_ik, track])
def test_options_that_mean_nothing_are_refused(call: Callable[..., object], options: dict, words: str) -> None:
    target = (0.4, 1.3, 0.2) if call is solve_ik else np.tile([0.4, 1.3, 0.2], (2, 1))
    with pytest.raises(InputError, match=words):
        call(HUMAN, [PointTask("left_wrist", target)], **options)


@pytest.mark.parametrize(
    ("joint", "options", "words"),
    [
        ("left_wrst", {}, "no joint 'left_wrst' in skeleton 'human'. Did you mean 'left_wrist'"),
        ("head", {"frozen_joints": ["left_elbw"]}, "Did you mean 'left_elbow'"),
        ("head", {"method": "newton"}, "It has 12: projected-lm, pg-armijo, projected-cg"),
        ("head", {"method": "cdd"}, "Did you mean 'ccd'"),
        ("head", {"method": "pg-armijo", "variant": "bbb"}, "no variant 'bbb' in this method.* It has 2: bb, unit"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(joint: str, options: dict, words: str) -> None:
    with pytest.raises(UnknownNameError, match=words) as caught:
        solve_ik(HUMAN, [PointTask(joint, (0.0, 1.0, 0.0))], **options)
    assert len(caught.value.known) in (2, 12, 22)


@pytest.mark.parametrize("bad", [-1, 2.5, True])
def test_a_number_of_iterations_that_is_none_is_refused(bad):
    tasks = [PointTask("right_wrist", target_world=(0.0, 1.2, 0.3))]
    with pytest.raises(InputError, match="max_iterations is"):
        solve_ik(HUMAN, tasks, max_iterations=bad, record=True)


@pytest.mark.parametrize("bad", [-1, 0.5])
def test_a_number_of_restarts_that_is_none_is_refused(bad):
    tasks = [PointTask("right_wrist", target_world=(0.0, 1.2, 0.3))]
    with pytest.raises(InputError, match="restarts is"):
        solve_ik(HUMAN, tasks, restarts=bad)
