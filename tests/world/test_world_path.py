"""Paths: arc length, direction, nearest point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError
from marey.world import Path

CORNER = Path(np.array([[0.0, 0.0], [0.0, 3.0], [4.0, 3.0]]))


def test_a_polyline_is_as_long_as_its_legs() -> None:
    assert CORNER.length_m == pytest.approx(7.0)


def test_points_are_found_by_arc_length() -> None:
    np.testing.assert_allclose(CORNER.point_at([-1.0, 1.5, 5.0, 9.0]), [[0, 0], [0, 1.5], [2, 3], [4, 3]])


def test_heading_is_zero_along_z_and_a_quarter_turn_along_x() -> None:
    np.testing.assert_allclose(CORNER.heading_at([1.0, 5.0]), [0.0, np.pi / 2])


def test_nearest_point_of_a_corner() -> None:
    along, gap = CORNER.nearest((2.0, 2.0))
    assert (along, gap) == pytest.approx((5.0, 1.0))


def test_a_spline_through_a_circle_keeps_near_it() -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 33)
    circle = Path(np.stack([np.sin(angle), np.cos(angle)], axis=1), "spline")
    radii = np.linalg.norm(circle.point_at(np.linspace(0.2, circle.length_m - 0.2, 500)), axis=1)
    assert np.abs(radii - 1.0).max() < 2e-4  # away from the ends, whose direction no way-point tells
    assert circle.length_m == pytest.approx(2.0 * np.pi, rel=2e-3)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=8))
def test_a_spline_passes_through_every_way_point(points: list[tuple[float, float]]) -> None:
    way = np.array(points)
    if (np.linalg.norm(np.diff(way, axis=0), axis=1) < 1e-3).any():
        return
    path = Path(way, "spline")
    assert max(path.nearest(p)[1] for p in way) < 1e-9


@pytest.mark.parametrize(
    ("points", "kind", "message"),
    [
        ([[0.0, 0.0]], "polyline", "at least two"),
        ([[0.0, 0.0], [0.0, 0.0]], "polyline", "the same"),
        ([[0.0, 0.0], [1.0, 0.0]], "bezier", "'polyline' or 'spline'"),
        ([[0.0, 0.0], [np.nan, 0.0]], "polyline", "holds nan at index"),
    ],
)
def test_a_path_that_cannot_be_is_refused(points: list[list[float]], kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Path(np.array(points), kind)


def test_spacing_must_be_positive() -> None:
    with pytest.raises(InputError, match="positive"):
        CORNER.sample(0.0)
