"""Parts that limbs and retargeting are made of: girdles that help, feet that stay, starts that align, limbs found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import FloatArray, InputError
from marey.kinematics import Limb, PointTask, compare_limits, solve_ik
from marey.kinematics.foot_plants import FloorPlane
from marey.kinematics.ik.baselines.analytic_limb import find_limb_above
from marey.kinematics.ik.problem import collect_targets
from marey.kinematics.ik.solve import NO_HISTORY, build_solver_inputs, compile_tasks
from marey.kinematics.ik.starts import align_root, guess_from_pose, match_body
from marey.kinematics.limbs import (
    DROP_FRACTION,
    GIRDLE_RAD,
    SHIFT_M,
    SOFT_FRACTION,
    FootTrajectory,
    _limit_shift,
    compute_hip_drop,
    limit_elbow_change,
    move_limb_end,
    plant_foot,
    rotate_collar,
)
from marey.kinematics.retargeting import transfer_rotations
from marey.kinematics.two_bone import STRAIGHT, allowed_stretch, saturation_start
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.samples import walk
from marey.skeleton import HUMAN, Pose, Skeleton, human, joint_positions, role_map

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


# --- arms --------------------------------------------------------------------------------------------------------


def test_a_girdle_stays_where_the_arm_is_long_enough():
    motion = still(40, 0.2)
    goals = motion.joint_positions()[:, ARM.upper] + 0.3 * directions(40)
    helped = rotate_collar(motion, COLLAR, ARM, goals, np.full(40, 0.995))
    assert geodesic_distance(helped.rotations, motion.rotations).max() < 1e-7


def test_a_girdle_turns_towards_far_goals_by_no_more_than_half_of_what_people_can():
    motion = still(60, 0.2)
    shoulder = motion.joint_positions()[:, ARM.upper]
    goals = shoulder + 0.9 * directions(60)
    helped = rotate_collar(motion, COLLAR, ARM, goals, np.full(60, 0.995))
    turned = geodesic_distance(helped.rotations, motion.rotations)
    assert (np.delete(turned, COLLAR, axis=1) < 1e-7).all()
    assert turned[:, COLLAR].max() <= GIRDLE_RAD + 1e-9 and turned[:, COLLAR].max() > 0.5 * GIRDLE_RAD
    before, after = (np.linalg.norm(goals - m.joint_positions()[:, ARM.upper], axis=1) for m in (motion, helped))
    bone, way = shoulder - motion.joint_positions()[:, COLLAR], goals - motion.joint_positions()[:, COLLAR]
    cosine = (bone * way).sum(axis=1) / np.linalg.norm(bone, axis=1) / np.linalg.norm(way, axis=1)
    aside = cosine < np.cos(0.5 * GIRDLE_RAD)  # a bone that points at its goal already is turned past it
    assert aside.mean() > 0.9 and (after[aside] <= before[aside] + 1e-9).all()
    assert (after < before - 1e-3).mean() > 0.9


def test_fair_goals_are_kept_when_they_bend_the_elbow_little_and_left_when_they_bend_it_much():
    motion = still(2)
    places = motion.joint_positions()
    along = places[:, ARM.end] - places[:, ARM.upper]
    goals = places[:, ARM.upper] + along * np.array([[0.98], [0.15]])
    fair = limit_elbow_change(motion, ARM, goals)
    np.testing.assert_array_equal(fair[0], goals[0])
    np.testing.assert_allclose(fair[1], places[1, ARM.end], atol=1e-12)


# --- feet --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size_m", [0.0, 0.001, 0.01, 0.0133, 0.019, 0.1, 5.0])
def test_shifts_keep_their_direction_grow_with_what_is_asked_and_never_pass_their_bound(size_m: float):
    shift = size_m * directions(50)
    bent = _limit_shift(shift)
    sizes = np.linalg.norm(bent, axis=1)
    assert (sizes <= SHIFT_M + 1e-12).all()
    np.testing.assert_allclose(np.cross(bent, shift), 0.0, atol=1e-12)
    if size_m <= SOFT_FRACTION * SHIFT_M:
        np.testing.assert_array_equal(bent, shift)
    more = np.linalg.norm(_limit_shift(1.1 * shift), axis=1)
    assert (more >= sizes - 1e-15).all()


def foot_path(motion: Motion, is_down: bool) -> FootTrajectory:
    positions, frames = motion.joint_frames()
    count = len(motion)
    down = np.full(count, is_down)
    heel, toe = np.tile([0.0, -0.07, -0.05], (count, 1)), np.tile([0.0, -0.07, 0.15], (count, 1))
    return FootTrajectory(positions[:, LEG.end], frames[:, LEG.end], heel, toe, down, down)


def test_a_foot_that_trembles_in_contact_is_held_still_and_one_in_the_air_is_left():
    motion = still(60)
    tremble = 0.002 * np.sin(np.arange(60.0))[:, None] * [1.0, 0.0, 1.0]
    path = foot_path(motion, True)
    floor = FloorPlane(float((path.ankle + path.heel)[0, 1]), np.zeros(2))
    shaken = replace(path, ankle=path.ankle + tremble)
    planted = plant_foot(shaken, floor, 60.0)
    steps = np.linalg.norm(np.diff(planted.ankle[5:-5], axis=0), axis=1)
    assert steps.max() < 0.2 * np.linalg.norm(np.diff(shaken.ankle, axis=0), axis=1).max()
    free = plant_foot(replace(foot_path(motion, False), ankle=path.ankle + np.array([0.0, 0.3, 0.0])), floor, 60.0)
    np.testing.assert_allclose(free.ankle, path.ankle + np.array([0.0, 0.3, 0.0]), atol=1e-12)
    assert plant_foot(shaken, None, 60.0) is shaken


def test_hips_come_down_just_as_far_as_a_planted_foot_needs():
    motion = still(3)
    positions, path = motion.joint_positions(), foot_path(motion, True)
    ankle = path.ankle - np.array([[0.0, 0.0, 0.0], [0.0, 0.02, 0.0], [0.0, 0.5, 0.0]])
    stretch = np.full(3, 0.999)
    drop = compute_hip_drop(positions, LEG, replace(path, ankle=ankle), stretch)
    length = np.linalg.norm(np.diff(positions[0, [LEG.upper, LEG.middle, LEG.end]], axis=0), axis=1).sum()
    assert drop[1] - drop[0] == pytest.approx(0.02, abs=2e-3)
    assert drop[2] == pytest.approx(DROP_FRACTION * length)
    lowered = positions[1, LEG.upper] - [0.0, drop[1], 0.0]
    assert np.linalg.norm(lowered - ankle[1]) == pytest.approx(saturation_start(stretch)[1] * length, abs=1e-6)
    assert (compute_hip_drop(positions, LEG, replace(foot_path(motion, False), ankle=ankle), stretch) == 0.0).all()


def test_a_reach_moves_the_end_and_turns_it_as_asked():
    motion = still(20, 0.3, seed=3)
    places = motion.joint_positions()
    goals = places[:, ARM.upper] + 0.35 * directions(20, seed=4)
    wanted = SO3.random(np.random.default_rng(5), 20)
    moved = move_limb_end(motion, ARM, goals, wanted, stretch=0.995)
    np.testing.assert_allclose(moved.joint_positions()[:, ARM.end], goals, atol=1e-9)
    assert geodesic_distance(moved.joint_frames()[1][:, ARM.end], wanted).max() < 1e-7


def test_a_limbs_own_stretch_saturates_nowhere_short_of_what_it_has():
    places = still(30, 0.4, seed=6).joint_positions()
    own = allowed_stretch(places, LEG, 0.9)
    bones = np.linalg.norm(np.diff(places[:, [LEG.upper, LEG.middle, LEG.end]], axis=1), axis=-1).sum(axis=1)
    extension = np.linalg.norm(places[:, LEG.end] - places[:, LEG.upper], axis=1) / bones
    assert ((own >= 0.9) & (own <= STRAIGHT)).all()
    free = own < STRAIGHT
    assert free.any() and (saturation_start(own)[free] >= extension[free] - 1e-9).all()


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
    run = build_solver_inputs(body, problem, collect_targets(problem, tasks), None, 1, None, None, None, NO_HISTORY)
    guess = guess_from_pose(body, None)
    align_root(run, guess)
    found = joint_positions(HUMAN, guess.root[None], guess.wxyz[None])[0]
    off = [found[HUMAN.index(name)] - task.goal for name, task in zip(names, tasks, strict=True)]
    assert np.linalg.norm(off, axis=1).max() < 0.25
    assert np.linalg.norm(np.mean(off, axis=0)) < 1e-9
    assert geodesic_distance(SO3(guess.wxyz[0]), turn) < 0.3


# --- postures on other skeletons ---------------------------------------------------------------------------------


def test_a_posture_on_its_own_skeleton_is_itself():
    motion = walk()[:20]
    roles = role_map(motion.skeleton)
    moved = SO3(transfer_rotations(motion, roles, motion.skeleton, roles))
    assert geodesic_distance(moved, motion.rotations).max() < 1e-7


def test_bones_point_the_same_way_on_a_body_whose_joint_frames_are_turned():
    """The target's joints are measured in frames of their own; where its bones point is all that is seen."""
    motion, target = walk()[:10], human(1.60)
    moved = transfer_rotations(motion, role_map(motion.skeleton), target, role_map(target))
    found = Motion(target, motion.rate_hz, motion.root_positions, SO3(moved)).joint_positions()
    places = motion.joint_positions()
    for above, below in (("left_hip", "left_knee"), ("right_shoulder", "right_elbow"), ("left_elbow", "left_wrist")):
        a, b = target.index(above), target.index(below)
        ours, theirs = found[:, b] - found[:, a], places[:, b] - places[:, a]
        cosine = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
        assert cosine.min() > 1.0 - 1e-9


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
