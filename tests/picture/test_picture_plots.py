"""Plots contain the data."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as Pillow

from marey.base import InputError, MissingFileError, UnknownNameError
from marey.motion import contact_positions, root_speeds
from marey.picture import ground_level, plot_angles, plot_contacts, plot_speed
from marey.skeleton import HUMAN, contact_points


def test_angles_are_those_of_the_joints_in_degrees(travelling):
    figure = plot_angles(travelling)
    hips = figure.axes[0]
    assert [line.get_label() for line in hips.lines] == ["left hip", "right hip"]
    expected = np.rad2deg(np.abs(0.5 * np.sin(2 * np.pi * travelling.times())))
    for line in hips.lines:
        np.testing.assert_allclose(line.get_xdata(), travelling.times())
        np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-9)


def test_named_joints_share_one_panel(travelling):
    figure = plot_angles(travelling, joints=["left_knee", "head", "pelvis"])
    assert len(figure.axes) == 1 and len(figure.axes[0].lines) == 3


def test_contact_bars_cover_the_contact_times(travelling):
    figure = plot_contacts(travelling)
    bars = figure.axes[0].collections[0]
    covered = sum(path.get_extents().width for path in bars.get_paths())
    assert covered == pytest.approx(travelling.contacts.track("left_heel").sum() / travelling.rate_hz)


def test_contact_tracks_are_heights_above_the_ground_and_speeds(travelling):
    figure = plot_contacts(travelling)
    heel = contact_points(HUMAN).names.index("left_heel")
    level = ground_level(travelling, travelling.contacts)
    heights = 100 * (contact_positions(travelling)[:, heel, 1] - level)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), heights)
    touching = np.asarray(figure.axes[1].lines[1].get_ydata())
    np.testing.assert_array_equal(np.isfinite(touching), travelling.contacts.track("left_heel"))
    steps = np.linalg.norm(np.diff(contact_positions(travelling)[:, heel], axis=0), axis=1) * travelling.rate_hz
    assert figure.axes[2].lines[0].get_ydata()[0] == pytest.approx(steps[0])


def test_speed_plot_holds_root_speed_and_height(travelling):
    figure = plot_speed(travelling)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), root_speeds(travelling))
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), travelling.root_positions[:, 1])


def test_plots_are_saved_where_asked(tmp_path, travelling):
    for name, plot in (("a.png", plot_angles), ("c.png", plot_contacts), ("s.png", plot_speed)):
        plot(travelling, tmp_path / name)
        with Pillow.open(tmp_path / name) as image:
            assert np.asarray(image.convert("L")).min() < 100
    plot_speed(travelling, tmp_path / "s.pdf")
    assert (tmp_path / "s.pdf").read_bytes().startswith(b"%PDF")


def test_a_clip_of_one_frame_can_be_plotted(travelling):
    for plot in (plot_angles, plot_contacts, plot_speed):
        assert plot(travelling[:1]).axes


def test_wrong_joints_and_paths_are_refused(tmp_path, travelling):
    with pytest.raises(UnknownNameError, match="Did you mean 'left_knee'"):
        plot_angles(travelling, joints=["left_kne"])
    with pytest.raises(InputError, match="at least one"):
        plot_angles(travelling, joints=[])
    with pytest.raises(InputError, match="suffix"):
        plot_speed(travelling, tmp_path / "s.xyz")
    with pytest.raises(MissingFileError):
        plot_speed(travelling, tmp_path / "absent" / "s.png")


def test_importing_the_package_loads_neither_numba_nor_matplotlib():
    code = "import sys, marey.picture; print([m for m in ('numba', 'matplotlib', 'PIL', 'scipy') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
