"""The Sketch tab in a real browser: a way is clicked and dragged, a motion is made, played and taken home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.studio import Studio
from marey.world import load_sketch

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
PATIENCE_MS = 180_000  # the engine is compiled when it is first used
WIDE, HIGH = 1300, 950

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser, studio: Studio):
    context = browser.new_context(
        viewport={"width": WIDE, "height": HIGH}, accept_downloads=True, device_scale_factor=0.4
    )
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.goto(studio.url)
    tab.get_by_test_id("clock").wait_for()
    tab.get_by_role("tab", name="Sketch").click()
    tab.get_by_role("button", name="Draw here").click()
    wait_for_words(tab, "2 way-points")
    yield tab
    context.close()


def wait_for_words(page, pattern: str, where: str = "sketch") -> None:
    """Wait until a block of the tab says something."""
    script = (
        "([p, w]) => RegExp(p).test((document.querySelector(`[data-testid=${w}]`) || {textContent: ''}).textContent)"
    )
    page.wait_for_function(script, arg=[pattern, where], timeout=PATIENCE_MS)


def draft_of(studio: Studio):
    return max(studio._sessions.items())[1][1].document.draft


def on_screen(studio: Studio, place: tuple[float, float, float]) -> tuple[float, float]:
    """Pixel of a place in the world, by the camera that the page told the server."""
    camera = max(studio._sessions.items())[1][1]._client.camera
    w, x, y, z = camera.wxyz
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    right, down, ahead = rotation.T @ (np.array(place) - camera.position)
    focal = 0.5 * HIGH / np.tan(0.5 * camera.fov)
    return 0.5 * WIDE + focal * right / ahead, 0.5 * HIGH + focal * down / ahead


def take_download(page, path: Path) -> None:
    link = page.locator("a[download]").last
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    download.value.save_as(str(path))


def test_a_way_is_clicked_on_the_ground_and_dragged(page, studio: Studio) -> None:
    page.wait_for_timeout(2500)  # the camera flies to the sketch
    target = on_screen(studio, (0.8, 0.0, 4.5))
    page.keyboard.down("Control")
    page.mouse.click(*target)
    page.keyboard.up("Control")
    wait_for_words(page, "3 way-points")
    draft = draft_of(studio)
    clicked = draft.drawn.points[-1]
    assert np.hypot(clicked[0] - 0.8, clicked[1] - 4.5) < 0.1
    page.wait_for_timeout(1500)
    x, y = on_screen(studio, (clicked[0] + 0.25, 0.0, clicked[1]))  # along the handle's arrow
    page.mouse.move(x, y)
    page.wait_for_timeout(300)
    page.mouse.down()
    page.mouse.move(x - 20, y, steps=2)
    page.mouse.move(x - 60, y, steps=3)
    page.wait_for_timeout(300)
    page.mouse.up()
    page.wait_for_timeout(1000)
    moved = draft.drawn.points[-1]
    assert abs(moved[0] - clicked[0]) > 0.1 and abs(moved[1] - clicked[1]) < 0.2, (clicked, moved)


def test_a_river_is_dropped_and_the_sketch_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    page.get_by_role("button", name="river", exact=True).click()
    page.get_by_role("button", name="jump", exact=True).click()
    wait_for_words(page, "1. jump", "events")
    page.get_by_role("button", name="Download the sketch (TOML)").click()
    take_download(page, tmp_path / "sketch.toml")
    sketch = load_sketch(tmp_path / "sketch.toml")
    assert len(sketch.world.rivers) == 1 and sketch.events[0].kind == "jump" and len(sketch.path.points) == 3
    page.get_by_role("button", name="Clear events").click()
    wait_for_words(page, "No events", "events")
    page.get_by_role("button", name="Remove it").click()
    page.wait_for_timeout(500)
    assert not draft_of(studio).drawn.forms


def test_the_motion_is_made_played_and_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "sketch-drawn.png"))
    goal = draft_of(studio).drawn.points[-1]
    page.get_by_role("button", name="Synthesise").click()
    wait_for_words(page, r"Done in .*locomotion, SOLVED")
    page.get_by_role("button", name="Pause").wait_for()  # it plays
    page.wait_for_timeout(3000)
    page.screenshot(path=str(ARTEFACTS / "sketch-played.png"))
    page.get_by_role("button", name="GLB", exact=True).locator("visible=true").first.click()
    page.wait_for_timeout(500)
    take_download(page, tmp_path / "sketch.glb")
    end = load(tmp_path / "sketch.glb").root_positions[-1]
    assert np.hypot(end[0] - goal[0], end[2] - goal[1]) < 0.25


def test_a_reload_finds_the_sketch_and_its_clip(page, studio: Studio) -> None:
    before = draft_of(studio)
    page.reload()
    page.get_by_role("tab", name="Sketch").click()
    wait_for_words(page, r"3 way-points.*Done in")
    assert draft_of(studio) is before
    page.get_by_role("button", name="Draw here").click()
    page.wait_for_timeout(1000)
    assert before.is_open
