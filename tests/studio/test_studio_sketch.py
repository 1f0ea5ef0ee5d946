"""The Sketch tab without a browser: way-points, things, events, files, undo, bad values, the scene."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError, MareyError
from marey.samples import sketch_file, sketch_names
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.document.sketch.editor import CORRIDOR_M, MAX_POINTS, SketchEditor
from marey.studio.document.sketch.forms import (
    FIELDS,
    FOUND_BY_ENGINE,
    KINDS,
    PLACE_M,
    RANGES,
    SketchObject,
    SketchState,
    object_from_thing,
    thing_from_object,
)
from marey.studio.document.walk import WalkDocument
from marey.studio.modes.progress import describe_event
from marey.studio.modes.sketch import OPEN, SketchPanel
from marey.studio.view.sketch import SketchStage
from marey.world import Event, River, Wall, load_sketch, parse_sketch, sketch_to_toml

USER = SimpleNamespace(client=object(), client_id=0)


@pytest.fixture(scope="module")
def server():
    viser = pytest.importorskip("viser")
    running = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield running
    running.stop()


class Page:
    """A session without a page: edits are carried out at once, errors are kept."""

    def __init__(self, server, document: PageDocument | None = None) -> None:
        self.document = PageDocument() if document is None else document
        self.errors, self.sent, self.motions, self.views = [], [], [], 0
        self.panel = SketchPanel(server.gui, self)

    def post(self, _: str, edit) -> None:
        try:
            edit()
        except MareyError as error:
            self.errors.append(error)
        self.panel.refresh(self.document)

    def send(self, motion, name: str) -> None:
        self.motions.append((motion, name))

    def send_bytes(self, name: str, content: bytes) -> None:
        self.sent.append((name, content))

    def open(self, label: str) -> None:
        self.opened_again = label

    def open_motion(self, label: str, motion) -> None:
        self.document.open(label, ClipFrames.from_motion(motion))
        self.document.draft.is_open = False

    def frame_body(self) -> None:
        self.views += 1

    @property
    def draft(self) -> SketchEditor:
        return self.document.draft

    @property
    def words(self) -> str:
        return self.panel._state.content


def as_user(widget, value=None) -> None:
    """Do what a hand does: change the value, or click."""
    if value is not None:
        widget.value = value
    for callback in widget._impl.update_cb:
        callback(SimpleNamespace(client=USER.client, client_id=0, target=widget))


def upload(page: Page, name: str, content: bytes) -> None:
    button = page.panel._upload
    button._impl.value = SimpleNamespace(name=name, content=content)
    as_user(button)


@pytest.fixture
def page(server) -> Page:
    here = Page(server)
    as_user(here.panel._start)
    return here


def ray(x: float, z: float):
    """A click on a place of the ground, from a camera above and behind."""
    eye = np.array([0.5, 4.0, -3.0])
    way = np.array([x, 0.0, z]) - eye
    return SimpleNamespace(ray_origin=tuple(eye), ray_direction=tuple(way / np.linalg.norm(way)), client=USER.client)


def choose(page: Page, label: str) -> None:
    as_user(page.panel._item.which, label)


def drop(page: Page, kind: str) -> SketchObject:
    as_user(page.panel._things.drop, kind)
    return page.draft.drawn.forms[-1]


@given(
    kind=st.sampled_from(KINDS),
    turn=st.floats(-179.0, 179.0),
    sizes=st.tuples(*[st.floats(0.1, 8.0)] * 2),
    height=st.floats(0.0, 3.0),
)
def test_a_thing_is_the_same_after_it_was_shown(kind: str, turn: float, sizes, height: float) -> None:
    form = SketchObject(kind, 1.5, -2.5, turn, *sizes, height, "cup" if kind == "object" else "")
    again = object_from_thing(thing_from_object(form))
    assert (again.kind, again.name) == (form.kind, form.name)
    for field in (*FIELDS[kind], "x", "z"):
        assert getattr(again, field) == pytest.approx(getattr(form, field), abs=1e-9)


def test_a_strip_that_is_turned_by_90_degrees_goes_along_minus_z() -> None:
    wall = thing_from_object(SketchObject("wall", 1.0, 2.0, 90.0, 2.0, 0.1, 2.0))
    assert isinstance(wall, Wall)
    np.testing.assert_allclose([wall.start, wall.end], [[1.0, 3.0], [1.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("name", sketch_names())
def test_a_shipped_sketch_comes_back_from_the_page_as_it_was(name: str) -> None:
    sketch = load_sketch(sketch_file(name))
    again = parse_sketch(sketch_to_toml(SketchState.from_sketch(sketch).sketch()))
    assert again.events == sketch.events and again.name == sketch.name
    assert (again.start, again.goal) == (sketch.start, sketch.goal)
    assert (again.corridor_m, again.speed_mps) == (sketch.corridor_m, sketch.speed_mps)
    assert again.world.objects == sketch.world.objects and len(again.world.walls) == len(sketch.world.walls)
    for ours, theirs in zip(again.world.rivers, sketch.world.rivers, strict=True):
        np.testing.assert_allclose([ours.start, ours.end], [theirs.start, theirs.end], atol=1e-9)
    assert (again.path is None) is (sketch.path is None)
    if sketch.path is not None:
        np.testing.assert_allclose(again.path.points, sketch.path.points, atol=1e-9)
        assert again.path.kind == sketch.path.kind


def test_a_click_on_the_ground_adds_a_way_point_there(page: Page) -> None:
    page.panel.click_ground(ray(2.0, 5.0))
    assert page.draft.drawn.points[-1] == pytest.approx((2.0, 5.0))
    assert page.draft.selected == "way-point 3" and page.panel._item.which.value == "way-point 3"
    np.testing.assert_allclose(page.draft.drawn.sketch().goal.position, (2.0, 5.0))


def test_a_click_into_the_sky_is_refused_and_one_beside_the_sketch_does_nothing(page: Page) -> None:
    page.panel.click_ground(SimpleNamespace(ray_origin=(0, 2, 0), ray_direction=(0, 0.3, 1), client=USER.client))
    page.panel.click_ground(SimpleNamespace(ray_origin=(0, 2, 0), ray_direction=(0, np.nan, 1), client=USER.client))
    assert [str(e) for e in page.errors] == ["that is not on the ground. Click below the horizon"] * 2
    as_user(page.panel._back)
    page.panel.click_ground(ray(2.0, 5.0))
    assert len(page.draft.drawn.points) == 2 and len(page.errors) == 2


def test_way_points_are_dragged_and_one_drag_is_one_step_of_undo(page: Page) -> None:
    page.panel.drag("way-point 2", 0.5, 3.0, True)
    page.panel.drag("way-point 2", 1.0, 3.0, False)
    page.panel.drag("way-point 2", 1.5, 4.0, False)
    assert page.draft.drawn.points[1] == (1.5, 4.0)
    as_user(page.panel._things.edit, "Undo")
    assert page.draft.drawn.points[1] == (0.0, 3.0)
    as_user(page.panel._things.edit, "Redo")
    assert page.draft.drawn.points[1] == (1.5, 4.0)


def test_a_drag_over_a_neighbour_goes_on(page: Page) -> None:
    page.panel.drag("way-point 2", 0.0, 0.0, True)
    assert page.draft.drawn.points[1] == (0.0, 3.0) and not page.errors
    page.draft.drawn.sketch()


def test_curve_corridor_and_speed_reach_the_sketch(page: Page) -> None:
    page.panel.click_ground(ray(2.0, 5.0))
    as_user(page.panel._way.way, "spline")
    as_user(page.panel._way.corridor.slider, 1.6)
    as_user(page.panel._way.speed.slider, 1.3)
    sketch = page.draft.drawn.sketch()
    assert (sketch.path.kind, sketch.corridor_m, sketch.speed_mps) == ("spline", 1.6, 1.3)
    as_user(page.panel._way.speed.slider, 0.0)
    as_user(page.panel._way.way, FOUND_BY_ENGINE)
    sketch = page.draft.drawn.sketch()
    assert sketch.path is None and sketch.speed_mps is None
    assert "Only its start and goal count" in page.words


@pytest.mark.parametrize("kind", KINDS)
def test_a_thing_is_dropped_dragged_resized_and_removed(page: Page, kind: str) -> None:
    form = drop(page, kind)
    assert form.kind == kind and np.hypot(form.x, form.z - 1.5) < 1.0  # at the middle of the way
    label = page.draft.selected
    assert page.draft.form(label) == form
    page.panel.drag(label, 2.0, 2.5, True)
    as_user(page.panel._item.x, 2.25)
    for field in FIELDS[kind]:
        as_user(page.panel._item.fields[field].slider, 0.6)
    form = page.draft.form(label)
    assert (form.x, form.z) == (2.25, 2.5)
    assert all(getattr(form, field) == 0.6 for field in FIELDS[kind])
    assert [n for n, f in page.panel._item.fields.items() if f.slider.visible] == [
        n for n in page.panel._item.fields if n in FIELDS[kind]
    ]
    as_user(page.panel._item.remove)
    assert not page.draft.drawn.forms and not page.draft.selected and not page.errors


def test_rivers_lie_across_the_way_and_things_do_not_lie_on_one_another(page: Page) -> None:
    page.panel.drag("way-point 2", 8.0, 0.0, True)
    for _ in range(3):
        drop(page, "river")
    rivers = page.draft.drawn.sketch().world.rivers
    assert all(isinstance(r, River) and abs(r.start[0] - r.end[0]) < 1e-9 for r in rivers)  # along z, the way along x
    places = np.sort([r.start[0] for r in rivers])
    assert np.diff(places).min() > 0.9


def test_an_object_is_dropped_on_the_table_in_hand_picked_up_and_put_on_another(page: Page) -> None:
    drop(page, "table")
    cup = drop(page, "object")
    assert (cup.height_m, cup.name) == (0.8, "thing1")
    as_user(page.panel._things.event, "pick")
    drop(page, "table")
    as_user(page.panel._things.event, "place")
    table = page.draft.drawn.forms[-1]
    pick, place = page.draft.drawn.events
    assert pick == Event("pick", object="thing1")
    assert place.object == "thing1" and place.to[1] == 0.8 and table.covers((place.to[0], place.to[2]))
    page.panel.drag("place 2", 1.0, 7.0, True)
    assert page.draft.drawn.events[1].to == (1.0, 0.1, 7.0)  # from the table to the floor
    choose(page, "object thing1")
    as_user(page.panel._item.remove)
    assert page.draft.drawn.events == () and not page.errors


def test_a_jump_is_over_the_river_in_hand_and_a_stop_at_the_way_point_in_hand(page: Page) -> None:
    river = drop(page, "river")
    as_user(page.panel._things.event, "jump")
    choose(page, "way-point 2")
    as_user(page.panel._things.event, "stop")
    jump, stop = page.draft.drawn.events
    assert jump.at == pytest.approx((river.x, river.z)) and jump.length_m > river.width_m
    assert stop.at == (0.0, 3.0) and stop.seconds == 1.0
    assert "jump 0.7 m at (0.00, 1.50)" in page.panel._things.listing.content
    page.panel.drag("jump 1", 0.0, 1.0, True)
    assert page.draft.drawn.events[0].at == (0.0, 1.0)
    for _ in range(2):
        choose(page, "jump 1" if len(page.draft.drawn.events) == 2 else "stop 1")
        as_user(page.panel._item.remove)
    assert page.draft.drawn.events == () and not page.errors


@pytest.mark.parametrize(("event", "why"), [("pick", "nothing to pick up"), ("place", "nothing is held")])
def test_an_event_that_makes_no_sense_is_refused_in_words(page: Page, event: str, why: str) -> None:
    as_user(page.panel._things.event, event)
    assert why in str(page.errors[0]) and not page.draft.drawn.events


def test_names_of_objects_are_shown_as_text() -> None:
    assert describe_event(Event("pick", object="<b>")) == "pick <b> up"
    draft = SketchEditor()
    draft.open(parse_sketch(SCRIPTED))
    assert "object <img src=x>" in draft.items()


SCRIPTED = """
[start]
position = [0.0, 0.0]
[goal]
position = [0.0, 4.0]
[[object]]
name = "<img src=x>"
position = [0.3, 0.1, 2.0]
[[event]]
kind = "pick"
object = "<img src=x>"
"""


def test_what_a_file_brings_is_escaped_on_the_page(page: Page) -> None:
    upload(page, "odd.toml", SCRIPTED.encode())
    assert not page.errors
    assert "<img" not in page.panel._things.listing.content and "&lt;img" in page.panel._things.listing.content


def test_a_shipped_sketch_opens_and_the_picker_is_ready_for_another(page: Page) -> None:
    as_user(page.panel._shipped, "slalom")
    assert page.draft.drawn.name == "slalom" and page.panel._shipped.value == OPEN
    as_user(page.panel._things.edit, "Undo")
    assert page.draft.drawn.name == "sketch"


def test_a_sketch_goes_home_and_comes_back(page: Page) -> None:
    page.panel.click_ground(ray(2.0, 5.0))
    drop(page, "river")
    as_user(page.panel._save)
    (name, content), before = page.sent[0], page.draft.drawn
    assert name == "sketch.toml"
    as_user(page.panel._shipped, "straight")
    upload(page, name, content)
    np.testing.assert_allclose(page.draft.drawn.points, before.points)
    assert page.draft.drawn.forms[0].width_m == before.forms[0].width_m and not page.errors


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe\x00", "is no text"),
        (b"[start]\nposition = [0]", "bad.toml:2"),
        (b"nonsense", "bad.toml:1"),
        (b"#" * 2_000_000, "too large"),
    ],
)
def test_a_bad_file_is_refused_and_harms_nothing(page: Page, content: bytes, why: str) -> None:
    before = page.draft.drawn
    upload(page, "../../bad.toml", content)
    assert why in str(page.errors[0]) and page.draft.drawn is before


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308, -5.0, 99999.0])
def test_a_bad_value_harms_nothing(page: Page, bad: float) -> None:
    drop(page, "box")
    label = page.draft.selected
    for field in FIELDS["box"]:
        as_user(page.panel._item.fields[field].slider, bad)
        low, high = RANGES[field]
        assert low <= getattr(page.draft.form(label), field) <= high
    as_user(page.panel._item.x, bad)
    page.panel.drag("way-point 1", bad, bad, True)
    as_user(page.panel._way.corridor.slider, bad)
    as_user(page.panel._way.speed.slider, bad)
    as_user(page.panel._wish.budget, bad)
    assert all(PLACE_M[0] <= c <= PLACE_M[1] for point in page.draft.drawn.points for c in point)
    assert CORRIDOR_M[0] <= page.panel._way.corridor.slider.value <= CORRIDOR_M[1]
    assert 1.0 <= page.draft.budget_s <= 120.0
    assert np.isfinite(page.draft.drawn.sketch().path.length_m)
    assert bool(page.errors) is not np.isfinite(bad)


def test_unknown_names_from_the_page_are_refused(page: Page) -> None:
    for widget in (page.panel._way.way, page.panel._things.drop, page.panel._things.event, page.panel._item.which):
        as_user(widget, "nonsense")
    assert len(page.errors) == 4 and page.draft.drawn.way == "polyline"


def test_a_way_keeps_its_start_and_goal(page: Page) -> None:
    choose(page, "way-point 1")
    as_user(page.panel._item.remove)
    assert "a start and a goal" in str(page.errors[0]) and len(page.draft.drawn.points) == 2


def test_there_is_room_for_so_many_way_points_only() -> None:
    draft = SketchEditor()
    for number in range(MAX_POINTS - 2):
        draft.add_point((0.5 * number, 4.0))
    with pytest.raises(InputError, match="already"):
        draft.add_point()


def test_drawing_takes_the_stage_from_a_walk_and_gives_it_back_to_the_clip(page: Page) -> None:
    from marey.locomotion import load_model

    page.document.walk = WalkDocument(load_model())
    assert page.document.active_sketch is None
    as_user(page.panel._start)
    assert page.document.active_sketch is page.draft and page.document.live is None
    as_user(page.panel._back)
    assert page.document.active_sketch is None and not page.panel._back.visible and page.panel._start.visible


def test_a_page_that_comes_back_finds_its_sketch_and_another_page_has_its_own(server, page: Page) -> None:
    page.panel.click_ground(ray(2.0, 5.0))
    page.panel.close()
    again, other = Page(server, page.document), Page(server)
    again.panel.refresh(again.document)
    assert again.panel._item.which.value == "way-point 3" and "3 way-points" in again.words
    as_user(other.panel._start)
    assert len(other.draft.drawn.points) == 2


def wild_edit(page: Page, rng: np.random.Generator) -> None:
    panel, items = page.panel, ("nothing", *page.draft.items())
    edits = [
        lambda: panel.click_ground(ray(*rng.uniform(-6, 6, 2))),
        lambda: drop(page, KINDS[rng.integers(len(KINDS))]),
        lambda: as_user(panel._things.event, ("pick", "place", "jump", "stop")[rng.integers(4)]),
        lambda: choose(page, items[rng.integers(len(items))]),
        lambda: panel.drag(items[rng.integers(len(items))], *rng.uniform(-9, 9, 2), bool(rng.integers(2))),
        lambda: as_user(panel._item.remove),
        lambda: as_user(panel._things.edit, ("Undo", "Redo", "New")[rng.integers(3)]),
    ]
    edits[rng.integers(len(edits))]()


def test_wild_drawing_always_leaves_a_sketch_that_can_be_read_back(page: Page, server) -> None:
    rng = np.random.default_rng(5)
    stage = SketchStage(server.scene, page.panel.click_item, page.panel.drag)
    for _ in range(150):
        wild_edit(page, rng)
        stage.draw(page.draft, None)
    again = parse_sketch(sketch_to_toml(page.draft.drawn.sketch()))
    assert again.events == page.draft.drawn.events
