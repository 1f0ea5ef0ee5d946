"""The Sketch tab in a real browser: a way is clicked and dragged, a motion is made, played and taken home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.samples import sketch_file
from marey.studio import Studio
from marey.world import load_sketch

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
PATIENCE_MS = 240_000  # the engine is compiled, and the graph built, when it is first used
CLICK_MS = 60_000
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
    tab.set_default_timeout(CLICK_MS)
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


def words(page, where: str) -> str:
    return page.get_by_test_id(where).first.inner_text()


def draft_of(studio: Studio):
    return max(studio._sessions.items())[1][1].document.draft


def document_of(studio: Studio):
    return max(studio._sessions.items())[1][1].document


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


def click_ground(page, studio: Studio, x: float, z: float) -> None:
    page.keyboard.down("Control")
    page.mouse.click(*on_screen(studio, (x, 0.0, z)))
    page.keyboard.up("Control")


def choose(page, label: str, option: str) -> None:
    """Pick an option of a dropdown by its label."""
    box = page.locator(f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]//input").first
    box.click()
    page.get_by_role("option", name=option, exact=True).click()


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).locator("visible=true").first.click()


def take_download(page, path: Path) -> None:
    link = page.locator("a[download]").last
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    download.value.save_as(str(path))


def test_a_way_is_clicked_on_the_ground_and_dragged(page, studio: Studio) -> None:
    page.wait_for_timeout(2500)  # the camera flies to the sketch
    click_ground(page, studio, 0.8, 4.5)
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


def test_things_are_put_where_one_clicks_and_the_sketch_is_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    choose(page, "Ctrl-click puts", "river")
    click_ground(page, studio, 0.0, 1.6)
    wait_for_words(page, "1 thing")
    press(page, "jump")
    wait_for_words(page, "1. jump 0.7 m", "events")
    choose(page, "Ctrl-click puts", "table")
    click_ground(page, studio, -1.2, 2.4)
    wait_for_words(page, "2 things")
    press(page, "object")
    press(page, "pick")
    wait_for_words(page, "2. pick thing1 up", "events")
    page.get_by_text("File and view", exact=True).click()
    press(page, "Download the sketch (TOML)")
    take_download(page, tmp_path / "sketch.toml")
    sketch = load_sketch(tmp_path / "sketch.toml")
    (river,), (table,), (cup,) = sketch.world.rivers, sketch.world.tables, sketch.world.objects
    assert np.hypot(*np.mean([river.start, river.end], axis=0) - (0.0, 1.6)) < 0.15
    assert np.hypot(*np.array(table.position) - (-1.2, 2.4)) < 0.15
    assert cup.position[1] == pytest.approx(table.height_m + 0.05)
    assert [e.kind for e in sketch.events] == ["jump", "pick"] and len(sketch.path.points) == 3
    for _ in range(6):  # the pick, the object, the table, the jump and the river; the sixth takes back a drag
        press(page, "Undo")
        page.wait_for_timeout(300)
    assert not draft_of(studio).drawn.forms and not draft_of(studio).drawn.events


def test_the_motion_is_made_played_and_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "sketch-drawn.png"))
    goal = draft_of(studio).drawn.points[-1]
    press(page, "Synthesise")
    wait_for_words(page, r"Done in .*locomotion", "progress")
    assert "feet slide" in words(page, "progress")
    page.get_by_role("button", name="Pause").wait_for()  # it plays
    page.wait_for_timeout(2000)
    before = document_of(studio).frame
    page.wait_for_timeout(1000)
    assert document_of(studio).frame != before
    page.screenshot(path=str(ARTEFACTS / "sketch-played.png"))
    press(page, "Film strip")
    take_download(page, tmp_path / "sketch.png")
    assert (tmp_path / "sketch.png").read_bytes().startswith(b"\x89PNG")
    press(page, "BVH")
    page.wait_for_timeout(500)
    take_download(page, tmp_path / "sketch.bvh")
    motion, shown = load(tmp_path / "sketch.bvh"), document_of(studio).film.motion
    assert motion.num_frames == shown.num_frames and motion.skeleton.num_joints == shown.skeleton.num_joints
    end = motion.root_positions[-1]
    assert np.hypot(end[0] - goal[0], end[2] - goal[1]) < 0.25
    np.testing.assert_allclose(motion.root_positions[::20], shown.root_positions[::20], atol=2e-3)


def test_a_reload_finds_the_sketch_and_its_clip(page, studio: Studio) -> None:
    before = draft_of(studio)
    page.reload()
    page.get_by_role("tab", name="Sketch").click()
    wait_for_words(page, r"way-points")
    wait_for_words(page, r"Done in", "progress")
    assert draft_of(studio) is before
    press(page, "Draw here")
    page.wait_for_timeout(1000)
    assert before.is_open


def test_a_pick_is_searched_watched_compared_and_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    choose(page, "Example", "pick")
    wait_for_words(page, "^pick:")
    draft_of(studio).budget_s = 4.0
    press(page, "Compare k = 1 and k = 2")
    wait_for_words(page, r"searching, k = \d", "progress")
    page.get_by_role("button", name="Stop, keep the best").wait_for()
    wait_for_words(page, r"Done in .*graph, k = 1.*graph, k = 2", "progress")
    page.get_by_test_id("chart").wait_for()
    costs = [result.search.cost for result in draft_of(studio).synthesis.results]
    assert costs[1] <= costs[0] + 1e-9 and f"{costs[1]:.4g}" in words(page, "facts-made")
    page.wait_for_timeout(2500)
    page.screenshot(path=str(ARTEFACTS / "sketch-compared.png"))
    press(page, "GLB")
    page.wait_for_timeout(500)
    take_download(page, tmp_path / "pick.glb")
    motion = load(tmp_path / "pick.glb")
    ball = np.array(load_sketch(sketch_file("pick")).world.objects[0].position)
    positions = motion.joint_frames()[0]
    assert np.linalg.norm(positions - ball, axis=-1).min() < 0.25  # a wrist came to it
    assert np.hypot(*(motion.root_positions[-1][[0, 2]] - (0.0, 6.0))) < 0.5
