"""Points of a tree and its torques: Fang's acceptance checks A11, A12, A13."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.trees import random_tree

from marey.base import InputError, UnknownNameError
from marey.dynamics import (
    JointTree,
    compute_aggregate,
    compute_com_motion,
    compute_point_motion,
    compute_points_motion,
    compute_torque_jacobians,
    compute_torques,
    pinocchio_model,
)

H = np.finfo(float).eps ** (1 / 3)


def random_state(rng, tree, frames=3):
    return rng.normal(size=(3, frames, tree.num_dofs))


def relative(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def numeric(function, states, which):
    """Central differences of ``function(q, qd, qdd) -> (F, ...)`` by one of its arguments, coordinates last."""
    columns = []
    for i in range(states[0].shape[1]):
        ends = []
        for h in (H, -H):
            moved = [s.copy() for s in states]
            moved[which][:, i] += h
            ends.append(function(*moved))
        columns.append((ends[0] - ends[1]) / (2 * H))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("seed", [1, 2])
def test_fang_a13_point_jacobians_equal_central_differences(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 15)
    states = random_state(rng, tree)
    dofs, places = [14, 3, 9], rng.normal(size=(3, 3))
    found = compute_points_motion(tree, *states, dofs, places)

    def of(name):
        return lambda *s: getattr(compute_points_motion(tree, *s, dofs, places), name)

    assert relative(found.J, numeric(of("position"), states, 0)) < 1e-7
    assert relative(found.Jd, numeric(of("velocity"), states, 0)) < 1e-7
    assert relative(found.J, numeric(of("velocity"), states, 1)) < 1e-7
    assert relative(found.Jdd, numeric(of("acceleration"), states, 0)) < 1e-7
    assert relative(2 * found.Jd, numeric(of("acceleration"), states, 1)) < 1e-7
    assert relative(found.J, numeric(of("acceleration"), states, 2)) < 1e-7


def test_fang_a13_the_com_jacobian_is_the_weighted_sum_of_the_links():
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 18)
    states = random_state(rng, tree)
    links = compute_points_motion(tree, *states, np.arange(18), tree.centres)
    com = compute_com_motion(tree, *states)
    shares = tree.masses / tree.mass
    for name in ("position", "velocity", "acceleration", "J", "Jd", "Jdd"):
        np.testing.assert_allclose(
            getattr(com, name), np.einsum("p,fp...->f...", shares, getattr(links, name)), rtol=0, atol=1e-12
        )


def test_fang_a13_the_com_moves_as_the_aggregate_says():
    rng = np.random.default_rng(4)
    tree = JointTree.fang22()
    states = random_state(rng, tree)
    com, found = compute_com_motion(tree, *states), compute_aggregate(tree, *states)
    np.testing.assert_allclose(com.position, found.com, rtol=0, atol=1e-13)
    np.testing.assert_allclose(com.velocity, found.com_velocity, rtol=0, atol=1e-13)
    force = tree.mass * (com.acceleration - np.array([0.0, -9.81, 0.0]))
    np.testing.assert_allclose(force, found.wrench[:, :3], rtol=0, atol=1e-10)


def test_velocity_is_the_jacobian_times_the_rates():
    rng = np.random.default_rng(5)
    tree = JointTree.fang22()
    q, qd, qdd = random_state(rng, tree)
    hand = compute_point_motion(tree, q, qd, qdd, *tree.point("left_hand"))
    np.testing.assert_allclose(hand.velocity, np.einsum("fcd,fd->fc", hand.J, qd), rtol=0, atol=1e-12)
    both = np.einsum("fcd,fd->fc", hand.J, qdd) + np.einsum("fcd,fd->fc", hand.Jd, qd)
    np.testing.assert_allclose(hand.acceleration, both, rtol=0, atol=1e-12)


def test_joints_that_do_not_carry_a_point_do_not_move_it():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(6), tree)
    foot = compute_point_motion(tree, *states, *tree.point("left_foot"))
    others = [i for i, name in enumerate(tree.names) if name.startswith("right") or "shoulder" in name]
    assert not foot.J[:, :, others].any()
    assert not foot.Jdd[:, :, others].any()


def test_a_point_on_no_link_is_refused():
    still = np.zeros((1, 7))
    with pytest.raises(InputError, match="links 0 to 6"):
        compute_points_motion(JointTree.fang7(), still, still, still, [7], [[0.0, 0.0, 0.0]])
    with pytest.raises(InputError, match="points has shape"):
        compute_points_motion(JointTree.fang7(), still, still, still, [1, 2], [[0.0, 0.0, 0.0]])


@pytest.mark.parametrize("seed", [7, 8])
def test_fang_a11_torques_equal_pinocchio_and_their_jacobians_central_differences(seed):
    pin = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 16)
    states = random_state(rng, tree)
    model = pinocchio_model(tree)
    data = model.createData()
    theirs = np.array([pin.rnea(model, data, *(s[f] for s in states)) for f in range(3)])
    np.testing.assert_allclose(compute_torques(tree, *states), theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())
    for which, block in enumerate(compute_torque_jacobians(tree, *states)):
        assert relative(block, numeric(lambda *s: compute_torques(tree, *s), states, which)) < 1e-6
    for ours, peer in zip(
        compute_torque_jacobians(tree, *states),
        compute_torque_jacobians(tree, *states, method="pinocchio"),
        strict=True,
    ):
        assert relative(ours, peer) < 1e-11


def test_fang_a11_joints_off_the_path_give_exactly_nothing():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(9), tree)
    knee = tree.index("left_knee")
    off = [i for i, name in enumerate(tree.names) if name.startswith("right") or "shoulder" in name or "elbow" in name]
    for block in compute_torque_jacobians(tree, *states, joints=[knee]):
        assert block.shape == (3, 1, 22)
        assert not block[:, 0, off].any()


def test_chosen_torques_are_rows_of_all_torques():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(10), tree)
    chosen = [17, 4, 9]
    for some, every in zip(
        compute_torque_jacobians(tree, *states, joints=chosen), compute_torque_jacobians(tree, *states), strict=True
    ):
        np.testing.assert_array_equal(some, every[:, chosen])


def test_mass_matrix_is_symmetric_and_positive():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(11), tree)
    M = compute_torque_jacobians(tree, *states)[2]
    np.testing.assert_allclose(M, np.swapaxes(M, 1, 2), rtol=0, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0.0


def test_fang_a12_root_rows_of_lagranges_equations_are_the_aggregate_wrench():
    """The thesis leaves open whether both are the same; in numbers they are."""
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(12), tree)
    wrench, tau = compute_aggregate(tree, *states).wrench, compute_torques(tree, *states)
    q = states[0]
    place = compute_point_motion(tree, *states, 5, np.zeros(3))
    np.testing.assert_allclose(tau[:, :3], wrench[:, :3], rtol=0, atol=1e-9 * np.abs(wrench).max())
    about_root = wrench[:, 3:] - np.cross(place.position, wrench[:, :3])
    for i in (3, 4, 5):  # the joint's axis in world: how a point of the trunk one metre away turns about it
        axis = axis_of(tree, q, i)
        np.testing.assert_allclose(
            tau[:, i], np.einsum("fc,fc->f", axis, about_root), rtol=0, atol=1e-9 * np.abs(about_root).max()
        )


def axis_of(tree, q, dof):
    """World axis ``(F, 3)`` of a joint: the difference of two points on it."""
    still = np.zeros_like(q)
    ends = compute_points_motion(tree, q, still, still, [dof, dof], [tree.axes[dof], np.zeros(3)]).position
    return ends[:, 0] - ends[:, 1]


def test_ground_force_under_a_standing_body_leaves_nothing_at_the_root():
    tree = JointTree.fang22()
    q = 0.2 * np.random.default_rng(13).normal(size=(2, 22))
    still = np.zeros_like(q)
    external = np.zeros((2, 22, 6))
    external[:, tree.point("left_foot")[0]] = compute_aggregate(tree, q, still, still).wrench
    tau = compute_torques(tree, q, still, still, external=external)
    np.testing.assert_allclose(tau[:, :6], 0.0, rtol=0, atol=1e-9)
    assert np.abs(tau[:, tree.index("left_knee")]).max() > 1.0


def test_a_pendulum_swings_as_in_the_textbook():
    """Torque of a rod about its hinge: I qdd + m g l/2 sin q."""
    tree = JointTree.chain(1, length_m=0.8, mass_kg=1.5)
    q, qd, qdd = np.array([[0.3], [1.2]]), np.array([[2.0], [0.0]]), np.array([[0.5], [-1.0]])
    expected = 1.5 * 0.8**2 / 3.0 * qdd + 1.5 * 9.81 * 0.4 * np.sin(q)
    np.testing.assert_allclose(compute_torques(tree, q, qd, qdd), expected, rtol=0, atol=1e-12)


def test_power_of_torques_is_the_rate_of_energy():
    """Without gravity, of a random tree along a smooth motion."""
    tree, h = random_tree(np.random.default_rng(14), 12), 1e-5
    a = np.random.default_rng(15).normal(size=12)

    def state(t):
        return a * np.sin(t) * np.ones((1, 12)), a * np.cos(t) * np.ones((1, 12)), -a * np.sin(t) * np.ones((1, 12))

    def kinetic(t):
        q, qd, qdd = state(t)
        M = compute_torque_jacobians(tree, q, qd, qdd)[2][0]
        return 0.5 * qd[0] @ M @ qd[0]

    power = float((compute_torques(tree, *state(0.7), gravity=0.0) * state(0.7)[1]).sum())
    assert power == pytest.approx((kinetic(0.7 + h) - kinetic(0.7 - h)) / (2 * h), rel=1e-7)


def test_bad_torque_requests_are_refused():
    tree, still = JointTree.fang7(), np.zeros((1, 7))
    with pytest.raises(UnknownNameError, match="sub-tree"):
        compute_torque_jacobians(tree, still, still, still, method="magic")
    with pytest.raises(InputError, match="coordinates 0 to 6"):
        compute_torque_jacobians(tree, still, still, still, joints=[9])
    with pytest.raises(InputError, match="external"):
        compute_torques(tree, still, still, still, external=np.zeros((1, 3, 6)))


def test_a_tree_numbered_in_layers_is_right_here_and_refused_for_pinocchio():
    """Two chains from one link, their joints taking turns in the numbering."""
    tree = JointTree(
        ("a", "b1", "c1", "b2", "c2"),
        np.array([-1, 0, 0, 1, 2]),
        np.zeros(5, dtype=int),
        np.eye(3)[[0, 1, 2, 0, 1]],
        0.3 * np.ones((5, 3)),
        np.ones(5),
        0.1 * np.ones((5, 3)),
        np.tile(0.01 * np.eye(3), (5, 1, 1)),
    )
    states = random_state(np.random.default_rng(16), tree)
    for which, block in enumerate(compute_torque_jacobians(tree, *states)):
        assert relative(block, numeric(lambda *s: compute_torques(tree, *s), states, which)) < 1e-6
    pytest.importorskip("pinocchio")
    with pytest.raises(InputError, match="depth first"):
        pinocchio_model(tree)


def test_torques_of_a_joint_named_twice_are_given_twice():
    tree = JointTree.fang22()
    states = np.random.default_rng(5).normal(size=(3, 2, 22))
    for method in ("sub-tree", "pinocchio"):
        for twice, once in zip(
            compute_torque_jacobians(tree, *states, joints=[9, 4, 9], method=method),
            compute_torque_jacobians(tree, *states, joints=[9, 4], method=method),
            strict=True,
        ):
            np.testing.assert_array_equal(twice, once[:, [0, 1, 0]])


def test_links_that_a_tree_does_not_have_are_refused_by_number():
    tree, rest = JointTree.fang22(), np.zeros((1, 22))
    with pytest.raises(InputError, match="link -3"):
        compute_points_motion(tree, rest, rest, rest, [-3, 2], np.zeros((2, 3)))
    with pytest.raises(InputError, match="coordinate 22"):
        tree.subtree(22)
