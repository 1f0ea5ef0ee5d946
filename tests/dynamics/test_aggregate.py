"""Aggregate momentum and force: Fang's acceptance checks A1-A10, A14, A15, A18 and his errata."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.spatial import inverse_transform, spatial_cross, spatial_inertia, spatial_power, spatial_transform
from oracles.trees import random_tree

from marey.base import InputError, UnknownNameError
from marey.dynamics import JointTree, compute_aggregate, compute_aggregate_jacobians
from marey.lie import SO3, hat
from marey.numerics import KnotSpline

BLOCKS = ("dp_dq", "dp_dqd", "df_dq", "df_dqd", "df_dqdd")
G = np.array([0.0, 0.0, 0.0, 0.0, -9.81, 0.0])  # gravity as a twist


def random_state(rng, tree, frames=3):
    return rng.normal(size=(3, frames, tree.num_dofs))


def relative(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def recursion(tree, q, qd, qdd, *, inclusive):
    """Leaf to base in 6x6 matrices, one frame; the inertia rate of B.10 as repaired, or inclusive as printed."""
    D = tree.num_dofs
    inertias = list(spatial_inertia(tree.masses, tree.centres, tree.inertias))
    rest = SO3(tree.orientations).matrix()
    X, s = np.empty((D, 6, 6)), np.zeros((D, 6))
    for i in range(D):
        slides = tree.kinds[i] == 1
        turn = np.eye(3) if slides else SO3.from_axis_angle(tree.axes[i], q[i]).matrix()
        arm = tree.offsets[i] + (rest[i] @ tree.axes[i] * q[i] if slides else 0.0)
        X[i] = spatial_transform(rest[i] @ turn, arm)
        s[i, 3 * int(slides) : 3 * int(slides) + 3] = tree.axes[i]
    inertias.append(np.zeros((6, 6)))
    dI, p, f = np.zeros((D + 1, 6, 6)), np.zeros((D + 1, 6)), np.zeros((D + 1, 6))
    for i in reversed(range(D)):
        k, cross = tree.parents[i], spatial_cross(s[i])
        exclusive = dI[i].copy()
        dI[i] += qd[i] * (cross @ inertias[i] - inertias[i] @ cross)
        p[i] += inertias[i] @ s[i] * qd[i]
        rate = dI[i] if inclusive else exclusive
        f[i] += cross @ p[i] * qd[i] + inertias[i] @ s[i] * qdd[i] + rate @ s[i] * qd[i]
        back = inverse_transform(X[i])
        inertias[k] = inertias[k] + X[i] @ inertias[i] @ back
        dI[k] += X[i] @ dI[i] @ back
        p[k] += X[i] @ p[i]
        f[k] += X[i] @ f[i]
    return p[D], f[D] - inertias[D] @ G


def test_fang_a1_a_transform_and_its_block_transpose_are_inverse():
    rng = np.random.default_rng(1)
    X = spatial_transform(SO3.random(rng, 50).matrix(), rng.normal(size=(50, 3)))
    np.testing.assert_allclose(X @ inverse_transform(X), np.broadcast_to(np.eye(6), X.shape), rtol=0, atol=1e-14)
    np.testing.assert_allclose(inverse_transform(X), np.linalg.inv(X), rtol=0, atol=1e-12)


def test_fang_a2_the_cross_product_changes_sign_with_its_order():
    v, w = np.random.default_rng(2).normal(size=(2, 40, 6))
    ours = np.einsum("nij,nj->ni", spatial_cross(v), w)
    theirs = np.einsum("nij,nj->ni", spatial_cross(w), v)
    np.testing.assert_allclose(ours, -theirs, rtol=0, atol=1e-13 * np.abs(ours).max())


@pytest.mark.parametrize("slides", [False, True])
def test_fang_a2_rates_of_transforms_match_differences(slides):
    """A.20-A.22: of X w, of its inverse, and of an inertia carried along."""
    rng = np.random.default_rng(3)
    axis = SO3.random(rng) @ np.array([1.0, 0.0, 0.0])
    arm, w, rate, h = rng.normal(size=3), rng.normal(size=6), 0.7, 1e-6
    inertia = spatial_inertia(2.0, rng.normal(size=3), np.eye(3))
    s = np.concatenate([np.zeros(3), axis] if slides else [axis, np.zeros(3)])

    def X(q):
        return spatial_transform(
            np.eye(3) if slides else SO3.from_axis_angle(axis, q).matrix(), arm + axis * q * float(slides)
        )

    def slope(value):
        return rate * (value(0.4 + h) - value(0.4 - h)) / (2 * h)

    here, back, moved = X(0.4), inverse_transform(X(0.4)), rate * spatial_cross(s)
    assert relative(here @ moved @ w, slope(lambda q: X(q) @ w)) < 1e-7
    assert relative(-moved @ back @ w, slope(lambda q: inverse_transform(X(q)) @ w)) < 1e-7
    carried = here @ (moved @ inertia - inertia @ moved) @ back
    assert relative(carried, slope(lambda q: X(q) @ inertia @ inverse_transform(X(q)))) < 1e-7


def test_fang_a3_inertia_times_twist_is_the_momentum_of_its_points():
    rng = np.random.default_rng(4)
    masses, points, twist = rng.uniform(0.1, 1.0, size=9), rng.normal(size=(9, 3)), rng.normal(size=6)
    mass, centre = masses.sum(), masses @ points / masses.sum()
    arms = hat(points - centre)
    inertia = -np.einsum("n,nij,njk->ik", masses, arms, arms)
    velocities = twist[3:] + np.cross(twist[:3], points)
    linear = masses @ velocities
    angular = (masses[:, None] * np.cross(points, velocities)).sum(axis=0)
    ours = spatial_inertia(mass, centre, inertia) @ twist
    np.testing.assert_allclose(ours, np.concatenate([linear, angular]), rtol=0, atol=1e-12 * np.abs(ours).max())
    power = spatial_power(twist, ours)
    assert power == pytest.approx((masses * (velocities**2).sum(axis=1)).sum(), rel=1e-12)  # twice the kinetic energy


def test_fang_a4_aggregates_equal_newton_euler_on_a_hundred_trees():
    rng = np.random.default_rng(5)
    worst, printed = 0.0, []
    for _ in range(100):
        tree = random_tree(rng, int(rng.integers(14, 23)))
        q, qd, qdd = random_state(rng, tree)
        direct, swept = compute_aggregate(tree, q, qd, qdd), compute_aggregate_jacobians(tree, q, qd, qdd)
        p, f = recursion(tree, q[0], qd[0], qdd[0], inclusive=False)
        worst = max(worst, relative(swept.momentum, direct.momentum), relative(swept.wrench, direct.wrench))
        worst = max(worst, relative(p, direct.momentum[0]), relative(f, direct.wrench[0]))
        printed.append(relative(recursion(tree, q[0], qd[0], qdd[0], inclusive=True)[1], direct.wrench[0]))
    assert worst < 1e-12
    assert np.median(printed) > 1e-3, "the inertia rate as printed (B.9, B.10) must not pass"


@pytest.mark.parametrize("num_dofs", [14, 18, 22])
def test_fang_a5_all_jacobians_equal_central_differences_and_richardson(num_dofs):
    rng = np.random.default_rng(num_dofs)
    tree = random_tree(rng, num_dofs)
    q, qd, qdd = random_state(rng, tree)
    ours = compute_aggregate_jacobians(tree, q, qd, qdd)
    central = compute_aggregate_jacobians(tree, q, qd, qdd, method="central")
    extrapolated = compute_aggregate_jacobians(tree, q, qd, qdd, method="richardson")
    for block in BLOCKS:
        assert relative(getattr(ours, block), getattr(central, block)) < 1e-6
        assert relative(getattr(ours, block), getattr(extrapolated, block)) < 1e-9


def test_direct_differentiation_gives_the_same_jacobians():
    rng = np.random.default_rng(6)
    for tree in (random_tree(rng, 19), JointTree.fang22(), JointTree.fang7(), JointTree.chain(9)):
        q, qd, qdd = random_state(rng, tree)
        ours, direct = (compute_aggregate_jacobians(tree, q, qd, qdd, method=m) for m in ("linear-time", "direct"))
        for block in (*BLOCKS, "momentum", "wrench"):
            assert relative(getattr(ours, block), getattr(direct, block)) < 1e-12


def spline_states(rng, tree, times):
    """A smooth random motion and its rates at some times."""
    a, b, w = rng.normal(size=(3, tree.num_dofs))
    phase = np.outer(times, 1.0 + np.abs(w))
    rate = 1.0 + np.abs(w)
    q = a * np.sin(phase) + b * np.cos(phase)
    return q, rate * (a * np.cos(phase) - b * np.sin(phase)), -(rate**2) * q


def test_fang_a6_the_dots_cancel_along_a_motion():
    rng = np.random.default_rng(7)
    tree, h = random_tree(rng, 16), 1e-5
    before, here, after = (
        compute_aggregate_jacobians(tree, *spline_states(rng_again, tree, np.array([t])), gravity=0.0)
        for rng_again, t in ((np.random.default_rng(8), 0.3 + d) for d in (-h, 0.0, h))
    )
    assert here.df_dqdd is here.dp_dqd
    rate = (after.dp_dqd - before.dp_dqd) / (2 * h)
    assert relative(here.df_dqd - here.dp_dq, rate) < 1e-6
    assert relative(here.df_dq, (after.dp_dq - before.dp_dq) / (2 * h)) < 1e-6


def mirrored_state(planar, spatial, rng):
    """Equal states of Fang's planar and spatial character."""
    q, qd, qdd = 0.6 * rng.normal(size=(3, 4, planar.num_dofs))
    both = np.zeros((3, 4, spatial.num_dofs))
    for i, name in enumerate(planar.names):
        names = (
            [name]
            if name.startswith("root")
            else [n for n in spatial.names if n.split("_", 1)[1] in (name, f"{name}_rx")]
        )
        for other in names:
            both[:, :, spatial.index(other)] = np.stack([q, qd, qdd])[:, :, i]
    return (q, qd, qdd), tuple(both)


