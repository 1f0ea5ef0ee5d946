"""The ball joints of a body and the hinges of a tree made from it are one physics."""

import subprocess
import sys

import numpy as np
import pytest

from marey.dynamics import Body, JointTree, compute_aggregate, solve_inverse_dynamics
from marey.io import load
from marey.skeleton import HUMAN

RATE = 2000.0  # [Hz] so that five-point differences are exact to 1e-8


def waves(tree: JointTree, rng: np.random.Generator, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smooth coordinates and their derivatives, small enough to stay away from gimbal lock."""
    times = np.arange(frames)[:, None] / RATE
    speed, phase, size = rng.uniform(2.0, 6.0, tree.num_dofs), rng.uniform(0.0, 6.0, tree.num_dofs), 0.4
    angle = speed * times + phase
    return size * np.sin(angle), size * speed * np.cos(angle), -size * speed**2 * np.sin(angle)


def assert_one_physics(body: Body, rng: np.random.Generator) -> None:
    tree = JointTree.from_body(body)
    q, qd, qdd = waves(tree, rng, 60)
    theirs = compute_aggregate(tree, q, qd, qdd)
    ours = solve_inverse_dynamics(body, tree.to_motion(q, RATE), cutoff_hz=None)
    inner = slice(4, -4)
    scale = np.abs(theirs.wrench).max(axis=0)
    assert tree.mass == pytest.approx(body.mass_kg, rel=1e-12)
    np.testing.assert_allclose(ours.com, theirs.com, atol=1e-10)
    np.testing.assert_allclose(ours.com_velocity[inner], theirs.com_velocity[inner], atol=1e-7)
    np.testing.assert_allclose(ours.angular_momentum[inner], theirs.angular_momentum[inner], atol=1e-6)
    assert (np.abs(ours.wrench - theirs.wrench)[inner].max(axis=0) < 1e-5 * scale).all()


def test_a_tree_made_from_the_canonical_body_needs_the_same_wrench():
    assert_one_physics(Body.from_skeleton(HUMAN, mass_kg=70.0), np.random.default_rng(2))


@pytest.mark.mocap
def test_a_tree_made_from_a_captured_body_needs_the_same_wrench(mocap):
    walk = load(mocap / "cmu-bvh" / "07_01.bvh")
    assert_one_physics(Body.from_motion(walk), np.random.default_rng(3))


def test_dynamics_are_imported_without_solvers_plots_or_compilers():
    code = "import sys, marey.dynamics; print(*sorted(m for m in sys.modules if m in set(sys.argv[1:])))"
    heavy = ["numba", "scipy", "matplotlib", "pinocchio", "marey.kinematics", "marey.picture", "marey.io"]
    found = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
