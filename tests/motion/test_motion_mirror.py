"""Mirroring."""

from dataclasses import replace

import numpy as np
import pytest

from marey.io import load
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion, mirror
from marey.motion.editing import opposite_joints, other_side
from marey.samples import walk
from marey.skeleton import HUMAN, Skeleton

S = np.array([-1.0, 1.0, 1.0])


def test_the_mirrored_body_is_the_mirror_image_joint_by_joint(wild):
    image = wild.joint_positions()[:, opposite_joints(HUMAN)[0]] * S
    np.testing.assert_allclose(mirror(wild).joint_positions(), image, atol=1e-12)


def test_mirroring_twice_gives_the_clip_back(wild):
    twice = mirror(mirror(wild))
    assert geodesic_distance(twice.rotations, wild.rotations).max() < 1e-7
    np.testing.assert_allclose(twice.joint_positions(), wild.joint_positions(), atol=1e-12)
    np.testing.assert_array_equal(twice.root_positions, wild.root_positions)


def test_contacts_change_sides():
    clip = walk()
    contacts, mirrored = clip.contacts, mirror(clip).contacts
    assert mirrored.names == contacts.names
    np.testing.assert_array_equal(mirrored.track("left_toe"), contacts.track("right_toe"))


def test_a_point_without_a_partner_gets_the_other_name(wild):
    mirrored = mirror(wild).contacts
    assert mirrored.names == ("right_heel", "left_heel", "right_hand")
    np.testing.assert_array_equal(mirrored.track("right_hand"), wild.contacts.track("left_hand"))


def test_legs_of_slightly_different_length_still_mirror_twice_to_the_same(wild):
    offsets = HUMAN.offsets.copy()
    offsets[HUMAN.index("left_knee")] += [0.004, -0.011, 0.003]
    uneven = Skeleton(HUMAN.names, HUMAN.parents, offsets, HUMAN.tips)
    clip = replace(wild, skeleton=uneven)
    mirrored = mirror(clip)
    np.testing.assert_allclose(mirror(mirrored).joint_positions(), clip.joint_positions(), atol=1e-12)
    image = clip.joint_positions()[:, opposite_joints(uneven)[0]] * S
    assert np.linalg.norm(mirrored.joint_positions() - image, axis=-1).max() < 0.04


def test_a_skeleton_whose_arms_both_point_the_same_way_at_rest_is_mirrored_in_space(wild):
    """As in LAFAN1: frames of the two sides differ, so turning quaternions over is not enough."""
    turns = np.tile([1.0, 0, 0, 0], (22, 1))
    for name in ("left_shoulder", "left_elbow", "left_wrist"):  # carry the left arm's frames half a turn about +Y
        turns[HUMAN.index(name)] = [0, 0, 1, 0]
    odd, clip = reframed(HUMAN, SO3(turns), wild)
    np.testing.assert_allclose(clip.joint_positions(), wild.joint_positions(), atol=1e-12)
    image = clip.joint_positions()[:, opposite_joints(odd)[0]] * S
    np.testing.assert_allclose(mirror(clip).joint_positions(), image, atol=1e-9)
    np.testing.assert_allclose(mirror(mirror(clip)).joint_positions(), clip.joint_positions(), atol=1e-9)


def reframed(skeleton: Skeleton, frames: SO3, motion: Motion) -> tuple[Skeleton, Motion]:
    """The same motion on a skeleton whose joint frames are turned by ``frames``: R_old_new."""
    above = SO3(np.where(skeleton.parents[:, None] < 0, [1.0, 0, 0, 0], frames.wxyz[skeleton.parents]))
    odd = Skeleton(
        skeleton.names, skeleton.parents, above.inverse() @ skeleton.offsets, frames.inverse() @ skeleton.tips
    )
    return odd, replace(motion, skeleton=odd, rotations=above.inverse() @ motion.rotations @ frames)


def test_moving_offsets_are_mirrored(wild):
    moving = np.broadcast_to(HUMAN.offsets, (90, 22, 3)).copy()
    moving[:, HUMAN.index("left_wrist"), 0] += 0.05 * np.sin(np.arange(90))
    clip = replace(wild, translations=moving)
    image = clip.joint_positions()[:, opposite_joints(HUMAN)[0]] * S
    np.testing.assert_allclose(mirror(clip).joint_positions(), image, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("left_heel", "right_heel"),
        ("RightUpLeg", "LeftUpLeg"),
        ("mixamorig:LeftHand", "mixamorig:RightHand"),
        ("lThigh", "rThigh"),
        ("L_Hip", "R_Hip"),
        ("hand.L", "hand.R"),
        ("LHipJoint", "RHipJoint"),
        ("LowerBack", "LowerBack"),
        ("root", "root"),
        ("Head", "Head"),
    ],
)
def test_names_change_sides(name, other):
    assert other_side(name) == other
    assert other_side(other) == name


def test_one_sided_joints_without_partner_are_reported(wild):
    names = (*HUMAN.names, "LeftSword")
    parents = np.append(HUMAN.parents, HUMAN.index("left_wrist"))
    sworded = Skeleton(names, parents, np.vstack([HUMAN.offsets, [0.9, 0, 0]]))
    wxyz = np.concatenate([wild.rotations.wxyz, SO3.identity(90, 1).wxyz], axis=1)
    mirrored = mirror(Motion(sworded, 60.0, wild.root_positions, SO3(wxyz)))
    assert "LeftSword" in mirrored.load_report.notes[-1]


def test_a_tree_without_any_roles_is_mirrored_as_it_stands():
    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0, 0], [0, 1.0, 0]]))
    clip = Motion(stick, 30.0, np.array([[2.0, 1.0, 0.5]]), SO3.exp(np.array([[[0, 0, 0.5], [0, 0, 0]]])))
    np.testing.assert_allclose(mirror(clip).joint_positions(), clip.joint_positions() * S, atol=1e-12)


@pytest.mark.mocap
def test_captured_walks_mirror_within_the_difference_of_their_legs(mocap):
    clip = load(mocap / "cmu-bvh" / "07_01.bvh")
    opposite, alone = opposite_joints(clip.skeleton)
    assert alone == ()
    image = clip.joint_positions()[:, opposite] * S
    mirrored = mirror(clip).joint_positions()
    assert np.linalg.norm(mirrored - image, axis=-1).max() < 0.03