def test_fang_a7_the_planar_character_is_the_spatial_one_seen_from_the_side():
    """In this world the plane is X = 0: forces along Y and Z and the moment about X."""
    planar, spatial = JointTree.fang7(), JointTree.fang22()
    flat, full = mirrored_state(planar, spatial, np.random.default_rng(9))
    a, b = compute_aggregate(planar, *flat), compute_aggregate(spatial, *full)
    seen = [1, 2, 3]
    np.testing.assert_allclose(a.wrench[:, seen], b.wrench[:, seen], rtol=0, atol=1e-10 * np.abs(b.wrench).max())
    np.testing.assert_allclose(np.delete(b.wrench, seen, axis=1), 0.0, rtol=0, atol=1e-10)
    np.testing.assert_allclose(a.com[:, 1:], b.com[:, 1:], rtol=0, atol=1e-14)


def test_fang_a8_pinocchio_gives_the_same_wrench_and_jacobians():
    pytest.importorskip("pinocchio")
    rng = np.random.default_rng(10)
    for tree in (random_tree(rng, 18), JointTree.fang22()):
        q, qd, qdd = random_state(rng, tree)
        ours, theirs = (compute_aggregate_jacobians(tree, q, qd, qdd, method=m) for m in ("linear-time", "pinocchio"))
        assert relative(ours.wrench, theirs.wrench) < 1e-10
        assert relative(ours.momentum, theirs.momentum) < 1e-10
        for block in BLOCKS:
            assert relative(getattr(ours, block), getattr(theirs, block)) < 1e-9


