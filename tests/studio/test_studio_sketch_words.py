"""What the Sketch tab tells of a search, and what it draws of it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from marey import samples
from marey.graph import SearchSolution
from marey.studio.document.page import ClipFrames
from marey.studio.modes.progress import HIGH, LEFT, RIGHT, WIDE, cost_chart_svg, headline, progress_html, result_facts
from marey.studio.view.sketch_marks import BEST, ComparedBody, SearchPathLines, distinct_paths, path_segments


def found(cost: float, proved: float, seconds: float, k: int = 1, places=((0.0, 0.0), (0.0, 1.0))) -> SearchSolution:
    return SearchSolution(proved, proved, cost, int(1000 * seconds), seconds, k, np.array(places))


FOUND = [found(30.0, np.inf, 0.2), found(20.0, 2.0, 1.0), found(18.0, 1.2, 3.0), found(17.0, 1.0, 4.0)]


def lines_of(svg: str) -> list[np.ndarray]:
    """Corners of the lines of a chart, in the order they are drawn."""
    return [
        np.array([[float(v) for v in pair.split(",")] for pair in points.split()])
        for points in re.findall(r'<polyline points="([^"]*)"', svg)
    ]


def test_the_lines_of_cost_and_bound_close_in_and_meet_when_the_best_is_proved() -> None:
    cost, bound = lines_of(cost_chart_svg({1: FOUND}, 10.0))
    assert (np.diff(cost[:, 1]) >= 0.0).all()  # down on the page is cheaper
    assert (np.diff(bound[:, 1]) <= 0.0).all()
    assert (bound[:, 1] >= cost[:, 1] - 0.11).all() and bound[-1, 1] == pytest.approx(cost[-1, 1], abs=0.11)
    assert cost[0, 0] == pytest.approx(LEFT + 0.02 * (WIDE - LEFT - RIGHT), abs=0.1)  # 0.2 of 10 s
    assert cost[-1, 0] == pytest.approx(WIDE - RIGHT) and (cost >= 0.0).all() and cost[:, 1].max() <= HIGH


def test_two_searches_have_two_colours_and_no_search_has_no_chart() -> None:
    both = cost_chart_svg({1: FOUND, 2: [found(18.0, 1.2, 1.0), found(16.0, 1.5, 2.0, k=2)]}, 0.0)
    assert len(lines_of(both)) == 4 and len(set(re.findall(r'stroke="(#\w{6})"', both))) == 2
    assert cost_chart_svg({1: []}, 10.0) == ""
    assert len(lines_of(cost_chart_svg({1: [found(5.0, 1.0, 0.0)]}, 0.0))) == 2  # at once, and the best


def test_ways_are_told_apart_and_drawn_evenly() -> None:
    other = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
    ways = distinct_paths([FOUND[0], FOUND[1], found(9.0, 1.0, 1.0, places=other), found(8.0, 1.0, 1.0, places=())])
    assert len(ways) == 2 and ways[1].shape == (3, 2)
    pieces = path_segments(ways[1])
    lengths = np.linalg.norm(pieces[:, 1] - pieces[:, 0], axis=1)
    assert lengths.sum() == pytest.approx(2.0, rel=0.01) and np.ptp(lengths) < 0.01
    np.testing.assert_allclose(pieces[-1, 1][[0, 2]], (1.0, 1.0))


@pytest.fixture(scope="module")
def scene():
    viser = pytest.importorskip("viser")
    running = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield running.scene
    running.stop()


def test_ways_are_seen_only_while_the_search_goes_on(scene) -> None:
    lines = SearchPathLines(scene, "/found")
    search = SimpleNamespace(is_running=True, solutions=[FOUND[0], found(9.0, 1.0, 1.0, places=((0, 0), (2, 2)))])
    lines.draw(search)
    assert lines._best.visible and lines._before.visible and tuple(lines._best.colors.reshape(-1)[:3]) == BEST
    np.testing.assert_allclose(np.asarray(lines._best.points)[-1, 1][[0, 2]], (2.0, 2.0))
    search.is_running = False
    lines.draw(search)
    assert not lines._best.visible and not lines._before.visible


def test_the_compared_body_is_at_the_same_time_and_stays_at_its_end(scene) -> None:
    film = ClipFrames.from_motion(samples.walk())
    ghost = ComparedBody(scene)
    ghost.draw(film, 1.0)
    frame = round(film.motion.rate_hz)
    np.testing.assert_allclose(np.asarray(ghost._bones[0].batched_positions)[0], film.positions[frame, 0])
    ghost.draw(film, 1e6)
    np.testing.assert_allclose(np.asarray(ghost._bones[0].batched_positions)[0], film.positions[-1, 0])
    ghost.draw(None, 0.0)
    assert not ghost._root.visible


def search(**changes):
    """A synthesis as the page sees it."""
    order = SimpleNamespace(budget_s=10.0, blends=(1, 2))
    state = {
        "order": order, "is_running": True, "is_stopped": False, "words": "searching, k = 1", "elapsed_s": 5.0,
        "looking_s": 2.0, "runs": {}, "solutions": [], "results": [], "error": None,
    }  # fmt: skip
    return SimpleNamespace(**state | changes)


def test_the_headline_counts_the_seconds_of_the_search() -> None:
    assert headline(search()) == "Working: searching, k = 1, 3.0 of 10 s"
    assert headline(search(elapsed_s=50.0)) == "Working: searching, k = 1, 10.0 of 10 s"
    assert headline(search(looking_s=None, words="walking the way")) == "Working: walking the way (5 s)"
    assert headline(search(is_stopped=True)) == "Stopping"
    assert headline(search(is_running=False, words="4.1 s")) == "Done in 4.1 s"


def test_solutions_and_what_was_made_are_listed_side_by_side() -> None:
    def made(cost: float, k: int):
        found_by = SimpleNamespace(cost=cost, epsilon=1.5, history=(found(cost, 1.5, 0.3, k),))
        errors = SimpleNamespace(goal_m=0.12, off_corridor_m=0.0, slide_mm=0.7, reaches_m=(0.0004,))
        return SimpleNamespace(
            engine="graph", search=found_by, motion=samples.walk(), errors=errors, validity=None, is_solved=True
        )

    html = progress_html(search(solutions=FOUND, runs={1: FOUND}, results=[made(18.0, 1), made(17.0, 2)]))
    text = re.sub(r"<[^>]+>", "|", html)
    assert re.search(r"made by\|+graph, k = 1\|+graph, k = 2", text) and re.search(r"cost\|+18\|+17", text)
    assert re.search(r"hand misses\|+0.4 mm\|+0.4 mm", text) and 'data-testid="chart"' in html
    assert re.search(r"1\|+4.00\|+17\|+1.00\|+4000", text)
    assert result_facts(made(18.0, 2), 2)["from the goal"] == "12 cm"


def test_no_way_is_told_with_its_reason_and_escaped() -> None:
    nothing = SimpleNamespace(is_solved=False, sentence="no motion: <b>TIMEOUT</b>")
    html = progress_html(search(results=[nothing], is_running=False, words="2.0 s"))
    assert "&lt;b&gt;TIMEOUT" in html and "facts-made" not in html
    assert "Nothing was made yet" in progress_html(None)
