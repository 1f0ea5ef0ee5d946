"""Problems as TOML: there and back, and the line of every mistake."""

import pytest

from marey.base import FormatError, MissingFileError
from marey.spacetime import Contact, Key, Objective, Phase, Problem, load_problem, parse_problem, problem_to_toml

LEAP = """
version = 1
name = "leap"
character = "fang22"
span_s = 0.1

[objective]
accel = 1.0
torque = 0.1

[[phase]]
name = "push"
duration_s = 0.35

[[phase.contact]]
point = "left_foot"
position = [0.0, 0.2, 0.1]
friction = 1.0

[[phase]]
name = "fly"
duration_s = 0.4
duration_range_s = [0.3, 0.5]

[[phase]]
name = "land"
duration_s = 0.35

[[phase.contact]]
point = "right_foot"
position = [0.0, 0.2, 0.9]

[[key]]
kind = "com_velocity"
phase = "push"
at = 0.0
target = [0.0, "free", 0.0]

[[key]]
kind = "pose"
phase = "land"
joints = { left_knee = 0.3 }
"""


def test_a_problem_is_read_table_by_table():
    problem = parse_problem(LEAP)
    assert [phase.name for phase in problem.phases] == ["push", "fly", "land"]
    assert problem.phases[1].is_flight and problem.phases[1].duration_range_s == (0.3, 0.5)
    assert problem.phases[2].contacts[0] == Contact("right_foot", (0.0, 0.2, 0.9))
    assert problem.objective == Objective(accel=1.0, torque=0.1)
    assert problem.keys[0].target == (0.0, None, 0.0)
    assert problem.keys[1].joints == {"left_knee": 0.3}


def test_a_problem_survives_its_text():
    problem = parse_problem(LEAP)
    assert parse_problem(problem_to_toml(problem)) == problem


def test_a_problem_built_in_python_survives_its_text():
    problem = Problem(
        "hang",
        (Phase("hang", 0.7, (Contact("left_hand", (0.0, 2.0, 0.0), kind="grip", max_force=5.0),), span_s=0.05),),
        keys=(Key("turn", "hang", at=None, lower=-0.5, upper=1.3),),
        space="reduced",
        basis="jump.safetensors",
        limits={"left_knee": (0.02, 2.5)},
    )
    assert parse_problem(problem_to_toml(problem)) == problem


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duration_s = 0.4\n", "duration_s = 0\n", r"leap\.toml:22: 'duration_s' is 0\. It must be positive"),
        ("duration_s = 0.4\n", "duration_s = nan\n", r"leap\.toml:22: 'duration_s' is not a finite number"),
        ("friction = 1.0", "fricton = 1.0", r"leap\.toml:18: unknown key 'fricton'\. Did you mean 'friction'"),
        ("position = [0.0, 0.2, 0.9]", "position = [0.0, 0.2]", r"leap\.toml:31: 'position' is not a list of 3"),
        ('phase = "land"', 'phase = "lnad"', r"leap\.toml:41: no phase 'lnad' in this problem.*'land'"),
        ('name = "fly"', 'name = "push"', r"leap\.toml:21: two phases are called 'push'"),
        ("version = 1", "version = 9", r"leap\.toml:2: problem version 9"),
        ('character = "fang22"', 'space = "flat"', r"leap\.toml:\d+: space 'flat'"),
        ("[objective]", "[objective", r"leap\.toml:7:"),
    ],
)
def test_a_mistake_is_named_with_its_line(old, new, message):
    assert old in LEAP
    with pytest.raises(FormatError, match=message):
        parse_problem(LEAP.replace(old, new, 1), file="leap.toml")


def test_the_basis_is_looked_for_beside_the_problem(tmp_path):
    path = tmp_path / "jump.toml"
    path.write_text('basis = "jump.safetensors"\n' + LEAP)
    assert load_problem(path).basis == str(tmp_path / "jump.safetensors")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(MissingFileError):
        load_problem(tmp_path / "nothing.toml")
