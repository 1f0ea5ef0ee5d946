"""Sketches as TOML: round trip, and the line of every mistake."""

from __future__ import annotations

from pathlib import Path as FilePath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import FormatError, MareyError, MissingFileError
from marey.world import GroundPose, Sketch, load_sketch, parse_sketch, save_sketch, sketch_to_toml

FULL = """\
version = 1
name = "pick, jump, goal"

[start]
position = [0, 0]
heading_deg = 90

[goal]
position = [8.0, 0.5]
tolerance_m = 0.1

[path]
points = [[0, 0], [4, 1], [8, 0.5]]
kind = "spline"
corridor_m = 0.6
speed_mps = 1.3

[[event]]
kind = "pick"
object = "cup"

[[event]]
kind = "jump"
at = [5, 1]
length_m = 1.2

[[river]]
start = [5, -2]
end = [5, 3]
width_m = 0.8

[[table]]
position = [2, 1.2]

[[object]]
name = "cup"
position = [2, 0.8, 1.2]
"""
LEAST = "[start]\nposition = [0, 0]\n[goal]\nposition = [1, 0]\n"


def test_a_full_sketch_is_read() -> None:
    sketch = parse_sketch(FULL)
    assert sketch.start.heading_deg == 90.0
    assert sketch.path is not None and sketch.path.kind == "spline"
    assert sketch.world.rivers[0].width_m == 0.8
    assert sketch.world.object("cup").position == (2.0, 0.8, 1.2)
    assert [event.kind for event in sketch.events] == ["pick", "jump"]


def test_writing_and_reading_gives_the_sketch_back() -> None:
    once = sketch_to_toml(parse_sketch(FULL))
    again = sketch_to_toml(parse_sketch(once))
    assert once == again
    assert parse_sketch(once).events == parse_sketch(FULL).events
    assert parse_sketch(once).world == parse_sketch(FULL).world


def test_a_sketch_survives_the_disk(tmp_path: FilePath) -> None:
    sketch = parse_sketch(FULL)
    save_sketch(sketch, tmp_path / "s.toml")
    loaded = load_sketch(tmp_path / "s.toml")
    assert loaded.world == sketch.world and loaded.name == sketch.name
    assert loaded.path is not None and sketch.path is not None
    np.testing.assert_array_equal(loaded.path.points, sketch.path.points)


def test_speed_and_corridor_are_kept_without_a_path() -> None:
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((1.0, 0.0)), speed_mps=2.0, corridor_m=3.0)
    again = parse_sketch(sketch_to_toml(sketch))
    assert (again.path, again.speed_mps, again.corridor_m) == (None, 2.0, 3.0)


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    sketch = Sketch(GroundPose((np.float64(1.5), 0.0)), GroundPose((1.0, 0.0)))
    assert parse_sketch(sketch_to_toml(sketch)).start.position == (1.5, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.toml:1: the sketch has no [start]. Add [start] with position = [x, z]"),
        (LEAST + "[[rver]]\n", "s.toml:5: unknown key 'rver'. Did you mean 'river'?"),
        ("[start]\nposition = [0]\n", "s.toml:2: 'position' is not a list of 2 numbers. Write [x, z]"),
        (LEAST + "[[river]]\nstart = [0, 0]\n", "s.toml:5: river has no 'end'. It needs end"),
        (
            LEAST + "[[river]]\nstart = [0, 0]\nend = [1, 0]\nwidth_m = -1\n",
            "s.toml:8: 'width_m' is -1. It must be positive",
        ),
        (LEAST + "[[wall]]\nstart=[0,nan]\nend=[1,0]\n", "s.toml:6: 'start' is not a finite number."),
        (LEAST + '[[event]]\nkind = "fly"\n', "s.toml:5: event kind 'fly'. It is one of pass, pick"),
        (LEAST + '[[event]]\nkind = "pick"\nobject = "cup"\n', "s.toml:7: no object 'cup' in this sketch."),
        (LEAST + "[start]\n", "s.toml:5: cannot declare ('start',) twice"),
        (LEAST + "[path]\npoints = 3\n", "s.toml:6: the path has no list of points."),
        (LEAST + "[path]\npoints = [[0,0],[0,0]]\n", "s.toml:6: two neighbouring path points are the same."),
        (LEAST + '[path]\npoints = [[0,0],[1,0]]\nkind = "arc"\n', "s.toml:7: path kind 'arc'."),
        ("version = 7\n" + LEAST, "s.toml:1: sketch version 7. This marey reads version 1"),
        ("start = 3\n", "s.toml:1: 'start' is not a table."),
        (LEAST + "[wall]\nstart=[0,0]\n", "s.toml:5: 'wall' is not a list of tables."),
        ('name = ""\n' + LEAST, "s.toml:1: 'name' is not a text."),
        (
            LEAST + "[[key_pose]]\ntime_s = 1\nclip = 'a'\nframe = 1.5\n",
            "s.toml:8: 'frame' is 1.5, not a whole number.",
        ),
        (LEAST + "[[stone]]\nposition=[0,2e7]\n", "s.toml:6: 'position' is 20000000.0."),
        (
            LEAST + "[[object]]\nname='a'\nposition=[0,0,0]\n[[object]]\nname='a'\nposition=[0,0,0]\n",
            "s.toml:9: two objects are called 'a'.",
        ),
    ],
)
def test_every_mistake_names_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_sketch(text, file="s.toml")
    assert message.lower() in str(caught.value).lower()


def test_a_missing_file_says_so(tmp_path: FilePath) -> None:
    with pytest.raises(MissingFileError):
        load_sketch(tmp_path / "none.toml")


def test_text_that_is_not_utf8_names_the_line(tmp_path: FilePath) -> None:
    (tmp_path / "s.toml").write_bytes(b"version = 1\nname = '\xff'\n")
    with pytest.raises(FormatError, match=r"s\.toml:2: the file is not UTF-8"):
        load_sketch(tmp_path / "s.toml")


@given(
    st.integers(0, len(FULL) - 1), st.integers(0, len(FULL) - 1), st.sampled_from(["", "[", '"', "nan", "{a=1}", "\n"])
)
def test_mutated_sketches_end_in_a_sketch_or_a_named_error(start: int, stop: int, insert: str) -> None:
    text = FULL[: min(start, stop)] + insert + FULL[max(start, stop) :]
    try:
        outcome: Sketch | str = parse_sketch(text)
    except MareyError as error:
        outcome = str(error)
    assert isinstance(outcome, Sketch) or outcome.startswith("<sketch>:")


def test_an_event_may_name_its_hand(tmp_path):
    file = tmp_path / "cup.toml"
    text = 'version = 1\n[start]\nposition = [0, 0]\n[goal]\nposition = [0, 3]\n[[object]]\nname = "cup"\n'
    text += 'position = [0.2, 0.8, 1.5]\n[[event]]\nkind = "pick"\nobject = "cup"\nhand = "left"\n'
    file.write_text(text, encoding="utf-8")
    sketch = load_sketch(file)
    assert sketch.events[0].hand == "left"
    assert parse_sketch(sketch_to_toml(sketch)).events[0].hand == "left"
    file.write_text(text.replace('"left"', '"both"'), encoding="utf-8")
    with pytest.raises(FormatError, match="both"):
        load_sketch(file)
