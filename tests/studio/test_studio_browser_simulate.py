"""The Simulate tab in a real browser: a figure is pulled with the mouse, pushed, hit by a ball, recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.studio import Studio
from marey.studio.document.simulate.recording import LINEAR

FIRST_MS = 120_000  # kernels are compiled when they are first used

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("whole")]


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


@pytest.fixture(scope="module")
def page(open_tab, studio: Studio):
    """A page in which a figure is simulated."""
    tab = open_tab(studio, "Simulate")
    tab.press_button("Simulate this figure")
    tab.wait_for_words(r"balance: .*x real time", patience_ms=FIRST_MS)
    yield tab
    tab.context.close()


def arena_of(page):
    return page.session.document.arena


def on_screen(page, place: np.ndarray) -> tuple[float, float]:
    """Pixel of a place in the world of the simulation, whose figure the view follows."""
    x, z = arena_of(page).place()
    return page.pixel(np.asarray(place) - np.array([x, 0.0, z]))


def chest_of(arena) -> np.ndarray:
    return arena.simulator.mechanics().joints[arena.clip.skeleton.index("spine3")]


def test_the_first_figure_stands_is_pushed_and_stands_again(page) -> None:
    arena = arena_of(page)
    height = chest_of(arena)[1]
    page.pause()
    page.press_button("Push")
    page.press_button("One step")
    page.wait_until(lambda: len(arena.visible_forces()) == 1, "the push")
    page.shot("simulate-push.png")
    start_s = arena.time_s
    page.keyboard.press("p")
    page.wait_until(lambda: arena.time_s > start_s + 2.0, "two seconds")
    assert chest_of(arena)[1] > 0.95 * height
    assert np.abs(arena.trace.table()[:, LINEAR]).max() > 5.0  # [kg m/s] of the 20 N s that it was given
    page.wait_for_words(r"\+\d+\.\d cm from the edge", "above")
    assert arena.pace > 0.0


def test_a_ball_is_thrown_recorded_and_taken_home(page, tmp_path: Path) -> None:
    arena = arena_of(page)
    page.press_button("Record")
    page.wait_for_words("Recording: ")
    page.pause()
    page.press_button("Throw a ball")
    page.wait_until(lambda: len(arena.balls) == 1, "the ball")
    page.shot("simulate-ball.png")
    page.press_button("Go or pause")
    page.wait_for_words(r"Recording: (0\.[5-9]|[1-9])")
    page.press_button("Motion")
    page.fetch(tmp_path / "take.safetensors")
    motion = load(tmp_path / "take.safetensors")
    assert motion.rate_hz == 100.0 and motion.num_frames > 40
    assert motion.contacts is not None and motion.contacts.active.any()


def test_a_walk_is_followed(page) -> None:
    page.choose("The figure is", "track")
    page.wait_for_words(r"track: .*s of \d\.\d\d s, \d+\.\d cm off")
    arena = arena_of(page)
    start = arena.pose.root_position
    page.wait_until(lambda: np.linalg.norm(arena.pose.root_position - start) > 0.5, "half a metre")
    page.shot("simulate-track.png")
    assert chest_of(arena)[1] > 1.0


def test_a_puppet_is_grabbed_and_pulled_with_the_mouse(page) -> None:
    page.choose("The figure is", "puppet")
    page.press_button("This frame")
    page.wait_for_words(r"puppet: .*strings pull with")
    page.wait_for_timeout(2500)  # the view comes to rest
    arena = arena_of(page)
    before = chest_of(arena)
    x, y = on_screen(page, before)
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x + 6 * k, y - 16 * k)
        page.wait_for_timeout(150)
    page.wait_for_words(r"held at ")
    page.wait_until(lambda: chest_of(arena)[1] - before[1] > 0.15, "the lift")
    page.shot("simulate-pull.png")
    page.mouse.up()
    page.wait_until(lambda: arena.hand is None and "held" not in page.words(), "the release")


def test_a_free_figure_falls_when_it_is_let_go(page) -> None:
    page.choose("The figure is", "free")
    page.wait_for_words("free: ")
    page.wait_until(lambda: chest_of(arena_of(page))[1] < 0.7, "the fall")
    page.shot("simulate-fall.png")


def test_pause_step_and_sliders_do_what_they_say(page) -> None:
    arena = arena_of(page)
    page.pause()
    still_s = arena.time_s
    page.press_button("One step")
    page.wait_until(lambda: arena.time_s != still_s, "one step")
    assert arena.time_s == pytest.approx(still_s + 0.01)
    page.write("Slope [°]", "10")
    page.wait_until(lambda: arena.wish.slope_deg == 10.0, "the slope")
    start = arena.time_s
    page.press_button("Standing")
    page.wait_until(lambda: arena.time_s > start + 1.0, "a second")
    page.shot("simulate-slope.png")
    assert arena.ground.normal[2] < -0.1


def test_a_reload_finds_the_figure_and_the_clip_comes_back(page) -> None:
    first = page.session
    page.pause()
    page.reload()
    page.get_by_role("tab", name="Simulate").click()
    page.wait_for_words("free: .*paused")
    again = page.session
    assert again is not first and again.document.arena is first.document.arena
    page.press_button("Back to the clip")
    page.get_by_role("button", name="Simulate this figure").wait_for()
    assert again.document.active_simulation is None
