"""Skeletons, poses and forward kinematics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError, UnknownNameError
from marey.lie import SO3, geodesic_distance
from marey.skeleton import HUMAN, Pose, Skeleton, SkeletonDraft, human, joint_frames, joint_positions


def random_tree(seed: int, joints: int = 12) -> Skeleton:
    rng = np.random.default_rng(seed)
    parents = [-1] + [int(rng.integers(0, j)) for j in range(1, joints)]
    return Skeleton(tuple(f"j{j}" for j in range(joints)), np.array(parents), rng.normal(0.0, 0.3, (joints, 3)))


def matrix_twin(skeleton: Skeleton, root: np.ndarray, matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forward kinematics with 4 x 4 matrices, one pose."""
    world = np.zeros((skeleton.num_joints, 4, 4))
    for j in range(skeleton.num_joints):
        local = np.eye(4)
        local[:3, :3], local[:3, 3] = matrices[j], skeleton.offsets[j] if j else root
        world[j] = local if j == 0 else world[skeleton.parents[j]] @ local
    return world[:, :3, 3], world[:, :3, :3]


@given(seed=st.integers(0, 10_000))
def test_forward_kinematics_agrees_with_homogeneous_matrices(seed):
    skeleton, rng = random_tree(seed), np.random.default_rng(seed + 1)
    roots, rotations = rng.normal(0.0, 2.0, (3, 3)), SO3.exp(rng.normal(0.0, 1.5, (3, skeleton.num_joints, 3)))
    positions, frames = joint_frames(skeleton, roots, rotations.wxyz)
    for f in range(3):
        p, R = matrix_twin(skeleton, roots[f], rotations.matrix()[f])
        np.testing.assert_allclose(positions[f], p, atol=1e-12)
        np.testing.assert_allclose(frames.matrix()[f], R, atol=1e-12)


@given(seed=st.integers(0, 10_000))
def test_bones_keep_their_length(seed):
    skeleton, rng = random_tree(seed), np.random.default_rng(seed)
    rotations = SO3.exp(rng.normal(0.0, 1.0, (2, skeleton.num_joints, 3)))
    p = joint_positions(skeleton, np.zeros((2, 3)), rotations.wxyz)
    bones = np.linalg.norm(p[:, 1:] - p[:, skeleton.parents[1:]], axis=-1)
    np.testing.assert_allclose(bones, np.tile(np.linalg.norm(skeleton.offsets[1:], axis=-1), (2, 1)), atol=1e-12)


def test_turning_the_root_turns_the_body():
    turn = SO3.exp([0.3, -0.7, 0.2])
    rest = Pose.rest(HUMAN)
    wxyz = rest.rotations.wxyz.copy()
    wxyz[0] = turn.wxyz
    turned = Pose(HUMAN, rest.root_position, SO3(wxyz)).joint_positions()
    np.testing.assert_allclose(
        turned - rest.root_position, turn @ (rest.joint_positions() - rest.root_position), atol=1e-12
    )


def test_moving_offsets_replace_the_constant_ones():
    longer = np.tile(HUMAN.offsets, (2, 1, 1))
    longer[1] *= 1.5
    wxyz = SO3.identity(2, HUMAN.num_joints).wxyz
    p = joint_positions(HUMAN, np.zeros((2, 3)), wxyz, longer)
    np.testing.assert_allclose(p[1], 1.5 * p[0], atol=1e-12)


def test_rest_positions_are_those_of_the_rest_pose():
    np.testing.assert_allclose(HUMAN.rest_positions(), Pose.rest(HUMAN).joint_positions(), atol=1e-12)
    assert geodesic_distance(Pose.rest(HUMAN).joint_rotations(), SO3.identity(22)).max() == 0.0


def test_the_human_has_the_proportions_of_its_table():
    p = human(1.0).rest_positions()
    at = dict(zip(HUMAN.names, p, strict=True))
    assert at["left_hip"][1] == pytest.approx(0.530)  # [Winter2009] fig. 4.1
    assert at["left_knee"][1] == pytest.approx(0.285)
    assert at["left_ankle"][1] == pytest.approx(0.039)
    assert at["left_shoulder"][1] == pytest.approx(0.818)
    assert at["left_elbow"][0] - at["left_shoulder"][0] == pytest.approx(0.186)
    assert at["left_wrist"][0] - at["left_elbow"][0] == pytest.approx(0.146)


def test_scaling_scales_lengths_and_tips():
    twice = HUMAN.scaled(2.0)
    np.testing.assert_allclose(twice.offsets, 2.0 * HUMAN.offsets)
    np.testing.assert_allclose(twice.tips, 2.0 * HUMAN.tips)


def test_unknown_joints_get_a_suggestion():
    with pytest.raises(UnknownNameError, match="left_knee"):
        HUMAN.index("left_kne")


@pytest.mark.parametrize(
    ("names", "parents", "message"),
    [
        (("a", "a"), (-1, 0), "two joints"),
        (("a", "b"), (-1, -1), "only root"),
        (("a", "b", "c"), (-1, 2, 1), "before their children"),
        ((), (), "0 joints"),
        (("a",), (0,), "only root"),
    ],
)
def test_broken_trees_are_refused(names, parents, message):
    with pytest.raises(InputError, match=message):
        Skeleton(names, np.array(parents, dtype=np.int64), np.zeros((len(names), 3)))


def test_offsets_that_are_not_numbers_are_refused():
    with pytest.raises(InputError, match="offsets"):
        Skeleton(("a",), np.array([-1]), np.array([[np.nan, 0.0, 0.0]]))


def test_a_draft_scales_when_built():
    draft = SkeletonDraft(name="arm")
    root = draft.add("upper", -1, (0.0, 0.0, 0.0))
    low = draft.add("lower", root, (10.0, 0.0, 0.0))
    draft.tips[low] = (5.0, 0.0, 0.0)
    arm = draft.build(scale=0.01)
    np.testing.assert_allclose(arm.offsets[1], (0.1, 0.0, 0.0))
    np.testing.assert_allclose(arm.tips[1], (0.05, 0.0, 0.0))
    assert arm.children(0).tolist() == [1]


def test_skeleton_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        HUMAN.offsets[0, 0] = 1.0


@pytest.mark.parametrize("joints", [21, 23])
def test_arrays_of_another_skeleton_are_refused_before_compiled_code_reads_them(joints):
    wxyz = np.tile((1.0, 0.0, 0.0, 0.0), (2, joints, 1))
    for solve in (joint_positions, joint_frames):
        with pytest.raises(InputError, match="do not fit 22 joints"):
            solve(HUMAN, np.zeros((2, 3)), wxyz)
        with pytest.raises(InputError, match="do not fit 22 joints"):
            solve(HUMAN, np.zeros((1, 3)), np.tile((1.0, 0.0, 0.0, 0.0), (2, 22, 1)))
        with pytest.raises(InputError, match="do not fit 22 joints"):
            solve(HUMAN, np.zeros((2, 3)), np.tile((1.0, 0.0, 0.0, 0.0), (2, 22, 1)), np.zeros((2, joints, 3)))