def test_fang_a9_a_body_at_rest_needs_its_weight_under_its_centre():
    tree = JointTree.fang22()
    q = 0.5 * np.random.default_rng(11).normal(size=(5, 22))
    still = np.zeros_like(q)
    found = compute_aggregate(tree, q, still, still)
    weight = np.tile([0.0, tree.mass * 9.81, 0.0], (5, 1))
    np.testing.assert_allclose(found.wrench[:, :3], weight, rtol=0, atol=1e-10)
    about_com = found.wrench[:, 3:] - np.cross(found.com, found.wrench[:, :3])
    np.testing.assert_allclose(about_com, 0.0, rtol=0, atol=1e-10)


def test_fang_a10_a_body_in_free_fall_needs_nothing():
    tree = JointTree.fang22()
    q = 0.5 * np.random.default_rng(12).normal(size=(5, 22))
    qd, qdd = np.zeros_like(q), np.zeros_like(q)
    qd[:, :3], qdd[:, 1] = (1.0, 2.0, -3.0), -9.81
    assert np.abs(compute_aggregate(tree, q, qd, qdd).wrench).max() < 1e-9 * tree.mass * 9.81


def test_fang_a14_force_is_the_rate_of_momentum_without_gravity():
    tree, h = random_tree(np.random.default_rng(13), 20), 1e-5
    times = np.array([0.2 - h, 0.2, 0.2 + h])
    found = compute_aggregate(tree, *spline_states(np.random.default_rng(14), tree, times), gravity=0.0)
    slope = (found.momentum[2] - found.momentum[0]) / (2 * h)
    assert relative(found.wrench[1], slope) < 1e-5


