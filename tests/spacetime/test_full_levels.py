"""Coarse to fine: halved spans start at the coarse motion and bring it nearer to physics between frames."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from oracles.problems import EXAMPLES

from marey.base import InputError
from marey.numerics import SolveStatus, SQPIteration
from marey.spacetime import SpacetimeProblem, SpacetimeResult, optimize, parse_problem
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import refine_layout, refine_unknowns
from marey.spacetime.full.sampling import sample_track
from marey.spacetime.full.solve import COARSE_ADVICE, FullSolution, build_full_result, solve_full
from marey.spacetime.problem.definition import Contact, Objective, ProblemPhase

BARS = EXAMPLES["monkey-bars"]()
FOOT = Contact("left_foot", (0.0, 0.0, 0.0), friction=1.0)
HOP = SpacetimeProblem(
    "hop",
    (
        ProblemPhase("push", 0.33, (FOOT,)),
        ProblemPhase("air", 0.25),
        ProblemPhase("land", 0.3, (replace(FOOT, position=(0.0, 0.0, 0.2)),)),
    ),
    objective=Objective(prior=2.0, reference=0.1),
    guess="crouch",
    limits={"pitch": (-0.3, 0.6), "roll": (-0.3, 0.3), "yaw": (-0.5, 0.5)},
)


@cache
def coarse() -> FullSolution:
    return solve_full(BARS, build_character(BARS))


@cache
def hop(refine: int) -> SpacetimeResult:
    return optimize(replace(HOP, refine=refine), on_failure="return")


@pytest.mark.parametrize("problem", [BARS, HOP])
def test_finer_unknowns_are_the_same_motion_at_every_instant(problem: SpacetimeProblem) -> None:
    solution = coarse() if problem is BARS else solve_full(replace(problem, max_iterations=2), build_character(problem))
    layout, x = solution.layout, solution.x
    finer, y = refine_layout(layout), refine_unknowns(layout, x)
    before = sample_track(layout, x, layout.timeline.grid(6))
    after = sample_track(finer, y, finer.timeline.grid(3))
    assert np.abs(before.times - after.times).max() < 1e-12
    assert y.size == finer.num_unknowns > x.size
    assert np.abs(before.q - after.q).max() < 1e-12
    assert np.abs(before.qd - after.qd).max() < 1e-10 and np.abs(before.qdd - after.qdd).max() < 1e-8


def test_the_second_level_starts_at_the_coarse_curve() -> None:
    seen: list[SQPIteration] = []

    def watch(iteration: SQPIteration) -> None:
        seen.append(iteration)

    result = optimize(replace(BARS, refine=1), on_iteration=watch)
    first = result.levels[0]
    finer = refine_unknowns(coarse().layout, coarse().x) / refine_layout(coarse().layout).scales
    reached = seen[first].x  # after the first step of the second level
    assert first == coarse().answer.iterations and reached.size == finer.size
    assert np.abs(reached - finer).max() == pytest.approx(seen[first].step, abs=1e-9)


def test_knots_of_the_halved_problem_are_those_of_the_refined_spline() -> None:
    spline, _ = coarse().layout.timeline.spline.refine()
    finer = refine_layout(coarse().layout).timeline.spline
    assert finer.knots.shape == spline.knots.shape and np.abs(finer.knots - spline.knots).max() < 1e-12


def test_a_phase_that_is_no_whole_number_of_spans_is_halved_too() -> None:
    layout = solve_full(replace(HOP, max_iterations=1), build_character(HOP)).layout
    spans = [len(layout.timeline.breaks(p)) - 1 for p in range(3)]
    finer = refine_layout(layout)
    assert [len(finer.timeline.breaks(p)) - 1 for p in range(3)] == [2 * n for n in spans]
    assert refine_layout(replace(layout, problem=replace(HOP, refine=2))).problem.refine == 1


def test_refinement_leaves_less_between_the_frames() -> None:
    once = optimize(replace(BARS, refine=1))
    base = build_full_result(coarse(), 0.0)
    assert once.is_solved and once.check.wrench_residual < 0.5 * base.check.wrench_residual
    assert once.counts["spans"] == 2 * base.counts["spans"]


def test_every_level_reports_its_iterations() -> None:
    plain, twice = hop(0), hop(2)
    assert plain.levels == (plain.iterations,)
    assert twice.is_solved and len(twice.levels) == 3 and sum(twice.levels) == twice.iterations
    assert twice.levels[0] == plain.iterations and min(twice.levels) >= 1
    assert len(twice.history) == twice.iterations
    assert twice.to_json()["levels"] == list(twice.levels)
    assert twice.problem is not None and twice.problem.refine == 0


def test_stopping_in_a_finer_level_says_so() -> None:
    first = hop(0).iterations
    seen: list[int] = []

    def watch(iteration: SQPIteration) -> bool:
        seen.append(iteration.index)
        return len(seen) > first

    result = optimize(replace(HOP, refine=1), on_iteration=watch, on_failure="return")
    assert result.status is SolveStatus.STOPPED and result.levels == (first, 1)


def test_quota_that_ends_in_a_finer_level_keeps_the_coarse_motion() -> None:
    few = replace(HOP, refine=1, max_iterations=hop(0).iterations)
    result = optimize(few, on_failure="return")
    assert result.is_solved and result.advice == COARSE_ADVICE and len(result.levels) == 2
    assert np.array_equal(result.motion.root_positions, hop(0).motion.root_positions)


def test_free_durations_are_settled_before_spans_are_halved() -> None:
    phases = (HOP.phases[0], replace(HOP.phases[1], duration_range_s=(0.2, 0.3)), HOP.phases[2])
    result = optimize(replace(HOP, phases=phases, refine=1))
    assert result.is_solved and len(result.levels) == 2 and sum(result.levels) == result.iterations
    assert result.problem is not None and 0.2 <= result.problem.phases[1].duration_s <= 0.3


def test_refine_is_a_key_of_the_file_and_is_checked() -> None:
    text = 'name = "p"\nrefine = 2\n[[phase]]\nname = "a"\nduration_s = 1.0\n'
    assert parse_problem(text).refine == 2
    with pytest.raises(InputError, match="refine is -1"):
        optimize(replace(BARS, refine=-1))
    with pytest.raises(InputError, match="halved 0 to"):
        optimize(replace(BARS, refine=40))


def test_a_motion_that_breaks_physics_between_its_frames_is_not_called_solved() -> None:
    noise = np.random.default_rng(0).normal(scale=0.02, size=coarse().answer.x.size)
    broken = replace(coarse(), answer=replace(coarse().answer, x=coarse().answer.x + noise))
    result = build_full_result(broken, 0.0)
    assert not result.check.is_valid and result.status is SolveStatus.STALLED
    assert result.advice.startswith("Between its frames a ") and result.advice in result.sentence
    worst = result.check.faults[0]
    assert worst.value > worst.limit and f"{worst.time_s:.2f} s" in result.sentence
    assert build_full_result(coarse(), 0.0).is_solved
