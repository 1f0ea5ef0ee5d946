"""`marey synth` with a graph, and with several sketches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marey.io import load

WAY = """version = 1
[start]
position = [0.0, 0.0]
[goal]
position = [0.0, 2.5]
tolerance_m = 0.4
[path]
points = [[0.0, 0.0], [0.0, 2.5]]
corridor_m = 1.2
"""


@pytest.fixture
def way(tmp_path: Path) -> Path:
    file = tmp_path / "way.toml"
    file.write_text(WAY, encoding="utf-8")
    return file


def test_several_sketches_make_a_folder(run, way, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(WAY.replace("2.5", "2.0"), encoding="utf-8")
    out = tmp_path / "out"
    done = run("synth", way, other, "-o", out, "--rate-hz", "30", "--workers", "1", "--json")
    assert done.code == 0, done.err
    items = json.loads(done.out)["items"]
    assert [item["file"] for item in items] == ["way.bvh", "other.bvh"]
    assert load(out / "way.bvh").num_frames > 30
    again = run("synth", way, other, "-o", out, "--rate-hz", "30", "--workers", "1")
    assert again.code == 0 and "2 from an earlier run" in again.out


def test_several_sketches_need_a_folder(run, way, tmp_path):
    assert run("synth", way, way).code == 2


def test_an_unknown_sketch_is_told_with_near_names(run):
    done = run("synth", "three-river")
    assert done.code == 1
    assert "three-rivers" in done.err


@pytest.mark.mocap
def test_a_graph_file_makes_auto_search_it(run, way, tmp_path, mocap):
    from marey.graph import build_graph, save_graph

    file = tmp_path / "walks.safetensors"
    save_graph(build_graph([load(mocap / "cmu-bvh" / f"{name}.bvh") for name in ("69_01", "69_70", "69_75")]), file)
    done = run("synth", way, "-o", tmp_path / "way.glb", "--graph", file, "--k", "1", "--budget-s", "20", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["engine"] == "graph"
    assert facts["errors"]["off_corridor_m"] <= 0.01
    assert load(tmp_path / "way.glb").num_frames == facts["frames"]
