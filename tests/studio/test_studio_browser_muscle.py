"""The Muscle tab in a real browser: a scene, its sliders, a film, an arm that reaches, the muscles of a clip."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from marey.studio import Studio
from marey.studio.document.muscle.scenes import FilmReplay, LiveScene

FIRST_MS = 120_000  # kernels are compiled when they are first used
SOLVE_MS = 240_000

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("whole")]


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with Studio(port=0) as running:
        yield running


@pytest.fixture(scope="module")
def page(open_tab, studio: Studio):
    """A page with a table that walks."""
    tab = open_tab(studio, "Muscle")
    tab.choose("Scene", "table")
    tab.press_button("Show this scene")
    tab.wait_for_words(r"live: .*x real time", patience_ms=FIRST_MS)
    yield tab
    tab.context.close()


def lab_of(page):
    return page.session.document.lab


def redness(content: bytes) -> int:
    """Pixels of a picture, left of the panel, that are clearly red."""
    import imageio.v3 as iio

    picture = np.asarray(iio.imread(io.BytesIO(content)))[..., :3].astype(int)
    left = picture[:, : int(0.7 * picture.shape[1])]
    return int(((left[..., 0] - left[..., 1] > 60) & (left[..., 0] - left[..., 2] > 60)).sum())


def test_a_slider_takes_over_and_the_surface_bends_and_reddens(page) -> None:
    live = lab_of(page).live
    for name in live.names:
        page.write(name, "0.01")
        page.wait_until(lambda name=name: live.held.get(name) == 0.01, f"the slider of {name}")
    page.press_button("Reset")
    page.wait_until(lambda: live.time_s > 0.3, "a while at rest")
    page.pause()
    page.wait_for_timeout(500)
    calm, rest = page.shot("muscle-calm.png"), live.look().surface
    page.write(live.names[0], "1")
    page.wait_until(lambda: live.held.get(live.names[0]) == 1.0, "the slider")
    begin = live.time_s
    page.press_button("Go or pause")
    page.wait_until(lambda: live.time_s > begin + 0.4, "a while of work")
    page.pause()
    page.wait_for_timeout(500)
    firm = page.shot("muscle-firm.png")
    page.wait_for_words(f"{live.names[0]}: 1.00, slider", "activations")
    moved = live.look().surface - live.look().surface.mean(axis=0) - (rest - rest.mean(axis=0))
    assert np.abs(moved).max() > 0.01
    assert redness(firm) > redness(calm) + 100  # at a quarter of the pixels
    page.press_button("Back to the programme")
    page.wait_until(lambda: live.held == {}, "the programme")


def test_what_was_seen_is_played_again_and_taken_home(page, tmp_path: Path) -> None:
    lab = lab_of(page)
    page.press_button("Replay")
    page.wait_for_words(r"film: \d\.\d\d s of \d+\.\d\d s")
    assert isinstance(lab.act, FilmReplay)
    page.press_button("Export GLB")
    page.fetch(tmp_path / "table.glb")
    content = (tmp_path / "table.glb").read_bytes()
    head = json.loads(content[20 : 20 + int.from_bytes(content[12:16], "little")])
    assert len(head["animations"]) == 1 and head["meshes"][0]["primitives"][0]["targets"]
    page.press_button("Live")
    page.wait_for_words("live: ")
    assert isinstance(lab.act, LiveScene)


def test_another_scene_comes_with_its_own_sliders(page) -> None:
    page.choose("Scene", "snake")
    page.wait_for_words(r"A snake.*live: [1-9]", patience_ms=FIRST_MS)
    assert lab_of(page).live.names == ("left", "right")
    page.wait_for_words("left: .*programme", "activations")
    page.shot("muscle-snake.png")
    assert lab_of(page).live.pace > 0.0


def test_a_whole_film_is_begun_and_stopped(page) -> None:
    """A snake's film has 1 200 frames: time enough to press a button."""
    page.press_button("Whole film")
    page.wait_for_words(r"film: frame \d+ of \d+", patience_ms=FIRST_MS)
    page.press_button("Stop")
    page.wait_for_words("film: stopped")
    assert isinstance(lab_of(page).act, LiveScene)


def test_a_goal_is_dragged_and_solved(page) -> None:
    page.press_button("Show the arm")
    page.wait_for_words("Drag the hand's goals")
    lab = lab_of(page)
    page.wait_for_timeout(2500)  # the view comes to rest
    before = lab.goals.marks["hand 1"].copy()
    x, y = page.pixel(before + np.array([0.0, 0.16, 0.0]))  # on the arrow that points up
    page.mouse.move(x, y)
    page.wait_for_timeout(300)
    page.mouse.down()
    for k in range(1, 6):
        page.mouse.move(x, y - 6 * k)
        page.wait_for_timeout(150)
    page.mouse.up()
    page.wait_until(lambda: lab.goals.marks["hand 1"][1] > before[1] + 0.01, "the drag")
    assert lab.goals.marks["hand 1"][0] == before[0]
    page.write("Every [s]", "0.2")
    page.wait_until(lambda: lab.goals.every_s == 0.2, "the time")
    page.press_button("Solve")
    page.wait_for_words(r"solve: iteration \d+", patience_ms=SOLVE_MS)
    page.wait_for_words(r"Goal 1: \d+\.\d cm off", "reach", SOLVE_MS)
    page.wait_for_words(r"film: 0\.\d\d s of 0\.20 s")
    assert lab.reach is not None and lab.reach.activations.max() > 0.1
    page.wait_until(lambda: lab.act.frame == lab.act.film().num_frames - 1, "the end of the reach")
    page.shot("muscle-reach.png")


def test_muscles_of_the_clip_are_shown_while_it_plays(page) -> None:
    page.press_button("Muscles of the clip")
    page.wait_for_words(r"92 muscles supply \d+% of all torques", "strain", FIRST_MS)
    session = page.session
    session.seek(30)
    page.wait_until(lambda: session.document.index == 30, "the frame")
    page.wait_for_timeout(1000)
    page.shot("muscle-body.png")
    page.keyboard.press("p")
    page.wait_until(lambda: session.document.index > 40, "the clip playing")
    page.keyboard.press("p")
    page.press_button("Hide the muscles")
    page.wait_until(lambda: session.document.shown["Body"], "the body")


def test_a_reload_finds_the_scene(page) -> None:
    page.press_button("Show this scene")
    page.wait_for_words("live: ")
    page.pause()
    first = page.session
    page.reload()
    page.get_by_role("tab", name="Muscle").click()
    page.wait_for_words("live: .*paused")
    again = page.session
    assert again is not first and again.document.lab is first.document.lab
    page.press_button("Back to the clip")
    page.get_by_role("button", name="Show this scene").wait_for()
    assert again.document.active_muscles is None
