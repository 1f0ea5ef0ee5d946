"""The terms of the objective: slopes, closed forms, and what they do to a motion ([Fang2003]_ F18)."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from oracles.problems import EXAMPLES

from marey.base import FloatArray
from marey.dynamics import JointTree, compute_com_motion, compute_point_motion, compute_torques
from marey.spacetime import SpacetimeProblem, optimize
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import FullBodyModel, FullLayout, refine_layout, refine_unknowns
from marey.spacetime.full.objectives import (
    CHANGE_UNIT,
    JERK_UNIT,
    TORQUE_NOISE,
    VARIANCE_UNIT,
    compute_noise_gains,
    find_hands,
)
from marey.spacetime.full.programme import FullProgramme
from marey.spacetime.full.sampling import build_guess, neutral_pose, sample_track, set_flight_unknowns
from marey.spacetime.problem.definition import Contact, Objective, ProblemPhase

NAMES = tuple(item.name for item in fields(Objective))
HOP = SpacetimeProblem(
    "hop",
    (
        ProblemPhase("push", 0.3, (Contact("left_foot", (0.0, 0.0, 0.0), friction=1.0),)),
        ProblemPhase("air", 0.25),
        ProblemPhase("land", 0.3, (Contact("left_foot", (0.0, 0.0, 0.2), friction=1.0),)),
    ),
    objective=Objective(prior=2.0),
    guess="crouch",
    limits={"pitch": (-0.3, 0.6), "roll": (-0.3, 0.3), "yaw": (-0.5, 0.5)},
)
STAND = SpacetimeProblem("stand", HOP.phases[:1], guess="stand")


def only(name: str, problem: SpacetimeProblem = HOP) -> SpacetimeProblem:
    return replace(problem, objective=Objective(**{"accel": 0.0, name: 1.0}))


def programme_at(problem: SpacetimeProblem, size: float, seed: int = 0) -> tuple[FullProgramme, FloatArray]:
    """A programme, and scaled unknowns some way off its guess."""
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    guess = build_guess(layout)
    noise = np.random.default_rng(seed).normal(scale=size, size=guess.size)
    reference = layout.points(guess)
    return FullProgramme(layout, guess, reference=reference), set_flight_unknowns(layout, guess + noise) / layout.scales


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("example", ["hop", "dismount-0.6"])
def test_slope_of_every_term_equals_central_differences(name: str, example: str) -> None:
    programme, x = programme_at(only(name, HOP if example == "hop" else EXAMPLES[example]()), 0.1)
    slope = programme.derivatives(x)[0]
    h = 1e-5
    for seed in range(2):
        direction = np.random.default_rng(seed).normal(size=x.size)
        numeric = (programme.values(x + h * direction)[0] - programme.values(x - h * direction)[0]) / (2.0 * h)
        assert numeric == pytest.approx(slope @ direction, rel=1e-6)  # A24


@pytest.mark.parametrize("name", NAMES)
def test_every_term_is_reported_by_name_and_is_never_negative(name: str) -> None:
    programme, x = programme_at(only(name), 0.1)
    terms = programme.terms(x * programme.layout.scales)
    assert terms[name] > 0.0 and set(terms) == {"accel", name, "ridge"}
    assert sum(terms.values()) == pytest.approx(programme.values(x)[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_term_is_linear_in_its_weight(name: str) -> None:
    values: list[float] = []
    for weight in (1.0, 3.0):
        programme, x = programme_at(replace(HOP, objective=Objective(**{"accel": 0.0, name: weight})), 0.1)
        values.append(programme.terms(x * programme.layout.scales)[name])
    assert values[1] == pytest.approx(3.0 * values[0])


def fine_value(problem: SpacetimeProblem, name: str, levels: int) -> tuple[FullProgramme, FloatArray, float]:
    """The term of a smooth motion on a spline whose spans were halved some times."""
    programme, x = programme_at(only(name, problem), 0.03, seed=3)
    layout, real = programme.layout, x * programme.layout.scales
    for _ in range(levels):
        layout, real = refine_layout(layout), refine_unknowns(layout, real)
    programme = FullProgramme(layout, real)
    return programme, real, programme.terms(real)[name]


def test_min_jerk_is_the_jerk_of_the_hands_in_the_world() -> None:
    programme, real, found = fine_value(HOP, "min_jerk", 3)
    layout, tree = programme.layout, programme.layout.figure.tree
    track = sample_track(layout, real, layout.timeline.grid(16))
    total = 0.0
    for hand in ("left_hand", "right_hand"):
        acceleration = compute_point_motion(tree, track.q, track.qd, track.qdd, *tree.points[hand]).acceleration
        steps = np.diff(track.times)
        rates = np.diff(acceleration, axis=0)[steps > 0.0] / steps[steps > 0.0, None]
        total += 0.5 * float((rates**2).sum(axis=1) @ steps[steps > 0.0])
    assert found == pytest.approx(total / JERK_UNIT, rel=0.02)


def world_torques(programme: FullProgramme, real: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Times, and torques [N m] of a flight by Newton and Euler, where nothing is held."""
    layout = programme.layout
    track = sample_track(layout, real, layout.timeline.grid(16))
    needed = compute_torques(layout.figure.tree, track.q, track.qd, track.qdd, gravity=layout.problem.gravity)
    return track.times, needed[:, layout.figure.angles]


