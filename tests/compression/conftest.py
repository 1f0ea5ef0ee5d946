"""Motions that every test of the codecs shares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton


def smooth(rng: np.random.Generator, frames: int, *shape: int, size: float = 1.0) -> np.ndarray:
    """Smooth random tracks ``(frames, *shape)``: a few slow sines."""
    t = np.linspace(0.0, 2.0 * np.pi, frames).reshape(-1, *([1] * len(shape)))
    tracks = np.zeros((frames, *shape))
    for k in range(1, 5):
        tracks = tracks + rng.normal(size=shape) / k * np.sin(k * t + rng.uniform(0.0, 6.28, size=shape))
    return size * tracks


def chain_skeleton() -> Skeleton:
    """A trunk with two arms of four joints."""
    names = ("hips", "spine", "neck", "l1", "l2", "l3", "l4", "r1", "r2", "r3", "r4")
    parents = np.array([-1, 0, 1, 1, 3, 4, 5, 1, 7, 8, 9])
    offsets = np.array(
        [
            [0, 0, 0], [0, 0.31, 0.01], [0, 0.22, 0], [0.17, 0.11, 0], [0.28, 0.02, 0], [0.27, 0, 0.01], [0.09, 0, 0],
            [-0.17, 0.11, 0], [-0.28, 0.02, 0], [-0.27, 0, 0.01], [-0.09, 0, 0],
        ]
    )  # fmt: skip
    return Skeleton(names, parents, offsets, name="chain")


def chain_motion(seed: int = 5, frames: int = 90, *, noise: float = 2e-4) -> Motion:
    """A clip with a hinge (l2), a universal joint (l3), a constant one (r4) and a root that turns round and round."""
    rng = np.random.default_rng(seed)
    skeleton = chain_skeleton()
    vectors = smooth(rng, frames, 11, 3, size=0.4) + noise * rng.normal(size=(frames, 11, 3))
    vectors[:, 10] = (0.1, -0.2, 0.3)
    rotations = np.array(SO3.exp(vectors).wxyz)
    axis = np.array([0.6, 0.0, 0.8])
    rotations[:, 4] = (SO3.exp((0.2, 0.1, 0.0)) @ SO3.exp(smooth(rng, frames, 1) * axis)).wxyz
    first, second = smooth(rng, frames, 1), smooth(rng, frames, 1)
    rotations[:, 5] = (SO3.exp(first * axis) @ SO3.exp((0.1, 0.2, -0.1)) @ SO3.exp(second * [0.0, 1.0, 0.0])).wxyz
    turns = np.linspace(0.0, 15.0, frames)[:, None] * [0.0, 1.0, 0.0]
    rotations[:, 0] = (SO3.exp(turns) @ SO3.exp(0.2 * vectors[:, 0])).wxyz
    positions = np.cumsum(smooth(rng, frames, 3, size=0.01), axis=0)
    contacts = Contacts(("left_heel", "right\nheel"), rng.random((frames, 2)) < 0.3)
    return Motion(skeleton, 29.97, positions, SO3(rotations), contacts, name="chain clip")


@pytest.fixture(scope="session")
def chain() -> Motion:
    return chain_motion()


@pytest.fixture(scope="session")
def cmu(mocap: Path):
    """Captured clips by number, each read once."""
    known: dict[str, Motion] = {}

    def read(number: str) -> Motion:
        if number not in known:
            known[number] = load(mocap / "cmu-bvh" / f"{number}.bvh")
        return known[number]

    return read
