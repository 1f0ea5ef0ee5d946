"""The Simulate tab without a browser: the arena, every control, grabs, pushes, balls, takes, bad values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.io import load, save
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.document.simulate.arena import MAX_BALLS, STEP_S, SimulationDocument
from marey.studio.document.simulate.figure import CONTROLLERS, RANGES, FigureFactory, SimulationSettings, direction
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


def test_a_free_figure_falls_and_lies_on_the_ground(arena: SimulationDocument) -> None:
    before = height_m(arena)
    run(arena, 1.5)
    assert height_m(arena) < before - 0.3
    assert height_m(arena) > 0.05 and np.isfinite(arena.trace.table()).all()
    assert arena.time_s == pytest.approx(1.5)


def test_the_figure_starts_on_the_ground() -> None:
    arena = SimulationDocument(FIGURES, FRAME)
    gaps = arena.standing()
    assert gaps.margin_m is not None and len(gaps.corners) >= 1


def test_the_energy_of_a_free_figure_never_grows(arena: SimulationDocument) -> None:
    run(arena, 0.6)
    total = arena.trace.table()[:, 3]
    assert total[-1] < total[0] and np.diff(total).max() < 0.02 * abs(total[0])


def test_a_hand_holds_what_it_grabbed(arena: SimulationDocument) -> None:
    head = arena.clip.skeleton.index("head")
    place = arena.simulator.mechanics().joints[head]
    arena.ask("pull_n_m", 3000.0)
    arena.grab(head, place)
    run(arena, 1.5)
    assert arena.hand is not None
    sag = np.linalg.norm(arena.hand.place(arena.simulator.mechanics()) - place)
    assert sag < 0.4  # the weight of the body over the stiffness is 0.24 m
    assert np.linalg.norm(arena.pulls[0].force_n) > 200.0
    arena.release()
    run(arena, 1.0)
    assert np.linalg.norm(arena.simulator.mechanics().joints[head] - place) > 0.5


def test_a_puppet_at_alpha_one_follows_the_hand_and_at_zero_falls(arena: SimulationDocument) -> None:
    wrist = arena.clip.skeleton.index("right_wrist")
    errors = {}
    for alpha in (0.0, 1.0):
        arena.choose("puppet")
        arena.ask("alpha", alpha)
        arena.start()
        arena.grab(wrist, arena.simulator.mechanics().joints[wrist])
        arena.pull(arena.hand.target + np.array([0.0, 0.15, 0.1]))
        run(arena, 1.0)
        errors[alpha] = np.linalg.norm(arena.hand.place(arena.simulator.mechanics()) - arena.hand.target)
    assert errors[1.0] < 0.05 < 0.3 < errors[0.0]


def test_a_balancing_figure_stands_where_a_free_one_falls(arena: SimulationDocument) -> None:
    heights = {}
    for will in ("free", "balance"):
        arena.choose(will)
        arena.start(is_standing=True)
        first = height_m(arena)
        run(arena, 1.0)
        heights[will] = height_m(arena) / first
    assert heights["balance"] > 0.97 and heights["free"] < 0.85
    assert "N m" in arena.will.words


def test_a_push_moves_the_figure_by_its_impulse(arena: SimulationDocument) -> None:
    arena.ask("gravity_m_s2", 0.0)
    arena.ask("damping_per_s", 0.0)
    arena.home = type(arena.home)(arena.home.skeleton, arena.home.root_position + 2.0, arena.home.rotations)
    arena._take_over(arena._make_simulator(), arena.home, None)
    arena.push("pelvis", 90.0, 0.0, 150.0, 0.1)
    run(arena, 0.3)
    momentum = arena.trace.table()[-1, 4:7]
    np.testing.assert_allclose(momentum, [15.0, 0.0, 0.0], atol=1e-6)


def test_directions_are_ahead_left_and_up() -> None:
    np.testing.assert_allclose(direction(0.0, 0.0), [0.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(direction(90.0, 0.0), [1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(direction(30.0, 90.0), [0.0, 1.0, 0.0], atol=1e-12)


def test_a_ball_hits_and_the_oldest_is_forgotten(arena: SimulationDocument) -> None:
    arena.choose("free")
    arena.throw("pelvis", 90.0, 15.0, 5.0)
    before = arena.simulator.state.velocity[3]
    run(arena, 0.3)
    assert arena.simulator.state.velocity[3] > before + 0.1  # the ball flew towards +x
    for heading in (0.0, 45.0, 90.0, 135.0, 180.0, -90.0):
        arena.throw("chest", heading, 8.0, 1.0)
        run(arena, 0.02)
    assert len(arena.balls) == MAX_BALLS


def test_a_ball_flies_at_a_puppet_too(arena: SimulationDocument) -> None:
    arena.choose("puppet")
    arena.throw("pelvis", 90.0, 8.0, 1.0)
    start = arena.balls[0].place
    run(arena, 0.1)
    assert np.linalg.norm(arena.balls[0].place - start) > 0.5


@pytest.mark.parametrize(
    ("what", "value"), [("modes", 3.0), ("is_full", 1.0), ("gravity_m_s2", 1.6), ("slope_deg", 8.0)]
)
def test_a_slider_of_the_simulator_keeps_pose_and_motion(arena: SimulationDocument, what: str, value: float) -> None:
    run(arena, 0.2)
    before, pose = arena.simulator.state, arena.pose
    arena.ask(what, value)
    after = arena.simulator.state
    assert arena.simulator is not before and getattr(arena.wish, what) == pytest.approx(value)
    np.testing.assert_allclose(after.velocity[:6], before.velocity[:6], atol=1e-9)
    np.testing.assert_allclose(arena.pose.root_position, pose.root_position, atol=1e-9)
    run(arena, 0.2)


def test_the_dimension_is_that_of_the_slider(arena: SimulationDocument) -> None:
    arena.ask("modes", 4)
    assert arena.simulator.num_dof == 6 + 4
    arena.ask("modes", 60)
    most = arena.simulator.num_dof - 6
    assert 5 <= most <= 20  # the clip has no more
    arena.ask("is_full", True)
    assert arena.simulator.num_dof > 40


def test_the_ground_tilts_under_the_figure(arena: SimulationDocument) -> None:
    arena.ask("slope_deg", 20.0)
    assert arena.ground.normal[2] < -0.3  # it rises ahead
    run(arena, 1.5)
    assert arena.simulator.mechanics().com[2] < SimulationDocument(FIGURES, FRAME).simulator.mechanics().com[2]


def test_a_take_goes_on_over_changes_of_the_figure(arena: SimulationDocument, tmp_path) -> None:
    arena.toggle_record()
    run(arena, 0.2)
    arena.ask("gravity_m_s2", 4.0)
    run(arena, 0.1)
    arena.ask("is_full", True)
    run(arena, 0.1)
    motion = arena.finished_take()
    assert motion.num_frames == 41 and motion.rate_hz == 100.0 and not arena.is_recording
    assert motion.contacts is not None and motion.contacts.active.any()
    assert np.abs(np.diff(motion.root_positions, axis=0)).max() < 0.05  # no jump where a figure took over
    save(motion, tmp_path / "take.safetensors")
    assert load(tmp_path / "take.safetensors").num_frames == 41


def test_a_puppet_is_recorded_with_its_contacts(arena: SimulationDocument) -> None:
    arena.choose("puppet")
    arena.ask("alpha", 0.1)
    arena.toggle_record()
    run(arena, 0.5)
    assert arena.finished_take().contacts.active.any()


def test_real_time_passes_and_what_is_too_slow_is_left_behind(arena: SimulationDocument, monkeypatch) -> None:
    clock = iter(np.arange(0.0, 1e6, 0.02))
    monkeypatch.setattr("marey.studio.document.simulate.arena.perf_counter", lambda: float(next(clock)))
    arena.advance(0.05)
    assert arena.time_s == pytest.approx(STEP_S)  # one step took longer than the budget
    for _ in range(60):
        arena.advance(0.05)
    assert arena.pace == pytest.approx(0.2, abs=0.05)
    arena.is_running = False
    arena.advance(1.0)
    assert arena.time_s == pytest.approx(61 * STEP_S)


def test_a_step_that_fails_stops_time_and_brings_the_figure_back(arena: SimulationDocument, monkeypatch) -> None:
    run(arena, 0.3)

    def fail(*_: object) -> None:
        raise InputError("it broke", "")

    monkeypatch.setattr(arena.will, "step", fail)
    with pytest.raises(InputError, match="it broke"):
        arena.advance(0.05)
    assert not arena.is_running
    np.testing.assert_allclose(arena.pose.root_position, arena.home.root_position, atol=1e-9)
    arena.single_step()


@pytest.mark.parametrize("what", list(RANGES))
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308, 1e308])
def test_any_number_from_a_page_is_refused_or_held(what: str, value: float) -> None:
    wish = SimulationSettings()
    try:
        held = getattr(wish.with_value(what, value), what)
    except InputError:
        assert not np.isfinite(value)
    else:
        assert RANGES[what][0] <= held <= RANGES[what][1]


def test_names_that_a_page_makes_up_are_refused(arena: SimulationDocument) -> None:
    for edit in (
        lambda: arena.choose("fly"),
        lambda: arena.ask("wind", 1.0),
        lambda: arena.push("tail", 0.0, 0.0, 1.0, 0.1),
        lambda: arena.show("Wings", True),
        lambda: arena.grab(999, (0.0, 0.0, 0.0)),
        lambda: arena.grab(3, (np.nan, 0.0, 0.0)),
    ):
        with pytest.raises((InputError, UnknownNameError)):
            edit()
    with pytest.raises(InputError, match="nothing was recorded"):
        arena.finished_take()
    run(arena, 0.05)


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

    monkeypatch.setattr("marey.studio.document.simulate.figure.make_stand", no_feet)
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
