"""How feet share the ground's force: closed forms of the alpha rule, sums, least torque."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.dynamics import check_validity, compute_centre_of_pressure, find_supports
from marey.dynamics.inverse.support_split import project_on_sole, split_by_pressure, split_support
from marey.dynamics.supports import compute_polygon_margins
from marey.dynamics.validation.check import fit_contact_supply


def sole(x: float, z: float, half=(0.05, 0.12)) -> np.ndarray:
    """Corners ``(1, 4, 3)`` of a sole, heel pair first."""
    width, length = half
    corners = [(x + width, 0.0, z - length), (x - width, 0.0, z - length)]
    return np.array([[*corners, (x + width, 0.0, z + length), (x - width, 0.0, z + length)]])


def push_at(place, force=(0.0, 700.0, 0.0)) -> np.ndarray:
    return np.concatenate([force, np.cross(place, force)])[None]


BOTH = np.ones((1, 2), dtype=bool)
LEFT, RIGHT = sole(0.1, 0.0), sole(-0.1, 0.3)


def test_safonova_f10_half_way_between_the_soles_each_carries_half():
    split = split_by_pressure(push_at([0.0, 0.0, 0.15]), LEFT, RIGHT, BOTH)
    assert split.share[0] == pytest.approx(0.5)
    np.testing.assert_allclose(split.forces[0, :, 1], 350.0)


@given(part=st.floats(0.0, 1.0))
def test_safonova_f10_the_share_is_where_the_pressure_lies_between_the_soles(part):
    place = part * LEFT[0].mean(axis=0) + (1.0 - part) * RIGHT[0].mean(axis=0)
    split = split_by_pressure(push_at(place), LEFT, RIGHT, BOTH)
    assert split.share[0] == pytest.approx(part, abs=1e-9)


@given(seed=st.integers(0, 200))
def test_safonova_f10_shares_add_up_to_the_wrench(seed):
    wrench = default_rng(seed).normal(size=(1, 6)) * [50, 100, 50, 30, 30, 30] + [0, 700, 0, 0, 0, 0]
    split = split_by_pressure(wrench, LEFT, RIGHT, BOTH)
    np.testing.assert_allclose(split.total(), wrench, atol=1e-9)
    assert 0.0 <= split.share[0] <= 1.0


def test_safonova_f10_each_force_acts_on_its_own_sole():
    split = split_by_pressure(push_at([0.0, 0.0, 0.15]), LEFT, RIGHT, BOTH)
    np.testing.assert_allclose(split.places[0, 0], [0.05, 0.0, 0.12])
    np.testing.assert_allclose(split.places[0, 1], [-0.05, 0.0, 0.18])


def test_a_foot_that_stands_alone_carries_all_and_none_carries_nothing():
    alone = split_by_pressure(push_at([0.0, 0.0, 0.0]), LEFT, RIGHT, np.array([[False, True]]))
    np.testing.assert_allclose(alone.forces[0, :, 1], [0.0, 700.0])
    none = split_by_pressure(push_at([0.0, 0.0, 0.0]), LEFT, RIGHT, np.array([[False, False]]))
    np.testing.assert_allclose(none.forces, 0.0)


def test_the_centre_of_pressure_is_where_a_single_force_meets_the_floor():
    places, exists = compute_centre_of_pressure(push_at([0.3, 0.2, -0.4], (70.0, 700.0, -35.0)), floor_m=0.1)
    assert exists[0]
    np.testing.assert_allclose(places[0], [0.29, 0.1, -0.395])


def test_without_a_normal_force_there_is_no_centre_of_pressure():
    places, exists = compute_centre_of_pressure(np.array([[10.0, 0.0, 0.0, 5.0, 5.0, 5.0]]))
    assert not exists[0]
    np.testing.assert_array_equal(places, 0.0)


def test_the_nearest_point_of_a_sole_is_itself_inside_and_on_the_edge_outside():
    inside = np.array([[0.12, 0.0, 0.03]])
    np.testing.assert_allclose(project_on_sole(inside, LEFT), inside)
    np.testing.assert_allclose(project_on_sole(np.array([[0.5, 0.0, -0.5]]), LEFT), [[0.15, 0.0, -0.12]])


def test_margins_of_a_polygon_are_distances_to_its_edge():
    square = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.4, 0.5]]])
    places = np.array([[0.5, 0.2], [1.5, 0.5], [2.0, 2.0], [0.0, 0.5]])
    found = compute_polygon_margins(places, np.repeat(square, 4, axis=0), np.ones((4, 5), dtype=bool))
    np.testing.assert_allclose(found, [0.2, -0.5, -np.sqrt(2.0), 0.0], atol=1e-12)


def test_margins_of_a_line_a_point_and_nothing():
    points = np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]]] * 3)
    active = np.array([[True, True, False], [True, False, False], [False, False, False]])
    found = compute_polygon_margins(np.array([[0.5, 0.3]] * 3), points, active)
    np.testing.assert_allclose(found, [-0.3, -np.hypot(0.5, 0.3), 0.0], atol=1e-12)


@given(seed=st.integers(0, 200))
def test_mixtures_of_points_are_inside_their_polygon(seed):
    rng = default_rng(seed)
    points = rng.normal(size=(1, 9, 2))
    place = rng.dirichlet(np.ones(9)) @ points[0]
    assert compute_polygon_margins(place[None], points, np.ones((1, 9), dtype=bool))[0] >= -1e-12


def limb_torques(report, split, frame: int) -> float:
    """Sum of squared torques in hips, knees and ankles under a split, by the moment of each foot's force."""
    skeleton, dynamics = report.dynamics.body.skeleton, report.dynamics
    origins, turns = dynamics.motion().joint_frames()
    total = 0.0
    for k, side in enumerate(("left", "right")):
        for joint in (skeleton.index(f"{side}_{part}") for part in ("hip", "knee", "ankle")):
            arm = split.places[frame, k] - origins[frame, joint]
            ground = np.cross(arm, split.forces[frame, k]) + split.moments[frame, k]
            own = turns[frame, joint] @ dynamics.torques[frame, joint]
            total += float(((own - ground) ** 2).sum())
    return total


