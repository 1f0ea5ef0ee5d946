"""From a sketch to a clip in the studio, without a browser: engines, solutions as they come, stop, refusals."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from marey import pipeline, samples
from marey.base import InputError, MareyError
from marey.graph import MotionGraph, SearchSolution
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.document.sketch import synthesis as _sketch_run
from marey.studio.document.sketch.editor import SketchEditor
from marey.studio.document.sketch.synthesis import SynthesisJob, SynthesisOrder, shipped_graph
from marey.studio.modes.sketch import SketchPanel
from marey.studio.view.sketch import SketchStage
from marey.world import load_sketch

USER = SimpleNamespace(client=object(), client_id=0)
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def server():
    viser = pytest.importorskip("viser")
    running = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def graph() -> MotionGraph:
    return shipped_graph()


class Page:
    """A session without a page: jobs wait until the test runs them, as the worker would."""

    def __init__(self, server, document: PageDocument | None = None) -> None:
        self.document = PageDocument() if document is None else document
        self.errors, self.opened, self.motions, self.detect_again = [], [], [], []
        self._jobs: list = []
        self.panel = SketchPanel(server.gui, self)

    def post(self, _: str, edit) -> None:
        self._jobs.append(edit)

    def work(self) -> None:
        while self._jobs:
            try:
                self._jobs.pop(0)()
            except MareyError as error:
                self.errors.append(error)
            self.panel.refresh(self.document)
            self.detect_again.append(self.words)

    def open(self, label: str) -> None:
        self.opened_again = label

    def open_motion(self, label: str, motion) -> None:
        self.document.open(label, ClipFrames.from_motion(motion))
        self.document.draft.is_open = False
        self.opened.append(label)

    def send(self, motion, name: str) -> None:
        self.motions.append((motion, name))

    def frame_body(self) -> None:
        """There is no camera."""

    def until_done(self) -> None:
        self.work()
        assert self.draft.synthesis.join(PATIENCE_S)
        self.work()

    @property
    def draft(self) -> SketchEditor:
        return self.document.draft

    @property
    def words(self) -> str:
        return self.panel._state.content + self.panel._window.progress.content


def as_user(page: Page, widget, value=None) -> None:
    if value is not None:
        widget.value = value
    for callback in widget._impl.update_cb:
        callback(SimpleNamespace(client=USER.client, client_id=0, target=widget))
    page.work()


@pytest.fixture
def page(server) -> Page:
    here = Page(server)
    as_user(here, here.panel._start)
    return here


def open_shipped(page: Page, name: str) -> None:
    as_user(page, page.panel._shipped, name)
    assert page.draft.drawn.name == name


def test_a_drawn_way_is_walked_opened_and_played_inside_its_corridor(page: Page, server) -> None:
    page.draft.add_point((1.5, 5.0))
    page.draft.set_way("spline")
    as_user(page, page.panel._go)
    assert not page.panel._go.visible and page.panel._stop.visible
    page.until_done()
    document, sketch = page.document, page.draft.drawn.sketch()
    assert not page.errors and page.opened == ["sketch (locomotion)"]
    assert document.playing and document.active_sketch is None and document.label in page.draft.clips
    roots = document.film.motion.root_positions[:, [0, 2]]
    assert np.hypot(*(roots[-1] - (1.5, 5.0))) < sketch.goal.tolerance_m
    assert max(sketch.path.nearest(place)[1] for place in roots[::10]) <= 0.5 * sketch.corridor_m
    assert "Done in" in page.words and ">locomotion<" in page.words and "feet slide" in page.words
    assert page.panel._go.visible and not page.panel._stop.visible
    stage = SketchStage(server.scene, lambda _: None, lambda *_: None)
    stage.draw(page.draft, document.film)
    scales = np.asarray(stage._prints._node.batched_scales)
    assert (scales == 1.0).sum() >= 8  # footprints on the way
    as_user(page, page.panel._keep, "GLB")
    assert page.motions[0][1] == "sketch (locomotion).glb"


def test_a_motion_is_opened_once_also_if_the_page_hears_twice(page: Page) -> None:
    as_user(page, page.panel._go)
    page.until_done()
    page.panel._hear()
    page.work()
    assert len(page.opened) == 1


def test_what_cannot_be_walked_is_refused_in_words(page: Page) -> None:
    as_user(page, page.panel._wish.engine, "locomotion")
    open_shipped(page, "pick")
    as_user(page, page.panel._go)
    page.until_done()
    assert len(page.errors) == 1 and not page.opened
    assert "pick" in page.words and "Done in" in page.words
    as_user(page, page.panel._keep, "GLB")
    assert "Synthesise" in str(page.errors[1])


@pytest.mark.slow  # the graph is built where there is none in the cache
def test_a_pick_is_searched_with_solutions_that_improve(page: Page, graph: MotionGraph) -> None:
    open_shipped(page, "pick")
    as_user(page, page.panel._wish.budget, 5.0)
    as_user(page, page.panel._go)
    page.until_done()
    synthesis = page.draft.synthesis
    assert not page.errors, page.errors
    assert len(page.opened) == 1 and page.opened[0].startswith("pick (graph")
    costs = [s.cost for s in synthesis.solutions]
    assert costs and all(b <= a + 1e-9 for a, b in pairwise(costs))
    assert 'data-testid="solutions"' in page.words and "expansions" in page.words
    cup = np.array(page.draft.drawn.sketch().world.objects[0].position)
    positions = page.document.film.positions
    assert np.linalg.norm(positions - cup, axis=-1).min() < 0.25  # a wrist came to it


@pytest.mark.slow  # the graph is built where there is none in the cache
def test_k_1_and_k_2_are_compared(page: Page, graph: MotionGraph) -> None:
    open_shipped(page, "pick")
    as_user(page, page.panel._wish.budget, 5.0)
    as_user(page, page.panel._compare)
    page.until_done()
    one, two = page.draft.synthesis.results
    assert len(page.opened) == sum(result.is_solved for result in (one, two)) >= 1
    if one.is_solved and two.is_solved:
        assert two.search.cost <= one.search.cost + 1e-9
    assert page.words.count("k = ") + page.words.count("no motion") >= 2


@pytest.mark.slow  # the graph is built where there is none in the cache
def test_an_unreachable_goal_is_told_with_advice(page: Page, graph: MotionGraph) -> None:
    page.draft.set_way("found by the engine")
    for x, z, turn in ((0.0, -1.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 90.0), (-1.0, 0.0, 90.0)):
        page.draft.drop("wall")
        label = page.draft.selected
        page.draft.move(label, x, z)
        page.draft.resize(label, "turn_deg", turn)
        page.draft.resize(label, "length_m", 3.0)
    as_user(page, page.panel._wish.engine, "graph")
    as_user(page, page.panel._go)
    page.until_done()
    result = page.draft.synthesis.results[0]
    assert not result.is_solved and not page.opened and not page.errors
    assert result.status in page.words and result.advice.split(".")[0][:20] in page.words


class Searched:
    """A search that finds something every few milliseconds, until it is stopped."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def __call__(self, sketch, engine, *, on_solution, cancel, k, **_):
        for number in range(10_000):
            on_solution(SearchSolution(3.0, 3.0 - 1e-4 * number, 10.0 - 1e-4 * number, 10 * number, 0.01 * number, k))
            self.begun.set()
            if cancel.is_set():
                break
            time.sleep(0.005)
        motion = samples.walk()
        return pipeline.SynthesisResult("BOUNDED", "graph", motion, pipeline.check_motion(motion, sketch), None, 0.1)


