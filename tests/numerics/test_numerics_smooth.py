"""Smooth steps: ends, slopes, symmetry."""

from __future__ import annotations

import numpy as np
import pytest

from marey.numerics import fill_gaps, smootherstep, smoothstep

U = np.linspace(0.0, 1.0, 101)


@pytest.mark.parametrize("step", [smoothstep, smootherstep])
def test_a_step_goes_from_zero_to_one_and_stays_there(step):
    assert np.array_equal(step(np.array([-2.0, 0.0, 1.0, 3.0])), [0.0, 0.0, 1.0, 1.0])
    assert (np.diff(step(U)) > 0.0).all()
    np.testing.assert_allclose(step(U) + step(1.0 - U), 1.0, atol=1e-15)
    assert step(0.5) == 0.5


@pytest.mark.parametrize(("step", "order"), [(smoothstep, 2), (smootherstep, 3)])
def test_a_step_leaves_its_ends_as_slowly_as_it_says(step, order):
    h = np.array([1e-3, 1e-4])
    for distance in (step(h), 1.0 - step(1.0 - h)):
        assert np.log10(distance[0] / distance[1]) == pytest.approx(order, abs=0.01)


def test_gaps_are_filled_by_steps_and_ends_by_the_nearest_row():
    values = np.array([[9.0], [1.0], [9.0], [9.0], [9.0], [5.0], [9.0]])
    known = values[:, 0] < 9.0
    expected = [1.0, 1.0, *(1.0 + 4.0 * smoothstep(np.array([0.25, 0.5, 0.75]))), 5.0, 5.0]
    np.testing.assert_allclose(fill_gaps(values, known)[:, 0], expected)
    assert not fill_gaps(values, np.zeros(7, dtype=bool)).any()
