"""Problems as TOML: there and back, and the line of every mistake."""

from dataclasses import replace
from pathlib import Path

import pytest

import marey.spacetime
from marey import samples
from marey.base import FormatError, MissingFileError
from marey.io import save
from marey.spacetime import SpacetimeProblem, load_problem, parse_problem, problem_to_toml
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase

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
    problem = SpacetimeProblem(
        "hang",
        (ProblemPhase("hang", 0.7, (Contact("left_hand", (0.0, 2.0, 0.0), kind="grip", max_force=5.0),), span_s=0.05),),
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
    shipped = Path(marey.spacetime.__file__).parent / "behaviours" / "jump.safetensors"
    assert load_problem(path).basis == str(shipped)
    (tmp_path / "jump.safetensors").write_bytes(b"mine")
    assert load_problem(path).basis == str(tmp_path / "jump.safetensors")


def test_a_character_is_looked_for_beside_the_problem(tmp_path):
    save(samples.walk(seconds=0.3, rate_hz=30.0), tmp_path / "body.bvh")
    path = tmp_path / "leap.toml"
    path.write_text(LEAP.replace("fang22", "body.bvh"))
    assert load_problem(path).character == str(tmp_path / "body.bvh")


def test_a_shipped_behaviour_is_found_by_its_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(problem_to_toml(replace(samples.jump_problem(length_m=0.7), basis="jump")))
    assert load_problem(path).basis == "jump"  # read and checked, or this would raise


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(MissingFileError):
        load_problem(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key("pose", "flight", 0.5, joints={"LeftUpLeg_rq": 0.3}), "no coordinate.*mean 'LeftUpLeg_r"),
        (Key("clearance", "flight", 0.5, point="left_tow", lower=0.1), "no point 'left_tow'.*'left_toe'"),
        (Key("bar", "flight", 0.5, point="head", lower=0.1, target=(0.0, 1.0, 0.0)), "The reduced space knows"),
    ],
)
def test_names_of_the_reduced_space_are_refused_with_their_line(tmp_path, key, message):
    path = tmp_path / "mine.toml"
    text = problem_to_toml(replace(samples.jump_problem(), keys=(key,)))
    path.write_text(text)
    line = text.splitlines().index("[[key]]") + 1
    with pytest.raises(FormatError, match=rf"mine\.toml:{line}: .*{message}"):
        load_problem(path)


# Refused as a whole: the lines are those without which the problem would not be refused so

