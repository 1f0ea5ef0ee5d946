"""The Simulate tab in a real browser: a figure is pulled with the mouse, pushed, hit by a ball, recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from marey.io import load
from marey.lie import SO3
from marey.studio import Studio
from marey.studio._simulate_trace import LINEAR

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
FIRST_MS = 120_000  # kernels are compiled when they are first used
PATIENCE_MS = 60_000
WIDE, HIGH = 1200, 900

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser, studio: Studio):
    """A page in which a figure is simulated; software rendering is slow, so it is drawn coarsely."""
    size = {"width": WIDE, "height": HIGH}
    context = browser.new_context(viewport=size, accept_downloads=True, device_scale_factor=0.25)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.wrongs = []
    tab.on("pageerror", lambda error: tab.wrongs.append(str(error)))
    tab.on("crash", lambda *_: tab.wrongs.append("the page crashed"))
    tab.goto(studio.url)
    tab.get_by_test_id("clock").wait_for(timeout=FIRST_MS)
    tab.get_by_role("tab", name="Simulate").click()
    tab.get_by_role("button", name="Simulate this figure").click()
    wait_for_words(tab, r"balance: .*x real time", patience_ms=FIRST_MS)
    yield tab
    context.close()


@pytest.fixture(autouse=True)
def whole(page) -> Iterator[None]:
    """A page that broke fails the test in which it did, with its words."""
    yield
    assert not page.wrongs


def words_of(page, where: str = "simulate") -> str:
    return page.evaluate("w => (document.querySelector(`[data-testid=${w}]`) || {textContent: ''}).textContent", where)


def wait_until(page, is_so: Callable[[], bool], what: str, patience_ms: int = PATIENCE_MS) -> None:
    """Wait for something, for so long; what the page says instead is told."""
    end = monotonic() + 1e-3 * patience_ms
    while monotonic() < end:
        assert not page.wrongs
        if is_so():
            return
        page.wait_for_timeout(100)
    notices = page.locator("[class*=Notification-description]").all_inner_texts()
    raise AssertionError(f"{what} never came; the page says {words_of(page)!r} and {notices}")


def wait_for_words(page, pattern: str, where: str = "simulate", patience_ms: int = PATIENCE_MS) -> None:
    """Wait until a block of the tab says something."""
    found = re.compile(pattern)
    wait_until(page, lambda: found.search(words_of(page, where)) is not None, pattern, patience_ms)


def session_of(studio: Studio):
    return max(studio._sessions.items())[1][1]


def arena_of(studio: Studio):
    return session_of(studio).document.arena


def choose(page, label: str, option: str) -> None:
    """Pick an option of a dropdown by its label."""
    box = page.locator(f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]//input").first
    box.click()
    page.get_by_role("option", name=option, exact=True).locator("visible=true").click()
    wait_until(page, lambda: box.input_value() == option, f"{label}: {option}")


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).locator("visible=true").first.click()


def on_screen(studio: Studio, place: np.ndarray) -> tuple[float, float]:
    """Pixel of a place in the world of the simulation, by the camera that the page told the server."""
    session = session_of(studio)
    camera, x, z = session._client.camera, *session.document.arena.place()
    away = np.asarray(place) - np.array([x, 0.0, z]) - np.array(camera.position)
    right, down, ahead = SO3(np.array(camera.wxyz)).inverse() @ away
    focal = 0.5 * HIGH / np.tan(0.5 * camera.fov)
    return 0.5 * WIDE + focal * right / ahead, 0.5 * HIGH + focal * down / ahead


def shot(page, name: str) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / name))


def pause(page, studio: Studio) -> None:
    press(page, "Go or pause")
    wait_for_words(page, "paused")
    wait_until(page, lambda: not session_of(studio)._worker._ticking, "the pause")


def chest_of(arena) -> np.ndarray:
    return arena.simulator.mechanics().joints[arena.clip.skeleton.index("spine3")]


def test_the_first_figure_stands_is_pushed_and_stands_again(page, studio: Studio) -> None:
    arena = arena_of(studio)
    height = chest_of(arena)[1]
    pause(page, studio)
    press(page, "Push")
    press(page, "One step")
    wait_until(page, lambda: len(arena.felt()) == 1, "the push")
    shot(page, "simulate-push.png")
    start_s = arena.time_s
    page.keyboard.press("p")
    wait_until(page, lambda: arena.time_s > start_s + 2.0, "two seconds")
    assert chest_of(arena)[1] > 0.95 * height
    assert np.abs(arena.trace.table()[:, LINEAR]).max() > 5.0  # [kg m/s] of the 20 N s that it was given
    wait_for_words(page, r"\+\d+\.\d cm from the edge", "above")
    assert arena.pace > 0.0


def test_a_ball_is_thrown_recorded_and_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    arena = arena_of(studio)
    press(page, "Record")
    wait_for_words(page, "Recording: ")
    pause(page, studio)
    press(page, "Throw a ball")
    wait_until(page, lambda: len(arena.balls) == 1, "the ball")
    shot(page, "simulate-ball.png")
    press(page, "Go or pause")
    wait_for_words(page, r"Recording: (0\.[5-9]|[1-9])")
    press(page, "Motion")
    link = page.locator("a[download]").last
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    download.value.save_as(str(tmp_path / "take.safetensors"))
    motion = load(tmp_path / "take.safetensors")
    assert motion.rate_hz == 100.0 and motion.num_frames > 40
    assert motion.contacts is not None and motion.contacts.active.any()


def test_a_walk_is_followed(page, studio: Studio) -> None:
    choose(page, "The figure is", "track")
    wait_for_words(page, r"track: .*s of \d\.\d\d s, \d+\.\d cm off")
    arena = arena_of(studio)
    start = arena.pose.root_position
    wait_until(page, lambda: np.linalg.norm(arena.pose.root_position - start) > 0.5, "half a metre")
    shot(page, "simulate-track.png")
    assert chest_of(arena)[1] > 1.0


def test_a_puppet_is_grabbed_and_pulled_with_the_mouse(page, studio: Studio) -> None:
    choose(page, "The figure is", "puppet")
    press(page, "This frame")
    wait_for_words(page, r"puppet: .*strings pull with")
    page.wait_for_timeout(2500)  # the view comes to rest
    arena = arena_of(studio)
    before = chest_of(arena)
    x, y = on_screen(studio, before)
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x + 6 * k, y - 16 * k)
        page.wait_for_timeout(150)
    wait_for_words(page, r"held at ")
    wait_until(page, lambda: chest_of(arena)[1] - before[1] > 0.15, "the lift")
    shot(page, "simulate-pull.png")
    page.mouse.up()
    wait_until(page, lambda: arena.hand is None and "held" not in words_of(page), "the release")


def test_a_free_figure_falls_when_it_is_let_go(page, studio: Studio) -> None:
    choose(page, "The figure is", "free")
    wait_for_words(page, "free: ")
    wait_until(page, lambda: chest_of(arena_of(studio))[1] < 0.7, "the fall")
    shot(page, "simulate-fall.png")


def test_pause_step_and_sliders_do_what_they_say(page, studio: Studio) -> None:
    arena = arena_of(studio)
    pause(page, studio)
    still_s = arena.time_s
    press(page, "One step")
    wait_until(page, lambda: arena.time_s != still_s, "one step")
    assert arena.time_s == pytest.approx(still_s + 0.01)
    row = "xpath=//label[normalize-space()='Slope [°]']/ancestor::*[.//input][1]"
    slope = page.locator(f"{row}//input[not(@type='hidden')]").locator("visible=true").first
    slope.fill("10")
    slope.press("Enter")
    wait_until(page, lambda: arena.wish.slope_deg == 10.0, "the slope")
    start = arena.time_s
    press(page, "Standing")
    wait_until(page, lambda: arena.time_s > start + 1.0, "a second")
    shot(page, "simulate-slope.png")
    assert arena.ground.normal[2] < -0.1


def test_a_reload_finds_the_figure_and_the_clip_comes_back(page, studio: Studio) -> None:
    first = session_of(studio)
    pause(page, studio)
    page.reload()
    page.get_by_role("tab", name="Simulate").click()
    wait_for_words(page, "free: .*paused")
    again = session_of(studio)
    assert again is not first and again.document.arena is first.document.arena
    press(page, "Back to the clip")
    page.get_by_role("button", name="Simulate this figure").wait_for()
    assert again.document.acting is None
