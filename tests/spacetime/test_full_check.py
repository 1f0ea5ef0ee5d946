"""The dense check sees what is wrong, and only that."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from oracles.problems import EXAMPLES

from marey.spacetime import SpacetimeProblem
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.sampling import compute_worst_excess, contact_track_names, find_weak_instants, sample_track
from marey.spacetime.full.solve import FullSolution, solve_full
from marey.spacetime.problem.solution import SolutionCheck, check_solution
from marey.spacetime.problem.supply import SolutionTrack

PEGS = EXAMPLES["pegs"]()


@cache
def leap() -> FullSolution:
    return solve_full(PEGS, build_character(PEGS))


@cache
def track() -> SolutionTrack:
    return sample_track(leap().layout, leap().x, leap().layout.timeline.grid(8))


def check(changed: SolutionTrack, problem: SpacetimeProblem = PEGS) -> SolutionCheck:
    return check_solution(build_character(PEGS), problem, changed)


def test_a_solution_is_valid_on_a_grid_of_a_thousand_samples() -> None:
    dense = sample_track(leap().layout, leap().x, leap().layout.timeline.grid(50))
    found = check(dense)
    assert found.samples >= 1000 and found.is_valid
    assert found.clearance_m == np.inf and found.limit_excess_rad < 1e-9


def test_velocities_and_accelerations_of_a_track_are_derivatives() -> None:
    timeline = leap().layout.timeline
    dense = sample_track(leap().layout, leap().x, timeline.grid(400))
    inside = (dense.times > timeline.edges[1] + 0.01) & (dense.times < timeline.edges[1] + 0.09)
    t, q, qd, qdd = (a[inside] for a in (dense.times, dense.q, dense.qd, dense.qdd))
    assert np.abs(np.gradient(q, t, axis=0)[2:-2] - qd[2:-2]).max() < 1e-4 * np.abs(qd).max()
    assert np.abs(np.gradient(qd, t, axis=0)[2:-2] - qdd[2:-2]).max() < 1e-4 * np.abs(qdd).max()


def test_halved_gravity_shows_in_flight() -> None:
    found = check(track(), replace(PEGS, gravity=9.81 / 2))
    assert found.flight_force == pytest.approx(0.5, abs=1e-6) and not found.is_valid


def test_a_lifted_root_shows_as_drift_of_the_plants() -> None:
    q = track().q.copy()
    q[:, 1] += 0.02
    found = check(replace(track(), q=q))
    assert found.plant_drift_m == pytest.approx(0.02, abs=1e-9) and not found.is_valid


def test_a_jump_of_the_root_shows_at_the_border() -> None:
    q = track().q.copy()
    q[track().phases == 1, 2] += 0.03
    assert check(replace(track(), q=q)).root_jump_m == pytest.approx(0.03, abs=1e-4)


def test_a_spin_that_grows_in_flight_is_drift_of_momentum() -> None:
    qd = track().qd.copy()
    flying = track().phases == 1
    qd[flying, 5] += np.linspace(0.0, 1.0, int(flying.sum()))
    found = check(replace(track(), qd=qd))
    assert found.angular_momentum_drift > 0.2 and not found.is_valid


def test_less_friction_shows_as_slip() -> None:
    phases = tuple(replace(p, contacts=tuple(replace(c, friction=0.01) for c in p.contacts)) for p in PEGS.phases)
    assert check(track(), replace(PEGS, phases=phases)).cone_excess > 0.05


def test_smaller_feet_show_as_pressure_outside() -> None:
    phases = tuple(
        replace(p, contacts=tuple(replace(c, half_extents_m=(0.01, 0.005)) for c in p.contacts)) for p in PEGS.phases
    )
    found = check(track(), replace(PEGS, phases=phases))
    assert found.cop_excess_m > 0.01 and found.moment_excess > 0.01


def test_limits_that_are_passed_are_measured() -> None:
    q = track().q.copy()
    knee = build_character(PEGS).index("left_knee")
    q[3, knee] = -0.3
    assert check(replace(track(), q=q)).limit_excess_rad == pytest.approx(0.32)


def test_check_is_plain_numbers() -> None:
    data = check(track()).to_dict()
    assert data["samples"] == len(track().times)
    assert data.pop("clearance_m") is None  # no key asks for any
    assert all(isinstance(v, float | int) for v in data.values())
    assert json.dumps(data, allow_nan=False)


def test_no_instant_of_a_valid_motion_is_weak_but_shaken_ones_are() -> None:
    assert find_weak_instants(leap().layout, leap().x) == ()
    assert compute_worst_excess(leap().layout, leap().x) < 0.03
    shaken = leap().x + np.random.default_rng(0).normal(scale=0.01, size=leap().x.size)
    weak = find_weak_instants(leap().layout, shaken)
    assert weak and all(PEGS.phases[p] is not None and 0.0 <= t <= PEGS.duration_s for p, t in weak)


@pytest.mark.parametrize(
    ("point", "names"),
    [
        ("left_foot", ("left_heel", "left_toe")),
        ("feet", ("left_heel", "left_toe", "right_heel", "right_toe")),
        ("hands", ("left_hand", "right_hand")),
        ("right_hand", ("right_hand",)),
        ("head", ("head",)),
    ],
)
def test_contact_tracks_speak_of_heels_toes_and_hands(point: str, names: tuple[str, ...]) -> None:
    assert contact_track_names(point) == names
