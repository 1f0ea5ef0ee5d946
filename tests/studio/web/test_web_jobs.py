"""Jobs: progress, results, cancelling, processes that die, reloads, the end of the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from marey.studio.project import Project
from marey.studio.web.gate import keep_token

from .. import toys
from ..page import Page, running


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]


def wait_for_death(pid: int) -> None:
    end = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < end, f"process {pid} lives on"
        time.sleep(0.05)


def hear_process(page: Page, job: str) -> int:
    """Wait until a job says in which process it runs."""
    while True:
        told = page.hear("job", id=job)
        assert told["state"] in ("waiting", "running"), told
        if told["sentence"].startswith("process "):
            return int(told["sentence"].split()[1])


def hear_end(page: Page, job: str) -> dict:
    while (told := page.hear("job", id=job))["state"] in ("waiting", "running"):
        pass
    return told


def test_a_job_tells_its_progress_and_leaves_a_take(studio, page) -> None:
    before = page.welcome["project"]["takes"]["t1"]["result"]
    page.send("start", id="j1", tool="double", take="t1", settings={"size": 1.5}, seed=7)
    assert page.hear("job", id="j1")["state"] == "waiting"
    told = [page.hear("job", id="j1")]
    while told[-1]["state"] == "running":
        told.append(page.hear("job", id="j1"))
    end = told[-1]
    assert "half way" in [one["sentence"] for one in told]
    assert [len(one["result"]["partial"]) for one in told if "partial" in one["result"]] == [64]
    assert (end["state"], end["fraction"], end["sentence"]) == ("done", 1.0, "doubled"), end
    result = end["result"]
    assert result["table"] == [{"name": "seed", "value": 7.0}] and result["report"] == {"by": [0, 1]}
    take = page.hear("patch")["patches"][0]["value"]
    assert take["recipe"] == {
        "tool": "double", "inputs": {"motion": "t1"}, "settings": {"size": 1.5}, "seed": 7, "version": 1,
    }  # fmt: skip
    assert take["result"] != before and take["clip"] == "c1"
    for key in (before, take["result"]):
        page.send("want", hash=key, count=1)
    first, second = page.hear("block", hash=before), page.hear("block", hash=take["result"])
    np.testing.assert_allclose(second["roots"], 2 * first["roots"], rtol=1e-6)
    with studio.client() as client:
        (file,) = result["files"]
        answer = client.get(file["url"])
        assert answer.content == b"hello" and "attachment" in answer.headers["content-disposition"]
        assert client.get(file["url"].replace("file=0", "file=1")).status_code == 404
    page.send("start", id="j1b", tool="double", take="t1", settings={}, into=result["take"])
    again = hear_end(page, "j1b")
    assert again["result"]["take"] == result["take"]
    page.send("undo")
    page.send("undo")
    with studio.page() as fresh:
        assert fresh.welcome["project"]["takes"].keys() == page.welcome["project"]["takes"].keys()


def test_a_job_that_cannot_start_is_refused(page) -> None:
    for number, (fields, words) in enumerate(
        [
            ({"tool": "nothing", "take": "t1", "settings": {}}, "no tool"),
            ({"tool": "push", "take": "t1", "settings": {}}, "is no job"),
            ({"tool": "double", "take": "t9", "settings": {}}, "no take 't9'"),
            ({"tool": "double", "take": "t1", "settings": {"size": 9.0}}, "'size' of 'double' is 9"),
            ({"tool": "double", "take": "t1", "settings": {"sise": 1.0}}, "Did you mean 'size'"),
            ({"tool": "double", "take": "t1", "settings": {}, "into": "t9"}, "no take 't9'"),
        ]
    ):
        page.send("start", id=f"r{number}", **fields)
        assert words in page.hear("refused", id=f"r{number}")["sentence"]
    page.send("cancel", job="nobody")
    assert "no job" in page.hear("refused")["sentence"]


def test_a_job_that_fails_says_why_and_what_to_do(page) -> None:
    page.send("start", id="f1", tool="fail", take="", settings={"how": "in words"})
    told = hear_end(page, "f1")
    assert (told["state"], told["sentence"], told["fix"]) == ("failed", "it cannot be done", "Do something else")
    page.send("start", id="f2", tool="fail", take="", settings={})
    assert "unexpected ZeroDivisionError" in hear_end(page, "f2")["sentence"]


def test_a_page_that_is_loaded_again_finds_its_job_and_cancelling_kills_it(studio, page) -> None:
    page.send("start", id="h1", tool="hang", take="t1", settings={})
    pid = hear_process(page, "h1")
    page.close()
    with studio.page() as again:
        (job,) = [job for job in again.welcome["jobs"] if job["id"] == "h1"]
        assert (job["state"], job["take"], job["fraction"]) == ("running", "t1", 0.25)
        again.send("cancel", job="h1")
        assert hear_end(again, "h1")["state"] == "cancelled"
        wait_for_death(pid)
        again.send("start", id="h2", tool="fail", take="", settings={"how": "in words"})
        assert hear_end(again, "h2")["state"] == "failed"  # in a new process


def test_a_killed_worker_is_replaced_and_its_job_started_again_once(page, tmp_path) -> None:
    page.send("start", id="d1", tool="die", take="", settings={"once": str(tmp_path / "mark")})
    told = hear_end(page, "d1")
    assert (told["state"], told["sentence"]) == ("done", "the second try")
    page.send("start", id="d2", tool="die", take="", settings={})
    told = hear_end(page, "d2")
    assert told["state"] == "failed" and "ended twice (exit code -9)" in told["sentence"] and told["fix"]


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_the_project_and_no_process(toy_tools, tmp_path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import toys, threading\n"
        "import marey.studio.worker, marey.studio.web.hub, marey.studio.job_pool\n"
        "marey.studio.worker.list_tools = marey.studio.web.hub.list_tools = lambda: toys.TOYS\n"
        "marey.studio.job_pool.MODULE = 'toys'\n"
        "from marey.studio.web.app import serve_project\n"
        "serve_project(sys.argv[1], port=0, open_browser=False, tell=lambda text: print(text, flush=True))\n"
    )
    folder = tmp_path / "project"
    command = [sys.executable, "-c", program, folder, Path(toys.__file__).parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address, token = process.stdout.readline().strip().split("/?token=")
            page = Page(int(address.rpartition(":")[2]), token)
            page.send("start", id="k", tool="hang", take="", settings={})
            worker = hear_process(page, "k")
            for number in range(20):
                page.send("command", id=str(number), name="rename_project", args={"name": f"n{number}"})
            seq = page.hear("patch", id="19")["seq"]
        finally:
            process.send_signal(signal.SIGKILL)
    page.close()
    wait_for_death(worker)
    project = Project(folder)
    assert (project.seq, project.tree["name"], project.undo_label) == (seq, "n19", "Rename project")
    project.close()
    with running(folder) as studio, studio.page() as page:
        assert page.welcome["project"]["name"] == "n19" and page.welcome["jobs"] == []
        page.send("undo")
        assert page.hear("patch")["patches"] == [{"path": ["name"], "value": "n18"}]
    # The token of the address that was printed first still opens the project
    assert keep_token(folder) == token
