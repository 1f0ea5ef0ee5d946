"""What the floor under plants is, and the smooth curve over what a body needs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from marey.contacts.floor import FloorPlane, smooth_upper_envelope

RATE = 120.0


@given(a=st.floats(-0.03, 0.03), b=st.floats(-0.03, 0.03), h=st.floats(-1.0, 1.0), seed=st.integers(0, 99))
def test_a_tilted_floor_is_found(a, b, h, seed):
    points = np.random.default_rng(seed).uniform(-2.0, 2.0, (200, 3))
    points[:, 1] = h + a * points[:, 0] + b * points[:, 2]
    floor = FloorPlane.fit(points)
    np.testing.assert_allclose(floor.under(points), points[:, 1], atol=2e-3)


def test_contacts_in_one_spot_say_nothing_about_tilt():
    rng = np.random.default_rng(0)
    points = rng.normal(0.0, 0.01, (50, 3))
    assert np.abs(FloorPlane.fit(points).slope).max() < 0.02


@given(seed=st.integers(0, 300))
def test_the_raised_floor_is_smooth_and_never_below(seed):
    rng = np.random.default_rng(seed)
    needed = np.maximum(rng.normal(-0.01, 0.01, 150), 0.0)
    raised = smooth_upper_envelope(needed, RATE)
    assert raised.shape == needed.shape
    assert (raised >= needed - 1e-12).all()
    assert np.abs(np.diff(raised)).max() <= 0.15 * max(needed.max(), 1e-9)
