"""The Walk tab without a browser: every control, keys, obstacles, takes, footprints, bad values."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from marey.base import InputError
from marey.io import load, save
from marey.locomotion import load_model
from marey.studio.document.walk import MAX_WALKERS, RANGES, RATE_HZ, WalkDocument
from marey.studio.modes.walk import WalkPanel, state_html, state_lines
from marey.studio.view.walk import WalkStage

MODEL = load_model()
USER = SimpleNamespace(client=object(), client_id=0)


@pytest.fixture
def walk() -> WalkDocument:
    return WalkDocument(MODEL)


@pytest.fixture
def page(make_page):
    here = make_page(WalkPanel)
    here.do(here.panel._start)
    return here


def walk_of(page) -> WalkDocument:
    return page.document.walk


def engine_of(page):
    return page.document.walk.active_character.engine


def drive(walk: WalkDocument, seconds: float) -> None:
    for _ in range(round(seconds * RATE_HZ)):
        walk.advance(1.0 / RATE_HZ + 1e-9)


def field(page, what: str):
    return page.panel._drive.fields[what].slider


@pytest.mark.parametrize(
    ("what", "shown", "asked"),
    [("speed", 1.2, 1.2), ("run", 0.5, 0.5), ("turn_rate", 30.0, np.radians(30.0)), ("leg_length_m", 0.8, 0.8)],
)
def test_glardon_a48_each_slider_changes_the_state_it_names(page, what: str, shown: float, asked: float) -> None:
    page.do(page.panel._drive.over, 0.3)
    page.do(field(page, what), shown)
    drive(walk_of(page), 0.6)
    assert getattr(engine_of(page).parameters, what) == pytest.approx(asked, abs=1e-6)
    assert not page.errors


def test_glardon_a48_a_change_takes_the_time_that_was_given(page) -> None:
    page.do(page.panel._drive.over, 2.0)
    page.do(field(page, "speed"), 1.0)
    drive(walk_of(page), 1.0)
    assert engine_of(page).speed == pytest.approx(0.5, abs=0.02)
    drive(walk_of(page), 1.1)
    assert engine_of(page).speed == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("gait", "speed", "run"), [("Walk", 1.3, 0.0), ("Run", 3.0, 1.0), ("Stand", 0.0, 0.0)])
def test_glardon_a48_gait_buttons_set_speed_and_run(page, gait: str, speed: float, run: float) -> None:
    page.do(page.panel._drive.gait, gait)
    drive(walk_of(page), 1.5)
    assert (engine_of(page).speed, engine_of(page).parameters.run) == pytest.approx((speed, run), abs=1e-6)


def test_glardon_a48_style_sliders_change_the_weights(page) -> None:
    names = list(walk_of(page).active_character.styles)
    page.do(page.panel._style.fields[names[0]].slider, 1.0)
    for name in names[1:]:
        page.do(page.panel._style.fields[name].slider, 0.0)
    drive(walk_of(page), 1.5)
    assert engine_of(page).parameters.weights[0] == pytest.approx(1.0, abs=1e-6)
    page.do(page.panel._style.fields[names[0]].slider, 0.0)  # nothing would be left
    assert len(page.errors) == 1 and walk_of(page).active_character.styles[names[0]] > 0.0
    assert page.panel._style.fields[names[0]].slider.value == pytest.approx(
        walk_of(page).active_character.styles[names[0]], abs=0.05
    )


def test_glardon_a48_feet_are_held_or_not(page) -> None:
    page.do(page.panel._looks.plants, False)
    assert not engine_of(page).plants
    page.do(page.panel._looks.plants, True)
    assert engine_of(page).plants


def test_glardon_a48_the_jump_button_starts_the_machine_and_the_label_follows_it(page) -> None:
    page.do(page.panel._drive.gait, "Walk")
    drive(walk_of(page), 2.0)
    page.do(page.panel._actions.length, 0.8)
    page.do(page.panel._actions.jump_button)
    states: list[str] = []
    for _ in range(round(12 * RATE_HZ)):
        drive(walk_of(page), 1.0 / RATE_HZ)
        page.panel.refresh(page.document)
        state = engine_of(page).state
        assert f"{walk_of(page).active_character.name}: {state}" in page.panel._state.content
        if not states or states[-1] != state:
            states.append(state)
    assert len(set(states)) >= 4, states  # run-up, in, air, out
    assert not page.errors


def test_glardon_a48_obstacles_lie_within_the_ranges(walk: WalkDocument) -> None:
    walk.active_character.engine.step(0.1)
    engine = walk.active_character.engine
    ahead = np.array([np.sin(engine.heading_rad), np.cos(engine.heading_rad)])
    seen = []
    for _ in range(12):
        walk.drop_obstacle()
        box = walk.active_character.obstacles()[-1].obstacle
        distance = (np.array(box.position) - engine.position) @ ahead - 0.5 * box.size[0]
        seen.append((distance, *box.size))
        assert box.height_m == pytest.approx(0.1) and box.heading_rad == engine.heading_rad
        walk.clear_obstacles()
    for values, (low, high) in zip(np.array(seen).T, ((2.0, 10.0), (0.4, 2.6), (1.0, 6.0)), strict=True):
        assert low - 1e-9 <= values.min() and values.max() <= high + 1e-9
        assert np.ptp(values) > 0.5 * (high - low)  # and they differ


def test_glardon_a48_a_dropped_obstacle_is_decided_about_and_cleared(page) -> None:
    page.do(page.panel._drive.gait, "Walk")
    drive(walk_of(page), 2.0)
    page.do(page.panel._actions.drop_button)
    assert not page.errors
    dropped = walk_of(page).active_character.obstacles()[0]
    assert dropped.decision.choice in ("jump", "round", "stop") and escape(dropped.words) in state_html(walk_of(page))
    page.do(page.panel._actions.undo, "Clear boxes")
    assert not walk_of(page).active_character.obstacles()


def test_glardon_a48_time_stops_goes_on_and_takes_single_steps(page) -> None:
    page.do(page.panel._pause, "Go or pause")
    before = engine_of(page).time_s
    drive(walk_of(page), 0.5)
    assert engine_of(page).time_s == before and "paused" in state_html(walk_of(page))
    page.do(page.panel._pause, "One frame")
    assert engine_of(page).time_s == pytest.approx(before + 1.0 / RATE_HZ)
    page.do(page.panel._pause, "Go or pause")
    drive(walk_of(page), 0.5)
    assert engine_of(page).time_s > before + 0.4


@pytest.mark.parametrize("what", ["Footprints", "Ghosts", "Targets", "Chase"])
def test_glardon_a48_marks_are_shown_or_not(page, server, what: str) -> None:
    box = page.panel._looks.boxes[what]
    wanted = not box.value
    page.do(box, wanted)
    assert walk_of(page).shown[what] is wanted
    stage = WalkStage(server.scene, lambda _: None)
    stage.draw(walk_of(page))


def test_a_value_that_the_model_does_not_know_is_held_and_told(page) -> None:
    page.do(field(page, "speed"), 6.0)
    assert walk_of(page).active_character.asked["speed"] < 5.0 and field(page, "speed").value < 5.0
    assert "held" in state_html(walk_of(page))
    page.do(page.panel._actions.length, 2.6)
    page.do(page.panel._actions.kind, "walk")
    page.do(page.panel._actions.jump_button)
    assert "outside" in state_html(walk_of(page)) and not page.errors


@pytest.mark.parametrize(("gait", "kind"), [("Stand", "standing"), ("Walk", "walk"), ("Run", "run")])
def test_a_jump_follows_how_the_character_moves(page, gait: str, kind: str, monkeypatch) -> None:
    page.do(page.panel._drive.gait, gait)
    drive(walk_of(page), 1.5)
    asked = []
    monkeypatch.setattr(engine_of(page), "jump", lambda **request: asked.append(request["kind"]))
    press(page, "H")
    assert asked == [kind]


def press(page, key: str) -> None:
    command = next(c for c in page.panel.commands if c.hotkey == key)
    for callback in command._impl.trigger_cb:
        callback(SimpleNamespace(client=USER.client, client_id=0, target=command))


def test_keys_drive_the_character(page) -> None:
    for _ in range(3):
        press(page, "I")
    press(page, "K")
    press(page, "J")
    assert walk_of(page).active_character.asked["speed"] == pytest.approx(0.2)
    assert walk_of(page).active_character.asked["turn_rate"] == pytest.approx(np.radians(10.0))
    assert field(page, "turn_rate").value == pytest.approx(10.0)
    drive(walk_of(page), 1.0)
    heading = engine_of(page).heading_rad
    assert heading > 0.0  # to the left
    press(page, "U")
    press(page, "O")
    assert walk_of(page).active_character.asked["turn_rate"] == 0.0 and walk_of(page).active_character.obstacles()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308, -5.0, 99999.0])
def test_a_bad_value_harms_nothing(page, bad: float) -> None:
    page.do(field(page, "speed"), 1.0)
    for what, (low, high) in RANGES.items():
        page.do(field(page, what), bad)
        assert low <= walk_of(page).active_character.asked[what] <= high
        assert low <= field(page, what).value / (np.degrees(1.0) if what == "turn_rate" else 1.0) <= high + 0.01
    page.do(page.panel._drive.over, bad)
    page.do(page.panel._actions.length, bad)
    page.do(page.panel._actions.jump_button)
    drive(walk_of(page), 1.0)
    assert np.isfinite(walk_of(page).active_character.pose.joint_positions()).all()
    assert bool(page.errors) is not np.isfinite(bad)


def test_nothing_can_be_driven_before_somebody_walks(make_page) -> None:
    page = make_page(WalkPanel)
    page.do(page.panel._actions.jump_button)
    page.do(field(page, "speed"), 1.0)
    assert len(page.errors) == 2 and all("nobody walks" in str(error) for error in page.errors)
    assert "Walk here" in state_html(None)


def test_characters_are_added_selected_and_removed(page) -> None:
    page.do(field(page, "speed"), 1.0)
    page.do(page.panel._cast.change, "Add one")
    assert [w.name for w in walk_of(page).walkers] == ["Walker 1", "Walker 2"]
    assert field(page, "speed").value == 0.0  # the controls follow who is driven
    drive(walk_of(page), 2.0)
    first, second = (w.engine for w in walk_of(page).walkers)
    assert first.speed == pytest.approx(1.0) and second.speed == 0.0
    assert np.linalg.norm(first.position - second.position) > 1.0
    page.do(page.panel._cast.who, "Walker 1")
    assert field(page, "speed").value == pytest.approx(1.0)
    page.panel.click(1)
    assert walk_of(page).active_character.name == "Walker 2"
    page.do(page.panel._cast.change, "Remove it")
    page.do(page.panel._cast.change, "Remove it")
    assert len(walk_of(page).walkers) == 1 and len(page.errors) == 1


def test_there_is_room_for_a_few_only(walk: WalkDocument) -> None:
    for _ in range(MAX_WALKERS - 1):
        walk.add()
    with pytest.raises(InputError, match="already"):
        walk.add()


def test_a_take_is_a_clip_with_contacts(page, tmp_path: Path) -> None:
    page.do(page.panel._drive.gait, "Walk")
    page.do(page.panel._record)
    drive(walk_of(page), 3.0)
    page.do(field(page, "leg_length_m"), 1.1)
    assert "while recording" in str(page.errors.pop()) and field(page, "leg_length_m").value < 1.0
    page.do(page.panel._record)
    for kind in ("GLB", "BVH", "Clip"):
        page.do(page.panel._keep, kind)
    assert [name for _, name in page.sent] == ["Walker 1.glb", "Walker 1.bvh"]
    clip = page.opened[0][0]
    assert clip.rate_hz == RATE_HZ and clip.num_frames == 180
    assert clip.contacts is not None and clip.contacts.active.any(axis=0).all()
    for motion, name in page.sent:
        save(motion, tmp_path / name)
        again = load(tmp_path / name)
        order = [again.skeleton.index(joint) for joint in clip.skeleton.names]
        np.testing.assert_allclose(again.joint_positions()[:, order], clip.joint_positions(), atol=2e-3)


def test_an_empty_take_is_refused_in_words(page) -> None:
    page.do(page.panel._keep, "GLB")
    assert "nothing was recorded" in str(page.errors[0]) and not page.sent


def test_real_time_passes_in_equal_steps_and_a_sleep_is_not_made_up_for(walk: WalkDocument) -> None:
    for _ in range(30):
        walk.advance(1.0 / 30.0)
    assert walk.active_character.engine.time_s == pytest.approx(1.0, abs=1.5 / RATE_HZ)
    before = walk.active_character.engine.time_s
    walk.advance(100.0)
    assert walk.active_character.engine.time_s - before < 0.3


def test_footprints_alternate_one_step_apart(walk: WalkDocument) -> None:
    walk.active_character.ask("speed", 1.3, 0.5)
    drive(walk, 8.0)
    prints = walk.active_character.engine.footprints[-6:]
    assert all(a.side != b.side for a, b in pairwise(prints))
    strides = [b.position[2] - a.position[2] for a, b in zip(prints, prints[2:], strict=False)]
    speeds, hertz = walk.active_character.engine.frequency_table()
    expected = 1.3 / np.interp(1.3, speeds, hertz[0])
    np.testing.assert_allclose(strides, expected, atol=0.02)


def test_the_stage_shows_the_pose_of_everybody(walk: WalkDocument, server) -> None:
    walk.add()
    walk.active_character.ask("leg_length_m", 1.1)
    walk.active_character.ask("speed", 1.2)
    walk.shown["Ghosts"] = True
    drive(walk, 2.0)
    walk.drop_obstacle()
    stage = WalkStage(server.scene, lambda _: None)
    stage.draw(walk)
    drive(walk, 0.1)
    stage.draw(walk)
    near = np.array(stage._near.position)
    for number, walker in enumerate(walk.walkers):
        places = walker.pose.joint_positions()
        for joint, node in stage._bodies._nodes.items():
            np.testing.assert_allclose(node.batched_positions[number] + near, places[joint], atol=1e-5)
    stage.hide()
    assert not stage._root.visible


def test_two_pages_do_not_share_characters() -> None:
    one, other = WalkDocument(MODEL), WalkDocument(MODEL)
    one.active_character.ask("speed", 1.0)
    drive(one, 1.0)
    assert other.active_character.engine.time_s == 0.0 and other.active_character.engine.speed == 0.0


def test_lines_tell_state_speed_and_cost(walk: WalkDocument) -> None:
    drive(walk, 0.2)
    lines = state_lines(walk)
    assert lines[0].startswith("Walker 1: ") and "m/s" in lines[1] and "ms a frame" in lines[2]


def random_command(page, rng: np.random.Generator) -> None:
    panel = page.panel
    sliders = [f.slider for f in panel._drive.fields.values()] + [f.slider for f in panel._style.fields.values()]
    slider = sliders[rng.integers(len(sliders))]
    commands = [
        lambda: page.do(slider, float(rng.uniform(slider.min, slider.max))),
        lambda: page.do(slider, float(rng.uniform(slider.min, slider.max))),
        lambda: page.do(panel._drive.gait, ("Stand", "Walk", "Run")[rng.integers(3)]),
        lambda: page.do(panel._drive.over, float(rng.uniform(0.0, 2.0))),
        lambda: page.do(panel._actions.jump_button),
        lambda: page.do(panel._actions.drop_button),
        lambda: page.do(panel._actions.undo, ("Cancel jump", "Clear boxes")[rng.integers(2)]),
        lambda: page.do(panel._looks.plants, bool(rng.integers(2))),
        lambda: page.do(panel._cast.change, ("Add one", "Remove it")[rng.integers(2)]),
        lambda: press(page, "IKJLU"[rng.integers(5)]),
    ]
    commands[rng.integers(len(commands))]()


@pytest.mark.parametrize("turns", [25, pytest.param(120, marks=pytest.mark.slow)])  # of half a second
def test_wild_driving_breaks_nothing(page, server, turns: int) -> None:
    rng = np.random.default_rng(7)
    stage = WalkStage(server.scene, lambda _: None)
    for turn in range(turns):
        random_command(page, rng)
        for _ in range(15):
            walk_of(page).advance(1.0 / 30.0)
            assert all(np.isfinite(walker.pose.joint_positions()).all() for walker in walk_of(page).walkers)
        if turn % 10 == 0:
            stage.draw(walk_of(page))
    low, high = RANGES["speed"]
    assert all(low <= walker.engine.speed <= high for walker in walk_of(page).walkers)
