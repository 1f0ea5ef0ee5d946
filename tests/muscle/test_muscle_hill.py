"""Hill curves against the printed tables and the laws of a muscle."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.hill import HillCurves, follow_excitation

from marey.base import InputError, UnknownNameError

GROOTE, MUJOCO = HillCurves("de-groote"), HillCurves("mujoco")


def test_engell_59_de_groote_curves_have_the_printed_values():
    lengths = [0.5, 0.75, 1.0, 1.25, 1.5, 1.6]
    active = [0.054112, 0.778113, 1.000000, 0.689553, 0.226149, 0.124255]
    passive = [0.000565, 0.003371, 0.018229, 0.096892, 0.513374, 1.000000]
    speeds = [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]
    forces = [0.0, 0.234036, 0.470826, 1.0, 1.400766, 1.588423, 1.794343]
    np.testing.assert_allclose(GROOTE.length(lengths), active, rtol=0, atol=1e-6)
    np.testing.assert_allclose(GROOTE.passive(lengths), passive, rtol=0, atol=1e-6)
    np.testing.assert_allclose(GROOTE.speed(speeds), forces, rtol=0, atol=1e-6)


def test_engell_59_mujoco_curves_are_exact():
    lengths = [0.5, 0.6, 0.75, 0.9, 1.0, 1.15, 1.3, 1.45, 1.6]
    np.testing.assert_allclose(MUJOCO.length(lengths), [0, 0.08, 0.5, 0.92, 1, 0.875, 0.5, 0.125, 0], atol=1e-9)
    np.testing.assert_allclose(
        MUJOCO.speed([-1, -0.5, -0.25, 0, 0.1, 0.2, 2]), [0, 0.25, 0.5625, 1, 1.15, 1.2, 1.2], atol=1e-9
    )
    np.testing.assert_allclose(MUJOCO.passive([1, 1.15, 1.3, 1.45, 1.6]), [0, 0.1625, 0.65, 1.3, 1.95], atol=1e-9)


def test_engell_59_mujoco_curves_agree_with_mujoco():
    mujoco = pytest.importorskip("mujoco")
    prm = np.array([0.75, 1.05, 1.0, 200.0, 0.5, 1.6, 1.5, 1.3, 1.2])
    lengthrange = np.array([0.75, 1.05])  # so that the normalised length is the length itself
    for x in np.linspace(0.52, 1.58, 23):
        for v in np.linspace(-1.2, 1.2, 9):
            gain = -mujoco.mju_muscleGain(x, v * 1.5, lengthrange, 1.0, prm)
            bias = -mujoco.mju_muscleBias(x, lengthrange, 1.0, prm)
            assert float(MUJOCO.length(x) * MUJOCO.speed(v)) == pytest.approx(gain, abs=1e-9)
            assert float(MUJOCO.passive(x)) == pytest.approx(bias, abs=1e-9)


@pytest.mark.parametrize(
    ("curves", "near"),
    [(GROOTE, 0.014), (MUJOCO, 0.01)],  # with its printed constants the first peaks at 1.0135, by 0.0011 above 1
)
def test_engell_59_force_peaks_at_the_optimal_length_and_grows_with_speed(curves: HillCurves, near: float):
    x = np.linspace(0.5, 1.6, 2201)
    force = curves.length(x)
    assert abs(x[np.argmax(force)] - 1.0) <= near
    assert force.max() - float(curves.length(1.0)) < 1.1e-3
    assert (np.diff(curves.speed(np.linspace(-1.5, 1.5, 601))) >= 0.0).all()


@pytest.mark.parametrize("curves", [GROOTE, MUJOCO])
def test_engell_59_a_fibre_never_pushes(curves: HillCurves):
    a, x, v = np.meshgrid(np.linspace(0, 1, 11), np.linspace(0.5, 1.6, 23), np.linspace(-2, 2, 17))
    assert curves.tension(a, x, v).min() >= 0.0
    assert HillCurves(curves.name, damping=0.1).tension(a, x, v).min() >= 0.0


def test_slopes_of_the_kernel_follow_the_force():
    from marey.muscle.muscles.spline import compute_hill_force, compute_hill_slopes

    for curves in (0, 1):
        x, v, h = 1.1, -0.2, 1e-4
        force, by_length, by_speed = compute_hill_slopes(curves, 0.7, x, v, 0.1)
        assert force == compute_hill_force(curves, 0.7, x, v, 0.1)
        assert by_length == pytest.approx(
            (compute_hill_force(curves, 0.7, x + h, v, 0.1) - compute_hill_force(curves, 0.7, x - h, v, 0.1)) / (2 * h),
            abs=1e-5,
        )
        assert by_speed == pytest.approx(
            (compute_hill_force(curves, 0.7, x, v + h, 0.1) - compute_hill_force(curves, 0.7, x, v - h, 0.1)) / (2 * h),
            abs=1e-5,
        )


def test_activation_rises_faster_than_it_falls():
    dt = 1e-3
    rise = follow_excitation(np.ones(400), dt)
    fall = follow_excitation(np.zeros(400), dt, start=1.0)
    assert (np.diff(rise) >= 0.0).all()
    assert (np.diff(fall) <= 0.0).all()
    assert np.argmax(rise > 0.9) < np.argmax(fall < 0.1)
    assert rise[-1] == pytest.approx(1.0, abs=1e-6)


def test_activation_dynamics_agree_with_a_fine_integration():
    dt, steps = 1e-4, 500
    coarse = follow_excitation(np.ones(steps), dt)[-1]
    a = 0.0
    for _ in range(steps * 20):
        a += dt / 20 * (1.0 - a) / (0.01 * (0.5 + 1.5 * a))
    assert coarse == pytest.approx(a, abs=1e-3)


def test_bad_values_are_named():
    with pytest.raises(UnknownNameError, match="de-groote"):
        HillCurves("degroote")
    with pytest.raises(InputError, match="from 0 to 1"):
        GROOTE.tension(1.2, 1.0)
    with pytest.raises(InputError, match="excitations"):
        follow_excitation([0.5, 2.0], 0.01)
