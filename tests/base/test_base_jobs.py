"""Requests put to worker processes: answers in any order, a death costs one try."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marey.base import WorkerError, ask_workers, count_cores, run_in_pool

ECHO = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("die") and not os.path.exists(asked["die"]):
        open(asked["die"], "w").close()
        os._exit(1)
    if asked.get("always"):
        os._exit(1)
    print(json.dumps({"pid": os.getpid(), "got": asked["n"]}), flush=True)
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """Name of a module that answers, dies once where it is told to, or always."""
    (tmp_path / "echo_worker.py").write_text(ECHO, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return "echo_worker"


def asked(**each: object) -> str:
    return json.dumps(each)


def test_every_request_is_answered_once(echo):
    requests = [asked(n=n) for n in range(20)]
    found = dict(ask_workers(echo, requests, 2))
    assert sorted(found) == list(range(20))
    assert all(json.loads(line)["got"] == n for n, line in found.items())
    assert len({json.loads(line)["pid"] for line in found.values()}) <= 2


def test_a_death_costs_one_try(echo, tmp_path):
    requests = [asked(n=0), asked(n=1, die=str(tmp_path / "died")), asked(n=2)]
    assert dict(ask_workers(echo, requests, 1, tries=1))[1] == ""
    (tmp_path / "died").unlink()
    found = dict(ask_workers(echo, requests, 1, tries=2))
    assert json.loads(found[1])["got"] == 1
    assert json.loads(found[0])["pid"] != json.loads(found[2])["pid"]


def test_who_always_dies_gets_an_empty_answer_and_the_others_theirs(echo):
    found = dict(ask_workers(echo, [asked(n=0, always=True), asked(n=1)], 1, tries=3))
    assert found[0] == ""
    assert json.loads(found[1])["got"] == 1


def test_a_caller_that_stops_early_leaves_no_process(echo):
    import os

    answers = ask_workers(echo, [asked(n=n) for n in range(50)], 2)
    pid = json.loads(next(answers)[1])["pid"]
    answers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_there_is_at_least_one_core():
    assert count_cores() >= 1


def die_once(marker: str) -> int:
    """Name of a file that the first try makes before it dies; later tries return the process."""
    import os
    import signal
    from pathlib import Path

    if marker and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return len(marker)


def die_always(_: int) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_replaces_a_killed_worker_and_does_its_items_again(tmp_path):
    items = ["", str(tmp_path / "first"), "", str(tmp_path / "second"), ""]
    assert dict(run_in_pool(die_once, items, 2)) == {n: len(item) for n, item in enumerate(items)}


def test_a_pool_whose_workers_always_die_says_so(tmp_path):
    with pytest.raises(WorkerError, match="with 2 jobs left"):
        list(run_in_pool(die_always, [1, 2], 2))


POOL = """
import os, sys
from marey.base import run_in_pool

def answer(number):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    return bytes(1 << 22)

if __name__ == "__main__":
    for found in run_in_pool(answer, range(200), 2):
        os.kill(os.getpid(), 19)  # stops: nobody reads the results that follow
"""


def test_workers_of_a_killed_process_end(tmp_path):
    """Also those that are about to hand over a large result."""
    (tmp_path / "pool.py").write_text(POOL, encoding="utf-8")
    told = tmp_path / "workers"
    told.mkdir()
    process = subprocess.Popen([sys.executable, str(tmp_path / "pool.py"), str(told)])
    os.waitpid(process.pid, os.WUNTRACED)
    workers = [int(path.name) for path in told.iterdir()]
    assert workers
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
