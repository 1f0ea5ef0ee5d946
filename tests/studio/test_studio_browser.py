"""The studio in a real browser: headless Chromium, software rendering, no network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.io import load, save
from marey.lie import SO3
from marey.studio import Studio

ARTEFACTS = Path(os.environ.get("MAREY_ARTEFACTS", "artefacts"))
PATIENCE_MS = 60_000

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("clips")
    save(samples.walk(), folder / "walk.bvh")
    save(samples.jump(), folder / "jump.safetensors")
    with Studio([folder], port=0, max_upload_mb=1) as running:
        yield running


def open_page(browser, studio: Studio, *, sharpness: float):
    """A page of its own; software rendering is slow, so pages that nobody looks at are drawn coarsely."""
    size = {"width": 1100, "height": 720}
    context = browser.new_context(viewport=size, accept_downloads=True, device_scale_factor=sharpness)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.goto(studio.url)
    tab.get_by_test_id("clock").wait_for()
    return tab


@pytest.fixture
def page(browser, studio: Studio):
    tab = open_page(browser, studio, sharpness=0.2)
    yield tab
    tab.context.close()


def clock_s(page) -> float:
    return float(re.match(r"([\d.]+) s of", page.get_by_test_id("clock").inner_text())[1])


def pixels(page) -> np.ndarray:
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), dtype=np.int16)


def wait_until(page, script: str) -> None:
    page.wait_for_function(script, timeout=PATIENCE_MS)


def test_a_click_on_play_moves_the_character(browser, studio: Studio) -> None:
    page = open_page(browser, studio, sharpness=1.0)
    page.wait_for_timeout(2500)
    before, still = pixels(page), clock_s(page)
    page.get_by_role("button", name="Play").click()
    clock = "parseFloat((document.querySelector('[data-testid=clock]') || {innerText: '0'}).innerText)"
    wait_until(page, f"{clock} > {still + 0.4}")
    after = pixels(page)  # still playing: a slow page would hear a pause only after the clip began again
    page.get_by_role("button", name="Pause").click()
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "studio.png"))
    canvas = np.abs(after - before)[60:480, 350:750].max(axis=2)  # away from panels and timeline
    page.context.close()
    assert (canvas > 40).sum() > 500  # the body covers thousands of pixels, and its limbs moved


def test_a_reload_finds_the_page_as_it_was_left(page) -> None:
    slider = page.locator("[role=slider]:visible").first
    slider.focus()
    for _ in range(6):
        slider.press("ArrowRight")
    wait_until(page, "!document.querySelector('[data-testid=clock]').innerText.startsWith('0.00')")
    left = clock_s(page)
    page.wait_for_timeout(500)
    page.reload()
    page.get_by_test_id("clock").wait_for()
    assert clock_s(page) == pytest.approx(left, abs=0.051)


def test_an_uploaded_file_is_opened_and_a_broken_one_is_refused(page, tmp_path: Path) -> None:
    save(samples.run(), tmp_path / "mine.bvh")
    page.locator("input[id^=file_upload_]").set_input_files(str(tmp_path / "mine.bvh"))
    wait_until(page, "[...document.querySelectorAll('input')].some(i => i.value === 'mine.bvh')")
    (tmp_path / "bad.bvh").write_text("HIERARCHY\nROOT\n")
    page.locator("input[id^=file_upload_]").set_input_files(str(tmp_path / "bad.bvh"))
    page.get_by_text("bad.bvh:").first.wait_for()
    (tmp_path / "big.bvh").write_bytes(b"0" * 1_500_000)
    page.locator("input[id^=file_upload_]").set_input_files(str(tmp_path / "big.bvh"))
    page.get_by_text("larger than 1 MB").first.wait_for()


def test_an_export_gives_the_clip_back(page, tmp_path: Path) -> None:
    page.get_by_role("button", name="Clip", exact=True).click()
    link = page.locator("a[download]").first
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    target = tmp_path / "got.safetensors"
    download.value.save_as(str(target))
    got = load(target)
    assert got.num_frames in (samples.walk().num_frames, samples.jump().num_frames)
    assert got.contacts is not None


def test_two_pages_do_not_disturb_each_other(page, browser, studio: Studio) -> None:
    other = open_page(browser, studio, sharpness=0.2)
    other.get_by_role("button", name="Play").click()
    wait_until(other, "!document.querySelector('[data-testid=clock]').innerText.startsWith('0.00')")
    assert clock_s(page) == 0.0
    other.context.close()


def on_screen(page, camera, point: np.ndarray) -> tuple[float, float]:
    """Pixel of a point in world, for the page's camera."""
    size = page.viewport_size
    x, y, z = SO3(np.array(camera.wxyz)).inverse() @ (point - np.array(camera.position))
    focal = 0.5 * size["height"] / np.tan(0.5 * camera.fov)
    return 0.5 * size["width"] + focal * x / z, 0.5 * size["height"] + focal * y / z


