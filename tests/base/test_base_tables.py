"""Records from TOML: what is refused, and where."""

from dataclasses import dataclass

import pytest

from marey.base import FormatError
from marey.base.toml import format_toml_value, parse_toml, read_record


@dataclass(frozen=True)
class Step:
    length: float
    count: int = 1


def read(text: str) -> Step:
    data, place = parse_toml(text, "step.toml", positive=frozenset({"length"}))
    return read_record(data, Step, place)


def test_a_table_becomes_a_record():
    assert read("length = 2\ncount = 3\n") == Step(2.0, 3)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("length = " + 400 * "9", 1, "is too large"),
        ("count = 1\nlength = 5_000_000", 2, "is 5000000"),
        ("length = nan", 1, "not a finite number"),
        ("length = 1e400", 1, "not a finite number"),
        ("length = true", 1, "not a finite number"),
        ("length = -1.0", 1, "positive"),
        ("length = 1.0\ncount = 1.5", 2, "whole number"),
        ("length = 1.0\ncuont = 1", 2, "Did you mean 'count'"),
        ("count = 2", 1, "no 'length'"),
        ("length = " + 5000 * "[", 1, "TOML syntax"),
        ("length =\n", 1, "TOML syntax"),
    ],
)
def test_mistakes_are_named_with_their_line(text, line, message):
    with pytest.raises(FormatError, match=message) as caught:
        read(text)
    assert (caught.value.file, caught.value.line) == ("step.toml", line)


def test_a_number_of_more_digits_than_python_reads_is_refused():
    with pytest.raises(FormatError, match="TOML syntax"):
        read("length = " + 5000 * "9")


@pytest.mark.parametrize("text", ['say "no"', "a\nb", "back\\slash", "\x7f", "é"])
def test_texts_survive_being_written(text):
    assert parse_toml(f"t = {format_toml_value(text)}", "t.toml")[0] == {"t": text}
