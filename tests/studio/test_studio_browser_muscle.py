"""The Muscle tab in a real browser: a scene, its sliders, a film, an arm that reaches, the muscles of a clip."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from marey.lie import SO3
from marey.studio import Studio
from marey.studio._muscle_acts import Live, Replay

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
FIRST_MS = 120_000  # kernels are compiled when they are first used
PATIENCE_MS = 60_000
SOLVE_MS = 240_000
WIDE, HIGH = 1200, 900

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser, studio: Studio):
    """A page with a table that walks; software rendering is slow, so it is drawn coarsely."""
    size = {"width": WIDE, "height": HIGH}
    context = browser.new_context(viewport=size, accept_downloads=True, device_scale_factor=0.25)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.wrongs = []
    tab.on("pageerror", lambda error: tab.wrongs.append(str(error)))
    tab.on("crash", lambda *_: tab.wrongs.append("the page crashed"))
    tab.goto(studio.url)
    tab.get_by_test_id("clock").wait_for(timeout=FIRST_MS)
    tab.get_by_role("tab", name="Muscle").click()
    choose(tab, "Scene", "table")
    press(tab, "Show this scene")
    wait_for_words(tab, r"live: .*x real time", patience_ms=FIRST_MS)
    yield tab
    context.close()


@pytest.fixture(autouse=True)
def whole(page) -> Iterator[None]:
    """A page that broke fails the test in which it did, with its words."""
    yield
    assert not page.wrongs


def words_of(page, where: str = "muscle") -> str:
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


def wait_for_words(page, pattern: str, where: str = "muscle", patience_ms: int = PATIENCE_MS) -> None:
    """Wait until a block of the tab says something."""
    found = re.compile(pattern)
    wait_until(page, lambda: found.search(words_of(page, where)) is not None, pattern, patience_ms)


def session_of(studio: Studio):
    return max(studio._sessions.items())[1][1]


def lab_of(studio: Studio):
    return session_of(studio).document.lab


def choose(page, label: str, option: str) -> None:
    """Pick an option of a dropdown by its label."""
    path = f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]//input"
    box = page.locator(path).locator("visible=true").first
    box.click()
    page.get_by_role("option", name=option, exact=True).locator("visible=true").click()
    wait_until(page, lambda: box.input_value() == option, f"{label}: {option}")


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).locator("visible=true").first.click()


def fill(page, label: str, value: str) -> None:
    """Write into the number of a slider."""
    row = f"xpath=//label[normalize-space()='{label}']/ancestor::*[.//input][1]"
    box = page.locator(f"{row}//input[not(@type='hidden')]").locator("visible=true").first
    box.fill(value)
    box.press("Enter")


def shot(page, name: str) -> np.ndarray:
    """A picture of the page ``(H, W, 3)``, kept."""
    import imageio.v3 as iio

    ARTEFACTS.mkdir(exist_ok=True)
    content = page.screenshot(path=str(ARTEFACTS / name))
    return np.asarray(iio.imread(io.BytesIO(content)))[..., :3].astype(int)


def redness(picture: np.ndarray) -> int:
    """Pixels left of the panel that are clearly red."""
    left = picture[:, : int(0.7 * picture.shape[1])]
    return int(((left[..., 0] - left[..., 1] > 60) & (left[..., 0] - left[..., 2] > 60)).sum())


def pause(page, studio: Studio) -> None:
    press(page, "Go or pause")
    wait_for_words(page, "paused")
    wait_until(page, lambda: not session_of(studio)._worker._ticking, "the pause")
    page.wait_for_timeout(500)


def on_screen(studio: Studio, place: np.ndarray) -> tuple[float, float]:
    """Pixel of a place in world, by the camera that the page told the server."""
    camera = session_of(studio)._client.camera
    right, down, ahead = SO3(np.array(camera.wxyz)).inverse() @ (np.asarray(place) - np.array(camera.position))
    focal = 0.5 * HIGH / np.tan(0.5 * camera.fov)
    return 0.5 * WIDE + focal * right / ahead, 0.5 * HIGH + focal * down / ahead


def fetched(page, path: Path) -> dict:
    """Follow the newest download link; the head of the file that comes."""
    link = page.locator("a[download]").last
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    download.value.save_as(str(path))
    content = path.read_bytes()
    assert content[:4] == b"glTF"
    return json.loads(content[20 : 20 + int.from_bytes(content[12:16], "little")])


def test_a_slider_takes_over_and_the_surface_bends_and_reddens(page, studio: Studio) -> None:
    live = lab_of(studio).live
    for name in live.names:
        fill(page, name, "0.01")
        wait_until(page, lambda name=name: live.held.get(name) == 0.01, f"the slider of {name}")
    press(page, "Reset")
    wait_until(page, lambda: live.time_s > 0.3, "a while at rest")
    pause(page, studio)
    calm, rest = shot(page, "muscle-calm.png"), live.look().surface
    fill(page, live.names[0], "1")
    wait_until(page, lambda: live.held.get(live.names[0]) == 1.0, "the slider")
    begin = live.time_s
    press(page, "Go or pause")
    wait_until(page, lambda: live.time_s > begin + 0.4, "a while of work")
    pause(page, studio)
    firm = shot(page, "muscle-firm.png")
    wait_for_words(page, f"{live.names[0]}: 1.00, slider", "activations")
    moved = live.look().surface - live.look().surface.mean(axis=0) - (rest - rest.mean(axis=0))
    assert np.abs(moved).max() > 0.01
    assert redness(firm) > redness(calm) + 100  # at a quarter of the pixels
    press(page, "Back to the programme")
    wait_until(page, lambda: live.held == {}, "the programme")


def test_what_was_seen_is_played_again_and_taken_home(page, studio: Studio, tmp_path: Path) -> None:
    lab = lab_of(studio)
    press(page, "Replay")
    wait_for_words(page, r"film: \d\.\d\d s of \d+\.\d\d s")
    assert isinstance(lab.act, Replay)
    press(page, "Export GLB")
    head = fetched(page, tmp_path / "table.glb")
    assert len(head["animations"]) == 1 and head["meshes"][0]["primitives"][0]["targets"]
    press(page, "Live")
    wait_for_words(page, "live: ")
    assert isinstance(lab.act, Live)


def test_another_scene_comes_with_its_own_sliders(page, studio: Studio) -> None:
    choose(page, "Scene", "snake")
    wait_for_words(page, r"A snake.*live: [1-9]", patience_ms=FIRST_MS)
    assert lab_of(studio).live.names == ("left", "right")
    wait_for_words(page, "left: .*programme", "activations")
    shot(page, "muscle-snake.png")
    assert lab_of(studio).live.pace > 0.0


def test_a_whole_film_is_begun_and_stopped(page, studio: Studio) -> None:
    """A snake's film has 1 200 frames: time enough to press a button."""
    press(page, "Whole film")
    wait_for_words(page, r"film: frame \d+ of \d+", patience_ms=FIRST_MS)
    press(page, "Stop")
    wait_for_words(page, "film: stopped")
    assert isinstance(lab_of(studio).act, Live)


