"""The verb `synth`: sketches in, motions out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marey.io import load

SKETCH = """version = 1
[start]
position = [0.0, 0.0]
[goal]
position = [2.0, 5.0]
[path]
points = [[0.0, 0.0], [0.0, 3.0], [2.0, 5.0]]
corridor_m = 1.0
speed_mps = 1.2
"""


@pytest.fixture
def sketch(tmp_path: Path) -> Path:
    file = tmp_path / "path.toml"
    file.write_text(SKETCH, encoding="utf-8")
    return file


def test_synth_walks_a_sketch_and_writes_it(run, sketch, tmp_path):
    out = tmp_path / "walk.bvh"
    done = run("synth", sketch, "-o", out, "--engine", "locomotion", "--rate-hz", "30", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["off_path_m"] <= 0.5
    motion = load(out)
    assert motion.num_frames == facts["frames"]
    assert abs(motion.root_positions[-1, 2] - 5.0) < 0.2


def test_synth_draws_a_strip(run, sketch, tmp_path):
    picture = tmp_path / "strip.png"
    done = run("synth", sketch, "--strip", picture, "--count", "4")
    assert done.code == 0, done.err
    assert "corridor" in done.out
    assert done.err.startswith("marey: path: making a motion (engine auto)")
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_synth_names_the_line_of_a_mistake(run, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(SKETCH.replace("speed_mps = 1.2", "speed_mps = -1.2"), encoding="utf-8")
    done = run("synth", file)
    assert done.code == 1
    assert "bad.toml:9" in done.err


def test_synth_says_what_cannot_be_walked(run, tmp_path):
    file = tmp_path / "wide.toml"
    file.write_text(SKETCH + "[[river]]\nstart = [-5.0, 1.5]\nend = [5.0, 1.5]\nwidth_m = 4.0\n", encoding="utf-8")
    done = run("synth", file)
    assert done.code == 1
    assert "river 1" in done.err


@pytest.mark.parametrize("wrong", [("--engine", "magic"), ("-o", "walk.xyz"), ("-o", "nowhere/walk.bvh")])
def test_synth_refuses_wrong_usage(run, sketch, wrong):
    assert run("synth", sketch, *wrong).code == 2


def test_synth_says_what_the_optimiser_cannot_do(run, sketch):
    done = run("synth", sketch, "--engine", "spacetime")
    assert done.code == 1
    assert "walks straight" in done.err


def test_synth_touches_up_what_no_body_could_do(run, sketch, tmp_path):
    done = run("synth", sketch, "--engine", "locomotion", "--touch-up", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["touch_up"]["valid_after"] >= facts["touch_up"]["valid_before"]
    assert facts["validity"]["valid_fraction"] == pytest.approx(facts["touch_up"]["valid_after"], abs=1e-3)
    assert facts["errors"]["scraped_m"] <= 0.03 * facts["way_m"]


@pytest.mark.slow
def test_synth_watch_writes_the_first_motion_before_the_best(run, tmp_path):
    out = tmp_path / "way.glb"
    done = run("synth", "s-curve", "--engine", "graph", "--k", "1", "--budget-s", "5", "--watch", "-o", out)
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "times the best" in line]
    assert len(lines) >= 2, "only one motion was shown"
    assert load(out).num_frames > 100
