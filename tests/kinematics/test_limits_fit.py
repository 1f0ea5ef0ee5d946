"""Limits learnt from clips: joint types, intervals, comparison, pictures, files, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from marey.base import FormatError, InputError, MissingFileError, UnknownNameError
from marey.cli.poses.limits import app
from marey.io import save
from marey.kinematics import BoxLimits, compare_limits, estimate_joints, fit_limits, load_limits, plot_limits
from marey.kinematics.limits.box import circular_interval
from marey.kinematics.limits.learn import KINDS
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

STICK = Skeleton(("root", "arm", "hand"), np.array([-1, 0, 1]), np.array([[0, 0, 0], [0, 1, 0], [0.3, 0, 0]]))


def clip_of(arm: SO3, hand: SO3 | None = None) -> Motion:
    count = len(arm)
    hand = SO3.identity(count) if hand is None else hand
    return Motion(STICK, 60.0, np.zeros((count, 3)), SO3.stack([SO3.identity(count), arm, hand], axis=1), name="stick")


def swinging() -> Motion:
    t = np.linspace(0.0, 5.0, 150)
    arm = SO3.exp(np.stack([0.3 * np.sin(3 * t), 0.9 * np.sin(t), 0.6 * np.cos(2 * t)], axis=1))
    return clip_of(SO3.exp([0.2, 0.5, -0.4]) @ arm, SO3.exp(np.stack([0 * t, 0 * t, 0.5 * np.sin(2 * t)], axis=1)))


@pytest.mark.parametrize(("low", "high"), [(0.3, 1.7), (-0.8, 0.5), (5.5, 7.2)])
def test_engell_23_a_hinge_is_recognised_with_its_axis_and_interval(low: float, high: float) -> None:
    """Axis noise of half a degree; the second and third intervals cross zero."""
    rng = np.random.default_rng(0)
    axis = np.array([0.6, -0.64, 0.48])
    angles = 0.5 * (low + high) + 0.5 * (high - low) * np.sin(np.linspace(0.0, 20.0, 400))
    wobbly = axis + np.deg2rad(0.5) * rng.normal(size=(400, 3))
    arm = SO3.from_axis_angle(wobbly, angles)
    estimate = estimate_joints(clip_of(arm))[1]
    assert estimate.kind == "hinge"
    sign = np.sign(estimate.axis @ axis)
    assert np.rad2deg(np.arccos(np.clip(abs(estimate.axis @ axis), 0.0, 1.0))) < 1.0
    found = np.array([estimate.low_rad[0], estimate.high_rad[0]])
    wanted = np.array([low, high]) if sign > 0 else np.array([-high, -low])
    wanted += 2.0 * np.pi * np.round((found[0] - wanted[0]) / (2.0 * np.pi))
    assert np.rad2deg(np.abs(found - wanted)).max() < 1.0
    assert 0.0 <= found[0] < 2.0 * np.pi


def test_fixed_joints_and_balls_are_recognised() -> None:
    kinds = [estimate.kind for estimate in estimate_joints(swinging())]
    assert kinds == ["fixed", "ball", "hinge"]
    lone = estimate_joints(clip_of(SO3.exp([[0.1, 0.0, 0.0]])))[1]
    assert lone.kind == "fixed" and "two frames" in lone.note


def test_intervals_are_the_complement_of_the_largest_gap() -> None:
    low, high = circular_interval(np.array([6.0, 0.3, 0.1]))
    assert (low, high) == (pytest.approx(6.0), pytest.approx(0.3 + 2.0 * np.pi))
    assert circular_interval(np.linspace(0.0, 6.25, 200)) == (-np.inf, np.inf)
    outlier = np.append(np.linspace(1.0, 2.0, 999), 2.8)
    assert circular_interval(outlier, trim=0.01)[1] < 2.01
    assert circular_interval(np.array([1.0, 2.0]), margin_rad=0.1) == (pytest.approx(0.9), pytest.approx(2.1))


@pytest.mark.parametrize("kind", KINDS)
def test_learnt_limits_hold_what_they_were_learnt_from(kind: str) -> None:
    motion = swinging()
    limits = fit_limits(motion, kind)
    assert limits.kind == kind
    assert limits.violations(motion.rotations).max() < 1e-9
    far = SO3.random(np.random.default_rng(1), 200, 3)
    assert limits.violations(far)[:, 1].max() > 0.5
    assert limits.violations(far)[:, 0].max() == 0.0  # the root is free


def test_box_limits_can_leave_glitches_out() -> None:
    motion = swinging()
    wxyz = motion.rotations.wxyz.copy()
    wxyz[70, 2] = SO3.exp([0.0, 0.0, 1.4]).wxyz
    spoilt = Motion(STICK, 60.0, np.zeros((150, 3)), SO3(wxyz))
    assert BoxLimits.from_clips(spoilt).high[2, 2] > 1.4
    assert BoxLimits.from_clips(spoilt, trim=0.03).high[2, 2] < 0.6


def test_unknown_kinds_and_mixed_skeletons_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="ellipsoid"):
        fit_limits(swinging(), "elipsoid")
    other = Motion(HUMAN, 60.0, np.zeros((2, 3)), SO3.identity(2, HUMAN.num_joints), name="other")
    with pytest.raises(InputError, match="different joints"):
        fit_limits([swinging(), other], "box")


def test_engell_table_1_models_side_by_side() -> None:
    motion = swinging()
    scores = compare_limits(motion[:120], held_out=motion[120:], joints=["arm"], rng=np.random.default_rng(2))
    by_kind = {score.model.kind: score for score in scores}
    assert all(score.training == 1.0 and score.project_ns > 0.0 for score in scores)
    assert by_kind["sdf"].volume < 0.5 * by_kind["box"].volume
    assert by_kind["sdf"].volume < by_kind["ellipsoid"].volume < by_kind["box"].volume
    assert by_kind["field"].project_ns > 5.0 * by_kind["sdf"].project_ns  # a sum over all samples, bisected
    assert by_kind["sdf"].model.projection == "constant time"
    with pytest.raises(InputError, match="no joint"):
        compare_limits(motion, joints=[], rng=np.random.default_rng(2))


def test_pictures_show_what_is_feasible(tmp_path: Path) -> None:
    motion = swinging()
    figure = plot_limits(fit_limits(motion, "sdf"), ["arm"], motion=motion, path=tmp_path / "limits.png")
    assert len(figure.axes) == 2
    assert (tmp_path / "limits.png").read_bytes()[:4] == b"\x89PNG"
    faces = figure.axes[0].collections[0].get_facecolor()
    assert len(faces) > 100  # the surface of the set
    with pytest.raises(UnknownNameError, match="arm"):
        plot_limits(fit_limits(motion, "box"), ["amr"])
    with pytest.raises(InputError, match="suffix"):
        plot_limits(fit_limits(motion, "box"), ["arm"], path=tmp_path / "limits.txt")


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "limits.safetensors"
    fit_limits(swinging(), "box").save(file)
    whole = file.read_bytes()
    for content, words in (
        (whole[:50], "not a readable"),
        (whole.replace(b'limits_version\\":1', b'limits_version\\":9'), "version 9"),
        (whole.replace(b'marey-limits\\",\\"joints', b'marey-limits\\",\\"joinfs'), "'joints' is missing"),
        (b"", "not a readable"),
    ):
        file.write_bytes(content)
        with pytest.raises(FormatError, match=words):
            load_limits(file)
    save(swinging(), tmp_path / "clip.safetensors")
    with pytest.raises(FormatError, match="not a file of joint limits"):
        load_limits(tmp_path / "clip.safetensors")
    with pytest.raises(MissingFileError):
        load_limits(tmp_path / "none.safetensors")
    with pytest.raises(MissingFileError, match="folder"):
        fit_limits(swinging(), "box").save(tmp_path / "none" / "limits.safetensors")


@pytest.mark.parametrize("kind", ["sdf", "box", "ellipsoid", "cone"])
def test_the_command_fits_and_shows(tmp_path: Path, kind: str) -> None:
    clip, out, picture = (str(tmp_path / name) for name in ("clip.bvh", "limits.safetensors", "limits.png"))
    save(swinging(), clip)
    run = CliRunner()
    fitted = run.invoke(app, ["fit", clip, "-o", out, "--kind", kind, "--json"])
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(fitted.stdout.splitlines()[-1])["kind"] == kind
    options = ["-o", picture, "-j", "arm"] if kind == "sdf" else []
    shown = run.invoke(app, ["show", out, "--clip", clip, "--json", *options])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout.splitlines()[-1])["max_violation_rad"] < 1e-6
    assert Path(picture).is_file() == bool(options)
