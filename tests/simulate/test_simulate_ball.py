"""Balls that hit a figure: what one loses the other gains."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import FloatArray, InputError
from marey.dynamics import GRAVITY, Body
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ball, Ground, Simulator
from marey.simulate.constraints import ConstraintSolution

H = 0.01


def thrown(target: FloatArray, velocity: FloatArray, **options: float) -> Ball:
    """A ball that would be at a target in a tenth of a second, without weight."""
    return Ball(target - 0.1 * velocity, velocity, gravity=np.zeros(3), **options)  # pyright: ignore[reportArgumentType]


def hit(
    body: Body, model: PoseModel | None, walk: Motion, bounce: float
) -> tuple[Simulator, Ball, list[ConstraintSolution]]:
    still = Simulator(body, model, gravity=(0, 0, 0))
    still.reset(walk[0])
    chest = still.mechanics().joints[body.skeleton.names.index("Spine1")]
    ball = thrown(chest, np.array([0.0, 0.0, -8.0]), mass_kg=2.0, bounce=bounce)
    simulator = Simulator(body, model, gravity=(0, 0, 0), constraints=[ball])
    simulator.reset(walk[0])
    outcomes: list[ConstraintSolution] = []
    for _ in range(20):
        simulator.step(H)
        assert simulator.outcome is not None
        outcomes.append(simulator.outcome)
    return simulator, ball, outcomes


@pytest.mark.mocap
@pytest.mark.parametrize("bounce", [0.0, 0.5, 1.0])
def test_momentum_goes_from_the_ball_to_the_figure(
    d1_body: Body, d1_model: PoseModel, d1_walk: Motion, bounce: float
) -> None:
    simulator, ball, outcomes = hit(d1_body, d1_model, d1_walk, bounce)
    after = outcomes[-1].balls[0]
    gained = d1_body.mass_kg * simulator.state.velocity[3:6]
    np.testing.assert_allclose(gained, ball.mass_kg * (ball.velocity - after.velocity), atol=1e-9)
    assert gained[2] < -8.0  # it was hit


@pytest.mark.mocap
def test_a_livelier_ball_comes_back_faster(d1_body: Body, d1_model: PoseModel, d1_walk: Motion) -> None:
    speeds = [hit(d1_body, d1_model, d1_walk, e)[2][-1].balls[0].velocity[2] for e in (0.0, 0.5, 1.0)]
    assert speeds[0] < speeds[1] < speeds[2]


@pytest.mark.mocap
def test_a_ball_that_misses_changes_nothing(d1_body: Body, d1_model: PoseModel, d1_walk: Motion) -> None:
    with_ball = Simulator(d1_body, d1_model, constraints=[Ball((5, 1, 0), (1, 0, 0))])
    without = Simulator(d1_body, d1_model)
    for simulator in (with_ball, without):
        simulator.reset(d1_walk[0])
        for _ in range(10):
            simulator.step(H)
    np.testing.assert_allclose(with_ball.state.velocity, without.state.velocity, atol=1e-12)


@pytest.mark.mocap
def test_a_ball_in_flight_falls_on_a_parabola_and_bounces_on_the_ground(d1_body: Body, d1_model: PoseModel) -> None:
    start = Ball((5.0, 1.0, 0.0), (1.0, 0.0, 0.0), radius_m=0.1, bounce=0.8)
    simulator = Simulator(d1_body, d1_model, ground=Ground(), constraints=[start])
    lowest, highest = 1.0, 0.0
    for n in range(80):
        simulator.step(H)
        assert simulator.outcome is not None
        ball = simulator.outcome.balls[0]
        lowest = min(lowest, ball.place[1])
        highest = max(highest, ball.velocity[1])
        if n == 29:
            fall = 0.5 * GRAVITY * 0.3 * (0.3 + H)  # with the velocity of the end of each step
            np.testing.assert_allclose(ball.place, [5.3, 1.0 - fall, 0.0], atol=1e-9)
    assert lowest > 0.1 - 0.06  # a fast ball may be met a little inside
    assert highest == pytest.approx(0.8 * np.sqrt(2.0 * GRAVITY * 0.9), rel=0.05)


@pytest.mark.mocap
def test_a_ball_can_be_thrown_at_any_time(d1_body: Body, d1_model: PoseModel, d1_walk: Motion) -> None:
    simulator = Simulator(d1_body, d1_model, ground=Ground())
    assert simulator.constrainer is not None
    memory = simulator.constrainer.add_ball(None, Ball((0, 1, 1), (0, 0, 0)))
    assert len(simulator.constrainer.add_ball(memory, Ball((0, 1, 2), (0, 0, 0))).balls) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"radius_m": 0.0},
        {"mass_kg": -1.0},
        {"mass_kg": np.nan},
        {"bounce": 1.5},
        {"place": (0, 0, np.nan)},
        {"velocity": (0, 0)},
    ],
)
def test_a_ball_that_makes_no_sense_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Ball(**{"place": (0, 0, 0), "velocity": (0, 0, 0), **arguments})  # pyright: ignore[reportArgumentType]
