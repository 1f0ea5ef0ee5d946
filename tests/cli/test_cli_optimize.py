"""The verb `optimize`: problem files in, motions out; and clips that are repaired."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from oracles.stiff_walk import make_stiff_walk

import marey.spacetime
from marey import samples
from marey.cli import main
from marey.io import load, save
from marey.spacetime import SpacetimeProblem, SpacetimeResult, load_problem, parse_problem

KEYS = {"problem", "out", "status", "violation", "iterations", "seconds", "objective", "worst", "check", "advice"}
PNG = b"\x89PNG\r\n\x1a\n"

STAND = """\
version = 1
name = "stand"
character = "fang7"
guess = "crouch"

[[phase]]
name = "stand"
duration_s = 0.3

[[phase.contact]]
point = "feet"
position = [0.0, 0.0, 0.0]
"""
HOP = """
[[phase]]
name = "fly"
duration_s = 0.2

[[phase]]
name = "land"
duration_s = 0.3

[[phase.contact]]
point = "feet"
position = [0.0, 0.0, 0.1]
"""
BESIDE = """
[[phase]]
name = "beside"
duration_s = 0.3

[[phase.contact]]
point = "hands"
kind = "grip"
position = [0.0, 9.0, 0.0]
"""


@pytest.fixture
def stand(tmp_path) -> Path:
    path = tmp_path / "stand.toml"
    path.write_text(STAND)
    return path


@pytest.fixture
def hop(tmp_path) -> Path:
    path = tmp_path / "hop.toml"
    path.write_text(STAND + HOP)
    return path


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "walk.safetensors"
    save(make_stiff_walk(seconds=1.0, rate_hz=30.0), path)
    return path


def strict(text: str) -> dict:
    """Read JSON, and nothing that only Python calls JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


# What there is


def test_list_names_the_shipped_problems(run):
    result = run("optimize", "--list")
    assert result.code == 0
    assert result.out.split() == list(samples.problem_names())


def test_list_as_json_is_a_list(run):
    result = run("optimize", "--list", "--json")
    assert result.code == 0
    assert json.loads(result.out) == list(samples.problem_names())


@pytest.mark.parametrize("name", samples.problem_names())
def test_every_shipped_problem_is_read_and_called_by_its_file(name):
    problem = load_problem(samples.problem_file(name))
    assert problem.name == name and problem.duration_s > 0.0
    assert problem.basis is None or Path(problem.basis).is_file()


# Solving


def test_a_shipped_problem_is_solved_by_its_name(run):
    facts = strict(run("optimize", "monkey-bars", "--json").out)
    assert facts["status"] == "converged" and facts["problem"] == "monkey-bars"
    assert facts["check"]["wrench_residual"] < 0.05 and facts["check"]["plant_drift_m"] < 1e-6


def test_a_small_problem_becomes_a_motion_and_one_line(run, stand, tmp_path):
    out = tmp_path / "stand.bvh"
    result = run("optimize", stand, "-o", out)
    assert result.code == 0
    assert result.out.startswith("stand: ") and "iterations" in result.out and result.out.count("\n") == 1
    assert f"wrote {out}" in result.err
    motion = load(out)
    assert (motion.num_frames - 1) / motion.rate_hz == pytest.approx(0.3, abs=1e-3)


def test_json_says_how_it_went_and_nothing_else(run, stand):
    result = run("optimize", stand, "--json")
    assert result.code == 0
    facts = strict(result.out)
    assert facts.keys() >= KEYS
    assert facts["status"] == "converged" and facts["problem"] == str(stand) and facts["out"] is None
    assert facts["violation"] < 1e-4 and facts["iterations"] >= 1 and facts["seconds"] > 0.0
    assert facts["check"]["plant_drift_m"] < 1e-6


def test_a_flight_is_checked_between_the_frames(run, hop):
    facts = strict(run("optimize", hop, "--json").out)
    assert facts["status"] == "converged"
    assert facts["check"]["wrench_residual"] < 0.05 and facts["check"]["angular_momentum_drift"] < 0.02


def test_the_same_command_gives_the_same_bytes(run, hop, tmp_path):
    for name in ("one.bvh", "two.bvh"):
        assert run("optimize", hop, "-o", tmp_path / name).code == 0
    assert (tmp_path / "one.bvh").read_bytes() == (tmp_path / "two.bvh").read_bytes()


@pytest.mark.parametrize("derivatives", ["pinocchio", "finite-difference"])
def test_derivatives_by_any_name_end_at_the_same_motion(run, hop, derivatives):
    if derivatives == "pinocchio":
        pytest.importorskip("pinocchio", reason="Pinocchio comes with marey[physics]")
    ours = strict(run("optimize", hop, "--json").out)
    theirs = strict(run("optimize", hop, "--json", "--derivatives", derivatives).out)
    assert theirs["objective"] == pytest.approx(ours["objective"], rel=1e-3)


def test_a_motion_can_be_started_from(run, hop, tmp_path):
    clip = tmp_path / "hop.safetensors"
    cold = strict(run("optimize", hop, "--json", "-o", clip).out)
    warm = strict(run("optimize", hop, "--json", "--warm-start", clip).out)
    assert warm["status"] == "converged" and warm["iterations"] <= cold["iterations"]


def test_a_film_strip_shows_guess_and_result(run, stand, tmp_path):
    picture = tmp_path / "stand.png"
    result = run("optimize", stand, "--strip", picture)
    assert result.code == 0 and f"wrote {picture}" in result.err
    assert picture.read_bytes().startswith(PNG)


