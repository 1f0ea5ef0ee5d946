"""The sketch in the scene, without a browser: corridor, footprints, things, names and the handle."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from marey.samples import sketch_file
from marey.studio.document.page import ClipFrames
from marey.studio.document.sketch.editor import SketchEditor
from marey.studio.document.sketch.forms import KINDS
from marey.studio.view.sketch import SketchStage
from marey.studio.view.sketch_marks import (
    WAY_SAMPLES,
    arrow_mesh,
    carried_objects,
    corridor_faces,
    corridor_vertices,
    footprints,
    path_line,
    ring_mesh,
)
from marey.world import Path, load_sketch


@pytest.fixture(scope="module")
def server():
    viser = pytest.importorskip("viser")
    running = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield running
    running.stop()


def test_the_band_is_as_wide_as_the_corridor_and_follows_the_way() -> None:
    path = Path(np.array([[0.0, 0.0], [0.0, 4.0], [3.0, 4.0]]), "spline")
    vertices = corridor_vertices(path, 1.2).reshape(WAY_SAMPLES, 2, 3)
    np.testing.assert_allclose(np.linalg.norm(vertices[:, 0] - vertices[:, 1], axis=1), 1.2, atol=1e-5)
    centre = vertices.mean(axis=1)[:, [0, 2]]
    np.testing.assert_allclose(centre, path.point_at(np.linspace(0, path.length_m, WAY_SAMPLES)), atol=1e-5)
    assert vertices[0, 0, 0] == pytest.approx(0.6, abs=1e-3)  # +X is to the left
    assert corridor_faces().max() == 2 * WAY_SAMPLES - 1 and path_line(path).shape == (WAY_SAMPLES - 1, 2, 3)


def test_footprints_of_a_walk_alternate_along_it() -> None:
    from marey import samples

    places, headings, sides = footprints(ClipFrames.from_motion(samples.walk()))
    order = np.argsort(places[:, 1])
    assert len(sides) >= 5 and np.abs(headings).max() < 0.6
    ordered = [sides[i] for i in order]
    assert sum(a != b for a, b in pairwise(ordered)) >= len(ordered) - 2


def test_the_stage_shows_everything_where_it_is(server) -> None:
    draft, clicks, drags = SketchEditor(), [], []
    stage = SketchStage(server.scene, clicks.append, lambda *drag: drags.append(drag))
    for kind in KINDS:
        draft.drop(kind)
    draft.add_event("pick")
    draft.add_event("stop")
    stage.draw(draft, None)
    assert set(stage._nodes) == set(draft.items()) - {"pick 1"}  # which is seen as its object
    assert stage._names["object thing1"].text == "1. pick thing1" and stage._names["stop 2"].text == "2. stop"
    river = draft.drawn.forms[0]
    node = stage._nodes["river 1"][1]
    assert node.scale == pytest.approx((river.length_m, 0.01, river.width_m))
    draft.select("way-point 2")
    stage.draw(draft, None)
    assert tuple(stage._gizmo.position) == pytest.approx((0.0, 0.0, 3.0)) and stage._gizmo.visible
    gizmo = SimpleNamespace(position=(1.0, 0.0, 2.0))
    for phase in ("start", "update", "update", "end"):
        stage._drag_item(SimpleNamespace(phase=phase, target=gizmo))
    assert drags == [("way-point 2", 1.0, 2.0, True), ("way-point 2", 1.0, 2.0, False)]
    draft.remove("box 1")
    draft.open(load_sketch(sketch_file("stepping-stones")))
    stage.draw(draft, None)
    assert set(stage._nodes) == set(draft.items())
    stage.hide()
    assert not stage._root.visible and not stage._gizmo.visible


def test_the_band_has_no_folds_in_a_sharp_bend() -> None:
    path = Path(np.array([[0.0, 0.0], [0.0, 3.0], [1.0, 0.5]]))
    vertices = corridor_vertices(path, 1.2).reshape(WAY_SAMPLES, 2, 3)[:, :, [0, 2]].reshape(-1, 2)
    away = np.array([path.nearest(vertex)[1] for vertex in vertices])
    assert away.min() > 0.95 * 0.6 and away.max() < 0.6 + 1e-6


def test_the_marks_of_an_end_point_ahead_and_reach_as_far_as_is_near_enough() -> None:
    vertices, faces = arrow_mesh()
    assert vertices[:, 2].max() == 1.0 and np.abs(vertices[:, 0]).max() < 0.5 and faces.max() == len(vertices) - 1
    vertices, faces = ring_mesh()
    assert np.linalg.norm(vertices[:, [0, 2]], axis=1).max() == pytest.approx(1.0)
    assert len(np.unique(faces)) == len(vertices)


def test_the_ends_of_the_way_show_facing_and_nearness(server) -> None:
    draft = SketchEditor()
    stage = SketchStage(server.scene, lambda _: None, lambda *_: None)
    stage.draw(draft, None)
    assert not stage._ends[1]._arrow.visible  # it may face any way
    draft.face_any_way("way-point 2", False)
    draft.resize("way-point 2", "facing_deg", 90.0)
    draft.resize("way-point 2", "tolerance_m", 0.7)
    stage.draw(draft, None)
    goal = stage._ends[1]
    assert goal._arrow.visible and tuple(goal._ring.scale) == (0.7, 1.0, 0.7)
    np.testing.assert_allclose(goal._arrow.wxyz, [np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0], atol=1e-6)
    assert tuple(goal._ring.position) == (0.0, 0.0, 3.0)


@pytest.fixture(scope="module")
def reaching() -> SimpleNamespace:
    """A clip of two hands: the right one goes along x, over (1, 0.8, 0) and (3, 0.8, 0); the left one stays."""
    places = np.zeros((50, 2, 3), dtype=np.float32)
    places[:, 0] = (0.0, 1.0, 5.0)
    places[:, 1, 0], places[:, 1, 1] = 0.1 * np.arange(50), 0.8
    return SimpleNamespace(
        contact_names=("left_hand", "right_hand"), contact_points=places, num_frames=50,
        motion=SimpleNamespace(rate_hz=10.0),
    )  # fmt: skip


def holding() -> SketchEditor:
    draft = SketchEditor()
    draft.drop("object", (1.0, 0.0))
    draft.resize("object thing1", "height_m", 0.8)
    draft.add_event("pick")
    return draft


def test_a_thing_follows_the_hand_that_took_it_until_it_is_put_down(reaching) -> None:
    draft = holding()
    places = carried_objects(reaching, draft.drawn)["thing1"]
    np.testing.assert_allclose(places[:10], np.tile([1.0, 0.8, 0.0], (10, 1)))
    np.testing.assert_allclose(places[10:], reaching.contact_points[10:, 1])
    draft.add_event("place")
    draft.resize("place 2", "put_m", 0.8)
    draft.move("place 2", 3.0, 0.0)
    places = carried_objects(reaching, draft.drawn)["thing1"]
    np.testing.assert_allclose(places[20], reaching.contact_points[20, 1])
    np.testing.assert_allclose(places[30:], np.tile([3.0, 0.8, 0.0], (20, 1)), atol=1e-6)


def test_a_body_without_hands_carries_nothing(reaching) -> None:
    feet = SimpleNamespace(**vars(reaching) | {"contact_names": ("left_toe", "right_toe")})
    assert carried_objects(feet, holding().drawn) == {}


def test_the_stage_shows_a_thing_in_the_hand(server, reaching) -> None:
    draft = holding()
    stage = SketchStage(server.scene, lambda _: None, lambda *_: None)
    draft.shown["Footprints"] = False
    stage.draw(draft, reaching, None, 2.0)
    np.testing.assert_allclose(stage._nodes["object thing1"][1].position, reaching.contact_points[20, 1], atol=1e-6)
    stage.draw(draft, None)
    np.testing.assert_allclose(stage._nodes["object thing1"][1].position, (1.0, 0.8, 0.0), atol=1e-6)
