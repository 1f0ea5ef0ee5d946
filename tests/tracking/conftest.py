"""The seated person of the tracking tests, watched by one camera."""

from __future__ import annotations

import numpy as np
import pytest

from marey.motion import Motion
from marey.tracking import Camera, Observations, observe, seated_motion

TRUTH_SEED, CAMERA_SEED = 11, 12  # the settings were chosen on other seeds (1, 2, 3)


@pytest.fixture(scope="session")
def camera() -> Camera:
    return Camera(np.array([0.5, 1.15, 2.2]), np.array([0.0, 0.95, 0.15]))


@pytest.fixture(scope="session")
def seated() -> Motion:
    """675 frames at 15 Hz, the protocol of Engell check 19."""
    return seated_motion(np.random.default_rng(TRUTH_SEED))


@pytest.fixture(scope="session")
def seen(seated: Motion, camera: Camera) -> Observations:
    return observe(seated, camera, noise_px=2.0, rng=np.random.default_rng(CAMERA_SEED))
