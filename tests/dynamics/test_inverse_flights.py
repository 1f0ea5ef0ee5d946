"""Flights, energies, and feet that carry the body."""

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.contacts import detect_contacts
from marey.dynamics import (
    GRAVITY,
    Body,
    compute_momentum,
    fit_flight_gravity,
    solve_inverse_dynamics,
    solve_newton_euler,
)
from marey.io import load
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, Pose, role_map


def thrown(rate_hz: float = 120.0, gravity: float = GRAVITY, sideways: float = 0.0) -> Motion:
    """A body that stands, flies for half a second while its arms and legs move, and stands again."""
    times = np.arange(int(1.5 * rate_hz)) / rate_hz
    turns = np.zeros((len(times), 22, 3))
    for k, name in enumerate(("left_shoulder", "right_hip", "spine2")):
        turns[:, HUMAN.index(name)] = np.outer(np.sin((5.0 + k) * times), np.roll([1.0, 0.3, 0.0], k))
    clip = Motion(HUMAN, rate_hz, np.zeros((len(times), 3)), SO3.exp(turns))
    t = np.clip(times - 0.5, 0.0, 0.5)
    path = np.stack([0.5 * sideways * t**2, 1.0 + 0.5 * gravity * t * (0.5 - t), 2.0 * t], axis=1)
    roots = path - Body.from_motion(clip).centre_of_mass(clip)
    flying = ((times > 0.5) & (times < 1.0))[:, None]
    return replace(clip, root_positions=roots, contacts=Contacts(("left_toe",), ~flying))


def test_a_thrown_body_falls_at_gravity_whatever_its_limbs_do():
    (flight,) = fit_flight_gravity(thrown())
    assert flight.vertical == pytest.approx(-GRAVITY, abs=1e-6)
    assert flight.horizontal == pytest.approx(0.0, abs=1e-6)
    assert flight.duration_s == pytest.approx(0.5, abs=0.02)
    assert flight.is_free_fall
    assert flight.residual_m < 1e-6


def test_a_change_of_scale_by_one_in_a_hundred_moves_gravity_by_as_much():
    """A1 of Safonova: the guard of the test on captured clips."""
    clip = thrown()
    large = replace(clip, skeleton=HUMAN.scaled(1.01), root_positions=1.01 * clip.root_positions)
    (plain,), (scaled,) = fit_flight_gravity(clip), fit_flight_gravity(large)
    assert scaled.vertical / plain.vertical == pytest.approx(1.01, abs=1e-6)
    assert scaled.length_scale == pytest.approx(1.0 / 1.01, abs=1e-6)


def test_a_clip_at_double_speed_falls_four_times_as_fast():
    (flight,) = fit_flight_gravity(replace(thrown(), rate_hz=240.0))
    assert flight.vertical == pytest.approx(-4.0 * GRAVITY, rel=1e-6)
    assert not flight.is_free_fall


def test_a_push_from_the_side_shows():
    (flight,) = fit_flight_gravity(thrown(sideways=3.0))
    assert flight.horizontal == pytest.approx(3.0, rel=1e-6)
    assert not flight.is_free_fall


def test_a_body_carried_by_something_unseen_does_not_fly():
    assert fit_flight_gravity(thrown(gravity=0.1 * GRAVITY)) == []


def test_a_hop_too_short_to_fit_is_left_out():
    assert fit_flight_gravity(thrown(), min_flight_s=0.6) == []


def test_a_stretch_that_the_clip_cuts_is_no_flight():
    clip = thrown()
    assert fit_flight_gravity(clip[:100]) == []
    assert fit_flight_gravity(clip[70:]) == []


def test_energies_are_those_of_a_falling_stone():
    """A body that falls without turning: m v²/2 and m g h."""
    times = np.arange(60) / 120.0
    drop = np.stack([0.0 * times, 3.0 - 0.5 * GRAVITY * times**2, 1.0 * times], axis=1)
    rest = SO3(np.tile(Pose.rest(HUMAN).rotations.wxyz, (60, 1, 1)))
    clip = Motion(HUMAN, 120.0, drop, rest)
    body = Body.from_skeleton(HUMAN, mass_kg=50.0)
    result = solve_inverse_dynamics(body, clip)
    kinetic, potential = result.kinetic_energy, result.potential_energy
    np.testing.assert_allclose(kinetic, 25.0 * (1.0 + (GRAVITY * times) ** 2), rtol=1e-6)
    assert np.ptp(kinetic + potential) < 1e-4
    both = compute_momentum(body, clip)
    np.testing.assert_allclose(both[:, 1], -50.0 * GRAVITY * times, atol=1e-4)
    np.testing.assert_allclose(both[:, 3:], 0.0, atol=1e-6)


# Feet on the ground


def standing() -> Motion:
    pose = Pose.rest(HUMAN)
    roots = np.tile(pose.root_position, (12, 1))
    return Motion(HUMAN, 60.0, roots, SO3(np.tile(pose.rotations.wxyz, (12, 1, 1))))


