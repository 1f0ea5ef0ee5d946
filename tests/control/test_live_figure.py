"""A simulated figure under the hand: it falls, is held, pushed and recorded."""

from __future__ import annotations

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.control.live_controllers import RANGES, FigureFactory, SimulationSettings, direction
from marey.control.live_figure import MAX_BALLS, STEP_S, LiveFigure
from marey.io import load, save

WALK = samples.walk()
FIGURES = FigureFactory(WALK)
FRAME = 30


@pytest.fixture
def arena() -> LiveFigure:
    return LiveFigure(FIGURES, FRAME)


def run(arena: LiveFigure, seconds: float) -> None:
    for _ in range(round(seconds / STEP_S)):
        arena._step()


def height_m(arena: LiveFigure) -> float:
    return float(arena.simulator.mechanics().com[1])


def test_a_free_figure_falls_and_lies_on_the_ground(arena: LiveFigure) -> None:
    before = height_m(arena)
    run(arena, 1.5)
    assert height_m(arena) < before - 0.3
    assert height_m(arena) > 0.05 and np.isfinite(arena.trace.table()).all()
    assert arena.time_s == pytest.approx(1.5)


def test_the_figure_starts_on_the_ground() -> None:
    arena = LiveFigure(FIGURES, FRAME)
    gaps = arena.standing()
    assert gaps.margin_m is not None and len(gaps.corners) >= 1


def test_the_energy_of_a_free_figure_never_grows(arena: LiveFigure) -> None:
    run(arena, 0.6)
    total = arena.trace.table()[:, 3]
    assert total[-1] < total[0] and np.diff(total).max() < 0.02 * abs(total[0])


def test_a_hand_holds_what_it_grabbed(arena: LiveFigure) -> None:
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


def test_a_puppet_at_alpha_one_follows_the_hand_and_at_zero_falls(arena: LiveFigure) -> None:
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


def test_a_balancing_figure_stands_where_a_free_one_falls(arena: LiveFigure) -> None:
    heights = {}
    for mode in ("free", "balance"):
        arena.choose(mode)
        arena.start(is_standing=True)
        first = height_m(arena)
        run(arena, 1.0)
        heights[mode] = height_m(arena) / first
    assert heights["balance"] > 0.97 and heights["free"] < 0.85
    assert "N m" in arena.controller.words


def test_a_push_moves_the_figure_by_its_impulse(arena: LiveFigure) -> None:
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


def test_a_ball_hits_and_the_oldest_is_forgotten(arena: LiveFigure) -> None:
    arena.choose("free")
    arena.throw("pelvis", 90.0, 15.0, 5.0)
    before = arena.simulator.state.velocity[3]
    run(arena, 0.3)
    assert arena.simulator.state.velocity[3] > before + 0.1  # the ball flew towards +x
    for heading in (0.0, 45.0, 90.0, 135.0, 180.0, -90.0):
        arena.throw("chest", heading, 8.0, 1.0)
        run(arena, 0.02)
    assert len(arena.balls) == MAX_BALLS


def test_a_ball_flies_at_a_puppet_too(arena: LiveFigure) -> None:
    arena.choose("puppet")
    arena.throw("pelvis", 90.0, 8.0, 1.0)
    start = arena.balls[0].place
    run(arena, 0.1)
    assert np.linalg.norm(arena.balls[0].place - start) > 0.5


@pytest.mark.parametrize(
    ("what", "value"), [("modes", 3.0), ("is_full", 1.0), ("gravity_m_s2", 1.6), ("slope_deg", 8.0)]
)
def test_a_slider_of_the_simulator_keeps_pose_and_motion(arena: LiveFigure, what: str, value: float) -> None:
    run(arena, 0.2)
    before, pose = arena.simulator.state, arena.pose
    arena.ask(what, value)
    after = arena.simulator.state
    assert arena.simulator is not before and getattr(arena.settings, what) == pytest.approx(value)
    np.testing.assert_allclose(after.velocity[:6], before.velocity[:6], atol=1e-9)
    np.testing.assert_allclose(arena.pose.root_position, pose.root_position, atol=1e-9)
    run(arena, 0.2)


def test_the_dimension_is_that_of_the_slider(arena: LiveFigure) -> None:
    arena.ask("modes", 4)
    assert arena.simulator.num_dof == 6 + 4
    arena.ask("modes", 60)
    most = arena.simulator.num_dof - 6
    assert 5 <= most <= 20  # the clip has no more
    arena.ask("is_full", True)
    assert arena.simulator.num_dof > 40


def test_the_ground_tilts_under_the_figure(arena: LiveFigure) -> None:
    arena.ask("slope_deg", 20.0)
    assert arena.ground.normal[2] < -0.3  # it rises ahead
    run(arena, 1.5)
    assert arena.simulator.mechanics().com[2] < LiveFigure(FIGURES, FRAME).simulator.mechanics().com[2]


def test_a_take_goes_on_over_changes_of_the_figure(arena: LiveFigure, tmp_path) -> None:
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


def test_a_puppet_is_recorded_with_its_contacts(arena: LiveFigure) -> None:
    arena.choose("puppet")
    arena.ask("alpha", 0.1)
    arena.toggle_record()
    run(arena, 0.5)
    assert arena.finished_take().contacts.active.any()


def test_real_time_passes_and_what_is_too_slow_is_left_behind(arena: LiveFigure, monkeypatch) -> None:
    clock = iter(np.arange(0.0, 1e6, 0.02))
    monkeypatch.setattr("marey.control.live_figure.perf_counter", lambda: float(next(clock)))
    arena.advance(0.05)
    assert arena.time_s == pytest.approx(STEP_S)  # one step took longer than the budget
    for _ in range(60):
        arena.advance(0.05)
    assert arena.pace == pytest.approx(0.2, abs=0.05)
    arena.is_running = False
    arena.advance(1.0)
    assert arena.time_s == pytest.approx(61 * STEP_S)


def test_a_step_that_fails_stops_time_and_brings_the_figure_back(arena: LiveFigure, monkeypatch) -> None:
    run(arena, 0.3)

    def fail(*_: object) -> None:
        raise InputError("it broke", "")

    monkeypatch.setattr(arena.controller, "step", fail)
    with pytest.raises(InputError, match="it broke"):
        arena.advance(0.05)
    assert not arena.is_running
    np.testing.assert_allclose(arena.pose.root_position, arena.home.root_position, atol=1e-9)
    arena.single_step()


@pytest.mark.parametrize("what", list(RANGES))
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308, 1e308])
def test_any_number_from_a_page_is_refused_or_held(what: str, value: float) -> None:
    settings = SimulationSettings()
    try:
        held = getattr(settings.with_value(what, value), what)
    except InputError:
        assert not np.isfinite(value)
    else:
        assert RANGES[what][0] <= held <= RANGES[what][1]


def test_names_that_a_page_makes_up_are_refused(arena: LiveFigure) -> None:
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
