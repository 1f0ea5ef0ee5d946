"""Rows, objectives and pattern of the full space ([Fang2003]_ A18, A21-A24 of the specification)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.problems import EXAMPLES
from scipy.integrate import quad

from marey.base import FloatArray
from marey.dynamics import JointTree, compute_aggregate, compute_torques
from marey.spacetime import SpacetimeProblem
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import BodyState, FullBodyModel, FullLayout, InstantBuilder, Timeline
from marey.spacetime.full.objectives import (
    ACCEL_UNIT,
    build_quadratic_terms,
    compute_effective_masses,
    compute_joint_weights,
    compute_torque_jet,
)
from marey.spacetime.full.programme import FullProgramme
from marey.spacetime.full.sampling import build_guess, sample_track, set_flight_unknowns
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase

ALL_TERMS = Objective(accel=1.0, torque=0.5, prior=0.4, energy=0.3, contact_force=0.5, contact_jerk=0.2)


def programme_of(problem: SpacetimeProblem) -> tuple[FullProgramme, FloatArray]:
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    guess = build_guess(layout)
    return FullProgramme(layout, guess), guess / layout.scales


def shaken(problem: SpacetimeProblem, seed: int = 0) -> tuple[FullProgramme, FloatArray]:
    programme, x = programme_of(problem)
    return programme, x + np.random.default_rng(seed).normal(scale=0.1, size=x.size)


@pytest.mark.parametrize("name", ["dismount-0.6", "monkey-bars", "ground-leap", "space-spin"])
def test_jacobian_and_gradient_equal_central_differences(name: str) -> None:
    programme, x = shaken(replace(EXAMPLES[name](), objective=ALL_TERMS))
    gradient, _, jacobian = programme.derivatives(x)
    direction, h = np.random.default_rng(1).normal(size=x.size), 1e-6
    (f_up, c_up), (f_down, c_down) = programme.values(x + h * direction), programme.values(x - h * direction)
    slope = jacobian @ direction
    assert np.abs((c_up - c_down) / (2 * h) - slope).max() < 1e-6 * np.abs(slope).max()  # A24 and its rows
    assert (f_up - f_down) / (2 * h) == pytest.approx(gradient @ direction, rel=1e-6)


@pytest.mark.parametrize("impact", ["free", "bounded"])
def test_jacobian_of_impacts_equals_central_differences(impact: str) -> None:
    programme, x = shaken(replace(EXAMPLES["pegs"](), impact=impact))
    _, _, jacobian = programme.derivatives(x)
    direction, h = np.random.default_rng(2).normal(size=x.size), 1e-6
    numeric = (programme.values(x + h * direction)[1] - programme.values(x - h * direction)[1]) / (2 * h)
    assert np.abs(numeric - jacobian @ direction).max() < 1e-6 * np.abs(numeric).max()


def test_force_rows_as_printed_equal_central_differences() -> None:
    programme, x = shaken(replace(EXAMPLES["space-spin"](), flight="force"))
    _, _, jacobian = programme.derivatives(x)
    direction, h = np.random.default_rng(3).normal(size=x.size), 1e-6
    numeric = (programme.values(x + h * direction)[1] - programme.values(x - h * direction)[1]) / (2 * h)
    assert np.abs(numeric - jacobian @ direction).max() < 1e-6 * np.abs(numeric).max()


@pytest.mark.parametrize("derivatives", ["pinocchio", "finite-difference"])
def test_other_derivatives_give_the_same_jacobian(derivatives: str) -> None:
    if derivatives == "pinocchio":
        pytest.importorskip("pinocchio")
    problem = EXAMPLES["dismount-0.8"]()
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    guess = build_guess(layout)
    ours = FullProgramme(layout, guess).derivatives(guess / layout.scales)[2]
    theirs = FullProgramme(layout, guess, derivatives=derivatives).derivatives(guess / layout.scales)[2]
    assert np.abs((ours - theirs).toarray()).max() < 1e-5 * np.abs(ours.toarray()).max()


def test_hessian_is_symmetric_positive_and_keeps_its_pattern() -> None:
    programme, x = shaken(replace(EXAMPLES["dismount-0.6"](), objective=ALL_TERMS))
    _, first, _ = programme.derivatives(x)
    _, second, _ = programme.derivatives(x + 0.1)
    assert np.array_equal(first.indices, second.indices) and np.array_equal(first.indptr, second.indptr)
    dense = first.toarray()
    assert np.abs(dense - dense.T).max() < 1e-9 * np.abs(dense).max()
    assert np.linalg.eigvalsh(dense).min() > 0.0


def test_rows_of_one_instant_have_at_most_four_entries_a_coordinate() -> None:
    programme, x = shaken(EXAMPLES["pegs"]())
    jacobian = programme.derivatives(x)[2].tocsr()
    carried = 2 * 3 + 3  # place, speed and spin of a flight
    assert np.diff(jacobian.indptr).max() <= 4 * programme.layout.num_angles + carried  # A18


def test_entries_grow_linearly_with_bases_and_coordinates() -> None:
    foot = Contact("left_foot", (0.0, 0.0, 0.0))
    counts = [programme_of(SpacetimeProblem("stand", (ProblemPhase("stand", t, (foot,)),)))[0] for t in (1.0, 2.0, 4.0)]
    entries = [p.derivatives(programme_of(p.layout.problem)[1])[2].nnz for p in counts]
    assert (entries[2] - entries[1]) / (entries[1] - entries[0]) == pytest.approx(2.0, rel=0.05)  # A18


def test_basis_sums_to_one_and_its_derivatives_to_zero() -> None:
    timeline = Timeline.from_problem(EXAMPLES["pegs"]())
    instants = timeline.grid(7)
    assert np.abs(instants.basis[0].sum(axis=1) - 1.0).max() < 1e-12  # A21
    for order, size in ((1, 1e2), (2, 1e4)):
        assert np.abs(instants.basis[order].sum(axis=1)).max() < 1e-12 * size


def test_accelerations_jump_only_where_contacts_change() -> None:
    timeline = Timeline.from_problem(EXAMPLES["pegs"]())
    points = np.random.default_rng(0).normal(size=(timeline.spline.num_coefficients, 2))
    left, right = InstantBuilder(timeline), InstantBuilder(timeline)
    edge = float(timeline.edges[1])
    left.add(0, edge)
    right.add(1, edge)
    before, after = left.build().curves(points), right.build().curves(points)
    assert np.abs(before[0] - after[0]).max() < 1e-12 and np.abs(before[1] - after[1]).max() < 1e-10
    assert np.abs(before[2] - after[2]).max() > 1.0  # A21


def test_accel_hessian_is_banded_with_two_free_curves_an_angle() -> None:
    foot = Contact("left_foot", (0.0, 0.0, 0.0))
    layout = FullLayout.from_problem(
        SpacetimeProblem("stand", (ProblemPhase("stand", 2.0, (foot,)),)), FullBodyModel.from_tree(JointTree.fang22())
    )
    matrix = build_quadratic_terms(layout)[0].matrix.toarray()
    one = matrix[:: layout.num_angles, :: layout.num_angles]
    rows, columns = np.nonzero(np.abs(one) > 1e-14 * np.abs(one).max())
    assert np.abs(rows - columns).max() == 3  # A22: half-bandwidth
    assert np.count_nonzero(np.linalg.eigvalsh(one) < 1e-10 * np.abs(one).max()) == 2  # A22: nullity


def test_accel_equals_adaptive_quadrature() -> None:
    problem = EXAMPLES["dismount-0.6"]()
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    points = np.random.default_rng(4).normal(size=(layout.num_points, layout.num_angles))
    shares, spline = compute_joint_weights(layout), layout.timeline.spline

    def density(t: float, p: int) -> float:
        return float(((spline.design([t], 2).toarray() @ points) ** 2)[0] @ shares[p])

    total = 0.0
    for p in range(len(problem.phases)):
        for low, high in zip(layout.timeline.breaks(p)[:-1], layout.timeline.breaks(p)[1:], strict=True):
            total += quad(density, low, high, args=(p,), epsabs=1e-12)[0]
    term, x = build_quadratic_terms(layout)[0], np.zeros(layout.num_unknowns)
    x[: points.size] = points.ravel()
    assert (x - term.centre) @ (term.matrix @ (x - term.centre)) == pytest.approx(total / ACCEL_UNIT, rel=1e-10)  # A22


def test_left_knee_in_left_stance_moves_all_but_the_left_lower_leg() -> None:
    tree = JointTree.fang22()
    knee = tree.index("left_knee")
    masses = compute_effective_masses(tree, tree.points["left_foot"][0])
    assert masses[knee] == pytest.approx(tree.mass - tree.masses[knee], abs=1e-12)  # A23


def test_two_sides_of_any_cut_add_up_to_the_body() -> None:
    tree = JointTree.fang22()
    for side in ("left_foot", "right_hand"):
        near, far = compute_effective_masses(tree, None), compute_effective_masses(tree, tree.points[side][0])
        for dof in range(tree.num_dofs):
            is_between = tree.points[side][0] in tree.subtree(dof)
            assert near[dof] + far[dof] == pytest.approx(tree.mass if is_between else 2 * near[dof], abs=1e-12)  # A23


def torque_programme(name: str) -> tuple[FullProgramme, BodyState, FloatArray]:
    programme, x = shaken(replace(EXAMPLES[name](), objective=Objective(torque=1.0)))
    real = x * programme.layout.scales
    return programme, programme.evaluate_state(real, derivatives=True), real


@pytest.mark.parametrize("name", ["dismount-0.6", "pegs"])
def test_root_carries_no_torque_and_joints_match_newton_euler(name: str) -> None:
    programme, state, x = torque_programme(name)
    layout, tree = programme.layout, programme.layout.figure.tree
    track = sample_track(layout, set_flight_unknowns(layout, x), programme.instants)
    for phase in (0, 1):
        at = np.flatnonzero(programme.instants.phases == phase)
        ours = compute_torque_jet(layout, state, at, phase).value * layout.weight
        external = np.zeros((len(at), tree.num_dofs, 6))
        q, qd, qdd = (a[at] for a in (track.q, track.qd, track.qdd))
        contacts = layout.timeline.phases[phase].contacts
        if contacts:
            external[:, layout.figure.point(contacts[0].point)[0]] = compute_aggregate(tree, q, qd, qdd).wrench
            assert np.abs(ours[:, layout.figure.root_angles]).max() < 1e-8 * np.abs(ours).max()
        theirs = compute_torques(tree, q, qd, qdd, external=external)[:, layout.figure.angles]
        assert np.abs(ours - theirs).max() < 1e-8 * np.abs(theirs).max()


def test_keys_at_the_ends_become_bounds_and_need_no_rows() -> None:
    phase = ProblemPhase("float", 1.0)
    keys = (Key("pose", "float", 0.0, joints={"pitch": 0.3}), Key("velocity", "float", 0.0))
    programme, _ = programme_of(SpacetimeProblem("float", (phase,), keys=keys, gravity=0.0, guess="stand"))
    pitch = programme.layout.figure.angle_index("pitch")
    assert programme.lower[pitch] == programme.upper[pitch] == pytest.approx(0.3)
    second = programme.layout.num_angles + pitch
    assert programme.lower[second] == programme.upper[second] == pytest.approx(0.3)


def test_settled_guess_keeps_all_linear_rows() -> None:
    programme, x = programme_of(EXAMPLES["dismount-0.6"]())
    start = programme.settle_linear_rows(x * programme.layout.scales)
    rows = programme.values(start / programme.layout.scales)[1]
    assert np.all(rows[programme.is_linear] >= programme.row_lower[programme.is_linear] - 1e-9)
    assert np.all(rows[programme.is_linear] <= programme.row_upper[programme.is_linear] + 1e-9)
