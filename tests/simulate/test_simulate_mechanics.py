"""Reduced inertia, own forces and Jacobians, against Pinocchio and against differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest

from marey import samples
from marey.base import FloatArray, InputError, MareyWarning, UnknownNameError
from marey.dynamics import GRAVITY, Body, solve_inverse_dynamics
from marey.lie import SO3
from marey.models import PCA, PGA, PoseModel
from marey.motion import Motion
from marey.simulate import Mechanics, Simulator
from marey.simulate.mechanics import compute_quadratic_forces
from marey.simulate.mechanism import make_mechanics
from marey.skeleton import Pose, Skeleton

SETTINGS = {
    "first kind": PGA(n_components=7),
    "second kind": PGA(n_components=5, kind="second"),
    "rotation vectors": PCA(n_components=6),
    "euler angles": PCA(n_components=6, space="euler"),
    "full space": None,
}
ROOTS = ("com", "pelvis")


@pytest.fixture(scope="module")
def walk() -> Motion:
    return samples.walk()


@pytest.fixture(scope="module")
def body(walk: Motion) -> Body:
    return Body.from_motion(walk)


@pytest.fixture(scope="module")
def moving(walk: Motion, body: Body) -> Callable[..., Simulator]:
    """A figure of any kind in a pose of a walk, with a random velocity."""
    models: dict[str, PoseModel | None] = {}

    def make(name: str, root: str, seed: int = 0) -> Simulator:
        if name not in models:
            settings = SETTINGS[name]
            models[name] = None if settings is None else settings.fit(walk)
        simulator = Simulator(body, models[name], root=root, gravity=(0.0, 0.0, 0.0))  # pyright: ignore[reportArgumentType]
        velocity = np.random.default_rng(seed).standard_normal(simulator.num_dof)
        simulator.reset(walk[13], velocity=velocity)
        return simulator

    return make


def shifted(simulator: Simulator, direction: FloatArray) -> Mechanics:
    """Mechanics at g exp(direction)."""
    from marey.simulate.mechanics import integrate_configuration
    from marey.simulate.mechanism import write_model_rotations

    state = simulator.state
    place, wxyz, coordinates = integrate_configuration(
        simulator.mechanism, 1.0, direction, state.place, state.rotations.wxyz, state.coordinates
    )
    write_model_rotations(simulator.mechanism, coordinates, wxyz)
    return make_mechanics(simulator.mechanism, place, wxyz, coordinates)


def differences(f: Callable[[FloatArray], FloatArray | float], size: int, step: float = 1e-5) -> FloatArray:
    """Central differences over a direction; the last axis is that of the direction."""
    slopes = [(np.asarray(f(step * e)) - np.asarray(f(-step * e))) / (2 * step) for e in np.eye(size)]
    return np.stack(slopes, axis=-1)


def pinocchio_figure(body: Body) -> tuple[pin.Model, list[int]]:
    """The body as a free root with balls for joints, depth first as Pinocchio needs it; and the numbers it gives."""
    model = pin.Model()
    model.gravity.linear = np.zeros(3)
    numbers = [0] * body.skeleton.num_joints
    waiting = [0]
    while waiting:
        j = waiting.pop()
        parent = body.skeleton.parents[j]
        kind = pin.JointModelFreeFlyer() if parent < 0 else pin.JointModelSpherical()
        place = pin.SE3(np.eye(3), np.zeros(3) if parent < 0 else body.skeleton.offsets[j])
        numbers[j] = model.addJoint(0 if parent < 0 else numbers[parent], kind, place, body.skeleton.names[j])
        inertia = pin.Inertia(float(body.masses[j]), body.centres[j], body.inertias[j])
        model.appendBodyToJoint(numbers[j], inertia, pin.SE3.Identity())
        waiting.extend(int(child) for child in np.flatnonzero(body.skeleton.parents == j))
    return model, numbers


def pinocchio_configuration(model: pin.Model, numbers: list[int], pose: Pose) -> FloatArray:
    q = np.zeros(model.nq)
    q[:3] = pose.root_position
    for j, number in enumerate(numbers):
        w, x, y, z = pose.rotations.wxyz[j]
        first = 3 if j == 0 else model.idx_qs[number]
        q[first : first + 4] = x, y, z, w
    return q


def pinocchio_columns(model: pin.Model, numbers: list[int], here: Mechanics) -> FloatArray:
    """S with v_pinocchio = S v: Pinocchio has linear before angular, both in the pelvis' frame."""
    S = np.zeros((model.nv, here.inertia.shape[0]))
    back = here.frames[0].T
    S[:3], S[3:6] = back @ here.linear[0], back @ here.angular[0]
    for j, number in enumerate(numbers[1:], 1):
        first = model.idx_vs[number]
        S[first : first + 3, 6:] = here.turns[j]
    return S


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_tournier_42_the_inertia_is_that_of_pinocchio(moving, body, name, root):
    simulator = moving(name, root)
    here = simulator.mechanics()
    model, numbers = pinocchio_figure(body)
    data = model.createData()
    full = pin.crba(model, data, pinocchio_configuration(model, numbers, simulator.state.pose))
    full = np.triu(full) + np.triu(full, 1).T
    S = pinocchio_columns(model, numbers, here)
    added = np.diag(np.concatenate([np.zeros(6), simulator.mechanism.armature]))
    np.testing.assert_allclose(here.inertia, S.T @ full @ S + added, rtol=0, atol=1e-10 * np.abs(here.inertia).max())
    np.testing.assert_array_equal(here.inertia, here.inertia.T)
    assert np.linalg.eigvalsh(here.inertia)[0] > 0.0


