"""Labels on pictures."""

from __future__ import annotations

import numpy as np

from marey.picture import Label, write_labels


def blank():
    return np.full((60, 300, 3), 255, dtype=np.uint8)


def inked(image):
    return np.nonzero(image.min(axis=2) < 200)


def test_a_label_is_centred_on_its_place():
    rows, columns = inked(write_labels(blank(), [Label("0.50 s", 150, 30, 16)]))
    assert abs(0.5 * (columns.min() + columns.max()) - 150) < 3 and abs(0.5 * (rows.min() + rows.max()) - 30) < 5
    assert rows.max() - rows.min() < 17


def test_a_label_may_begin_at_its_place():
    _, columns = inked(write_labels(blank(), [Label("walk", 20, 30, 16, centred=False)]))
    assert 20 <= columns.min() < 25


def test_a_label_that_would_touch_an_earlier_one_is_left_out():
    first, second = Label("0.50 s", 100, 30, 16), Label("0.60 s", 120, 30, 16)
    np.testing.assert_array_equal(write_labels(blank(), [first, second]), write_labels(blank(), [first]))
    apart = Label("0.60 s", 220, 30, 16)
    assert len(inked(write_labels(blank(), [first, apart]))[0]) > len(inked(write_labels(blank(), [first]))[0])


def test_the_given_picture_is_not_changed():
    image = blank()
    write_labels(image, [Label("x", 150, 30, 16)])
    assert (image == 255).all()
