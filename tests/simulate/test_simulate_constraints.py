"""Rows of a step: what holds, who pushes, and what gives way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.constrained_step import solve_step

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import Body
from marey.models import PoseModel
from marey.numerics import solve_qp
from marey.simulate import HolonomicConstraint, Mechanics, Pin, Simulator, VelocityConstraint
from marey.simulate.constrained_step import (
    BILATERAL,
    UNILATERAL,
    ConstraintRows,
    StepSolution,
    make_rows,
    stack_rows,
)

seeds = st.integers(0, 2**32 - 1)


def random_step(
    seed: int, size: int, equalities: int, inequalities: int
) -> tuple[FloatArray, FloatArray, ConstraintRows]:
    """Inertia, right-hand side and rows that some velocity keeps."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    inertia = root @ root.T + 0.1 * np.eye(size)
    held = make_rows(
        rng.normal(size=(equalities, size)), rng.normal(size=equalities), is_equality=True, name="held", priority=1
    )
    J = rng.normal(size=(inequalities, size))
    inside = np.linalg.lstsq(held.J, held.b)[0] if equalities else np.zeros(size)
    free = make_rows(J, J @ inside - rng.exponential(0.5, inequalities), is_equality=False, name="kept", priority=1)
    return inertia, 3.0 * rng.normal(size=size), stack_rows([held, free])


def optimality(inertia: FloatArray, rhs: FloatArray, rows: ConstraintRows, found: StepSolution) -> float:
    """How far velocity and multipliers are from Newton's law."""
    return float(np.abs(inertia @ found.velocity - rhs - rows.J.T @ found.multipliers).max())


@settings(max_examples=60, deadline=None)
@given(seed=seeds, equalities=st.integers(0, 5), inequalities=st.integers(0, 40))
def test_tournier_51_rows_hold_and_impulses_push_only_where_they_touch(
    seed: int, equalities: int, inequalities: int
) -> None:
    inertia, rhs, rows = random_step(seed, 12, equalities, inequalities)
    found = solve_step(inertia, rhs, rows)
    gap, is_held = rows.J @ found.velocity - rows.b, rows.kinds == BILATERAL
    push = found.multipliers[~is_held]
    scale = max(1.0, float(np.abs(found.multipliers).max(initial=0.0)))
    assert np.abs(gap[is_held]).max(initial=0.0) <= 1e-9
    assert gap[~is_held].min(initial=0.0) >= -1e-9
    assert push.min(initial=0.0) >= -1e-9
    assert abs(push @ gap[~is_held]) <= 1e-8 * scale
    assert optimality(inertia, rhs, rows, found) <= 1e-9 * scale
    assert found.is_converged and not found.relaxed


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_tournier_51_duplicated_rows_do_not_change_the_velocity(seed: int) -> None:
    inertia, rhs, rows = random_step(seed, 12, 3, 20)
    rng = np.random.default_rng(seed)
    again = rng.integers(0, len(rows), 15)
    scales = rng.uniform(0.5, 2.0, 15)
    copies = make_rows(scales[:, None] * rows.J[again], scales * rows.b[again], is_equality=False, name="again")
    copies = replace(copies, lower=rows.lower[again], upper=rows.upper[again])
    twice = stack_rows([rows, copies])
    one, two = solve_step(inertia, rhs, rows), solve_step(inertia, rhs, twice)
    np.testing.assert_allclose(two.velocity, one.velocity, rtol=0, atol=1e-8)
    assert not two.relaxed


