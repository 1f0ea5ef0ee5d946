"""The document of the Muscle tab: scenes that are stepped, sliders, films, goals; no page is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest

from marey.base import FormatError, InputError
from marey.muscle import SoftBodyScene, load_scene, scene_names
from marey.studio.document.jobs import BackgroundJob
from marey.studio.document.muscle.goals import (
    EVERY_S,
    HandGoals,
    TipGoal,
    TipGoalResult,
    search_progress,
    solve_tip_goal,
)
from marey.studio.document.muscle.lab import MAX_SPLINES, MuscleDocument
from marey.studio.document.muscle.scenes import (
    BUDGET_S,
    HOLD_S,
    FilmReplay,
    LiveScene,
    SurfaceShades,
    mix_activations,
    shade_colours,
)
from marey.studio.document.page import PageDocument


@pytest.fixture(scope="module")
def table() -> LiveScene:
    """A light scene: squares in the plane, three splines."""
    return LiveScene(load_scene("table"))


@pytest.fixture
def live(table: LiveScene) -> LiveScene:
    table.give_back()
    table.reset()
    return table


@pytest.fixture
def lab(live: LiveScene) -> MuscleDocument:
    lab = MuscleDocument()
    lab.live, lab.act, lab.name, lab.is_on = live, live, "table", True
    return lab


def test_a_live_scene_steps_as_its_film_does(live: LiveScene) -> None:
    for _ in range(12):
        live.single_step()
    film = load_scene("table").run(seconds=0.2)
    np.testing.assert_allclose(live.film().positions, film.positions[:13], atol=1e-9)
    np.testing.assert_allclose(live.film().alphas[1:], film.alphas[1:13], atol=1e-12)
    assert live.time_s == pytest.approx(0.2)


def test_a_slider_takes_its_spline_over_and_gives_it_back(live: LiveScene) -> None:
    name = live.names[1]
    programme = mix_activations(live.stage, {}, 0.3)
    live.hold(name, 1.0)
    held = mix_activations(live.stage, live.held, 0.3)
    mine = live.stage.muscles.owners == 1
    np.testing.assert_allclose(held[mine], live.stage.muscles.splines[1].alpha_min)
    np.testing.assert_array_equal(held[~mine], programme[~mine])
    live.single_step()
    assert live.activations()[name] == pytest.approx(1.0)
    live.give_back()
    np.testing.assert_array_equal(mix_activations(live.stage, live.held, 0.3), programme)


def test_a_held_spline_bends_the_surface(live: LiveScene) -> None:
    calm, firm = [], []
    for shapes, value in ((calm, 0.0), (firm, 1.0)):
        live.reset()
        for name in live.names:
            live.hold(name, value)
        for _ in range(15):
            live.single_step()
        shapes.append(live.look().surface)
    assert np.abs(firm[0] - calm[0]).max() > 0.01
    assert live.look().red.max() > 0.5


def test_what_is_no_activation_is_refused_or_held_in_its_range(live: LiveScene) -> None:
    live.hold(live.names[0], 7.0)
    assert live.held[live.names[0]] == 1.0
    with pytest.raises(InputError, match="not a number"):
        live.hold(live.names[0], float("nan"))
    with pytest.raises(InputError, match="no spline"):
        live.hold("tail", 0.5)


def test_time_that_the_machine_does_not_have_is_left_out(live: LiveScene, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1000.0, BUDGET_S))  # every look at the clock takes the whole budget
    monkeypatch.setattr("marey.muscle.scene.live.perf_counter", lambda: next(clock))
    live.advance(0.1)
    assert live.time_s == 0.0  # the first look was too late already
    live.pace = 1.0
    for _ in range(20):
        live.advance(0.1)
    assert live.pace < 0.2


def test_a_step_that_fails_stops_time_and_puts_the_body_to_rest(
    lab: MuscleDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.advance(0.04)
    moved = lab.need_live().time_s
    assert moved > 0.0

    def explode(*_: object, **__: object) -> None:
        raise InputError("it exploded")

    with monkeypatch.context() as patched:
        patched.setattr(lab.need_live().stage.body, "step", explode)
        with pytest.raises(InputError, match="exploded"):
            lab.advance(0.05)
    assert not lab.is_running and lab.need_live().time_s == 0.0


def test_a_film_is_played_in_real_time_and_begins_again(live: LiveScene) -> None:
    for _ in range(6):
        live.single_step()
    film = live.film()
    shown = FilmReplay(film)
    shown.advance(3 / film.rate_hz)
    assert shown.frame == 3
    np.testing.assert_array_equal(shown.look().surface, film.surface(3))
    shown.advance(0.5 * HOLD_S + shown.seconds)
    assert shown.frame == film.num_frames - 1
    shown.advance(HOLD_S)
    assert shown.frame == 0
    shown.single_step()
    assert shown.frame == 1


def test_red_and_blue_are_what_the_paint_says(live: LiveScene) -> None:
    passive, red, blue = shade_colours()
    shades = SurfaceShades(live.stage.paint)
    for alpha in (1.0, 0.7, 1.3):
        alphas = np.full(live.stage.muscles.num_segments, alpha)
        r, b = shades.of(alphas)
        painted = passive + r[:, None] * (red - passive) + b[:, None] * (blue - passive)
        np.testing.assert_allclose(painted, live.stage.paint.colours(alphas), atol=1e-9)
        assert (r.max() > 0.5) == (alpha < 1.0) and (b.max() > 0.5) == (alpha > 1.0)


def test_replay_live_and_reset(lab: MuscleDocument) -> None:
    lab.single_step()
    assert not lab.is_running
    lab.replay()
    assert isinstance(lab.act, FilmReplay) and lab.is_running and lab.act.film().num_frames == 2
    lab.advance(0.01)
    lab.reset()
    assert lab.act.time_s == 0.0
    lab.go_live()
    assert lab.act is lab.live
    lab.reset()
    assert lab.need_live().film().num_frames == 1


def test_a_film_is_made_beside_the_page_with_what_the_sliders_hold(
    lab: MuscleDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.hold("back", 0.5)
    monkeypatch.setattr(lab.live, "scene", SoftBodyScene("table", replace(lab.need_live().scene.parts, seconds=0.2)))
    heard: list[float] = []
    lab.make_film(lambda: heard.append(1.0))
    assert lab.job is not None and lab.job.join(30.0)
    assert lab.collect_result() is None and isinstance(lab.act, FilmReplay)
    film = lab.act.film()
    assert film.num_frames == 13 and heard
    mine = lab.need_live().stage.muscles.owners == lab.need_live().names.index("back")
    want = 1.0 - 0.5 * (1.0 - lab.need_live().stage.muscles.splines[0].alpha_min)
    np.testing.assert_allclose(film.alphas[5:, mine].min(), want, atol=1e-12)
    lab.collect_result()  # an end is taken once
    name, content = lab.glb()
    length = int.from_bytes(content[12:16], "little")
    assert name == "table.glb" and content[:4] == b"glTF"
    assert len(json.loads(content[20 : 20 + length])["animations"]) == 1


def test_nothing_that_has_not_moved_is_written(lab: MuscleDocument) -> None:
    with pytest.raises(InputError, match="nothing has moved"):
        lab.glb()
    with pytest.raises(InputError, match="nothing is on the stage"):
        MuscleDocument().glb()
    with pytest.raises(InputError, match="no scene is open"):
        MuscleDocument().replay()
    with pytest.raises(InputError, match="no scene 'cow'"):
        lab.choose("cow")


def test_a_job_is_stopped_and_its_error_is_told() -> None:
    def forever(job: BackgroundJob[int]) -> int:
        while True:
            job.tell("on and on", 0.5)

    job = BackgroundJob("wait", forever, None)
    job.stop()
    assert job.join(60.0) and job.result is None and job.error is None and job.is_stopped

    def wrong(_: BackgroundJob[int]) -> int:
        raise InputError("no way")

    lab = MuscleDocument()
    lab.job = BackgroundJob("wrong", wrong, None)
    assert lab.job.join(60.0) and isinstance(lab.collect_result(), InputError) and lab.collect_result() is None


def test_two_jobs_do_not_run_at_once(lab: MuscleDocument) -> None:
    gate = BackgroundJob("wait", lambda job: _until_stopped(job), None)
    lab.job = gate
    with pytest.raises(InputError, match="being computed"):
        lab.make_film(None)
    lab.stop()
    assert gate.join(60.0) and not lab.is_busy


def _until_stopped(job: BackgroundJob[None]) -> None:
    while True:
        job.tell("waiting", 0.1)


def test_goals_stay_in_the_plane_of_the_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    goals = HandGoals()
    goals.misses_m = np.zeros(1)
    goals.move("hand 1", [9.0, 1.2, 0.3])
    np.testing.assert_allclose(goals.marks["hand 1"], [goals.shoulder[0], 1.2, 0.3])
    assert goals.misses_m is None and len(goals.marks) == 1
    goals.set_count(3.2)
    goals.set_every(99.0)
    order = goals.order()
    assert [g.time_s for g in order] == pytest.approx([EVERY_S[1] * (i + 1) for i in range(3)])
    with pytest.raises(InputError, match="not in the room"):
        goals.move("hand 1", [np.nan, 0.0, 0.0])


def test_the_arm_hangs_from_the_shoulder_and_a_search_tells_how_far_it_is() -> None:
    film = HandGoals().rest_film()
    shoulder, elbow, wrist = film.bones.ends[0, 0, 0], film.bones.ends[0, 0, 1], film.bones.ends[0, 1, 1]
    np.testing.assert_allclose(shoulder, HandGoals().shoulder, atol=1e-9)
    assert elbow[1] < shoulder[1] and wrist[1] < elbow[1] and film.num_frames == 1
    assert (
        search_progress([1.0]) == 0.05
        and search_progress([1e3, 10.0]) == pytest.approx(0.55)
        and search_progress([1.0, 1e-9]) == 0.95
    )


def test_every_scene_has_sliders_enough_and_a_view() -> None:
    for name in scene_names():
        assert len(load_scene(name).parts.splines) <= MAX_SPLINES


def test_the_camera_sees_the_body_and_the_view_follows_what_walks(lab: MuscleDocument) -> None:
    eye, middle = np.array(lab.camera())
    surface = lab.need_live().look().surface
    x, z = lab.place()
    np.testing.assert_allclose([x, z], surface.mean(axis=0)[[0, 2]])
    assert np.linalg.norm(eye - middle) > np.ptp(surface, axis=0).max()
    lab.enter_arm()
    assert lab.place() == (0.0, 0.0) and not lab.is_running


def test_whatever_else_comes_on_the_stage_goes_before_the_soft_body(lab: MuscleDocument) -> None:
    document = PageDocument()
    document.lab = lab
    assert document.active_muscles is lab and document.active_mode is lab
    lab.is_on = False
    assert document.active_muscles is None and document.active_mode is None


def test_a_scene_of_the_users_own_is_read_and_stands_beside_the_others(lab: MuscleDocument, tmp_path) -> None:
    text = (files("marey.muscle") / "scenes" / "table.toml").read_text(encoding="utf-8")
    (tmp_path / "table.toml").write_text(text, encoding="utf-8")
    lab.open_scene(tmp_path / "table.toml")
    assert lab.name == "my table" and lab.names[-1] == "my table" and lab.is_on
    lab.choose("table")
    lab.choose("my table")
    (tmp_path / "cow.toml").write_text("seconds = 'many'", encoding="utf-8")
    with pytest.raises(FormatError, match=r"cow\.toml"):
        lab.open_scene(tmp_path / "cow.toml")
    assert lab.name == "my table" and "cow" not in lab.names


def test_the_tip_of_a_body_is_aimed_at_a_place(lab: MuscleDocument, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.single_step()
    lab.enter_tip_goal()
    aim = lab.aim
    assert aim is not None and aim.bone is None and not lab.is_running and lab.need_live().time_s == 0.0
    nodes = lab.need_live().stage.mesh.nodes
    assert np.linalg.norm(nodes - aim.start, axis=1).min() == 0.0
    lab.move("aim", aim.start + 0.1)
    np.testing.assert_allclose(lab.marks["aim"], aim.start + 0.1)
    film = aim.scene.run(0.05)
    asked: list[tuple] = []

    def search(made, goals, **options):
        asked.extend(goals)
        assert made is aim.scene and options["on_iteration"](0, 10.0) and options["on_iteration"](1, 1.0)
        return SimpleNamespace(film=lambda: film)

    monkeypatch.setattr("marey.studio.document.muscle.goals.solve_scene", search)
    lab.solve(None)
    assert lab.job is not None and lab.job.join(30.0) and lab.collect_result() is None
    (time_s, point, place) = asked[0]
    assert time_s == lab.goals.every_s and point is aim.start and place is aim.place
    node = int(np.argmin(np.linalg.norm(nodes - aim.start, axis=1)))
    assert aim.miss_m == pytest.approx(np.linalg.norm(film.positions[-1, node] - place))
    assert lab.aim is aim and isinstance(lab.act, FilmReplay) and lab.act.film() is film
    lab.go_live()
    assert lab.aim is None and lab.marks == {}


def test_a_body_with_bones_is_aimed_by_the_end_of_its_last_bone() -> None:
    ends = np.array([[[0.0, 0.0, 0.0], [0.0, -0.3, 0.0]], [[0.0, -0.3, 0.0], [0.0, -0.3, 0.2]]])
    bones = SimpleNamespace(names=("upper", "hand"))
    live = SimpleNamespace(
        stage=SimpleNamespace(bones=bones),
        scene=load_scene("biceps-arm"),
        reset=lambda: None,
        look=lambda: SimpleNamespace(bones=ends),
    )
    aim = TipGoal(live)
    assert aim.bone == "hand"
    np.testing.assert_array_equal(aim.start, [0.0, -0.3, 0.2])


def test_an_aim_that_is_stopped_gives_nothing(lab: MuscleDocument) -> None:
    lab.enter_tip_goal()
    job = BackgroundJob("solve", lambda job: _stopped(lab.aim, job), None)
    assert job.join(60.0) and job.result is None and job.error is None


def _stopped(aim: TipGoal, job: BackgroundJob[TipGoalResult]) -> TipGoalResult:
    job.stop()
    return solve_tip_goal(aim, 0.2, job)
