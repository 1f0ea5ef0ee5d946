"""Laws that trees obey: closed forms of textbooks, symmetries, conservation along simulated motions."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest
from oracles.trees import random_tree

from marey.base import MissingExtraError
from marey.dynamics import (
    JointTree,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_com_motion,
    compute_point_motion,
    compute_torque_jacobians,
    compute_torques,
)
from marey.lie import SO3

GRAVITY = 9.81


def random_state(rng, tree, frames=3, spread=1.0):
    return spread * rng.normal(size=(3, frames, tree.num_dofs))


def relative(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def accelerations(tree, q, qd, gravity=GRAVITY):
    """Forward dynamics without torques, from the mass matrix and the bias."""
    still = np.zeros_like(q)
    bias = compute_torques(tree, q, qd, still, gravity=gravity)[0]
    mass = compute_torque_jacobians(tree, q, qd, still)[2][0]
    return -np.linalg.solve(mass, bias)


def simulate(tree, q, qd, *, steps, dt, gravity=GRAVITY):
    """Runge-Kutta of order four; returns the last state."""

    def rate(state):
        half = len(state) // 2
        return np.concatenate([state[half:], accelerations(tree, state[None, :half], state[None, half:], gravity)])

    state = np.concatenate([q, qd])
    for _ in range(steps):
        a = rate(state)
        b = rate(state + 0.5 * dt * a)
        c = rate(state + 0.5 * dt * b)
        d = rate(state + dt * c)
        state = state + dt / 6.0 * (a + 2 * b + 2 * c + d)
    return state[: len(q)], state[len(q) :]


def energy(tree, q, qd, gravity=GRAVITY):
    q, qd = q[None], qd[None]
    still = np.zeros_like(q)
    mass = compute_torque_jacobians(tree, q, qd, still)[2][0]
    height = compute_aggregate(tree, q, qd, still).com[0, 1]
    return 0.5 * qd[0] @ mass @ qd[0] + tree.mass * gravity * height


def test_a_swinging_chain_keeps_its_energy():
    tree = JointTree.chain(3)
    q, qd = np.array([0.8, 0.4, -0.3]), np.array([0.5, -1.0, 0.7])
    before = energy(tree, q, qd)
    assert energy(tree, *simulate(tree, q, qd, steps=200, dt=1e-3)) == pytest.approx(before, abs=1e-9)


def test_a_small_pendulum_has_the_period_of_the_textbook():
    """A rod of length L swings with w^2 = 3 g / (2 L)."""
    tree = JointTree.chain(1, length_m=0.6)
    quarter = 0.5 * np.pi / np.sqrt(1.5 * GRAVITY / 0.6)
    q, _ = simulate(tree, np.array([1e-4]), np.zeros(1), steps=400, dt=quarter / 400)
    assert abs(q[0]) < 1e-4 * 1e-6


def test_a_body_in_flight_keeps_its_angular_momentum_and_falls_as_a_stone():
    tree = JointTree.fang7()
    rng = np.random.default_rng(1)
    q, qd = 0.3 * rng.normal(size=7), rng.normal(size=7)
    end_q, end_qd = simulate(tree, q, qd, steps=60, dt=2e-3)
    still = np.zeros((1, 7))
    a, b = compute_aggregate(tree, q[None], qd[None], still), compute_aggregate(tree, end_q[None], end_qd[None], still)
    np.testing.assert_allclose(b.angular_momentum, a.angular_momentum, rtol=0, atol=1e-9)
    fallen = a.com + 0.12 * a.com_velocity - [[0.0, 0.5 * GRAVITY * 0.12**2, 0.0]]
    np.testing.assert_allclose(b.com, fallen, rtol=0, atol=1e-9)


def test_in_flight_no_wrench_is_needed():
    tree = JointTree.fang22()
    q, qd, _ = random_state(np.random.default_rng(2), tree, 1, 0.4)
    qdd = accelerations(tree, q, qd)[None]
    assert np.abs(compute_aggregate(tree, q, qd, qdd).wrench).max() < 1e-8


def double_pendulum(q1, q2, m, length):
    """Mass matrix of two equal rods in a plane, absolute first angle and relative second (Spong's form)."""
    c, i = 0.5 * length, m * length**2 / 12.0
    m11 = m * c**2 + m * (length**2 + c**2 + 2 * length * c * np.cos(q2)) + 2 * i
    m12 = m * (c**2 + length * c * np.cos(q2)) + i
    weight1 = m * GRAVITY * (c * np.sin(q1) + length * np.sin(q1) + c * np.sin(q1 + q2))
    weight2 = m * GRAVITY * c * np.sin(q1 + q2)
    return np.array([[m11, m12], [m12, m * c**2 + i]]), np.array([weight1, weight2])


def test_a_double_pendulum_has_the_mass_matrix_of_the_textbook():
    m, length = 1.3, 0.45
    rods = {
        "masses": [m, m],
        "centres": np.tile([0.0, -0.5 * length, 0.0], (2, 1)),
        "inertias": np.tile(m * length**2 / 12.0 * np.diag([1.0, 0.1, 1.0]), (2, 1, 1)),
    }
    tree = JointTree(
        ("q1", "q2"),
        np.array([-1, 0]),
        np.zeros(2, dtype=int),
        np.tile([1.0, 0.0, 0.0], (2, 1)),
        np.array([[0.0, 0.0, 0.0], [0.0, -length, 0.0]]),
        **rods,
    )
    q = np.array([[0.7, -1.1]])
    still = np.zeros((1, 2))
    mass, weight = double_pendulum(*q[0], m, length)
    np.testing.assert_allclose(compute_torque_jacobians(tree, q, still, still)[2][0], mass, rtol=0, atol=1e-14)
    np.testing.assert_allclose(compute_torques(tree, q, still, still)[0], weight, rtol=0, atol=1e-13)


def test_turning_the_whole_scene_about_the_vertical_turns_the_wrench():
    """Yaw is the outermost turn of Fang's root."""
    tree = JointTree.fang22()
    q, qd, qdd = random_state(np.random.default_rng(3), tree, 4, 0.5)
    for x in (qd, qdd, q):
        x[:, :3] = 0.0
    turned = q.copy()
    turned[:, tree.index("root_ry")] += 0.9
    R = SO3.from_axis_angle([0.0, 1.0, 0.0], 0.9)
    a, b = compute_aggregate(tree, q, qd, qdd), compute_aggregate(tree, turned, qd, qdd)
    np.testing.assert_allclose(b.wrench[:, :3], R @ a.wrench[:, :3], rtol=0, atol=1e-9)
    np.testing.assert_allclose(b.wrench[:, 3:], R @ a.wrench[:, 3:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(b.angular_momentum, R @ a.angular_momentum, rtol=0, atol=1e-10)


def test_a_mirrored_pose_has_the_mirrored_wrench():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(4), tree, 4, 0.5)
    mirrored = np.empty_like(states)
    for i, name in enumerate(tree.names):
        other = name.replace("left", "?").replace("right", "left").replace("?", "right")
        odd = name == "root_tx" or name.endswith(("_ry", "_rz"))
        mirrored[:, :, tree.index(other)] = (-1.0 if odd else 1.0) * states[:, :, i]
    a, b = compute_aggregate(tree, *states), compute_aggregate(tree, *mirrored)
    signs = np.array([-1.0, 1.0, 1.0, 1.0, -1.0, -1.0])  # forces as vectors, moments as pseudovectors
    np.testing.assert_allclose(b.wrench, signs * a.wrench, rtol=0, atol=1e-9)


def test_twice_the_mass_needs_twice_the_wrench():
    rng = np.random.default_rng(5)
    states = random_state(rng, JointTree.fang22())
    light, heavy = (compute_aggregate(JointTree.fang22(1.65, mass), *states) for mass in (50.0, 100.0))
    # long-axis inertias are proportional to mass too
    np.testing.assert_allclose(heavy.wrench, 2.0 * light.wrench, rtol=1e-12)


def test_a_steady_drift_changes_nothing():
    """Galileo: adding a constant velocity to the root leaves the wrench alone, at the same place."""
    tree = JointTree.fang22()
    q, qd, qdd = random_state(np.random.default_rng(6), tree)
    moving = qd.copy()
    moving[:, :3] += [3.0, -1.0, 2.0]
    np.testing.assert_allclose(
        compute_aggregate(tree, q, moving, qdd).wrench, compute_aggregate(tree, q, qd, qdd).wrench, rtol=0, atol=1e-9
    )


def test_columns_of_the_root_slides_are_mass_times_axis():
    tree = JointTree.fang22()
    found = compute_aggregate_jacobians(tree, *random_state(np.random.default_rng(7), tree))
    expected = np.broadcast_to(tree.mass * np.eye(3), (3, 3, 3))
    np.testing.assert_allclose(found.df_dqdd[:, :3, :3], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.df_dq[:, :3, :3], 0.0, rtol=0, atol=1e-11)


def test_the_com_jacobian_is_the_linear_momentum_column_over_mass():
    tree = random_tree(np.random.default_rng(8), 17)
    states = random_state(np.random.default_rng(9), tree)
    found, com = compute_aggregate_jacobians(tree, *states), compute_com_motion(tree, *states)
    np.testing.assert_allclose(found.dp_dqd[:, :3] / tree.mass, com.J, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.dp_dq[:, :3] / tree.mass, com.Jd, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.df_dq[:, :3] / tree.mass, com.Jdd, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.df_dqd[:, :3] / tree.mass, 2.0 * com.Jd, rtol=0, atol=1e-11)


def test_a_massless_leaf_has_no_columns():
    """Its coordinate cannot be seen in momentum or force."""
    tree = JointTree(
        ("a", "leaf"),
        np.array([-1, 0]),
        np.zeros(2, dtype=int),
        np.eye(3)[:2],
        np.zeros((2, 3)),
        np.array([1.0, 0.0]),
        0.1 * np.ones((2, 3)),
        np.stack([0.1 * np.eye(3), np.zeros((3, 3))]),
    )
    found = compute_aggregate_jacobians(tree, *random_state(np.random.default_rng(10), tree))
    for block in (found.dp_dq, found.dp_dqd, found.df_dq, found.df_dqd):
        assert not block[:, :, 1].any()


def test_a_hand_on_the_root_axis_does_not_move_when_the_axis_turns():
    tree = JointTree.chain(2)
    q = np.zeros((1, 2))
    on_axis = compute_point_motion(tree, q, np.array([[2.0, 0.0]]), q, 0, np.array([0.5, 0.0, 0.0]))
    np.testing.assert_array_equal(on_axis.velocity, 0.0)
    np.testing.assert_array_equal(on_axis.J[:, :, 0], 0.0)


def test_a_point_on_a_spinning_rod_is_pulled_inwards():
    tree = JointTree.chain(1, length_m=0.5)
    tip = compute_point_motion(tree, np.zeros((1, 1)), np.full((1, 1), 3.0), np.zeros((1, 1)), *tree.point("tip"))
    np.testing.assert_allclose(tip.velocity, [[0.0, 0.0, -1.5]], rtol=0, atol=1e-14)
    np.testing.assert_allclose(tip.acceleration, [[0.0, 0.5 * 9.0, 0.0]], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("scheme", "worst"), [("forward", 1e-4), ("central", 1e-7), ("richardson", 1e-9)])
def test_fang_a47_numerical_schemes_err_in_their_order(scheme, worst):
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(11), tree)
    exact = compute_aggregate_jacobians(tree, *states)
    found = compute_aggregate_jacobians(tree, *states, method=scheme)
    assert relative(found.df_dq, exact.df_dq) < worst
    assert relative(found.df_dqd, exact.df_dqd) < worst


def test_fang_a47_a_finer_scheme_errs_less():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(12), tree)
    exact = compute_aggregate_jacobians(tree, *states).df_dq
    errors = [
        np.abs(compute_aggregate_jacobians(tree, *states, method=m).df_dq - exact).mean()
        for m in ("forward", "central", "richardson", "direct")
    ]
    assert errors == sorted(errors, reverse=True)


def test_the_same_state_gives_the_same_bits():
    tree = JointTree.fang22()
    states = random_state(np.random.default_rng(13), tree, 20)
    a, b = (compute_aggregate_jacobians(tree, *states) for _ in range(2))
    np.testing.assert_array_equal(a.df_dq, b.df_dq)
    alone = compute_aggregate_jacobians(tree, *(s[7:8] for s in states))
    np.testing.assert_array_equal(a.df_dq[7:8], alone.df_dq)  # frames do not see one another


def test_without_pinocchio_its_method_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pinocchio"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setitem(sys.modules, "pinocchio", None)
    monkeypatch.setattr(builtins, "__import__", without)
    tree, still = JointTree.fang7(), np.zeros((1, 7))
    with pytest.raises(MissingExtraError, match="physics"):
        compute_aggregate_jacobians(tree, still, still, still, method="pinocchio")
