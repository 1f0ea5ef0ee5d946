"""A whole archive: read, fitted, built; done work is kept, bad files are named, a cluster does the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from oracles.graph_parts import graph_bytes

from marey.base import InputError, UnknownNameError
from marey.graph import load_graph
from marey.io import save
from marey.library import Library
from marey.models import load_model
from marey.pipeline import run_archive
from marey.samples import walk


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    for n in range(3):
        save(walk()[20 * n : 150 + 30 * n], folder / f"07_{n:02d}.bvh")
    (folder / "08_01.bvh").write_text("HIERARCHY\nnothing\n", encoding="utf-8")
    return folder


def test_an_archive_becomes_library_models_and_graph_once(archive, tmp_path):
    steps: list[tuple[str, int, int]] = []
    report = run_archive(archive, tmp_path / "out", workers=1, on_step=lambda *step: steps.append(step))
    assert report.clips == 3 and len(report.failed) == 1 and "08_01.bvh" in report.failed[0]
    assert report.graph is not None and load_graph(report.graph).size.poses > 100
    assert load_model(tmp_path / "out" / "models" / f"{report.models[0]}.safetensors").num_components >= 1
    assert {step for step, _, _ in steps} == {"read", "fit", "graph"}
    assert steps[-1] == ("graph", 3, 3)
    again = run_archive(archive, tmp_path / "out", workers=1)
    assert set(again.kept) == {*report.models, "graph"}
    assert "from an earlier run" in again.sentence


def test_new_clips_are_taken_in_and_results_made_anew(archive, tmp_path):
    first = run_archive(archive, tmp_path / "out", workers=1)
    save(walk()[5:200], archive / "07_09.bvh")
    second = run_archive([archive], tmp_path / "out", workers=1)
    assert (first.clips, second.clips) == (3, 4)
    assert "graph" not in second.kept


def test_clips_that_make_no_graph_are_told(tmp_path):
    save(walk()[:12], tmp_path / "short.bvh")
    report = run_archive(tmp_path / "short.bvh", tmp_path / "out", workers=1)
    assert report.graph is None and report.advice
    assert "no graph" in report.sentence


def test_an_archive_without_motions_and_an_unknown_setting_are_told(archive, tmp_path):
    with pytest.raises(InputError, match="could be read"):
        run_archive(archive / "08_01.bvh", tmp_path / "none", workers=1)
    with pytest.raises(UnknownNameError, match="densty"):
        run_archive(archive, tmp_path / "out", workers=1, densty=3.0)


@pytest.mark.slow
def test_a_cluster_of_two_makes_the_same_graph_though_one_dies(archive, tmp_path):
    distributed = pytest.importorskip("distributed")
    links: list[str] = []
    killed: list[int] = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        victim = next(iter(cluster.workers.values())).process.pid

        def kill(step: str, done: int, total: int) -> None:
            if not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        far = run_archive(
            archive, tmp_path / "far", cluster=cluster.scheduler_address, on_step=kill, on_link=links.append
        )  # fmt: skip
    near = run_archive(archive, tmp_path / "near", workers=1)
    assert killed and links[0].startswith("http://")
    with Library(tmp_path / "far" / "library") as one, Library(tmp_path / "near" / "library") as other:
        assert {clip.id for clip in one.clips()} == {clip.id for clip in other.clips()}
    assert graph_bytes(load_graph(far.graph)) == graph_bytes(load_graph(near.graph))
