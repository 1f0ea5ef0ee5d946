"""The Walk tab in a real browser: a character is driven, jumps, meets an obstacle, is recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.studio import Studio

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
PATIENCE_MS = 180_000  # the engine is compiled when it is first used

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


def open_walk(browser, studio: Studio, *, sharpness: float):
    """A page in which a character stands; software rendering is slow, so pages that nobody looks at are coarse."""
    size = {"width": 1100, "height": 900}
    context = browser.new_context(viewport=size, accept_downloads=True, device_scale_factor=sharpness)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.goto(studio.url)
    tab.get_by_test_id("clock").wait_for()
    tab.get_by_role("tab", name="Walk").click()
    tab.get_by_role("button", name="Walk here").click()
    wait_for_words(tab, r"ms a frame")
    return tab


@pytest.fixture(scope="module")
def page(browser, studio: Studio):
    tab = open_walk(browser, studio, sharpness=0.4)
    yield tab
    tab.context.close()


def wait_for_words(page, pattern: str) -> None:
    """Wait until the state label says something."""
    script = "p => RegExp(p).test((document.querySelector('[data-testid=walk]') || {innerText: ''}).innerText)"
    page.wait_for_function(script, arg=pattern, timeout=PATIENCE_MS)


def wait_for_number(page, label: str, value: float) -> None:
    """Wait until the number beside a slider is a certain one."""
    script = """([label, value]) => [...document.querySelectorAll('label')]
        .filter(l => l.innerText.trim() === label)
        .map(l => { while (l && !l.querySelector('input')) l = l.parentElement; return l })
        .some(row => row && parseFloat(row.querySelector('input').value) === value)"""
    page.wait_for_function(script, arg=[label, value], timeout=PATIENCE_MS)


def pixels(page) -> np.ndarray:
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), dtype=np.int16)


def test_glardon_a48_a_character_is_driven_in_the_browser(page, studio: Studio) -> None:
    before = pixels(page)
    page.get_by_role("button", name="Walk", exact=True).click()
    wait_for_words(page, r"1\.3\d m/s")
    page.keyboard.press("j")
    page.keyboard.press("i")
    wait_for_number(page, "Turn [°/s]", 10.0)
    wait_for_number(page, "Speed [m/s]", 1.4)
    wait_for_words(page, r"1\.40 m/s")
    page.keyboard.press("u")
    wait_for_number(page, "Turn [°/s]", 0.0)
    assert np.abs(pixels(page) - before)[50:320, 50:280].max() > 40  # the body and its prints moved
    engine = max(studio._sessions.items())[1][1].document.walk.active_character.engine
    assert engine.heading_rad > 0.0 and len(engine.footprints) >= 4


def test_a_jump_is_told_recorded_and_taken_home(page, tmp_path: Path) -> None:
    page.get_by_role("button", name="Record").click()
    page.get_by_role("button", name="Jump", exact=True).click()
    wait_for_words(page, r": (adapt|blend-in|jump|blend-out|restore)")
    wait_for_words(page, r": (restore|locomotion)")
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "walk.png"))
    page.get_by_role("button", name="GLB", exact=True).click()
    link = page.locator("a[download]").first
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    download.value.save_as(str(tmp_path / "walker.glb"))
    way = load(tmp_path / "walker.glb").root_positions
    assert np.hypot(*(way[-1] - way[0])[[0, 2]]) > 1.0  # run-up and leap


def test_an_obstacle_is_dropped_and_decided_about(page) -> None:
    page.keyboard.press("o")
    wait_for_words(page, r"Obstacle: (walk leap|run leap|round|stop|wait)")
    page.get_by_role("button", name="Clear boxes").click()
    wait_for_words(page, r"^(?![^]*Obstacle)")


def test_another_page_has_its_own_characters_and_a_reload_finds_them(page, browser, studio: Studio) -> None:
    first = max(studio._sessions.items())[1][1]
    page.keyboard.press("p")
    wait_for_words(page, "paused")
    other = open_walk(browser, studio, sharpness=0.1)
    wait_for_words(other, r"standing\n0\.00 m/s")
    other.context.close()
    page.reload()
    page.get_by_role("tab", name="Walk").click()
    wait_for_words(page, r"Walker 1: .*paused\n1\.\d\d m/s")
    again = max(studio._sessions.items())[1][1]
    assert again is not first and again.document.walk is first.document.walk
    page.get_by_role("button", name="Back to the clip").click()
    page.get_by_test_id("clock").wait_for()
