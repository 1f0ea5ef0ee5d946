"""The shipped problems in reduced space are what the builders say, and each is solved."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.problems import REDUCED_EXAMPLES

from marey.samples import problem_file
from marey.spacetime import load_problem, optimize, problem_to_toml
from marey.spacetime.problem_files import parse_problem
from marey.spacetime.reduced.solve import read_problem_behaviour


@pytest.mark.parametrize("name", sorted(REDUCED_EXAMPLES))
def test_the_shipped_file_is_the_problem_of_its_name(name):
    built = REDUCED_EXAMPLES[name]()
    assert built.name == name
    assert parse_problem(problem_to_toml(built)) == parse_problem(problem_file(name).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long-step", "stepping-stones", "step-over-high"])
def test_feet_take_turns(name):
    result = optimize(load_problem(problem_file(name)))
    assert result.violation < 1e-4
    assert result.check.is_valid


STRAIGHT = "back-flip-straight"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REDUCED_EXAMPLES))
def test_every_example_converges_from_its_guess_and_holds_between_nodes(name):
    result = optimize(load_problem(problem_file(name)))
    assert result.violation < 1e-4
    assert result.check.wrench_residual < 0.05
    assert result.check.angular_momentum_drift_si < 0.5 or result.check.angular_momentum_drift < 0.02
    assert result.check.plant_drift_m < 1e-6
    assert result.check.cone_excess < 1e-3
    assert result.check.limit_excess_rad < 0.1


@pytest.mark.slow
def test_the_legs_of_the_straight_flip_are_straight_over_head():
    problem = load_problem(problem_file(STRAIGHT))
    result = optimize(problem, on_failure="return")
    tree = read_problem_behaviour(problem).tree
    q = tree.from_motion(result.motion)
    over = slice(round((0.8 + 0.35 * 0.8) * 60.0), round((0.8 + 0.65 * 0.8) * 60.0) + 1)
    knees = q[over][:, [tree.index("LeftLeg"), tree.index("RightLeg")]]
    assert knees.max() < 0.4
    assert np.abs(np.ptp(q[:, 5]) - 2.0 * np.pi) < 1.5  # one turn over, with what the crouches lean
