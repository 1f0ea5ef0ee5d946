"""Inverse dynamics against Pinocchio, against laws, and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.dynamics import GRAVITY, Body, MotionStates, solve_inverse_dynamics, solve_newton_euler
from marey.dynamics.inverse import newton_euler
from marey.dynamics.inverse.differentiation import compute_states
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN, Pose, Skeleton


def random_body(rng: np.random.Generator, joints: int = 12) -> Body:
    """A tree of random shape whose pieces are random clouds of points: any rigid body is one."""
    parents = np.array([-1, *(int(rng.integers(0, j)) for j in range(1, joints))])
    clouds = rng.normal(scale=0.1, size=(joints, 8, 3))
    centres = clouds.mean(axis=1)
    arms = clouds - centres[:, None]
    squares = np.einsum("jpi,jpi->j", arms, arms)[:, None, None] * np.eye(3)
    masses = rng.uniform(0.5, 9.0, joints)
    masses[joints // 2] = 0.0
    inertias = (squares - np.einsum("jpi,jpk->jik", arms, arms)) * masses[:, None, None] / 8.0
    names = tuple(f"j{j}" for j in range(joints))
    skeleton = Skeleton(names, parents, rng.normal(scale=0.3, size=(joints, 3)))
    return Body(skeleton, masses, centres, inertias, 1.7)


def random_states(rng: np.random.Generator, frames: int, joints: int) -> MotionStates:
    roots = rng.normal(size=(3, frames, 3))
    rates = rng.normal(scale=3.0, size=(2, frames, joints, 3))
    return MotionStates(roots[0], roots[1], 5.0 * roots[2], SO3.random(rng, frames, joints), rates[0], 5.0 * rates[1])


def pinocchio_model(body: Body):
    pin = pytest.importorskip("pinocchio")
    model = pin.Model()
    model.gravity.linear = np.array([0.0, -GRAVITY, 0.0])
    for j, name in enumerate(body.skeleton.names):
        parent = int(body.skeleton.parents[j])
        joint = pin.JointModelFreeFlyer() if parent < 0 else pin.JointModelSpherical()
        offset = np.zeros(3) if parent < 0 else body.skeleton.offsets[j]
        number = model.addJoint(parent + 1, joint, pin.SE3(np.eye(3), offset), name)
        inertia = pin.Inertia(float(body.masses[j]), body.centres[j], body.inertias[j])
        model.appendBodyToJoint(number, inertia, pin.SE3.Identity())
    return pin, model


def pinocchio_vectors(given: MotionStates, f: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pinocchio's q, v and a: quaternions end with w; the root moves in its own frame, its acceleration spatially."""
    R = given.rotations[f, 0].inverse()
    v = R @ given.root_velocities[f]
    a = R @ given.root_accelerations[f] - np.cross(given.rates[f, 0], v)
    turns = given.rotations.wxyz[f][:, [1, 2, 3, 0]].ravel()
    return (
        np.concatenate([given.root_positions[f], turns]),
        np.concatenate([v, given.rates[f].ravel()]),
        np.concatenate([a, given.rate_changes[f].ravel()]),
    )


@pytest.mark.parametrize("seed", range(3))
def test_torques_and_root_wrench_equal_those_of_pinocchio(seed):
    rng = np.random.default_rng(seed)
    body, given = random_body(rng), random_states(rng, 5, 12)
    ours = solve_newton_euler(body, given)
    pin, model = pinocchio_model(body)
    data = model.createData()
    for f in range(5):
        tau = pin.rnea(model, data, *pinocchio_vectors(given, f))
        R = given.rotations[f, 0]
        force = R @ tau[:3]
        moment = R @ tau[3:6] + np.cross(given.root_positions[f], force)
        np.testing.assert_allclose(ours.wrench[f], [*force, *moment], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.torques[f].ravel(), tau[3:], rtol=1e-9, atol=1e-9)


