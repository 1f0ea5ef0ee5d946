"""Fang's examples, solved from flat guesses and judged on a dense grid ([Fang2003]_ A28-A46 of the specification)."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from oracles.formulations import report_formulations
from oracles.problems import EXAMPLES, build_dismount, build_leaping

from marey.base import ConvergenceError, FloatArray
from marey.dynamics import compute_aggregate, compute_point_motion
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration
from marey.samples import problem_file, problem_names
from marey.spacetime import SpacetimeProblem, SpacetimeResult, load_problem, optimize
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.solve import (
    compute_duration_slope,
    compute_lagrangian,
    find_free_phases,
    replace_durations,
    solve_full,
)
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase

QUICK = ("dismount-0.6", "dismount-0.8", "monkey-bars", "pegs", "ground-leap")
FOOT = Contact("left_foot", (0.0, 0.0, 0.0), friction=1.0)
UPRIGHT = {"pitch": (-0.3, 0.6), "roll": (-0.3, 0.3), "yaw": (-0.5, 0.5)}
SHORT_HOP = SpacetimeProblem(
    "hop",
    (
        ProblemPhase("push", 0.3, (FOOT,)),
        ProblemPhase("air", 0.25),
        ProblemPhase("land", 0.3, (replace(FOOT, position=(0.0, 0.0, 0.2)),)),
    ),
    objective=Objective(prior=2.0),
    guess="crouch",
    limits=UPRIGHT,
    floor_m=None,
)


@cache
def solved(name: str) -> SpacetimeResult:
    return optimize(EXAMPLES[name](), on_failure="return")


def coordinates(result: SpacetimeResult) -> FloatArray:
    assert result.problem is not None
    return build_character(result.problem).from_motion(result.motion)


@pytest.mark.parametrize("name", QUICK)
def test_example_converges_and_holds_between_its_frames(name: str) -> None:
    result = solved(name)
    check = result.check
    assert result.status is SolveStatus.CONVERGED, result.sentence
    assert result.violation < 1e-4 and result.iterations <= 250
    assert check.wrench_residual < 0.05 and check.cone_excess <= 0.05  # A32
    assert check.flight_force <= 1e-6  # A31
    assert check.angular_momentum_drift < 0.02  # A30
    assert check.plant_drift_m <= 1e-9  # A33
    assert check.root_jump_m <= 1e-5 and check.com_velocity_jump <= 1e-3  # A34
    assert check.min_normal_force >= -0.02 and check.cop_excess_m <= 0.01  # A32
    assert check.limit_excess_rad < 1e-6 and check.is_valid


def turn_in_flight(result: SpacetimeResult) -> float:
    assert result.problem is not None
    q = coordinates(result)
    pitch = q[:, build_character(result.problem).index("root_rx")]
    times = result.motion.times()
    end = 0.9 + result.problem.phases[1].duration_s
    return float(abs(np.interp(end, times, pitch) - np.interp(0.9, times, pitch)))


@pytest.mark.parametrize("name", ["dismount-0.6", "dismount-0.8"])
def test_dismount_is_a_somersault_that_ends_at_rest(name: str) -> None:
    result = solved(name)
    assert turn_in_flight(result) >= 4.5  # A40
    q, tree = coordinates(result), build_character(EXAMPLES[name]())
    assert q[-1, tree.index("root_rx")] == pytest.approx(-2 * np.pi + 0.24, abs=1e-4)
    assert q[-1, tree.index("knee")] == pytest.approx(1.3, abs=1e-4)
    speed = 0.5 * (3.0 * q[-1] - 4.0 * q[-2] + q[-3]) * result.motion.rate_hz
    assert np.abs(speed).max() < 0.05  # zero, to the error of the difference
    start = np.gradient(compute_aggregate(tree, q, q * 0, q * 0).com, 1 / result.motion.rate_hz, axis=0, edge_order=2)[
        0
    ]
    assert np.linalg.norm(start) <= 2e-2


def flight_measures(result: SpacetimeResult) -> tuple[float, float]:
    """Apex of the centre of mass [m] and mean pitch inertia about it [kg m^2] in flight."""
    assert result.problem is not None
    tree, q = build_character(result.problem), coordinates(result)
    times = result.motion.times()
    q = q[(times > 0.9) & (times < 0.9 + result.problem.phases[1].duration_s)]
    spin = np.zeros_like(q)
    spin[:, tree.index("root_rx")] = 1.0
    still = compute_aggregate(tree, q, spin, np.zeros_like(q))
    return float(still.com[:, 1].max()), float(np.abs(still.angular_momentum[:, 0]).mean())


def test_shorter_flight_gives_the_tighter_tuck_and_the_lower_arc() -> None:
    (low, tight), (high, loose) = (flight_measures(solved(f"dismount-{t}")) for t in ("0.6", "0.8"))
    assert high - low >= 0.15  # A41
    assert tight <= 0.85 * loose


def test_each_hand_keeps_its_bar_and_no_forearm_meets_one() -> None:
    result = solved("monkey-bars")
    tree, q, times = build_character(EXAMPLES["monkey-bars"]()), coordinates(result), result.motion.times()
    assert result.iterations <= 100  # A42
    for i in range(4):
        side, sign = ("left", 1.0) if i % 2 == 0 else ("right", -1.0)
        held = q[(times >= 0.7 * i) & (times <= 0.7 * (i + 1) - 1e-6)]
        dof, place = tree.points[f"{side}_hand"]
        at = compute_point_motion(tree, held, held * 0, held * 0, dof, place).position
        assert np.linalg.norm(at - [sign * 0.198, 2.2, 0.45 * i], axis=1).max() < 1e-6  # A42
        free = tree.points["right_hand" if side == "left" else "left_hand"]
        ends = [
            compute_point_motion(tree, held, held * 0, held * 0, free[0], p).position for p in (np.zeros(3), free[1])
        ]
        along = np.linspace(0.0, 1.0, 30)[:, None, None]
        forearm = (1.0 - along) * ends[0] + along * ends[1]
        assert np.hypot(forearm[..., 1] - 2.2, forearm[..., 2] - 0.45 * i).min() > 0.04


def test_sum_of_iterations_is_a_fifth_of_the_thesis() -> None:
    results = [solved(name) for name in ("dismount-0.8", "monkey-bars", "pegs")]
    assert sum(result.iterations for result in results) <= 838  # A46: 650 + 1330 + 2213 there


def lowest_swing_foot(result: SpacetimeResult) -> float:
    assert result.problem is not None
    tree, q = build_character(result.problem), coordinates(result)
    feet = [
        compute_point_motion(tree, q, q * 0, q * 0, *tree.points[f"{side}_foot"]).position for side in ("left", "right")
    ]
    return float(min(foot[:, 1].min() for foot in feet))


def test_clearance_rows_keep_the_swinging_feet_above_ground_and_matter() -> None:
    assert lowest_swing_foot(solved("ground-leap")) > -0.005  # A44
    # Without the keys the floor itself keeps them up; without keys and floor they go below it
    bare = build_leaping(0.0, name="no-clearance")
    assert lowest_swing_foot(optimize(bare, on_failure="return")) > -0.005
    assert lowest_swing_foot(optimize(replace(bare, floor_m=None), on_failure="return")) < -0.02


@pytest.mark.slow
def test_space_spin_turns_over_without_any_force() -> None:
    result = solved("space-spin")
    tree, q = build_character(EXAMPLES["space-spin"]()), coordinates(result)
    assert result.is_solved and result.iterations <= 250
    assert q[-1, tree.index("root_rx")] == pytest.approx(np.pi, abs=np.deg2rad(1.0))  # A45
    assert result.check.angular_momentum_drift_si <= 1.5 and result.check.flight_moment < 0.05
    assert result.check.angular_momentum_drift < 0.02


@pytest.mark.slow
def test_space_spin_with_frozen_limbs_is_infeasible() -> None:
    spin = EXAMPLES["space-spin"]()
    rigid = {name: (value, value) for name, value in spin.keys[0].joints.items() if not name.startswith("root")}
    result = optimize(replace(spin, limits=rigid), on_failure="return", time_limit_s=60.0)
    assert not result.is_solved and result.worst and "angular momentum" in result.worst[0][0]  # A45


@pytest.mark.timing
def test_a_hop_of_four_metres_is_given_up_in_its_time() -> None:
    landing = replace(SHORT_HOP.phases[2], contacts=(replace(FOOT, position=(0.0, 0.0, 4.0)),))
    far = replace(SHORT_HOP, phases=(*SHORT_HOP.phases[:2], landing), max_iterations=120)
    began = time.perf_counter()
    optimize(far, on_failure="return", time_limit_s=30.0)
    assert time.perf_counter() - began < 40.0


def test_a_hop_of_four_metres_ends_infeasible_and_names_the_phase_joint() -> None:
    landing = replace(SHORT_HOP.phases[2], contacts=(replace(FOOT, position=(0.0, 0.0, 4.0)),))
    far = replace(SHORT_HOP, phases=(*SHORT_HOP.phases[:2], landing), max_iterations=120)
    result = optimize(far, on_failure="return", time_limit_s=300.0)
    assert not result.is_solved and result.violation > 1.0
    assert any(word in result.worst[0][0] for word in ("touch-down", "take-off"))  # A28
    assert result.worst[0][0] in result.sentence


@pytest.mark.slow
def test_pegs_four_metres_apart_are_not_solved() -> None:
    def moved(contact: Contact) -> Contact:
        return replace(contact, position=(contact.position[0], 0.2, contact.position[2] / 0.9 * 4.0))

    far = tuple(replace(p, contacts=tuple(moved(c) for c in p.contacts)) for p in EXAMPLES["pegs"]().phases)
    result = optimize(replace(EXAMPLES["pegs"](), phases=far), on_failure="return", time_limit_s=60.0)
    assert not result.is_solved and result.violation > 1e-2 and " at " in result.worst[0][0]  # A28


def test_failure_raises_with_the_result_and_the_worst_rows() -> None:
    with pytest.raises(ConvergenceError) as caught:
        optimize(replace(SHORT_HOP, max_iterations=2))
    assert isinstance(caught.value.report, SpacetimeResult)
    assert "Worst:" in str(caught.value)


def test_same_problem_gives_identical_iterates() -> None:
    first, second = (optimize(SHORT_HOP) for _ in range(2))
    assert first.iterations == second.iterations  # A29
    assert np.array_equal(first.motion.root_positions, second.motion.root_positions)


def test_caller_can_stop_and_keeps_the_best_motion() -> None:
    seen: list[SQPIteration] = []

    def watch(iteration: SQPIteration) -> bool:
        seen.append(iteration)
        return len(seen) >= 3

    result = optimize(SHORT_HOP, on_iteration=watch, on_failure="return")
    assert len(seen) == 3 and result.status is SolveStatus.STOPPED
    assert np.isfinite(result.motion.root_positions).all()


def test_centre_of_mass_follows_the_parabola_in_flight() -> None:
    result = optimize(SHORT_HOP)
    tree, q, times = build_character(SHORT_HOP), coordinates(result), result.motion.times()
    air = (times >= 0.3) & (times <= 0.55)
    com = compute_aggregate(tree, q[air], q[air] * 0, q[air] * 0).com
    curve = np.polynomial.Polynomial.fit(times[air], com[:, 1], 2)
    assert np.abs(curve(times[air]) - com[:, 1]).max() < 1e-9  # A30
    assert curve.deriv(2)(0.4) == pytest.approx(-9.81, rel=1e-6)


def test_doubling_all_masses_leaves_the_motion_unchanged() -> None:
    light, heavy = optimize(SHORT_HOP), optimize(replace(SHORT_HOP, mass_kg=130.0))
    assert np.abs(coordinates(light) - coordinates(heavy)).max() < 1e-3  # A37: long-axis inertias scale with mass too


def test_mirrored_problem_gives_the_mirrored_motion() -> None:
    right = replace(
        SHORT_HOP,
        phases=tuple(
            replace(p, contacts=tuple(replace(c, point="right_foot") for c in p.contacts)) for p in SHORT_HOP.phases
        ),
    )
    ours, theirs = coordinates(optimize(SHORT_HOP)), coordinates(optimize(right))
    tree = build_character(SHORT_HOP)
    swap = {n: n.replace("left", "*").replace("right", "left").replace("*", "right") for n in tree.names}
    order = [tree.index(swap[name]) for name in tree.names]
    signs = np.array([-1.0 if name.endswith(("_ry", "_rz", "_tx")) else 1.0 for name in tree.names])
    assert np.abs(ours[:, order] * signs - theirs).max() < 1e-3  # A38


def test_without_friction_nobody_leaps_but_one_can_stand() -> None:
    far = (FOOT, replace(FOOT, position=(0.0, 0.0, 1.0)))
    ice = tuple(
        replace(p, contacts=(replace(c, friction=0.0),)) for p, c in zip(SHORT_HOP.phases[::2], far, strict=True)
    )
    ice = (ice[0], SHORT_HOP.phases[1], ice[1])
    over = Key("com", "land", 1.0, target=(None, None, 1.0))
    rest = (Key("com_velocity", "push", 0.0, target=(0.0, 0.0, 0.0)), over)
    leap = optimize(replace(SHORT_HOP, phases=ice, keys=rest, max_iterations=40), on_failure="return")
    assert not leap.is_solved  # A36
    stand = SpacetimeProblem(
        "stand", (ProblemPhase("stand", 0.5, (replace(FOOT, friction=0.0),)),), guess="stand", limits=UPRIGHT
    )
    assert optimize(stand).is_solved


def test_bounded_impact_stays_in_the_cone_and_loses_energy() -> None:
    result = optimize(replace(SHORT_HOP, impact="bounded"))
    tree = build_character(SHORT_HOP)
    solution = solve_full(replace(SHORT_HOP, impact="bounded"), tree)
    jump = solution.x[solution.layout.impulses[0][1]]
    assert np.hypot(jump[0], jump[2]) <= 1.0 * jump[1] + 0.02  # A35
    flight = solution.layout.flights[0]
    before = solution.x[flight.speed] + [0.0, -9.81 * 0.25, 0.0]
    assert np.linalg.norm(before + jump) <= np.linalg.norm(before) + 1e-6
    assert result.is_solved


def test_warm_start_from_the_solution_needs_few_iterations() -> None:
    cold = optimize(SHORT_HOP)
    warm = optimize(SHORT_HOP, warm_start=cold.motion)
    assert warm.is_solved and warm.iterations <= cold.iterations
    assert warm.objective == pytest.approx(cold.objective, rel=0.05)


def test_two_feet_stand_on_their_hull() -> None:
    both = (Contact("left_foot", (0.09, 0.0, 0.0)), Contact("right_foot", (-0.09, 0.0, 0.0)))
    result = optimize(SpacetimeProblem("stand", (ProblemPhase("stand", 0.5, both),), guess="stand", limits=UPRIGHT))
    assert result.is_solved and result.check.plant_drift_m < 2e-3


def test_slope_by_duration_equals_the_difference_of_solved_problems() -> None:
    problem = replace(SHORT_HOP, phases=tuple(replace(p, duration_range_s=(0.2, 0.5)) for p in SHORT_HOP.phases))
    tree, free = build_character(problem), find_free_phases(problem)
    solution = solve_full(problem, tree)
    now = np.array([phase.duration_s for phase in problem.phases])
    slope = compute_duration_slope(now, lambda durations: compute_lagrangian(solution, free, durations))
    counts = [3, 3, 3]
    values: list[float] = []
    for change in (0.01, -0.01):
        moved = replace_durations(problem, free, np.array([0.3, 0.25 + change, 0.3]), counts)
        values.append(solve_full(moved, tree, start=solution.x).answer.objective)
    assert slope[1] == pytest.approx((values[0] - values[1]) / 0.02, rel=0.1)


@pytest.mark.slow
def test_free_durations_lower_the_objective_within_their_ranges() -> None:
    fixed = optimize(SHORT_HOP)
    phases = (SHORT_HOP.phases[0], replace(SHORT_HOP.phases[1], duration_range_s=(0.15, 0.35)), SHORT_HOP.phases[2])
    free = optimize(replace(SHORT_HOP, phases=phases))
    assert free.problem is not None
    assert 0.15 <= free.problem.phases[1].duration_s <= 0.35
    assert free.is_solved and free.objective < fixed.objective


def test_shipped_files_are_the_examples() -> None:
    for name, build in EXAMPLES.items():
        assert name in problem_names()
        assert load_problem(problem_file(name)) == build()


def test_result_speaks_json_and_draws() -> None:
    result = solved("monkey-bars")
    data = result.to_json()
    assert data["status"] == "converged" and data["check"]["plant_drift_m"] < 1e-6
    assert isinstance(result.guess, Motion) and result.guess.num_frames == result.motion.num_frames
    assert "converged" not in result.sentence and "body weight" in result.sentence


def test_formulations_are_counted_as_in_the_thesis() -> None:
    spacetime, control, ours = report_formulations(16, 28, 2)
    assert (spacetime.unknowns, control.unknowns, ours.unknowns) == (28 * 40, 28 * 16, 28 * 22)
    assert ours.physics_rows == 6 * 28 and spacetime.physics_rows == 22 * 28
    assert ours.physics_entries < spacetime.physics_entries


def test_dismount_takes_any_flight_time() -> None:
    assert build_dismount(0.7).phases[1].duration_s == 0.7
