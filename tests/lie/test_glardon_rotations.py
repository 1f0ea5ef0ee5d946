"""Acceptance checks A1 and A2 of the specification after Glardon (2005)."""

from __future__ import annotations

import numpy as np
import pytest

from marey.lie import SO3, geodesic_distance

# §2.2: largest geodesic difference [deg] between half-way SLERP and the mean of logarithms, for |angle| <= limit [deg]
LINEAR_VALIDITY = {30: (0.24, 2), 60: (1.99, 2), 90: (6.89, 2), 120: (16.7, 1), 150: (32.4, 1), 180: (52.7, 1)}


def test_glardon_a1_exp_log_round_trip_of_a_hundred_thousand_rotations():
    rng = np.random.default_rng(2005)
    r = SO3.random(rng, 100_000)
    assert geodesic_distance(SO3.exp(r.log()), r).max() <= 1e-12
    axes = rng.normal(size=(3000, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    angles = np.repeat([0.0, 1e-9, np.pi - 1e-9], 1000)[:, None]
    np.testing.assert_allclose(SO3.exp(angles * axes).log(), angles * axes, rtol=0, atol=1e-12)
    half_turns = SO3.exp(np.pi * axes)
    assert geodesic_distance(SO3.exp(half_turns.log()), half_turns).max() <= 1e-12


@pytest.mark.parametrize("limit_deg", LINEAR_VALIDITY)
def test_glardon_a2_linear_validity_of_logarithms(limit_deg):
    printed, digits = LINEAR_VALIDITY[limit_deg]
    grid = np.linspace(-180.0, 180.0, 25)
    angles = np.radians(grid[np.abs(grid) <= limit_deg])
    about_y = SO3.from_axis_angle([0, 1, 0], angles)[:, None]
    about_z = SO3.from_axis_angle([0, 0, 1], angles)[None, :]
    linear = SO3.exp(0.5 * (about_y.log() + about_z.log()))
    worst = np.degrees(geodesic_distance(about_y.slerp(about_z, 0.5), linear).max())
    assert round(worst, digits) == printed
