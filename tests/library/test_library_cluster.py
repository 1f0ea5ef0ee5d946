"""A library filled by a cluster: the same clips as at home, workers without a common disk, one of them killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from marey.base import InputError
from marey.io import save
from marey.library import Library
from marey.library.clip_library import collect_files, stage_bytes
from marey.library.ingest import file_stamp
from marey.library.records import IngestJob
from marey.library.worker import answer_request
from marey.samples import walk


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    for n in range(6):
        save(walk()[n : 60 + n], folder / f"07_{n:02d}.bvh")
    (folder / "08_01.bvh").write_text("HIERARCHY\nnothing\n", encoding="utf-8")
    return folder


def test_a_clip_staged_from_bytes_is_the_clip_staged_from_its_file(archive, tmp_path):
    job = IngestJob(str(archive / "07_01.bvh"), ("walk",))
    line, data = stage_bytes(job, collect_files(job), file_stamp(job.path))
    here = tmp_path / "here.safetensors"
    request = {"path": job.path, "tags": ["walk"], "subject": None, "rate_hz": None, "unit": None}
    own = json.loads(answer_request(json.dumps({"job": request, "clip_file": str(here)})))
    assert json.loads(line) == own
    assert data == [here.read_bytes()]


def test_a_bad_file_is_named_as_it_was_given(archive):
    job = IngestJob(str(archive / "08_01.bvh"))
    line, data = stage_bytes(job, collect_files(job), "")
    assert data == []
    assert json.loads(line)["refused"][0]["message"].startswith(str(archive / "08_01.bvh"))


def test_skeletons_beside_a_trial_go_with_it(tmp_path):
    for name in ("07.asf", "07_01.amc", "other.bvh"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert set(collect_files(IngestJob(str(tmp_path / "07_01.amc")))) == {"07.asf", "07_01.amc"}
    assert collect_files(IngestJob(str(tmp_path / "none.bvh"))) == {}


def test_a_scheduler_that_does_not_answer_is_told(archive, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    import marey.base.jobs as jobs

    monkeypatch.setattr(jobs, "CONNECT_S", 0.3)
    with pytest.raises(InputError, match="no Dask scheduler"), Library(tmp_path / "library") as library:
        library.add(archive, cluster="tcp://127.0.0.1:9")


@pytest.mark.slow
def test_a_cluster_of_two_fills_a_library_though_one_dies(archive, tmp_path):
    distributed = pytest.importorskip("distributed")
    links: list[str] = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        Library(tmp_path / "far") as far,
    ):
        victim = next(iter(cluster.workers.values())).process.pid
        killed: list[int] = []

        def kill(done: int, total: int, result: object) -> None:
            if not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        report = far.add(archive, cluster=cluster.scheduler_address, on_link=links.append, progress=kill)
        again = far.add(archive, cluster=cluster.scheduler_address)
        ids = {clip.id for clip in far.clips()}
    assert links and links[0].startswith("http://")
    assert len(report.failed) == 1 and len(ids) == 6
    assert len(again.failed) == 1 and not again.added
    with Library(tmp_path / "near") as near:
        near.add(archive, workers=0)
        assert {clip.id for clip in near.clips()} == ids
        assert near.verify().is_sound