def test_a_goal_is_dragged_and_solved(page, studio: Studio) -> None:
    press(page, "Show the arm")
    wait_for_words(page, "Drag the hand's goals")
    lab = lab_of(studio)
    page.wait_for_timeout(2500)  # the view comes to rest
    before = lab.goals.marks["hand 1"].copy()
    x, y = on_screen(studio, before + np.array([0.0, 0.16, 0.0]))  # on the arrow that points up
    page.mouse.move(x, y)
    page.wait_for_timeout(300)
    page.mouse.down()
    for k in range(1, 6):
        page.mouse.move(x, y - 6 * k)
        page.wait_for_timeout(150)
    page.mouse.up()
    wait_until(page, lambda: lab.goals.marks["hand 1"][1] > before[1] + 0.01, "the drag")
    assert lab.goals.marks["hand 1"][0] == before[0]
    fill(page, "Every [s]", "0.2")
    wait_until(page, lambda: lab.goals.every_s == 0.2, "the time")
    press(page, "Solve")
    wait_for_words(page, r"solve: iteration \d+", patience_ms=SOLVE_MS)
    wait_for_words(page, r"Goal 1: \d+\.\d cm off", "reach", SOLVE_MS)
    wait_for_words(page, r"film: 0\.\d\d s of 0\.20 s")
    assert lab.reach is not None and lab.reach.activations.max() > 0.1
    wait_until(page, lambda: lab.act.frame == lab.act.film().num_frames - 1, "the end of the reach")
    shot(page, "muscle-reach.png")


def test_muscles_of_the_clip_are_shown_while_it_plays(page, studio: Studio) -> None:
    press(page, "Muscles of the clip")
    wait_for_words(page, r"92 muscles give \d+% of all torques", "strain", FIRST_MS)
    session = session_of(studio)
    session.seek(30)
    wait_until(page, lambda: session.document.index == 30, "the frame")
    page.wait_for_timeout(1000)
    shot(page, "muscle-body.png")
    page.keyboard.press("p")
    wait_until(page, lambda: session.document.index > 40, "the clip playing")
    page.keyboard.press("p")
    press(page, "Hide the muscles")
    wait_until(page, lambda: session.document.shown["Body"], "the body")


def test_a_reload_finds_the_scene(page, studio: Studio) -> None:
    press(page, "Show this scene")
    wait_for_words(page, "live: ")
    pause(page, studio)
    first = session_of(studio)
    page.reload()
    page.get_by_role("tab", name="Muscle").click()
    wait_for_words(page, "live: .*paused")
    again = session_of(studio)
    assert again is not first and again.document.lab is first.document.lab
    press(page, "Back to the clip")
    page.get_by_role("button", name="Show this scene").wait_for()
    assert again.document.flexing is None
