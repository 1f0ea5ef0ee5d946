"""Verbs and options that reach one public function each: joint limits, styles, stores, persons, simulation, plots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.base import InputError
from marey.io import load, save
from marey.kinematics import load_limits
from marey.lie import SO3
from marey.locomotion import load_model, load_script
from marey.motion import Motion
from marey.skeleton import Skeleton

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


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "walk.safetensors"
    save(samples.walk(seconds=1.0, rate_hz=30.0), path)
    return path


@pytest.fixture(scope="module")
def stand(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("problems") / "stand.toml"
    path.write_text(STAND)
    return path


def json_of(result) -> dict:
    assert result.code == 0, result.err
    return json.loads(result.out.splitlines()[-1])


def test_joints_are_fixed_hinges_or_balls(run, walk, tmp_path):
    result = run("limits", "joints", walk, "--json", "--csv", tmp_path / "j.csv")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert len(rows) == 22
    assert {row["kind"] for row in rows} <= {"fixed", "hinge", "ball"}
    knee = next(row for row in rows if row["joint"] == "left_knee")
    assert knee["kind"] == "hinge" and abs(np.linalg.norm(knee["axis"]) - 1.0) < 1e-9
    assert len((tmp_path / "j.csv").read_text().splitlines()) == 23


def test_kinds_of_limits_are_compared(run, walk):
    result = run("limits", "compare", walk, "--held-out", walk, "--kind", "box", "--kind", "cone", "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["kind"] for row in rows] == ["box", "cone"]
    assert all(row["training"] > 0.99 and row["held_out"] == row["training"] for row in rows)


def test_a_feasible_set_becomes_a_surface_and_a_surface_a_feasible_set(run, tmp_path):
    clip, limits, surface, sculpted = (tmp_path / name for name in ("c.bvh", "l.safetensors", "s.obj", "n.safetensors"))
    body = Skeleton(("base", "arm"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    turns = np.random.default_rng(0).normal(scale=0.3, size=(600, 2, 3))
    save(Motion(body, 30.0, np.zeros((600, 3)), SO3.exp(turns)), clip)
    assert run("limits", "fit", clip, "-o", limits, "--resolution", 16).code == 0
    facts = json_of(run("limits", "export", limits, "arm", "-o", surface, "--clip", clip, "--json"))
    assert facts["num_vertices"] == surface.read_text().count("v ") > 100
    assert run("limits", "import", limits, "arm", surface, "-o", sculpted, "--json").code == 0
    violation = load_limits(sculpted).violations(load(clip).rotations)[:, 1]
    assert np.mean(violation <= 1e-9) > 0.95
    refused = run("limits", "export", limits, "base", "-o", surface)
    assert refused.code == 1
    assert "free" in refused.err


def test_a_style_keeps_a_joint_still_or_draws_it_to_an_angle(run, stand):
    plain = json_of(run("optimize", stand, "--json"))
    styled = json_of(run("optimize", stand, "--still", "hip", "--json"))
    assert plain["status"] == styled["status"] == "converged"
    assert styled["objective"] != plain["objective"]
    wrong = run("optimize", stand, "--pose", "hip")
    assert wrong.code == 2
    assert "COORDINATE=RADIANS" in wrong.err


def test_a_store_keeps_the_motion_of_a_problem_and_begins_there(run, stand, tmp_path):
    arguments = ("optimize", stand, "--store", tmp_path / "store", "-o", tmp_path / "m.safetensors", "--json")
    first, second = json_of(run(*arguments)), json_of(run(*arguments))
    assert first["is_improved"] and first["distance"] is None
    assert second["distance"] == 0.0
    assert second["violation"] <= first["violation"]
    assert load(tmp_path / "m.safetensors").num_frames > 2


def test_a_shipped_problem_can_be_written_to_be_changed(run, stand, tmp_path):
    assert run("optimize", stand, "--save", tmp_path / "copy.toml").code == 0
    assert json_of(run("optimize", tmp_path / "copy.toml", "--json"))["status"] == "converged"


def test_the_style_of_a_person_joins_the_model(run, tmp_path):
    out = tmp_path / "me.safetensors"
    facts = json_of(run("fit", "person", "walk", "--name", "me", "-o", out, "--json"))
    assert "me" in load_model(out).styles
    assert sum(facts["style"].values()) == pytest.approx(1.0, abs=1e-3)
    assert facts["gait"] == "walk"
    script = tmp_path / "s.toml"
    script.write_text('style = "me"\nrate_hz = 30\n[[action]]\nspeed = 1.2\nseconds = 0.5\n')
    assert run("walk", script, "--model", out).code == 0
    assert json_of(run("fit", "person", "walk", "-o", out, "--json"))["name"] == "walk"
    assert run("fit", "person", "-o", out).code == 2


def test_a_model_is_learnt_from_the_clips_that_step_as_a_problem(run, tmp_path):
    facts = json_of(run("fit", "jump", "walk", "--for", "jump-0.4", "-o", tmp_path / "m.safetensors", "--json"))
    assert facts["clips"] == ["jump"]


def test_the_choice_of_a_number_of_components_is_drawn(run, walk, tmp_path):
    assert run("fit", walk, "-o", tmp_path / "m.safetensors", "--select", tmp_path / "s.png").code == 0
    assert (tmp_path / "s.png").read_bytes().startswith(PNG)


def test_speed_and_height_are_plotted(run, walk, tmp_path):
    assert run("plot", walk, "--speed", "-o", tmp_path / "s.png").code == 0
    assert (tmp_path / "s.png").read_bytes().startswith(PNG)
    assert run("plot", walk, "--speed", "--contacts", "-o", tmp_path / "s.png").code == 2


def test_pictures_are_facts_too(run, walk, tmp_path):
    for verb, name in (("strip", "s.png"), ("plot", "p.png")):
        facts = json_of(run(verb, walk, "-o", tmp_path / name, "--json"))
        assert facts["out"] == str(tmp_path / name)
        assert (tmp_path / name).is_file()


def test_a_script_of_the_thesis_becomes_toml(run, tmp_path):
    assert run("walk", "walk", "--save", tmp_path / "s.toml").code == 0
    again, first = load_script(tmp_path / "s.toml"), load_script(samples.script_file("walk"))
    assert again.timeline == first.timeline


def test_flights_are_listed_with_their_gravity(run):
    facts = json_of(run("physics", "jump", "--flights", "--json"))
    assert [round(flight["vertical"]) for flight in facts["flights"]] == [-10]
    assert "free fall" in run("physics", "jump", "--flights").out


def test_a_figure_hangs_by_a_pinned_hand_and_goes_to_mujoco(run, tmp_path):
    xml, out = tmp_path / "b.xml", tmp_path / "o.safetensors"
    options = ("--seconds", "0.5", "--height-m", "0.3", "-o", out, "--mjcf", xml)
    facts = json_of(run("simulate", "walk", "--pin", "left_wrist:0.2,1.6,0", *options, "--json"))
    assert facts["mode"] == "drop"
    assert xml.read_text().startswith("<mujoco>")
    motion = load(out)
    wrist = motion.joint_positions()[-1, motion.skeleton.index("left_wrist")]
    np.testing.assert_allclose(wrist, [0.2, 1.6, 0.0], atol=0.02)
    wrong = run("simulate", "walk", "--pin", "left_wrist:1,2")
    assert wrong.code == 1
    assert "JOINT:X,Y,Z" in wrong.err


@pytest.mark.parametrize("option", ["--in-place", "--back-and-forth"])
def test_references_other_than_the_clip_are_tracked(run, option):
    facts = json_of(run("simulate", "walk", "--mode", "track", option, 1.0, "--seconds", 0.1, "--json"))
    assert facts["fall"] is None


def test_programmes_of_a_file_drive_a_scene(run, tmp_path):
    from marey.muscle import load_scene

    spline = load_scene("fork").parts.splines[0].name
    (tmp_path / "p.csv").write_text(f"time_s,{spline}\n0,0\n0.05,1\n")
    facts = json_of(run("muscle", "fork", "--programmes", tmp_path / "p.csv", "--seconds", 0.05, "--json"))
    assert facts["num_frames"] > 1
    assert run("muscle", "fork", "--programmes", tmp_path / "none.csv").code == 1
    (tmp_path / "p.csv").write_text(f"time_s,{spline}\n0,zero\n")
    wrong = run("muscle", "fork", "--programmes", tmp_path / "p.csv")
    assert wrong.code == 1
    assert "p.csv" in wrong.err
    (tmp_path / "p.toml").write_text(f'["{spline}"]\nkind = "constant"\nvalue = 0.2\n')
    assert run("muscle", "fork", "--programmes", tmp_path / "p.toml", "--seconds", 0.05).code == 0


def test_results_in_python_are_a_line_a_table_and_a_plot(tmp_path):
    import marey

    walk = marey.load("walk")
    hand = marey.PointTask("right_wrist", target_world=(0.4, 1.3, 0.2))
    result = marey.solve_ik(walk.skeleton, [hand], start=walk[0])
    assert repr(result).startswith("IKResult(CONVERGED")
    assert result.to_csv(tmp_path / "r.csv").splitlines()[0] == "index,errors,reached,skipped"
    assert (tmp_path / "r.csv").read_text() == result.to_csv()
    from marey.dynamics import Body, check_validity

    report = check_validity(walk, Body.from_motion(walk))
    assert len(report.to_csv().splitlines()) == 1 + walk.num_frames
    report.plot(tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(PNG)
    curve = marey.models.selection_curve([walk], counts=[1, 2])
    assert len(repr(curve)) < 200
    curve.plot(tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(PNG)


def test_rooms_and_names_are_found_by_completion():
    import marey

    assert {"locomotion", "dynamics", "load", "solve_ik"} <= set(dir(marey))


@pytest.mark.mocap
def test_a_joint_goes_by_its_role_in_python_too(mocap):
    import marey

    clip = marey.load(mocap / "cmu-bvh" / "02_01.bvh")
    assert clip.skeleton.names[clip.skeleton.index("right_wrist")] == "RightHand"
    hand = marey.PointTask("right_wrist", clip.joint_positions()[0, clip.skeleton.index("RightHand")] + [0.0, 0.1, 0.0])
    assert marey.solve_ik(clip.skeleton, [hand], start=clip[0]).position_error_m < 1e-3


def test_a_verb_is_compiled_ahead(run):
    result = run("warm-up", "ik", "--json")
    line = json_of(result)
    assert (line["verb"], line["exit_code"]) == ("ik", 0)
    assert run("warm-up", "sing").code == 2


@pytest.mark.parametrize(
    "words",
    [("--start-s", "nan"), ("--stop-s", "inf"), ("--rate-hz", "1e30"), ("--read-rate-hz", "1e308")],
)
def test_numbers_that_nothing_can_be_done_with_are_an_error_of_usage(run, walk, tmp_path, words):
    result = run("convert", walk, tmp_path / "a.bvh", *words)
    assert result.code == 2 and words[0] in result.err and "no number to work with" in result.err
    assert not (tmp_path / "a.bvh").exists()


def test_a_time_behind_the_end_is_named_in_one_sentence(run, walk, tmp_path):
    result = run("convert", walk, tmp_path / "a.bvh", "--start-s", "1e9")
    assert result.code == 1 and "no frame from 1e+09 s. It lasts" in result.err


@pytest.mark.parametrize("rate_hz", [1e-7, 2e6, float("nan"), float("inf"), 0.0, -30.0])
def test_rates_that_no_clip_has_are_refused(walk, rate_hz):
    with pytest.raises(InputError, match="positive number of frames per second"):
        load(walk, rate_hz=rate_hz)
