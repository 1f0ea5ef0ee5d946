"""The simulator as a user meets it: resets, forces, systems for controllers, refusals."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marey import samples
from marey.base import ConvergenceError, InputError, MareyError, UnknownNameError
from marey.dynamics import GRAVITY, Body
from marey.lie import SO3
from marey.models import PGA
from marey.simulate import Ball, Ground, PointForce, Simulator, State
from marey.simulate.integrator import DAMPINGS, INTEGRATORS
from marey.skeleton import Pose, Skeleton, t_pose

WALK = samples.walk()
BODY = Body.from_motion(WALK)
MODEL = PGA(n_components=6).fit(WALK)


def test_the_public_names_are_those_that_others_rely_on():
    names = list(inspect.signature(Simulator).parameters)
    assert names[:2] == ["body", "model"]
    assert {"integrator", "damping", "damping_rate", "ground", "limits", "constraints"} <= set(names)
    assert list(inspect.signature(Simulator.step).parameters)[:3] == ["self", "dt", "forces"]


def test_a_figure_starts_in_the_mean_of_its_model_at_rest():
    simulator = Simulator(BODY, MODEL)
    np.testing.assert_allclose(simulator.state.coordinates, 0.0, atol=1e-12)
    assert simulator.state.kinetic_j == 0.0
    assert simulator.state.time_s == 0.0
    assert simulator.contacts is None
    assert "6 degrees" not in repr(simulator.state)
    assert "12 degrees of freedom" in repr(simulator.state)


def test_a_ragdoll_starts_in_the_t_pose():
    state = Simulator(BODY).state
    np.testing.assert_allclose(state.pose.joint_positions(), t_pose(BODY.skeleton).joint_positions(), atol=1e-12)
    assert state.coordinates.size == 0


@pytest.mark.parametrize("root", ["com", "pelvis"])
def test_a_reset_puts_the_pelvis_where_the_pose_has_it(root):
    simulator = Simulator(BODY, root=root)
    state = simulator.reset(WALK[30])
    np.testing.assert_allclose(state.pose.joint_positions(), WALK[30].joint_positions(), atol=1e-12)
    com = BODY.centre_of_mass(WALK)[30]
    np.testing.assert_allclose(simulator.mechanics().com, com, atol=1e-12)
    np.testing.assert_allclose(state.place, com if root == "com" else WALK[30].root_position, atol=1e-12)


def test_a_reset_of_a_model_takes_the_nearest_pose_that_it_has():
    simulator = Simulator(BODY, MODEL)
    state = simulator.reset(WALK[30])
    np.testing.assert_allclose(state.coordinates, MODEL.encode(WALK[30:31])[0], atol=1e-12)
    np.testing.assert_allclose(state.rotations.wxyz[0], WALK[30].rotations.wxyz[0], atol=1e-12)
    assert np.abs(state.pose.joint_positions() - WALK[30].joint_positions()).max() < 0.1


def test_the_pose_of_a_state_is_that_of_its_mechanics():
    simulator = Simulator(BODY, MODEL)
    simulator.reset(WALK[12], velocity=np.random.default_rng(0).standard_normal(simulator.num_dof))
    for _ in range(7):
        state = simulator.step(0.02)
    np.testing.assert_allclose(state.pose.joint_positions(), simulator.mechanics().joints, atol=1e-12)
    assert state.time_s == pytest.approx(0.14)
    assert state is simulator.state


def test_a_force_changes_the_momentum_by_force_times_time():
    simulator = Simulator(BODY, MODEL, gravity=(0, 0, 0))
    force, offset = np.array([3.0, -4.0, 5.0]), np.array([0.05, 0.0, 0.1])
    here = simulator.mechanics()
    wrist = BODY.skeleton.names.index("right_wrist")
    simulator.step(0.01, [PointForce("right_wrist", force, offset)])
    momentum = here.momentum_matrix() @ simulator.state.velocity
    arm = here.point(wrist, offset) - here.com
    np.testing.assert_allclose(momentum, 0.01 * np.concatenate([np.cross(arm, force), force]), atol=1e-12)


def test_forces_add_up_and_joints_have_names_or_parts():
    ends = []
    for forces in (
        [PointForce("right_wrist", (0, 0, 5.0)), PointForce("head", (1.0, 0, 0))],
        [PointForce("head", (1.0, 0, 0)), PointForce("right_wrist", (0, 0, 2.0)), PointForce("right_wrist", (0, 0, 3))],
    ):
        simulator = Simulator(BODY, MODEL)
        ends.append(simulator.step(0.01, forces).velocity)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-13)


def test_a_generalised_force_from_inside_changes_no_momentum():
    simulator = Simulator(BODY, MODEL, gravity=(0, 0, 0))
    inner = np.concatenate([np.zeros(6), np.arange(1.0, 7.0)])
    here = simulator.mechanics()
    simulator.step(0.01, generalised_force=inner)
    np.testing.assert_allclose(here.inertia @ simulator.state.velocity, 0.01 * inner, atol=1e-12)
    np.testing.assert_allclose(here.momentum_matrix() @ simulator.state.velocity, 0.0, atol=1e-12)


def test_a_controller_can_take_the_system_and_give_the_velocity_back():
    plain, driven = Simulator(BODY, MODEL), Simulator(BODY, MODEL)
    push = [PointForce("head", (10.0, 0.0, 0.0))]
    for _ in range(5):
        plain.step(0.01, push)
        system = driven.system(0.01, push)
        velocity, is_definite = system.free_velocity()
        assert is_definite
        np.testing.assert_allclose(system.damped @ velocity, system.rhs, atol=1e-9)
        driven.advance(system, velocity)
    assert np.array_equal(plain.state.velocity, driven.state.velocity)
    assert np.array_equal(plain.state.rotations.wxyz, driven.state.rotations.wxyz)
    with pytest.raises(InputError):
        driven.advance(driven.system(0.01), np.full(12, np.nan))
    with pytest.raises(ConvergenceError):
        driven.advance(driven.system(0.01), np.full(12, 1e308))


def test_tournier_71_the_same_steps_give_the_same_bytes():
    runs: list[bytes] = []
    for _ in range(2):
        simulator = Simulator(BODY, MODEL, damping="energetic", ground=Ground())
        simulator.reset(WALK[5])
        for n in range(40):
            simulator.step(0.01, [PointForce("head", (0.0, 0.0, 5.0 * n))])
        runs.append(simulator.state.velocity.tobytes() + simulator.state.rotations.wxyz.tobytes())
    assert runs[0] == runs[1]


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("damping", DAMPINGS)
def test_tournier_72_every_integrator_and_damping_falls_as_the_default_does(integrator, damping):
    ends = []
    for options in ({"integrator": integrator, "damping": damping, "damping_rate": 0.01}, {}):
        simulator = Simulator(BODY, MODEL, **options)
        simulator.reset(WALK[5], velocity=0.1 * np.random.default_rng(0).standard_normal(simulator.num_dof))
        for _ in range(20):
            simulator.step(0.005, [PointForce("left_wrist", (0.0, 10.0, 0.0))])
        ends.append(simulator.state.pose.joint_positions())
    assert 0.0 <= np.abs(ends[0] - ends[1]).max() < 0.005
    assert (np.abs(ends[0] - ends[1]).max() == 0.0) == (integrator == "constant" and damping == "none")


def test_a_step_on_the_ground_reports_its_contacts_and_holds_the_figure():
    simulator = Simulator(BODY, MODEL, damping="energetic", damping_rate=20.0, ground=Ground())
    simulator.reset(WALK[5])
    for _ in range(100):
        simulator.step(0.01)
    assert simulator.contacts is not None
    assert simulator.outcome is not None
    assert simulator.memory is simulator.outcome.memory
    assert np.asarray(simulator.contacts.impulses).sum(axis=0)[1] > 0.0
    assert simulator.state.pose.joint_positions()[:, 1].min() > -0.02


def test_a_limp_ragdoll_on_the_ground_gains_no_energy_beyond_its_fall():
    simulator = Simulator(BODY, ground=Ground())
    simulator.reset(WALK[5])
    start = simulator.mechanics().com[1]
    for _ in range(60):
        state = simulator.step(0.01)
        fallen = start - simulator.mechanics().com[1]
        assert state.kinetic_j <= 2.0 * BODY.mass_kg * GRAVITY * max(fallen, 0.01)
    assert fallen > 0.3


def test_a_ball_can_be_thrown_at_any_time():
    simulator = Simulator(BODY, MODEL, gravity=(0, 0, 0))
    simulator.step(0.01)
    spine = simulator.mechanics().joints[BODY.skeleton.names.index("spine3")]
    for _ in range(2):
        simulator.throw(Ball(spine - [0.0, 0.0, 1.0], np.array([0.0, 0.0, 10.0]), mass_kg=1.0))
        for _ in range(20):
            simulator.step(0.01)
    assert simulator.state.velocity[5] > 0.1
    assert simulator.outcome is not None
    assert len(simulator.outcome.balls) == 2


@pytest.mark.parametrize("dt", [0.0, -0.01, float("nan"), float("inf"), "0.1", None])
def test_a_step_that_is_none_is_refused(dt):
    simulator = Simulator(BODY, MODEL)
    for call in (simulator.step, simulator.system):
        with pytest.raises(InputError, match="dt is"):
            call(dt)


def test_bad_forces_are_refused_and_leave_the_state_as_it_was():
    simulator = Simulator(BODY, MODEL)
    before = simulator.state
    with pytest.raises(InputError, match="force_n"):
        PointForce("head", (0.0, float("nan"), 0.0))
    with pytest.raises(InputError, match="offset_m"):
        PointForce("head", (0.0, 1.0, 0.0), (1.0, 2.0))
    with pytest.raises(UnknownNameError, match="Did you mean 'head'"):
        simulator.step(0.01, [PointForce("heat", (0.0, 1.0, 0.0))])
    with pytest.raises(InputError, match="PointForce"):
        simulator.step(0.01, [np.zeros(3)])  # pyright: ignore[reportArgumentType]
    for force in (np.full(12, np.nan), np.zeros(3)):
        with pytest.raises(InputError, match="generalised_force"):
            simulator.step(0.01, generalised_force=force)
    assert simulator.state is before


def test_bad_settings_are_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'constant'"):
        Simulator(BODY, MODEL, integrator="constan")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="implicit_passes"):
        Simulator(BODY, MODEL, implicit_passes=-1)
    with pytest.raises(InputError, match="gravity"):
        Simulator(BODY, MODEL, gravity=(0.0, np.inf, 0.0))
    with pytest.raises(InputError, match="velocity"):
        Simulator(BODY, MODEL).reset(velocity=np.zeros(3))
    two = Skeleton(("a", "b"), np.array([-1, 0]), np.zeros((2, 3)))
    with pytest.raises(InputError, match="other joints"):
        Simulator(BODY, MODEL).reset(Pose(two, np.zeros(3), SO3.identity(2)))


def test_a_state_checks_what_it_is_given():
    state = Simulator(BODY, MODEL).state
    parts = (state.place, state.rotations, state.coordinates, state.velocity, state.momentum, state.root_position)
    assert State(BODY.skeleton, *parts).pose.root_position is state.root_position
    with pytest.raises(InputError, match="rotations"):
        State(BODY.skeleton, parts[0], SO3.identity(3), *parts[2:])
    with pytest.raises(InputError, match="time"):
        State(BODY.skeleton, *parts, time_s=float("nan"))
    with pytest.raises(ValueError, match="read-only"):
        state.velocity[0] = 1.0


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    dt=st.floats(min_value=1e-6, max_value=10.0),
    force=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=4),
    speed=st.floats(min_value=-1e6, max_value=1e6),
    integrator=st.sampled_from(INTEGRATORS),
    damping=st.sampled_from(DAMPINGS),
)
def test_tournier_73_wild_input_ends_in_a_finite_state_or_a_typed_error(dt, force, speed, integrator, damping):
    simulator = Simulator(BODY, MODEL, integrator=integrator, damping=damping)
    try:
        simulator.reset(WALK[0], velocity=np.full(simulator.num_dof, speed))
        for _ in range(2):
            simulator.step(dt, [PointForce("right_wrist", force)])
    except MareyError:
        pass
    state = simulator.state
    for array in (state.place, state.velocity, state.momentum, state.rotations.wxyz, state.root_position):
        assert np.isfinite(array).all()


def test_weight_is_mass_times_gravity_at_every_scale():
    small = Body.from_skeleton(BODY.skeleton, height_m=0.2, mass_kg=0.05)
    simulator = Simulator(small)
    simulator.step(0.01)
    np.testing.assert_allclose(simulator.state.velocity[3:6], (0.0, -GRAVITY * 0.01, 0.0), atol=1e-12)
