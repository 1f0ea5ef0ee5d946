"""The picture of a validity report, from plain data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.picture import PhysicsCurves, plot_physics
from marey.picture.plots import SPAN_COLOURS


def curves() -> PhysicsCurves:
    times = np.arange(60) / 30.0
    wave = np.sin(times)
    return PhysicsCurves(
        name="clip",
        title="clip · amber",
        times=times,
        spans=((0.0, 1.0, "green", ""), (1.0, 1.4, "amber", "tipping"), (1.4, 2.0, "red", "hover")),
        forces=np.stack([0.1 * wave, 1.0 + wave, 0.1 * wave], axis=1),
        left=wave,
        right=1.0 - wave,
        violation=np.abs(wave),
        tolerance=0.05,
        friction_margin=wave,
        balance_margin=0.1 * wave,
        flight=times > 1.5,
    )


def faces(axis) -> list[str]:
    from matplotlib.colors import to_hex

    return [to_hex(patch.get_facecolor()) for patch in axis.patches]


def test_the_bar_has_a_stretch_of_each_colour_and_words_where_there_is_room():
    figure = plot_physics(curves())
    bar = figure.axes[0]
    assert faces(bar) == [SPAN_COLOURS[colour] for colour in ("green", "amber", "red")]
    assert [text.get_text() for text in bar.texts] == ["tipping", "hover"]
    edges = [(p.get_x(), p.get_x() + p.get_width()) for p in bar.patches]
    np.testing.assert_allclose(edges, [(0.0, 1.0), (1.0, 1.4), (1.4, 2.0)])


def test_forces_are_drawn_as_given_and_measured_ones_only_where_they_were_measured():
    plain = plot_physics(curves())
    assert [line.get_label() for line in plain.axes[1].lines[1:]] == ["needed", "left foot", "right foot"]
    np.testing.assert_array_equal(plain.axes[1].lines[1].get_ydata(), curves().forces[:, 1])
    used = np.arange(60) < 20
    both = plot_physics(replace(curves(), measured=np.ones((60, 3)), is_measured=used))
    shown = np.asarray(both.axes[1].lines[4].get_ydata())
    np.testing.assert_array_equal(np.isfinite(shown), used)


def test_the_picture_is_written_and_a_wrong_suffix_refused(tmp_path):
    plot_physics(curves(), tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 20_000
    with pytest.raises(InputError, match="suffix"):
        plot_physics(curves(), tmp_path / "p.txt")
