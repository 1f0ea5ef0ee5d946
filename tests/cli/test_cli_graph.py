"""The verbs of `marey graph`: clips in, a graph out; a sketch in, a way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marey.cli import main
from marey.cli.common import group_notes
from marey.io import load, save
from marey.library import Library
from marey.locomotion import Engine, load_model
from marey.samples.figure import pick_up
from marey.samples.graph_clips import _build_timeline, _perform_timeline

SKETCH = """version = 1
[start]
position = [0.0, 0.0]
heading_deg = 0.0
[goal]
position = [0.0, 4.0]
tolerance_m = 0.3
[path]
points = [[0.0, 0.0], [0.0, 4.0]]
corridor_m = 1.0
"""


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    """A folder of walks and one pick."""
    folder, model = tmp_path_factory.mktemp("clips"), load_model()
    for speed in (0.8, 1.0, 1.2):
        save(
            _perform_timeline(model, f"walk-{speed}", _build_timeline(speed, 1.2)), folder / f"walk-{speed}.safetensors"
        )
    save(pick_up(Engine(model).pose, [-0.1, 0.2, 0.4]), folder / "pick.safetensors")
    return folder


@pytest.fixture(scope="module")
def graph(clips, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("graph") / "walks.safetensors"
    assert main(["graph", "build", str(clips), "-o", str(file), "--set", "density=40", "--mirror"]) == 0
    return file


@pytest.fixture
def sketch(tmp_path) -> Path:
    file = tmp_path / "ahead.toml"
    file.write_text(SKETCH, encoding="utf-8")
    return file


def test_build_tells_what_it_made(run, clips, tmp_path):
    out = tmp_path / "one.safetensors"
    done = run("graph", "build", clips, "-o", out, "--set", "density=40", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["clips"] == 4
    assert facts["states"] > 1
    assert out.is_file()
    again = run("graph", "build", clips, "-o", tmp_path / "two.safetensors", "--set", "density=40")
    assert again.code == 0
    assert "poses" in again.out
    assert (tmp_path / "two.safetensors").read_bytes() == out.read_bytes()


def test_info_says_the_events(run, graph):
    done = run("graph", "info", graph)
    assert done.code == 0, done.err
    assert "pick: 2 events" in done.out
    facts = json.loads(run("graph", "info", graph, "--json").out)
    assert facts["behaviours"]["pick"] == 2


def test_library_is_a_source_with_conditions(run, clips, tmp_path):
    folder = tmp_path / "library"
    with Library(folder) as store:
        store.add([str(clips)], tags=["demo"], workers=0)
    out = tmp_path / "g.safetensors"
    done = run("graph", "build", folder, "-o", out, "--tag", "demo", "--set", "density=40", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["clips"] == 4
    none = run("graph", "build", folder, "-o", out, "--tag", "other")
    assert none.code != 0
    assert "no clip" in none.err


def test_search_finds_a_way_and_writes_it(run, graph, sketch, tmp_path):
    out, strip = tmp_path / "way.bvh", tmp_path / "way.png"
    done = run("graph", "search", graph, sketch, "-o", out, "--strip", strip, "--k", 1, "--budget-s", 10, "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["status"] in ("OPTIMAL", "BOUNDED")
    assert facts["errors_m"][-1] <= 0.3 + 1e-9
    assert abs(load(out).root_positions[-1, 2] - 4.0) < 0.35
    assert strip.read_bytes()[:4] == b"\x89PNG"


def test_search_tells_of_every_solution(run, graph, sketch):
    done = run("graph", "search", graph, sketch, "--k", 1, "--epsilon", "5,2", "--budget-s", 10)
    assert done.code == 0, done.err
    assert "cost" in done.out
    assert "epsilon 5" in done.err


def test_search_without_a_way_says_why(run, graph, tmp_path):
    file = tmp_path / "walled.toml"
    wall = "[[wall]]\nstart = [-3.0, 2.0]\nend = [3.0, 2.0]\n"
    file.write_text(SKETCH + wall, encoding="utf-8")
    done = run("graph", "search", graph, file, "--json")
    assert done.code == 1
    facts = json.loads(done.out)
    assert facts["status"] == "NO_2D_ROUTE"
    assert facts["advice"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "density"], "name=value"),
        (["--set", "densty=3"], "density"),
        (["--set", "density=-3"], "density"),
    ],
)
def test_bad_settings_are_refused(run, clips, tmp_path, arguments, said):
    done = run("graph", "build", clips, "-o", tmp_path / "g.safetensors", *arguments)
    assert done.code != 0
    assert said in done.err


def test_targets_are_checked_before_the_work(run, clips, graph, sketch, tmp_path):
    assert ".safetensors" in run("graph", "build", clips, "-o", tmp_path / "g.npz").err
    assert "no folder" in run("graph", "build", clips, "-o", tmp_path / "none" / "g.safetensors").err
    assert "cannot write" in run("graph", "search", graph, sketch, "-o", tmp_path / "way.txt").err
    assert "not a list of numbers" in run("graph", "search", graph, sketch, "--epsilon", "three").err


def test_empty_folder_and_damaged_graph_are_refused(run, tmp_path, graph):
    (tmp_path / "empty").mkdir()
    done = run("graph", "build", tmp_path / "empty", "-o", tmp_path / "g.safetensors")
    assert done.code == 1
    assert "no motion files" in done.err
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(graph.read_bytes()[:2000])
    assert run("graph", "info", broken).code == 1
    assert run("graph", "info", tmp_path / "missing.safetensors").code == 1


def test_unknown_sketch_name_lists_the_shipped(run, graph):
    done = run("graph", "search", graph, "salom")
    assert done.code == 1
    assert "slalom" in done.err


def test_notes_on_thousands_of_clips_are_told_once():
    notes = [f"'clip {n}' climbs by 0.{n} m and is left out" for n in range(5000)]
    told = group_notes(("'first' is too short and is left out", *notes))
    assert told[:2] == ["'first' is too short and is left out", notes[0]]
    assert told[-1] == f"{notes[3]}; so it is with 4996 more" and len(told) == 5
    assert group_notes(notes[:4]) == notes[:4]
