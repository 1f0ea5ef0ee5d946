"""Builds that go on after they were stopped, and give the same bytes wherever they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from oracles.graph_parts import graph_bytes

from marey.base import InputError, UnknownNameError
from marey.graph import build_graph
from marey.graph.algorithms import project_principal
from marey.graph.construction.jobs import BuildCancelledError, hash_task, pack_clip, run_clip_tasks, unpack_clip
from marey.graph.database.clips import gather_database, make_clip_tasks
from marey.graph.database.settings import GraphSettings


def test_directions_keep_dot_products():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 12))
    kept = project_principal(rows, 5)
    np.testing.assert_allclose(kept @ kept.T, rows @ rows.T, atol=1e-9)
    assert project_principal(rows[:, :2], 5).shape == (40, 5)


THREADS = """
import hashlib
import os
import subprocess
import sys

import numpy as np
from marey.graph.algorithms import project_principal
from marey.graph.database.pose_metric import squared_distances
rng = np.random.default_rng(0)
rows = rng.normal(size=(8000, 93))
for found in (squared_distances(rows[:1], rows), squared_distances(rows[:5], rows), project_principal(rows[:300], 24)):
    print(hashlib.sha256(found.tobytes()).hexdigest())
"""


def test_distances_and_directions_do_not_depend_on_the_number_of_threads():
    # The sizes at which BLAS and LAPACK give other bits for other numbers of threads
    said = [
        subprocess.run(
            [sys.executable, "-c", THREADS],
            env=os.environ | {"OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for count in "14"
    ]
    assert said[0].count("\n") == 3
    assert said[0] == said[1]


def test_settings_that_do_not_exist_are_named():
    with pytest.raises(UnknownNameError, match="densty"):
        build_graph([], densty=3.0)
    with pytest.raises(InputError, match="no clips"):
        build_graph([])


@pytest.mark.mocap
def test_a_graph_says_in_one_line_what_it_is(picking):
    assert f"{picking.num_states} states" in repr(picking)
    assert len(repr(picking)) < 200


@pytest.mark.mocap
def test_a_build_goes_on_from_what_is_ready(picking, picking_clips, prepared_folder):
    asked: list[tuple[int, int]] = []
    again = build_graph(
        picking_clips, resume=prepared_folder, on_progress=lambda done, total: asked.append((done, total))
    )
    assert asked == [(6, 6)]
    assert graph_bytes(again) == graph_bytes(picking)


@pytest.mark.mocap
def test_a_cancelled_build_keeps_what_is_ready(picking_clips, tmp_path):
    tasks = make_clip_tasks(picking_clips[:3], GraphSettings())
    done: list[int] = []

    def cancel() -> bool:
        return len(done) == 2

    with pytest.raises(BuildCancelledError, match="after 2 of 3"):
        run_clip_tasks(tasks, resume=tmp_path, cancel=cancel, on_progress=lambda n, _: done.append(n))
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    later: list[int] = []
    run_clip_tasks(tasks, resume=tmp_path, on_progress=lambda n, _: later.append(n))
    assert later == [2, 3]


@pytest.mark.mocap
def test_a_damaged_clip_is_made_again(picking_clips, tmp_path):
    tasks = make_clip_tasks(picking_clips[:1], GraphSettings())
    first = run_clip_tasks(tasks, resume=tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    second = run_clip_tasks(tasks, resume=tmp_path)
    np.testing.assert_array_equal(first[0].runs[0].wxyz, second[0].runs[0].wxyz)
    assert len(file.read_bytes()) > 1000


@pytest.mark.mocap
def test_prepared_clips_come_back_from_their_arrays(picking_clips):
    (task,) = make_clip_tasks(picking_clips[3:4], GraphSettings())
    clip = task()
    again = unpack_clip(*pack_clip(clip))
    one, two = (gather_database([c], task.body, task.settings) for c in (clip, again))
    np.testing.assert_array_equal(one.phases.feet, two.phases.feet)
    np.testing.assert_array_equal(one.effort, two.effort)
    assert one.classes == two.classes


@pytest.mark.mocap
def test_other_settings_or_frames_have_another_fingerprint(picking_clips):
    def mark(clip, **settings):
        return hash_task(make_clip_tasks([clip], GraphSettings(**settings))[0])

    clip = picking_clips[0]
    assert mark(clip) == mark(clip)
    assert mark(clip) != mark(clip, pick_height_m=0.5)
    assert mark(clip) != mark(clip[:-1])


@pytest.mark.mocap
def test_clips_that_other_code_made_ready_are_made_again(picking_clips, tmp_path, monkeypatch):
    tasks = make_clip_tasks(picking_clips[:1], GraphSettings())
    run_clip_tasks(tasks, resume=tmp_path)
    monkeypatch.setattr("marey.graph.construction.jobs.hash_sources", lambda: b"another version")
    run_clip_tasks(tasks, resume=tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


@pytest.mark.mocap
def test_mirrored_clips_double_the_database_and_the_hands(picking_clips):
    tasks = make_clip_tasks(picking_clips[4:5], GraphSettings(mirror=True))
    database = gather_database(run_clip_tasks(tasks), tasks[0].body, GraphSettings())
    assert database.clips == ("69_72", "69_72~")
    picked = {planted[-1] for planted in database.classes if planted and planted[-1].startswith("picked")}
    assert picked == {"picked_left_hand", "picked_right_hand"}
    counts = np.bincount(database.clip)
    assert counts[0] == counts[1]


@pytest.mark.mocap
@pytest.mark.slow
def test_processes_give_the_same_bytes(picking, picking_clips):
    assert graph_bytes(build_graph(picking_clips, workers=2)) == graph_bytes(picking)


@pytest.mark.mocap
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_bytes_though_a_worker_dies(picking, picking_clips):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        killed: list[int] = []

        def kill(done: int, _: int) -> None:
            if not killed:
                killed.append(done)
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

        graph = build_graph(picking_clips, cluster=cluster.scheduler_address, on_progress=kill)
    assert killed
    assert graph_bytes(graph) == graph_bytes(picking)


@pytest.mark.mocap
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_does_not_answer_is_named(picking_clips, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("marey.base.jobs.CONNECT_S", 0.5)
    with pytest.raises(InputError, match="no Dask scheduler answers at 'tcp"):
        build_graph(picking_clips[:1], cluster="tcp://127.0.0.1:9")
