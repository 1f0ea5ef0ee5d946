"""Marker trajectories."""

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.motion import Markers


def parabola(frames: int = 50) -> Markers:
    times = np.arange(frames) / 100.0
    track = np.stack([times, 1.0 + 2.0 * times - 4.9 * times**2, 0 * times], axis=-1)
    positions = np.stack([track, track + np.array([0.0, 0.0, 0.3])], axis=1)
    valid = np.ones((frames, 2), dtype=bool)
    valid[10:15, 0] = valid[30:45, 0] = valid[:5, 1] = False
    positions[~valid] = np.nan
    return Markers(("HEEL", "TOE"), 100.0, positions, valid)


def test_what_was_not_seen_is_zero_and_masked_never_a_nan():
    markers = parabola()
    assert (markers.positions[~markers.valid] == 0.0).all()
    assert np.isfinite(markers.positions).all()


def test_a_nan_in_a_seen_frame_is_refused():
    with pytest.raises(InputError, match="nan at index"):
        Markers(("A",), 100.0, np.full((3, 1, 3), np.nan), np.ones((3, 1), dtype=bool))


@pytest.mark.parametrize(("method", "error_m"), [("linear", 9.8 * 0.06**2 / 8 + 1e-9), ("spline", 1e-9)])
def test_short_gaps_are_filled_and_long_ones_stay(method, error_m):
    markers = parabola()
    filled = markers.fill_gaps(0.05, method=method)
    assert filled.valid[10:15, 0].all() and not filled.valid[30:45, 0].any()
    times = np.arange(10, 15) / 100.0
    np.testing.assert_allclose(filled.positions[10:15, 0, 1], 1 + 2 * times - 4.9 * times**2, atol=error_m)


def test_gaps_at_the_ends_are_not_invented():
    assert not parabola().fill_gaps(1.0).valid[:5, 1].any()


def test_filling_keeps_what_was_seen():
    markers = parabola()
    filled = markers.fill_gaps(1.0)
    np.testing.assert_array_equal(filled.positions[markers.valid], markers.positions[markers.valid])


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="'linear' or 'spline'"):
        parabola().fill_gaps(method="magic")


def test_a_slice_keeps_times():
    part = parabola()[10:40:2]
    assert (part.num_frames, part.rate_hz, part.num_markers) == (15, 50.0, 2)
    np.testing.assert_array_equal(part.positions[1], parabola().positions[12])


def test_a_track_is_found_by_name():
    positions, seen = parabola().track("TOE")
    assert positions.shape == (50, 3) and seen.sum() == 45


def test_a_misspelt_marker_suggests_the_right_one():
    with pytest.raises(UnknownNameError, match="Did you mean 'HEEL'"):
        parabola().track("HEAL")


def test_two_markers_of_one_name_are_refused():
    with pytest.raises(InputError, match="two markers are called 'A'"):
        Markers(("A", "A"), 100.0, np.zeros((1, 2, 3)), np.ones((1, 2), dtype=bool))


def test_a_rate_of_zero_is_refused():
    with pytest.raises(InputError, match="rate_hz is 0"):
        Markers(("A",), 0.0, np.zeros((1, 1, 3)), np.ones((1, 1), dtype=bool))


def test_positions_of_the_wrong_shape_are_refused():
    with pytest.raises(InputError, match="positions has shape"):
        Markers(("A",), 100.0, np.zeros((4, 2, 3)), np.ones((4, 1), dtype=bool))


def test_it_prints_how_much_was_seen():
    assert repr(parabola()) == "Markers('markers', 2 markers, 50 frames, 100 Hz, 75.0 % seen)"


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        parabola().positions[0, 0, 0] = 1.0
