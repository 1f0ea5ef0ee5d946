"""Items of a sketch without a browser: clicks, tables that carry, order of events, facing, bad labels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError, UnknownNameError
from marey.samples import sketch_file
from marey.studio.document.sketch.editor import BRUSH_KINDS, WAY_POINT, SketchEditor
from marey.studio.document.sketch.forms import FLOOR_M, KINDS, REST_M, SketchObject, near_edge
from marey.studio.document.sketch.items import MEASURES
from marey.world import Event, load_sketch, parse_sketch, sketch_to_toml

PLACES = st.tuples(st.floats(-20.0, 20.0), st.floats(-20.0, 20.0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_click_puts_what_was_chosen_where_it_was_clicked(kind: str) -> None:
    draft = SketchEditor()
    draft.take_brush(kind)
    draft.click((1.5, 2.5))
    form = draft.drawn.forms[0]
    assert (form.kind, form.x, form.z) == (kind, 1.5, 2.5) and draft.form(draft.selected) == form


def test_a_click_makes_a_stop_and_a_jump_that_is_longer_than_its_river() -> None:
    draft = SketchEditor()
    draft.drop("river", (0.0, 1.5))
    for brush in ("jump", "stop"):
        draft.take_brush(brush)
        draft.click((0.1, 1.5))
    assert draft.drawn.events == (
        Event("jump", at=(0.1, 1.5), length_m=0.7),
        Event("stop", at=(0.1, 1.5), seconds=1.0),
    )


def test_a_jump_beside_every_river_leaves_its_length_to_the_engine() -> None:
    draft = SketchEditor()
    draft.drop("river", (0.0, 1.5))
    draft.take_brush("jump")
    draft.click((0.0, 2.5))
    assert draft.drawn.events[0].length_m is None


@pytest.mark.parametrize("bad", ["", "lake", "pick"])
def test_nothing_else_can_be_put_by_a_click(bad: str) -> None:
    with pytest.raises(UnknownNameError, match="thing"):
        SketchEditor().take_brush(bad)
    assert SketchEditor().brush in BRUSH_KINDS


@pytest.mark.parametrize("way", ["polyline", "spline"])
def test_a_click_on_the_way_goes_between_its_neighbours_and_one_off_it_becomes_the_goal(way: str) -> None:
    draft = SketchEditor()
    for place in ((2.0, 3.0), (2.0, 0.0)):
        draft.click(place)
    draft.set_way(way)
    path = draft.drawn.sketch().path
    on = path.point_at(0.5 * (path.nearest((0.0, 3.0))[0] + path.nearest((2.0, 3.0))[0]))
    draft.click((float(on[0]), float(on[1])))
    assert draft.selected == f"{WAY_POINT} 3"
    assert draft.drawn.points[2] == pytest.approx(tuple(on)) and len(draft.drawn.points) == 5
    draft.click((4.0, 0.0))
    assert draft.drawn.points[-1] == (4.0, 0.0) and draft.selected == f"{WAY_POINT} 6"
    with pytest.raises(InputError, match="already"):
        draft.click((2.0, 3.01))


@given(place=PLACES, turn=st.floats(-180.0, 180.0), here=PLACES)
def test_a_place_seen_from_a_thing_comes_back(place, turn: float, here) -> None:
    form = SketchObject("table", *here, turn, 1.2, 0.6, 0.75)
    np.testing.assert_allclose(form.world(form.local(place)), place, atol=1e-9)


@given(towards=PLACES, turn=st.floats(-180.0, 180.0), size=st.tuples(st.floats(0.1, 2.0), st.floats(0.1, 2.0)))
def test_what_is_put_on_a_table_is_on_it(towards, turn: float, size) -> None:
    table = SketchObject("table", 1.0, 2.0, turn, *size, 0.75)
    assert table.covers(near_edge(table, towards))


@pytest.fixture
def laid() -> SketchEditor:
    """A table with an object on it, which is to be put down on another."""
    draft = SketchEditor()
    draft.drop("table", (1.0, 2.0))
    draft.drop("object")
    draft.add_event("pick")
    draft.drop("table", (-1.0, 2.0))
    draft.add_event("place")
    return draft


def test_a_table_carries_what_stands_on_it_and_what_is_to_be_put_there(laid: SketchEditor) -> None:
    cup = laid.drawn.forms[1]
    assert cup.height_m == pytest.approx(0.75 + REST_M) and laid.drawn.forms[0].covers((cup.x, cup.z))
    laid.move("table 1", 3.0, 2.5)
    moved = laid.drawn.forms[1]
    assert (moved.x - cup.x, moved.z - cup.z) == pytest.approx((2.0, 0.5)) and moved.height_m == cup.height_m
    target = laid.drawn.events[1].to
    laid.resize("table 2", "height_m", 0.9)
    assert laid.drawn.events[1].to == pytest.approx((target[0], 0.9 + REST_M, target[2]))
    laid.resize("table 1", "turn_deg", 70.0)
    turned = laid.drawn.forms[1]
    assert laid.drawn.forms[0].covers((turned.x, turned.z)) and (turned.x, turned.z) != (moved.x, moved.z)


def test_an_object_stands_on_what_it_is_dragged_onto(laid: SketchEditor) -> None:
    laid.move("object thing1", 0.0, 0.5)
    assert laid.drawn.forms[1].height_m == FLOOR_M
    laid.move("object thing1", -1.0, 2.0)
    assert laid.drawn.forms[1].height_m == pytest.approx(0.75 + REST_M)
    laid.resize("object thing1", "height_m", 1.1)  # it hangs
    laid.move("object thing1", 0.0, 0.5)
    assert laid.drawn.forms[1].height_m == 1.1


def test_a_pick_is_where_its_object_is_and_drags_it(laid: SketchEditor) -> None:
    cup = laid.drawn.forms[1]
    assert laid.place_of("pick 1") == (cup.x, cup.height_m, cup.z)
    laid.move("pick 1", 0.2, 0.4)
    assert (laid.drawn.forms[1].x, laid.drawn.forms[1].z) == (0.2, 0.4)


def test_events_change_their_order_and_what_is_not_held_is_not_put_down(laid: SketchEditor) -> None:
    laid.select("way-point 2")
    laid.add_event("stop")
    assert laid.selected == "stop 3"
    laid.shift_event("stop 3", -1)
    assert [e.kind for e in laid.drawn.events] == ["pick", "stop", "place"] and laid.selected == "stop 2"
    laid.shift_event("stop 2", -5)
    assert [e.kind for e in laid.drawn.events] == ["pick", "stop", "place"]
    laid.remove("pick 1")
    assert [e.kind for e in laid.drawn.events] == ["stop"]
    with pytest.raises(InputError, match="no event"):
        laid.shift_event("table 1", 1)


def test_an_object_is_picked_up_once(laid: SketchEditor) -> None:
    laid.select("object thing1")
    with pytest.raises(InputError, match="already"):
        laid.add_event("pick")


def test_facing_and_nearness_of_start_and_goal_reach_the_sketch() -> None:
    draft = SketchEditor()
    draft.click((3.0, 3.0))
    draft.face_any_way("way-point 3", False)
    assert draft.drawn.sketch().goal.heading_deg == 90.0  # along the last piece of the way
    draft.resize("way-point 3", "facing_deg", -45.0)
    draft.resize("way-point 1", "tolerance_m", 0.5)
    again = parse_sketch(sketch_to_toml(draft.drawn.sketch()))
    assert (again.goal.heading_deg, again.start.tolerance_m, again.start.heading_deg) == (-45.0, 0.5, None)
    draft.face_any_way("way-point 3", True)
    assert draft.drawn.sketch().goal.heading_deg is None
    with pytest.raises(InputError, match="neither"):
        draft.face_any_way("way-point 2", True)
    assert draft.measures("way-point 2") == {} and draft.measures("") == {}


def test_events_are_measured() -> None:
    draft = SketchEditor()
    draft.drop("river", (0.0, 1.5))
    draft.add_event("jump")
    draft.resize("jump 1", "jump_m", 0.0)
    draft.resize("jump 1", "rise_m", 0.3)
    draft.add_event("stop")
    draft.resize("stop 2", "seconds", 99.0)
    jump, stop = draft.drawn.events
    assert (jump.length_m, jump.height_m, stop.seconds) == (None, 0.3, 60.0)
    assert draft.measures("stop 2") == {"seconds": 60.0}
    for field in ("width_m", "nothing"):
        with pytest.raises(InputError, match="no such measure"):
            draft.resize("stop 2", field, 1.0)


@pytest.mark.parametrize("name", ["pick-and-place", "pick-jump-goal", "stop-and-turn-back"])
def test_measures_say_what_the_sketch_says_and_writing_them_back_changes_nothing(name: str) -> None:
    draft = SketchEditor()
    draft.open(load_sketch(sketch_file(name)))
    before = sketch_to_toml(draft.drawn.sketch())
    for label in draft.items():
        for field, value in draft.measures(label).items():
            assert MEASURES[field][0] <= value <= MEASURES[field][1]
            if field != "facing_deg" or draft.stand(label).heading_deg is not None:
                draft.resize(label, field, value)
    after = sketch_to_toml(draft.drawn.sketch())
    assert parse_sketch(after).events == parse_sketch(before).events
    assert parse_sketch(after).world.objects == parse_sketch(before).world.objects


def test_beginning_anew_can_be_undone(laid: SketchEditor) -> None:
    before = laid.drawn
    laid.clear()
    assert not laid.drawn.forms and len(laid.drawn.points) == 2 and not laid.selected
    laid.undo()
    assert laid.drawn is before


def test_two_clips_are_compared_unless_they_are_the_same_motion() -> None:
    draft = SketchEditor()
    one, two = (SimpleNamespace(positions=np.full((3, 2, 3), value)) for value in (0.0, 1.0))
    draft.pair = {"k = 1": one, "k = 2": two}
    assert draft.other("k = 1") is two and draft.other("k = 2") is one and draft.other("walk") is None
    draft.pair = {"k = 1": one, "k = 2": SimpleNamespace(positions=one.positions.copy())}
    assert draft.other("k = 1") is None