@pytest.mark.mocap
@pytest.mark.parametrize("root", ROOTS)
def test_tournier_42_the_inertia_of_the_fixture_is_that_of_pinocchio(d1_body, d1_model, d1_walk, root):
    simulator = Simulator(d1_body, d1_model, root=root)
    simulator.reset(d1_walk[100])
    here = simulator.mechanics()
    model, numbers = pinocchio_figure(d1_body)
    full = pin.crba(model, model.createData(), pinocchio_configuration(model, numbers, simulator.state.pose))
    full = np.triu(full) + np.triu(full, 1).T
    S = pinocchio_columns(model, numbers, here)
    np.testing.assert_allclose(here.inertia, S.T @ full @ S, rtol=0, atol=1e-10 * np.abs(here.inertia).max())


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_tournier_42_kinetic_energy_is_that_of_the_segments(moving, body, name, root):
    simulator = moving(name, root)
    here, v = simulator.mechanics(), simulator.state.velocity
    total = 0.0
    for j in range(body.skeleton.num_joints):
        omega, arm = here.angular[j] @ v, here.centres[j] - here.joints[j]
        speed = here.linear[j] @ v + np.cross(omega, arm)
        local = here.frames[j].T @ omega
        total += 0.5 * body.masses[j] * speed @ speed + 0.5 * local @ body.inertias[j] @ local
    total += 0.5 * simulator.mechanism.armature @ v[6:] ** 2
    assert simulator.state.kinetic_j == pytest.approx(total, rel=1e-12)


def test_the_energy_of_a_captured_motion_is_that_of_the_dynamics_room(walk, body):
    here = Simulator(body, gravity=(0, 0, 0))
    rate, f = walk.rate_hz, 20
    middle = Motion(walk.skeleton, rate, walk.root_positions[f - 1 : f + 2], walk.rotations[f - 1 : f + 2])
    joints = here.mechanism.joints
    v = np.zeros(here.num_dof)
    before, after = walk[f - 1].rotations, walk[f + 1].rotations
    turn = (before.inverse() @ after).log() * rate / 2
    v[:3] = turn[0]
    v[6:] = turn[joints].ravel()
    pelvis = Simulator(body, root="pelvis", gravity=(0, 0, 0))
    v[3:6] = (walk.root_positions[f + 1] - walk.root_positions[f - 1]) * rate / 2
    pelvis.reset(walk[f], velocity=v)
    free = pelvis.state.kinetic_j - 0.5 * pelvis.mechanism.armature @ v[6:] ** 2
    assert free == pytest.approx(float(solve_inverse_dynamics(body, middle).kinetic_energy[1]), rel=0.05)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_columns_are_the_slopes_of_places(moving, name, root):
    simulator = moving(name, root)
    here, size = simulator.mechanics(), simulator.num_dof
    places = differences(lambda e: shifted(simulator, e).joints, size)
    np.testing.assert_allclose(here.linear, places, atol=1e-8)
    com = differences(lambda e: shifted(simulator, e).com, size)
    np.testing.assert_allclose(here.com_jacobian, com, atol=1e-8)
    tip = np.array([0.1, -0.2, 0.05])
    last = len(here.joints) - 1
    points = differences(lambda e: shifted(simulator, e).point(last, tip), size)
    np.testing.assert_allclose(here.point_jacobian(last, tip), points, atol=1e-8)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_tournier_43_own_forces_are_the_slopes_of_the_energy(moving, name, root):
    simulator = moving(name, root)
    state, here = simulator.state, simulator.mechanics()
    v = state.velocity
    own = compute_quadratic_forces(here, state.coordinates, v)
    slopes = differences(lambda e: 0.5 * float(v @ shifted(simulator, e).inertia @ v), simulator.num_dof)
    np.testing.assert_allclose(own, slopes, rtol=0, atol=1e-6 * np.abs(slopes).max())
    assert np.all(own[3:6] == 0.0)
    if root == "com":
        np.testing.assert_allclose(own[:3], 0.0, atol=1e-10 * np.abs(own).max())


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_tournier_43_bias_is_that_of_pinocchio(moving, body, name, root):
    """Euler and Lagrange, left-trivialised: M a = ad*_v p - (dM/dt) v + own; Pinocchio: -S'(rnea(q, Sv, (dS/dt) v))."""
    simulator = moving(name, root)
    state, here, h = simulator.state, simulator.mechanics(), 1e-5
    v = state.velocity
    model, numbers = pinocchio_figure(body)
    ahead, back = shifted(simulator, h * v), shifted(simulator, -h * v)
    S = pinocchio_columns(model, numbers, here)
    S_rate = (pinocchio_columns(model, numbers, ahead) - pinocchio_columns(model, numbers, back)) / (2 * h)
    q = pinocchio_configuration(model, numbers, state.pose)
    theirs = -S.T @ pin.rnea(model, model.createData(), q, S @ v, S_rate @ v)
    p = here.inertia @ v
    ours = compute_quadratic_forces(here, state.coordinates, v) - (ahead.inertia - back.inertia) @ v / (2 * h)
    for i in (0, *range(6, simulator.num_dof, 3)) if name == "full space" else (0,):
        armature = np.zeros(3) if i == 0 else simulator.mechanism.armature[i - 6 : i - 3]
        ours[i : i + 3] += np.cross(p[i : i + 3] - armature * v[i : i + 3], v[i : i + 3])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * np.abs(theirs).max())


