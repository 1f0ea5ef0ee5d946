"""Weights: nothing over- or underflows, resampling is fair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.tracking.particle_filter import (
    compute_effective_size,
    compute_reprojection_energies,
    exponentiate_log_weights,
    normalise_log_weights,
    resample_systematic,
)

ENERGIES = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60)


@given(ENERGIES)
def test_engell_22_weights_sum_to_one_with_energies_up_to_a_million(energies: list[float]) -> None:
    weights = exponentiate_log_weights(normalise_log_weights(-np.array(energies)))
    assert np.isfinite(weights).all()
    assert abs(weights.sum() - 1.0) < 1e-12


@given(ENERGIES, st.floats(-1e6, 1e6))
def test_a_constant_energy_changes_no_weight(energies: list[float], shift: float) -> None:
    np.testing.assert_allclose(
        exponentiate_log_weights(-np.array(energies) + shift),
        exponentiate_log_weights(-np.array(energies)),
        rtol=0,
        atol=1e-9,
    )


def test_normalised_log_weights_have_a_unit_sum() -> None:
    assert np.exp(normalise_log_weights(np.array([-3.0, -4.0, 2.0]))).sum() == pytest.approx(1.0, abs=1e-15)


def test_the_effective_size_is_n_for_equal_weights_and_one_for_a_single_one() -> None:
    assert compute_effective_size(np.full(25, 1 / 25)) == pytest.approx(25.0)
    assert compute_effective_size(np.eye(25)[3]) == 1.0


@given(ENERGIES, st.integers(0, 2**31))
def test_each_particle_is_chosen_as_often_as_its_weight_says(energies: list[float], seed: int) -> None:
    weights = exponentiate_log_weights(-np.array(energies) / 1e5)
    chosen = resample_systematic(weights, np.random.default_rng(seed))
    counts, wanted = np.bincount(chosen, minlength=len(weights)), len(weights) * weights
    assert len(chosen) == len(weights)
    assert (counts >= np.floor(wanted - 1e-9)).all() and (counts <= np.ceil(wanted + 1e-9)).all()


def test_a_stray_detection_costs_at_most_the_square_of_its_scale() -> None:
    projected, pixels = np.zeros((1, 2, 2)), np.array([[3.0, 4.0], [1e6, 0.0]])
    energies, distances = compute_reprojection_energies(projected, pixels, np.array([1.0, 0.0]), 60.0)
    assert energies[0] == pytest.approx(25.0 / (1.0 + 25.0 / 3600.0))
    assert distances[0] == pytest.approx(5.0)
    both, _ = compute_reprojection_energies(projected, pixels, np.array([1.0, 1.0]), 60.0)
    assert both[0] < energies[0] + 3600.0


def test_without_any_detection_all_particles_are_equal() -> None:
    energies, distances = compute_reprojection_energies(np.ones((3, 2, 2)), np.zeros((2, 2)), np.zeros(2), 60.0)
    assert not energies.any() and not distances.any()
