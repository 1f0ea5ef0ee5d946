"""The Simulate tab without a browser: the arena, every control, grabs, pushes, balls, takes, bad values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey import samples
from marey.base import InputError
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.document.simulate.arena import STEP_S, SimulationDocument
from marey.studio.document.simulate.figure import CONTROLLERS, FigureFactory, SimulationSettings
from marey.studio.modes.simulate import SimulationPanel, make_first_simulation, state_html, state_lines

WALK = samples.walk()
FIGURES = FigureFactory(WALK)
FRAME = 30


@pytest.fixture
def arena() -> SimulationDocument:
    return SimulationDocument(FIGURES, FRAME)


def run(arena: SimulationDocument, seconds: float) -> None:
    for _ in range(round(seconds / STEP_S)):
        arena._step()


def height_m(arena: SimulationDocument) -> float:
    return float(arena.simulator.mechanics().com[1])


@pytest.fixture
def page(make_page):
    """The tab of a clip whose figure is known already, in free fall."""
    document = PageDocument()
    document.open("walk", replace(ClipFrames.from_motion(WALK), motion=WALK))
    document.arena = SimulationDocument(FIGURES, FRAME)
    document.arena.is_on = False
    here = make_page(SimulationPanel, document)
    here.do(here.panel._start)
    assert not here.errors
    return here


@pytest.mark.parametrize("will", CONTROLLERS)
def test_each_will_is_chosen_on_the_page_and_runs(page, will: str) -> None:
    page.do(page.panel._will.will.widget, will)
    run(page.document.arena, 0.2)
    page.panel.refresh(page.document)
    assert page.document.arena.wish.will == will and not page.errors
    assert state_lines(page.document.arena)[0].startswith(f"{will}: 0.20 s")


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("alpha", 0.8),
        ("stiffness_per_s", 9.0),
        ("pull_n_m", 800.0),
        ("damping_per_s", 3.0),
        ("modes", 6.0),
        ("gravity_m_s2", 2.0),
        ("slope_deg", -5.0),
    ],
)
def test_each_slider_changes_what_it_names(page, what: str, value: float) -> None:
    page.do(page.panel._will.fields[what].slider, value)
    assert getattr(page.document.arena.wish, what) == pytest.approx(value) and not page.errors


def test_drags_grab_pull_and_release(page) -> None:
    place = page.document.arena.simulator.mechanics().joints[15]
    page.panel.grab_body("start", 15, place)
    page.panel.grab_body("update", 15, place + 0.3)
    assert page.document.arena.hand.joint == 15
    np.testing.assert_allclose(page.document.arena.hand.target, place + 0.3)
    run(page.document.arena, 0.1)
    assert any("held at head" in line for line in state_lines(page.document.arena))
    page.panel.grab_body("end", 15, place)
    assert page.document.arena.hand is None


def test_buttons_push_throw_step_record_and_keep(page) -> None:
    panel = page.panel
    page.do(panel._record)
    page.do(panel._pushes.push_button)
    page.do(panel._pushes.throw_button)
    assert len(page.document.arena.balls) == 1 and len(page.document.arena._pushes) == 1
    page.do(panel._time, "One step")
    assert not page.document.arena.is_running and page.document.arena.time_s == pytest.approx(STEP_S)
    page.do(panel._time, "Go or pause")
    run(page.document.arena, 0.1)
    page.do(panel._keep, "GLB")
    page.do(panel._keep, "Clip")
    assert page.sent[0][1] == "simulated.glb" and page.opened[0][0].contacts is not None
    page.do(panel._again, "Standing")
    assert page.document.arena.is_running and not page.errors
    stand = page.document.arena.pose.joint_positions()
    assert stand[0, 1] > 0.8 and page.document.arena.time_s > 0.0


def test_the_tab_without_a_simulation_asks_for_one(make_page) -> None:
    document = PageDocument()
    document.open("walk", ClipFrames.from_motion(WALK))
    page = make_page(SimulationPanel, document)
    page.do(page.panel._record)
    assert "nothing is simulated" in str(page.errors[0])
    page.panel.grab_body("start", 3, np.zeros(3))
    assert len(page.errors) == 1 and "Simulate this figure" in state_html(None)
    page.do(page.panel._start)
    page.do(page.panel._back)
    assert page.document.active_simulation is None and page.document.active_mode is None


def test_settings_outlive_another_start(page) -> None:
    page.do(page.panel._will.fields["gravity_m_s2"].slider, 2.0)
    page.do(page.panel._back)
    page.do(page.panel._start)
    assert page.document.arena.wish.gravity_m_s2 == 2.0


def test_the_first_figure_stands_and_one_that_cannot_stand_is_let_go(make_page, monkeypatch) -> None:
    arena = make_first_simulation(FIGURES, FRAME)
    before = height_m(arena)
    run(arena, 1.0)
    assert arena.wish.will == "balance" and height_m(arena) > 0.97 * before

    def no_feet(*_: object, **__: object) -> None:
        raise InputError("no feet", "")

    monkeypatch.setattr("marey.control.live.figure.make_stand", no_feet)
    assert make_first_simulation(FIGURES, FRAME).wish.will == "free"


def test_only_what_means_something_is_on_the_page(page) -> None:
    group = page.panel._will
    seen = {}
    for will in CONTROLLERS:
        page.do(group.will.widget, will)
        seen[will] = {what for what, widget in group._widgets.items() if widget.visible}
    assert {w for w in CONTROLLERS if "alpha" in seen[w]} == {"puppet"} and {
        w for w in CONTROLLERS if "feet" in seen[w]
    } == {"balance"}
    assert all("gravity_m_s2" in seen[will] for will in CONTROLLERS) and not page.errors
    assert group.fields["modes"].slider.max == FIGURES.num_modes == group.fields["modes"].slider.value
    page.do(page.panel._back)
    assert not page.panel._time.visible and page.panel._start.visible


def test_a_clip_that_was_followed_to_its_end_begins_again() -> None:
    arena = SimulationDocument(FIGURES, WALK.num_frames - 25, SimulationSettings(will="track"))
    first = arena.pose.root_position
    steps = round(24 / WALK.rate_hz / STEP_S)
    run(arena, STEP_S * (steps - 5))
    assert np.linalg.norm(arena.pose.root_position - first) > 0.2
    run(arena, STEP_S * 10)
    assert arena.will.words.startswith("0.0") and arena.is_running
    assert np.linalg.norm(arena.pose.root_position - first) < 0.2


def test_a_take_ends_with_the_clip_that_is_followed() -> None:
    arena = SimulationDocument(FIGURES, WALK.num_frames - 25, SimulationSettings(will="track"))
    arena.toggle_record()
    for _ in range(100):
        arena.advance(STEP_S + 1e-9)
    assert not arena.is_recording and not arena.is_running
    way = arena.finished_take().root_positions
    assert np.abs(np.diff(way, axis=0)).max() < 0.05 and len(way) == pytest.approx(25 / WALK.rate_hz / STEP_S, abs=5)


@pytest.mark.parametrize("feet", ["left", "right"])
def test_a_figure_of_a_walk_stands_on_one_foot(feet: str) -> None:
    arena = SimulationDocument(FIGURES, FRAME, SimulationSettings(will="balance"))
    arena.stand_on(feet)
    run(arena, 4.0)
    other = arena.clip.skeleton.index("right_ankle" if feet == "left" else "left_ankle")
    assert "cm off" in arena.will.words and arena.pose.joint_positions()[0, 1] > 0.7
    assert arena.pose.joint_positions()[other, 1] > 0.12  # lifted
