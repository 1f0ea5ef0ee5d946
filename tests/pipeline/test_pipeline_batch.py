"""Batches: many sketches, whole files, runs that go on where they stopped, workers that die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path as FilePath

import pytest

from marey.base import FormatError, InputError, write_atomically
from marey.io import load
from marey.pipeline import run_batch
from marey.pipeline.batch import BatchJob, count_workers, load_finished_item, run_job, store_result
from marey.world import GroundPose, Path, Sketch, save_sketch, sketch_to_toml

FAST = {"check": False, "rate_hz": 30.0}


def walk(name: str, x: float = 0.0, z: float = 2.0) -> Sketch:
    return Sketch(GroundPose((0.0, 0.0)), GroundPose((x, z)), path=Path(((0.0, 0.0), (x, z))), name=name)


def listed(folder: FilePath) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_batch_writes_motions_and_reports_and_does_not_make_them_again(tmp_path):
    save_sketch(walk("other"), tmp_path / "b.toml")
    seen: list[tuple[str, int, int]] = []
    sketches = [walk("a"), tmp_path / "b.toml"]
    out = tmp_path / "out"
    report = run_batch(sketches, out, workers=1, on_item=lambda i, n, m: seen.append((i.name, n, m)), **FAST)
    assert [(item.name, item.file, item.is_skipped) for item in report.items] == [
        ("a", "a.bvh", False), ("b", "b.bvh", False)
    ]  # fmt: skip
    assert seen == [("a", 1, 2), ("b", 2, 2)]
    assert listed(out) == {"a.bvh", "a.json", "b.bvh", "b.json"}
    frames = json.loads((out / "a.json").read_text(encoding="utf-8"))["frames"]
    assert load(out / "a.bvh").num_frames == frames
    stamp = (out / "a.bvh").stat().st_mtime_ns
    again = run_batch(sketches, out, workers=1, **FAST)
    assert again.num_skipped == 2 and "2 of 2" in again.sentence
    assert (out / "a.bvh").stat().st_mtime_ns == stamp
    (out / "a.bvh").unlink()
    changed = run_batch([walk("a"), walk("b", z=2.5)], out, workers=1, **FAST)
    assert [item.is_skipped for item in changed.items] == [False, False]


@pytest.mark.slow
def test_a_sketch_without_a_motion_does_not_stop_the_others(tmp_path):
    sketches = [walk("far", x=0.0), walk("good")]
    bad = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 0.0)), name="nowhere")
    report = run_batch([*sketches, bad], tmp_path, engine="locomotion", workers=1, **FAST)
    assert [item.is_solved for item in report.items] == [True, True, False]
    assert report.items[2].status == "ERROR" and "same place" in report.items[2].error
    assert "nowhere (ERROR)" in report.sentence


def test_mistakes_are_told_before_anything_is_made(tmp_path):
    with pytest.raises(InputError, match="two sketches are called 'a'"):
        run_batch([walk("a"), walk("a", x=1.0)], tmp_path)
    with pytest.raises(InputError, match=r"\.xyz"):
        run_batch([walk("a")], tmp_path, suffix=".xyz")
    with pytest.raises(InputError, match="plain data"):
        run_batch([walk("a")], tmp_path, cancel=threading.Event())
    with pytest.raises(InputError, match="no graph file"):
        run_batch([walk("a")], tmp_path, graph=tmp_path / "none.safetensors")
    (tmp_path / "bad.toml").write_text("version = 1\nspeed = 3\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"bad\.toml"):
        run_batch([tmp_path / "bad.toml"], tmp_path)
    assert listed(tmp_path) == {"bad.toml"}


def test_files_of_a_job_are_whole_and_its_report_stands_for_them(tmp_path):
    job = BatchJob("a", sketch_to_toml(walk("a")), options=dict(FAST))
    assert load_finished_item(job, tmp_path) is None
    report, data = run_job(job)
    write_atomically(tmp_path / "a.bvh", data)
    assert load_finished_item(job, tmp_path) is None  # killed before the report was written
    assert store_result(report, data, tmp_path).is_solved
    assert load_finished_item(job, tmp_path) is not None
    assert load_finished_item(BatchJob("a", job.sketch, options={"rate_hz": 60.0}), tmp_path) is None
    (tmp_path / "a.json").write_text('{"key": ', encoding="utf-8")
    assert load_finished_item(job, tmp_path) is None
    assert count_workers(3, 8) == 3 and count_workers(100, 1) == 1 and count_workers(1, None) == 1


def test_a_killed_worker_takes_one_try_with_it(tmp_path):
    """The process that makes motions is killed once; the batch starts another and ends well."""
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            time.sleep(0.05)
            listing = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False)
            for pid in map(int, listing.stdout.split()):
                words = FilePath(f"/proc/{pid}/cmdline")
                if words.exists() and b"marey.pipeline.worker" in words.read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    report = run_batch([walk("a"), walk("b")], tmp_path, workers=1, **FAST)
    killer.join(1.0)
    assert killed
    assert report.num_solved == 2
    assert listed(tmp_path) == {"a.bvh", "a.json", "b.bvh", "b.json"}


KILLED = """
import sys
from marey.pipeline import run_batch
run_batch(sys.argv[2:], sys.argv[1], workers=1, check=False, rate_hz=30.0)
"""


@pytest.mark.slow
def test_a_killed_run_leaves_whole_files_and_goes_on(tmp_path):
    files = []
    for n in range(6):
        save_sketch(walk(f"s{n}", x=0.1 * n), tmp_path / f"s{n}.toml")
        files.append(str(tmp_path / f"s{n}.toml"))
    out = tmp_path / "out"
    run = subprocess.Popen([sys.executable, "-c", KILLED, str(out), *files])
    until = time.monotonic() + 60.0
    while not list(out.glob("*.json")) and time.monotonic() < until:
        time.sleep(0.02)
    run.kill()
    run.wait()
    time.sleep(0.5)  # its worker ends with the pipe, after the job at hand
    done = {file.stem for file in out.glob("*.json")}
    assert done
    for name in done:
        assert load(out / f"{name}.bvh").num_frames > 10
    report = run_batch(files, out, workers=1, **FAST)
    assert report.num_solved == 6
    assert report.num_skipped >= len(done)


@pytest.mark.slow
def test_a_cluster_of_two_makes_the_same_motions_though_one_dies(tmp_path):
    distributed = pytest.importorskip("distributed")
    sketches = [walk(f"s{n}", x=0.1 * n) for n in range(8)]
    links: list[str] = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        victim = next(iter(cluster.workers.values())).process.pid

        def kill(item, done, total):
            if done == 2:
                os.kill(victim, signal.SIGKILL)

        report = run_batch(
            sketches, tmp_path / "far", cluster=cluster.scheduler_address, on_item=kill, on_link=links.append, **FAST
        )
    assert report.num_solved == 8
    assert links[0].startswith("http://")
    here = run_batch(sketches, tmp_path / "near", workers=1, **FAST)
    assert here.num_solved == 8
    for n in range(8):
        assert (tmp_path / "far" / f"s{n}.bvh").read_bytes() == (tmp_path / "near" / f"s{n}.bvh").read_bytes()


def test_a_scheduler_that_does_not_answer_is_told(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    import marey.base.jobs as jobs

    monkeypatch.setattr(jobs, "CONNECT_S", 0.3)
    with pytest.raises(InputError, match="no Dask scheduler"):
        run_batch([walk("a")], tmp_path, cluster="tcp://127.0.0.1:9")
