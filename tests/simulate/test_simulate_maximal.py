"""Rigid bodies held by multipliers: the same ragdoll as the full space, with gaps."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.maximal import MaximalSimulator

from marey import samples
from marey.base import FloatArray, InputError
from marey.dynamics import GRAVITY, Body
from marey.motion import Motion
from marey.simulate import PointForce, Simulator


@pytest.fixture(scope="module")
def walk() -> Motion:
    return samples.walk()


def rods(walk: Motion) -> Body:
    """A body whose every segment has mass."""
    plain = Body.from_motion(walk)
    masses = np.where(plain.masses > 0.0, plain.masses, 0.4)
    inertias = np.where(plain.masses[:, None, None] > 0.0, plain.inertias, 4e-3 * np.eye(3))
    return Body(plain.skeleton, masses, plain.centres, inertias, height_m=1.7)


def apart(body: Body, walk: Motion, h: float, **options: float) -> tuple[FloatArray, float]:
    """Joints ``(J, 3)`` [m] of the full space after a fall, less those of the rigid bodies; and their largest gap."""
    push = [PointForce("right_wrist", (0.0, 0.0, 40.0)), PointForce("left_knee", (20.0, 0.0, 0.0))]
    full, bodies = Simulator(body), MaximalSimulator(body, **options)
    full.reset(walk[10])
    bodies.reset(walk[10])
    for _ in range(round(0.1 / h)):
        full.step(h, push)
        bodies.step(h, push)
    here, there = full.state.pose.joint_positions(), bodies.pose.joint_positions()
    assert np.abs(here - walk[10].joint_positions()).max() > 0.04
    return here - there, float(np.abs(bodies.gaps).max())


def test_tournier_72_the_full_space_and_the_maximal_baseline_agree_as_steps_shrink(walk):
    body = rods(walk)
    coarse, fine = (apart(body, walk, h, stabilisation=1.0)[0] for h in (2e-3, 1e-3))
    assert np.abs(coarse).max() / np.abs(fine).max() == pytest.approx(2.0, rel=0.1)  # both are of first order
    assert np.abs(fine).max() < 4e-3
    assert np.abs(2.0 * fine - coarse).max() < 5e-4  # what is left in the limit


def test_gaps_are_smaller_where_they_are_repaired(walk):
    body = rods(walk)
    free, slow, whole = (apart(body, walk, 2e-3, stabilisation=share)[1] for share in (0.0, 0.2, 1.0))
    assert whole < 0.3 * slow < 0.3 * free
    assert whole < 1e-4


def test_rigid_bodies_keep_both_momenta(walk):
    body = rods(walk)
    simulator = MaximalSimulator(body, gravity=(0, 0, 0), stabilisation=0.0)
    simulator.reset(walk[0])
    simulator.step(0.005, [PointForce("right_wrist", (0.0, 0.0, 100.0))])
    first = simulator.momentum()
    for _ in range(100):
        simulator.step(0.005)
    last = simulator.momentum()
    np.testing.assert_allclose(last[3:], first[3:], atol=1e-12)
    np.testing.assert_allclose(last[:3], first[:3], atol=0.02 * np.linalg.norm(first[:3]))
    assert np.linalg.norm(first) > 0.1


def test_what_carries_no_mass_hangs_on_welded(walk):
    body = Body.from_motion(walk)
    assert (body.masses == 0.0).any()
    simulator = MaximalSimulator(body)
    simulator.reset(walk[4])
    np.testing.assert_allclose(simulator.gaps, 0.0, atol=1e-14)
    np.testing.assert_allclose(simulator.pose.joint_positions(), walk[4].joint_positions(), atol=1e-12)
    for _ in range(20):
        simulator.step(0.005)
    heavy = body.masses > 0.0
    com = body.masses[heavy] @ simulator.state.centres / body.mass_kg
    start = body.centre_of_mass(walk)[4]
    steps = 20
    fall = GRAVITY * 0.005**2 * steps * (steps + 1) / 2
    np.testing.assert_allclose(com, start - np.array([0.0, fall, 0.0]), atol=1e-10)
    light = np.flatnonzero(~heavy)
    np.testing.assert_allclose(simulator.pose.rotations.wxyz[light], walk[4].rotations.wxyz[light], atol=1e-12)


def test_velocities_of_segments_are_taken_over(walk):
    body = rods(walk)
    count = body.skeleton.num_joints
    simulator = MaximalSimulator(body, gravity=(0, 0, 0))
    state = simulator.reset(walk[0], linear=np.tile([1.0, 0.0, 0.0], (count, 1)))
    assert state.linear.shape == (count, 3)
    simulator.step(0.1)
    ahead = walk[0].root_position + np.array([0.1, 0.0, 0.0])
    np.testing.assert_allclose(simulator.pose.root_position, ahead, atol=1e-12)
    np.testing.assert_allclose(simulator.pose.rotations.wxyz, walk[0].rotations.wxyz, atol=1e-12)


def test_what_cannot_be_simulated_is_refused(walk):
    body = Body.from_motion(walk)
    with pytest.raises(InputError, match="stabilisation"):
        MaximalSimulator(body, stabilisation=2.0)
    simulator = MaximalSimulator(body)
    for dt in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="dt is"):
            simulator.step(dt)
    light = body.skeleton.names[int(np.flatnonzero(body.masses == 0.0)[0])]
    with pytest.raises(InputError, match="no mass"):
        simulator.step(0.01, [PointForce(light, (1.0, 0.0, 0.0))])
    masses = np.array(body.masses)
    masses[0], inertias = 0.0, np.array(body.inertias)
    inertias[0] = 0.0
    with pytest.raises(InputError, match="root carries no mass"):
        MaximalSimulator(Body(body.skeleton, masses, body.centres, inertias, height_m=1.7))
