"""The verb `muscle`: scenes in, films and figures out; and the muscles of a clip."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.io import save
from marey.muscle import scene_names

FINGER = """
title = "A finger"
seconds = 0.1
[mesh]
spacing_m = 0.06
[[solid]]
kind = "rod"
points = [[0, 0, 0], [0, 0, 0.2]]
radii = [0.04]
[[pin]]
low = [-1, -1, -1]
high = [1, 1, 0.0]
[[spline]]
name = "flexor"
points = [[0, 0.02, 0], [0, 0.02, 0.2]]
"""


@pytest.fixture
def finger(tmp_path: Path) -> Path:
    file = tmp_path / "finger.toml"
    file.write_text(FINGER, encoding="utf-8")
    return file


def test_muscle_lists_the_shipped_scenes(run):
    lines = run("muscle", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(scene_names())
    assert set(json.loads(run("muscle", "--list", "--json").out)) == set(scene_names())


def test_muscle_plays_a_scene_and_writes_its_film(run, finger, tmp_path):
    out, strip = tmp_path / "finger.glb", tmp_path / "finger.png"
    found = run("muscle", finger, "-o", out, "--strip", strip, "--width", "200", "--json")
    assert found.code == 0
    facts = json.loads(found.out)
    assert facts["num_frames"] == 7 and facts["failed"] == [] and facts["metrics"]["cells"] > 10
    assert out.read_bytes()[:4] == b"glTF" and strip.read_bytes()[1:4] == b"PNG"
    assert "wrote" in found.err


def test_muscle_gives_the_same_bytes_every_time(run, finger, tmp_path):
    for name in ("a.npz", "b.npz"):
        assert run("muscle", finger, "-o", tmp_path / name, "-a", "flexor=0.5").code == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_activation_on_the_command_line_contracts_the_spline(run, finger, tmp_path):
    assert run("muscle", finger, "-a", "flexor=1.0", "-o", tmp_path / "f.npz", "--seconds", "0.05").code == 0
    with np.load(tmp_path / "f.npz") as film:
        np.testing.assert_allclose(film["alphas"], 0.6)
        assert film["times"][-1] == pytest.approx(0.05)


def test_goals_find_the_activations_that_meet_them(run, finger, tmp_path):
    finger.write_text(FINGER + "[material]\ngravity_m_s2 = 0.0\n", encoding="utf-8")
    assert run("muscle", finger, "-a", "flexor=0.6", "--seconds", "0.3", "-o", tmp_path / "a.npz").code == 0
    with np.load(tmp_path / "a.npz") as film:
        tip = int(np.argmax(film["positions"][0][:, 2]))
        before, after = film["positions"][0][tip], film["positions"][-1][tip]
    goal = "=".join(",".join(f"{c:.4f}" for c in p) for p in (before, after)) + "@0.3"
    found = run("muscle", finger, "--goal", goal, "--json")
    assert found.code == 0
    facts = json.loads(found.out)
    assert facts["goal_errors_m"][0] < 0.2 * np.linalg.norm(after - before)
    assert facts["iterations"] >= 1


def test_a_check_that_does_not_hold_is_exit_code_one(run, finger):
    finger.write_text(FINGER + '[[check]]\nmetric = "shortening_max"\nat_least = 0.5\n', encoding="utf-8")
    found = run("muscle", finger)
    assert found.code == 1
    assert "less than 0.5" in found.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "give a SCENE"),
        (["lizzard"], 1, "Did you mean 'lizard'"),
        (["FINGER", "-o", "film.xyz"], 2, "cannot write"),
        (["FINGER", "-o", "nowhere/film.glb"], 2, "no folder"),
        (["FINGER", "-a", "flexor"], 2, "no activation"),
        (["FINGER", "-a", "flexor=2"], 2, "no activation"),
        (["FINGER", "-a", "thumb=0.5"], 2, "no spline 'thumb'"),
        (["missing.toml"], 1, "missing.toml"),
        (["FINGER", "--goal", "tip=1,2"], 2, "is no goal"),
        (["FINGER", "--goal", "a,b,c=0,0,0@1"], 2, "is no goal"),
        (["FINGER", "--goal", "tip=0,0,0@1", "--seconds", "1"], 2, "leave the others out"),
    ],
)
def test_wrong_usage_is_one_line(run, finger, arguments, code, message):
    found = run("muscle", *[str(finger) if a == "FINGER" else a for a in arguments])
    assert found.code == code
    assert message in found.err and found.err.count("\n") == 1


def test_muscles_of_a_clip_are_found_and_written(run, tmp_path):
    clip, out = tmp_path / "walk.bvh", tmp_path / "walk.csv"
    save(samples.walk()[:40], clip)
    found = run("muscle", clip, "-o", out, "--json")
    assert found.code == 0
    facts = json.loads(found.out)
    assert facts["given"] > 0.5 and len(facts["busiest"]) == 5
    head = out.read_text(encoding="utf-8").splitlines()[0].split(",")
    assert head[0] == "time_s"
    for kind in ("activation", "excitation", "force_n", "length_m"):
        assert [name for name in head if name.endswith(kind)] == [f"{muscle}.{kind}" for muscle in facts["muscles"]]
    assert any(name.endswith("torque_nm") for name in head)
