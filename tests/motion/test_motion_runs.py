"""Stretches of true flags."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from marey.motion import find_runs

FLAGS = st.lists(st.booleans(), max_size=40).map(lambda flags: np.array(flags, dtype=bool))


@given(flags=FLAGS)
def test_runs_are_the_stretches_of_true(flags: np.ndarray) -> None:
    again = np.zeros(len(flags), dtype=bool)
    for start, stop in find_runs(flags):
        assert flags[start:stop].all()
        assert start == 0 or not flags[start - 1]
        assert stop == len(flags) or not flags[stop]
        again[start:stop] = True
    assert np.array_equal(again, flags)


@given(flags=FLAGS, bridge=st.integers(0, 5))
def test_a_bridge_fills_the_inner_gaps_that_are_no_longer(flags: np.ndarray, bridge: int) -> None:
    filled = flags.copy()
    for start, stop in find_runs(~flags):
        filled[start:stop] = start > 0 and stop < len(flags) and stop - start <= bridge
    assert find_runs(flags, bridge) == find_runs(filled)


def test_short_runs_are_left_out_after_gaps_were_closed():
    flags = np.array([1, 1, 0, 1, 0, 0, 0, 1], dtype=bool)
    assert find_runs(flags) == [(0, 2), (3, 4), (7, 8)]
    assert find_runs(flags, shortest=2) == [(0, 2)]
    assert find_runs(flags, 1, shortest=4) == [(0, 4)]
    assert find_runs(np.zeros(5, dtype=bool)) == []
