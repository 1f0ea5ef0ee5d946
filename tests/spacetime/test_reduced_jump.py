"""Motions in reduced space: derivatives, a jump of 1.3 m, a turn of 360 degrees, refusals (A41-A47)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import marey.spacetime
from marey.base import InputError, MissingFileError
from marey.dynamics import compute_torques
from marey.samples import problem_file
from marey.spacetime import (
    BehaviourSpace,
    SpacetimeProblem,
    build_flip_problem,
    build_jump_problem,
    build_run_problem,
    build_walk_problem,
    load_problem,
    optimize,
    optimize_reduced,
)
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase
from marey.spacetime.reduced.assembly import build_reduced_problem, choose_settings

FOLDER = Path(marey.spacetime.__file__).parent / "behaviours"


@pytest.fixture(scope="module")
def result():
    return optimize(load_problem(problem_file("jump-1.3")))


@pytest.mark.parametrize(
    "problem",
    [
        replace(
            build_jump_problem(1.1, 30.0),
            keys=(
                Key("com", "flight", 0.5, target=(None, 1.3, None)),
                Key("clearance", "flight", 0.5, point="left_foot", lower=0.05),
            ),
        ),
        build_walk_problem((0.7, 0.7), obstacle_m=(0.0, 0.2)),
        build_run_problem((1.2, 1.2)),
        build_flip_problem(is_straight=True),
    ],
    ids=lambda problem: problem.name,
)
def test_a41_objective_and_all_rows_against_central_differences(problem, behaviour):
    settings = replace(choose_settings(problem), crouch_m=0.1, rounding=1e-5)  # away from the corner of stretched legs
    built = build_reduced_problem(problem, behaviour(str(problem.basis).removesuffix(".safetensors")), settings)
    programme, rng = built.programme, np.random.default_rng(3)
    x = np.clip(built.start + 0.03 * rng.normal(size=len(built.start)), programme.lower, programme.upper)
    gradient, hessian, jacobian = programme.derivatives(x)
    for _ in range(3):
        d, h = rng.normal(size=len(x)), 1e-5
        (f1, c1), (f0, c0) = programme.values(x + h * d), programme.values(x - h * d)
        rows = (c1 - c0) / (2 * h)
        assert np.abs(jacobian @ d - rows).max() < 1e-6 * max(1.0, np.abs(rows).max())
        assert gradient @ d == pytest.approx((f1 - f0) / (2 * h), rel=1e-6)
        assert d @ (hessian @ d) > 0.0


def test_a42_a_jump_of_two_seconds_converges_and_holds_between_its_nodes(result):
    assert result.is_solved
    assert result.violation < 1e-4
    assert result.counts["amplitudes"] == 7
    assert result.check.plant_drift_m < 1e-6
    assert result.check.wrench_residual < 0.05
    assert result.check.cone_excess == pytest.approx(0.0, abs=1e-3)
    assert result.check.min_normal_force >= -1e-3
    assert result.check.is_valid
    assert result.seconds < 60.0  # a loaded machine; the benchmark prints the figure


def test_a43_the_angular_momentum_of_the_flight_is_constant(result):
    assert result.check.angular_momentum_drift_si < 0.5
    assert result.check.com_velocity_jump < 1e-4
    assert result.check.flight_force < 1e-9


def test_the_jump_looks_like_one(result):
    motion = result.motion
    heights = motion.joint_positions()[:, 0, 1]
    assert motion.num_frames == 123
    assert motion.root_positions[-1, 2] - motion.root_positions[0, 2] == pytest.approx(1.3, abs=0.1)
    assert heights[:54].min() < heights[0] - 0.15  # counter-movement
    assert heights[54:80].max() > heights[0]  # in the air
    assert heights[80:].min() < heights[-1] - 0.1  # soft landing
    assert motion.contacts is not None and not motion.contacts.active[60:78].any()


def test_the_root_needs_no_hidden_force(jumps):
    problem = build_jump_problem(1.0)
    built = build_reduced_problem(problem, jumps, choose_settings(problem))
    frame = built.scene.maker.evaluate(built.scene.variables.values[: built.scene.layout.num_coefficients])
    nodes = np.flatnonzero(~built.scene.nodes.is_flight)[:5]
    tree, state = built.scene.space.tree, frame.state
    external = np.zeros((len(nodes), tree.num_dofs, 6))
    for leg in (0, 1):
        own = np.einsum("nij,nj->ni", built.scene.supports.shares[nodes, leg], frame.wrench.value[nodes])
        external[:, built.scene.space.legs[leg].dofs[6]] = own * built.scene.maker.weight
    full = compute_torques(tree, state.q[nodes], state.qd[nodes], state.qdd[nodes], external=external)
    assert np.abs(full[:, :6]).max() < 1e-8
    heavy = np.searchsorted(built.scene.maker.heavy, nodes)
    assert frame.torque is not None
    assert full[:, 6:] == pytest.approx(frame.torque.value[heavy], abs=1e-7)


def test_a44_a_full_turn_from_clips_of_at_most_half_a_turn():
    problem = load_problem(problem_file("turn-360"))
    assert BehaviourSpace.load(FOLDER / "turn.safetensors").trials == ("83_46", "83_51", "83_54")
    result = optimize(problem)
    yaw = result.motion.rotations[:, 0].wxyz
    forward = np.unwrap(2.0 * np.arctan2(yaw[:, 2], yaw[:, 0]))
    assert np.rad2deg(abs(forward[-1] - forward[0])) == pytest.approx(360.0, abs=2.0)
    assert result.check.is_valid


@pytest.mark.slow
def test_a45_many_dimensions_without_a_prior_save_torque_and_leave_the_data():
    whole = BehaviourSpace.load(FOLDER / "jump.safetensors")
    problem = build_jump_problem(1.3)
    few = optimize_reduced(problem, behaviour=whole.truncate(6))
    free = replace(problem, objective=Objective(accel=1.0, torque=1.0, prior=1e-4))
    many = optimize_reduced(free, behaviour=whole.truncate(20))
    assert few.is_solved and many.is_solved
    assert many.terms["torque"] < few.terms["torque"]
    apart = [float(np.median(whole.distance(whole.tree.from_motion(r.motion)))) for r in (few, many)]
    assert apart[1] > 2.0 * apart[0]


@pytest.mark.slow
def test_a46_two_stages_are_never_needed():
    rng = np.random.default_rng(46)
    jump_lengths = rng.uniform(0.4, 1.7, size=6)
    problems = [build_jump_problem(float(length)) for length in jump_lengths]
    problems += [
        build_jump_problem(0.3, 90.0, basis="turn.safetensors"),
        build_walk_problem((0.7, 0.75)),
        build_run_problem((1.2, 1.25)),
    ]
    problems.append(load_problem(problem_file("step-over")))
    counts = [[optimize_reduced(replace(p, basis=str(p.basis)), stages=stages) for stages in (1, 2)] for p in problems]
    print([(one.iterations, two.iterations) for one, two in counts])
    assert all(one.is_solved for one, _ in counts)


def test_a47_plants_that_no_legs_reach_are_refused_with_their_distance(jumps):
    wide = (Contact("left_foot", (1.0, 0.0, 0.0)), Contact("right_foot", (-1.0, 0.0, 0.0)))
    problem = SpacetimeProblem("split", (ProblemPhase("stand", 1.0, wide),), space="reduced", basis="jump.safetensors")
    with pytest.raises(InputError, match=r"2\.00 m apart"):
        optimize(problem)


def test_contradictions_are_refused_in_words(jumps):
    start = build_jump_problem().phases[0]
    with pytest.raises(InputError, match="begins in the air"):
        optimize_reduced(SpacetimeProblem("fall", (ProblemPhase("fly", 0.4), start), space="reduced"), behaviour=jumps)
    moved = replace(start, name="there", contacts=build_jump_problem().phases[2].contacts)
    with pytest.raises(InputError, match="without having left"):
        optimize_reduced(SpacetimeProblem("slide", (start, moved), space="reduced"), behaviour=jumps)
    hand = ProblemPhase("hang", 0.5, (Contact("left_hand", (0.0, 2.0, 0.0), kind="grip"),))
    with pytest.raises(InputError, match="full space"):
        optimize_reduced(SpacetimeProblem("hang", (hand,), space="reduced"), behaviour=jumps)
    with pytest.raises(InputError, match="reduced space knows"):
        optimize_reduced(
            replace(
                build_jump_problem(), keys=(Key("bar", "flight", target=(0.0, 0.0), lower=0.1, point="left_hand"),)
            ),
            behaviour=jumps,
        )
    with pytest.raises(InputError, match="no basis"):
        optimize(SpacetimeProblem("none", (start,), space="reduced"))
    with pytest.raises(MissingFileError):
        optimize(build_jump_problem(basis="nowhere.safetensors"))
    with pytest.raises(InputError, match="even number"):
        build_walk_problem((0.7,))


def test_a_search_can_be_stopped_and_keeps_what_it_has(jumps):
    seen = []

    def watch(iteration):
        seen.append(iteration.violation)
        return len(seen) >= 3

    result = optimize_reduced(build_jump_problem(), behaviour=jumps, on_iteration=watch)
    assert result.status.value == "stopped"
    assert len(seen) <= 4
    assert np.isfinite(result.motion.root_positions).all()


def test_a_search_keeps_its_time(jumps):
    result = optimize_reduced(build_jump_problem(), behaviour=jumps, time_limit_s=0.05)
    assert not result.is_solved
    assert result.worst


def test_a_solution_is_its_own_warm_start(result):
    again = optimize(load_problem(problem_file("jump-1.3")), warm_start=result.motion)
    assert again.is_solved
    assert again.objective == pytest.approx(result.objective, rel=0.02)
