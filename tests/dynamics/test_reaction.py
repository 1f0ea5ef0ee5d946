"""Ground reaction without plates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import marey
from marey.dynamics import GRAVITY, Body, check_validity, estimate_reaction, solve_inverse_dynamics
from marey.dynamics.inverse.support_split import compute_centre_of_pressure
from marey.dynamics.validation.measured import ReactionSettings, filter_reaction, free_flights
from marey.lie import SO3
from marey.motion import Motion


def test_a_push_is_kept_and_trembling_is_not() -> None:
    pose, rate_hz, frames = marey.samples.walk()[0:1], 120.0, 240
    times = np.arange(frames) / rate_hz
    # The body at rest but for a push of one body weight that lasts some 60 ms
    pull = GRAVITY * np.exp(-0.5 * ((times - 1.0) / 0.025) ** 2)
    height = np.cumsum(np.cumsum(pull)) / rate_hz**2
    root = np.repeat(pose.root_positions, frames, axis=0) + np.outer(height, [0.0, 1.0, 0.0])
    clip = Motion(pose.skeleton, rate_hz, root, SO3(np.repeat(pose.rotations.wxyz, frames, axis=0)))
    body = Body.from_motion(clip)
    weight = body.mass_kg * GRAVITY
    truth = 1.0 + pull / GRAVITY
    peak = filter_reaction(clip, body)[:, 1].max() / weight
    slow = solve_inverse_dynamics(body, clip, cutoff_hz=6.0).wrench[:, 1].max() / weight
    assert abs(peak - 2.0) < 0.1 < 2.0 - slow
    # White noise of 1 mm leaves much less than it does below 20 Hz
    noise = np.random.default_rng(0).normal(scale=1e-3, size=root.shape)
    shaken = replace(clip, root_positions=root + noise)
    sharp = solve_inverse_dynamics(body, shaken, cutoff_hz=20.0).wrench[:, 1]
    off = [
        np.sqrt(((force / weight - truth)[20:-20] ** 2).mean())
        for force in (filter_reaction(shaken, body)[:, 1], sharp)
    ]
    assert off[0] < 0.5 * off[1]


def test_the_ground_gives_nothing_in_flight_and_never_pulls() -> None:
    jump = marey.samples.jump()
    body = Body.from_motion(jump)
    report = check_validity(jump, body)
    wrench = estimate_reaction(jump, body, report.supports)
    flying = ~report.supports.touching.any(axis=1)
    load = wrench[:, 1] / (body.mass_kg * GRAVITY)
    assert flying.any() and load.min() >= 0.0 and load[flying].max() < ReactionSettings().flight_force
    # What a body needs on the whole is its weight
    assert np.isclose(load.mean(), 1.0, atol=0.1)


def test_what_soft_tissue_makes_of_a_flight_is_taken_from_the_stances_around_it() -> None:
    rate_hz, frames = 100.0, 210
    times = np.arange(frames) / rate_hz
    # Hops of 0.2 s on the ground and 0.15 s in the air, whose stances give the body's weight on the whole
    phase = times % 0.35
    truth = np.where(phase < 0.2, 0.5 * np.pi * 0.35 / 0.2 * np.sin(np.pi * phase / 0.2), 0.0)
    # Soft tissue follows a tenth too far, so that the flights seem to pull
    seen = 1.0 + 1.1 * (truth - 1.0)
    flying = (phase > 0.22) & (phase < 0.33)
    force, free = free_flights(seen, flying, rate_hz, ReactionSettings())
    cut = np.where(flying, 0.0, np.maximum(seen, 0.0))
    inside = slice(35, -35)
    off = [np.sqrt(((load - truth)[inside] ** 2).mean()) for load in (force, cut)]
    assert off[0] < 0.75 * off[1]
    assert force.min() >= 0.0 and np.all(force[free] == 0.0) and np.all(free[flying])
    # The same hops three times as slow need the same forces
    slow, _ = free_flights(seen, flying, rate_hz / 3.0, ReactionSettings())
    np.testing.assert_allclose(slow, force, atol=1e-6)
    # The impulse of whole hops is that of the weight
    assert abs(force[inside].mean() - truth[inside].mean()) < 0.01 < cut[inside].mean() - truth[inside].mean()
    np.testing.assert_allclose(free_flights(truth, phase > 0.2, rate_hz, ReactionSettings())[0], truth, atol=1e-3)


def test_the_pressure_of_one_foot_lies_on_its_sole() -> None:
    walk = marey.samples.walk()
    body = Body.from_motion(walk)
    supports = check_validity(walk, body).supports
    places, _ = compute_centre_of_pressure(estimate_reaction(walk, body, supports), supports.floor_m)
    left, right = (supports.limb_active(limb, slack=False) for limb in (0, 1))
    alone = left & ~right
    corners = supports.points[alone][:, supports.limbs == 0]
    away = np.linalg.norm((places[alone] - corners.mean(axis=1))[:, [0, 2]], axis=1)
    reach = np.linalg.norm((corners - corners.mean(axis=1, keepdims=True))[..., [0, 2]], axis=2).max(axis=1)
    assert alone.any() and np.all(away <= reach + 1e-9)
