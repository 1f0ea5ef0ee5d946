"""The model read backwards: parameters and styles of somebody who moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.gait_tables import frequency_at

from marey.base import InputError, UnknownNameError
from marey.lie import SO3
from marey.locomotion import LocomotionModel, add_style, fit_style_weights, load_model, recover_parameters
from marey.locomotion.fitting.person import capture_first_unit
from marey.locomotion.units.gait_unit import MotionUnit, rotations_from_rows
from marey.motion import Motion


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def made(model: LocomotionModel, speed: float, run: float, style) -> MotionUnit:
    rows = model.gaits.row(speed / model.leg_length_m, run, model.weights(style))
    wxyz = rotations_from_rows(rows, model.gaits.means)
    gait = "run" if run else "walk"
    return MotionUnit(rows[:, :3], wxyz, "x", gait, speed / model.leg_length_m, speed, model.leg_length_m, 1.0)


def walked(model: LocomotionModel, speed: float, style) -> Motion:
    """Six seconds of a synthesised walk, straight ahead, without foot plants."""
    s, weights = speed / model.leg_length_m, model.weights(style)
    rows, rate = model.gaits.row(s, 0.0, weights), 100.0
    times = np.arange(600) / rate
    phases = (times * frequency_at(model.gaits, s, 0.0, weights) * len(rows)) % len(rows)
    low = phases.astype(int)
    part = (phases - low)[:, None]
    now = (1.0 - part) * rows[low] + part * rows[(low + 1) % len(rows)]
    roots = model.leg_length_m * now[..., :3] + speed * times[:, None] * np.array([0.0, 0.0, 1.0])
    return Motion(model.skeleton, rate, roots, SO3(rotations_from_rows(now, model.gaits.means)), name="walked")


@pytest.mark.parametrize(
    ("speed", "run", "style"), [(1.2, 0.0, "35"), (1.7, 0.0, "07"), (3.1, 1.0, "09"), (2.3, 1.0, "16")]
)
def test_speed_gait_and_person_of_a_cycle_are_recovered(model, speed, run, style):
    found = recover_parameters(made(model, speed, run, style), model)
    assert found.speed_mps == pytest.approx(speed, abs=0.02)
    assert found.run == run
    assert found.style[style] > 0.98
    assert found.error_deg < 0.2


def test_a_mixture_is_recovered(model):
    found = recover_parameters(made(model, 1.5, 0.0, {"07": 0.5, "39": 0.5}), model)
    assert found.style["07"] == pytest.approx(0.5, abs=0.1)
    assert found.style["39"] == pytest.approx(0.5, abs=0.1)


def test_a_clip_is_cut_and_its_parameters_recovered(model):
    found = recover_parameters(walked(model, 1.3, "16"), model)
    assert found.measured_speed_mps == pytest.approx(1.3, rel=0.02)
    assert found.speed_mps == pytest.approx(1.3, rel=0.12)
    assert max(found.style, key=found.style.get) == "16"
    assert found.error_deg < 4.0


def test_personify_weighs_the_nearest_most(model):
    unit = made(model, 1.4, 0.0, "39")
    for method in ("least-squares", "mahalanobis"):
        weights = fit_style_weights(unit, model, method=method, run=False)
        assert max(weights, key=weights.get) == "39"
        assert sum(weights.values()) == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(UnknownNameError):
        fit_style_weights(unit, model, method="guess")


def test_a_new_person_is_a_style_of_the_model(model):
    unit = made(model, 1.4, 0.0, "39")
    bent = replace(unit, wxyz=(SO3(unit.wxyz) @ SO3.exp(np.full((unit.wxyz.shape[1], 3), 0.03))).wxyz)
    found = recover_parameters(bent, model)
    more = add_style(model, "me", found.style, found.residual)
    s = found.speed_mps / model.leg_length_m
    rows = more.gaits.row(s, 0.0, more.weights("me"))
    assert (
        np.abs(SO3(rotations_from_rows(rows, model.gaits.means)).inverse().__matmul__(SO3(bent.wxyz)).angle()).max()
        < 0.02
    )
    assert frequency_at(more.gaits, s, 0.0, more.weights("me")) > 0.5
    np.testing.assert_allclose(
        more.gaits.row(0.0, 0.0, more.weights("me")), more.gaits.row(0.0, 1.0, more.weights("me")), atol=1e-9
    )
    with pytest.raises(InputError):
        add_style(model, "39", {"35": 1.0})


def test_a_clip_without_cycles_is_refused(model):
    still = walked(model, 1.3, "16")
    still = replace(still, root_positions=np.broadcast_to(still.root_positions[:1], still.root_positions.shape))
    still = replace(still, rotations=SO3(np.broadcast_to(still.rotations.wxyz[:1], still.rotations.wxyz.shape)))
    with pytest.raises(InputError, match="no regular cycle"):
        capture_first_unit(still, model)
