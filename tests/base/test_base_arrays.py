"""Read-only arrays: copied, checked, frozen."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError, frozen, frozen_bools, frozen_ints


def test_a_frozen_array_cannot_be_written() -> None:
    array = frozen([1.0, 2.0], 2, name="a")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 3.0


def test_freezing_copies_what_the_caller_can_still_change() -> None:
    mine = np.zeros(3)
    kept = frozen(mine, 3, name="a")
    mine[0] = 1.0
    assert kept[0] == 0.0


def test_a_read_only_view_of_a_writable_array_is_copied() -> None:
    mine = np.zeros(3)
    view = mine[:]
    view.setflags(write=False)
    kept = frozen(view, 3, name="a")
    mine[0] = 1.0
    assert kept[0] == 0.0


def test_freezing_twice_copies_nothing() -> None:
    once = frozen(np.zeros((4, 3)), None, 3, name="a")
    assert frozen(once, None, 3, name="a") is once


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named_with_its_place(bad: float) -> None:
    values = np.zeros((2, 3))
    values[1, 2] = bad
    with pytest.raises(InputError, match=r"a holds -?(nan|inf) at index \(1, 2\)"):
        frozen(values, 2, 3, name="a")


def test_a_wrong_shape_says_what_was_expected() -> None:
    with pytest.raises(InputError, match=r"a has shape \(2, 2\), expected \(any, 3\)"):
        frozen(np.zeros((2, 2)), None, 3, name="a")


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(InputError, match="a is not an array of float64"):
        frozen([[1.0], [1.0, 2.0]], None, name="a")


def test_integers_and_flags_keep_their_kind() -> None:
    assert frozen_ints([1, 2], 2, name="i").dtype == np.int64
    assert frozen_bools([True, False], 2, name="b").dtype == np.bool_


def test_numbers_beyond_all_floats_are_refused():
    with pytest.raises(InputError, match="speed is not an array"):
        frozen(10**400, name="speed")