@pytest.fixture
def searched(monkeypatch) -> Searched:
    slow = Searched()
    monkeypatch.setattr(pipeline, "synthesize_sketch", slow)
    monkeypatch.setattr(_sketch_run, "shipped_graph", lambda *_: object())
    return slow


def test_solutions_are_seen_while_the_search_goes_on_and_stop_keeps_the_best(page: Page, searched: Searched) -> None:
    as_user(page, page.panel._wish.engine, "graph")
    as_user(page, page.panel._go)
    assert searched.begun.wait(60.0)
    page.work()
    assert "Working: searching, k = 2" in page.words and "<td" in page.words
    as_user(page, page.panel._go)
    assert "already" in str(page.errors.pop())
    as_user(page, page.panel._stop)
    page.until_done()
    assert page.opened == ["sketch (graph)"] and "Stopped after" in page.words and not page.errors


def test_a_page_that_is_loaded_again_finds_the_search_going_on(page: Page, server, searched: Searched) -> None:
    as_user(page, page.panel._wish.engine, "graph")
    as_user(page, page.panel._go)
    assert searched.begun.wait(60.0)
    page.panel.close()
    again = Page(server, page.document)
    again.work()
    assert "Working" in again.words
    as_user(again, again.panel._stop)
    again.until_done()
    page.work()
    assert len(again.opened) == 1 and not page.opened


def test_an_end_that_nobody_saw_is_shown_to_the_page_that_comes_back(page: Page, server) -> None:
    as_user(page, page.panel._go)
    page.panel.close()
    assert page.draft.synthesis.join(PATIENCE_S)
    again = Page(server, page.document)
    again.work()
    assert len(again.opened) == 1


def test_editing_while_it_runs_does_not_change_what_is_made(page: Page, searched: Searched) -> None:
    as_user(page, page.panel._wish.engine, "graph")
    as_user(page, page.panel._go)
    assert searched.begun.wait(60.0)
    before = page.draft.synthesis.order.sketch
    page.draft.add_point((3.0, 3.0))
    np.testing.assert_array_equal(before.path.points, [[0.0, 0.0], [0.0, 3.0]])
    as_user(page, page.panel._stop)
    page.until_done()


def test_stopping_while_the_graph_is_built_is_told(monkeypatch) -> None:
    told = threading.Event()

    def building(on_progress):
        for done in range(1000):
            on_progress(done, 1000)
            time.sleep(0.005)

    monkeypatch.setattr(_sketch_run, "shipped_graph", building)
    synthesis = SynthesisJob(SynthesisOrder(load_sketch(samples.sketch_file("pick"))), told.set)
    give_up = time.monotonic() + PATIENCE_S
    while "building the motion graph" not in synthesis.words and time.monotonic() < give_up:
        time.sleep(0.005)
    assert "building the motion graph" in synthesis.words
    synthesis.stop()
    assert synthesis.join(PATIENCE_S)
    assert isinstance(synthesis.error, InputError) and "stopped" in str(synthesis.error) and told.is_set()


def test_a_bug_in_an_engine_ends_in_words_and_not_in_silence(page: Page, monkeypatch) -> None:
    def broken(*_, **__):
        raise InputError("the engine is out of order", "Try another")

    monkeypatch.setattr(pipeline, "synthesize_sketch", broken)
    as_user(page, page.panel._go)
    page.until_done()
    assert "out of order" in str(page.errors[0]) and "out of order" in page.words
    assert page.panel._go.visible


def test_a_bad_graph_file_is_refused_and_the_shipped_one_stays(page: Page, tmp_path) -> None:
    def keep(name: str, content: bytes):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    page.keep_file = keep
    button = page.panel._own
    button._impl.value = SimpleNamespace(name="mine.safetensors", content=b"not a graph")
    as_user(page, button)
    assert len(page.errors) == 1 and page.draft.graph is None and not page.draft.graph_label
