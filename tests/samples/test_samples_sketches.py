"""Sketches that ship: they load, mean what their names say, and can be walked where no hand is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import UnknownNameError
from marey.locomotion import load_model, walk_sketch
from marey.samples import sketch_file, sketch_names
from marey.world import load_sketch, parse_sketch, sketch_to_toml

BY_HAND = {"pick", "pick-and-place", "pick-jump-goal"}
WALKED = ("round-a-table", "s-curve", "slalom", "stop-and-turn-back", "straight", "three-rivers")


@pytest.fixture(scope="module")
def model():
    return load_model()


def test_ten_sketches_ship():
    assert len(sketch_names()) == 10
    assert set(WALKED) | BY_HAND | {"stepping-stones"} == set(sketch_names())


@pytest.mark.parametrize("name", sketch_names())
def test_shipped_sketch_loads_under_its_name_and_comes_back(name):
    sketch = load_sketch(sketch_file(name))
    assert sketch.name == name
    assert sketch_to_toml(parse_sketch(sketch_to_toml(sketch))) == sketch_to_toml(sketch)


@pytest.mark.parametrize("name", sketch_names())
def test_shipped_sketch_says_which_engine_it_is_for(name):
    comment = " ".join(line for line in sketch_file(name).read_text().splitlines() if line.startswith("#"))
    assert "engine" in comment
    assert ("locomotion" in comment) == (name in WALKED)


@pytest.mark.parametrize("name", sketch_names())
def test_starts_and_goals_are_free_and_objects_lie_on_tables_or_floor(name):
    sketch = load_sketch(sketch_file(name))
    for stand in (sketch.start, sketch.goal):
        for table in sketch.world.tables:
            away = np.abs(np.subtract(stand.position, table.position)) - 0.5 * np.array(table.size)
            assert away.max() > 0.4
    for thing in sketch.world.objects:
        assert 0.0 <= thing.position[1] <= 1.2


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_sketches_with_picks_ask_for_hands(name):
    sketch = load_sketch(sketch_file(name))
    assert any(event.kind == "pick" for event in sketch.events)


@pytest.mark.parametrize("name", WALKED)
def test_sketch_without_hands_is_walked_to_its_goal(name, model):
    sketch = load_sketch(sketch_file(name))
    walked = walk_sketch(sketch, model, rate_hz=30.0)
    root = walked.motion.root_positions[:, [0, 2]]
    assert walked.off_path_m <= 0.5 * sketch.corridor_m
    assert np.linalg.norm(root[0] - sketch.start.position) < 0.1
    assert np.linalg.norm(root[-1] - sketch.goal.position) < sketch.goal.tolerance_m


def test_three_rivers_are_jumped_one_by_one(model):
    walked = walk_sketch(load_sketch(sketch_file("three-rivers")), model, rate_hz=30.0)
    assert len(walked.to_json()["jumps"]) == 3


def test_stop_holds_for_its_two_seconds(model):
    motion = walk_sketch(load_sketch(sketch_file("stop-and-turn-back")), model, rate_hz=30.0).motion
    near = np.linalg.norm(motion.root_positions[:, [0, 2]] - [0.0, 4.0], axis=1) < 0.2
    assert near.sum() / motion.rate_hz >= 2.0


def test_unknown_sketch_names_the_nearest():
    with pytest.raises(UnknownNameError, match="slalom"):
        sketch_file("salom")