def test_min_torque_change_is_the_rate_of_the_torques() -> None:
    floating = SpacetimeProblem("float", (ProblemPhase("float", 0.6),), gravity=0.0, guess="stand")
    programme, real, found = fine_value(floating, "min_torque_change", 3)
    layout = programme.layout
    times, tau = world_torques(programme, real)
    joints = np.setdiff1d(np.arange(layout.num_angles), layout.figure.root_angles)
    rates = np.diff(tau[:, joints] / layout.weight, axis=0) / np.diff(times)[:, None]
    total = 0.5 * float((rates**2).sum(axis=1) @ np.diff(times)) / len(joints)
    assert found == pytest.approx(total / CHANGE_UNIT, rel=0.02)


def test_min_variance_weighs_torques_by_the_time_that_is_left() -> None:
    floating = SpacetimeProblem("float", (ProblemPhase("float", 0.6),), gravity=0.0, guess="stand")
    programme, real, found = fine_value(floating, "min_variance", 2)
    times, tau = world_torques(programme, real)
    density = ((compute_noise_gains(programme.layout) * tau) ** 2).sum(axis=1) * (0.6 - times) ** 2
    total = TORQUE_NOISE**2 * float(np.trapezoid(density, times))
    assert found == pytest.approx(total / VARIANCE_UNIT, rel=0.02)


def test_gain_of_an_elbow_is_the_forearm_over_its_inertia() -> None:
    layout = FullLayout.from_problem(STAND, FullBodyModel.from_tree(JointTree.fang22()))
    tree, gains = layout.figure.tree, compute_noise_gains(layout)
    elbow = tree.index("left_elbow")
    centre, axis = np.asarray(tree.centres[elbow]), np.asarray(tree.axes[elbow])
    hand = np.asarray(tree.points["left_hand"][1])
    inertia = axis @ tree.inertias[elbow] @ axis + tree.masses[elbow] * float(np.sum(np.cross(axis, centre) ** 2))
    lever = float(np.linalg.norm(np.cross(axis, hand))) / np.sqrt(2.0)  # of one hand out of two
    assert gains[layout.figure.angle_index("left_elbow")] == pytest.approx(lever / inertia, rel=1e-9)


def test_legs_and_the_root_do_not_disturb_the_hands() -> None:
    layout = FullLayout.from_problem(STAND, FullBodyModel.from_tree(JointTree.fang22()))
    gains = dict(zip(layout.figure.names, compute_noise_gains(layout), strict=True))
    assert all(gain == 0.0 for name, gain in gains.items() if "hip" in name or "knee" in name or "root" in name)
    assert gains["left_elbow"] == pytest.approx(gains["right_elbow"])


