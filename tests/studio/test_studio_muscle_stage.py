"""The Muscle tab in the scene and in the panel: coats of colour, spindles, widgets; a server, but no page."""

from __future__ import annotations

import re
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("viser")

from marey import samples
from marey.muscle import MuscleTrack, estimate_activations, load_scene, make_muscle_solids
from marey.studio.document.muscle.lab import MuscleDocument
from marey.studio.document.muscle.scenes import FilmReplay, LiveScene, SurfaceState
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.modes.muscle import MusclePanel, state_lines
from marey.studio.view.muscle import (
    BLUE_COATS,
    LEVELS,
    OPEN,
    RED_COATS,
    ROD_SEGMENTS,
    ROUND,
    BodyMuscleNodes,
    MuscleStage,
    SoftSurface,
    colour_levels,
    cut_at_level,
    make_rods,
    outward_normals,
    page_colour,
    thin_bones,
)


@pytest.fixture(scope="module")
def table() -> LiveScene:
    return LiveScene(load_scene("table"))


@pytest.fixture(scope="module")
def track() -> MuscleTrack:
    return estimate_activations(samples.walk()[:12])


@pytest.fixture
def lab(table: LiveScene) -> MuscleDocument:
    table.give_back()
    table.reset()
    lab = MuscleDocument()
    lab.live, lab.act, lab.name, lab.is_on = table, table, "table", True
    return lab


def area(vertices: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = (vertices[faces[:, k]].astype(np.float64) for k in range(3))
    return 0.5 * float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())


def plate(count: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """A unit square in the plane of x and y, as triangles."""
    x, y = np.meshgrid(np.linspace(0, 1, count), np.linspace(0, 1, count), indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), np.zeros(count**2)], axis=1)
    a = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).ravel()
    faces = np.concatenate([np.stack([a, a + count, a + 1], 1), np.stack([a + 1, a + count, a + count + 1], 1)])
    return vertices, faces.astype(np.int32)


@pytest.mark.parametrize("level", [0.0, 0.13, 0.5, 0.77, 1.0])
def test_a_coat_ends_exactly_where_its_level_is(level: float) -> None:
    vertices, faces = plate()
    covered, triangles = cut_at_level(vertices, faces, vertices[:, 0], level)
    assert area(covered, triangles) == pytest.approx(1.0 - level, abs=1e-6)
    if len(covered):
        assert covered[:, 0].min() == pytest.approx(level, abs=1e-6)
    flat = np.cross(*(covered[triangles[:, k]] - covered[triangles[:, 0]] for k in (1, 2)))
    assert (flat[:, 2] > -1e-9).all()  # no triangle is turned over


def test_a_coat_of_a_flat_share_is_all_or_nothing() -> None:
    vertices, faces = plate(4)
    assert area(*cut_at_level(vertices, faces, np.full(16, 0.5), 0.4)) == pytest.approx(1.0)
    assert len(cut_at_level(vertices, faces, np.full(16, 0.5), 0.6)[1]) == 0


def test_normals_point_outwards_and_colours_are_those_of_the_screen() -> None:
    vertices, faces = plate(4)
    np.testing.assert_allclose(outward_normals(vertices, faces), np.tile([0.0, 0.0, 1.0], (16, 1)), atol=1e-12)
    assert page_colour(np.array([0.0, 1.0, 0.2140])) == (0, 255, 127)


def test_the_surface_moves_and_is_painted(server, table: LiveScene) -> None:
    table.reset()
    rest = table.look()
    surface = SoftSurface(server.scene, "/soft", table.faces, rest)
    assert not any(node.visible for node in (*surface._red, *surface._blue))
    full = np.full(len(rest.surface), 1.0)
    surface.draw(SurfaceState(rest.surface + 1.0, full, 0.4 * full, rest.bones))
    np.testing.assert_allclose(surface._skin.vertices, rest.surface + 1.0, atol=1e-5)
    assert sum(node.visible for node in surface._red) == RED_COATS
    assert 0 < sum(node.visible for node in surface._blue) < BLUE_COATS
    surface.remove()


