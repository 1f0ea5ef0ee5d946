"""A library holds a clip whole or not at all, whoever is killed and however many write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from marey.io import write_clip
from marey.library import Library
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN

NUM_CLIPS = 24
ADD = (
    "import sys; from marey.library import Library; "
    "report = Library(sys.argv[1]).add(sys.argv[2], workers=int(sys.argv[3])); print(report)"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    rng = np.random.default_rng(2)
    for n in range(NUM_CLIPS):
        turns = SO3.exp(0.1 * rng.standard_normal((60, HUMAN.num_joints, 3)))
        root = np.tile(HUMAN.offsets[0], (60, 1))
        write_clip(Motion(HUMAN, 30.0, root, turns, name=f"{n:02d}"), folder / f"{n:02d}.safetensors")
    return folder


def start_adding(library: Path, folder: Path, workers: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ADD, str(library), str(folder), str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_at_random(tmp_path: Path, folder: Path, kills: int, workers: int) -> list[int]:
    """Kill adding runs at moments spread over a whole run; return how many clips each left.

    Each run is killed a random while after a certain number of clips are in: from none, which is while the process
    starts, to all but one. Each third run starts from an empty library, the others go on with what is there.
    """
    rng = np.random.default_rng(3)
    left = []
    for kill in range(kills):
        library = tmp_path / f"library-{kill // 3}"
        goal = min(NUM_CLIPS - 1, (left[-1] if kill % 3 else 0) + NUM_CLIPS * kill // (2 * kills))
        process = start_adding(library, folder, workers)
        wait_for(lambda: process.poll() is not None or count_files(library) >= goal, 60.0)  # noqa: B023 (used at once)
        time.sleep(rng.uniform(0.0, 0.03 if goal else 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Library(library) as store:
            report = store.verify()
            assert report.is_sound, (kill, report, report.missing, report.damaged, report.strays)
            assert len(store) == count_files(library)
            left.append(len(store))
    finish(start_adding(library, folder, workers))
    with Library(library) as store:
        assert store.verify().is_sound
        assert len(store) == NUM_CLIPS
        assert not list((library / "incoming").iterdir())
    return left


def count_files(library: Path) -> int:
    return len(list((library / "clips").glob("*/*.safetensors")))


def finish(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return out


@pytest.mark.parametrize("kills", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_a_run_killed_at_any_moment_leaves_every_clip_whole_or_absent(tmp_path, folder, kills):
    left = kill_at_random(tmp_path, folder, kills=kills, workers=0)
    assert sum(0 < count < NUM_CLIPS for count in left) >= kills // 3  # kills came while work was going on


@pytest.mark.slow
def test_fifty_killed_runs_with_workers_leave_every_clip_whole_or_absent(tmp_path, folder):
    left = kill_at_random(tmp_path, folder, kills=50, workers=2)
    assert sum(0 < count < NUM_CLIPS for count in left) >= 15
    print(left)


@pytest.mark.slow
def test_fifty_killed_runs_in_one_process_leave_every_clip_whole_or_absent(tmp_path, folder):
    left = kill_at_random(tmp_path, folder, kills=50, workers=0)
    assert sum(0 < count < NUM_CLIPS for count in left) >= 15
    print(left)


def test_two_processes_can_add_to_one_new_library_at_the_same_time(tmp_path, folder):
    library = tmp_path / "shared"
    processes = [start_adding(library, folder, 0) for _ in range(2)]
    reports = [finish(process) for process in processes]
    with Library(library) as store:
        assert store.verify().is_sound
        assert len(store) == NUM_CLIPS
    added = sum(int(report.split()[0]) for report in reports)
    assert added == NUM_CLIPS  # each clip was taken in once, by one of the two


def test_a_worker_that_dies_costs_its_own_file_only(tmp_path, folder, monkeypatch):
    """A file that brings the reader's process down is reported; the rest is read by a new worker."""
    deadly = tmp_path / "deadly"
    deadly.mkdir()
    (deadly / "sitecustomize.py").write_text(
        "import marey.library.ingest as ingest, os\n"
        "real = ingest.stage_motion\n"
        "def stage(motion, job, *rest):\n"
        "    if '03' in job.path.rsplit('/', 1)[-1]: os.abort()\n"
        "    return real(motion, job, *rest)\n"
        "ingest.stage_motion = stage\n"
    )
    monkeypatch.syspath_prepend(str(deadly))
    with Library(tmp_path / "library") as store:
        report = store.add(sorted(folder.glob("0*.safetensors")), workers=2)
        assert [Path(result.path).stem for result in report.failed] == ["03"]
        assert "crashed" in report.failed[0].message
        assert len(report.added) == 9
        assert store.verify().is_sound


def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path, folder):
    process = start_adding(tmp_path / "library", folder, 2)
    workers = wait_for(lambda: children(process.pid), 120.0)
    process.kill()
    process.communicate()
    assert workers
    assert wait_for(lambda: not any(is_alive(pid) for pid in workers), 120.0)


def wait_for(condition, seconds: float):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return found


def children(pid: int) -> list[int]:
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(word) for text in lists for word in text.split()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