def test_a_pose_that_is_held_has_no_jerk_and_no_change_of_torque() -> None:
    for name in ("min_jerk", "min_torque_change", "contact_jerk", "accel", "energy"):
        programme, x = programme_at(only(name, STAND), 0.0)
        assert programme.terms(x * programme.layout.scales)[name] < 1e-14


def test_contact_force_of_a_held_pose_is_its_weight_squared() -> None:
    programme, x = programme_at(only("contact_force", STAND), 0.0)
    assert programme.terms(x * programme.layout.scales)["contact_force"] == pytest.approx(0.3, rel=1e-9)  # (1 mg)^2 s


def test_a_hand_on_a_bar_has_no_jerk_to_pay() -> None:
    grip = Contact("hands", (0.0, 2.2, 0.0), kind="grip")
    hang = SpacetimeProblem("hang", (ProblemPhase("hang", 0.4, (grip,)),), character="fang7")
    programme, x = programme_at(only("min_jerk", hang), 0.1)
    assert "min_jerk" not in programme.terms(x * programme.layout.scales)


def test_planar_character_has_one_pair_of_hands() -> None:
    trees = (JointTree.fang22(), JointTree.fang7())
    layouts = [FullLayout.from_problem(STAND, FullBodyModel.from_tree(tree)) for tree in trees]
    assert [find_hands(layout) for layout in layouts] == [["left_hand", "right_hand"], ["hands"]]
    assert neutral_pose(layouts[1].figure, "stand").shape == (layouts[1].num_angles,)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["min_jerk", "min_torque_change", "min_variance", "torque", "contact_force"])
def test_a_weight_lowers_its_term(name: str) -> None:
    weights = {"min_jerk": 0.1, "contact_force": 5.0, "torque": 5.0}
    cared = optimize(replace(HOP, objective=Objective(prior=2.0, **{name: weights.get(name, 1.0)})))
    plain = optimize(HOP)
    assert plain.problem is not None
    layout = FullLayout.from_problem(only(name), FullBodyModel.from_tree(build_character(HOP)))
    values: list[float] = []
    for result in (cared, plain):
        tree = build_character(HOP)
        angles = tree.from_motion(result.motion)[:, layout.figure.angles]
        points = layout.timeline.spline.fit(np.minimum(result.motion.times(), 0.85), angles)
        x = set_flight_unknowns(layout, np.concatenate([points.ravel(), np.zeros(layout.num_unknowns - points.size)]))
        values.append(FullProgramme(layout, x).terms(x)[name])
    assert cared.is_solved and values[0] < 0.99 * values[1]


def test_balance_brings_the_centre_of_mass_over_the_feet_at_the_ends() -> None:
    feet = tuple(Contact(f"{side}_foot", (x, 0.0, 0.0), friction=0.9) for side, x in (("left", 0.1), ("right", -0.1)))
    high = Contact("left_foot", (0.1, 0.25, 0.35), friction=0.9)
    phases = (
        ProblemPhase("stand", 0.4, feet),
        ProblemPhase("lift", 0.4, feet[1:]),
        ProblemPhase("on", 0.3, (feet[1], high)),
        ProblemPhase("up", 0.5, (high,)),
    )
    away = list[float]()
    for balance in (0.0, 2.0):
        weights = Objective(accel=1.0, prior=2.0, balance=balance)
        problem = SpacetimeProblem("step", phases, guess="crouch", objective=weights)
        result = optimize(problem)
        tree = build_character(problem)
        q = tree.from_motion(result.motion)[[0, -1]]
        com = compute_com_motion(tree, q, 0.0 * q, 0.0 * q, jacobians=False).position
        away.append(float(np.abs(com[:, ::2] - [[0.0, 0.0], [0.1, 0.35]]).max()))
    assert away[1] < 0.06 and away[1] < 0.5 * away[0]
