"""What does not depend on the size of a body, and what methods say of goals that nobody can reach."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.raw_ik import solve_ik

from marey import HUMAN, SO3, Pose, Skeleton
from marey.kinematics import PointTask
from marey.lie import geodesic_distance
from marey.numerics import SolveStatus
from marey.skeleton import joint_positions

ENDS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")


def scaled(skeleton: Skeleton, by: float) -> Skeleton:
    return Skeleton(skeleton.names, skeleton.parents, by * skeleton.offsets, name="scaled")


def goals(seed: int, by: float) -> list[PointTask]:
    rng = np.random.default_rng(seed)
    turns = SO3.exp(rng.normal(0.0, 0.3, (1, HUMAN.num_joints, 3)))
    places = joint_positions(HUMAN, HUMAN.offsets[:1], turns.wxyz)[0]
    return [PointTask(name, by * places[HUMAN.index(name)]) for name in ENDS]


@pytest.mark.parametrize("by", [0.5, 2.0, 16.0])
@pytest.mark.parametrize(
    ("method", "root"),
    [("projected-lm", "free"), ("pg-armijo", "free"), ("jacobian-transpose", "free"), ("dls", "fixed")],
)
def test_a_larger_body_with_larger_goals_takes_the_same_turns(method, root, by):
    options = {"method": method, "root": root, "on_failure": "return", "max_iterations": 60}
    one = solve_ik(HUMAN, goals(3, 1.0), start=Pose.rest(HUMAN), tolerance_m=1e-3, **options)
    body = scaled(HUMAN, by)
    two = solve_ik(body, goals(3, by), start=Pose.rest(body), tolerance_m=by * 1e-3, **options)
    assert two.iterations == one.iterations
    assert geodesic_distance(one.pose.rotations, two.pose.rotations).max() < 1e-6
    np.testing.assert_allclose(two.pose.root_position, by * one.pose.root_position, atol=1e-6 * by)


@pytest.mark.parametrize("method", ["pseudo-inverse", "dls", "jacobian-transpose"])
def test_methods_without_an_end_say_that_a_goal_is_out_of_reach(method):
    far = [PointTask("left_wrist", (3.0, 1.4, 0.0))]
    found = solve_ik(HUMAN, far, start=Pose.rest(HUMAN), root="fixed", method=method, on_failure="return")
    best = solve_ik(HUMAN, far, start=Pose.rest(HUMAN), root="fixed", on_failure="return")
    assert found.status is SolveStatus.INFEASIBLE and best.status is SolveStatus.INFEASIBLE
    assert "out of reach" in found.advice and "nearest pose" in found.advice
    assert found.position_error_m == pytest.approx(best.position_error_m, rel=1e-4)
