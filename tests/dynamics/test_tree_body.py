"""Trees of captured and canonical bodies: clips go to coordinates and back, masses stay, gimbal locks are far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.trees import gimbal_margins

import marey
from marey.base import InputError
from marey.dynamics import Body, JointTree, compute_aggregate, compute_torques
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN, EulerLimits

HINGES = ("LeftLeg", "RightLeg", "LeftToeBase", "RightToeBase", "LeftForeArm", "RightForeArm")


@pytest.fixture(scope="module")
def human_body():
    return Body.from_skeleton(HUMAN, mass_kg=70.0)


def small_motion(rng, skeleton, frames=50, spread=0.3):
    """A smooth clip that keeps near the rest pose."""
    times = np.linspace(0.0, 1.0, frames)[:, None, None]
    a, b = spread * rng.normal(size=(2, skeleton.num_joints, 3))
    vectors = a * np.sin(4.0 * times) + b * np.cos(3.0 * times)
    return Motion(skeleton, 60.0, rng.normal(size=(frames, 3)), SO3.exp(vectors))


def test_the_canonical_human_goes_to_coordinates_and_back(human_body):
    clip = small_motion(np.random.default_rng(1), human_body.skeleton)
    tree = JointTree.from_body(human_body)
    back = tree.to_motion(tree.from_motion(clip), clip.rate_hz)
    assert tree.num_dofs == 6 + 3 * 21
    assert geodesic_distance(back.rotations, clip.rotations).max() < 1e-12
    np.testing.assert_array_equal(back.root_positions, clip.root_positions)


def test_a_tree_weighs_what_its_body_weighs(human_body):
    clip = small_motion(np.random.default_rng(2), human_body.skeleton)
    tree = JointTree.from_body(human_body)
    q = tree.from_motion(clip)
    assert tree.mass == pytest.approx(70.0, rel=1e-12)
    found = compute_aggregate(tree, q, 0 * q, 0 * q)
    np.testing.assert_allclose(found.com, human_body.centre_of_mass(clip), rtol=0, atol=1e-12)


def test_stiff_joints_hand_their_mass_to_the_link_above(human_body):
    """With and without the wrists' own coordinates the body weighs and balances the same in the rest pose."""
    skeleton = human_body.skeleton
    wrists = [skeleton.index(f"{side}_wrist") for side in ("left", "right")]
    clip = small_motion(np.random.default_rng(3), skeleton)
    wxyz = clip.rotations.wxyz.copy()
    wxyz[:, wrists] = SO3.identity().wxyz
    stiff = replace(clip, rotations=SO3(wxyz))
    fewer = JointTree.from_body(human_body, motion=stiff)
    every = JointTree.from_body(human_body)
    assert fewer.num_dofs == every.num_dofs - 6
    assert any("left_wrist" in sentence and "stiff" in sentence for sentence in fewer.report)
    states = [(tree, tree.from_motion(stiff)) for tree in (fewer, every)]
    (a, b) = (compute_aggregate(tree, q, 0 * q, 0 * q) for tree, q in states)
    np.testing.assert_allclose(a.com, b.com, rtol=0, atol=1e-12)
    np.testing.assert_allclose(a.wrench, b.wrench, rtol=0, atol=1e-9)


def test_a_joint_that_a_clip_turns_about_one_axis_is_a_hinge(human_body):
    skeleton = human_body.skeleton
    knee, axis = skeleton.index("left_knee"), np.array([0.6, 0.0, 0.8])
    clip = small_motion(np.random.default_rng(4), skeleton)
    wxyz = clip.rotations.wxyz.copy()
    wxyz[:, knee] = SO3.from_axis_angle(axis, np.linspace(0.0, 1.5, 50)).wxyz
    clip = replace(clip, rotations=SO3(wxyz))
    tree = JointTree.from_body(human_body, motion=clip)
    assert np.abs(tree.axes[tree.index("left_knee")] @ axis) == pytest.approx(1.0, abs=1e-12)
    back = tree.to_motion(tree.from_motion(clip), 60.0)
    assert geodesic_distance(back.rotations, clip.rotations).max() < 1e-12


