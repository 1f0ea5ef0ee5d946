"""Steps of time: what each integrator keeps, how fast it converges, and what is done where it runs away."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.momentum_map import conserved_momentum
from oracles.stiff_walk import make_stiff_walk

from marey.base import ConvergenceError, FloatArray, InputError
from marey.dynamics import GRAVITY, Body
from marey.lie import SO3, hat
from marey.models import PGA
from marey.motion import Motion
from marey.simulate import Monitor, PointForce, SimulationLog, Simulator, StabilitySettings
from marey.simulate.bounded_qp import solve_symmetric
from marey.simulate.integrator import DEFAULT_STABILITY, INTEGRATORS
from marey.simulate.mechanics import left_jacobian_inverse_times
from marey.skeleton import Pose, Skeleton

EXPLICIT = INTEGRATORS[:3]


@pytest.fixture(scope="module")
def walk() -> Motion:
    return make_stiff_walk()


@pytest.fixture(scope="module")
def body(walk: Motion) -> Body:
    return Body.from_motion(walk)


def struck(simulator: Simulator, *, impulse_ns: float = 2.0, h: float = 0.1, steps: int = 50) -> SimulationLog:
    """Fixture D1: a strike on the right hand along +Z in the first step, then free flight."""
    monitor = Monitor(simulator)
    for n in range(steps):
        simulator.step(h, [PointForce("RightHand", (0.0, 0.0, impulse_ns / h))] if n == 0 else ())
        monitor.record()
    return monitor.log()


def left_jacobian(xi: FloatArray) -> FloatArray:
    theta, turn = np.linalg.norm(xi), hat(xi)
    return np.eye(3) + (1 - np.cos(theta)) / theta**2 * turn + (theta - np.sin(theta)) / theta**3 * turn @ turn


@pytest.mark.parametrize("angle", [1e-3, 0.0099, 0.0101, 0.3, 2.0, 3.1])
def test_the_inverse_of_the_left_jacobian_keeps_its_digits(angle):
    rng = np.random.default_rng(5)
    xi = rng.normal(size=3)
    xi *= angle / np.linalg.norm(xi)
    vector = rng.normal(size=3)
    found = left_jacobian_inverse_times(*xi, *vector)
    np.testing.assert_allclose(left_jacobian(xi) @ np.array(found), vector, rtol=0, atol=1e-9 if angle < 0.1 else 1e-13)


def test_the_solver_is_that_of_numpy_and_knows_what_it_cannot_solve():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(30, 12))
    matrix, rhs = rows.T @ rows, rng.normal(size=12)
    found, is_definite = solve_symmetric(matrix, rhs)
    assert is_definite
    np.testing.assert_allclose(found, np.linalg.solve(matrix, rhs), rtol=1e-10)
    for bad in (matrix - 20.0 * np.eye(12), rows[:5].T @ rows[:5], np.full((12, 12), np.nan)):
        assert not solve_symmetric(bad, rhs)[1]


def test_tournier_44_a_free_rigid_body_keeps_its_angular_momentum_over_ten_thousand_steps(walk, body):
    simulator = Simulator(body, PGA(n_components=0).fit(walk), gravity=(0, 0, 0))
    simulator.reset(velocity=[0.3, 1.0, -0.7, 0.1, 0.2, 0.3])
    here = simulator.mechanics()
    first = here.momentum_matrix() @ simulator.state.velocity
    for _ in range(10_000):
        simulator.step(0.1)
    system = simulator.steps_made[-1].system
    assert system is not None
    last = system.mechanics.momentum_matrix() @ simulator.state.velocity
    np.testing.assert_allclose(last, first, rtol=0, atol=1e-10 * np.linalg.norm(first))
    assert np.abs(np.linalg.norm(simulator.state.rotations.wxyz, axis=1) - 1.0).max() < 1e-14


@pytest.mark.mocap
def test_tournier_45_angular_momentum_drifts_less_from_naive_to_identity_to_constant(d1_body, d1_model):
    for root in ("pelvis", "com"):
        drifts: list[float] = []
        for integrator in EXPLICIT:
            simulator = Simulator(d1_body, d1_model, integrator=integrator, root=root, gravity=(0, 0, 0))
            log = struck(simulator)
            assert log.linear_drift <= 1e-12
            drifts.append(log.angular_drift)
        naive, identity, constant = drifts
        assert naive >= 1.5 * identity >= 1.5**2 * constant
        assert constant <= (1e-10 if root == "com" else 0.10)


@pytest.mark.mocap
def test_the_constant_integrator_keeps_angular_momentum_over_five_hundred_steps(d1_body, d1_model):
    log = struck(Simulator(d1_body, d1_model, gravity=(0, 0, 0)), steps=500)
    assert log.angular_drift <= 1e-10
    assert log.linear_drift <= 1e-12


@pytest.mark.mocap
def test_tournier_46_short_steps_keep_energy_and_nearly_all_momentum(d1_body, d1_model):
    log = struck(Simulator(d1_body, d1_model, root="pelvis", gravity=(0, 0, 0)), h=0.01, steps=500)
    assert log.angular_drift <= 0.01
    assert np.abs(log.kinetic_j / log.kinetic_j[0] - 1.0).max() <= 0.05


@pytest.mark.mocap
@pytest.mark.parametrize("root", ["com", "pelvis"])
def test_tournier_47_the_variational_integrator_keeps_its_momentum_map_and_its_energy(d1_body, d1_model, root):
    simulator = Simulator(d1_body, d1_model, integrator="variational", root=root, gravity=(0, 0, 0))
    maps, energies = [], []
    for n in range(500):
        simulator.step(0.1, [PointForce("RightHand", (0.0, 0.0, 20.0))] if n == 0 else ())
        assert len(simulator.steps_made) == 1
        system = simulator.steps_made[0].system
        assert system is not None
        maps.append(conserved_momentum(system, simulator.state))
        energies.append(simulator.state.kinetic_j)
    kept = np.array(maps[1:])
    assert np.abs(kept - kept[0]).max() <= 1e-8 * np.linalg.norm(kept[0])
    energy = np.array(energies) / energies[0]
    assert np.abs(energy[:50] - 1.0).max() <= 0.03
    slope = np.polyfit(np.arange(500), energy, 1)[0]
    assert abs(slope) * 500 <= 0.03


def flown(body: Body, walk: Motion, **options: object) -> FloatArray:
    """Places of the joints after a fifth of a second of free flight."""
    count = int(options.pop("steps", 32))  # pyright: ignore[reportArgumentType]
    simulator = Simulator(body, PGA(n_components=6).fit(walk), gravity=(0, 0, 0), **options)  # pyright: ignore[reportArgumentType]
    velocity = np.random.default_rng(1).standard_normal(simulator.num_dof)
    simulator.reset(walk[10], velocity=velocity)
    for _ in range(count):
        simulator.step(0.2 / count)
    return simulator.state.pose.joint_positions()


def test_tournier_47_constant_and_variational_converge_with_the_step_and_naive_and_identity_do_not(walk, body):
    exact = flown(body, walk, integrator="variational", steps=256)
    orders: dict[str, float] = {}
    for integrator in INTEGRATORS:
        coarse, fine = (np.abs(flown(body, walk, integrator=integrator, steps=n) - exact).max() for n in (8, 32))
        orders[integrator] = np.log2(coarse / fine) / 2
    assert orders["variational"] >= 0.95
    assert orders["constant"] >= 0.95
    assert orders["identity"] < 0.5
    assert orders["naive"] < 0.5


def test_implicit_passes_keep_more_energy_than_none(walk, body):
    errors: list[float] = []
    for passes in (0, 1, 2):
        simulator = Simulator(body, PGA(n_components=6).fit(walk), implicit_passes=passes, gravity=(0, 0, 0))
        simulator.reset(walk[10], velocity=1.5 * np.random.default_rng(3).standard_normal(simulator.num_dof))
        start = simulator.state.kinetic_j
        for _ in range(40):
            simulator.step(0.02)
        errors.append(abs(simulator.state.kinetic_j / start - 1.0))
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[0]


@pytest.mark.mocap
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("impulse_ns", [10.0, 100.0])
def test_tournier_48_a_hard_strike_is_cut_into_smaller_steps_and_never_ends_in_nan(
    d1_body, d1_model, integrator, impulse_ns
):
    simulator = Simulator(d1_body, d1_model, integrator=integrator, gravity=(0, 0, 0))
    log = struck(simulator, impulse_ns=impulse_ns)
    assert log.substeps.max() > 1
    assert np.isfinite(log.kinetic_j).all()
    assert log.kinetic_j.max() <= 5.0 * log.kinetic_j[0]
    if integrator == "constant":
        assert log.angular_drift <= 1e-10


@pytest.mark.mocap
def test_tournier_48_an_absurd_strike_ends_in_an_error_with_the_last_good_state(d1_body, d1_model):
    simulator = Simulator(d1_body, d1_model, gravity=(0, 0, 0))
    with pytest.raises(ConvergenceError, match="unstable at") as caught:
        struck(simulator, impulse_ns=1e9)
    assert np.isfinite(simulator.state.velocity).all()
    assert np.isfinite(caught.value.report.velocity).all()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    assert len(simulator.steps_made) <= 2**DEFAULT_STABILITY.max_halvings


@pytest.mark.mocap
def test_tournier_48_energetic_damping_calms_a_hard_strike(d1_body, d1_model):
    simulator = Simulator(d1_body, d1_model, damping="energetic", damping_rate=1.0, gravity=(0, 0, 0))
    log = struck(simulator, impulse_ns=10.0)
    assert (np.diff(log.kinetic_j) <= 1e-12).all()
    assert log.angular_drift <= 1e-10
    assert log.substeps.max() == 1


@pytest.mark.parametrize("root", ["com", "pelvis"])
@pytest.mark.parametrize("model", [True, False])
def test_tournier_50_the_centre_of_mass_falls_freely_whatever_moves_inside(walk, body, root, model):
    pose_model = PGA(n_components=6).fit(walk) if model else None
    simulator = Simulator(body, pose_model, root=root)
    simulator.reset(walk[5], velocity=0.5 * np.random.default_rng(4).standard_normal(simulator.num_dof))
    h = 0.005
    before = None
    for _ in range(30):
        simulator.step(h)
        assert len(simulator.steps_made) == 1
        system = simulator.steps_made[0].system
        assert system is not None
        speed = (system.mechanics.momentum_matrix() @ simulator.state.velocity)[3:] / body.mass_kg
        if before is not None:
            np.testing.assert_allclose((speed - before) / h, (0.0, -GRAVITY, 0.0), rtol=0, atol=1e-9)
        before = speed


def test_steps_of_changing_length_keep_angular_momentum(walk, body):
    rng = np.random.default_rng(8)
    simulator = Simulator(body, PGA(n_components=6).fit(walk), gravity=(0, 0, 0))
    simulator.reset(walk[5], velocity=rng.standard_normal(simulator.num_dof))
    first = simulator.mechanics().momentum_matrix() @ simulator.state.velocity
    for _ in range(60):
        simulator.step(float(rng.uniform(0.001, 0.05)))
    system = simulator.steps_made[-1].system
    assert system is not None
    last = system.mechanics.momentum_matrix() @ simulator.state.velocity
    np.testing.assert_allclose(last, first, atol=1e-10)


def test_the_full_space_keeps_angular_momentum_too(walk, body):
    simulator = Simulator(body, gravity=(0, 0, 0))
    simulator.reset(walk[5], velocity=0.5 * np.random.default_rng(9).standard_normal(simulator.num_dof))
    first = simulator.mechanics().momentum_matrix() @ simulator.state.velocity
    for _ in range(100):
        simulator.step(0.005)
    system = simulator.steps_made[-1].system
    assert system is not None
    last = system.mechanics.momentum_matrix() @ simulator.state.velocity
    np.testing.assert_allclose(last, first, atol=1e-10)


def test_a_rod_on_a_heavy_root_swings_with_the_period_of_a_pendulum():
    skeleton = Skeleton(("base", "rod"), np.array([-1, 0]), np.zeros((2, 3)))
    inertias = np.array([1e6 * np.eye(3), 1e-3 * np.eye(3)])
    body = Body(skeleton, [1e6, 1.0], [[0.0, 0.0, 0.0], [0.0, -1.0, 0.0]], inertias, height_m=1.0)  # pyright: ignore[reportArgumentType]
    simulator = Simulator(body, root="pelvis", gravity=(0, 0, 0))
    angle, h = 0.05, 1e-3
    simulator.reset(Pose(skeleton, np.zeros(3), SO3.exp([[0.0, 0.0, 0.0], [angle, 0.0, 0.0]])))
    period = 2 * np.pi * np.sqrt(1.001 / GRAVITY) * (1 + angle**2 / 16)
    for _ in range(round(period / h)):
        simulator.step(h, [PointForce("rod", (0.0, -GRAVITY, 0.0), (0.0, -1.0, 0.0))])
    np.testing.assert_allclose(simulator.state.rotations.log()[1], (angle, 0.0, 0.0), atol=2e-3 * angle)


@pytest.mark.parametrize("bad", [{"max_halvings": -1}, {"max_gain": 0.0}, {"extra_dampings": (0.1, float("nan"))}])
def test_settings_of_stability_are_checked(bad):
    with pytest.raises(InputError):
        StabilitySettings(**bad)