@pytest.mark.parametrize("name", SETTINGS)
def test_own_forces_are_quadratic_in_the_velocity(moving, name):
    simulator = moving(name, "com")
    state, here = simulator.state, simulator.mechanics()
    one = compute_quadratic_forces(here, state.coordinates, state.velocity)
    threefold = compute_quadratic_forces(here, state.coordinates, -3.0 * state.velocity)
    np.testing.assert_allclose(threefold, 9.0 * one, atol=1e-10)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_tournier_67_momenta_are_the_sums_over_segments(moving, body, name, root):
    simulator = moving(name, root)
    here, v = simulator.mechanics(), simulator.state.velocity
    angular, linear = np.zeros(3), np.zeros(3)
    for j in range(body.skeleton.num_joints):
        omega = here.angular[j] @ v
        speed = here.linear[j] @ v + np.cross(omega, here.centres[j] - here.joints[j])
        angular += here.frames[j] @ body.inertias[j] @ here.frames[j].T @ omega
        angular += body.masses[j] * np.cross(here.centres[j] - here.com, speed)
        linear += body.masses[j] * speed
    np.testing.assert_allclose(here.momentum_matrix() @ v, [*angular, *linear], atol=1e-10)
    np.testing.assert_allclose(linear, body.mass_kg * here.com_jacobian @ v, atol=1e-10)


def test_the_centre_of_mass_root_makes_the_inertia_blind_to_the_root(moving):
    simulator = moving("first kind", "com")
    here = simulator.mechanics()
    turned = shifted(simulator, np.concatenate([[0.7, -1.1, 0.4, 1.0, 2.0, 3.0], np.zeros(simulator.num_dof - 6)]))
    np.testing.assert_allclose(turned.inertia, here.inertia, atol=1e-12)
    np.testing.assert_allclose(here.inertia[3:6, :3], 0.0, atol=1e-13)
    np.testing.assert_allclose(here.inertia[3:6, 6:], 0.0, atol=1e-13)


def test_coordinates_that_move_no_mass_get_some_inertia_and_a_warning(walk):
    body = Body.from_motion(walk)
    heavy = np.zeros(body.skeleton.num_joints)
    heavy[0] = 70.0
    inertias = np.zeros_like(body.inertias)
    inertias[0] = np.eye(3)
    stone = Body(body.skeleton, heavy, body.centres, inertias, height_m=1.7)
    model = PGA(n_components=3).fit(walk)
    with pytest.warns(MareyWarning, match="move no mass"):
        simulator = Simulator(stone, model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            simulator.step(0.01)
    np.testing.assert_allclose(simulator.state.velocity[4], -GRAVITY * 0.1, rtol=1e-12)


def test_a_body_without_mass_is_refused(walk):
    skeleton = walk.skeleton
    count = skeleton.num_joints
    with pytest.raises(InputError, match="mass"):
        Simulator(Body(skeleton, np.zeros(count), np.zeros((count, 3)), np.zeros((count, 3, 3)), height_m=1.7))


def test_unknown_roots_and_models_of_other_skeletons_are_refused(walk, body):
    with pytest.raises(UnknownNameError, match="Did you mean 'pelvis'"):
        Simulator(body, root="pelvi")  # pyright: ignore[reportArgumentType]
    two = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    swing = Motion(two, 60.0, np.zeros((9, 3)), SO3.exp(np.linspace(0.0, 1.0, 54).reshape(9, 2, 3)))
    with pytest.raises(InputError, match="their joints differ"):
        Simulator(body, PGA(n_components=1).fit(swing))


def test_a_single_body_turns_as_one(walk):
    skeleton = walk.skeleton
    body = Body.from_motion(walk)
    model = PGA(n_components=0).fit(walk)
    simulator = Simulator(body, model, gravity=(0, 0, 0))
    assert simulator.num_dof == 6
    here = simulator.mechanics()
    whole = sum(
        here.frames[j] @ body.inertias[j] @ here.frames[j].T
        + body.masses[j] * ((d := here.centres[j] - here.com) @ d * np.eye(3) - np.outer(d, d))
        for j in range(skeleton.num_joints)
    )
    np.testing.assert_allclose(here.inertia[:3, :3], here.frames[0].T @ whole @ here.frames[0], atol=1e-11)
    assert isinstance(simulator.state.rotations, SO3)
