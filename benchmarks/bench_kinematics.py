"""Forward kinematics of 10 000 poses of 31 joints against plain vectorised NumPy and PyMotion."""

from __future__ import annotations

import numpy as np
from harness import Row, compare
from synthetic import tree_of_31

import marey
from marey.lie import SO3


def numpy_forward(parents: np.ndarray, offsets: np.ndarray, roots: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """The loop over joints that everybody writes, vectorised over frames, with rotation matrices."""
    positions = np.empty((*matrices.shape[:2], 3))
    world = np.empty_like(matrices)
    positions[:, 0], world[:, 0] = roots, matrices[:, 0]
    for j in range(1, len(parents)):
        p = parents[j]
        positions[:, j] = positions[:, p] + np.einsum("fij,j->fi", world[:, p], offsets[j])
        world[:, j] = world[:, p] @ matrices[:, j]
    return positions


def rows() -> list[Row]:
    """Check that all agree, then race them."""
    from pymotion.ops.skeleton import fk

    rng = np.random.default_rng(3)
    parents, offsets = tree_of_31()
    skeleton = marey.Skeleton(tuple(f"j{i}" for i in range(31)), parents, 0.01 * offsets)
    motion = marey.Motion(skeleton, 120.0, rng.normal(size=(10_000, 3)), SO3.exp(rng.normal(size=(10_000, 31, 3))))
    matrices, wxyz = motion.rotations.matrix(), motion.rotations.wxyz
    plain = numpy_forward(parents, skeleton.offsets, motion.root_positions, matrices)
    gap = np.abs(motion.joint_positions() - plain).max()
    if gap > 1e-9:
        raise SystemExit(f"the two forward kinematics disagree by {gap} m: the race would be void")
    jobs = {
        "plain NumPy": lambda: numpy_forward(parents, skeleton.offsets, motion.root_positions, matrices),
        "PyMotion": lambda: fk(wxyz, motion.root_positions, skeleton.offsets, np.maximum(parents, 0)),
    }
    bars = {"plain NumPy": 8.0, "PyMotion": None}
    name = "FK, 10 000 x 31 joints"
    return [compare(name, motion.joint_positions, peer, job, repeats=20, bar=bars[peer]) for peer, job in jobs.items()]
