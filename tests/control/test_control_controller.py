"""Controller: a figure stands, is pushed, and obeys, by forces from inside alone."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.control import (
    Controller,
    Drive,
    FootTask,
    Gains,
    Keyframe,
    MomentumTask,
    PDController,
    Relaxation,
    SupportTask,
)
from marey.control.balance import sole_frame
from marey.control.internal_forces import actuator_strength, joint_strength
from marey.kinematics import BoxLimits, ComTask, PointTask, PoseTask
from marey.simulate import PointForce, Simulator

STEP_S = 0.01


def _drift(simulator: Simulator, controller: Controller, steps: int, force: float = 20.0) -> float:
    """How far [m] the centre of mass is from the middle of the support after a push of a tenth of a second."""
    for n in range(steps):
        push = [PointForce("Spine1", (force, 0.0, 0.5 * force))] if n < 10 else []
        controller.step(STEP_S, push)
    support = controller.report.support
    return float(np.linalg.norm((simulator.mechanics().com - support.middle("hull"))[[0, 2]]))


@pytest.mark.mocap
@pytest.mark.parametrize("is_full", [False, True])
def test_a_figure_stands_and_takes_a_push(make_standing, make_balanced, is_full: bool) -> None:
    simulator = make_standing(None) if is_full else make_standing()
    controller, height = make_balanced(simulator), simulator.mechanics().com[1]
    assert _drift(simulator, controller, 150) < 0.01
    assert abs(simulator.mechanics().com[1] - height) < 0.02
    assert controller.report.is_planned
    assert np.abs(simulator.state.velocity).max() < 0.1
    assert simulator.contacts.gaps.min() > -2e-3


@pytest.mark.mocap
def test_what_is_planned_comes_true_once_the_figure_stands(make_standing, make_balanced) -> None:
    simulator = make_standing()
    controller = make_balanced(simulator)
    _drift(simulator, controller, 60)
    report = controller.report
    assert report.gap_j < 1e-4
    assert np.linalg.norm(report.planned_velocity - report.realised_velocity) < 0.02
    assert (np.abs(report.actuation) <= controller.strongest * (1 + 1e-9)).all()


@pytest.mark.mocap
def test_nobody_foresees_a_push(make_standing, make_balanced) -> None:
    """The plan of a step is the same whatever pushes in it; what comes of it is not."""
    calm, pushed = (make_balanced(make_standing()) for _ in range(2))
    calm.step(STEP_S)
    pushed.step(STEP_S, [PointForce("Spine1", (0.0, 0.0, 200.0))])
    np.testing.assert_array_equal(pushed.report.planned_velocity, calm.report.planned_velocity)
    gained = pushed.simulator.state.velocity[5] - calm.simulator.state.velocity[5]
    assert gained > 0.3 * 200.0 * STEP_S / pushed.simulator.body.mass_kg  # feet take the rest


@pytest.mark.mocap
def test_control_moves_momentum_by_weight_contacts_and_pushes_alone(make_standing, make_balanced) -> None:
    """Newton's law for the whole figure: actuators push on nothing outside."""
    simulator = make_standing(damping="none")
    controller, mass = make_balanced(simulator), simulator.body.mass_kg
    for _ in range(20):
        before = simulator.state.momentum[3:6]
        force = np.array([15.0, 0.0, -10.0])
        controller.step(STEP_S, [PointForce("Spine1", force)])
        outside = simulator.contacts.impulses.sum(axis=0) + STEP_S * (mass * simulator.gravity + force)
        np.testing.assert_allclose(simulator.state.momentum[3:6] - before, outside, atol=1e-8)


@pytest.mark.mocap
def test_limits_of_joints_do_not_upset_a_figure(make_standing, make_balanced, standing_clip) -> None:
    limits = BoxLimits.from_clips([standing_clip], margin_rad=0.2)
    simulator = make_standing(None, limits=limits)
    controller = make_balanced(simulator)
    assert _drift(simulator, controller, 60) < 0.02


@pytest.mark.mocap
def test_a_foot_is_lifted_while_the_other_stands(make_standing, make_balanced) -> None:
    """The weight is shifted to the left foot first; then the right one leaves the stance."""
    simulator = make_standing(None)
    left, right = (sole_frame(simulator.body.skeleton, side) for side in ("left", "right"))
    here = simulator.mechanics()
    over, start = here.point(*left[:2]), here.point(*right[:2])
    controller = make_balanced(simulator)
    above = ComTask((over[0], here.com[1], over[2]), weight=(100.0, 1e-6, 100.0))
    tasks = [SupportTask(keeps_middle=False), above, MomentumTask(), PoseTask(simulator.state.pose, weight=0.2)]
    for _ in range(150):
        controller.step(STEP_S, tasks=tasks)
    stood = simulator.mechanics().point(*left[:2])
    assert np.linalg.norm(stood - over) < 0.01
    controller.stance = ("left",)
    up = Drive(FootTask("right", start + np.array([0.0, 0.05, 0.0])), Gains(6.0, 0.0))
    for _ in range(25):
        controller.step(STEP_S, tasks=[*tasks, up])
    assert simulator.mechanics().point(*right[:2])[1] > start[1] + 0.015
    assert np.linalg.norm(simulator.mechanics().point(*left[:2]) - stood) < 0.01
    assert simulator.mechanics().com[1] > 0.97 * here.com[1]