KNEE = '[[key]]\nkind = "pose"\nphase = "land"\njoints = { left_knee = 0.6 }\n'
HIGH = '[[key]]\nkind = "com"\nphase = "push"\nat = 1.0\ntarget = ["free", %s, "free"]\n'
BESIDE = 'friction = 1.0\n[[phase.contact]]\npoint = "right_foot"\nposition = [2.0, 0.2, 0.1]\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("joints = { left_knee = 0.3 }\n", f"joints = {{ left_knee = 0.3 }}\n{KNEE}",
         r":43: .*'pose'.*left_knee cannot be 0\.3 and 0\.6; lines 39 and 43\. Change one"),
        ("joints = { left_knee = 0.3 }\n", "joints = { left_knee = 0.3 }\n" + HIGH % "0.9" + HIGH % "0.8",
         r":48: .*centre of mass along y cannot be 0\.9 and 0\.8; lines 43 and 48"),
        ("friction = 1.0\n", BESIDE, r":19: .*2\.00 m apart.*; lines 15 and 19\. Move them closer"),
        ("friction = 1.0\n", "friction = -1.0\n", r":15: contact 'left_foot' of phase 'push' has friction -1"),
        ('point = "left_foot"', 'point = "left_fot"', r":15: no point 'left_fot'.*Did you mean 'left_foot'"),
        ("left_knee = 0.3", "left_nee = 0.3", r":39: no coordinate 'left_nee'.*Did you mean 'left_knee'"),
        ('kind = "com_velocity"', 'kind = "velocty"', r":33: no kind of key 'velocty'.*Did you mean 'velocity'"),
        ('target = [0.0, "free", 0.0]', "target = [0.0]", r":33: .* has 1 components as target"),
        ('target = [0.0, "free", 0.0]', 'target = ["free", "free", "free"]', r":33: .* has no target"),
        ("duration_range_s = [0.3, 0.5]", "duration_range_s = [0.5, 0.6]", r":20: phase 'fly' lasts 0\.4 s, outside"),
        ("duration_s = 0.4\nduration_range_s = [0.3, 0.5]", "duration_s = 1e5", r":20: phase 'fly' of 100000 s has"),
        ("span_s = 0.1", "gravity = -9.81", r":5: gravity is -9\.81 m/s². It pulls down"),
        ("span_s = 0.1", "frames_per_span = 100000", r":5: frames_per_span is 100000"),
        ("span_s = 0.1", "mass_kg = -5", r":5: a body of 1\.65 m and -5\.0 kg"),
        ("span_s = 0.1", "limits = { left_knee = [1.0, 0.0] }", r":5: limits of left_knee from 1\.0 to 0\.0 rad"),
        ("span_s = 0.1", 'guess = "nap"', r":5: no neutral pose 'nap'"),
        ("span_s = 0.1", 'space = "reduced"', r":5: problem 'leap' names no basis"),
        ('character = "fang22"', 'character = "fang23"', r":4: character 'fang23'\. Say fang22"),
        ("accel = 1.0", "accel = -1.0", r":7: weight accel is -1\.0"),
    ],
)  # fmt: skip
def test_a_problem_that_cannot_be_solved_is_refused_with_its_lines(tmp_path, old, new, message):
    assert old in LEAP
    path = tmp_path / "leap.toml"
    path.write_text(LEAP.replace(old, new, 1))
    with pytest.raises(FormatError, match=r"leap\.toml" + message):
        load_problem(path)


def test_keys_that_ask_for_the_same_or_for_other_instants_agree(tmp_path):
    path = tmp_path / "leap.toml"
    later = HIGH.replace("at = 1.0", "at = 0.5") % "0.8"
    path.write_text(LEAP + HIGH % "0.9" + HIGH % "0.9" + later)
    assert len(load_problem(path).keys) == 5


def test_the_end_of_a_phase_and_the_start_of_the_next_are_one_instant(tmp_path):
    path = tmp_path / "leap.toml"
    path.write_text(LEAP + HIGH % "0.9" + HIGH.replace("push", "fly").replace("at = 1.0", "at = 0.0") % "0.8")
    with pytest.raises(FormatError, match="in phase 'push' and 'com' in phase 'fly' contradict"):
        load_problem(path)


def test_a_speed_may_jump_between_phases_but_not_within_one(tmp_path):
    path = tmp_path / "leap.toml"
    speed = '[[key]]\nkind = "com_velocity"\nphase = "%s"\nat = %s\ntarget = ["free", %s, "free"]\n'
    path.write_text(LEAP + speed % ("push", "1.0", "2.0") + speed % ("fly", "0.0", "1.0"))
    assert len(load_problem(path).keys) == 4
    path.write_text(LEAP + speed % ("push", "1.0", "2.0") + speed % ("push", "1.0", "1.0"))
    with pytest.raises(FormatError, match="the velocity of the centre of mass along y cannot be 2 and 1"):
        load_problem(path)


def test_a_clearance_all_through_a_phase_meets_a_point_inside_it(tmp_path):
    path = tmp_path / "leap.toml"
    clear = '[[key]]\nkind = "clearance"\nphase = "fly"\nat = "all"\npoint = "left_foot"\nlower = 0.3\n'
    low = '[[key]]\nkind = "point"\nphase = "fly"\nat = 0.5\npoint = "left_foot"\ntarget = ["free", 0.2, "free"]\n'
    path.write_text(LEAP + clear + low)
    with pytest.raises(FormatError, match=r"left_foot along y cannot be at least 0\.3 and 0\.2"):
        load_problem(path)
