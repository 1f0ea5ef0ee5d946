"""Damping: what it adds to the inertia, and that it takes energy and no momentum."""

from __future__ import annotations

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.dynamics import Body
from marey.models import PGA
from marey.simulate import PointForce, SimulationLog, Simulator, momentum_scenario
from marey.simulate.integrator import DAMPINGS, add_damping

H = 0.01


@pytest.fixture(scope="module")
def figure():
    walk = samples.walk()
    return Body.from_motion(walk), PGA(n_components=6).fit(walk), walk


def added(figure, damping: str, rate: float, model: bool = True):
    body, pose_model, walk = figure
    simulator = Simulator(body, pose_model if model else None, damping=damping, damping_rate=rate)  # pyright: ignore[reportArgumentType]
    simulator.reset(walk[20])
    system = simulator.system(H)
    return system.damped - system.mechanics.inertia, system.mechanics


@pytest.mark.parametrize("model", [True, False])
def test_tournier_49_energetic_damping_changes_only_the_diagonal_inside(figure, model):
    change, here = added(figure, "energetic", 3.0, model)
    expected = np.zeros_like(change)
    inside = np.arange(6, len(change))
    expected[inside, inside] = 3.0 * H * np.diag(here.inertia)[6:]
    np.testing.assert_allclose(change, expected, rtol=1e-9, atol=1e-12)


def test_uniform_damping_adds_the_same_everywhere(figure):
    change, _ = added(figure, "uniform", 5.0)
    np.testing.assert_allclose(change, 5.0 * H * np.eye(len(change)), atol=1e-12)


def test_kinematic_damping_adds_the_squared_speeds_of_the_ends(figure):
    body, _, _ = figure
    change, here = added(figure, "kinematic", 2.0)
    skeleton = body.skeleton
    ends = [j for j in range(skeleton.num_joints) if j not in skeleton.parents]
    squares = sum((here.point_jacobian(j, skeleton.tips[j]) ** 2).sum(axis=0) for j in ends)
    expected = np.zeros(len(change))
    expected[6:] = 2.0 * H * np.asarray(squares)[6:]
    np.testing.assert_allclose(np.diag(change), expected, rtol=1e-9, atol=1e-12)
    assert np.abs(change - np.diag(np.diag(change))).max() == 0.0


@pytest.mark.parametrize("damping", range(len(DAMPINGS)))
def test_tournier_49_no_rate_is_no_damping_to_the_last_bit(figure, damping):
    _, here = added(figure, "none", 1.0)
    assert np.array_equal(add_damping(here, damping, 0.0), here.inertia)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_tournier_49_a_run_without_rate_is_the_undamped_run_to_the_last_bit(figure, damping):
    body, model, walk = figure
    ends = []
    for name, rate in ((damping, 0.0), ("none", 1.0)):
        simulator = Simulator(body, model, damping=name, damping_rate=rate)
        simulator.reset(walk[3])
        for _ in range(20):
            simulator.step(H, [PointForce("right_wrist", (0.0, 0.0, 30.0))])
        ends.append(simulator.state.velocity.tobytes() + simulator.state.rotations.wxyz.tobytes())
    assert ends[0] == ends[1]


def flight(body: Body, model, damping: str, rate: float, dt: float = H, steps: int = 500) -> SimulationLog:
    logs = momentum_scenario(
        body,
        model,
        dt=dt,
        steps=steps,
        integrators=("constant",),
        damping=damping,  # pyright: ignore[reportArgumentType]
        damping_rate=rate,
    )
    return logs["constant"]


@pytest.mark.mocap
def test_tournier_49_energy_only_falls_under_energetic_damping(d1_body, d1_model):
    log = flight(d1_body, d1_model, "energetic", 1.0)
    assert (np.diff(log.kinetic_j) <= 0.0).all()
    assert log.angular_drift <= 1e-10


@pytest.mark.parametrize(("damping", "rate"), [("energetic", 2.0), ("kinematic", 2.0)])
def test_adaptive_damping_takes_energy_and_no_momentum(figure, damping, rate):
    body, model, _ = figure
    free, damped = flight(body, model, "none", 1.0, steps=200), flight(body, model, damping, rate, steps=200)
    assert damped.kinetic_j[-1] < 0.99 * free.kinetic_j[-1]
    assert damped.angular_drift <= 1e-10
    assert damped.linear_drift <= 1e-12


def test_uniform_damping_takes_momentum_too(figure):
    body, model, _ = figure
    log = flight(body, model, "uniform", 1.0, steps=200)
    assert log.angular_drift > 0.01
    assert log.linear_drift > 0.01


def test_energetic_damping_that_is_strong_leaves_a_rigid_body(figure):
    body, model, _ = figure
    simulator = Simulator(body, model, damping="energetic", damping_rate=1e9, gravity=(0, 0, 0))
    simulator.step(H, [PointForce("right_wrist", (0.0, 0.0, 200.0))])
    assert np.abs(simulator.state.velocity[6:]).max() < 1e-6
    assert np.abs(simulator.state.velocity[:3]).max() > 1e-3


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf"), "much", None])
def test_a_rate_that_is_none_is_refused(figure, rate):
    body, model, _ = figure
    with pytest.raises(InputError, match="damping rate"):
        Simulator(body, model, damping="energetic", damping_rate=rate)


def test_an_unknown_damping_is_refused_with_a_hint(figure):
    body, model, _ = figure
    with pytest.raises(UnknownNameError, match="Did you mean 'energetic'"):
        Simulator(body, model, damping="energetics")  # pyright: ignore[reportArgumentType]