def test_momenta_and_energy_equal_those_of_pinocchio():
    rng = np.random.default_rng(5)
    body, given = random_body(rng), random_states(rng, 4, 12)
    ours = solve_newton_euler(body, given)
    pin, model = pinocchio_model(body)
    data = model.createData()
    for f in range(4):
        q, v, a = pinocchio_vectors(given, f)
        pin.computeCentroidalMomentumTimeVariation(model, data, q, v, a)
        np.testing.assert_allclose(ours.com[f], pin.centerOfMass(model, data, q, v, a), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.linear_momentum[f], data.hg.linear, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.angular_momentum[f], data.hg.angular, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.moments[f], data.dhg.angular, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(ours.com_velocity[f], data.vcom[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.com_acceleration[f], data.acom[0], rtol=1e-9, atol=1e-9)
        assert ours.kinetic_energy[f] == pytest.approx(pin.computeKineticEnergy(model, data, q, v), rel=1e-9)


def test_ground_forces_given_as_external_ones_leave_the_root_free():
    rng = np.random.default_rng(6)
    body, given = random_body(rng), random_states(rng, 3, 12)
    alone = solve_newton_euler(body, given)
    push = np.zeros((3, 12, 6))
    push[:, 7] = alone.wrench
    held = solve_newton_euler(body, given, external=push)
    assert np.abs(held.wrench).max() < 1e-9
    chain = [7]
    while chain[-1] > 0:
        chain.append(int(body.skeleton.parents[chain[-1]]))
    others = [j for j in range(12) if j not in chain]
    np.testing.assert_allclose(held.torques[:, others], alone.torques[:, others], atol=1e-12)
    assert (np.abs(held.torques[:, 7] - alone.torques[:, 7]).max(axis=1) > 1e-3).all()


# Laws


def rigid_motion(skeleton: Skeleton, roots: np.ndarray, turns: SO3, rate_hz: float) -> Motion:
    rest = SO3.identity(len(roots), skeleton.num_joints).wxyz.copy()
    rest[:, 0] = turns.wxyz
    return Motion(skeleton, rate_hz, roots, SO3(rest))


def test_a_body_that_stands_still_needs_its_weight_under_its_centre():
    body = Body.from_skeleton(HUMAN, mass_kg=70.0)
    pose = Pose.rest(HUMAN)
    still = rigid_motion(HUMAN, np.tile(pose.root_position, (9, 1)), SO3.identity(9), 60.0)
    result = solve_inverse_dynamics(body, still)
    np.testing.assert_allclose(result.forces, np.tile([0.0, 70.0 * GRAVITY, 0.0], (9, 1)), atol=1e-8)
    np.testing.assert_allclose(result.moments, 0.0, atol=1e-8)
    np.testing.assert_allclose(result.vertical_force, 1.0, atol=1e-10)
    centre = np.cross(result.forces, result.wrench[:, 3:]) / (70.0 * GRAVITY) ** 2  # where the wrench has no moment
    np.testing.assert_allclose(centre[:, [0, 2]], result.com[:, [0, 2]], atol=1e-9)


def test_free_fall_of_a_tumbling_body_needs_nothing():
    """A body that turns about a principal axis through its centre while the centre falls: no force, no moment."""
    skeleton = Skeleton(("root",), np.array([-1]), np.zeros((1, 3)))
    centre = np.array([0.0, 0.2, 0.1])
    body = Body(skeleton, np.array([60.0]), centre[None], np.diag([3.0, 1.0, 2.5])[None], 1.7)
    times = np.arange(40) / 100.0
    turns = SO3.exp(np.outer(6.0 * times, [1.0, 0.0, 0.0]))
    path = np.stack([1.5 * times, 3.0 * times - 0.5 * GRAVITY * times**2, -0.3 * times], axis=1)
    result = solve_inverse_dynamics(body, rigid_motion(skeleton, path - turns @ centre, turns, 100.0), cutoff_hz=None)
    inner = slice(2, -2)  # the outermost frames continue a turning point by a parabola
    assert np.abs(result.forces[inner]).max() < 1e-3 * 60.0 * GRAVITY
    assert np.abs(result.moments[inner]).max() < 0.02
    np.testing.assert_allclose(result.angular_momentum[inner], np.tile([18.0, 0.0, 0.0], (36, 1)), atol=1e-3)


def test_a_pendulum_needs_no_torque_at_its_pivot_and_keeps_its_energy():
    length, rate = 0.9, 400.0
    skeleton = Skeleton(("pivot",), np.array([-1]), np.zeros((1, 3)))
    inertia = np.diag([0.05, 0.01, 0.05])
    body = Body(skeleton, np.array([2.0]), np.array([[0.0, -length, 0.0]]), inertia[None], 1.0)
    angles = integrate(lambda x: pendulum(x, 2.0, length, 0.05), np.array([1.2, 0.0]), 1.5, rate)[:, 0]
    swing = rigid_motion(skeleton, np.zeros((len(angles), 3)), SO3.exp(np.outer(angles, [1.0, 0.0, 0.0])), rate)
    result = solve_inverse_dynamics(body, swing, cutoff_hz=None)
    assert np.abs(result.torques[2:-2]).max() < 1e-4 * 2.0 * GRAVITY * length
    energy = (result.kinetic_energy + result.potential_energy)[2:-2]
    assert np.ptp(energy) < 1e-5 * 2.0 * GRAVITY * length


def test_a_double_pendulum_needs_no_torque_in_either_joint_and_keeps_its_energy():
    rate, (m1, m2, l1, l2) = 1000.0, (1.5, 0.8, 0.6, 0.5)
    skeleton = Skeleton(("upper", "lower"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, -l1, 0.0]]))
    centres = np.array([[0.0, -l1, 0.0], [0.0, -l2, 0.0]])
    body = Body(skeleton, np.array([m1, m2]), centres, np.zeros((2, 3, 3)), 1.0)
    path = integrate(lambda x: double_pendulum(x, m1, m2, l1, l2), np.array([1.0, 1.6, 0.0, 0.0]), 1.5, rate)
    local = np.stack([path[:, 0], path[:, 1] - path[:, 0]], axis=1)
    turns = SO3.exp(local[..., None] * np.array([1.0, 0.0, 0.0]))
    result = solve_inverse_dynamics(body, Motion(skeleton, rate, np.zeros((len(path), 3)), turns), cutoff_hz=None)
    assert np.abs(result.torques[2:-2, 1]).max() < 1e-5
    assert np.abs(result.torques[2:-2, 0]).max() < 1e-5
    energy = (result.kinetic_energy + result.potential_energy)[2:-2]
    assert np.ptp(energy) < 1e-6 * abs(energy.mean())