def test_a_hand_is_dragged_with_the_mouse_and_kept_as_a_key(browser, studio: Studio) -> None:
    page = open_page(browser, studio, sharpness=0.5)
    page.get_by_role("tab", name="Pose").click()
    page.get_by_role("button", name="Pose this frame").click()
    page.get_by_test_id("ik").wait_for()
    page.wait_for_timeout(1500)
    session = max(studio._sessions.items())[1][1]
    desk, moved = session._posing.desk, np.array(session._stage._world.position)
    start = desk.state.goals["left_wrist"]
    x, y = on_screen(page, session._client.camera, start + moved + np.array([0.0, 0.17, 0.0]))  # the arrow upwards
    page.mouse.move(x, y)
    page.wait_for_timeout(400)
    page.mouse.down()
    for k in range(1, 9):
        page.mouse.move(x, y - 5 * k)
        page.wait_for_timeout(100)
    page.mouse.up()
    wait_until(page, "!document.querySelector('[data-testid=ik]').innerText.startsWith('Drag')")
    page.get_by_role("button", name="Set", exact=True).click()
    wait_until(page, "document.querySelector('[data-testid=keys]').innerText.includes('0 s')")
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "pose.png"))
    page.context.close()
    rise = desk.state.pose.joint_positions()[desk.joints["left_wrist"]] - start
    assert rise[1] > 0.05 and np.abs(rise[[0, 2]]).max() < 0.02


def test_a_click_on_check_colours_the_timeline_and_draws_forces(browser, studio: Studio) -> None:
    page = open_page(browser, studio, sharpness=1.0)
    page.wait_for_timeout(2500)
    page.get_by_role("tab", name="Physics").click()
    assert page.get_by_test_id("validity").inner_text() == "Not checked."
    before = pixels(page)
    bars = page.get_by_test_id("bars").locator("rect").count()
    page.get_by_role("button", name="Check this clip").click()
    page.get_by_test_id("validity").get_by_text("frames are green").wait_for()
    session = max(studio._sessions.items())[1][1]
    report = session.document.report
    wait_until(page, f"document.querySelectorAll('[data-testid=bars] rect').length === {bars + len(report.spans)}")
    page.wait_for_timeout(1500)
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / "physics.png"))
    drawn = np.abs(pixels(page) - before)[60:480, 350:750].max(axis=2)  # away from panels and timeline
    page.context.close()
    assert (drawn > 40).sum() > 100  # arrows at the feet, the ball of pressure, the path of the centre of mass


def test_a_stretch_is_repaired_and_opened_as_a_new_clip(page, studio: Studio) -> None:
    page.get_by_role("tab", name="Physics").click()
    page.get_by_role("button", name="Check this clip").click()
    page.get_by_test_id("validity").get_by_text("frames are green").wait_for()
    session = max(studio._sessions.items())[1][1]
    before = session.document.report
    session._physics._to.value = 1.2
    page.get_by_role("button", name="Repair this stretch").click()
    wait_until(page, "[...document.querySelectorAll('input')].some(i => i.value.includes('repaired'))")
    page.get_by_test_id("task").get_by_text("% after").wait_for()
    assert session.document.report is not before
    assert session.document.report.valid_fraction > before.valid_fraction


def test_a_jump_is_made_with_its_progress_shown(page, studio: Studio) -> None:
    page.get_by_role("tab", name="Physics").click()
    page.get_by_role("button", name="Make this jump").click()
    page.get_by_test_id("task").get_by_text("iteration").wait_for()
    wait_until(page, "[...document.querySelectorAll('input')].some(i => i.value.startsWith('jump 1 m'))")
    page.get_by_test_id("task").get_by_text("wrench residual").wait_for()
    session = max(studio._sessions.items())[1][1]
    film = session.document.film
    assert film.motion.root_positions[-1, 2] - film.motion.root_positions[0, 2] == pytest.approx(1.0, abs=0.15)
    assert session.document.report.valid_fraction > 0.8


def test_buttons_of_the_physics_tab_in_odd_orders_end_in_words(page, studio: Studio) -> None:
    page.get_by_role("tab", name="Physics").click()
    page.get_by_role("button", name="Take the worst stretch").click()
    page.get_by_text("the clip was not checked").first.wait_for()
    page.get_by_role("button", name="Repair this stretch").click()
    page.get_by_text("a stretch from 0 s to 0 s").first.wait_for()
    session = max(studio._sessions.items())[1][1]
    session._physics._to.value = 0.1
    page.get_by_role("button", name="Repair this stretch").click()
    page.get_by_text("choose a longer one").first.wait_for()
    page.get_by_test_id("task").get_by_text("It failed").wait_for()
    stop = page.get_by_role("button", name="Stop, keep the best")
    assert stop.is_disabled() and page.get_by_role("button", name="Repair this stretch").is_enabled()
    session._physics._stop_task()  # a page may send a click that it should not
    page.get_by_role("button", name="Check this clip").click()
    page.get_by_test_id("validity").get_by_text("frames are green").wait_for()
    page.get_by_role("button", name="Take the worst stretch").click()
    for _ in range(100):
        if session._physics._to.value != 0.1:
            break
        page.wait_for_timeout(100)
    assert session._physics._to.value - session._physics._from.value >= 0.4  # long enough to be repaired


def test_a_jump_goes_on_over_a_reload_and_a_second_one_is_refused(page, studio: Studio) -> None:
    page.get_by_role("tab", name="Physics").click()
    page.get_by_role("button", name="Make this jump").click()
    page.get_by_test_id("task").get_by_text("jump:").wait_for()
    first = max(studio._sessions.items())[1][1]
    first._physics._post("jump", first._physics._start_jump)  # a second click that was under way
    page.get_by_text("something is being solved already").first.wait_for()
    page.reload()
    page.get_by_test_id("clock").wait_for()
    session = max(studio._sessions.items())[1][1]
    assert session is not first and session.document is first.document
    wait_until(page, "[...document.querySelectorAll('input')].some(i => i.value.startsWith('jump 1 m'))")
    page.get_by_role("tab", name="Physics").click()
    page.get_by_test_id("validity").get_by_text("frames are green").wait_for()
    assert session.document.task is None and page.get_by_role("button", name="Make this jump").is_enabled()
