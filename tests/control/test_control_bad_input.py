"""Bad input, through the public names: a typed error that says what to do, or a flagged and finite result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from marey import samples
from marey.base import ConvergenceError, InputError, MareyError, MareyWarning
from marey.control import (
    Controller,
    Drive,
    FootTask,
    Gains,
    GazeTask,
    Keyframe,
    ModesTask,
    MomentumTask,
    PDController,
    Puppet,
    RowsTask,
    SupportTask,
)
from marey.dynamics import Body
from marey.kinematics import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask
from marey.lie import SO3
from marey.models import PGA, PoseModel
from marey.numerics import SolveStatus
from marey.simulate import Ball, Ground, Pin, PointForce, Simulator

WALK = samples.walk()
BODY = Body.from_motion(WALK)
MODEL = PGA(n_components=6).fit(WALK)
HAND = PointTask("right_wrist", (0.3, 1.3, 0.4))
PULLED_APART = (  # one hand, three places
    PointTask("right_wrist", (2.0, 1.0, 0.0)),
    PointTask("right_wrist", (-2.0, 1.0, 0.0)),
    PointTask("right_wrist", (0.0, 9.0, 0.0), weight=1e9),
)
NAN = float("nan")
DEEP = Ground(point=(0.0, 1.0, 0.0))  # half of the figure is under it
WALLS = (Ground(), Ground(point=(0.0, 0.0, 0.05), normal=(0, 0, -1)), Ground(point=(0.0, 0.0, -0.05), normal=(0, 0, 1)))
LID = (Ground(), Ground(point=(0.0, 0.5, 0.0), normal=(0.0, -1.0, 0.0)))

Make = Callable[[Simulator], Controller | Puppet | PDController]
WAYS: dict[str, Make] = {
    "controller": lambda simulator: Controller(simulator, [HAND]),
    "puppet": lambda simulator: Puppet(simulator, [HAND]),
    "pd": lambda simulator: PDController(simulator, [Keyframe(WALK[0])]),
}


def simulator_of(model: PoseModel | None = MODEL, **options: object) -> Simulator:
    simulator = Simulator(BODY, model, **options)
    simulator.reset(WALK[0])
    return simulator


def assert_finite(simulator: Simulator) -> None:
    state = simulator.state
    for array in (state.place, state.rotations.wxyz, state.coordinates, state.velocity, state.momentum):
        assert np.isfinite(array).all()


# Steps of time


@pytest.mark.parametrize("dt", [0.0, -0.01, NAN, np.inf, "soon", None])
@pytest.mark.parametrize("way", WAYS)
def test_a_step_that_is_none_is_refused_by_every_way_to_steer(way: str, dt: float) -> None:
    steered = WAYS[way](simulator_of(ground=Ground()))
    with pytest.raises(InputError, match=r"dt is .* Give the length of a step in seconds"):
        steered.step(dt)
    assert steered.simulator.state.time_s == 0.0


@pytest.mark.parametrize("dt", [1e-12, 1e3])
@pytest.mark.parametrize("way", WAYS)
def test_steps_of_any_length_end_in_finite_numbers_or_a_typed_error(way: str, dt: float) -> None:
    steered = WAYS[way](simulator_of(ground=Ground()))
    with suppress(ConvergenceError):
        for _ in range(3):
            steered.step(dt)
    assert_finite(steered.simulator)


# Gains and strength


@pytest.mark.parametrize(
    "gains",
    [Gains(1e6), Gains(np.inf), Gains(NAN), Gains(-1.0), Gains(5.0, 1.0), Gains(5.0, NAN), Gains(5.0, 0.1, NAN)],
)
@pytest.mark.parametrize("kind", [Controller, Puppet])
def test_unstable_gains_are_refused_before_anything_moves(kind: type[Controller | Puppet], gains: Gains) -> None:
    steered = kind(simulator_of(), [Drive(HAND, gains)])
    with pytest.raises(InputError, match=r"unstable with steps of 0\.01 s|fastest is nan"):
        steered.step(0.01)
    assert steered.simulator.state.time_s == 0.0


@pytest.mark.parametrize("stiffness", [1e6, 1e12])
def test_springs_of_any_stiffness_stay_finite(stiffness: float) -> None:
    springs = PDController(simulator_of(ground=Ground()), [Keyframe(WALK[40])], stiffness=stiffness, damping=stiffness)
    for _ in range(20):
        springs.step(0.01)
    assert_finite(springs.simulator)


@pytest.mark.parametrize(
    ("strongest", "words"),
    [(NAN, "holds nan"), (-1.0, "negative bound"), (np.ones(3), "one for each of 6"), ("strong", "not an array")],
)
def test_bounds_of_actuators_are_checked(strongest: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Controller(simulator_of(), strongest=strongest)


# Targets


@pytest.mark.parametrize(
    "make",
    [
        lambda: Drive(PointTask("right_wrist", (NAN, 1.0, 0.0))),
        lambda: OrientationTask("head", SO3(np.array([NAN, 0.0, 0.0, 0.0]))),
        lambda: Drive(LookAtTask("head", (NAN, 1.0, 1.0))),
        lambda: Drive(ComTask((NAN, 1.0, 0.0))),
        lambda: MomentumTask((NAN, 0.0, 0.0)),
        lambda: SupportTask(height_m=NAN),
        lambda: SupportTask(margin_m=NAN),
        lambda: GazeTask("head", (NAN, 0.0, 0.0)),
        lambda: ModesTask(np.full(6, NAN)),
        lambda: RowsTask(np.full((1, 12), NAN), [0.0]),
        lambda: FootTask("left", (NAN, 0.0, 0.0)),
        lambda: Drive(HAND, velocity=(NAN, 0.0, 0.0)),
        lambda: Keyframe(WALK[0], NAN),
        lambda: Pin("right_wrist", place=(NAN, 1.0, 0.0)),
        lambda: PointForce("pelvis", (NAN, 0.0, 0.0)),
    ],
)
def test_targets_that_are_no_numbers_are_refused_where_they_are_made(make: Callable[[], object]) -> None:
    with pytest.raises(MareyError, match="nan"):
        make()


@pytest.mark.parametrize(
    "drive",
    [
        lambda: Drive(HAND, velocity=(1.0, 2.0)),
        lambda: Drive(ModesTask(np.zeros(6)), velocity=np.ones(4)),
        lambda: Drive(PoseTask(WALK[0]), velocity=np.ones(4)),
        lambda: PointTask("right_wrist", np.zeros((5, 3))),
        lambda: PointTask("tail", (0.0, 1.0, 0.0)),
    ],
)
def test_targets_that_do_not_fit_are_refused(drive: Callable[[], Drive | PointTask]) -> None:
    with pytest.raises(MareyError):
        Controller(simulator_of(), [drive()]).step(0.01)


@pytest.mark.parametrize("tasks", [3, ["reach"]])
def test_what_is_no_task_is_refused(tasks: object) -> None:
    with pytest.raises(InputError, match="task"):
        Controller(simulator_of(), tasks)


@pytest.mark.parametrize("task", [PointTask("right_wrist", (1e12, 0.0, 0.0)), replace(HAND, weight=1e300)])
def test_targets_beyond_all_reach_leave_a_finite_figure(task: PointTask) -> None:
    for steered in (Controller(simulator_of(ground=Ground()), [task]), Puppet(simulator_of(), [task], alpha=1.0)):
        for _ in range(10):
            steered.step(0.01)
        assert_finite(steered.simulator)


# Contradictions


@pytest.mark.parametrize("hierarchy", ["weights", "strict"])
def test_tasks_that_contradict_one_another_are_reported_by_their_errors(hierarchy: str) -> None:
    controller = Controller(simulator_of(ground=Ground()), PULLED_APART, hierarchy=hierarchy)
    for _ in range(30):
        controller.step(0.01)
    assert_finite(controller.simulator)
    assert controller.report is not None
    assert sum(controller.report.errors[:2]) >= 4.0 - 1e-9  # the hand cannot be at both
    assert controller.report.errors[2] > 5.0


def test_a_puppet_that_is_pulled_apart_stays_finite_and_tells_how_far_it_is() -> None:
    puppet = Puppet(simulator_of(ground=Ground()), PULLED_APART, alpha=1.0)
    for _ in range(30):
        puppet.step(0.01)
    assert_finite(puppet.simulator)
    assert puppet.report is not None
    assert sum(puppet.report.errors[:2]) >= 4.0 - 1e-9


@pytest.mark.parametrize("model", [MODEL, None], ids=["reduced", "full"])
def test_pins_that_contradict_one_another_are_named_and_leave_no_plan(model: PoseModel | None) -> None:
    pins = (Pin("right_wrist", place=(0.3, 1.3, 0.4)), Pin("right_wrist", place=(0.5, 1.9, 0.4)))
    simulator = simulator_of(model, ground=Ground(), constraints=pins)
    simulator.step(0.01)
    assert simulator.outcome is not None
    assert "pin of right_wrist" in simulator.outcome.relaxed
    controller = Controller(simulator, [HAND])
    for _ in range(5):
        controller.step(0.01)
    assert controller.report is not None
    assert controller.report.status is SolveStatus.INFEASIBLE
    assert not controller.report.is_planned
    assert_finite(simulator)


# Contacts inside obstacles


@pytest.mark.parametrize("model", [MODEL, None], ids=["reduced", "full"])
@pytest.mark.parametrize("way", WAYS)
def test_a_figure_that_starts_half_in_the_ground_is_steered_out_of_it(way: str, model: PoseModel | None) -> None:
    steered = WAYS[way](simulator_of(model, ground=DEEP))
    simulator, depths = steered.simulator, list[float]()
    for _ in range(10):
        steered.step(0.01)
        assert simulator.contacts is not None
        depths.append(-float(simulator.contacts.gaps.min()))
    assert_finite(simulator)
    assert depths[-1] < depths[0] - 0.03  # it comes out at half a metre a second


@pytest.mark.parametrize("obstacles", [WALLS, LID], ids=["between walls", "under a lid"])
@pytest.mark.parametrize("model", [MODEL, None], ids=["reduced", "full"])
def test_obstacles_without_room_for_the_figure_are_named(
    model: PoseModel | None, obstacles: tuple[Ground, ...]
) -> None:
    simulator, named = simulator_of(model, ground=obstacles), set[str]()
    for _ in range(15):
        simulator.step(0.01)
        assert simulator.outcome is not None
        named |= set(simulator.outcome.relaxed)
        assert simulator.state.kinetic_j < 1e4
    assert_finite(simulator)
    assert any(name.startswith("contact of ") for name in named)


def test_a_ball_inside_the_figure_leaves_it_finite() -> None:
    ball = Ball(tuple(WALK[0].root_position), (0.0, 0.0, 0.0), 0.5, 5.0)
    simulator = simulator_of(ground=Ground(), constraints=[ball])
    for _ in range(20):
        simulator.step(0.01)
    assert_finite(simulator)
    assert simulator.state.kinetic_j < 1e4


# Mass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda masses: 0.0 * masses, "has an inertia but no mass"),
        (lambda masses: NAN * masses, "holds nan"),
        (lambda masses: -masses, "A mass is zero or more"),
    ],
)
def test_masses_that_are_none_are_refused(change: Callable[[np.ndarray], np.ndarray], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Simulator(replace(BODY, masses=change(BODY.masses)))


def test_a_body_without_any_mass_is_refused() -> None:
    with pytest.raises(InputError, match="no mass"):
        Simulator(replace(BODY, masses=0.0 * BODY.masses, inertias=0.0 * BODY.inertias))


def test_coordinates_that_move_no_mass_are_told_and_end_in_a_typed_error_or_finite_numbers() -> None:
    masses = np.zeros_like(BODY.masses)
    masses[0] = 70.0
    with pytest.warns(MareyWarning, match="some coordinates move no mass"):
        simulator = Simulator(replace(BODY, masses=masses, inertias=0.0 * BODY.inertias), MODEL, ground=Ground())
    with pytest.raises(InputError, match="Give mass to every segment"):
        Controller(simulator, [HAND]).step(0.01)
    assert_finite(simulator)
