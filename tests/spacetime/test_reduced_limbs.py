"""Planted legs: closed-form angles that reach their plants, and derivatives by an independent way (A40, A41)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import marey.spacetime
from marey.base import InputError, UnknownNameError
from marey.dynamics import JointTree, compute_points_motion
from marey.spacetime import BehaviourSpace
from marey.spacetime.reduced.jets import Tape, angle_of_vector
from marey.spacetime.reduced.legs import (
    AXES_OUTPUT,
    NUM_ANGLES,
    align_legs,
    compute_sole_centre,
    find_root_dofs,
    measure_leg,
    pack_plant,
    record_leg,
)

STRETCH_OUTPUT = NUM_ANGLES  # stands behind the angles
HEIGHTS = (0.55, 0.7, 0.85, 0.92)  # [m] of the root: crouched to nearly stretched


@pytest.fixture(scope="module")
def tree():
    return BehaviourSpace.load(Path(marey.spacetime.__file__).parent / "behaviours" / "jump.safetensors").tree


@pytest.fixture(scope="module", params=["left", "right"])
def leg(tree, request):
    return measure_leg(tree, request.param)


def variables(height, swivel=0.1, lift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z = np.zeros((1, 3, 8))
    z[0, 0] = [0.02, height, -0.05, 0.3, 0.2, 0.1, swivel, lift]
    z[0, 1:] = rng.normal(size=(2, 8))
    return z


def pose(tree, leg, z, angles):
    root, turns = find_root_dofs(tree)
    q = np.zeros((1, tree.num_dofs))
    q[0, root], q[0, turns], q[0, leg.dofs] = z[0, 0, :3], z[0, 0, 3:6], angles
    return q


def places(tree, q, links, points):
    zero = np.zeros_like(q)
    return compute_points_motion(tree, q, zero, zero, links, np.array(points)).position[0]


@pytest.mark.parametrize("swivel", [-0.9, 0.0, 0.7])
@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("lift", [0.0, 0.6])
def test_a40_a_planted_foot_is_where_it_was_put(tree, leg, height, swivel, lift):
    plant = pack_plant(leg, np.array([0.08, 0.0, 0.12]), 0.3)
    z = variables(height, swivel, lift)
    jets = record_leg(leg)(z, plant[None])[0]
    if jets[STRETCH_OUTPUT, 0, 0] > 0.99:
        pytest.skip("out of reach")
    q = pose(tree, leg, z, jets[:8, 0, 0])
    ball, tip = places(tree, q, [leg.dofs[7], leg.dofs[7]], [np.zeros(3), leg.tip_local])
    assert np.abs(ball - plant[:3]).max() < 1e-9
    assert tip[1] == pytest.approx(0.0, abs=1e-9)  # toes stay flat while the heel lifts


def test_a40_bones_keep_their_length_and_the_knee_bends_forward(tree, leg):
    z = variables(0.7, swivel=0.0)
    jets = record_leg(leg)(z, pack_plant(leg, np.array([0.08, 0.0, 0.0]), 0.0)[None])[0]
    q = pose(tree, leg, z, jets[:8, 0, 0])
    hip, knee, ankle = places(tree, q, leg.dofs[[2, 3, 6]], np.zeros((3, 3)))
    assert np.linalg.norm(knee - hip) == pytest.approx(leg.lengths[0], abs=1e-12)
    assert np.linalg.norm(ankle - knee) == pytest.approx(leg.lengths[1], abs=1e-12)
    line = hip + (ankle - hip) * 0.5
    assert knee[2] > line[2] + 0.05


def test_a40_derivatives_are_finite_at_full_stretch_and_beyond(leg):
    plant = pack_plant(leg, np.array([leg.hip_offset[0], 0.0, 0.0]), 0.0)
    for height in (leg.reach + 0.06 - leg.hip_offset[1]) * np.array([0.999, 1.0, 1.05, 1.4]):
        z = variables(float(height), swivel=0.0)
        z[0, 0] = [0.0, height, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert np.isfinite(record_leg(leg)(z, plant[None])).all()


def test_a41_derivatives_by_the_variables_are_central_differences(leg):
    function, plant = record_leg(leg), pack_plant(leg, np.array([0.08, 0.0, 0.12]), 0.3)[None]
    z = variables(0.75, lift=0.3)
    jets, h = function(z, plant)[0], 1e-6
    for i in range(8):
        step = np.zeros((1, 3, 8))
        step[0, 0, i] = h
        numeric = (function(z + step, plant)[0, :, :, 0] - function(z - step, plant)[0, :, :, 0]) / (2 * h)
        scale = np.maximum(1.0, np.abs(numeric).max(axis=0))
        assert np.abs(jets[:, :, i + 1] - numeric).max(axis=0) == pytest.approx(0.0, abs=1e-6 * scale.max())


def test_a41_rates_are_central_differences_in_time(leg):
    function, plant = record_leg(leg), pack_plant(leg, np.array([0.08, 0.0, 0.12]), 0.3)[None]
    z = variables(0.75, lift=0.3)
    h = 1e-5

    def at(t):
        p, v, a = z[0]
        return function(np.array([[p + v * t + 0.5 * a * t * t, v + a * t, a]]), plant)[0]

    jets, rate = at(0.0), (at(h)[:, :2] - at(-h)[:, :2]) / (2 * h)
    # positions turn into velocities, velocities into accelerations; the gradients' rates likewise
    assert np.abs(rate - jets[:, 1:]).max() < 1e-6 * max(1.0, np.abs(jets).max())


def test_twists_of_a_leg_are_the_velocities_of_its_foot(tree, leg):
    plant = pack_plant(leg, np.array([0.08, 0.0, 0.12]), 0.3)
    z = variables(0.75)
    jets = record_leg(leg)(z, plant[None])[0]
    q = pose(tree, leg, z, jets[:8, 0, 0])
    zero = np.zeros_like(q)
    moved = compute_points_motion(tree, q, zero, zero, [leg.dofs[7]], leg.tip_local[None])
    twists = jets[AXES_OUTPUT:, 0, 0].reshape(8, 6)
    for k, dof in enumerate(leg.dofs):
        velocity = twists[k, 3:] + np.cross(twists[k, :3], moved.position[0, 0])
        assert velocity == pytest.approx(moved.J[0, 0, :, dof], abs=1e-9)


def test_a_heel_pivot_keeps_the_heel(tree, leg):
    plant = pack_plant(leg, np.array([0.08, 0.0, 0.12]), 0.3, on_heel=True)
    z = variables(0.8, lift=-0.3)
    jets = record_leg(leg)(z, plant[None])[0]
    q = pose(tree, leg, z, jets[:8, 0, 0])
    heel, tip = places(tree, q, [leg.dofs[6], leg.dofs[7]], [leg.heel_local, leg.tip_local])
    assert np.abs(heel - plant[:3]).max() < 1e-9
    assert tip[1] > 0.03


def test_the_middle_of_the_sole_is_halfway_between_heel_and_toes(leg):
    assert compute_sole_centre(leg) == pytest.approx(0.5 * (leg.heel + leg.tip))
    assert leg.tip[2] - leg.heel[2] == pytest.approx(0.24, abs=0.03)


def test_a_jet_of_an_angle_goes_through_all_quadrants():
    tape = Tape(1, 0)
    (t,) = tape.variables
    function = tape.finish([angle_of_vector(t.sine(), t.cosine())])
    for start in np.linspace(-3.0, 3.0, 13):
        jets = function(np.array([[[start], [0.7], [-0.4]]]), np.zeros((1, 0)))[0, 0]
        assert jets == pytest.approx(np.array([[start, 1.0], [0.7, 0.0], [-0.4, 0.0]]), abs=1e-12)


def test_a40_the_foot_stays_and_bones_keep_their_length_for_any_swivel(tree, leg):
    rng, count = np.random.default_rng(40), 400
    z = np.zeros((count, 3, 8))
    lows, highs = [-0.1, 0.5, -0.1, -0.6, -0.4, -0.3, -3.1, 0.0], [0.1, 0.9, 0.1, 0.6, 0.4, 0.3, 3.1, 0.8]
    z[:, 0] = rng.uniform(lows, highs, size=(count, 8))
    plants = np.stack([pack_plant(leg, np.array([0.08, 0.03, 0.05]), turn) for turn in rng.uniform(-0.6, 0.6, count)])
    jets = record_leg(leg)(z, plants)
    inside = np.flatnonzero(jets[:, STRETCH_OUTPUT, 0, 0] < 0.98)
    assert len(inside) > 100
    root, turns = find_root_dofs(tree)
    q = np.zeros((len(inside), tree.num_dofs))
    q[:, root], q[:, turns], q[:, leg.dofs] = z[inside, 0, :3], z[inside, 0, 3:6], jets[inside, :8, 0, 0]
    zero = np.zeros_like(q)
    points = compute_points_motion(tree, q, zero, zero, leg.dofs[[2, 3, 6, 7]], np.zeros((4, 3))).position
    hip, knee, ankle, ball = points.swapaxes(0, 1)
    assert np.abs(ball - plants[inside, :3]).max() < 1e-9
    assert np.abs(np.linalg.norm(knee - hip, axis=1) - leg.lengths[0]).max() < 1e-12
    assert np.abs(np.linalg.norm(ankle - knee, axis=1) - leg.lengths[1]).max() < 1e-12
    ratios = (np.linalg.norm(ankle - hip, axis=1) / leg.reach) ** 2
    assert jets[inside, STRETCH_OUTPUT, 0, 0] == pytest.approx(ratios, abs=1e-9)


def test_the_swivel_turns_the_knee_about_the_line_from_hip_to_ankle(tree, leg):
    plant, knees = pack_plant(leg, np.array([0.08, 0.0, 0.12]), 0.3), []
    for swivel in (-0.5, 0.0, 0.5):
        z = variables(0.7, swivel)
        q = pose(tree, leg, z, record_leg(leg)(z, plant[None])[0, :8, 0, 0])
        hip, knee, ankle = places(tree, q, leg.dofs[[2, 3, 6]], np.zeros((3, 3)))
        n = (ankle - hip) / np.linalg.norm(ankle - hip)
        side = knee - hip - n * (n @ (knee - hip))
        knees.append(side / np.linalg.norm(side))
    for one, other in pairwise(knees):
        assert np.arccos(np.clip(one @ other, -1.0, 1.0)) == pytest.approx(0.5, abs=1e-9)


def test_a40_a_leg_stretched_to_999_per_mille_has_the_derivatives_of_its_differences(leg):
    plant = pack_plant(leg, np.array([leg.hip_offset[0], 0.0, 0.0]), 0.0)[None]
    function, h = record_leg(leg), 1e-7

    def at(height):
        z = np.zeros((1, 3, 8))
        z[0, 0, 1] = height
        return function(z, plant)[0]

    low, high = 0.5, 1.3  # bisect for the height of a leg stretched to 99.9 %
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle)[STRETCH_OUTPUT, 0, 0] < 0.999**2 else (low, middle)
    jets = at(low)
    assert np.isfinite(jets).all()
    numeric = (at(low + h)[:8, 0, 0] - at(low - h)[:8, 0, 0]) / (2 * h)
    assert np.abs(numeric).max() > 10.0  # steep, as a stretched leg is
    assert jets[:8, 0, 2] == pytest.approx(numeric, rel=1e-5, abs=1e-5)


def test_only_a_round_corner_lets_an_overstretched_leg_bend_again(leg):
    plant = pack_plant(leg, np.array([leg.hip_offset[0], 0.0, 0.0]), 0.0)[None]
    z = np.zeros((1, 3, 8))
    z[0, 0, 1] = leg.reach + 0.06 - leg.hip_offset[1] + 0.03
    sharp, round_ = (np.abs(record_leg(leg, rounding)(z, plant)[0, 3, 0, 1:]).max() for rounding in (1e-12, 1e-5))
    assert sharp < 1e-3 < 0.1 < round_


def test_left_and_right_legs_mirror_each_other(tree):
    left, right = (measure_leg(tree, side) for side in ("left", "right"))
    assert left.reach == pytest.approx(right.reach, rel=0.02)
    assert left.hip_offset[0] > 0.0 > right.hip_offset[0]
    assert not set(left.dofs) & set(right.dofs)


def test_plane_legs_stay_as_they_are(tree):
    assert align_legs(tree).offsets == pytest.approx(tree.offsets, abs=1e-15)
    for side in ("left", "right"):
        leg = measure_leg(tree, side)
        axis = leg.knee_frame @ leg.knee_axis
        assert abs(leg.thigh @ axis) < 1e-12


def test_trees_without_such_legs_are_refused():
    with pytest.raises(InputError, match="slide"):
        find_root_dofs(JointTree.chain(8))
    with pytest.raises(UnknownNameError, match="left_hip"):
        measure_leg(JointTree.chain(8), "left")


def test_bones_that_are_far_off_the_plane_of_their_hinge_are_refused(tree):
    dofs = measure_leg(tree, "left").dofs
    offsets = tree.offsets.copy()
    offsets[dofs[4]] += 0.1 * tree.axes[dofs[3]]
    with pytest.raises(InputError, match="across its hinge"):
        align_legs(replace(tree, offsets=offsets))
