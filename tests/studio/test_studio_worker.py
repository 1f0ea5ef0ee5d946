"""The session's worker: order, newest wins, errors do not end it, time passes while playing."""

from __future__ import annotations

import threading

from marey.studio.server.worker import SessionWorker

PATIENCE_S = 60.0


def test_a_newer_job_of_the_same_key_replaces_the_waiting_one() -> None:
    done: list[str] = []
    gate, finished = threading.Event(), threading.Event()
    worker = SessionWorker(lambda _: None, rate_hz=30.0, on_error=lambda _: None)
    worker.post("block", lambda: gate.wait(PATIENCE_S) and None)
    for frame in range(50):
        worker.post("seek", lambda frame=frame: done.append(f"seek {frame}"))
    worker.post("end", lambda: done.append("end"))
    worker.post("last", finished.set)
    gate.set()
    assert finished.wait(PATIENCE_S)
    worker.stop()
    assert done[-2:] == ["seek 49", "end"] and len(done) == 2


def test_a_job_that_fails_is_reported_and_the_next_one_runs() -> None:
    errors: list[Exception] = []
    finished = threading.Event()
    worker = SessionWorker(lambda _: None, rate_hz=30.0, on_error=errors.append)
    worker.post("bad", lambda: 1 / 0 and None)
    worker.post("good", finished.set)
    assert finished.wait(PATIENCE_S)
    worker.stop()
    assert [type(error) for error in errors] == [ZeroDivisionError]


def test_ticks_tell_the_time_that_passed() -> None:
    passed: list[float] = []
    enough = threading.Event()

    def tick(seconds: float) -> None:
        passed.append(seconds)
        if len(passed) == 5:
            enough.set()

    worker = SessionWorker(tick, rate_hz=50.0, on_error=lambda _: None)
    worker.set_ticking(True)
    assert enough.wait(PATIENCE_S)
    worker.stop()
    assert all(0.02 <= seconds <= 0.5 for seconds in passed)
