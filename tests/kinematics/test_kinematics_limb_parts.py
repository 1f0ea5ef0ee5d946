"""Parts that limbs and retargeting are made of: starts that align, limbs found."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.raw_ik import solve_ik

from marey.base import FloatArray, InputError
from marey.kinematics import Limb, PointTask, compare_limits
from marey.kinematics.ik.baselines.limbwise import find_limb_above
from marey.kinematics.ik.posing.attempts import NO_HISTORY, build_solver_inputs, compile_tasks
from marey.kinematics.ik.posing.starts import align_root, guess_from_pose, match_body
from marey.kinematics.ik.problem import collect_targets
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.samples import walk
from marey.skeleton import HUMAN, Pose, Skeleton, joint_positions

ARM = Limb.from_name(HUMAN, "left_arm")
LEG = Limb.from_name(HUMAN, "left_leg")
COLLAR = HUMAN.index("left_collar")


def still(frames: int, spread: float = 0.0, seed: int = 0) -> Motion:
    """Poses around rest, one a frame."""
    rng = np.random.default_rng(seed)
    turns = SO3.exp(rng.normal(0.0, spread, (frames, HUMAN.num_joints, 3)))
    return Motion(HUMAN, 60.0, np.tile(HUMAN.offsets[0], (frames, 1)), turns)


def directions(frames: int, seed: int = 1) -> FloatArray:
    ways = np.random.default_rng(seed).normal(0.0, 1.0, (frames, 3))
    return ways / np.linalg.norm(ways, axis=1, keepdims=True)


# --- limbs found above a goal ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "middle", "upper"),
    [("left_wrist", "left_elbow", "left_shoulder"), ("right_ankle", "right_knee", "right_hip")],
)
def test_the_limb_above_a_joint_is_its_two_nearest_bones_and_bends_as_it_does(end: str, middle: str, upper: str):
    pose = still(1, 0.5, seed=7)[0]
    limb = find_limb_above(pose, HUMAN.index(end))
    assert (limb.end, limb.middle, limb.upper) == tuple(HUMAN.index(name) for name in (end, middle, upper))
    places = pose.joint_positions()
    along, bend = places[limb.end] - places[limb.upper], places[limb.middle] - places[limb.upper]
    pole = pose.joint_rotations()[limb.upper] @ limb.pole_upper
    assert abs(pole @ along) < 1e-9 and pole @ bend > 0.0 and np.linalg.norm(pole) == pytest.approx(1.0)
    with pytest.raises(InputError, match="no two bones above it"):
        find_limb_above(pose, 0)


def test_joints_without_a_bone_are_passed_over():
    offsets = np.array([[0.0, 0, 0], [0.3, 0, 0], [0.0, 0, 0], [0.2, 0, 0], [0.0, 0, 0], [0.1, 0.1, 0]])
    chain = Skeleton(tuple("abcdef"), np.arange(-1, 5), offsets, name="chain")
    limb = find_limb_above(Pose.rest(chain), 5)
    assert (limb.end, limb.middle, limb.upper) == (5, 4, 2)


def test_the_analytic_method_moves_its_limb_alone():
    start = still(1, 0.3, seed=8)[0]
    goal = start.joint_positions()[ARM.upper] + [0.1, -0.2, 0.25]
    result = solve_ik(HUMAN, [PointTask("left_wrist", goal)], start=start, method="two-bone")
    turned = geodesic_distance(result.pose.rotations, start.rotations)
    assert np.linalg.norm(result.pose.joint_positions()[ARM.end] - goal) < 1e-9
    assert np.delete(turned, [ARM.upper, ARM.middle, ARM.end]).max() < 1e-12


# --- where a solve begins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_start_is_laid_onto_goals_that_are_its_own_places_moved_rigidly(seed: int):
    """Kabsch's answer is exact there, but for the small pull towards no turn."""
    rng = np.random.default_rng(seed)
    turn, shift = SO3.exp(rng.normal(0.0, 1.0, 3)), rng.normal(0.0, 2.0, 3)
    names = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")
    rest = HUMAN.rest_positions()
    tasks = [PointTask(name, turn @ rest[HUMAN.index(name)] + shift) for name in names]
    body = match_body(HUMAN, None, None)
    problem = compile_tasks(body, tasks, None, "free", (), 1e-3, 1e-3)
    run = build_solver_inputs(body, problem, *collect_targets(tasks), None, 1, None, None, None, NO_HISTORY)
    guess = guess_from_pose(body, None)
    align_root(run, guess)
    found = joint_positions(HUMAN, guess.root[None], guess.wxyz[None])[0]
    off = [found[HUMAN.index(name)] - task.goal for name, task in zip(names, tasks, strict=True)]
    assert np.linalg.norm(off, axis=1).max() < 0.25
    assert np.linalg.norm(np.mean(off, axis=0)) < 1e-9
    assert geodesic_distance(SO3(guess.wxyz[0]), turn) < 0.3


# --- models of limits side by side -------------------------------------------------------------------------------


def test_scores_are_shares_and_a_box_holds_more_room_than_what_fits_in_it():
    motion = walk()
    scores = compare_limits(
        motion[::2], held_out=motion[1::2], kinds=("box", "cone", "sdf"), joints=["left_hip", "left_shoulder"],
        rng=np.random.default_rng(1), num_points=500,
    )  # fmt: skip
    box, cone, sdf = scores
    assert [score.model.kind for score in scores] == ["box", "cone", "sdf"]
    for score in scores:
        assert score.training == 1.0 and score.held_out is not None and score.held_out_margin is not None
        assert 0.9 <= score.held_out <= score.held_out_margin <= 1.0
        assert 0.0 < score.volume <= 1.0 and score.project_ns > 0.0 and score.num_bytes > 0
    assert box.volume == 1.0 and sdf.volume < 0.5 and cone.volume < 1.0
    with pytest.raises(InputError, match="no joint to score"):
        compare_limits(motion, joints=[], rng=np.random.default_rng(1))
