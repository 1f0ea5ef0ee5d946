"""The graph of the synthesised clips is made once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.graph_parts import graph_bytes

from marey.locomotion import Engine, load_model
from marey.samples import demo_graph
from marey.samples import graph_clips as _clips
from marey.samples.cached_graph import cache_folder
from marey.samples.picking import pick_up


@pytest.fixture
def few_clips(monkeypatch):
    """Three clips in place of all."""
    model = load_model()
    walks = [_clips._perform_timeline(model, f"walk-{v}", _clips._build_timeline(v, 1.2)) for v in (0.9, 1.2)]
    made = (*walks, pick_up(Engine(model).pose, [-0.1, 0.9, 0.4]))
    monkeypatch.setattr("marey.samples.cached_graph.demo_clips", lambda: made)


def test_demo_graph_is_kept_and_made_anew_when_damaged(few_clips, tmp_path):
    seen = []
    first = demo_graph(folder=tmp_path, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (6, 6)
    assert first.database.behaviours.count("pick") == 2
    (file,) = tmp_path.glob("demo-graph-*.safetensors")
    again = demo_graph(folder=tmp_path, on_progress=lambda done, total: pytest.fail("it was built twice"))
    assert graph_bytes(again) == graph_bytes(first)
    file.write_bytes(file.read_bytes()[:1000])
    assert graph_bytes(demo_graph(folder=tmp_path)) == graph_bytes(first)
    assert file.stat().st_size > 1000


def test_graphs_of_other_versions_are_forgotten(few_clips, tmp_path):
    old = tmp_path / "demo-graph-000000000000.safetensors"
    old.write_bytes(b"old")
    demo_graph(folder=tmp_path)
    assert not old.exists()


def test_cache_that_cannot_be_written_is_no_error(few_clips, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    assert demo_graph(folder=blocked).num_states > 1


def test_a_stand_is_shown_no_longer_than_it_is_of_use(few_clips, tmp_path):
    """Clips stand still for half a second at their ends; nobody who comes by has to wait for that."""
    arrays = demo_graph(folder=tmp_path).arrays
    leaves = arrays.is_standing[arrays.source]
    assert leaves.any()
    assert arrays.seconds[leaves].max() < 0.15


def test_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("MAREY_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("MAREY_CACHE")
    assert isinstance(cache_folder(), Path)
    assert cache_folder().name == "marey"