def test_an_asf_hinge_is_taken_from_its_limits(human_body):
    turned = SO3.from_axis_angle([0.0, 0.0, 1.0], 0.3)
    limit = EulerLimits("left_knee", "x", np.array([0.0]), np.array([2.0]), turned)
    body = replace(human_body, skeleton=replace(human_body.skeleton, limits=(limit,)))
    tree = JointTree.from_body(body)
    np.testing.assert_allclose(tree.axes[tree.index("left_knee")], turned @ np.array([1.0, 0.0, 0.0]), atol=1e-15)


def test_arms_and_legs_hang_straight_down_at_zero(human_body):
    tree = JointTree.from_body(human_body)
    clip = tree.to_motion(np.zeros((1, tree.num_dofs)), 60.0)
    places = clip.joint_positions()[0]
    for upper, lower in (("hip", "knee"), ("shoulder", "elbow")):
        for side in ("left", "right"):
            ends = [places[clip.skeleton.index(f"{side}_{part}")] for part in (upper, lower)]
            bone = ends[1] - ends[0]
            np.testing.assert_allclose(bone / np.linalg.norm(bone), [0.0, -1.0, 0.0], rtol=0, atol=1e-12)


def test_the_root_order_decides_which_turn_stays_regular(human_body):
    """A somersault passes the lock of Y-X-Z and is regular in Y-Z-X."""
    flip = np.linspace(0.0, 2.0 * np.pi, 100)
    wxyz = np.tile(SO3.identity(HUMAN.num_joints).wxyz, (100, 1, 1))
    wxyz[:, 0] = SO3.from_axis_angle([1.0, 0.0, 0.0], flip).wxyz
    clip = Motion(human_body.skeleton, 60.0, np.zeros((100, 3)), SO3(wxyz))
    margins = {}
    for order in ("yxz", "yzx"):
        tree = JointTree.from_body(human_body, root_order=order)
        q = tree.from_motion(clip)
        margins[order] = gimbal_margins(tree, q)["pelvis"]
        np.testing.assert_allclose(q[:, tree.index("root_rx")], flip, rtol=0, atol=1e-9)
    assert margins["yxz"] < 0.05
    assert margins["yzx"] > 1.5
    chosen = JointTree.from_body(human_body, motion=clip, root_order="auto")
    assert gimbal_margins(chosen, chosen.from_motion(clip))["pelvis"] > 1.5
    with pytest.raises(InputError, match="auto with a motion"):
        JointTree.from_body(human_body, root_order="auto")


def test_an_unknown_root_order_is_refused(human_body):
    with pytest.raises(InputError, match="yxz"):
        JointTree.from_body(human_body, root_order="xxy")


def test_points_of_a_body_are_on_its_soles_and_palms(human_body):
    tree = JointTree.from_body(human_body)
    assert {"left_foot", "right_foot", "left_hand", "right_hand", "left_heel", "left_toe"} <= set(tree.points)
    assert tree.groups[tree.point("left_foot")[0]] == "left_ankle"
    assert tree.point("left_foot")[1][1] < -0.03  # under the ankle


@pytest.mark.mocap
@pytest.mark.parametrize("trial", ["118_20", "83_61", "69_02", "07_12"])
def test_cmu_clips_go_to_coordinates_and_back_without_loss(mocap, trial):
    """Hinges of the capture are exact to 1e-5 rad; no joint of a walk or a jump comes near its gimbal lock."""
    clip = marey.load(mocap / "cmu-bvh" / f"{trial}.bvh")
    body = Body.from_motion(clip)
    tree = JointTree.from_body(body)
    q = tree.from_motion(clip)
    back = tree.to_motion(q, clip.rate_hz)
    assert tree.num_dofs == 64
    assert [tree.groups.count(name) for name in HINGES] == [1] * 6
    assert geodesic_distance(back.rotations, clip.rotations).max() < 1e-5
    np.testing.assert_array_equal(back.root_positions, clip.root_positions)
    assert min(gimbal_margins(tree, q).values()) > 0.35
    assert np.abs(np.diff(q, axis=0)).max() < 0.7  # no jump of an angle, toes tremble


