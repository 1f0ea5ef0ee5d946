"""Point Jacobians against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import EPS, InputError, UnknownNameError
from marey.kinematics.two_bone import point_jacobian
from marey.lie import SO3
from marey.skeleton import HUMAN, Pose

JOINTS = HUMAN.num_joints


def random_pose(seed: int) -> Pose:
    rng = np.random.default_rng(seed)
    return Pose(HUMAN, rng.normal(0.0, 1.0, 3), SO3.exp(rng.normal(0.0, 0.8, (JOINTS, 3))))


def point_at(pose: Pose, step: np.ndarray, joint: int, offset: np.ndarray) -> np.ndarray:
    moved = Pose(HUMAN, pose.root_position + step[:3], pose.rotations @ SO3.exp(step[3:].reshape(-1, 3)))
    return moved.joint_positions()[joint] + moved.joint_rotations()[joint] @ offset


@settings(max_examples=40)
@given(seed=st.integers(0, 1_000), joint=st.integers(0, JOINTS - 1))
def test_the_jacobian_is_the_derivative(seed, joint):
    pose, offset = random_pose(seed), np.random.default_rng(seed).normal(0.0, 0.2, 3)
    h = EPS ** (1 / 3)
    ahead, behind = ([point_at(pose, s * h * e, joint, offset) for e in np.eye(3 + 3 * JOINTS)] for s in (1.0, -1.0))
    numeric = (np.stack(ahead, axis=-1) - np.stack(behind, axis=-1)) / (2 * h)
    np.testing.assert_allclose(point_jacobian(pose, joint, offset), numeric, rtol=0, atol=100 * h**2)


def test_joints_off_the_path_to_the_root_do_not_move_the_point():
    J = point_jacobian(random_pose(0), "left_wrist", (0.1, 0.0, 0.0))
    for other in ("right_hip", "left_knee", "head", "right_wrist"):
        j = HUMAN.index(other)
        assert np.abs(J[:, 3 + 3 * j : 6 + 3 * j]).max() == 0.0


def test_the_root_carries_the_point_along():
    np.testing.assert_array_equal(point_jacobian(random_pose(1), "head")[:, :3], np.eye(3))


def test_a_point_on_its_own_joint_does_not_turn():
    j = HUMAN.index("left_elbow")
    assert np.abs(point_jacobian(random_pose(2), j)[:, 3 + 3 * j : 6 + 3 * j]).max() < 1e-15


def test_unknown_joints_are_refused():
    with pytest.raises(UnknownNameError, match="left_wrist"):
        point_jacobian(random_pose(0), "left_wirst")
    with pytest.raises(InputError, match="joint 99"):
        point_jacobian(random_pose(0), 99)
    with pytest.raises(InputError, match="offset"):
        point_jacobian(random_pose(0), 0, (1.0, 2.0))