@settings(max_examples=40, deadline=None)
@given(seed=seeds, equalities=st.integers(0, 4), inequalities=st.integers(1, 60))
def test_the_velocity_is_that_of_an_independent_solver(seed: int, equalities: int, inequalities: int) -> None:
    inertia, rhs, rows = random_step(seed, 21, equalities, inequalities)
    found = solve_step(inertia, rhs, rows)
    upper = np.where(rows.kinds == BILATERAL, rows.b, np.inf)
    peer = solve_qp(inertia, -rhs, rows.J, rows.b, upper, on_failure="raise")
    np.testing.assert_allclose(found.velocity, peer.x, rtol=0, atol=1e-7 * max(1.0, np.abs(peer.x).max()))


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_a_good_guess_of_the_multipliers_changes_the_work_and_not_the_answer(seed: int) -> None:
    inertia, rhs, rows = random_step(seed, 15, 2, 40)
    cold = solve_step(inertia, rhs, rows)
    warm = solve_step(inertia, rhs, rows, start=cold.multipliers)
    np.testing.assert_allclose(warm.velocity, cold.velocity, rtol=0, atol=1e-9)
    assert warm.changes <= cold.changes


def test_of_two_parallel_rows_the_tighter_one_holds() -> None:
    J = np.array([[1.0, 0.0], [2.0, 0.0]])
    rows = make_rows(J, np.array([1.0, 6.0]), is_equality=False, name="wall")
    found = solve_step(np.eye(2), np.zeros(2), rows)
    np.testing.assert_allclose(found.velocity, [3.0, 0.0], atol=1e-9)


def test_rows_that_contradict_one_another_are_relaxed_and_named() -> None:
    low = make_rows(np.array([[1.0, 0.0]]), np.array([1.0]), is_equality=True, name="wish", priority=0)
    high = make_rows(np.array([[1.0, 0.0]]), np.array([2.0]), is_equality=True, name="law", priority=2)
    found = solve_step(np.diag([2.0, 1.0]), np.array([0.0, 5.0]), stack_rows([low, high]))
    assert "wish" in found.relaxed
    np.testing.assert_allclose(found.velocity, [2.0, 5.0], atol=1e-3)
    assert found.missed[0] == pytest.approx(1.0, abs=1e-3)


def test_walls_that_close_in_are_met_in_the_middle() -> None:
    J = np.array([[1.0], [-1.0]])
    found = solve_step(np.eye(1), np.zeros(1), make_rows(J, np.array([1.0, 0.5]), is_equality=False, name="walls"))
    assert found.relaxed == ("walls",)
    np.testing.assert_allclose(found.velocity, [0.25], atol=1e-3)
    assert np.isfinite(found.multipliers).all()


def test_a_row_that_nothing_can_move_changes_nothing() -> None:
    rows = make_rows(np.zeros((1, 3)), np.array([-1.0]), is_equality=False, name="far")
    found = solve_step(np.eye(3), np.arange(3.0), rows)
    np.testing.assert_allclose(found.velocity, np.arange(3.0), atol=1e-12)


def test_a_step_without_rows_is_free() -> None:
    rows = make_rows(np.zeros((0, 3)), np.zeros(0), is_equality=True, name="none")
    np.testing.assert_allclose(solve_step(2.0 * np.eye(3), np.ones(3), rows).velocity, 0.5)


@pytest.mark.parametrize("broken", ["inertia", "rhs", "rows"])
def test_entries_that_are_not_finite_are_refused(broken: str) -> None:
    inertia, rhs, rows = random_step(1, 4, 1, 2)
    inertia, rhs, J = inertia.copy(), rhs.copy(), rows.J.copy()
    {"inertia": inertia[0], "rhs": rhs, "rows": J[0]}[broken][0] = np.nan
    bad = replace(rows, J=J)
    with pytest.raises(InputError, match="not finite"):
        solve_step(inertia, rhs, bad)


def test_kinds_tell_which_rows_hold_both_ways() -> None:
    assert list(random_step(3, 4, 1, 2)[2].kinds) == [BILATERAL, UNILATERAL, UNILATERAL]


