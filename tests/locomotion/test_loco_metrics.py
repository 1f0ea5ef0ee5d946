"""Distances between units, and ways of predicting one from others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.speed_fits import FITS, fit_line_law, fit_thin_plate_splines, leave_speed_out, make_flat_synthesis

from marey.base import InputError
from marey.lie import SO3
from marey.locomotion import LocomotionModel, load_model
from marey.locomotion.fitting.fit import cycle_mean, fit_shared_speed_law, flatten_units, prior_rows
from marey.locomotion.fitting.quality import (
    COMPARED_JOINTS,
    UnitGroup,
    distance_matrix,
    group_by_speed,
    leave_unit_out,
    make_model_synthesis,
    make_pooled_fit,
    motion_distance,
    report_quality,
    rms_degrees,
    synthesis_errors,
)
from marey.locomotion.units.gait_unit import MotionUnit, rotations_from_rows
from marey.models import MotionUnits
from marey.skeleton import HUMAN

SPEEDS = np.linspace(1.0, 1.9, 10)


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def made(
    model: LocomotionModel, speed: float, style: str, run: float = 0.0, noise: float = 0.0, seed: int = 0
) -> MotionUnit:
    s = speed / model.leg_length_m
    rows = model.gaits.row(s, run, model.weights(style))
    wxyz = SO3(rotations_from_rows(rows, model.gaits.means))
    shake = noise * np.random.default_rng(seed).normal(size=(1, wxyz.shape[1], 3))
    gait = "run" if run else "walk"
    return MotionUnit(
        rows[:, :3], (wxyz @ SO3.exp(shake)).wxyz, style, gait, s, speed, model.leg_length_m, 1.0, clip=f"c{seed}"
    )


@pytest.fixture(scope="module")
def walks(model) -> list[MotionUnit]:
    return [made(model, float(v), "35", noise=0.02, seed=i) for i, v in enumerate(SPEEDS)]


def test_the_distance_is_the_mean_squared_angle_of_ten_joints(model):
    unit = made(model, 1.3, "35")
    turned = unit.wxyz.copy()
    knee = HUMAN.index("left_knee")
    turned[:, knee] = (SO3(turned[:, knee]) @ SO3.exp(np.array([0.3, 0.0, 0.0]))).wxyz
    matrix = distance_matrix(unit.wxyz, turned)
    assert matrix.shape == (len(COMPARED_JOINTS), unit.num_frames)
    np.testing.assert_allclose(matrix[COMPARED_JOINTS.index("left_knee")], 0.09, atol=1e-12)
    assert motion_distance(unit.wxyz, turned) == pytest.approx(0.09 / len(COMPARED_JOINTS))
    assert motion_distance(unit.wxyz, unit.wxyz) == pytest.approx(0.0, abs=1e-14)
    assert rms_degrees([0.01]) == pytest.approx(np.rad2deg(0.1))
    with pytest.raises(InputError):
        distance_matrix(unit.wxyz, unit.wxyz[:10])


def test_a_slow_walk_and_a_run_of_one_person_are_far_apart(model):
    """The calibration pair of the thesis: 3 km/h against 11 km/h."""
    slow, fast = made(model, 3.0 / 3.6, "35"), made(model, 11.0 / 3.6, "35", run=1.0)
    near = motion_distance(slow.wxyz, made(model, 3.5 / 3.6, "35").wxyz)
    assert motion_distance(slow.wxyz, fast.wxyz) > 50.0 * near


def test_cells_hold_units_of_equal_speed_and_their_spread(model):
    units = [
        made(model, 1.20, "35"),
        made(model, 1.21, "35", noise=0.05),
        made(model, 1.6, "35"),
        made(model, 1.2, "16"),
    ]
    cells = group_by_speed(units)
    assert [(cell.subject, len(cell.units)) for cell in cells] == [("16", 1), ("35", 2), ("35", 1)]
    assert cells[0].spread == 0.0
    assert max(cell.spread for cell in cells) == cells[1].spread > 0.0


def test_every_fit_predicts_a_walk_it_has_not_seen(walks):
    group = UnitGroup.from_units(walks)
    for name, fit in FITS.items():
        assert rms_degrees(leave_unit_out(group, fit)) < (4.0 if name == "radial" else 2.5), name
    lines = rms_degrees(leave_unit_out(group, fit_line_law))
    inner, outer = leave_speed_out(group, fit_line_law)
    assert rms_degrees(inner) <= 1.3 * lines and rms_degrees(outer) <= 2.0 * lines


def test_splines_run_wild_beyond_what_was_captured_and_lines_do_not(model, walks):
    """The thesis shows this on elbows of a run at 16 km/h."""
    group = UnitGroup.from_units(walks[:6])
    truth = made(model, 2.4, "35")
    line, spline = (fit(group.table, group.speeds)(truth.speed_n) for fit in (fit_line_law, fit_thin_plate_splines))
    errors = [
        motion_distance(truth.wxyz, rotations_from_rows(row.reshape(truth.num_frames, -1), group.means))
        for row in (line, spline)
    ]
    assert errors[0] < 0.5 * errors[1]


def test_a_narrow_range_borrows_the_common_slope(model):
    narrow = [made(model, v, "35", noise=0.02, seed=i) for i, v in enumerate((1.20, 1.21, 1.22, 1.23))]
    others = [made(model, float(v), style, seed=9) for style in ("07", "16", "39") for v in SPEEDS]
    means = model.gaits.means
    line = fit_shared_speed_law(flatten_units(others, means), "walk")
    truth = made(model, 1.9, "35")
    group = UnitGroup.from_units(narrow, means)
    pooled, own = (fit(group.table, group.speeds)(truth.speed_n) for fit in (make_pooled_fit(line), fit_line_law))
    far = [
        motion_distance(truth.wxyz, rotations_from_rows(r.reshape(truth.num_frames, -1), means)) for r in (pooled, own)
    ]
    assert far[0] < 0.3 * far[1]
    rows, at = prior_rows(group.table, group.speeds, line)
    assert at.mean() == pytest.approx(group.speeds.mean())
    np.testing.assert_allclose(rows.mean(axis=0), group.table.mean(axis=0), atol=1e-12)


def test_the_common_slope_is_exact_where_everybody_has_it():
    rng = np.random.default_rng(0)
    slope, people = rng.normal(size=6), {"a": 0.5, "b": -1.0, "c": 2.0}
    rows, speeds, names = [], [], []
    for name, offset in people.items():
        for s in rng.uniform(1.0, 2.0, 5):
            rows.append(offset + s * slope)
            speeds.append(s)
            names.append(name)
    table = MotionUnits(np.array(rows), tuple(names), ("walk",) * len(rows), np.array(speeds))
    centred = MotionUnits(
        table.table - np.array([people[n] for n in names])[:, None], table.subjects, table.gaits, table.speeds
    )
    np.testing.assert_allclose(fit_shared_speed_law(centred, "walk").slope, slope, atol=1e-12)
    assert (
        np.abs(fit_shared_speed_law(table, "walk").slope - slope).max() < 3.0
    )  # offsets that go with speed leak in, a little


def test_the_mean_of_a_cycle_keeps_the_columns_of_posture_alone():
    row = np.arange(12.0)  # 4 frames of 3 columns
    np.testing.assert_allclose(cycle_mean(row, np.array([1.0, 0.0, 1.0])), np.tile([4.5, 0.0, 6.5], 4))


def test_model_and_flat_variant_give_units_of_the_asked_style(model, walks):
    assert rms_degrees(synthesis_errors(make_model_synthesis(model), walks)) < 2.5
    group = UnitGroup.from_units(walks, model.gaits.means)
    flat = make_flat_synthesis(model, {("35", "walk"): (group.table, group.speeds)})
    assert rms_degrees(synthesis_errors(flat, walks)) < 4.0


def test_the_report_tells_seen_from_unseen(model, walks):
    others = [made(model, float(v), "07", seed=20 + i) for i, v in enumerate(SPEEDS)]
    report = report_quality(model, [*walks[::2], *others], [replace(u, clip="new") for u in walks[1::2]])
    own = next(group for group in report.groups if group.subject == "35")
    assert (own.num_train, own.num_test) == (5, 5)
    assert own.test_rms_deg is not None and own.test_rms_deg < 2.5
    assert {cell.subject for cell in report.cells} == {"35"} and sum(cell.num_units for cell in report.cells) == 5
    assert "unseen" in report.text() and "35" in report.text()
    assert report.to_dict()["num_test"] == 5
