"""Inverse kinematics through its public call: goals, priorities, limits, methods, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.raw_ik import solve_ik

from marey.base import ConvergenceError, InputError, MareyError, UnknownNameError
from marey.base.kernels import Kernel
from marey.kinematics import BoxLimits, ComTask, ConeLimits, LookAtTask, OrientationTask, PointTask, PoseTask
from marey.kinematics import solve_ik as solve_person
from marey.kinematics.ik.methods import METHODS
from marey.lie import SO3, geodesic_distance
from marey.models import PGA
from marey.motion import Motion, centre_of_mass
from marey.numerics import SolveStatus
from marey.skeleton import HUMAN, Pose, Skeleton, joint_positions

ENDS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")


def reachable(seed: int, count: int, spread: float = 0.4, bound: float = np.inf) -> np.ndarray:
    """Places (count, 5, 3) of hands, feet and head in random poses."""
    rng = np.random.default_rng(seed)
    turns = np.clip(rng.normal(0.0, spread, (count, HUMAN.num_joints, 3)), -bound, bound)
    roots = HUMAN.offsets[0] + rng.normal(0.0, 0.3, (count, 3))
    return joint_positions(HUMAN, roots, SO3.exp(turns).wxyz)[:, [HUMAN.index(name) for name in ENDS]]


def goals(places: np.ndarray) -> list[PointTask]:
    return [PointTask(name, place) for name, place in zip(ENDS, places, strict=True)]


def errors_of(pose: Pose, places: np.ndarray) -> np.ndarray:
    return np.linalg.norm(pose.joint_positions()[[HUMAN.index(name) for name in ENDS]] - places, axis=1)


def half_box(radius: float = 0.5) -> BoxLimits:
    bound = np.full((HUMAN.num_joints, 3), radius)
    bound[0] = np.inf
    return BoxLimits(HUMAN, -bound, bound)


@pytest.mark.parametrize("spread", [0.2, 0.4, 0.6, 0.9])
def test_random_reachable_poses_are_solved_cold_from_rest_to_a_millimetre(spread):
    for places in reachable(40, 40, spread):
        result = solve_ik(HUMAN, goals(places), restarts=0)
        assert result.status is SolveStatus.CONVERGED
        assert errors_of(result.pose, places).max() <= 1e-3
        assert result.position_error_m == pytest.approx(errors_of(result.pose, places).max(), abs=1e-12)


@pytest.mark.parametrize("method", ["projected-lm", "pg-armijo", "projected-cg", "projected-dogleg", "ccd"])
def test_limits_hold_in_every_pose_that_comes_back(method):
    limits = half_box()
    for places in reachable(7, 8, 0.5, bound=0.5):
        result = solve_ik(HUMAN, goals(places), limits=limits, method=method, restarts=0, on_failure="return")
        assert limits.violation(result.pose).max() <= 1e-6


def test_goals_of_poses_inside_the_limits_are_reached_inside_the_limits():
    limits = half_box()
    for places in reachable(3, 40, 0.5, bound=0.5):
        result = solve_ik(HUMAN, goals(places), limits=limits)
        assert errors_of(result.pose, places).max() <= 1e-3
        assert limits.violation(result.pose).max() <= 1e-6


def test_cones_project_every_step_and_hold():
    limits, outside = ConeLimits.around_bones(HUMAN, 0.35, (-0.2, 0.2)), []
    for places in reachable(5, 6, 0.15):
        result = solve_ik(HUMAN, goals(places), limits=limits, on_failure="return")
        assert limits.violation(result.pose).max() <= 1e-6
        assert result.position_error_m < 0.02
        outside.append(limits.violation(solve_ik(HUMAN, goals(places)).pose).max())
    assert max(outside) > 0.05  # without them it goes outside


@pytest.mark.parametrize("method", [*METHODS, "two-bone"])
def test_every_method_moves_a_hand_and_a_foot(method):
    rest = HUMAN.rest_positions()
    tasks = [
        PointTask("left_wrist", rest[HUMAN.index("left_wrist")] + [-0.1, 0.1, 0.15]),
        PointTask("right_ankle", rest[HUMAN.index("right_ankle")] + [0.0, 0.12, 0.15]),
    ]
    result = solve_ik(HUMAN, tasks, method=method, start=Pose.rest(HUMAN), root="fixed")
    assert result.reached.all() and result.position_error_m <= 1e-3
    np.testing.assert_array_equal(result.pose.root_position, HUMAN.offsets[0])


@pytest.mark.parametrize("variant", ["fixed", "buss", "meredith-maddock"])
def test_the_variants_of_the_transpose_lower_the_error(variant):
    places = reachable(11, 1, 0.2)[0]
    before = np.abs(errors_of(Pose.rest(HUMAN), places)).max()
    result = solve_ik(
        HUMAN, goals(places), method="jacobian-transpose", variant=variant, on_failure="return", restarts=0
    )
    assert result.position_error_m < 0.1 * before


def test_an_orientation_a_gaze_and_the_centre_of_mass_are_met():
    wanted = SO3.exp([0.3, 0.8, -0.2])
    tasks = [
        OrientationTask("right_wrist", wanted),
        LookAtTask("head", (1.0, 1.6, 3.0), point=(0.0, 0.1, 0.0)),
        ComTask((0.1, 0.95, 0.05)),
        PointTask("left_wrist", (0.4, 1.2, 0.3), point=(0.05, 0.0, 0.0)),
    ]
    pose = solve_ik(HUMAN, tasks).pose
    frames, places = pose.joint_rotations(), pose.joint_positions()
    head, hand = HUMAN.index("head"), HUMAN.index("left_wrist")
    eye = places[head] + frames[head] @ np.array([0.0, 0.1, 0.0])
    gaze = np.array([1.0, 1.6, 3.0]) - eye
    centre = centre_of_mass(Motion(HUMAN, 1.0, pose.root_position[None], SO3(pose.rotations.wxyz[None])))[0]
    assert geodesic_distance(frames[HUMAN.index("right_wrist")], wanted) <= 1e-3
    assert np.arccos(np.clip(frames[head] @ np.array([0.0, 0.0, 1.0]) @ gaze / np.linalg.norm(gaze), -1, 1)) <= 1.1e-3
    assert np.linalg.norm(centre - [0.1, 0.95, 0.05]) <= 1e-3
    assert np.linalg.norm(places[hand] + frames[hand] @ np.array([0.05, 0.0, 0.0]) - [0.4, 1.2, 0.3]) <= 1e-3


def test_a_gaze_straight_behind_still_turns():
    result = solve_ik(HUMAN, [LookAtTask("head", (0.0, 1.5575, -5.0))], root="fixed")
    assert result.orientation_error_rad <= 1e-3


def test_a_higher_level_is_met_and_the_lower_one_comes_as_near_as_that_allows():
    near, far = np.array([0.3, 1.0, 0.4]), np.array([1.3, 1.0, 0.4])
    tasks = [PointTask("left_wrist", near), PointTask("left_wrist", far, priority=1)]
    result = solve_ik(HUMAN, tasks, on_failure="return")
    assert result.reached[0] and not result.reached[1]
    assert result.errors[0] < 2e-4
    swapped = [PointTask("left_wrist", near, priority=1), PointTask("left_wrist", far)]
    assert solve_ik(HUMAN, swapped, on_failure="return").errors[1] < 2e-4


def test_weights_share_the_error_between_goals_of_one_level():
    a, b = np.array([0.3, 1.0, 0.4]), np.array([0.5, 1.0, 0.4])
    result = solve_ik(HUMAN, [PointTask("left_wrist", a, weight=3.0), PointTask("left_wrist", b)], on_failure="return")
    assert result.errors == pytest.approx([0.05, 0.15], abs=1e-5)  # the weighted mean of two places


def test_a_weight_of_zero_along_an_axis_leaves_it_free_and_uncounted():
    result = solve_ik(HUMAN, [PointTask("left_wrist", (0.4, 1.2, 5.0), weight=(1.0, 1.0, 0.0))], root="fixed")
    place = result.pose.joint_positions()[HUMAN.index("left_wrist")]
    assert np.linalg.norm(place[:2] - [0.4, 1.2]) <= 1e-3
    assert result.position_error_m == pytest.approx(np.linalg.norm(place[:2] - [0.4, 1.2]), abs=1e-12)


def test_the_pose_prior_pulls_free_joints_to_its_pose_and_goals_stay_met():
    rng = np.random.default_rng(0)
    liked = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(rng.normal(0.0, 0.2, (HUMAN.num_joints, 3))))
    places = reachable(2, 1, 0.2)[0]
    loose = solve_ik(HUMAN, goals(places)).pose
    pulled = solve_ik(HUMAN, [*goals(places), PoseTask(liked)])
    assert pulled.reached.all()
    away = [geodesic_distance(pose.rotations, liked.rotations)[1:].sum() for pose in (loose, pulled.pose)]
    assert away[1] < 0.8 * away[0]


def test_a_pose_task_alone_gives_its_pose():
    rng = np.random.default_rng(1)
    liked = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(rng.normal(0.0, 0.3, (HUMAN.num_joints, 3))))
    pose = solve_ik(HUMAN, [PoseTask(liked, root_weight=1.0)]).pose
    assert geodesic_distance(pose.rotations, liked.rotations).max() < 1e-6


def test_an_unreachable_goal_gives_the_nearest_pose_and_says_so():
    shoulder = HUMAN.rest_positions()[HUMAN.index("left_shoulder")]
    target = shoulder + np.array([2.0, 0.5, 0.3])
    frozen = ("spine1", "spine2", "spine3", "left_collar")
    result = solve_ik(HUMAN, [PointTask("left_wrist", target)], root="fixed", frozen_joints=frozen, on_failure="return")
    arm = np.linalg.norm(HUMAN.offsets[HUMAN.index("left_elbow")]) + np.linalg.norm(
        HUMAN.offsets[HUMAN.index("left_wrist")]
    )
    assert result.status is SolveStatus.INFEASIBLE
    assert result.position_error_m == pytest.approx(np.linalg.norm(target - shoulder) - arm, abs=1e-4)  # a straight arm
    assert "left_wrist" in result.advice and "out of reach" in result.advice
    with pytest.raises(ConvergenceError, match="out of reach") as caught:
        solve_ik(HUMAN, [PointTask("left_wrist", target)], root="fixed", frozen_joints=frozen)
    assert np.isfinite(caught.value.report.pose.rotations.wxyz).all()


def test_frozen_joints_and_a_fixed_root_do_not_move():
    start = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(np.random.default_rng(3).normal(0.0, 0.1, (HUMAN.num_joints, 3))))
    place = start.joint_positions()[HUMAN.index("left_wrist")] + [-0.1, 0.05, 0.1]
    pose = solve_ik(
        HUMAN, [PointTask("left_wrist", place)], start=start, root="fixed", frozen_joints=["left_elbow"]
    ).pose
    for joint in ("pelvis", "left_elbow", "right_hip"):
        j = HUMAN.index(joint)
        np.testing.assert_array_equal(pose.rotations.wxyz[j], start.rotations.wxyz[j])


def test_a_start_that_meets_the_goals_comes_back_as_it_is():
    start = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(np.random.default_rng(3).normal(0.0, 0.3, (HUMAN.num_joints, 3))))
    places = start.joint_positions()[[HUMAN.index(name) for name in ENDS]]
    result = solve_ik(HUMAN, goals(places), start=start)
    assert result.iterations == 0
    np.testing.assert_array_equal(result.pose.rotations.wxyz, start.rotations.wxyz)


def test_a_start_outside_the_limits_is_moved_in_and_reported():
    limits = half_box()
    turns = np.zeros((HUMAN.num_joints, 3))
    turns[HUMAN.index("left_elbow")] = [0.0, -1.2, 0.0]
    start = Pose(HUMAN, HUMAN.offsets[0], SO3.exp(turns))
    result = solve_ik(HUMAN, goals(reachable(1, 1, 0.1)[0]), start=start, limits=limits)
    assert result.start_moved_rad == pytest.approx(0.7, abs=1e-9)
    assert "outside the limits" in result.advice
    assert limits.is_feasible(result.pose, 1e-6)


def test_limits_that_exclude_the_rest_pose_are_kept():
    low, high = np.full((HUMAN.num_joints, 3), -np.inf), np.full((HUMAN.num_joints, 3), np.inf)
    elbow = HUMAN.index("left_elbow")
    low[elbow], high[elbow] = [-0.1, -1.5, -0.1], [0.1, -0.5, 0.1]
    limits = BoxLimits(HUMAN, low, high)
    result = solve_ik(HUMAN, [PointTask("left_wrist", (0.4, 1.3, 0.3))], limits=limits)
    assert limits.is_feasible(result.pose, 1e-6) and result.start_moved_rad > 0.4


def test_the_same_call_gives_the_same_bits():
    places = reachable(9, 1)[0]
    first, second = (solve_ik(HUMAN, goals(places)).pose for _ in range(2))
    np.testing.assert_array_equal(first.rotations.wxyz, second.rotations.wxyz)


def test_infinite_targets_are_refused():
    with pytest.raises(InputError, match="target_world"):
        PointTask("head", (0.0, np.inf, 0.0))
    with pytest.raises(InputError, match="target_world"):
        ComTask((0.0, np.inf, 0.0))


def test_bad_input_is_refused_with_a_reason():
    hand = PointTask("left_wrist", (0.4, 1.3, 0.2))
    other = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]]))
    with pytest.raises(UnknownNameError, match="Did you mean 'left_wrist'"):
        solve_ik(HUMAN, [PointTask("left_wrst", (0.4, 1.3, 0.2))])
    with pytest.raises(UnknownNameError, match="projected-lm"):
        solve_ik(HUMAN, [hand], method="projected-ml")
    with pytest.raises(InputError, match="limits are those of"):
        solve_ik(HUMAN, [hand], limits=BoxLimits.free(other))
    with pytest.raises(InputError, match="start is a pose of"):
        solve_ik(HUMAN, [hand], start=Pose.rest(other))
    with pytest.raises(InputError, match="nothing can move"):
        solve_ik(other, [PointTask("b", (0.0, 2.0, 0.0))], root="fixed")
    with pytest.raises(InputError, match="tolerance_m"):
        solve_ik(HUMAN, [hand], tolerance_m=0.0)
    with pytest.raises(InputError, match="weight"):
        PointTask("head", (0, 0, 0), weight=-1.0)
    with pytest.raises(InputError, match="symmetric"):
        PointTask("head", (0, 0, 0), weight=np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    with pytest.raises(InputError, match="frames"):
        solve_ik(HUMAN, [PointTask("head", np.zeros((5, 3)))])
    with pytest.raises(InputError, match="takes no PoseTask"):
        solve_ik(HUMAN, [hand, PoseTask()], method="ccd")
    with pytest.raises(InputError, match="cannot pose"):
        solve_ik("human", [hand])


def test_zero_length_chains_are_refused_and_a_free_root_still_reaches():
    flat = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.zeros((3, 3)))
    task = [PointTask("c", (0.3, 0.0, 0.0))]
    with pytest.raises(InputError, match="no length"):
        solve_ik(flat, task, root="turn")
    assert solve_ik(flat, task).position_error_m <= 1e-3


def test_a_model_of_another_skeleton_is_refused(stiff_walk):
    model = PGA(n_components=3).fit(stiff_walk)
    other = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]]))
    with pytest.raises(InputError, match="start is a pose of"):
        solve_ik(model, [PointTask("head", (0.0, 1.6, 0.0))], start=Pose.rest(other))
    with pytest.raises(UnknownNameError):
        solve_ik(model, [PointTask("b", (0.0, 1.6, 0.0))])


def test_a_reduced_answer_stays_in_the_model_and_limits_pull_it_out_only_where_they_must(stiff_walk):
    model = PGA(n_components=4).fit(stiff_walk)
    pose = stiff_walk[20]
    places = pose.joint_positions()[[HUMAN.index(name) for name in ENDS]]
    result = solve_ik(model, goals(places), start=stiff_walk[10])
    back = model.rotations(result.coordinates[None])[0]
    assert geodesic_distance(back[1:], result.pose.rotations[1:]).max() < 1e-9
    limits = half_box(0.3)
    held = solve_ik(model, goals(places), start=stiff_walk[10], limits=limits, on_failure="return")
    assert limits.violation(held.pose).max() <= 1e-6


def _can_move(tree: Skeleton, tasks: list, root: str) -> bool:
    """Whether each goal has a joint above it that turns it, or a lever for a place."""
    rest = tree.rest_positions()
    for task in tasks:
        if isinstance(task, ComTask):
            free = [j for j in range(tree.num_joints) if j > 0 or root == "turn"]
            levers = [1.0] * len(free)
        else:
            j, free = task.joint, []
            while j >= 0:
                free += [j] if j > 0 or root == "turn" else []
                j = int(tree.parents[j])
            place = rest[task.joint] + (task.point if isinstance(task, PointTask) else 0.0)
            levers = [np.linalg.norm(place - rest[k]) if isinstance(task, PointTask) else 1.0 for k in free]
        if not any(lever > 1e-9 for lever in levers):
            return False
    return True


@pytest.mark.parametrize("seed", range(30))
def test_engell_69_random_trees_and_tasks_end_in_a_pose_or_an_error_never_in_a_nan(seed):
    assert_random_tree_ends_well(seed, 30)


@pytest.mark.slow
def test_engell_69_a_thousand_random_trees_of_up_to_two_hundred_freedoms_end_well():
    for seed in range(1000):
        assert_random_tree_ends_well(seed, 67)


def assert_random_tree_ends_well(seed, most):
    """Three freedoms a joint, fewer than ``most`` joints, goals of all kinds, near and far."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, most))
    parents = np.array([-1, *[int(rng.integers(0, j)) for j in range(1, count)]])
    offsets = rng.normal(0.0, 0.3, (count, 3)) * (rng.random((count, 1)) > 0.2)
    tree = Skeleton(tuple(f"j{j}" for j in range(count)), parents, offsets)
    tasks = []
    for _ in range(int(rng.integers(1, 6))):
        joint = int(rng.integers(0, count))
        place = rng.normal(0.0, 10.0 ** rng.uniform(-2, 3), 3)
        kind = rng.integers(0, 4)
        tasks.append(
            PointTask(joint, place, point=rng.normal(0, 0.1, 3), priority=int(rng.integers(0, 3)))
            if kind == 0
            else OrientationTask(joint, SO3.random(rng))
            if kind == 1
            else LookAtTask(joint, place)
            if kind == 2
            else ComTask(place)
        )
    bound = np.full((count, 3), rng.uniform(0.1, 3.0))
    limits = BoxLimits(tree, -bound, bound) if seed % 2 else None
    root = ("free", "turn", "fixed")[seed % 3]
    options = {"limits": limits, "root": root, "on_failure": "return", "max_iterations": 50, "restarts": 1}
    if root != "free" and not _can_move(tree, tasks, root):
        with pytest.raises(MareyError, match="nothing can move"):
            solve_ik(tree, tasks, **options)
        return
    result = solve_ik(tree, tasks, **options)
    assert np.isfinite(result.pose.rotations.wxyz).all() and np.isfinite(result.errors).all()
    if limits is not None:
        assert limits.violation(result.pose).max() <= 1e-6


@pytest.mark.parametrize("limits", [None, "auto"])
def test_the_interpreted_solver_gives_the_bits_of_the_compiled_one(
    limits: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = PointTask("right_wrist", (-0.3, 1.3, 0.3))
    sets = ([hand, LookAtTask("head", (0.5, 1.5, 2.0))], [hand, ComTask((0.0, 0.9, 0.05))], goals(reachable(40, 1)[0]))
    poses = list[list[np.ndarray]]()
    for is_interpreting in (False, True):
        monkeypatch.setattr(Kernel, "is_patient", False)
        monkeypatch.setattr(Kernel, "is_interpreting", is_interpreting)
        found = [solve_person(HUMAN, tasks, limits=limits, max_iterations=40, on_failure="return") for tasks in sets]
        poses.append([one.pose.rotations.wxyz for one in found])
    for compiled, interpreted in zip(*poses, strict=True):
        np.testing.assert_array_equal(interpreted, compiled)
