"""What stands in a world, the sketch around it, and laws of paths."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import InputError, UnknownNameError
from marey.world import (
    Bar,
    Box,
    Event,
    GroundPose,
    KeyPose,
    Path,
    River,
    Sketch,
    Stone,
    Table,
    Thing,
    Wall,
    World,
    parse_sketch,
    sketch_to_toml,
)
from marey.world.sketch import EVENT_KINDS

LEAST = Sketch(GroundPose((0.0, 0.0)), GroundPose((4.0, 1.0)))
THINGS = {
    "walls": Wall((0.0, 1.0), (2.0, 1.0), 0.2, 1.1),
    "rivers": River((-1.0, 2.0), (1.0, 2.5), 0.9),
    "stones": Stone((0.5, 2.2), 0.15, 0.3),
    "tables": Table((1.0, 0.0), (1.2, 0.6), 0.7, 30.0),
    "boxes": Box((2.0, 0.0), (0.3, 0.5), 0.25, -45.0),
    "bars": Bar((0.0, 2.0, 0.0), (1.0, 2.0, 0.0), 0.02),
    "objects": Thing("cup", (1.0, 0.8, 0.0)),
}
EVENTS = {
    "pass": Event("pass", at=(1.0, 2.0)),
    "pick": Event("pick", object="cup"),
    "place": Event("place", object="cup", to=(2.0, 0.7, 1.0)),
    "jump": Event("jump", at=(3.0, 0.0), length_m=1.1, height_m=0.3),
    "stop": Event("stop", at=(0.0, 1.0), seconds=2.5),
    "custom": Event("custom", at=(0.0, 1.0), name="kick", numbers=(0.5, 0.8)),
}
CUPS = World(objects=(THINGS["objects"], Thing("kettle", (0.0, 0.0, 0.0))))

numbers = st.floats(-1e3, 1e3)
grid = st.tuples(st.integers(-50, 50), st.integers(-50, 50))
ways = st.lists(grid, min_size=2, max_size=8).filter(lambda w: all(a != b for a, b in pairwise(w)))
kinds = st.sampled_from(["polyline", "spline"])


def again(sketch: Sketch) -> Sketch:
    return parse_sketch(sketch_to_toml(sketch))


@pytest.mark.parametrize(
    ("thing", "defaults"),
    [
        (Wall((0, 0), (1, 0)), {"thickness_m": 0.1, "height_m": 2.0}),
        (River((0, 0), (1, 0)), {"width_m": 0.6}),
        (Stone((0, 0)), {"radius_m": 0.2, "height_m": 0.0}),
        (Table((0, 0)), {"size": (0.8, 0.5), "height_m": 0.75, "heading_deg": 0.0}),
        (Box((0, 0)), {"size": (0.4, 0.4), "height_m": 0.3, "heading_deg": 0.0}),
        (Bar((0, 1, 0), (1, 1, 0)), {"radius_m": 0.015}),
        (GroundPose((0, 0)), {"heading_deg": None, "tolerance_m": 0.2}),
    ],
)
def test_what_is_left_out_has_its_documented_size(thing, defaults):
    assert {name: getattr(thing, name) for name in defaults} == defaults


def test_a_world_is_empty_unless_filled():
    assert all(getattr(World(), many) == () for many in THINGS)


@pytest.mark.parametrize("many", THINGS)
def test_each_kind_of_thing_alone_survives_toml(many):
    world = World(**{many: (THINGS[many],)})
    assert again(replace(LEAST, world=world)).world == world


@pytest.mark.parametrize("many", THINGS)
def test_things_cannot_be_changed_in_place(many):
    with pytest.raises(FrozenInstanceError):
        setattr(THINGS[many], fields(THINGS[many])[-1].name, 1.0)


@pytest.mark.parametrize("many", [many for many in THINGS if many != "objects"])
def test_things_keep_the_order_they_were_written_in(many):
    first = THINGS[many]
    world = World(**{many: (first, replace(first, **_moved(first)), first)})
    assert getattr(again(replace(LEAST, world=world)).world, many) == getattr(world, many)


def _moved(thing) -> dict[str, tuple[float, ...]]:
    where = "position" if hasattr(thing, "position") else "start"
    return {where: tuple(x + 5.0 for x in getattr(thing, where))}


def test_every_kind_of_event_is_tried():
    assert tuple(EVENTS) == EVENT_KINDS


@pytest.mark.parametrize("kind", EVENTS)
def test_each_kind_of_event_survives_toml(kind):
    sketch = replace(LEAST, events=(EVENTS[kind],), world=CUPS)
    assert again(sketch).events == (EVENTS[kind],)


def test_events_keep_their_order():
    events = tuple(EVENTS.values())[::-1]
    assert again(replace(LEAST, events=events, world=CUPS)).events == events


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Event("pass"), "at ="),
        (lambda: Event("jump"), "at ="),
        (lambda: Event("stop", seconds=1.0), "at ="),
        (lambda: Event("pick"), "object ="),
        (lambda: Event("place", object="cup"), "to ="),
        (lambda: Event("Pick", object="cup"), "pass, pick, place, jump, stop"),
        (lambda: Event("custom", at=(0.0, 1.0)), "name ="),
        (lambda: Event("pass", at=(0.0, 1.0), name="kick"), "custom"),
    ],
)
def test_an_event_without_what_it_needs_says_what_to_write(make, word):
    with pytest.raises(InputError, match=word):
        make()


@settings(max_examples=30)
@given(st.floats(0.0, 1e5), st.text(min_size=1, max_size=20), st.integers(0, 10**6))
def test_key_poses_survive_toml(time_s, clip, frame):
    poses = (KeyPose(time_s, clip, frame), KeyPose(0.0, "walk", 3))
    assert again(replace(LEAST, key_poses=poses)).key_poses == poses


@settings(max_examples=30)
@given(numbers, numbers, st.none() | st.floats(-360.0, 360.0), st.floats(1e-3, 10.0))
def test_a_stand_survives_toml_to_the_last_bit(x, z, heading, tolerance):
    stand = GroundPose((x, z), heading, tolerance)
    assert again(replace(LEAST, goal=stand)).goal == stand


@settings(max_examples=30)
@given(st.text(min_size=1, max_size=30))
def test_any_name_survives_toml(name):
    sketch = again(replace(LEAST, name=name, world=World(objects=(Thing(name, (0.0, 1.0, 0.0)),))))
    assert (sketch.name, sketch.world.objects[0].name) == (name, name)


@settings(max_examples=30)
@given(ways, kinds, st.floats(0.1, 5.0), st.none() | st.floats(0.1, 8.0))
def test_a_path_survives_toml_with_its_corridor_and_speed(way, kind, corridor, speed):
    back = again(replace(LEAST, path=Path(np.array(way) / 7.0, kind), corridor_m=corridor, speed_mps=speed))
    assert back.path is not None and back.path.kind == kind
    np.testing.assert_array_equal(back.path.points, np.array(way) / 7.0)
    assert (back.corridor_m, back.speed_mps) == (corridor, speed)


def test_an_object_is_found_by_its_name():
    assert CUPS.object("kettle") is CUPS.objects[1]


def test_a_near_name_of_an_object_is_suggested():
    with pytest.raises(UnknownNameError, match=r"no object 'ketle' in this world.*Did you mean 'kettle'"):
        CUPS.object("ketle")


def test_a_sketch_refuses_an_event_with_an_object_that_is_not_there():
    with pytest.raises(UnknownNameError, match="cup"):
        replace(LEAST, events=(EVENTS["pick"],))


def test_two_objects_cannot_share_a_name():
    with pytest.raises(InputError, match="two objects are called 'cup'"):
        World(objects=(Thing("cup", (0.0, 0.0, 0.0)), Thing("cup", (1.0, 0.0, 0.0))))


@settings(max_examples=30)
@given(grid, grid, kinds, st.floats(0.05, 30.0))
def test_two_points_make_a_straight_line(a, b, kind, spacing):
    if a == b:
        return
    path, step = Path(np.array([a, b]), kind), np.subtract(b, a)
    length = float(np.hypot(*step))
    assert path.length_m == pytest.approx(length)
    turn = path.heading_at(np.linspace(0.0, length, 5)) - np.arctan2(step[0], step[1])
    np.testing.assert_allclose(np.cos(turn), 1.0, atol=1e-9)
    points = path.sample(spacing)
    np.testing.assert_allclose(points, np.linspace(a, b, len(points)), atol=1e-9)
    assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() <= spacing * (1.0 + 1e-9)


@settings(max_examples=30)
@given(ways, kinds)
def test_a_path_walked_backwards_is_as_long(way, kind):
    there, back = Path(np.array(way), kind), Path(np.array(way[::-1]), kind)
    assert back.length_m == pytest.approx(there.length_m, rel=1e-9)
    part = np.linspace(0.0, 1.0, 9)
    turned = back.point_at((1.0 - part) * back.length_m)
    np.testing.assert_allclose(turned, there.point_at(part * there.length_m), atol=1e-6)


@settings(max_examples=30)
@given(ways, kinds, st.floats(0.0, 1.0))
def test_a_point_of_the_path_is_at_no_distance_from_it(way, kind, part):
    path = Path(np.array(way), kind)
    assert path.nearest(path.point_at(part * path.length_m))[1] < 1e-9


@settings(max_examples=30)
@given(ways, kinds, grid)
def test_no_sample_of_a_path_is_nearer_than_the_nearest_point(way, kind, point):
    path = Path(np.array(way), kind)
    along, gap = path.nearest(point)
    assert np.linalg.norm(path.sample(0.5) - point, axis=1).min() >= gap - 1e-9
    assert np.linalg.norm(path.point_at(along) - point) == pytest.approx(gap, abs=1e-9)


@settings(max_examples=30)
@given(ways)
def test_a_spline_is_never_shorter_than_its_polyline(way):
    assert Path(np.array(way), "spline").length_m >= Path(np.array(way)).length_m - 1e-9