@pytest.mark.mocap
def test_a_floating_sole_is_placed_flat(make_standing) -> None:
    simulator = make_standing(None, gravity=(0.0, 0.0, 0.0), ground=None)
    joint, middle, frame = sole_frame(simulator.body.skeleton, "left")
    target = simulator.mechanics().point(joint, middle) + np.array([0.05, 0.1, 0.1])
    controller = Controller(simulator, [FootTask("left", target, heading_rad=0.2)])
    for _ in range(80):
        controller.step(STEP_S)
    here = simulator.mechanics()
    sole = here.frames[joint] @ frame
    assert np.linalg.norm(here.point(joint, middle) - target) < 2e-3
    assert sole[1, 1] > 0.999
    assert np.arctan2(sole[0, 2], sole[2, 2]) == pytest.approx(0.2, abs=0.02)


@pytest.mark.mocap
def test_a_preview_follows_its_plan_and_is_no_physics(make_standing, make_balanced) -> None:
    simulator = make_standing()
    controller = make_balanced(simulator, preview=True)
    for _ in range(10):
        controller.step(STEP_S)
        np.testing.assert_allclose(controller.report.planned_velocity, simulator.state.velocity, atol=1e-12)


@pytest.mark.mocap
def test_tournier_71_the_same_run_twice_gives_the_same_numbers(make_standing, make_balanced) -> None:
    ends = []
    for _ in range(2):
        simulator = make_standing()
        _drift(simulator, make_balanced(simulator), 25, 60.0)
        ends.append(simulator.state.velocity.tobytes())
    assert ends[0] == ends[1]


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["none", "sticky", "kinetic", "workfree", "dissipative", "gap"])
def test_tournier_72_every_relaxation_drives_a_figure(make_standing, make_balanced, name: str) -> None:
    simulator = make_standing()
    controller = make_balanced(simulator, relaxation=Relaxation(name, 0.01))
    _drift(simulator, controller, 15)
    assert controller.report.is_planned
    assert np.isfinite(simulator.state.velocity).all()


@pytest.mark.timing
@pytest.mark.mocap
def test_tournier_70_a_control_step_is_quick(make_standing, make_balanced) -> None:
    """Twenty modes and eight contacts; the bound is for a busy machine, benchmarks have the figure."""
    simulator = make_standing()
    controller = make_balanced(simulator)
    _drift(simulator, controller, 30)
    seconds = []
    for _ in range(60):
        began = time.thread_time()
        controller.step(STEP_S)
        seconds.append(time.thread_time() - began)
    assert len(controller.report.support.points) >= 8
    assert median(seconds) < 5e-3


@pytest.mark.mocap
def test_torques_of_modes_come_from_joints(make_standing) -> None:
    reduced, full = make_standing(), make_standing(None)
    torques = joint_strength(full.body)
    assert torques[0] == 0.0
    assert (torques[1:] > 0.0).all()
    knee, wrist = (full.body.skeleton.index(name) for name in ("LeftLeg", "LeftHand"))
    assert torques[knee] == pytest.approx(150.0 * full.body.mass_kg / 45.0)
    assert torques[wrist] < 0.2 * torques[knee]
    np.testing.assert_allclose(actuator_strength(full), np.repeat(torques[full.mechanism.joints], 3), rtol=1e-9)
    turns = np.linalg.norm(reduced.mechanics().turns, axis=1)
    np.testing.assert_allclose(actuator_strength(reduced), turns.T @ torques, rtol=1e-12)


@pytest.mark.mocap
def test_a_figure_without_strength_falls_and_stays_finite(make_standing, make_balanced) -> None:
    simulator = make_standing()
    height = simulator.mechanics().com[1]
    controller = make_balanced(simulator, strongest=0.0)
    for _ in range(80):
        controller.step(STEP_S)
    assert simulator.mechanics().com[1] < 0.8 * height
    assert not controller.report.actuation.any()
    assert np.isfinite(simulator.state.velocity).all()


@pytest.mark.mocap
def test_a_hard_blow_ends_in_a_fall_of_finite_numbers(make_standing, make_balanced) -> None:
    simulator = make_standing(None)
    controller = make_balanced(simulator)
    for n in range(120):
        controller.step(STEP_S, [PointForce("Spine1", (500.0, 0.0, 300.0))] if n < 20 else [])
    assert np.isfinite(simulator.state.velocity).all()
    assert simulator.mechanics().com[1] < 0.8


