"""Ground reaction without plates."""

from __future__ import annotations

import numpy as np

import marey
from marey.dynamics import GRAVITY, Body, check_validity, estimate_reaction
from marey.dynamics.inverse.reaction import ReactionSettings, choose_cutoff


def test_forces_of_a_jump_need_a_higher_cutoff_than_those_of_a_walk() -> None:
    cutoffs = [choose_cutoff(clip, Body.from_motion(clip)) for clip in (marey.samples.walk(), marey.samples.jump())]
    assert ReactionSettings().lowest_hz <= cutoffs[0] < cutoffs[1] <= ReactionSettings().highest_hz


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
