"""The analytic limb."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError, UnknownNameError
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

LEG = ("left_hip", "left_knee", "left_ankle")


def clip(seed: int, frames: int = 6, wildness: float = 0.4) -> Motion:
    rng = np.random.default_rng(seed)
    turns = rng.normal(0.0, wildness, (frames, HUMAN.num_joints, 3))
    turns[:, HUMAN.index("left_knee"), 0] = rng.uniform(0.2, 1.5, frames)
    return Motion(HUMAN, 30.0, rng.normal(0.0, 1.0, (frames, 3)), SO3.exp(turns))


def reachable(motion: Motion, seed: int, low: float = 0.5, high: float = 0.97) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hip = motion.joint_positions()[:, HUMAN.index("left_hip")]
    away = rng.normal(0.0, 1.0, hip.shape)
    away /= np.linalg.norm(away, axis=-1, keepdims=True)
    return hip + away * (rng.uniform(low, high, len(hip)) * leg_length())[:, None]


def leg_length() -> float:
    p = HUMAN.rest_positions()
    return sum(np.linalg.norm(p[HUMAN.index(b)] - p[HUMAN.index(a)]) for a, b in pairwise(LEG))


@given(seed=st.integers(0, 5_000))
def test_every_target_within_reach_is_met_exactly(seed):
    motion = clip(seed)
    targets = reachable(motion, seed + 1)
    result = solve_two_bone(motion, "left_leg", targets)
    assert result.reached.all()
    np.testing.assert_allclose(result.motion.joint_positions()[:, HUMAN.index("left_ankle")], targets, atol=1e-9)


@given(seed=st.integers(0, 5_000))
def test_the_hip_stays_and_other_joints_are_untouched(seed):
    motion = clip(seed)
    moved = solve_two_bone(motion, "left_leg", reachable(motion, seed)).motion
    apart = [j for j, name in enumerate(HUMAN.names) if name not in LEG]
    np.testing.assert_array_equal(moved.rotations.wxyz[:, apart], motion.rotations.wxyz[:, apart])
    hip = HUMAN.index("left_hip")
    np.testing.assert_allclose(moved.joint_positions()[:, hip], motion.joint_positions()[:, hip], atol=1e-12)


def test_a_target_where_the_end_already_is_changes_nothing():
    motion = clip(3)
    moved = solve_two_bone(motion, "left_leg", motion.joint_positions()[:, HUMAN.index("left_ankle")]).motion
    assert geodesic_distance(moved.rotations, motion.rotations).max() < 1e-6


def test_the_knee_keeps_its_plane():
    motion = clip(5, wildness=0.2)
    hip, knee, ankle = (HUMAN.index(name) for name in LEG)
    before = motion.joint_positions()
    targets = before[:, ankle] + 0.3 * (before[:, hip] - before[:, ankle])  # straight up the leg: no turn of the plane
    after = solve_two_bone(motion, "left_leg", targets).motion.joint_positions()
    normal = np.cross(before[:, knee] - before[:, hip], before[:, ankle] - before[:, hip])
    off_plane = np.einsum("fi,fi->f", normal, after[:, knee] - after[:, hip]) / np.linalg.norm(normal, axis=-1)
    assert np.abs(off_plane).max() < 1e-9


def test_the_foot_keeps_its_world_rotation_or_goes_along():
    motion = clip(7)
    targets = reachable(motion, 8)
    ankle, knee = HUMAN.index("left_ankle"), HUMAN.index("left_knee")
    held = solve_two_bone(motion, "left_leg", targets).motion
    loose = solve_two_bone(motion, "left_leg", targets, keep_end=False).motion
    assert geodesic_distance(held.joint_frames()[1][:, ankle], motion.joint_frames()[1][:, ankle]).max() < 1e-7
    np.testing.assert_array_equal(loose.rotations.wxyz[:, ankle], motion.rotations.wxyz[:, ankle])
    assert geodesic_distance(loose.rotations[:, knee], held.rotations[:, knee]).max() < 1e-12


def test_the_foot_can_be_given_a_rotation():
    motion = clip(9)
    wanted = SO3.exp(np.tile([0.1, 0.2, 0.3], (motion.num_frames, 1)))
    moved = solve_two_bone(motion, "left_leg", reachable(motion, 1), end_rotations=wanted).motion
    assert geodesic_distance(moved.joint_frames()[1][:, HUMAN.index("left_ankle")], wanted).max() < 1e-7


def test_a_target_out_of_reach_is_approached_and_flagged():
    motion = clip(11)
    hip = motion.joint_positions()[:, HUMAN.index("left_hip")]
    result = solve_two_bone(motion, "left_leg", hip + np.array([0.0, -2.0, 0.0]))
    ankle = result.motion.joint_positions()[:, HUMAN.index("left_ankle")]
    assert not result.reached.any()
    away = (ankle - hip) / np.linalg.norm(ankle - hip, axis=-1, keepdims=True)
    np.testing.assert_allclose(away, np.tile([0.0, -1.0, 0.0], (6, 1)), atol=1e-9)
    assert np.linalg.norm(ankle - hip, axis=-1).max() <= 0.995 * leg_length() + 1e-12
    np.testing.assert_allclose(result.position_error_m, 2.0 - np.linalg.norm(ankle - hip, axis=-1), atol=1e-9)


def test_a_target_on_the_hip_folds_the_leg_as_far_as_bones_allow():
    motion = clip(12)
    hip = motion.joint_positions()[:, HUMAN.index("left_hip")]
    result = solve_two_bone(motion, "left_leg", hip)
    ankle = result.motion.joint_positions()[:, HUMAN.index("left_ankle")]
    assert np.isfinite(result.motion.rotations.wxyz).all()
    assert np.linalg.norm(ankle - hip, axis=-1).max() < 0.05


def test_extension_bends_over_smoothly():
    straight = Motion(HUMAN, 30.0, np.zeros((400, 3)), SO3.identity(400, HUMAN.num_joints))
    hip = straight.joint_positions()[:, HUMAN.index("left_hip")]
    down = np.linspace(0.95, 1.05, 400)[:, None] * leg_length() * np.array([0.0, -1.0, 0.0])
    moved = solve_two_bone(straight, "left_leg", hip + down).motion
    bend = moved.rotations[:, HUMAN.index("left_knee")].angle()
    steps = np.abs(np.diff(bend))
    p = HUMAN.rest_positions()
    thigh, shank = (p[HUMAN.index(b)] - p[HUMAN.index(a)] for a, b in pairwise(LEG))
    rest = np.arccos(thigh @ shank / np.linalg.norm(thigh) / np.linalg.norm(shank))
    assert bend.min() == pytest.approx(2.0 * np.arccos(0.995) - rest, abs=1e-3)  # law of cosines, equal bones
    assert steps.max() < np.radians(1.0)
    assert np.abs(np.diff(steps)).max() < np.radians(0.2)


def test_a_straight_leg_bends_its_knee_forwards_and_an_elbow_backwards():
    rest = Motion(HUMAN, 30.0, np.zeros((1, 3)), SO3.identity(1, HUMAN.num_joints))
    p = rest.joint_positions()[0]
    foot = p[HUMAN.index("left_hip")] + 0.8 * (p[HUMAN.index("left_ankle")] - p[HUMAN.index("left_hip")])
    hand = p[HUMAN.index("left_shoulder")] + 0.8 * (p[HUMAN.index("left_wrist")] - p[HUMAN.index("left_shoulder")])
    knee = solve_two_bone(rest, "left_leg", foot).motion.joint_positions()[0, HUMAN.index("left_knee")]
    elbow = solve_two_bone(rest, "left_arm", hand).motion.joint_positions()[0, HUMAN.index("left_elbow")]
    assert knee[2] > p[HUMAN.index("left_knee"), 2] + 0.1
    assert elbow[2] < p[HUMAN.index("left_elbow"), 2] - 0.1


def test_joints_between_the_three_are_carried_along():
    names = ("root", "thigh", "twist", "shin", "roll", "foot")
    offsets = np.array([(0, 1, 0), (0.1, 0, 0), (0, -0.2, 0), (0, -0.2, 0.02), (0, -0.2, 0), (0, -0.2, 0)], dtype=float)
    chain = Skeleton(names, np.array([-1, 0, 1, 2, 3, 4]), offsets)
    rng = np.random.default_rng(0)
    motion = Motion(chain, 30.0, np.zeros((5, 3)), SO3.exp(rng.normal(0.0, 0.2, (5, 6, 3))))
    targets = motion.joint_positions()[:, 5] + [0.05, 0.1, 0.05]
    result = solve_two_bone(motion, Limb(1, 3, 5, np.array([0.0, 0.0, 1.0])), targets)
    np.testing.assert_allclose(result.motion.joint_positions()[:, 5], targets, atol=1e-9)


def test_wrong_limbs_are_refused_with_a_reason():
    motion = clip(1)
    with pytest.raises(UnknownNameError, match="left_leg"):
        solve_two_bone(motion, "left_lag", np.zeros(3))
    with pytest.raises(InputError, match="hang below"):
        solve_two_bone(motion, Limb(7, 4, 1, np.array([0.0, 0.0, 1.0])), np.zeros(3))
    with pytest.raises(InputError, match=r"between 0\.5 and 1"):
        solve_two_bone(motion, "left_leg", np.zeros(3), stretch=1.5)
    with pytest.raises(InputError, match="targets"):
        solve_two_bone(motion, "left_leg", np.full(3, np.nan))


def test_a_limb_without_bones_is_refused():
    flat = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.zeros((3, 3)))
    motion = Motion(flat, 30.0, np.zeros((2, 3)), SO3.identity(2, 3))
    with pytest.raises(InputError, match="no length"):
        solve_two_bone(motion, Limb(0, 1, 2, np.array([0.0, 0.0, 1.0])), np.ones(3))
