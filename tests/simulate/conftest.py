"""The figure that the thresholds of the dynamics checks were measured on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import marey
from marey.dynamics import Body
from marey.models import PGA, PoseModel
from marey.motion import Motion
from marey.skeleton import Skeleton

SHORTEST_M, RADIUS_M, MASS_KG = 0.05, 0.06, 70.0


def rod_body(skeleton: Skeleton) -> Body:
    """One rod per joint, from the joint to the mean of its children, of mass in proportion to its length."""
    count = skeleton.num_joints
    ends = np.array(skeleton.tips)
    for j in range(count):
        children = np.flatnonzero(skeleton.parents == j)
        if children.size:
            ends[j] = skeleton.offsets[children].mean(axis=0)
    lengths = np.maximum(np.linalg.norm(ends, axis=1), SHORTEST_M)
    masses = MASS_KG * lengths / lengths.sum()
    inertias = np.empty((count, 3, 3))
    for j in range(count):
        norm = np.linalg.norm(ends[j])
        axis = ends[j] / norm if norm > 1e-9 else np.array([0.0, 1.0, 0.0])
        along = np.outer(axis, axis)
        across = (np.eye(3) - along) * (lengths[j] ** 2 / 12 + RADIUS_M**2 / 4)
        inertias[j] = masses[j] * (across + along * RADIUS_M**2 / 2)
    return Body(skeleton, masses, ends / 2, inertias, height_m=1.7)


@pytest.fixture(scope="session")
def d1_walk(mocap: Path) -> Motion:
    """Clip 02_01 without its first frame, a T-pose."""
    return marey.load(mocap / "cmu-bvh" / "02_01.bvh")[1:]


@pytest.fixture(scope="session")
def d1_body(d1_walk: Motion) -> Body:
    """Rods of 70 kg on the skeleton of 02_01."""
    return rod_body(d1_walk.skeleton)


@pytest.fixture(scope="session")
def d1_model(d1_walk: Motion) -> PoseModel:
    """Ten geodesics of 02_01."""
    return PGA(n_components=10).fit([d1_walk])


@pytest.fixture(scope="session")
def c1_model(d1_walk: Motion) -> PoseModel:
    """Fifteen geodesics of 02_01, for control."""
    return PGA(n_components=15).fit([d1_walk])
