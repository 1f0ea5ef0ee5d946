"""Hierarchy: first things first."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import UnknownNameError
from marey.control import Controller, Drive, Gains, MomentumTask, Relaxation, SupportTask
from marey.control.balance import hull_distances
from marey.control.problem import ControlProblem
from marey.control.solvers import solve_strictly
from marey.control.task_laws import Feature
from marey.dynamics import Body
from marey.kinematics import PointTask, PoseTask
from marey.models import PoseModel
from marey.simulate import Simulator

STEP_S = 0.01


def _free(seed: int, size: int = 14) -> ControlProblem:
    """A mechanism without contacts, whose actuators are as good as unbounded."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    return ControlProblem(
        root @ root.T + np.eye(size), rng.normal(size=size), np.zeros((0, size)), np.zeros(0), np.zeros(0, bool),
        np.zeros((size, size)), np.zeros(size), np.full(size - 6, 1e6),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_what_comes_first_is_met_and_what_comes_later_takes_the_rest(seed: int) -> None:
    problem, rng = _free(seed), np.random.default_rng(seed)
    first = Feature(rng.normal(size=(3, 14)), rng.normal(size=3))
    second = Feature(rng.normal(size=(3, 14)), rng.normal(size=3))
    rival = Feature(first.matrix, -first.target)  # contradicts the first outright
    bare = Relaxation("none", strength=1e-9)
    none = np.zeros(0, bool)
    plan = solve_strictly(problem, bare, [[first], [second, rival]], none)
    np.testing.assert_allclose(first.matrix @ plan.planned_velocity, first.target, atol=1e-5)
    np.testing.assert_allclose(second.matrix @ plan.planned_velocity, second.target, atol=1e-4)
    swapped = solve_strictly(problem, bare, [[rival], [first]], none)
    np.testing.assert_allclose(first.matrix @ swapped.planned_velocity, -first.target, atol=1e-5)


def test_directions_that_rows_do_not_feel_are_their_null_space() -> None:
    from marey.control.problem import null_space

    rng = np.random.default_rng(3)
    rows = rng.normal(size=(6, 4)) @ rng.normal(size=(4, 11))  # rank 4
    free = null_space(rows, 1e-9)
    assert free.shape == (11, 7)
    np.testing.assert_allclose(free.T @ free, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(rows @ free, 0.0, atol=1e-11)
    assert null_space(np.zeros((2, 5)), 1e-6).shape == (5, 5)


def test_no_level_at_all_is_a_plan_too() -> None:
    plan = solve_strictly(_free(0), Relaxation("none"), [], np.zeros(0, bool))
    assert plan.is_solved
    np.testing.assert_allclose(plan.actuation, 0.0, atol=1e-6)


@pytest.mark.mocap
def test_strict_levels_hold_the_first_task_better_than_weights(d1_body: Body, c1_model: PoseModel) -> None:
    error = {}
    for hierarchy in ("weights", "strict"):
        simulator = Simulator(d1_body, c1_model, gravity=(0.0, 0.0, 0.0))
        place = {name: simulator.mechanics().joints[d1_body.skeleton.index(name)] for name in ("LeftHand", "RightHand")}
        far = place["RightHand"] + np.array([0.0, 1.0, 0.5])
        tasks = [
            Drive(PointTask("LeftHand", place["LeftHand"]), Gains(10.0, 0.0)),
            Drive(PointTask("RightHand", far, weight=30.0, priority=1), Gains(3.0, 0.0)),
        ]
        controller, hand = Controller(simulator, tasks, hierarchy=hierarchy), d1_body.skeleton.index("LeftHand")
        missed = []
        for _ in range(20):
            here = simulator.mechanics()
            wanted = -10.0 * (here.joints[hand] - place["LeftHand"])
            controller.step(STEP_S)
            missed.append(np.linalg.norm(here.point_jacobian(hand) @ controller.report.planned_velocity - wanted))
        error[hierarchy] = max(missed)
    assert error["strict"] < 0.05 * error["weights"]
    assert error["strict"] < 5e-3


@pytest.mark.mocap
@pytest.mark.parametrize(
    ("way", "is_full"), [((0.0, 0.0, 1.0), False), ((1.0, 0.0, 0.0), False), ((0.0, 0.0, 1.0), True)]
)
def test_tournier_69_a_hand_that_reaches_too_far_does_not_tip_the_figure(make_standing, way, is_full: bool) -> None:
    simulator = make_standing(None) if is_full else make_standing()
    hand, way = simulator.body.skeleton.index("LeftHand"), np.array(way)
    start = simulator.mechanics().joints[hand]
    target = start + 2.0 * way
    tasks = [
        SupportTask(margin_m=0.02, keeps_middle=False, weight=100.0),
        MomentumTask(weight=30.0),
        Drive(PointTask("LeftHand", target, weight=20.0, priority=1), Gains(1.0, 0.0)),
        PoseTask(simulator.state.pose, weight=2.0 if is_full else 0.2, priority=1),
    ]
    controller = Controller(simulator, tasks, hierarchy="strict")
    inside = []
    for _ in range(60 if is_full else 120):
        controller.step(STEP_S)
        support = controller.report.support
        inside.append(hull_distances(support.hull, simulator.mechanics().com[[0, 2]])[1].min())
    assert min(inside[5:]) > 0.005  # most of the margin, once the soles have come to lie on the ground
    assert min(inside) > 0.0
    assert (simulator.mechanics().joints[hand] - start) @ way > 0.3  # it does reach


def test_tournier_72_an_unknown_hierarchy_is_refused(human_simulator: Simulator) -> None:
    with pytest.raises(UnknownNameError, match="hierarchy"):
        Controller(human_simulator, hierarchy="anarchy")
