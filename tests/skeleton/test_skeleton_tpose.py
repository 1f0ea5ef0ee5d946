"""The calibration pose: one stance for all skeletons."""

from __future__ import annotations

import numpy as np
import pytest

from marey.lie import SO3, geodesic_distance
from marey.skeleton import HUMAN, Skeleton, role_map, t_pose

ARM, LEG = ("Shoulder", "Arm", "ForeArm", "Hand"), ("UpLeg", "Leg", "Foot", "ToeBase")
TRUNK, HEAD = ["Hips", "Spine", "Spine1", "Spine2"], ["Neck", "Head"]


def sided(side: str, part: str) -> str:
    return side.capitalize() + part


def directions(skeleton: Skeleton) -> dict[str, np.ndarray]:
    positions, roles = t_pose(skeleton).joint_positions(), role_map(skeleton)
    bones = (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist"))
    found = {}
    for side in ("left", "right"):
        for a, b in bones:
            bone = positions[roles[f"{side}_{b}"]] - positions[roles[f"{side}_{a}"]]
            found[f"{side}_{a}"] = bone / np.linalg.norm(bone)
    return found


def assert_stands(skeleton: Skeleton) -> None:
    for bone, direction in directions(skeleton).items():
        wanted = (
            (0.0, -1.0, 0.0) if bone.endswith(("hip", "knee")) else (1.0 if bone.startswith("left") else -1.0, 0, 0)
        )
        np.testing.assert_allclose(direction, wanted, atol=1e-9)


def test_human_nearly_rests_in_it():
    pose = t_pose(HUMAN)
    assert_stands(HUMAN)
    assert pose.rotations.angle().max() < np.radians(5.0)
    feet = [HUMAN.index("left_ankle"), HUMAN.index("right_ankle")]
    assert pose.joint_rotations()[feet].angle().max() < 1e-9


@pytest.mark.parametrize("splay_deg", [0.0, 20.0, 35.0])
def test_splayed_legs_are_closed_and_feet_stay_level(body_maker, splay_deg):
    body = body_maker(TRUNK, HEAD, ARM, LEG, sided, splay_rad=np.radians(splay_deg))
    assert_stands(body)
    R_world_ankle = t_pose(body).joint_rotations()[body.index("LeftFoot")]
    np.testing.assert_allclose(geodesic_distance(R_world_ankle, SO3.identity()), np.radians(splay_deg), atol=1e-9)


def test_lafan1_stands_from_a_rest_pose_that_is_none(lafan):
    assert_stands(lafan)
    positions = t_pose(lafan).joint_positions()
    foot = positions[lafan.index("LeftToe")] - positions[lafan.index("LeftFoot")]
    assert foot[2] > 0.9 * np.linalg.norm(foot)
    assert foot[1] < 0.0


def test_lafan1_knees_bend_backwards_about_their_own_z(lafan):
    pose = t_pose(lafan)
    wxyz = pose.rotations.wxyz.copy()
    knee = lafan.index("LeftLeg")
    wxyz[knee] = (pose.rotations[knee] @ SO3.exp([0.0, 0.0, -0.5])).wxyz
    bent = type(pose)(lafan, pose.root_position, SO3(wxyz)).joint_positions()
    assert bent[lafan.index("LeftFoot"), 2] < pose.joint_positions()[lafan.index("LeftFoot"), 2] - 0.1


@pytest.mark.parametrize("yaw_deg", [90.0, 180.0, -90.0])
def test_a_body_that_faces_elsewhere_is_turned_to_the_front(body_maker, yaw_deg):
    body = body_maker(TRUNK, HEAD, ARM, LEG, sided)
    turn = SO3.from_axis_angle([0.0, 1.0, 0.0], np.radians(yaw_deg))
    turned = Skeleton(body.names, body.parents, turn @ body.offsets)
    assert_stands(turned)
    np.testing.assert_allclose(
        t_pose(turned).joint_positions() - turned.offsets[0],
        t_pose(body).joint_positions() - body.offsets[0],
        atol=1e-9,
    )


def test_a_body_that_lies_in_z_up_axes_is_raised(body_maker):
    body = body_maker(TRUNK, HEAD, ARM, LEG, sided)
    tipped = Skeleton(body.names, body.parents, SO3.from_axis_angle([1.0, 0.0, 0.0], np.pi / 2) @ body.offsets)
    assert_stands(tipped)


def test_a_small_lean_of_the_trunk_is_left_alone(body_maker):
    body = body_maker(TRUNK, HEAD, ARM, LEG, sided)
    offsets = body.offsets.copy()
    offsets[body.index("Spine1")] = (0.0, 0.12, -0.015)
    leaning = Skeleton(body.names, body.parents, offsets)
    assert t_pose(leaning).rotations[0].angle() == 0.0


def test_a_dancers_foot_is_set_flat(body_maker):
    body = body_maker(TRUNK, HEAD, ARM, LEG, sided)
    offsets = body.offsets.copy()
    for toe in ("LeftToeBase", "RightToeBase"):
        offsets[body.index(toe)] = (0.0, -0.14, 0.0)
    dancer = Skeleton(body.names, body.parents, offsets)
    positions = t_pose(dancer).joint_positions()
    foot = positions[dancer.index("LeftToeBase")] - positions[dancer.index("LeftFoot")]
    np.testing.assert_allclose(foot / 0.14, (0.0, -np.sin(np.radians(20)), np.cos(np.radians(20))), atol=1e-9)


def test_arms_raised_straight_up_come_down_to_the_sides(body_maker):
    body = body_maker(TRUNK, HEAD, ARM, LEG, sided)
    offsets = body.offsets.copy()
    for side in ("Left", "Right"):
        offsets[body.index(f"{side}ForeArm")] = (0.0, 0.3, 0.0)
        offsets[body.index(f"{side}Hand")] = (0.0, 0.26, 0.0)
    assert_stands(Skeleton(body.names, body.parents, offsets))


def test_a_skeleton_without_roles_keeps_its_rest_pose(skeleton_maker):
    chain = skeleton_maker([("a", None, (0, 1, 0)), ("b", "a", (0, 1, 0))])
    assert t_pose(chain).rotations.angle().max() == 0.0


@pytest.mark.mocap
def test_cmu_skeletons_of_both_formats_stand_alike(mocap):
    from marey.io import load

    bvh = load(mocap / "cmu-bvh" / "02_01.bvh").skeleton
    asf = load(mocap / "cmu-asfamc" / "02" / "02_01.amc").skeleton
    assert_stands(bvh)
    assert_stands(asf)
    legs = [f"{side}_{part}" for side in ("left", "right") for part in ("hip", "knee", "ankle", "foot")]
    at = [t_pose(s).joint_positions()[[role_map(s)[r] for r in legs]] - s.offsets[0] for s in (bvh, asf)]
    np.testing.assert_allclose(at[0], at[1], atol=1e-3)
