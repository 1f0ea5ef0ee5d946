"""Heels, toes and hands of any skeleton."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import UnknownNameError
from marey.lie import SO3
from marey.skeleton import HUMAN, Pose, RoleMap, Skeleton, contact_points, foot_points, human, joint_frames, t_pose

ARM, LEG = ("Shoulder", "Arm", "ForeArm", "Hand"), ("UpLeg", "Leg", "Foot", "ToeBase")
TRUNK, HEAD = ["Hips", "Spine", "Spine1", "Spine2"], ["Neck", "Head"]
NAMES = ("left_heel", "left_toe", "right_heel", "right_toe", "left_hand", "right_hand")


def sided(side: str, part: str) -> str:
    return side.capitalize() + part


def standing(skeleton: Skeleton) -> dict[str, np.ndarray]:
    pose, points = t_pose(skeleton), contact_points(skeleton)
    at = points.positions(pose.joint_positions(), pose.joint_rotations())
    return dict(zip(points.names, at, strict=True))


def test_the_human_stands_on_heels_and_toes_at_height_zero():
    rest = Pose.rest(HUMAN)
    points = contact_points(HUMAN)
    assert points.names == NAMES
    at = points.positions(rest.joint_positions(), rest.joint_rotations())
    np.testing.assert_allclose(at[:4, 1], 0.0, atol=1e-4)  # the table gives legs to three digits


def test_heels_lie_behind_and_below_the_ankle_and_toes_under_the_ball():
    at, p = standing(HUMAN), t_pose(HUMAN).joint_positions()
    ankle, ball = p[HUMAN.index("left_ankle")], p[HUMAN.index("left_foot")]
    assert at["left_heel"][2] < ankle[2] < ball[2]
    assert at["left_heel"][1] < ankle[1]
    np.testing.assert_allclose(at["left_toe"][[0, 2]], ball[[0, 2]], atol=1e-12)


def test_points_scale_with_the_body():
    small, large = contact_points(human(1.0)), contact_points(human(2.0))
    np.testing.assert_allclose(large.offsets, 2.0 * small.offsets, atol=1e-12)


def test_points_are_mirror_images():
    points = contact_points(HUMAN)
    left, right = points.offsets[[0, 1, 4]], points.offsets[[2, 3, 5]]
    np.testing.assert_allclose(left * [-1.0, 1.0, 1.0], right, atol=1e-12)


@pytest.mark.parametrize("splay_deg", [0.0, 20.0])
def test_a_splayed_rest_pose_has_the_same_standing_soles(body_maker, splay_deg):
    plain = standing(body_maker(TRUNK, HEAD, ARM, LEG, sided))
    splayed = standing(body_maker(TRUNK, HEAD, ARM, LEG, sided, splay_rad=np.radians(splay_deg)))
    for name in NAMES[:4]:
        np.testing.assert_allclose(plain[name], splayed[name], atol=1e-12)


def test_lafan1_has_level_soles_too(lafan):
    at = standing(lafan)
    assert abs(at["left_heel"][1] - at["left_toe"][1]) < 1e-9
    assert at["left_toe"][2] - at["left_heel"][2] > 0.15
    assert at["left_hand"][0] > t_pose(lafan).joint_positions()[lafan.index("LeftHand"), 0]


def test_a_foot_without_toe_joint_still_has_a_toe(body_maker):
    body = body_maker(
        ["root", "chest"], ["neck", "nose"], ("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle"),
        lambda side, part: f"{side}_{part}",
    )  # fmt: skip
    points = contact_points(body)
    assert points.names == NAMES
    assert points.joints[points.index("left_toe")] == body.index("left_ankle")
    at = standing(body)
    assert at["left_toe"][2] > at["left_heel"][2]
    assert at["left_toe"][1] == pytest.approx(at["left_heel"][1], abs=1e-12)


def test_points_of_missing_roles_are_left_out():
    roles = RoleMap({"left_hip": 1, "left_knee": 4, "left_ankle": 7}, "given")
    assert contact_points(HUMAN, roles).names == ("left_heel", "left_toe")
    assert len(contact_points(HUMAN, RoleMap({}, "given"))) == 0


def test_an_unknown_point_is_an_error_with_a_hint():
    with pytest.raises(UnknownNameError, match="left_heel"):
        contact_points(HUMAN).index("left_heal")


def test_points_move_rigidly_with_their_joint():
    points = contact_points(HUMAN)
    rng = np.random.default_rng(0)
    wxyz = SO3.exp(rng.normal(0.0, 0.5, (5, HUMAN.num_joints, 3))).wxyz
    positions, frames = joint_frames(HUMAN, rng.normal(0.0, 1.0, (5, 3)), wxyz)
    at = points.positions(positions, frames)
    assert at.shape == (5, 6, 3)
    lengths = np.linalg.norm(at - positions[:, points.joints], axis=-1)
    np.testing.assert_allclose(lengths, np.broadcast_to(np.linalg.norm(points.offsets, axis=-1), (5, 6)), atol=1e-12)


def test_foot_points_add_the_end_of_the_toes():
    points = foot_points(HUMAN)
    assert points.names[:3] == ("left_heel", "left_ball", "left_toe_end")
    at = points.positions(t_pose(HUMAN).joint_positions(), t_pose(HUMAN).joint_rotations())
    assert at[2, 2] - at[1, 2] == pytest.approx(0.04 * 1.75, abs=1e-9)
    np.testing.assert_allclose(at[:, 1], at[0, 1], atol=1e-12)


@pytest.mark.mocap
@pytest.mark.parametrize("clip", ["16_58", "35_01", "39_09", "69_02"])
def test_soles_of_walkers_meet_the_floor(mocap, clip):
    from marey.io import load

    motion = load(mocap / "cmu-bvh" / f"{clip}.bvh")
    positions, frames = motion.joint_frames()
    heights = contact_points(motion.skeleton).positions(positions, frames)[:, :4, 1]
    low = np.percentile(heights, 5, axis=0)
    assert np.ptp(low) < 0.03  # heels and toes of both feet agree on where the floor is
    assert np.abs(low).max() < 0.05
