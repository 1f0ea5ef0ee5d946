"""Numbers in bytes: every spelling gives the float that Python reads, and tables are written so that they return."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.io.export import format_table
from marey.io.text import parse_float, parse_numbers

finite = st.floats(-1e9, 1e9, allow_nan=False)
spelling = st.sampled_from(["{:.4f}", "{:.1f}", "{:.6f}", "{:.9f}", "{!r}", "{:.3e}", "{:+.2f}", "{:.0f}", "{:.17e}"])


def parse(text: str | bytes, count: int, per_line: int = 0):
    data = text.encode() if isinstance(text, str) else text
    values = np.full(count, np.nan)
    result = parse_numbers(np.frombuffer(data, dtype=np.uint8), 0, values, per_line)
    return values, result


@given(st.lists(st.tuples(finite, spelling), min_size=1, max_size=40), st.sampled_from([" ", "\t", "  ", "\r\n", "\n"]))
def test_every_spelling_is_read_to_one_unit_in_the_last_place(numbers, blank):
    words = [form.format(value) for value, form in numbers]
    values, result = parse(blank.join(words) + "\n", len(words))
    exact = np.array([float(word) for word in words])
    assert result[0] == len(words) and not result[5]
    np.testing.assert_array_less(np.abs(values - exact), np.spacing(np.abs(exact)) * 1.01 + 1e-320)


@given(st.integers(-(10**15), 10**15), st.integers(0, 8))
def test_up_to_fifteen_digits_are_read_exactly(mantissa, decimals):
    word = f"{mantissa / 10**decimals:.{decimals}f}"
    padding = " 0" * 40  # so that the words of eight bytes are in use
    assert parse(f"0 0 0 0 0 {word}{padding}\n", 46)[0][5] == float(word)


@pytest.mark.parametrize(
    "word", ["1.", ".5", "-.5", "+3", "00012.5", "1e5", "1E-5", "-0", "1.25e+2", "123456789.123456789"]
)
def test_unusual_spellings_are_read(word):
    assert parse(f"{word}\n", 1)[0][0] == pytest.approx(float(word), rel=3e-16)
    assert parse_float(word) == float(word)


@pytest.mark.parametrize(
    "word",
    ["x", "1x", "1.2.3", "--1", "+-1", ".", "-", "e5", "1e", "1e+", "0x10", "1,5", "nan", "inf", "1_0", "1d5", "٣"],
)
def test_what_is_no_number_is_refused_where_it_stands(word):
    text = f"1.0000 2.0000 {word} 3.0000 4.0000 5.0000 6.0000\n"
    _, (count, stopped_at, _, _, _, is_bad) = parse(text, 9)
    assert (count, stopped_at, is_bad) == (2, 14, True)
    assert parse_float(word) is None


@pytest.mark.parametrize(("word", "value"), [("1e400", np.inf), ("-1e400", -np.inf), ("1e-400", 0.0), ("0e999", 0.0)])
def test_exponents_beyond_floats_saturate(word, value):
    assert parse(f"{word}\n", 1)[0][0] == value


def test_lines_of_another_length_are_found():
    text = "1 2 3\n\n4 5 6\n7 8\n9\n"
    _, (count, _, odd_at, odd_count, _, is_bad) = parse(text, 9, per_line=3)
    assert (count, odd_count, is_bad) == (9, 2, False)
    assert text[:odd_at].count("\n") == 3


def test_reading_stops_when_the_table_is_full():
    _, (count, stopped_at, _, _, _, is_bad) = parse("1 2 3 4\n", 2)
    assert (count, stopped_at, is_bad) == (2, 4, False)


@given(st.lists(st.floats(-1e9, 1e9, allow_nan=False), min_size=1, max_size=30), st.integers(1, 9))
def test_written_tables_return_to_half_of_the_last_decimal(numbers, decimals):
    table = np.array(numbers).reshape(1, -1)
    out = np.empty(24 * table.size, dtype=np.uint8)
    text = out[: format_table(table, decimals, out)].tobytes()
    values = np.array([float(word) for word in text.split()])
    assert text.endswith(b"\n") and b"e" not in text
    np.testing.assert_allclose(values, table[0], rtol=3e-16, atol=0.51 * 10.0**-decimals)


def test_numbers_are_written_without_trailing_zeros():
    table = np.array([[0.0, -0.0, 1.5, -2.25, 100.0, 0.0001, -1e-9, 12345.6789]])
    out = np.empty(24 * table.size, dtype=np.uint8)
    assert out[: format_table(table, 7, out)].tobytes() == b"0 0 1.5 -2.25 100 0.0001 0 12345.6789\n"
