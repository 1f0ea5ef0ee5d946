"""The verb `demo`: a shipped sketch becomes a folder of results; on its first run a second process compiles ahead."""

from __future__ import annotations

import sys

import pytest

from marey import samples
from marey.cli.synthesis import demo_ahead as _demo_ahead
from marey.cli.synthesis.demo_ahead import compile_ahead, compile_kernels
from marey.graph import MotionGraph, build_graph
from marey.io import load

SHORT = """version = 1
[start]
position = [0.0, 0.0]
[goal]
position = [0.0, 2.0]
tolerance_m = 0.5
[path]
points = [[0.0, 0.0], [0.0, 2.0]]
corridor_m = 2.0
"""


@pytest.fixture(scope="module")
def small_graph() -> MotionGraph:
    return build_graph([samples.walk()], mirror=True)


def test_demo_synthesises_a_sketch(run, small_graph, tmp_path, monkeypatch):
    short = tmp_path / "short.toml"
    short.write_text(SHORT, encoding="utf-8")
    monkeypatch.setattr(samples, "demo_graph", lambda: small_graph)
    monkeypatch.setattr(samples, "demo_graph_file", lambda: tmp_path / "none")
    monkeypatch.setattr(samples, "sketch_file", lambda name: short)
    monkeypatch.setattr(_demo_ahead, "_start_compiler", lambda: None)
    done = run("demo", "-o", tmp_path / "demo", "--sample", "straight")
    assert done.code == 0, done.err
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {
        "straight.glb", "straight.bvh", "strip.png", "report.txt",
    }  # fmt: skip
    report = (tmp_path / "demo" / "report.txt").read_text(encoding="utf-8")
    assert report == done.out
    assert "straight:" in report and "(graph, " in report and f"{len(small_graph.arrays.target)} edges" in report
    assert abs(load(tmp_path / "demo" / "straight.bvh").root_positions[-1, 2] - 2.0) < 1.0
    assert "first run" in done.err


def test_demo_says_what_it_does_not_know(run, tmp_path):
    done = run("demo", "-o", tmp_path / "demo", "--sample", "nothing")
    assert done.code == 1
    assert "nothing" in done.err


def test_where_the_graph_is_kept_nothing_is_compiled_ahead(tmp_path, monkeypatch):
    kept = tmp_path / "graph.safetensors"
    kept.write_bytes(b"")
    monkeypatch.setattr(samples, "demo_graph_file", lambda: kept)
    monkeypatch.setattr(_demo_ahead, "_start_compiler", lambda: pytest.fail("a process was started"))
    said: list[str] = []
    with compile_ahead(said.append):
        pass
    assert said == []


def test_the_helper_is_ended_with_the_demo(tmp_path, monkeypatch):
    import subprocess

    started: list[subprocess.Popen[bytes]] = []

    def sleeper() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[0]

    monkeypatch.setattr(samples, "demo_graph_file", lambda: tmp_path / "none")
    monkeypatch.setattr(_demo_ahead, "_start_compiler", sleeper)
    said: list[str] = []
    with compile_ahead(said.append):
        pass
    assert len(said) == 1
    assert started[0].returncode is not None, "it was not ended"


def test_what_is_compiled_ahead_is_what_the_demo_calls():
    compile_kernels()
    from marey.graph.search import ara

    assert ara.expand_states.signatures
