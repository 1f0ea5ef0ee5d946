"""Ground reaction without plates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import marey
from marey.dynamics import GRAVITY, Body, check_validity, estimate_reaction, solve_inverse_dynamics
from marey.dynamics.inverse.reaction import ReactionSettings, filter_reaction
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
