"""Clips with flights: landings planned ahead, pushes between flights, captured runs carried to their end."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import marey
from marey.control import Reference, solve_tracking
from marey.control.balance import CentreOfMassPath, find_bounces, find_pushes
from marey.control.preparation import trim_bounces
from marey.control.stepping import FIRST_FOOT, LandingPlan, make_schedule, plan_landings

DT, GRAVITY = 0.01, 9.81
STANCE, FLIGHT = 24, 12  # frames


def run_in_place(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Heights ``(F,)`` [m] and feet down ``(F, 2)`` of a bouncing runner; flights are ballistic, feet alternate."""
    down: list[list[bool]] = []
    heights: list[float] = []
    half = 0.5 * FLIGHT * DT * GRAVITY  # [m/s] of the take-off
    for n in range(steps):
        for i in range(STANCE):
            down.append([n % 2 == 0, n % 2 == 1])
            heights.append(0.95 - 0.04 * np.sin(np.pi * i / STANCE))
        for i in range(FLIGHT):
            down.append([False, False])
            heights.append(0.95 + half * i * DT - 0.5 * GRAVITY * (i * DT) ** 2)
    return np.array(heights), np.array(down, dtype=np.bool_)


class Clip:
    """What the plan reads of a clip."""

    dt = DT

    def __init__(self, soles: np.ndarray) -> None:
        self.soles = soles

    def __len__(self) -> int:
        return len(self.soles)


@pytest.fixture(scope="module")
def plan() -> LandingPlan:
    """Landings of six steps."""
    heights, down = run_in_place(6)
    count = len(heights)
    corners = np.zeros((count, 2, 5, 3))
    level = np.zeros((count, 2))
    stiffness = np.full(count, 1.7 * GRAVITY / 0.95)
    path = CentreOfMassPath(
        np.zeros((count, 3)), np.zeros((count, 3)), level, level, stiffness, 3.2, np.asarray(~down.any(axis=1))
    )
    return plan_landings(cast(Reference, Clip(np.zeros((count, 2, 3)))), path, make_schedule(corners, down))


def play(plan: LandingPlan, state: np.ndarray, scale: float = 1.0) -> tuple[float, np.ndarray]:
    """Integral of the squared error, and the last state, of a runner whose landings are the plan's times a number."""
    total = 0.0
    for i in range(len(plan.gains) - 1):
        state = plan.growth[i] @ state
        for side in np.flatnonzero(plan.is_landing[i + 1]):
            u = scale * plan.gains[i + 1, side] @ state
            state = np.array(state)
            state[FIRST_FOOT + side] = u
        total += float((state[0] ** 2).sum()) * DT
    return total, state


def test_planned_landings_bring_a_pushed_runner_back_and_none_lets_it_fall(plan: LandingPlan) -> None:
    pushed = np.array([[0.0, 0.0], [0.2, -0.1], [0.0, 0.0], [0.0, 0.0]])  # [m/s] at once
    back, last = play(plan, pushed)
    lost, gone = play(plan, pushed, scale=0.0)
    assert np.abs(last[0]).max() < 0.05  # [m]
    assert np.abs(gone[0]).max() > 5.0
    assert back < 0.01 * lost
    # It is the best of its kind
    assert back < min(play(plan, pushed, scale=0.7)[0], play(plan, pushed, scale=1.4)[0])


def test_a_runner_on_its_path_lands_in_its_places(plan: LandingPlan) -> None:
    assert not plan.foresee(np.zeros((4, 2)), 0, STANCE + FLIGHT, 1).any()


def test_errors_grow_evenly_in_flight(plan: LandingPlan) -> None:
    flying = plan.growth[STANCE + 1]
    np.testing.assert_allclose(flying @ np.array([0.1, 0.5, 0.0, 0.2]), [0.105, 0.5, 0.0, 0.2])


def test_pushes_of_a_bounce_carry_the_weight_over_a_whole_step() -> None:
    heights, down = run_in_place(6)
    flies = np.asarray(~down.any(axis=1))
    pushes = find_pushes(heights, flies, DT, GRAVITY)
    assert not pushes[flies].any()
    # Momentum: from one stance to the next, force times time is weight times time
    step = STANCE + FLIGHT
    assert abs(pushes[step : 2 * step].sum() / (GRAVITY * step) - 1.0) < 0.06  # heights are sampled
    assert pushes[step] < 0.2 * pushes[step : 2 * step].max()  # it begins at nothing ...
    assert pushes[step + STANCE - 1] < 0.2 * pushes[step : 2 * step].max()  # ... and ends so


def test_the_run_of_a_clip_ends_where_its_walk_begins() -> None:
    _, down = run_in_place(4)
    is_flight = np.concatenate([np.zeros(200, dtype=np.bool_), ~down.any(axis=1), np.zeros(200, dtype=np.bool_)])
    runs = np.flatnonzero(find_bounces(is_flight, DT))
    assert (np.diff(runs) == 1).all()
    assert 150 < runs[0] < 200 + STANCE
    assert len(is_flight) - 200 < runs[-1] < len(is_flight) - 150


def test_a_single_jump_is_no_run_and_its_push_fades_out() -> None:
    is_flight = np.zeros(200, dtype=np.bool_)
    is_flight[100:140] = True
    assert not find_bounces(is_flight, DT).any()
    pushes = find_pushes(np.full(200, 0.95), is_flight, DT, GRAVITY)
    assert pushes[99] < 0.1 * GRAVITY < pushes[85]
    assert (pushes[:80] == GRAVITY).all()


def test_without_flights_the_weight_is_pushed() -> None:
    np.testing.assert_allclose(find_pushes(np.full(50, 0.9), np.zeros(50, dtype=np.bool_), DT, GRAVITY), GRAVITY)


def test_a_foot_that_moves_beside_a_flight_neither_stands_yet_nor_any_more() -> None:
    down = np.zeros((40, 2), dtype=np.bool_)
    down[10:30, 0] = True
    fast = np.zeros((40, 2))
    fast[10:12, 0], fast[27:30, 0] = 2.0, 1.0  # [m/s]
    trimmed = trim_bounces(fast, down, 1.0 / DT)
    np.testing.assert_array_equal(np.flatnonzero(trimmed[:, 0]), np.arange(12, 27))
    # The same foot in a walk, whose other foot bears meanwhile, is left as it is
    down[:, 1] = True
    np.testing.assert_array_equal(trim_bounces(fast, down, 1.0 / DT), down)


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["16_35", "35_17"])
def test_captured_training_runs_are_carried_to_their_end(mocap: Path, name: str) -> None:
    with (mocap / "index.csv").open() as file:
        rates = {row["file"]: float(row["fps_true"]) for row in csv.DictReader(file)}
    clip = marey.load(mocap / "cmu-bvh" / f"{name}.bvh")
    result = solve_tracking(replace(clip, rate_hz=rates[f"{name}.bvh"]))
    assert result.fall is None
    assert result.mean_error_m < 0.1
