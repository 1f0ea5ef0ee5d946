"""Joint types by name, the quasi-Newton baselines, and the clamps of Engell-Nørregård 2012 F2, F7, F8."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.kinematics import (
    BallJoint,
    BoxLimits,
    ComTask,
    HingeJoint,
    OrientationTask,
    PointTask,
    PrismaticJoint,
    UniversalJoint,
    solve_ik,
)
from marey.kinematics.ik.joint_types import TypedBody
from marey.kinematics.ik.posing.attempts import compile_tasks
from marey.kinematics.ik.posing.starts import match_body
from marey.kinematics.ik.problem import collect_targets
from marey.lie import SO3
from marey.numerics import SolveStatus
from marey.skeleton import Pose, Skeleton

OBLIQUE = np.array([1.0, 2.0, 2.0]) / 3.0
CRANE = Skeleton(
    ("base", "boom", "jib", "hook"),
    np.array([-1, 0, 1, 2]),
    np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.4, 0.0, 0.0], [0.3, 0.0, 0.0]]),
)
JOINTS = {
    "base": HingeJoint((0.0, 2.0, 0.0)),
    "boom": UniversalJoint(((0.0, 0.0, 1.0), OBLIQUE), low=(-1.5, -1.0), high=(1.5, 1.0)),
    "jib": PrismaticJoint((1.0, 0.0, 0.0), low=-0.1, high=0.4),
    "hook": BallJoint(),
}


def test_columns_of_every_joint_type_agree_with_central_differences():
    """Engell check 2 for every joint type: positions, orientations and the centre of mass."""
    rng = np.random.default_rng(2)
    tasks = [
        PointTask("hook", (0.4, 0.3, 0.2), point=(0.1, 0.0, 0.05)),
        OrientationTask("hook", SO3.exp([0.2, -0.5, 0.4])),
        ComTask((0.1, 0.2, 0.0)),
    ]
    body = match_body(CRANE, None, None)
    problem = compile_tasks(body, tasks, None, "free", (), 1e-3, 1e-3)
    targets, active = collect_targets(tasks)
    typed = TypedBody(CRANE, JOINTS, np.zeros(3), Pose.rest(CRANE).rotations.wxyz, np.ones(5))
    z, h = typed.start + rng.normal(0.0, 0.3, len(typed.start)), 1e-6
    J = typed.linearise(problem, targets, active, z)[2]
    for n in range(len(z)):
        step = np.zeros(len(z))
        step[n] = h
        ahead, behind = (typed.linearise(problem, targets, active, z + sign * step)[1] for sign in (1.0, -1.0))
        assert np.abs(-(ahead - behind) / (2.0 * h) - J[:, n]).max() < 1e-7 * max(1.0, np.abs(J).max())


def test_a_crane_of_hinge_universal_and_prismatic_joints_reaches_its_goal_by_them_alone():
    goal = np.array([0.5, 0.9, 0.35])
    result = solve_ik(CRANE, [PointTask("hook", goal)], root="turn", joints=JOINTS)
    assert np.linalg.norm(result.pose.joint_positions()[3] - goal) < 1e-3
    turns = result.pose.rotations.log()
    assert np.abs(turns[0, [0, 2]]).max() < 1e-12
    np.testing.assert_allclose(turns[2], 0.0, atol=1e-12)
    slide = result.pose.skeleton.offsets[2] - CRANE.offsets[2]
    assert abs(slide[0]) > 1e-3 and np.abs(slide[1:]).max() < 1e-15 and -0.1 <= slide[0] <= 0.4


def test_a_hinge_turns_a_start_that_is_off_its_axis_onto_it():
    start = Pose(CRANE, np.zeros(3), SO3.exp(np.array([[0.2, 0.5, 0.1], [0, 0, 0], [0, 0, 0], [0, 0, 0]])))
    result = solve_ik(CRANE, [PointTask("hook", (0.45, 0.7, 0.4))], start=start, root="turn", joints=JOINTS)
    assert np.abs(result.pose.rotations.log()[0, [0, 2]]).max() < 1e-12


def test_bounds_of_joints_hold_and_wrong_ones_are_refused():
    far = {"base": HingeJoint((0.0, 1.0, 0.0), low=-0.3, high=0.3)}
    fixed = {name: HingeJoint((0.0, 1.0, 0.0), low=0.0, high=0.0) for name in ("boom", "jib", "hook")}
    task = [PointTask("hook", (0.0, 0.5, 0.7))]
    result = solve_ik(CRANE, task, root="turn", joints=far | fixed, on_failure="return")
    assert result.status is SolveStatus.INFEASIBLE
    assert abs(abs(result.pose.rotations.log()[0, 1]) - 0.3) < 1e-9
    for wrong in (HingeJoint((0.0, 0.0, 0.0)), HingeJoint((1.0, 0.0, 0.0), low=1.0, high=0.0)):
        with pytest.raises(InputError, match="joint 'base'"):
            solve_ik(CRANE, task, joints={"base": wrong})


def curled_chain() -> tuple[Pose, BoxLimits]:
    """Eight bones curled up on their limits of 0.6 rad."""
    count = 8
    offsets = np.array([[0.0, 0.0, 0.0]] + [[0.0, 0.2, 0.0]] * count)
    chain = Skeleton(tuple(f"c{k}" for k in range(count + 1)), np.array([-1, *range(count)]), offsets)
    high = np.zeros((count + 1, 3))
    high[:count, [0, 2]] = 0.6
    vectors = np.zeros((count + 1, 3))
    vectors[:count, 0], vectors[:count, 2] = 0.58, 0.3
    return Pose(chain, np.zeros(3), SO3.exp(vectors)), BoxLimits(chain, -high, high)


@pytest.mark.parametrize("problems", [2, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["active-set-qn", "projected-bfgs"])
def test_quasi_newton_baselines_never_rise_and_keep_their_boxes(method, problems):
    start, limits = curled_chain()
    rng, fallbacks = np.random.default_rng(8), 0.0
    for _ in range(problems):
        tasks = [PointTask("c4", rng.normal(0.0, 0.5, 3)), PointTask("c8", rng.normal(0.0, 0.8, 3))]
        result = solve_ik(
            start.skeleton, tasks, start=start, limits=limits, root="fixed", method=method,
            record=True, on_failure="return", max_iterations=60,
        )  # fmt: skip
        history = result.history[result.history[:, 0] > 0.0]
        assert (np.diff(history[:, 0]) <= 0.0).all()
        assert limits.violation(result.pose).max() < 1e-9
        fallbacks += history[-1, 3]
    # The thesis's negative result: a projected quasi-Newton direction may lead up
    assert method == "active-set-qn" or fallbacks > 0.0


def test_clamps_shorten_iterations_and_still_reach_the_goal():
    start, _ = curled_chain()
    tip = start.joint_positions()[8]
    task = [PointTask("c8", tip + np.array([0.3, 0.4, 0.2]))]
    options = {"start": start, "limits": None, "root": "fixed", "method": "pseudo-inverse"}
    once = solve_ik(start.skeleton, task, rate_clamp_rad=0.05, max_iterations=1, on_failure="return", **options)
    turns = np.linalg.norm((start.rotations.inverse() @ once.pose.rotations).log(), axis=1)
    assert turns.max() == pytest.approx(0.05, abs=1e-9)
    near = solve_ik(start.skeleton, task, goal_clamp_m=0.02, max_iterations=1, on_failure="return", **options)
    assert np.linalg.norm(near.pose.joint_positions()[8] - tip) < 0.03
    for clamp in ({"rate_clamp_rad": 0.05}, {"goal_clamp_m": 0.02}):
        assert solve_ik(start.skeleton, task, **clamp, **options).status is SolveStatus.CONVERGED
