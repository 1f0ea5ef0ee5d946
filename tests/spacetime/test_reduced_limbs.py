"""Planted legs: closed-form angles that reach their plants, and derivatives by an independent way (A40, A41)."""

from __future__ import annotations

import numpy as np
import pytest

from marey.dynamics import points_motion
from marey.samples import problem_file
from marey.spacetime import BehaviourSpace
from marey.spacetime._jets import Tape, angle
from marey.spacetime._limbs import AXES, STRETCH, plant_data, record_leg, sole_centre
from marey.spacetime._limbs_tree import leg_of, root_dofs

HEIGHTS = (0.55, 0.7, 0.85, 0.92)  # [m] of the root: crouched to nearly stretched


@pytest.fixture(scope="module")
def tree():
    return BehaviourSpace.load(problem_file("jump-1.3").with_name("jump.safetensors")).tree


@pytest.fixture(scope="module", params=["left", "right"])
def leg(tree, request):
    return leg_of(tree, request.param)


def variables(height, swivel=0.1, lift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z = np.zeros((1, 3, 8))
    z[0, 0] = [0.02, height, -0.05, 0.3, 0.2, 0.1, swivel, lift]
    z[0, 1:] = rng.normal(size=(2, 8))
    return z


def pose(tree, leg, z, angles):
    root, turns = root_dofs(tree)
    q = np.zeros((1, tree.num_dofs))
    q[0, root], q[0, turns], q[0, leg.dofs] = z[0, 0, :3], z[0, 0, 3:6], angles
    return q


def places(tree, q, links, points):
    zero = np.zeros_like(q)
    return points_motion(tree, q, zero, zero, links, np.array(points)).position[0]


@pytest.mark.parametrize("swivel", [-0.9, 0.0, 0.7])
@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("lift", [0.0, 0.6])
def test_a40_a_planted_foot_is_where_it_was_put(tree, leg, height, swivel, lift):
    plant = plant_data(leg, np.array([0.08, 0.0, 0.12]), 0.3)
    z = variables(height, swivel, lift)
    jets = record_leg(leg)(z, plant[None])[0]
    if jets[STRETCH, 0, 0] > 0.99:
        pytest.skip("out of reach")
    q = pose(tree, leg, z, jets[:8, 0, 0])
    ball, tip = places(tree, q, [leg.dofs[7], leg.dofs[7]], [np.zeros(3), leg.tip_local])
    assert np.abs(ball - plant[:3]).max() < 1e-9
    assert tip[1] == pytest.approx(0.0, abs=1e-9)  # toes stay flat while the heel lifts


def test_a40_bones_keep_their_length_and_the_knee_bends_forward(tree, leg):
    z = variables(0.7, swivel=0.0)
    jets = record_leg(leg)(z, plant_data(leg, np.array([0.08, 0.0, 0.0]), 0.0)[None])[0]
    q = pose(tree, leg, z, jets[:8, 0, 0])
    hip, knee, ankle = places(tree, q, leg.dofs[[2, 3, 6]], np.zeros((3, 3)))
    assert np.linalg.norm(knee - hip) == pytest.approx(leg.lengths[0], abs=1e-12)
    assert np.linalg.norm(ankle - knee) == pytest.approx(leg.lengths[1], abs=1e-12)
    line = hip + (ankle - hip) * 0.5
    assert knee[2] > line[2] + 0.05


def test_a40_derivatives_are_finite_at_full_stretch_and_beyond(leg):
    plant = plant_data(leg, np.array([leg.hip_offset[0], 0.0, 0.0]), 0.0)
    for height in (leg.reach + 0.06 - leg.hip_offset[1]) * np.array([0.999, 1.0, 1.05, 1.4]):
        z = variables(float(height), swivel=0.0)
        z[0, 0] = [0.0, height, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert np.isfinite(record_leg(leg)(z, plant[None])).all()


def test_a41_derivatives_by_the_variables_are_central_differences(leg):
    function, plant = record_leg(leg), plant_data(leg, np.array([0.08, 0.0, 0.12]), 0.3)[None]
    z = variables(0.75, lift=0.3)
    jets, h = function(z, plant)[0], 1e-6
    for i in range(8):
        step = np.zeros((1, 3, 8))
        step[0, 0, i] = h
        numeric = (function(z + step, plant)[0, :, :, 0] - function(z - step, plant)[0, :, :, 0]) / (2 * h)
        scale = np.maximum(1.0, np.abs(numeric).max(axis=0))
        assert np.abs(jets[:, :, i + 1] - numeric).max(axis=0) == pytest.approx(0.0, abs=1e-6 * scale.max())


def test_a41_rates_are_central_differences_in_time(leg):
    function, plant = record_leg(leg), plant_data(leg, np.array([0.08, 0.0, 0.12]), 0.3)[None]
    z = variables(0.75, lift=0.3)
    h = 1e-5

    def at(t):
        p, v, a = z[0]
        return function(np.array([[p + v * t + 0.5 * a * t * t, v + a * t, a]]), plant)[0]

    jets, rate = at(0.0), (at(h)[:, :2] - at(-h)[:, :2]) / (2 * h)
    # positions turn into velocities, velocities into accelerations; the gradients' rates likewise
    assert np.abs(rate - jets[:, 1:]).max() < 1e-6 * max(1.0, np.abs(jets).max())


def test_twists_of_a_leg_are_the_velocities_of_its_foot(tree, leg):
    plant = plant_data(leg, np.array([0.08, 0.0, 0.12]), 0.3)
    z = variables(0.75)
    jets = record_leg(leg)(z, plant[None])[0]
    q = pose(tree, leg, z, jets[:8, 0, 0])
    zero = np.zeros_like(q)
    moved = points_motion(tree, q, zero, zero, [leg.dofs[7]], leg.tip_local[None])
    twists = jets[AXES:, 0, 0].reshape(8, 6)
    for k, dof in enumerate(leg.dofs):
        velocity = twists[k, 3:] + np.cross(twists[k, :3], moved.position[0, 0])
        assert velocity == pytest.approx(moved.J[0, 0, :, dof], abs=1e-9)


def test_a_heel_pivot_keeps_the_heel(tree, leg):
    plant = plant_data(leg, np.array([0.08, 0.0, 0.12]), 0.3, on_heel=True)
    z = variables(0.8, lift=-0.3)
    jets = record_leg(leg)(z, plant[None])[0]
    q = pose(tree, leg, z, jets[:8, 0, 0])
    heel, tip = places(tree, q, [leg.dofs[6], leg.dofs[7]], [leg.heel_local, leg.tip_local])
    assert np.abs(heel - plant[:3]).max() < 1e-9
    assert tip[1] > 0.03


def test_the_middle_of_the_sole_is_halfway_between_heel_and_toes(leg):
    assert sole_centre(leg) == pytest.approx(0.5 * (leg.heel + leg.tip))
    assert leg.tip[2] - leg.heel[2] == pytest.approx(0.24, abs=0.03)


def test_a_jet_of_an_angle_goes_through_all_quadrants():
    tape = Tape(1, 0)
    (t,) = tape.variables()
    function = tape.finish([angle(t.sine(), t.cosine())])
    for start in np.linspace(-3.0, 3.0, 13):
        jets = function(np.array([[[start], [0.7], [-0.4]]]), np.zeros((1, 0)))[0, 0]
        assert jets == pytest.approx(np.array([[start, 1.0], [0.7, 0.0], [-0.4, 0.0]]), abs=1e-12)
