"""Puppet: between free simulation and inverse kinematics."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.control import Drive, Gains, Puppet, SupportTask
from marey.dynamics import Body
from marey.kinematics import PointTask, PoseTask
from marey.models import PoseModel
from marey.simulate import PointForce, Simulator

STEP_S = 0.01


def _reach(simulator: Simulator, offset: tuple[float, float, float], gains: Gains | None = None) -> Drive:
    hand = simulator.body.skeleton.index("LeftHand")
    return Drive(PointTask("LeftHand", simulator.mechanics().joints[hand] + offset), gains)


@pytest.mark.mocap
def test_tournier_60_alpha_zero_is_pure_simulation(make_standing) -> None:
    free, pulled = make_standing(), make_standing()
    puppet = Puppet(pulled, [_reach(pulled, (0.1, 0.1, 0.1))], alpha=0.0)
    push = [PointForce("Spine1", (30.0, 0.0, 10.0))]
    for _ in range(30):
        free.step(STEP_S, push)
        puppet.step(STEP_S, push)
    np.testing.assert_allclose(pulled.state.velocity, free.state.velocity, rtol=0, atol=1e-10)
    np.testing.assert_allclose(pulled.state.coordinates, free.state.coordinates, rtol=0, atol=1e-10)
    assert not puppet.report.external_force.any()


@pytest.mark.mocap
def test_tournier_60_alpha_one_is_the_step_of_gauss_and_newton(d1_body: Body, c1_model: PoseModel) -> None:
    simulator = Simulator(d1_body, c1_model)
    drive = _reach(simulator, (0.02, 0.05, -0.03), Gains(1.0 / STEP_S, 0.0, np.inf))
    here, hand = simulator.mechanics(), simulator.body.skeleton.index("LeftHand")
    J, M = here.point_jacobian(hand), here.inertia
    wanted = drive.task.goal - here.joints[hand]
    across = np.linalg.solve(M, J.T)  # of all steps that reach the target, the one of least kinetic energy
    step = across @ np.linalg.solve(J @ across, wanted)
    Puppet(simulator, [drive], alpha=1.0).step(STEP_S)
    np.testing.assert_allclose(simulator.state.velocity * STEP_S, step, rtol=0, atol=1e-6 * np.abs(step).max())


@pytest.mark.mocap
def test_tournier_60_tasks_are_met_the_better_the_larger_alpha(make_standing) -> None:
    errors = []
    for alpha in np.linspace(0.0, 1.0, 11):
        simulator = make_standing()
        drive = _reach(simulator, (0.03, 0.05, 0.05))
        puppet = Puppet(simulator, [drive], alpha=float(alpha))
        hand = simulator.body.skeleton.index("LeftHand")
        puppet.step(STEP_S)
        errors.append(np.linalg.norm(simulator.mechanics().joints[hand] - drive.task.goal))
    assert (np.diff(errors) <= 1e-9).all()
    assert errors[-1] < 0.85 * errors[0]


@pytest.mark.mocap
def test_the_force_from_outside_accounts_for_the_motion(d1_body: Body, c1_model: PoseModel) -> None:
    """Newton's law for the whole figure: its momentum changes by its weight and by what pulls."""
    simulator = Simulator(d1_body, c1_model)
    puppet = Puppet(simulator, [_reach(simulator, (0.1, 0.2, 0.1))], alpha=0.4)
    for _ in range(5):
        before = simulator.mechanics().momentum_matrix()[3:] @ simulator.state.velocity
        puppet.step(STEP_S)
        after = d1_body.mass_kg * simulator.state.velocity[3:6]
        change = (after - before) / STEP_S - d1_body.mass_kg * simulator.gravity
        np.testing.assert_allclose(puppet.report.force_n, change, rtol=0, atol=1e-9 * np.abs(change).max())


@pytest.mark.mocap
def test_a_puppet_on_its_feet_follows_a_hand_and_stays_above_the_ground(make_standing) -> None:
    simulator = make_standing()
    drive = _reach(simulator, (0.05, 0.15, 0.15))
    hand = Drive(PointTask("LeftHand", drive.task.goal, weight=100.0))
    goals = [hand, SupportTask(), PoseTask(simulator.state.pose, weight=0.05)]
    puppet = Puppet(simulator, goals, alpha=0.6)
    for _ in range(100):
        puppet.step(STEP_S)
    assert puppet.report.errors[0] < 0.1 * np.linalg.norm((0.05, 0.15, 0.15))
    assert puppet.report.contacts is not None
    assert puppet.report.contacts.gaps.min() > -2e-3
    assert np.isfinite(puppet.report.external_force).all()


@pytest.mark.mocap
def test_an_infeasible_goal_is_tolerated(make_standing) -> None:
    simulator = make_standing()
    puppet = Puppet(simulator, [_reach(simulator, (0.0, 10.0, 0.0), Gains(2.0, 0.0))], alpha=0.3)
    for _ in range(30):
        state = puppet.step(STEP_S)
    assert np.isfinite(state.velocity).all()


@pytest.mark.mocap
def test_tournier_73_wrong_sliders_are_refused(d1_body: Body, c1_model: PoseModel) -> None:
    simulator = Simulator(d1_body, c1_model)
    for alpha in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="alpha"):
            Puppet(simulator, alpha=alpha)
    puppet = Puppet(simulator)
    with pytest.raises(InputError):
        puppet.step(0.0)
    with pytest.raises(InputError):
        puppet.step(STEP_S, tasks=["stand"])  # pyright: ignore[reportArgumentType]  # on purpose
    state = Puppet(simulator, alpha=1.0).step(STEP_S)  # nothing is asked for: the figure stays as it is
    assert np.abs(state.velocity).max() < 1e-12