def integrate(rate_of, start: np.ndarray, duration_s: float, rate_hz: float) -> np.ndarray:
    """Runge-Kutta of fourth order, ten steps a frame."""
    x, path, h = start, [start], 0.1 / rate_hz
    for _ in range(round(duration_s * rate_hz)):
        for _ in range(10):
            a = rate_of(x)
            b = rate_of(x + 0.5 * h * a)
            c = rate_of(x + 0.5 * h * b)
            x = x + h / 6.0 * (a + 2.0 * b + 2.0 * c + rate_of(x + h * c))
        path.append(x)
    return np.array(path)


def pendulum(x: np.ndarray, mass: float, length: float, inertia: float) -> np.ndarray:
    return np.array([x[1], -mass * GRAVITY * length * np.sin(x[0]) / (inertia + mass * length**2)])


def double_pendulum(x: np.ndarray, m1: float, m2: float, l1: float, l2: float) -> np.ndarray:
    a, b, p, q = x
    d = b - a
    mass = np.array([[(m1 + m2) * l1, m2 * l2 * np.cos(d)], [m2 * l1 * np.cos(d), m2 * l2]])
    right = np.array(
        [
            m2 * l2 * q**2 * np.sin(d) - (m1 + m2) * GRAVITY * np.sin(a),
            -m2 * l1 * p**2 * np.sin(d) - m2 * GRAVITY * np.sin(b),
        ]
    )
    return np.array([p, q, *np.linalg.solve(mass, right)])


def test_the_wrench_is_the_rate_of_the_momenta():
    """On a smooth random motion, differences of the momenta give the forces and moments back."""
    rng = np.random.default_rng(11)
    body, rate = random_body(rng), 500.0
    times = np.arange(300) / rate
    waves = np.sin(times[:, None, None] * rng.uniform(2.0, 8.0, (12, 3)) + rng.uniform(0.0, 6.0, (12, 3)))
    motion = Motion(body.skeleton, rate, 0.3 * waves[:, 0], SO3.exp(1.5 * waves))
    result = solve_inverse_dynamics(body, motion, cutoff_hz=None)
    inner = slice(6, -6)
    forces = np.gradient(result.linear_momentum, 1.0 / rate, axis=0, edge_order=2)
    forces[:, 1] += body.weight_n
    moments = np.gradient(result.angular_momentum, 1.0 / rate, axis=0, edge_order=2)
    assert np.abs(result.forces - forces)[inner].max() < 1e-3 * np.abs(forces).max()
    assert np.abs(result.moments - moments)[inner].max() < 1e-3 * np.abs(moments).max()


def test_results_are_read_only():
    rng = np.random.default_rng(1)
    result = solve_newton_euler(random_body(rng), random_states(rng, 3, 12))
    with pytest.raises(ValueError, match="read-only"):
        result.wrench[0, 0] = 1.0


# Bad input


def test_two_frames_are_refused():
    body = Body.from_skeleton(HUMAN)
    still = rigid_motion(HUMAN, np.zeros((2, 3)), SO3.identity(2), 60.0)
    with pytest.raises(InputError, match=r"has 2 frames\. An acceleration needs at least 3"):
        solve_inverse_dynamics(body, still)


def test_another_skeleton_is_refused():
    body = Body.from_skeleton(HUMAN)
    other = Skeleton(("a", "b"), np.array([-1, 0]), np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"Body\.from_motion"):
        solve_inverse_dynamics(body, rigid_motion(other, np.zeros((5, 3)), SO3.identity(5), 60.0))


