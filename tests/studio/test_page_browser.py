"""Pages of `marey view` in a real browser: what is shown is the motion, without a server and without a network."""

from __future__ import annotations

import numpy as np
import pytest

import marey
from marey.picture import NotebookPage, save_page

pytestmark = pytest.mark.browser


@pytest.fixture
def play(browser, tmp_path):
    """Open motions as a page; give the page and the addresses it asked for."""

    def do(*motions, **options):
        file = tmp_path / "page.html"
        save_page(motions, file, **options)
        page = browser.new_context(viewport={"width": 900, "height": 600}, device_scale_factor=0.25).new_page()
        page.set_default_timeout(120_000)  # a hang guard: software rendering is slow on a busy machine
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_function("window.mareyPlayer !== undefined")
        return page, asked, errors

    return do


def test_joints_stand_where_forward_kinematics_puts_them(play):
    run = marey.samples.run()
    page, asked, errors = play(run)
    for frame in (0, 17, run.num_frames - 1):
        page.evaluate(f"mareyPlayer.seek({frame / run.rate_hz})")
        shown = page.evaluate("Array.from(mareyPlayer.state.joints[0])")
        positions = run[frame].joint_positions()
        np.testing.assert_allclose(np.reshape(shown, (-1, 3)), positions, rtol=0, atol=1e-4)
    assert len(asked) == 1 and errors == []


def test_keys_play_step_and_set_a_range(play):
    walk = marey.samples.walk()
    page, _, errors = play(walk)
    page.keyboard.press("k")
    assert not page.evaluate("mareyPlayer.state.isPlaying")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("mareyPlayer.state.timeS") == pytest.approx(1 / walk.rate_hz)
    page.keyboard.press("Space")
    page.wait_for_function("mareyPlayer.state.timeS > 0.1")
    page.keyboard.press("Space")
    stopped = page.evaluate("mareyPlayer.state.timeS")
    page.wait_for_timeout(200)
    assert page.evaluate("mareyPlayer.state.timeS") == stopped
    assert errors == []


def test_pointer_on_the_timeline_seeks(play):
    walk = marey.samples.walk()
    page, _, _ = play(walk)
    box = page.locator(".time canvas").bounding_box()
    page.mouse.move(box["x"] + 96 + 0.5 * (box["width"] - 96), box["y"] + 8)
    page.mouse.down()
    page.mouse.up()
    assert page.evaluate("mareyPlayer.state.timeS") == pytest.approx(0.5 * walk.duration_s, abs=0.05)


def test_several_motions_and_a_world_are_drawn(play):
    sketch = marey.Sketch.load(marey.samples.sketch_file("three-rivers"))
    page, _, errors = play(marey.samples.walk(), marey.samples.run(), world=sketch)
    assert len(page.evaluate("mareyPlayer.state.joints.map((j) => j.length)")) == 2
    for view in ("Front", "Side", "Top", "Free"):
        page.get_by_role("button", name=view, exact=True).click()
    assert errors == []


def test_motions_play_in_the_cell_of_a_notebook(browser, tmp_path):
    walk = marey.samples.walk()
    page = browser.new_context(viewport={"width": 900, "height": 600}, device_scale_factor=0.25).new_page()
    page.set_default_timeout(120_000)
    page.set_content(f"<!doctype html><body>{NotebookPage(walk, marey.samples.run())._repr_html_()}</body>")
    frame = page.frame_locator("iframe").owner.element_handle().content_frame()
    frame.wait_for_function("window.mareyPlayer !== undefined")
    frame.evaluate(f"mareyPlayer.seek({17 / walk.rate_hz})")
    shown = frame.evaluate("mareyPlayer.state.joints.map((joints) => Array.from(joints))")
    assert len(shown) == 2
    np.testing.assert_allclose(np.reshape(shown[0], (-1, 3)), walk[17].joint_positions(), rtol=0, atol=1e-4)
