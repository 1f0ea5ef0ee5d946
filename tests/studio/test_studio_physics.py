"""The Physics tab without a browser: bars, verdicts, arrows, tasks."""

import threading

import numpy as np
import pytest

from marey import samples
from marey.base import InputError
from marey.dynamics import check_validity
from marey.numerics import SQPIteration
from marey.studio.document.jobs import OptimisationJob, OptimisationListener
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.modes.physics import _clamp_value, verdict_html
from marey.studio.view.clip import HIDDEN_M, METRES_PER_WEIGHT, _arrows
from marey.studio.view.widgets import contact_bars


@pytest.fixture(scope="module")
def report():
    return check_validity(samples.jump())


def test_the_bar_has_one_piece_for_each_stretch(report):
    film = ClipFrames.from_motion(samples.jump())
    plain = contact_bars(film.contact_names, film.contacts)
    coloured = contact_bars(film.contact_names, film.contacts, report.spans)
    assert coloured.count("<rect") - plain.count("<rect") == len(report.spans)
    assert sum(len(span) for span in report.spans) == report.num_frames


def test_the_verdict_is_told_and_a_clip_without_one_is_not_checked(report):
    assert report.verdict.split(";")[0] in verdict_html(report)
    assert "Not checked" in verdict_html(None)


def test_opening_another_clip_forgets_the_report(report):
    document = PageDocument(report=report)
    document.open("jump", ClipFrames.from_motion(samples.jump()))
    assert document.report is None


def test_arrows_add_up_to_what_the_ground_gives(report):
    frame = 5  # standing before the jump
    arrows = _arrows(report, frame)
    drawn = arrows[arrows[:, 0, 1] > HIDDEN_M / 2]
    total = (drawn[:, 1] - drawn[:, 0]).sum(axis=0) / METRES_PER_WEIGHT
    given = report.split.forces[frame].sum(axis=0) / report.dynamics.body.weight_n
    np.testing.assert_allclose(total, given, atol=0.05)
    assert total[1] > 0.5


def test_nothing_is_drawn_in_the_air(report):
    flying = np.flatnonzero(~report.supports.active.any(axis=1))
    assert len(flying)
    assert np.all(_arrows(report, int(flying[len(flying) // 2]))[:, 0, 1] == HIDDEN_M)


def test_a_slider_outside_its_range_is_held_and_nan_refused():
    assert _clamp_value(1e9, (0.3, 1.8)) == 1.8
    with pytest.raises(InputError):
        _clamp_value(float("nan"), (0.0, 1.0))


class Answer:
    motion = samples.jump()
    sentence = "done"


def step(index: int) -> SQPIteration:
    return SQPIteration(index, np.zeros(1), 1.0, 0.1, 0.0, 0.5, 10.0, 0.0, True)


def silent(_: object) -> None:
    """Someone who does not listen."""


def test_a_task_tells_its_steps_and_its_end():
    ended, steps, errors = threading.Event(), [], []

    def solve(listen):
        for i in range(3):
            listen(step(i))
        return Answer()

    OptimisationJob(solve, OptimisationListener(steps.append, lambda _: ended.set(), errors.append))
    assert ended.wait(60.0)
    assert [s.index for s in steps] == [0, 1, 2] and not errors


def until_stopped(going: threading.Event):
    def solve(listen):
        for i in range(10_000_000):
            going.set()
            if listen(step(i)):
                return Answer()
        raise AssertionError("it was never stopped")

    return solve


def test_a_stopped_task_keeps_what_it_has():
    ended, going = threading.Event(), threading.Event()
    task = OptimisationJob(until_stopped(going), OptimisationListener(silent, lambda _: ended.set(), silent))
    assert going.wait(60.0) and task.is_running
    task.stop()
    assert ended.wait(60.0)


def test_a_task_that_fails_says_so_and_does_not_run_any_more():
    seen = []
    failed = threading.Event()

    def solve(listen):
        raise InputError("no way")

    def fail(error):
        seen.append(task.is_running)
        failed.set()

    hold = threading.Event()
    task = OptimisationJob(lambda listen: hold.wait(60.0) and solve(listen), OptimisationListener(silent, silent, fail))
    hold.set()
    assert failed.wait(60.0)
    assert seen == [False]  # told only when buttons may be pressed again


def test_a_task_goes_on_while_nobody_listens_and_tells_the_next_one_its_end():
    going, gone = threading.Event(), []
    task = OptimisationJob(until_stopped(going), OptimisationListener(silent, gone.append, gone.append))
    assert going.wait(60.0)
    task.listen(None)  # the page was closed
    task.stop()
    task._thread.join(60.0)
    assert not task.is_running and not gone
    found = []
    task.listen(OptimisationListener(silent, found.append, gone.append))
    assert isinstance(found[0], Answer) and not gone