@pytest.mark.mocap
def test_cmu_without_fingers_has_56_coordinates_and_the_same_mass(mocap):
    clip = marey.load(mocap / "cmu-bvh" / "118_20.bvh")
    body = Body.from_motion(clip)
    tree = JointTree.from_body(body, fingers=False)
    assert tree.num_dofs == 56
    assert tree.mass == pytest.approx(body.mass_kg, rel=1e-12)


@pytest.mark.mocap
@pytest.mark.parametrize("seen", [False, True])
def test_cmu_knees_and_elbows_bend_with_positive_angles(mocap, seen):
    clip = marey.load(mocap / "cmu-bvh" / "118_20.bvh")
    tree = JointTree.from_body(Body.from_motion(clip), motion=clip if seen else None)
    q = tree.from_motion(clip)
    bends = q[:, [tree.index(name) for name in ("LeftLeg", "RightLeg", "LeftForeArm", "RightForeArm")]]
    assert bends.min() > -0.1
    assert (bends.max(axis=0) > 0.3).all()


@pytest.mark.mocap
def test_a_clip_chooses_orders_away_from_gimbal_lock(mocap):
    """Arms that go everywhere: orders chosen on the clip are never nearer to a lock than the usual ones."""
    clip = marey.load(mocap / "cmu-bvh" / "79_22.bvh")
    body = Body.from_motion(clip)
    usual, chosen = JointTree.from_body(body), JointTree.from_body(body, motion=clip)
    before, after = (gimbal_margins(tree, tree.from_motion(clip)) for tree in (usual, chosen))
    assert all(after[joint] >= min(before[joint], 0.35) - 1e-12 for joint in after)


@pytest.mark.mocap
def test_standing_torques_of_a_cmu_body_carry_its_weight(mocap):
    clip = marey.load(mocap / "cmu-bvh" / "118_20.bvh")
    tree = JointTree.from_body(Body.from_motion(clip, mass_kg=75.0))
    q = tree.from_motion(clip)[:1]
    lift = compute_torques(tree, q, 0 * q, 0 * q)[0, tree.index("root_ty")]
    assert lift == pytest.approx(75.0 * 9.81, rel=1e-12)


@pytest.mark.mocap
@pytest.mark.parametrize("seen", [False, True])
def test_asf_clips_go_to_coordinates_and_back_without_loss(mocap, seen):
    """Hinges come from the file's own degrees of freedom, and bones without any are stiff."""
    clip = marey.load(mocap / "cmu-asfamc" / "02" / "02_01.amc")
    tree = JointTree.from_body(Body.from_motion(clip), motion=clip if seen else None)
    q = tree.from_motion(clip)
    back = tree.to_motion(q, clip.rate_hz)
    assert geodesic_distance(back.rotations, clip.rotations).max() < 1e-9
    assert tree.groups.count("ltibia") == 1
    assert "lhipjoint" not in tree.groups
    assert q[:, tree.index("ltibia")].min() > 0.0


def test_a_clip_that_contradicts_a_known_hinge_is_believed(human_body):
    """The limits say hinge, the clip turns freely: three turns are kept and nothing is lost."""
    limit = EulerLimits("left_knee", "x", np.array([0.0]), np.array([2.0]), SO3.identity())
    body = replace(human_body, skeleton=replace(human_body.skeleton, limits=(limit,)))
    clip = small_motion(np.random.default_rng(5), body.skeleton)
    tree = JointTree.from_body(body, motion=clip)
    assert tree.groups.count("left_knee") == 3
    back = tree.to_motion(tree.from_motion(clip), 60.0)
    assert geodesic_distance(back.rotations, clip.rotations).max() < 1e-12
