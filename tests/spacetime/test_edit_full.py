"""Whole problems: validity bar, styles, simplified bodies, mass and mirror ([Fang2003]_ A37, A38, A48, A52)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.problems import build_ground_leaping
from oracles.validity_bar import compute_validity_bar

from marey.base import InputError
from marey.dynamics import JointTree, compute_aggregate
from marey.spacetime import SpacetimeProblem, build_pose_style, optimize, optimize_styled
from marey.spacetime.full.layout import FullBodyModel, FullLayout
from marey.spacetime.full.programme import FullProgramme, SimplifiedProgramme
from marey.spacetime.full.sampling import build_guess, sample_track
from marey.spacetime.full.solve import solve_full
from marey.spacetime.problem.definition import ProblemPhase
from marey.spacetime.problem.supply import SolutionTrack

TREE = JointTree.fang22()


def leap() -> SpacetimeProblem:
    """One leap on flat ground: support, flight, support."""
    whole = build_ground_leaping()
    phases: tuple[ProblemPhase, ...] = whole.phases[:3]
    names = {phase.name for phase in phases}
    return replace(whole, name="leap", phases=phases, keys=tuple(key for key in whole.keys if key.phase in names))


@pytest.fixture(scope="module")
def solved() -> SolutionTrack:
    solution = solve_full(leap(), TREE)
    assert solution.answer.is_solved
    return sample_track(solution.layout, solution.x, solution.layout.timeline.grid(8))


@pytest.fixture(scope="module")
def plain():
    return optimize(leap())


# The validity bar (A48)


def test_a48_an_optimised_leap_is_green(solved: SolutionTrack) -> None:
    assert compute_validity_bar(TREE, leap(), solved).green >= 0.98


def test_a48_with_half_the_gravity_its_flight_is_red(solved: SolutionTrack) -> None:
    bar = compute_validity_bar(TREE, leap(), solved, gravity=0.5 * 9.81)
    assert bar.is_flight.any()
    assert bar.red_in_flight >= 0.8


def test_a48_with_the_height_scaled_its_flight_is_red(solved: SolutionTrack) -> None:
    whole = compute_aggregate(TREE, solved.q, solved.qd, solved.qdd)
    up = TREE.index("root_ty")
    q, qd, qdd = solved.q.copy(), solved.qd.copy(), solved.qdd.copy()
    q[:, up] += 0.3 * whole.com[:, 1]
    qd[:, up] += 0.3 * whole.com_velocity[:, 1]
    qdd[:, up] += 0.3 * (whole.wrench[:, 1] / TREE.mass - 9.81)
    assert compute_validity_bar(TREE, leap(), replace(solved, q=q, qd=qd, qdd=qdd)).red_in_flight >= 0.8


# Styles (F30)


def shoulders(motion) -> float:
    q = TREE.from_motion(motion)
    return float(q[:, [TREE.index("left_shoulder_rx"), TREE.index("right_shoulder_rx")]].mean())


def test_a_style_changes_the_arms_and_keeps_the_leap_valid(plain) -> None:
    forward = build_pose_style(TREE, {"left_shoulder_rx": -1.2, "right_shoulder_rx": -1.2}, 5.0)
    styled = optimize_styled(leap(), styles=[forward])
    assert styled.check.is_valid
    assert abs(shoulders(styled.motion) + 1.2) < 0.5 * abs(shoulders(plain.motion) + 1.2)


def test_without_styles_the_same_motion_is_found(plain) -> None:
    again = optimize_styled(leap())
    assert np.abs(TREE.from_motion(again.motion) - TREE.from_motion(plain.motion)).max() < 1e-9


def assert_derivatives(programme, size: int) -> None:
    rng = np.random.default_rng(2)
    x = np.clip(0.1 * rng.normal(size=size), programme.lower, programme.upper)
    gradient, hessian, jacobian = programme.derivatives(x)
    assert hessian.shape == (size, size)
    d, step = rng.normal(size=size), 1e-6
    (high, above), (low, below) = programme.values(x + step * d), programme.values(x - step * d)
    assert gradient @ d == pytest.approx((high - low) / (2 * step), rel=1e-5)
    slope = (above - below) / (2 * step)
    np.testing.assert_allclose(jacobian @ d, slope, rtol=0, atol=1e-6 * max(1.0, np.abs(slope).max()))


@pytest.fixture(scope="module")
def inner() -> FullProgramme:
    layout = FullLayout.from_problem(leap(), FullBodyModel.from_tree(TREE))
    return FullProgramme(layout, build_guess(layout))


def test_derivatives_of_a_styled_programme_equal_differences(inner: FullProgramme) -> None:
    style = build_pose_style(TREE, {"left_elbow": 0.7, "root_rx": 0.1}, 3.0)
    styled = FullProgramme(inner.layout, build_guess(inner.layout), styles=(style,))
    assert_derivatives(styled, inner.layout.num_unknowns)


def test_derivatives_of_a_simplified_programme_equal_differences(inner: FullProgramme) -> None:
    simple = SimplifiedProgramme(inner, inner.layout, few_arms())
    assert_derivatives(simple, simple.lower.size)
    assert simple.lower.size < inner.layout.num_unknowns


# Simplified characters (F31, A52)


def few_arms() -> np.ndarray:
    """Arms that swing forward and back only, elbows that bend as one."""
    S = np.eye(TREE.num_dofs)
    S[TREE.index("right_elbow"), TREE.index("left_elbow")] = 1.0
    gone = [TREE.index(f"{side}_shoulder_r{axis}") for side in ("left", "right") for axis in "yz"]
    return np.delete(S, [*gone, TREE.index("right_elbow")], axis=1)


def test_a52_a_simplified_leap_is_valid_for_the_whole_body() -> None:
    found = optimize_styled(leap(), S=few_arms())
    assert found.check.is_valid
    assert found.check.flight_force < 1e-9
    q = TREE.from_motion(found.motion)
    assert np.abs(q[:, TREE.index("left_shoulder_rz")]).max() < 1e-9
    assert np.abs(q[:, TREE.index("left_elbow")] - q[:, TREE.index("right_elbow")]).max() < 1e-9


@pytest.mark.parametrize(
    ("S", "words"),
    [
        (np.eye(5), "one row for each"),
        (np.full((22, 22), np.nan), "finite"),
        (np.ones((22, 2)), "follows two"),
        (np.eye(22)[:, :3], "moves no angle"),
    ],
)
def test_maps_that_fit_no_character_are_refused(S: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        optimize_styled(leap(), S=S)


# Symmetries of the problem


def test_a37_twice_the_mass_gives_the_same_motion(plain) -> None:
    heavy = optimize(replace(leap(), mass_kg=2.0 * leap().mass_kg))
    assert np.abs(TREE.from_motion(heavy.motion) - TREE.from_motion(plain.motion)).max() < 1e-3


def mirrored(problem: SpacetimeProblem) -> SpacetimeProblem:
    swap = {"left": "right", "right": "left"}

    def other(name: str) -> str:
        side, _, rest = name.partition("_")
        return f"{swap[side]}_{rest}" if side in swap else name

    phases = tuple(
        replace(
            phase,
            contacts=tuple(
                replace(c, point=other(c.point), position=(-c.position[0], *c.position[1:])) for c in phase.contacts
            ),
        )
        for phase in problem.phases
    )
    keys = tuple(replace(key, point=None if key.point is None else other(key.point)) for key in problem.keys)
    return replace(problem, phases=phases, keys=keys)


def test_a38_a_mirrored_problem_gives_the_mirrored_motion(plain) -> None:
    found = optimize(mirrored(leap()))
    names = TREE.names
    swap = [names.index(n.replace("left", "*").replace("right", "left").replace("*", "right")) for n in names]
    flips = np.array([-1.0 if n.endswith(("_tx", "_ry", "_rz")) else 1.0 for n in names])
    expected = TREE.from_motion(plain.motion)[:, swap] * flips
    assert np.abs(TREE.from_motion(found.motion) - expected).max() < 1e-3