@pytest.mark.mocap
def test_springs_hold_a_floating_figure_and_follow_their_poses(make_standing, standing_clip) -> None:
    simulator = make_standing(gravity=(0.0, 0.0, 0.0), ground=None)
    first, second = standing_clip[791], standing_clip[600]
    springs = PDController(simulator, [Keyframe(first, 0.5), Keyframe(second, 1.0)])
    target = simulator.model.encode(standing_clip[600:601])[0]
    before = np.linalg.norm(simulator.state.coordinates - target)
    for _ in range(40):
        springs.step(STEP_S)
    assert np.linalg.norm(simulator.state.coordinates - target) > 0.9 * before
    for _ in range(110):
        springs.step(STEP_S)
    assert np.linalg.norm(simulator.state.coordinates - target) < 0.1 * before
    assert springs.keyframe_at(0.2) == 0
    assert springs.keyframe_at(9.0) == 1


@pytest.mark.mocap
def test_tournier_72_springs_alone_do_not_balance_as_long_as_control(make_standing, make_balanced) -> None:
    """The baseline of the thesis: stiff joints stand like a statue and tip like one."""
    tilts = {}
    for name in ("springs", "control"):
        simulator = make_standing()
        pose, height = simulator.state.pose, simulator.mechanics().com[1]
        driver = PDController(simulator, [Keyframe(pose)]) if name == "springs" else make_balanced(simulator)
        for n in range(150):
            driver.step(STEP_S, [PointForce("Spine1", (0.0, 0.0, 80.0))] if n < 20 else [])
        tilts[name] = height - simulator.mechanics().com[1]
    assert tilts["control"] < 0.02
    assert tilts["springs"] > tilts["control"]


def test_tournier_73_wrong_settings_are_refused(human_simulator: Simulator) -> None:
    for options, error in (
        ({"relaxation": "magic"}, UnknownNameError),
        ({"stance": ("middle",)}, UnknownNameError),
        ({"strongest": -1.0}, InputError),
        ({"strongest": np.nan}, InputError),
        ({"slack_speed": 0.0}, InputError),
        ({"strength": -1.0}, InputError),
    ):
        with pytest.raises(error):
            Controller(human_simulator, **options)
    for options in ({"stiffness": np.nan}, {"damping": -1.0}):
        with pytest.raises(InputError):
            PDController(human_simulator, [Keyframe(human_simulator.state.pose)], **options)
    with pytest.raises(InputError, match="no pose"):
        PDController(human_simulator, [])
    with pytest.raises(InputError, match="duration"):
        Keyframe(human_simulator.state.pose, 0.0)


def test_tournier_73_random_wrong_input_gives_typed_errors_only(human_simulator: Simulator) -> None:
    controller = Controller(human_simulator)
    rng = np.random.default_rng(7)
    numbers, things = (np.nan, np.inf, -np.inf, "x", None), (0.0, "x", None, (), np.zeros((2, 2)))
    tries = (
        lambda: controller.step(numbers[rng.integers(5)]),
        lambda: controller.step(-abs(float(rng.normal()))),
        lambda: controller.step(STEP_S, tasks=[PointTask("head", (0.0, numbers[rng.integers(5)], 1.0))]),
        lambda: controller.step(STEP_S, tasks=[Drive(MomentumTask(), velocity=(numbers[rng.integers(3)],))]),
        lambda: controller.step(STEP_S, [things[rng.integers(5)]]),
        lambda: controller.step(STEP_S, tasks=[things[rng.integers(5)]]),
        lambda: controller.step(STEP_S, [PointForce("head", (numbers[rng.integers(3)], 0.0, 0.0))]),
        lambda: controller.step(STEP_S, tasks=[PointTask("tail", (0.0, 0.0, 0.0))]),
    )
    for _ in range(60):
        with pytest.raises((InputError, UnknownNameError)):
            tries[rng.integers(len(tries))]()
    assert human_simulator.state.time_s == 0.0


def test_a_figure_in_the_air_obeys_without_ground(human_simulator: Simulator) -> None:
    wrist = human_simulator.body.skeleton.index("left_wrist")
    arm = human_simulator.mechanics().joints[wrist] - human_simulator.mechanics().com
    wanted = arm + np.array([0.0, 0.1, 0.1])
    controller = Controller(human_simulator)
    for _ in range(40):
        here, velocity = human_simulator.mechanics(), human_simulator.state.velocity
        reach = Drive(PointTask("left_wrist", here.com + wanted, weight=10.0), Gains(10.0, 0.0), velocity[3:6])
        state = controller.step(STEP_S, tasks=[MomentumTask(), reach])
    here = human_simulator.mechanics()
    assert state.velocity[4] == pytest.approx(-9.81 * 0.4, rel=1e-6)  # it falls all the same
    assert np.linalg.norm(here.joints[wrist] - here.com - wanted) < 0.1 * np.linalg.norm(wanted - arm)