def test_bones_are_closed_capsules_and_a_head_is_a_ball(track: MuscleTrack) -> None:
    vertices, faces = make_rods(np.array([[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), np.array([[0.1, 0.2]]), ROUND)
    assert vertices[:, 1].max() == pytest.approx(1.2) and vertices[:, 1].min() == pytest.approx(-0.1)
    middle = np.array([0.0, 0.5, 0.0])
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert (np.sum(np.cross(b - a, c - a) * (a - middle), axis=1) > 0.0).all()  # all faces look outwards
    solids = make_muscle_solids(track, 0)
    point = solids.starts[:1]
    ball = type(solids)(point, point, np.full(1, 0.1), np.full(1, 0.1), solids.colours[:1])
    assert np.isfinite(thin_bones(ball)[0]).all()


def test_spindles_are_grouped_by_how_hard_they_pull(server, track: MuscleTrack) -> None:
    solids = make_muscle_solids(track, 3)
    level = colour_levels(solids.colours)
    assert level.min() >= 0 and level.max() <= LEVELS - 1
    ends = np.stack([solids.starts, solids.ends], axis=1)
    vertices, faces = make_rods(ends, np.stack([solids.start_radii, solids.end_radii], axis=1), OPEN)
    assert len(vertices) == 2 * ROD_SEGMENTS * len(solids.starts) and faces.max() == len(vertices) - 1
    first = np.linalg.norm(vertices[:ROD_SEGMENTS] - solids.starts[0], axis=1)
    np.testing.assert_allclose(first, solids.start_radii[0], rtol=1e-4)
    shown = BodyMuscleNodes(server.scene)
    shown.draw(track, 3)
    assert [node.visible for node in shown._levels] == [bool((level == k).any()) for k in range(LEVELS)]
    shown.draw(track, 99)  # the clip may be longer than the track
    assert shown._drawn == (track, len(track.activations) - 1)
    shown.hide()
    assert not shown._root.visible


def test_the_stage_shows_a_scene_then_the_arm_with_its_goals(server, lab: MuscleDocument) -> None:
    moved: list[tuple[str, np.ndarray]] = []
    stage = MuscleStage(server.scene, lambda name, place: moved.append((name, place)))
    stage.draw(lab)
    first = stage._surface
    lab.single_step()
    stage.draw(lab)
    assert stage._surface is first and not stage._figure
    lab.goals.set_count(2)
    lab.enter_arm()
    stage.draw(lab)
    assert stage._surface is not first and stage._figure and set(stage._gizmos._handles) == {"hand 1", "hand 2"}
    handle = stage._gizmos._handles["hand 2"]
    for phase in ("start", "update", "end"):
        stage._gizmos._report_drag("hand 2", SimpleNamespace(phase=phase, target=handle))
    assert [name for name, _ in moved] == ["hand 2"]
    np.testing.assert_allclose(moved[0][1], lab.goals.marks["hand 2"], atol=1e-9)
    stage.hide()
    assert not stage._gizmos._handles and not stage._root.visible


def test_the_panel_picks_a_scene_and_moves_a_slider(make_page) -> None:
    page = make_page(MusclePanel)
    panel = page.panel
    page.do(panel._pick, "table")
    assert (
        page.document.lab.name == "table" and page.document.active_muscles is None
    )  # nothing is built before one asks
    page.do(panel._start)
    lab = page.document.active_muscles
    assert lab is not None and lab.need_live().scene.name == "table" and not page.errors
    fields = [field for field in panel._sliders.fields if field.slider.visible]
    assert [field.slider.label for field in fields] == list(lab.need_live().names)
    page.do(fields[1].slider, 0.8)
    assert lab.need_live().held == {lab.need_live().names[1]: 0.8}
    page.do(panel._time, "One step")
    assert not lab.is_running and "slider" in panel._sliders.bars.content
    page.do(panel._give)
    assert lab.need_live().held == {} and fields[1].slider.value == 0.0
    page.do(panel._time, "Go or pause")
    assert lab.is_running
    page.do(panel._film, "Replay")
    assert isinstance(lab.act, FilmReplay) and re.search(r"film: 0\.00 s of 0\.02 s", panel._state.content)
    page.do(panel._film, "Live")
    assert lab.act is lab.live and "real time" in panel._state.content
    page.do(panel._back)
    assert page.document.active_muscles is None and panel._start.visible


def test_the_panel_takes_a_scene_of_ones_own(make_page, tmp_path) -> None:
    page = make_page(MusclePanel)
    text = (files("marey.muscle") / "scenes" / "table.toml").read_bytes()

    def keep(name: str, content: bytes):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    page.keep_file = keep
    upload = page.panel._upload
    upload._impl.value = SimpleNamespace(name="bench.toml", content=b"\xff")
    page.do(upload)
    assert "bench.toml" in str(page.errors[0]) and page.document.active_muscles is None
    upload._impl.value = SimpleNamespace(name="bench.toml", content=text)
    page.do(upload)
    assert page.document.active_muscles is not None and page.panel._pick.value == "bench"
    assert "bench" in page.panel._pick.options


def test_the_panel_sends_a_film_home(make_page, lab: MuscleDocument) -> None:
    document = PageDocument()
    document.lab = lab
    page = make_page(MusclePanel, document)
    sent: list[tuple[str, bytes]] = []
    page.send_bytes = lambda name, content: sent.append((name, content))
    page.do(page.panel._export)
    assert "nothing has moved" in str(page.errors[0])
    for _ in range(3):
        page.do(page.panel._time, "One step")
    page.do(page.panel._export)
    assert sent[0][0] == "table.glb" and sent[0][1][:4] == b"glTF"


def test_the_panel_shows_whom_a_clip_strains(make_page) -> None:
    clip = samples.walk()[:12]
    page = make_page(MusclePanel)
    page.do(page.panel._strain)
    assert "no clip is open" in str(page.errors[0])
    page.document.open("walk", ClipFrames.from_motion(clip))
    page.do(page.panel._strain)
    lab = page.document.lab
    assert lab.job.join(60.0)
    page.panel._hear()
    assert lab.track is not None and not page.document.shown["Body"]
    assert re.search(r"92 muscles supply \d+% of all torques", page.panel._busy.content)
    assert page.panel._bare.visible
    page.do(page.panel._bare)
    assert lab.track is None and page.document.shown["Body"]


def test_goals_are_moved_solved_and_told(make_page, monkeypatch: pytest.MonkeyPatch) -> None:
    page = make_page(MusclePanel)
    panel = page.panel
    page.do(panel._arm)
    lab = page.document.active_muscles
    assert lab is not None and lab.is_reaching
    panel.move_goal("hand 1", np.array([0.0, 1.0, 0.3]))
    assert lab.goals.marks["hand 1"][2] == 0.3
    page.do(panel._goals.count.slider, 2.0)
    page.do(panel._goals.every.slider, 0.2)
    assert lab.goals.count == 2 and lab.goals.every_s == 0.2
    seen: list[int] = []

    def search(goals, job):
        seen.append(len(goals))
        while True:
            job.tell("iteration 1", 0.5)

    monkeypatch.setattr("marey.studio.document.muscle.lab.solve_hand_goals", search)
    page.do(panel._solve)
    assert lab.is_busy and panel._stop.visible
    page.do(panel._solve)
    assert "being computed" in str(page.errors[0])
    page.do(panel._stop)
    assert lab.job.join(60.0) and seen == [2]
    panel._hear()
    assert "solve: stopped" in state_lines(lab) and not panel._stop.visible
