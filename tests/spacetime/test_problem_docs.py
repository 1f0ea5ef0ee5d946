"""The page on physics tells the truth: its problem is read and solved, its names and options exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from marey.cli import main
from marey.dynamics import CAUSES, JointTree, compute_com_motion
from marey.spacetime import SpacetimeProblem, optimize, parse_problem, problem_to_toml
from marey.spacetime.problem.definition import Objective

PAGE = Path(__file__).parents[2] / "docs" / "physics.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
BESIDE = '[[phase.contact]]\npoint = "right_foot"\nposition = [2.09, 0.0, 0.0]\n'


def comment(start: str) -> list[str]:
    """Words of the list in the comment of a line of the problem."""
    line = next(line for line in BLOCKS[0].splitlines() if line.startswith(start))
    return re.findall(r"\w+", line.split(":")[-1].replace(" or ", " "))


@pytest.fixture(scope="module")
def problem() -> SpacetimeProblem:
    return parse_problem(BLOCKS[0], file="physics.md")


def test_there_is_one_problem_and_it_survives_its_text(problem):
    assert len(BLOCKS) == 1
    assert parse_problem(problem_to_toml(problem)) == problem
    assert [phase.name for phase in problem.phases if phase.is_flight] == ["fly"]
    assert problem.keys[0].at is None and problem.limits["pitch"] == (-0.2, 0.5)


def test_the_problem_is_solved_and_holds_between_its_frames(problem):
    result = optimize(problem)
    assert result.violation < 1e-4 and result.check.is_valid
    assert result.check.clearance_m > -0.005
    tree = JointTree.fang22()
    q = tree.from_motion(result.motion)[-1:]
    still = np.zeros_like(q)
    np.testing.assert_allclose(compute_com_motion(tree, q, still, still).position[0, 1], 0.85, atol=1e-3)


def test_the_names_in_its_comments_are_all_there_are():
    from marey.spacetime.full.sampling import NEUTRAL_POSES
    from marey.spacetime.problem.definition import KEY_KINDS

    assert comment("[objective]") == [item.name for item in fields(Objective)]
    assert comment("[[key]]") == list(KEY_KINDS)
    assert comment("guess") == list(NEUTRAL_POSES)


def test_the_causes_it_lists_are_those_of_the_report():
    sentence = re.search(r"names its causes: ([^.]*)\.", TEXT)
    assert sentence is not None
    assert tuple(" ".join(sentence[1].split()).split(", ")) == CAUSES


def test_the_options_it_names_exist(capfd):
    helps = ""
    for verb in ("physics", "optimize", "edit"):
        assert main([verb, "--help"]) == 0
        helps += capfd.readouterr().out
    named = set(re.findall(r"--[a-z][a-z-]*", TEXT))
    assert len(named) > 8
    assert named <= set(re.findall(r"--[a-z][a-z-]*", helps))


def test_the_points_it_lists_are_those_of_the_characters():
    sentence = re.search(r"Points that touch or are asked for: (.*?)\. A foot presses", TEXT, re.DOTALL)
    assert sentence is not None
    spatial, planar = (set(re.findall(r"`(\w+)`", part)) for part in sentence[1].split(";"))
    assert spatial == {"fang22", *JointTree.fang22().points}
    assert planar == {"fang7", *JointTree.fang7().points}


def test_its_examples_of_refusals_are_what_a_user_sees(tmp_path):
    from marey.base import FormatError
    from marey.spacetime import load_problem

    path = tmp_path / "leap.toml"
    path.write_text(BLOCKS[0].replace("position = [0.09, 0.0, 0.0]", "position = [0.09, 0.0, 0.0]\n" + BESIDE))
    with pytest.raises(FormatError, match=r"2\.00 m apart, 0\.07 m more than the body reaches \(1\.93 m\); lines"):
        load_problem(path)