@pytest.mark.mocap
def test_a_pinned_hand_stays_where_it_is(d1_body: Body, d1_model: PoseModel) -> None:
    simulator = Simulator(d1_body, d1_model, damping="energetic", damping_rate=2.0)
    j = d1_body.skeleton.names.index("LeftHand")
    place = simulator.mechanics().joints[j]
    held = Simulator(d1_body, d1_model, damping="energetic", damping_rate=2.0, constraints=[Pin("LeftHand", place)])
    for _ in range(100):
        held.step(0.01)
    assert np.linalg.norm(held.mechanics().joints[j] - place) < 0.01
    assert held.mechanics().com[1] < simulator.mechanics().com[1]  # it hangs from there


@pytest.mark.mocap
def test_the_drift_of_a_pin_shrinks_by_its_part_at_each_step(d1_body: Body, d1_model: PoseModel) -> None:
    j = d1_body.skeleton.names.index("LeftHand")
    free = Simulator(d1_body, d1_model)
    place = free.mechanics().joints[j] + np.array([1e-3, 0.0, 0.0])
    held = Simulator(d1_body, d1_model, gravity=(0, 0, 0), constraints=[Pin("LeftHand", place, gamma=0.5)])
    for _ in range(4):
        held.step(1e-3)
    assert np.linalg.norm(held.mechanics().joints[j] - place) == pytest.approx(1e-3 / 2**4, rel=0.05)


@pytest.mark.mocap
def test_a_holonomic_floor_for_the_hand_is_not_passed(d1_body: Body, d1_model: PoseModel) -> None:
    j = d1_body.skeleton.names.index("RightHand")
    floor = Simulator(d1_body, d1_model).mechanics().joints[j][1] - 0.1

    def above(here: Mechanics) -> tuple[FloatArray, FloatArray]:
        return here.joints[j, 1:2] - floor, here.point_jacobian(j)[1:2]

    held = Simulator(d1_body, d1_model, constraints=[HolonomicConstraint(above, is_equality=False)])
    lowest = min(held.step(0.002) and held.mechanics().joints[j][1] for _ in range(200))
    assert -5e-4 < lowest - floor < 1e-3


@pytest.mark.mocap
def test_a_velocity_that_is_held_is_held(d1_body: Body, d1_model: PoseModel) -> None:
    row = np.zeros((1, 16))
    row[0, 6] = 1.0
    held = Simulator(d1_body, d1_model, constraints=[VelocityConstraint(row, [0.3])])
    for _ in range(5):
        assert held.step(0.01).velocity[6] == pytest.approx(0.3, abs=1e-9)


@pytest.mark.mocap
def test_wrong_constraints_are_refused_in_words(d1_body: Body, d1_model: PoseModel) -> None:
    with pytest.raises(InputError, match="constraint is a str"):
        Simulator(d1_body, d1_model, constraints=["pin"])
    with pytest.raises(UnknownNameError, match="LeftHnd"):
        Simulator(d1_body, d1_model, constraints=[Pin("LeftHnd", (0, 0, 0))]).step(0.01)
    with pytest.raises(InputError, match="gamma"):
        Pin("LeftHand", (0, 0, 0), gamma=0.0)
    with pytest.raises(InputError, match="axes"):
        Pin("LeftHand", (0, 0, 0), axes="w")
    with pytest.raises(InputError):
        Pin("LeftHand", (0, np.nan, 0))
    with pytest.raises(InputError, match="columns"):
        Simulator(d1_body, d1_model, constraints=[VelocityConstraint(np.ones((1, 3)), [0.0])]).step(0.01)


@pytest.mark.mocap
def test_pins_that_tear_the_figure_apart_are_relaxed_and_the_figure_stays_finite(
    d1_body: Body, d1_model: PoseModel
) -> None:
    pins = [Pin("LeftHand", (0, 1, 0), gamma=1.0), Pin("LeftHand", (0, 2, 0), gamma=1.0)]
    held = Simulator(d1_body, d1_model, damping="energetic", damping_rate=2.0, constraints=pins)
    for _ in range(10):
        state = held.step(0.01)
        assert np.isfinite(state.velocity).all()
    assert held.outcome is not None
    assert held.outcome.relaxed == ("pin of LeftHand",)