def test_a_standing_body_carries_half_its_weight_in_each_leg():
    body, clip = Body.from_skeleton(HUMAN, mass_kg=70.0), standing()
    contacts = Contacts(("left_foot", "right_foot"), np.ones((12, 2), dtype=bool))
    hung, stood = solve_inverse_dynamics(body, clip), solve_inverse_dynamics(body, clip, contacts=contacts)
    np.testing.assert_allclose(stood.wrench, hung.wrench)
    left, right = HUMAN.index("left_hip"), HUMAN.index("right_hip")
    flip = np.array([1.0, -1.0, -1.0])  # a moment seen in a mirror across X
    np.testing.assert_allclose(stood.torques[:, left], flip * stood.torques[:, right], atol=1e-6)
    above = HUMAN.index("spine1")
    np.testing.assert_allclose(stood.torques[:, above], hung.torques[:, above], atol=1e-9)
    assert np.abs(stood.torques[:, left] - hung.torques[:, left]).max() > 1.0


def test_on_one_leg_that_leg_carries_all():
    body, clip = Body.from_skeleton(HUMAN, mass_kg=70.0), standing()
    contacts = Contacts(("left_foot", "right_foot"), np.tile([True, False], (12, 1)))
    hung, stood = solve_inverse_dynamics(body, clip), solve_inverse_dynamics(body, clip, contacts=contacts)
    right = [HUMAN.index(f"right_{part}") for part in ("hip", "knee", "ankle")]
    np.testing.assert_allclose(stood.torques[:, right], hung.torques[:, right], atol=1e-9)
    roll = stood.torques[:, HUMAN.index("left_hip"), 2]
    expected = 70.0 * GRAVITY * 0.052 * 1.75  # the weight of all, half the width of the hips away
    assert np.abs(roll).mean() == pytest.approx(expected, rel=0.02)


def test_contacts_and_forces_together_are_refused():
    contacts = Contacts(("left_foot",), np.ones((12, 1), dtype=bool))
    with pytest.raises(InputError, match="Give one"):
        solve_inverse_dynamics(Body.from_skeleton(HUMAN), standing(), contacts=contacts, external=np.zeros((12, 22, 6)))


# Captured clips


@pytest.mark.mocap
def test_captured_flights_fall_at_gravity(mocap):
    """A1 of Safonova: medians of four subjects, and nine flights in ten of three of them."""
    falls = {16: [], 83: [], 91: [], 118: []}
    for subject, found in falls.items():
        for path in sorted((mocap / "cmu-bvh").glob(f"{subject}_*.bvh")):
            found += fit_flight_gravity(load(path))
        assert np.median([flight.vertical for flight in found]) == pytest.approx(-9.81, abs=0.55), subject
    pooled = falls[83] + falls[91] + falls[118]
    assert len(pooled) >= 55
    assert np.mean([flight.is_free_fall for flight in pooled]) >= 0.9


@pytest.mark.mocap
def test_a_flight_needs_little_force_and_a_landing_much(mocap):
    jump = load(mocap / "cmu-bvh" / "118_05.bvh")
    body = Body.from_motion(jump)
    force = solve_inverse_dynamics(body, jump).vertical_force
    (flight,) = fit_flight_gravity(jump, body)
    quarter = (flight.stop - flight.start) // 4
    assert np.abs(force[flight.start + quarter : flight.stop - quarter]).mean() < 0.15
    assert force[flight.stop : flight.stop + 30].max() > 2.0
    assert force[:100].mean() == pytest.approx(1.0, abs=0.03)


@pytest.mark.mocap
def test_torques_of_walking_legs_are_those_of_people(mocap):
    """Hips of walkers need about 1 N m/kg; a leg hung from the pelvis would show half of that and no knee at all."""
    walk = load(mocap / "cmu-bvh" / "07_01.bvh")
    body, roles = Body.from_motion(walk), role_map(walk.skeleton)
    contacts = detect_contacts(walk)
    result = solve_inverse_dynamics(body, walk, contacts=contacts)
    settled = result.torques[result.settled]
    for part, low, high in (("hip", 0.5, 3.0), ("knee", 0.3, 2.0), ("ankle", 0.8, 3.5)):
        largest = np.linalg.norm(settled[:, roles[f"left_{part}"]], axis=1).max() / body.mass_kg
        assert low < largest < high, part


@pytest.mark.mocap
def test_ground_forces_on_the_feet_leave_nothing_for_the_root(mocap):
    from marey.dynamics.inverse.newton_euler import compute_ground_reaction

    walk = load(mocap / "cmu-bvh" / "07_01.bvh")
    result = solve_inverse_dynamics(Body.from_motion(walk), walk)
    contacts = detect_contacts(walk)
    push = compute_ground_reaction(result, contacts)
    left = solve_newton_euler(result.body, result.states, result.rate_hz, external=push).wrench
    standing = contacts.active[:, [i for i, name in enumerate(contacts.names) if "hand" not in name]].any(axis=1)
    assert standing.mean() > 0.9
    assert np.abs(left[standing]).max() < 1e-6 * result.body.weight_n


def test_a_track_of_another_length_and_a_time_that_is_none_are_refused():
    clip = Motion(HUMAN, 120.0, np.zeros((60, 3)), SO3.identity(60, 22))
    with pytest.raises(InputError, match="contacts has 7 frames, the motion has 60"):
        fit_flight_gravity(clip, contacts=Contacts(("left_heel",), np.zeros((7, 1), dtype=bool)))
    with pytest.raises(InputError, match="min_flight_s"):
        fit_flight_gravity(clip, min_flight_s=np.nan)
