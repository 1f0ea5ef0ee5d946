"""The Simulate tab in a real browser: a figure is pulled with the mouse, pushed, hit by a ball, recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.lie import SO3
from marey.studio import Studio

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
PATIENCE_MS = 120_000  # kernels are compiled when they are first used
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
    context = browser.new_context(viewport=size, accept_downloads=True, device_scale_factor=0.5)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.goto(studio.url)
    tab.get_by_test_id("clock").wait_for()
    tab.get_by_role("tab", name="Simulate").click()
    tab.get_by_role("button", name="Simulate this frame").click()
    wait_for_words(tab, r"x real time")
    yield tab
    context.close()


def wait_for_words(page, pattern: str, where: str = "simulate") -> None:
    """Wait until a block of the tab says something."""
    script = (
        "([p, w]) => RegExp(p).test((document.querySelector(`[data-testid=${w}]`) || {textContent: ''}).textContent)"
    )
    page.wait_for_function(script, arg=[pattern, where], timeout=PATIENCE_MS)


def session_of(studio: Studio):
    return max(studio._sessions.items())[1][1]


def arena_of(studio: Studio):
    return session_of(studio).document.arena


def choose(page, label: str, option: str) -> None:
    """Pick an option of a dropdown by its label."""
    box = page.locator(f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]//input").first
    box.click()
    page.get_by_role("option", name=option, exact=True).locator("visible=true").click()


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


def chest_of(arena) -> np.ndarray:
    return arena.simulator.mechanics().joints[arena.clip.skeleton.index("spine3")]


def test_a_puppet_is_grabbed_and_pulled_with_the_mouse(page, studio: Studio) -> None:
    choose(page, "The figure is", "puppet")
    press(page, "This frame")
    wait_for_words(page, r"puppet: .*strings pull with")
    page.wait_for_timeout(2500)  # the camera comes to rest
    arena = arena_of(studio)
    before = chest_of(arena)
    x, y = on_screen(studio, before)
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x + 6 * k, y - 16 * k)
        page.wait_for_timeout(150)
    wait_for_words(page, r"held at ")
    page.wait_for_timeout(2500)
    shot(page, "simulate-pull.png")
    lifted = chest_of(arena)[1] - before[1]
    page.mouse.up()
    page.wait_for_function("!document.querySelector('[data-testid=simulate]').textContent.includes('held')")
    assert lifted > 0.15 and arena.hand is None


def test_a_free_figure_falls_when_it_is_let_go(page, studio: Studio) -> None:
    choose(page, "The figure is", "free")
    wait_for_words(page, "free: ")
    page.wait_for_timeout(3000)
    assert chest_of(arena_of(studio))[1] < 0.7
    shot(page, "simulate-fall.png")


def test_a_standing_figure_is_pushed_and_stands_again(page, studio: Studio) -> None:
    choose(page, "The figure is", "balance")
    wait_for_words(page, r"balance: .*cm off")
    arena = arena_of(studio)
    start_s, height = arena.time_s, chest_of(arena)[1]
    press(page, "Push")
    for _ in range(100):
        page.wait_for_timeout(200)
        if arena.time_s > start_s + 2.0:
            break
    shot(page, "simulate-balance.png")
    assert chest_of(arena)[1] > 0.95 * height
    wait_for_words(page, r"\+\d+\.\d cm from the edge", "above")
    assert arena.pace > 0.0 and len(arena.trace.table()) > 10


def test_a_ball_is_thrown_recorded_and_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    arena = arena_of(studio)
    press(page, "Record")
    wait_for_words(page, "Recording: ")
    press(page, "Throw a ball")
    for _ in range(100):
        page.wait_for_timeout(100)
        if arena.balls and arena.take.seconds > 0.2:
            break
    shot(page, "simulate-ball.png")
    assert len(arena.balls) == 1
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


def test_pause_step_and_sliders_do_what_they_say(page, studio: Studio) -> None:
    arena = arena_of(studio)
    page.keyboard.press("p")
    wait_for_words(page, "paused")
    page.wait_for_timeout(500)
    still_s = arena.time_s
    press(page, "One step")
    for _ in range(50):
        page.wait_for_timeout(100)
        if arena.time_s != still_s:
            break
    assert arena.time_s == pytest.approx(still_s + 0.01)
    row = "xpath=//label[normalize-space()='Slope [°]']/ancestor::*[.//input][1]"
    slope = page.locator(f"{row}//input[not(@type='hidden')]").locator("visible=true").first
    slope.fill("10")
    slope.press("Enter")
    for _ in range(50):
        page.wait_for_timeout(100)
        if arena.wish.slope_deg == 10.0:
            break
    assert arena.wish.slope_deg == 10.0
    choose(page, "The figure is", "free")
    press(page, "Go or pause")
    page.wait_for_timeout(2500)
    shot(page, "simulate-slope.png")
    assert arena.ground.normal[2] < -0.1


def test_a_reload_finds_the_figure_and_the_clip_comes_back(page, studio: Studio) -> None:
    first = session_of(studio)
    page.keyboard.press("p")
    wait_for_words(page, "paused")
    page.reload()
    page.get_by_role("tab", name="Simulate").click()
    wait_for_words(page, "free: .*paused")
    again = session_of(studio)
    assert again is not first and again.document.arena is first.document.arena
    press(page, "Back to the clip")
    page.get_by_test_id("clock").wait_for()
    assert again.document.acting is None
    page.get_by_role("button", name="Simulate this frame").wait_for()
