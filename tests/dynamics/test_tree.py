"""Joint trees: Fang's characters, what a tree must be, coordinates to clips and back, simplified trees."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from oracles.trees import gimbal_margins

from marey.base import InputError, UnknownNameError
from marey.dynamics import (
    JointTree,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_points_motion,
    compute_torque_jacobians,
)
from marey.dynamics.joint_tree import SimplifiedTree
from marey.lie import SO3, geodesic_distance
from marey.motion import Contacts
from marey.skeleton import role_map


def stand(tree, frames=1, bend=0.0):
    """Upright, feet on the ground when ``bend`` is zero."""
    q = np.zeros((frames, tree.num_dofs))
    q[:, tree.index("root_ty")] = 0.53 * 1.65
    for i, name in enumerate(tree.names):
        if name.endswith(("knee", "elbow")):
            q[:, i] = bend
    return q


def bare_tree(**change):
    """Two links built from arrays."""
    fields = {
        "names": ("a", "b"),
        "parents": [-1, 0],
        "kinds": [0, 0],
        "axes": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        "offsets": np.zeros((2, 3)),
        "masses": [1.0, 1.0],
        "centres": np.zeros((2, 3)),
        "inertias": np.tile(0.1 * np.eye(3), (2, 1, 1)),
    }
    return JointTree(**(fields | change))


def test_fang22_has_the_thesis_size():
    tree = JointTree.fang22()
    assert tree.num_dofs == 22
    assert (tree.kinds == 0).sum() == 19
    assert tree.mass == pytest.approx(65.0, rel=1e-12)
    assert np.count_nonzero(tree.masses) == 9  # trunk, two links for each limb


def test_fang7_has_the_thesis_size_and_the_same_mass():
    tree = JointTree.fang7()
    assert tree.num_dofs == 7
    assert (tree.kinds == 0).sum() == 5
    assert tree.mass == pytest.approx(65.0, rel=1e-12)
    assert np.count_nonzero(tree.masses) == 5


def test_fang22_stands_on_its_soles_at_its_height():
    tree = JointTree.fang22(height_m=1.80, mass_kg=80.0)
    q = np.zeros((1, 22))
    q[0, 1] = 0.53 * 1.80
    names = ("left_foot", "right_foot", "left_hand", "head")
    dofs, places = zip(*(tree.points[n] for n in names), strict=True)
    found = compute_points_motion(tree, q, 0 * q, 0 * q, dofs, places).position[0]
    np.testing.assert_allclose(found[:2, 1], 0.0, rtol=0, atol=1e-12)
    assert found[0, 0] == -found[1, 0] > 0.0  # the left side is +X
    assert found[3, 1] == pytest.approx(1.80)
    assert tree.mass == pytest.approx(80.0)


def test_limbs_of_fang22_bend_the_human_way():
    """Knees take the foot back, elbows the hand forward; forward is +Z."""
    tree = JointTree.fang22()
    q = stand(tree, bend=1.0)
    dofs, places = zip(*(tree.points[n] for n in ("left_foot", "right_hand")), strict=True)
    foot, hand = compute_points_motion(tree, q, 0 * q, 0 * q, dofs, places).position[0]
    assert foot[2] < -0.3
    assert hand[2] > 0.2


def test_fang_a23_mass_beyond_a_joint_and_its_other_side_make_the_whole():
    tree = JointTree.fang22()
    knee, stance = tree.index("left_knee"), tree.point("left_foot")[0]
    shank = 0.061 * 65.0
    assert tree.far_mass(knee, stance) == pytest.approx(65.0 - shank, rel=1e-12)
    for i in range(6, 22):
        beyond = tree.far_mass(i)
        rest = tree.far_mass(i, support=int(tree.subtree(i)[-1]))
        assert beyond + rest == pytest.approx(65.0, rel=1e-12)


def test_far_mass_of_the_other_leg_does_not_change_with_the_stance():
    tree = JointTree.fang22()
    hip, stance = tree.index("right_hip_rx"), tree.point("left_foot")[0]
    assert tree.far_mass(hip, stance) == pytest.approx((0.100 + 0.061) * 65.0)


@pytest.mark.parametrize("make", [JointTree.fang22, JointTree.fang7, lambda: JointTree.chain(6)])
def test_coordinates_go_to_a_clip_and_back(make):
    tree = make()
    q = np.cumsum(0.05 * np.random.default_rng(1).normal(size=(200, tree.num_dofs)), axis=0)
    clip = tree.to_motion(q, 60.0)
    np.testing.assert_allclose(tree.from_motion(clip), q, rtol=0, atol=1e-12)


def test_full_turns_are_unwrapped():
    tree = JointTree.fang22()
    q = stand(tree, 300)
    q[:, tree.index("root_rx")] = np.linspace(0.0, 4.0 * np.pi, 300)  # two somersaults
    back = tree.from_motion(tree.to_motion(q, 60.0))
    np.testing.assert_allclose(back, q, rtol=0, atol=1e-9)


def test_a_middle_angle_beyond_a_right_angle_goes_on_smoothly():
    tree = JointTree.fang22()
    q = stand(tree, 200)
    q[:, tree.index("left_shoulder_rz")] = np.linspace(0.0, 2.8, 200)
    q[:, tree.index("left_shoulder_ry")] = 0.4
    back = tree.from_motion(tree.to_motion(q, 60.0))
    assert np.abs(np.diff(back, axis=0)).max() < 0.1
    np.testing.assert_allclose(back, q, rtol=0, atol=1e-6)


def test_positions_of_the_clip_are_those_of_the_links():
    tree = JointTree.fang22()
    q = 0.4 * np.random.default_rng(2).normal(size=(5, 22))
    clip = tree.to_motion(q, 60.0)
    places = clip.joint_positions()
    for joint in ("left_knee", "right_knee", "left_elbow", "right_elbow"):
        dof = tree.index(joint)
        found = compute_points_motion(tree, q, 0 * q, 0 * q, [dof], [[0.0, 0.0, 0.0]]).position[:, 0]
        np.testing.assert_allclose(places[:, clip.skeleton.index(joint)], found, rtol=0, atol=1e-12)


def test_the_figure_has_canonical_names_and_both_limbs_of_a_planar_character_move():
    tree = JointTree.fang7()
    roles = role_map(tree.skeleton)
    assert not roles.missing
    q = stand(tree, bend=1.2)
    rotations = tree.to_motion(q, 60.0).rotations[0]
    knees = rotations[[tree.skeleton.index(f"{side}_knee") for side in ("left", "right")]]
    np.testing.assert_allclose(knees.log(), [[1.2, 0.0, 0.0]] * 2, rtol=0, atol=1e-12)


def test_gimbal_margins_name_the_joint_that_is_near_its_lock():
    tree = JointTree.fang22()
    q = stand(tree, 2)
    q[1, tree.index("right_shoulder_rz")] = -1.2
    margins = gimbal_margins(tree, q)
    assert min(margins, key=margins.__getitem__) == "right_shoulder"
    assert margins["right_shoulder"] == pytest.approx(0.5 * np.pi - 1.2)
    assert margins["left_hip"] == pytest.approx(0.5 * np.pi)


def test_a_clip_of_other_bones_is_refused():
    tree = JointTree.fang22()
    with pytest.raises(InputError, match="Retarget"):
        tree.from_motion(JointTree.fang22(height_m=1.9).to_motion(stand(tree), 60.0))


def test_a_tree_of_bare_arrays_has_no_skeleton():
    with pytest.raises(InputError, match="no skeleton"):
        _ = bare_tree().skeleton


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parents": [-1, 1]}, "parent of 'b'"),
        ({"parents": [-2, 0]}, "parent of 'a'"),
        ({"axes": [[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]}, "axis of 'a' has length 2"),
        ({"masses": [1.0, -1.0]}, "no mass|weighs -1"),
        ({"masses": [3.0, -1.0]}, "weighs -1"),
        ({"masses": [0.0, 0.0], "inertias": np.zeros((2, 3, 3))}, "no mass"),
        ({"masses": [0.0, 1.0]}, "inertia but no mass"),
        ({"inertias": [np.diag([1.0, 1.0, 3.0]), np.eye(3)]}, "no solid"),
        ({"inertias": [np.diag([-1.0, 1.0, 1.0]), np.eye(3)]}, "no solid"),
        ({"inertias": [np.eye(3) + np.eye(3, k=1), np.eye(3)]}, "not symmetric"),
        ({"offsets": np.full((2, 3), np.nan)}, "offsets holds nan"),
        ({"names": ("a", "a")}, "two coordinates"),
        ({"kinds": [0, 7]}, "REVOLUTE"),
        ({"lower": [0.0]}, "bounds"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        bare_tree(**change)


def test_an_axis_a_little_off_is_made_unit():
    tree = bare_tree(axes=[[1.0 + 5e-7, 0.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(np.linalg.norm(tree.axes, axis=1), 1.0)


def test_arrays_of_a_tree_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        JointTree.fang7().masses[0] = 1.0


@pytest.mark.parametrize("size", [(0.0, 65.0), (1.7, -1.0), (float("nan"), 65.0)])
def test_a_character_needs_a_size(size):
    with pytest.raises(InputError, match="positive"):
        JointTree.fang22(*size)


def test_a_chain_needs_a_link():
    with pytest.raises(InputError, match="0 links"):
        JointTree.chain(0)


def test_names_that_do_not_exist_are_answered_with_the_nearest():
    tree = JointTree.fang22()
    with pytest.raises(UnknownNameError, match="left_knee"):
        tree.index("left_kne")
    with pytest.raises(UnknownNameError, match="left_foot"):
        tree.point("left_fot")


def mirror_map(tree):
    """Both sides move alike: 22 coordinates from 14."""
    columns = {}
    for i, name in enumerate(tree.names):
        side, _, part = name.partition("_")
        key = part if side in ("left", "right") else name
        sign = -1.0 if side == "right" and name.endswith(("_ry", "_rz")) else 1.0
        columns.setdefault(key, np.zeros(tree.num_dofs))[i] = sign
    return np.array(list(columns.values())).T, tuple(columns)


def test_fang_f31_a_simplified_tree_has_the_physics_of_the_whole():
    tree = JointTree.fang22()
    S, names = mirror_map(tree)
    fewer = tree.simplify(S, names)
    q, qd, qdd = 0.4 * np.random.default_rng(3).normal(size=(3, 4, fewer.num_dofs))
    whole = compute_aggregate_jacobians(tree, *(fewer.expand(x) for x in (q, qd, qdd)))
    ours = compute_aggregate_jacobians(fewer, q, qd, qdd)
    assert fewer.num_dofs == 14
    np.testing.assert_allclose(ours.wrench, whole.wrench, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.df_dq, whole.df_dq @ S, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        compute_aggregate(fewer, q, qd, qdd).com, compute_aggregate(tree, *map(fewer.expand, (q, qd, qdd))).com
    )
    points = compute_points_motion(fewer, q, qd, qdd, [tree.point("left_foot")[0]], [[0.0, 0.0, 0.0]])
    assert points.J.shape == (4, 1, 3, 14)
    assert compute_torque_jacobians(fewer, q, qd, qdd, joints=[3])[0].shape == (4, 1, 14)


def test_a_simplified_clip_goes_to_coordinates_and_back():
    tree = JointTree.fang22()
    fewer = SimplifiedTree(tree, mirror_map(tree)[0])
    q = 0.3 * np.random.default_rng(4).normal(size=(6, 14))
    np.testing.assert_allclose(fewer.from_motion(fewer.to_motion(q, 30.0)), q, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("S", "message"), [(np.ones((22, 2)), "independent"), (np.ones((5, 2)), "shape")])
def test_a_simplification_that_cannot_be_is_refused(S, message):
    with pytest.raises(InputError, match=message):
        JointTree.fang22().simplify(S)


def test_contacts_travel_with_the_clip():
    tree = JointTree.fang7()
    contacts = Contacts(("left_heel",), np.array([[True], [False]]))
    assert tree.to_motion(stand(tree, 2), 60.0, contacts).contacts is contacts


def test_orientation_of_a_joint_comes_before_its_turn():
    turned = SO3.from_axis_angle([0.0, 0.0, 1.0], 0.5 * np.pi)
    tree = bare_tree(orientations=np.array([turned.wxyz, SO3.identity().wxyz]), offsets=[[0, 0, 0], [1.0, 0, 0]])
    q = np.array([[0.5 * np.pi, 0.0]])  # link 0: +90 degrees about Z, then about its own X, which is world Y
    found = compute_points_motion(tree, q, 0 * q, 0 * q, [1, 0], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).position[0]
    np.testing.assert_allclose(found, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], rtol=0, atol=1e-15)
    assert geodesic_distance(SO3(tree.orientations[0]), turned) < 1e-15


def test_a_tree_survives_pickling():
    tree = JointTree.fang22()
    _ = tree.arrays
    copy = pickle.loads(pickle.dumps(tree))
    q = 0.3 * np.random.default_rng(6).normal(size=(2, 22))
    np.testing.assert_array_equal(compute_aggregate(copy, q, q, q).wrench, compute_aggregate(tree, q, q, q).wrench)
    assert copy.points.keys() == tree.points.keys()
    assert copy.skeleton.names == tree.skeleton.names