@pytest.mark.parametrize("cutoff", [0.0, -1.0, np.nan])
def test_a_cutoff_that_is_none_is_refused(cutoff):
    still = rigid_motion(HUMAN, np.zeros((5, 3)), SO3.identity(5), 60.0)
    with pytest.raises(InputError, match="cutoff_hz"):
        compute_states(still, cutoff)


def test_external_forces_of_the_wrong_shape_are_refused():
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="external has shape"):
        solve_newton_euler(random_body(rng), random_states(rng, 3, 12), external=np.zeros((3, 6)))


def test_a_clip_of_three_frames_is_enough():
    walk = rigid_motion(HUMAN, np.outer(np.arange(3.0), [0.0, 0.0, 0.01]), SO3.identity(3), 60.0)
    assert solve_inverse_dynamics(Body.from_skeleton(HUMAN), walk).vertical_force == pytest.approx(np.ones(3), abs=1e-9)


# Captured clips


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["07_01", "35_01", "16_47", "08_01"])
def test_the_vertical_force_of_a_walk_has_two_humps_a_step_about_body_weight(mocap, name):
    walk = load(mocap / "cmu-bvh" / f"{name}.bvh")
    force = solve_inverse_dynamics(Body.from_motion(walk), walk).vertical_force
    assert force.mean() == pytest.approx(1.0, abs=0.03)
    assert 1.1 < np.percentile(force, 98) < 1.9
    assert 0.3 < np.percentile(force, 2) < 0.9


@pytest.mark.mocap
def test_bvh_with_its_thorax_put_back_and_asf_of_one_trial_need_the_same_forces(mocap):
    bvh = load(mocap / "cmu-bvh" / "07_01.bvh")
    asf = load(mocap / "cmu-asfamc" / "07" / "07_01.amc")
    frames = min(len(bvh), len(asf))
    a, b = (solve_inverse_dynamics(Body.from_motion(m, mass_kg=70.0), m[:frames]) for m in (bvh, asf))
    rms = np.sqrt(np.mean((a.forces - b.forces) ** 2)) / a.body.weight_n
    assert rms < 0.01
    assert np.abs(a.com - b.com).max() < 0.005


@pytest.mark.mocap
def test_a_clip_needs_four_times_the_acceleration_at_twice_the_speed(mocap):
    walk = load(mocap / "cmu-bvh" / "07_01.bvh")
    fast = replace(walk, rate_hz=2.0 * walk.rate_hz)
    body = Body.from_motion(walk)
    slow, quick = (solve_inverse_dynamics(body, m, cutoff_hz=c) for m, c in ((walk, 6.0), (fast, 12.0)))
    np.testing.assert_allclose(quick.com_acceleration, 4.0 * slow.com_acceleration, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("gravity", [np.nan, np.inf, -np.inf])
def test_a_gravity_that_is_not_finite_is_refused(gravity):
    with pytest.raises(InputError, match="gravity"):
        solve_inverse_dynamics(Body.from_skeleton(HUMAN), still_clip(), gravity=gravity)


def test_coordinates_beyond_numbers_are_refused_with_the_frame():
    clip = still_clip()
    far = replace(clip, root_positions=np.full((5, 3), 1e307))
    with pytest.raises(InputError, match="overflow at frame 0"):
        solve_inverse_dynamics(Body.from_skeleton(HUMAN), far)


def test_body_and_motion_in_the_wrong_order_are_refused():
    with pytest.raises(InputError, match="Give a Body, then a Motion"):
        solve_inverse_dynamics(still_clip(), Body.from_skeleton(HUMAN))


def still_clip() -> Motion:
    return Motion(HUMAN, 120.0, np.zeros((5, 3)), SO3.identity(5, 22))


def test_the_wrench_of_blocks_of_frames_is_that_of_the_whole_clip(monkeypatch):
    """Bit for bit, at block borders too; joints are solved when they are asked for."""
    rng = np.random.default_rng(5)
    turns = SO3.exp(0.02 * np.cumsum(rng.standard_normal((40, HUMAN.num_joints, 3)), axis=0))
    motion = Motion(HUMAN, 60.0, np.cumsum(0.01 * rng.standard_normal((40, 3)), axis=0), turns)
    body = Body.from_skeleton(HUMAN)
    monkeypatch.setattr(newton_euler, "BLOCK_FRAMES", 13)
    for cutoff in (None, 6.0):
        whole = solve_inverse_dynamics(body, motion, cutoff_hz=cutoff)
        parts = newton_euler.solve_body_wrench(body, motion, cutoff_hz=cutoff)
        for name in ("wrench", "com", "com_velocity", "com_acceleration", "angular_momentum", "torques"):
            np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