def test_fang_a15_a_scene_a_hundred_metres_away_gives_the_same_wrench_at_the_contact():
    tree, rng = JointTree.fang22(), np.random.default_rng(15)
    q, qd, qdd = 0.5 * random_state(rng, tree)
    far, shift, contact = q.copy(), np.array([100.0, 0.0, -80.0]), np.array([0.3, 0.0, 0.1])
    far[:, :3] += shift
    near_w = compute_aggregate_jacobians(tree, q, qd, qdd)
    far_w = compute_aggregate_jacobians(tree, far, qd, qdd)
    scale = tree.mass * 9.81

    def at(force, place):
        return force[..., 3:] - np.cross(place, force[..., :3])

    np.testing.assert_allclose(far_w.wrench[:, :3], near_w.wrench[:, :3], rtol=0, atol=1e-8 * scale)
    moments = at(far_w.wrench, contact + shift) - at(near_w.wrench, contact)
    assert np.abs(moments).max() < 1e-8 * scale
    columns = [at(np.swapaxes(j.df_dq, 1, 2), place) for j, place in ((far_w, contact + shift), (near_w, contact))]
    assert np.abs(columns[0][:, 3:] - columns[1][:, 3:]).max() < 1e-8 * scale


def physics_entries(tree, num_spans):
    """Non-zeros of the force Jacobian in spline coefficients, by frame and in total, with two frames in each span."""
    spline = KnotSpline.phases([0.0, 0.1 * num_spans], 0.1)
    times = np.linspace(0.0, 0.1 * num_spans, 2 * num_spans + 2)[1:-1]
    q, qd, qdd = random_state(np.random.default_rng(16), tree, len(times))
    found = compute_aggregate_jacobians(tree, q, qd, qdd)
    rows = []
    for f in range(len(times)):
        phi = [spline.design(times[f : f + 1], derivative=n).toarray()[0] for n in range(3)]
        row = sum(
            np.einsum("cd,k->cdk", block[f], p)
            for block, p in zip((found.df_dq, found.df_dqd, found.df_dqdd), phi, strict=True)
        )
        rows.append(np.count_nonzero(row.reshape(6, -1), axis=1))
    return np.array(rows)


def test_fang_a18_physics_rows_are_sparse_and_grow_with_joints_and_knots_alone():
    small, large = JointTree.chain(12), JointTree.chain(24)
    entries = physics_entries(small, 8)
    assert entries.max() <= 4 * 12
    assert physics_entries(small, 16).sum() == pytest.approx(2 * entries.sum(), rel=0.05)
    assert physics_entries(large, 8).sum() == pytest.approx(2 * entries.sum(), rel=0.05)


def test_aggregate_of_no_frames_is_empty():
    tree = JointTree.fang7()
    none = np.zeros((0, 7))
    assert compute_aggregate(tree, none, none, none).wrench.shape == (0, 6)
    assert compute_aggregate_jacobians(tree, none, none, none).df_dq.shape == (0, 6, 7)


def test_angular_momentum_is_about_the_centre_of_mass():
    """A spinning body that also travels: the orbital part is taken off."""
    tree = JointTree.chain(1, length_m=0.5, mass_kg=2.0)
    q, qd = np.zeros((1, 1)), np.full((1, 1), 3.0)
    found = compute_aggregate(tree, q, qd, np.zeros((1, 1)))
    inertia = 2.0 * 0.5**2 / 12.0
    np.testing.assert_allclose(found.angular_momentum[0], [3.0 * inertia, 0.0, 0.0], rtol=0, atol=1e-14)
    assert np.linalg.norm(found.momentum[0, 3:]) == pytest.approx(3.0 * 2.0 * 0.5**2 / 3.0)  # about the hinge


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.zeros((2, 6))}, "q has shape"),
        ({"qd": np.full((2, 7), np.nan)}, "qd holds nan"),
        ({"qdd": np.zeros((3, 7))}, "frames"),
    ],
)
def test_states_that_do_not_fit_are_refused(change, message):
    states = {name: np.zeros((2, 7)) for name in ("q", "qd", "qdd")} | change
    with pytest.raises(InputError, match=message):
        compute_aggregate(JointTree.fang7(), **states)


def test_an_unknown_method_is_named():
    still = np.zeros((1, 7))
    with pytest.raises(UnknownNameError, match="linear-time"):
        compute_aggregate_jacobians(JointTree.fang7(), still, still, still, method="magic")
    with pytest.raises(InputError, match="gravity"):
        compute_aggregate(JointTree.fang7(), still, still, still, gravity=float("nan"))