def test_least_torque_needs_less_than_the_alpha_rule_and_gives_the_same_wrench():
    report = check_validity(samples.walk(seconds=1.0))
    forces = report.dynamics.body.weight_n * fit_contact_supply(report.dynamics, report.supports).corner_forces
    supports = report.supports
    least = split_support(report.available, supports, rule="torque", corner_forces=forces, dynamics=report.dynamics)
    alpha = split_support(report.available, supports, rule="alpha")
    np.testing.assert_allclose(least.total(), report.available, atol=0.02 * report.dynamics.body.weight_n)
    double = np.flatnonzero(supports.limb_active(0, slack=False) & supports.limb_active(1, slack=False))
    assert len(double) > 3
    sums = [sum(limb_torques(report, split, int(f)) for f in double) for split in (least, alpha)]
    assert sums[0] < sums[1]


def test_unknown_rules_and_missing_forces_are_refused():
    motion = samples.walk(seconds=1.0)
    supports = find_supports(motion)
    wrench = np.zeros((motion.num_frames, 6))
    with pytest.raises(UnknownNameError):
        split_support(wrench, supports, rule="fair")
    with pytest.raises(InputError):
        split_support(wrench, supports, rule="cone")


@pytest.mark.parametrize("far", [0.0, 1e6, 1e8])
def test_margins_are_the_same_far_from_the_origin(far):
    corners = np.array([[[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.5], [1.0, 1.0]]]) + far
    found = compute_polygon_margins(np.array([[0.25, 0.5]]) + far, corners, np.ones((1, 5), dtype=bool))
    np.testing.assert_allclose(found, 0.25)