# What goes wrong


def test_a_mistake_in_the_file_is_one_line_with_its_number(run, stand, tmp_path):
    stand.write_text(STAND.replace("duration_s = 0.3", "duration_s = 0"))
    result = run("optimize", stand, "-o", tmp_path / "never.bvh")
    assert result.code == 1 and result.out == ""
    assert f"{stand}:8: 'duration_s' is 0. It must be positive" in result.err
    assert result.err.count("\n") == 1 and not (tmp_path / "never.bvh").exists()


def test_plants_out_of_reach_are_refused_with_the_distance_and_both_lines(run, stand):
    stand.write_text(STAND + BESIDE)
    result = run("optimize", stand)
    assert result.code == 1 and "9.00 m apart" in result.err
    assert f"{stand}:18: " in result.err and "lines 10 and 18" in result.err


def test_a_problem_file_may_have_any_name(run, stand):
    other = stand.rename(stand.with_suffix(".txt"))
    assert run("optimize", other, "--json").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.toml"], "nothing.toml"),
        (["no-such-problem"], "no problem 'no-such-problem'"),
        (["STAND", "--space", "flat"], "flat"),
        (["STAND", "--derivatives", "guessed"], "guessed"),
        (["STAND", "--solver", "luck"], "luck"),
        (["STAND", "--warm-start", "nothing.bvh"], "nothing.bvh"),
    ],
)
def test_what_does_not_exist_is_named(run, stand, arguments, message):
    result = run("optimize", *(stand if a == "STAND" else a for a in arguments))
    assert result.code in (1, 2) and result.out == ""
    assert message in result.err and "unexpected" not in result.err


def test_an_unfinished_search_fails_names_the_worst_rows_and_keeps_its_motion(run, hop, tmp_path):
    hop.write_text("max_iterations = 1\n" + STAND + HOP)
    out = tmp_path / "draft.bvh"
    result = run("optimize", hop, "-o", out)
    assert result.code == 1 and "Worst:" in result.out
    assert load(out).num_frames > 1


@pytest.fixture
def listening():
    """Ctrl-C is heard, also in a shell that started us in the background and told us to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_stops_and_keeps_the_best_so_far(run, hop, tmp_path, monkeypatch):
    real = marey.spacetime.optimize

    def interrupted(problem: SpacetimeProblem, **options: object) -> SpacetimeResult:
        os.kill(os.getpid(), signal.SIGINT)
        return real(problem, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(marey.spacetime, "optimize", interrupted)
    before = signal.getsignal(signal.SIGINT)
    out = tmp_path / "stopped.bvh"
    result = run("optimize", hop, "-o", out, "--json")
    assert result.code == 1 and strict(result.out)["status"] == "stopped"
    assert load(out).num_frames > 1
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["STAND", "--from", "WALK", "--make-valid"],
        ["--from", "WALK"],
        ["--make-valid"],
        ["STAND", "--time-limit-s", "soon"],
    ],
)
def test_wrong_usage_ends_with_two_and_points_to_the_help(run, stand, walk, arguments):
    files = {"STAND": stand, "WALK": walk}
    result = run("optimize", *(files.get(a, a) for a in arguments))
    assert result.code == 2 and result.out == ""
    assert "marey optimize --help" in result.err


# Repairing


def test_a_clip_to_repair_must_exist(run):
    result = run("optimize", "--from", "nothing.bvh", "--make-valid")
    assert result.code == 1 and "nothing.bvh" in result.err and "unexpected" not in result.err


def test_a_red_clip_turns_green(run, walk, tmp_path):
    out = tmp_path / "valid.safetensors"
    assert strict(run("physics", walk, "--json").out)["valid_fraction"] < 0.8
    result = run("optimize", "--from", walk, "--make-valid", "-o", out, "--json")
    facts = strict(result.out)
    assert result.code == 0 and facts["status"] == "converged" and facts["problem"] == str(walk)
    assert strict(run("physics", out, "--json").out)["valid_fraction"] > 0.95


def test_frames_outside_the_selected_span_stay(run, walk, tmp_path):
    out = tmp_path / "part.safetensors"
    run("optimize", "--from", walk, "--make-valid", "--start-s", 0.3, "--stop-s", 0.8, "-o", out)
    old, new = load(walk), load(out)
    np.testing.assert_array_equal(new.root_positions[:9], old.root_positions[:9])
    np.testing.assert_array_equal(new.root_positions[25:], old.root_positions[25:])


def test_a_span_that_ends_before_it_starts_is_refused(run, walk):
    result = run("optimize", "--from", walk, "--make-valid", "--start-s", 0.8, "--stop-s", 0.3)
    assert result.code in (1, 2) and result.out == "" and "unexpected" not in result.err


def test_the_problems_of_this_page_are_problems():
    assert [len(parse_problem(text).phases) for text in (STAND, STAND + HOP, STAND + BESIDE)] == [1, 3, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["monkey-bars", "--make-valid"],
        ["monkey-bars", "--start-s", "0.5"],
        ["monkey-bars", "--time-limit-s", "-1"],
        ["monkey-bars", "--time-limit-s", "nan"],
        ["monkey-bars", "-o", "no/such/folder/out.bvh"],
        ["monkey-bars", "-o", "out.foo"],
        ["monkey-bars", "--strip", "strip.bvh"],
        ["--from", "walk.bvh", "--make-valid", "--space", "full"],
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(arguments, capsys):
    assert main(["optimize", *arguments]) == 2
    assert capsys.readouterr().err.startswith("marey: ")
