"""The parts of a reduced problem: curves, nodes, soles, guess, and the derivatives of a whole small programme."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.dynamics import compute_aggregate, compute_com_motion
from marey.spacetime import SpacetimeProblem, build_jump_problem, build_run_problem, build_walk_problem
from marey.spacetime.problem.definition import Contact, Key, ProblemPhase
from marey.spacetime.reduced.assembly import (
    ReducedSettings,
    build_reduced_problem,
    build_reduced_space,
    choose_settings,
)
from marey.spacetime.reduced.layout import build_layout
from marey.spacetime.reduced.nodes import (
    FLAT,
    FREE,
    ON_HEEL,
    ON_TOES,
    FootRoll,
    NormalForceLimits,
    build_nodes,
    build_supports,
    compute_left_fraction,
    compute_sole_corners,
    grid_instants,
    solver_instants,
)
from marey.spacetime.reduced.track import (
    motion_from_solution,
    sample_contacts,
    sample_reduced_track,
    vector_from_motion,
)


@pytest.fixture(scope="module")
def jump(jumps):
    return build_reduced_problem(build_jump_problem(1.0), jumps)


@pytest.fixture(scope="module")
def walk(walks):
    problem = build_walk_problem((0.7, 0.7))
    return build_reduced_problem(problem, walks, choose_settings(problem))


@pytest.fixture(scope="module")
def legs(jumps):
    return build_reduced_space(jumps).legs


# curves


def test_every_coefficient_belongs_to_one_curve():
    for problem in (build_jump_problem(), build_walk_problem((0.7, 0.7)), build_run_problem((1.2, 1.2))):
        layout = build_layout(problem, 7)
        numbers = np.concatenate([curves.indices.ravel() for curves in layout.families])
        assert np.array_equal(np.sort(numbers), np.arange(layout.num_coefficients))


def test_curves_of_a_jump_live_where_their_contacts_are():
    layout = build_layout(build_jump_problem(), 7)
    assert [run for run, _ in layout.roots] == [(0, 1), (2, 3)]
    assert layout.root_of(1) is None
    for leg in (0, 1):
        assert [interval.is_stance for interval in layout.legs[leg]] == [True, False, True]
    assert layout.is_flight(1)
    assert layout.amplitudes.spline.breaks[[0, -1]] == pytest.approx([0.0, 2.04])
    for edge in layout.edges:
        assert np.abs(layout.amplitudes.spline.breaks - edge).min() < 1e-12  # a knot on every border


def test_the_root_of_a_walk_is_one_curve_and_feet_take_turns():
    layout = build_layout(build_walk_problem((0.7, 0.7)), 7)
    assert [run for run, _ in layout.roots] == [(0, layout.num_phases)]
    stances = [[interval.is_stance for interval in layout.legs[leg]] for leg in (0, 1)]
    assert stances == [[True, False, True], [False, True, False]]


def test_spans_are_shorter_in_flight_and_a_phase_may_ask_for_its_own():
    problem = build_jump_problem(flight_s=0.6)
    steps = [float(np.diff(breaks).max()) for breaks in build_layout(problem, 7).breaks]
    assert steps == pytest.approx([0.1, 0.075, 0.1])
    finer = replace(problem, phases=(replace(problem.phases[0], span_s=0.05), *problem.phases[1:]))
    assert float(np.diff(build_layout(finer, 7).breaks[0]).max()) == pytest.approx(0.05)


# nodes


def test_simpson_weights_integrate_squares_of_accelerations_exactly(jump):
    layout, nodes = jump.scene.layout, jump.scene.nodes
    assert nodes.weights.sum() == pytest.approx(layout.edges[-1], rel=1e-12)
    x = np.random.default_rng(0).normal(size=layout.num_coefficients)
    spline, curves = layout.amplitudes.spline, layout.amplitudes
    c = x[curves.indices[:, 0]]
    gram = spline.second_derivative_gram()
    ours = float(nodes.weights @ nodes.local(x)[:, 2, 0] ** 2)
    assert ours == pytest.approx(float(c @ (gram @ c)), rel=1e-9)


def test_local_unknowns_are_the_splines_and_their_derivatives(jump):
    layout, nodes = jump.scene.layout, jump.scene.nodes
    x = np.random.default_rng(1).normal(size=layout.num_coefficients)
    spline = layout.angles.spline
    c = x[layout.angles.indices[:, 2]]
    inner = np.flatnonzero(nodes.times < layout.edges[-1] - 1e-9)
    for order in (0, 1):
        expected = spline.design(nodes.times[inner], order) @ c
        assert nodes.local(x)[inner, order, 7 + 2] == pytest.approx(expected, abs=1e-9)


def test_nodes_are_knots_middles_and_quarters_where_feet_roll():
    layout, roll = build_layout(build_jump_problem(), 7), FootRoll()
    instants = solver_instants(layout, roll)
    for phase, breaks in enumerate(layout.breaks):
        own = np.array([t for p, t in instants if p == phase])
        assert (np.diff(own) > 1e-9).all()
        for t in (*breaks, *(0.5 * (breaks[1:] + breaks[:-1]))):
            assert np.abs(own - t).min() < 1e-12
    spans = np.diff([t for p, t in instants if p == 0])
    assert spans.min() < 0.02 < 0.04 < spans.max()


def test_further_instants_become_nodes():
    layout = build_layout(build_jump_problem(), 7)
    assert (1, 1.0123) in solver_instants(layout, FootRoll(), ((1, 1.0123),))


def test_a_grid_has_both_ends_of_every_phase():
    layout = build_layout(build_jump_problem(), 7)
    grid = grid_instants(layout, 0.013)
    for phase in range(3):
        own = [t for p, t in grid if p == phase]
        assert (own[0], own[-1]) == pytest.approx((layout.edges[phase], layout.edges[phase + 1]))
        assert np.diff(own).max() <= 0.013 + 1e-12


def test_feet_land_on_the_heel_stand_flat_and_leave_on_the_toes(walk):
    nodes, layout = walk.scene.nodes, walk.scene.layout
    right = nodes.feet[:, 1]
    order = [int(state) for i, state in enumerate(right) if i == 0 or state != right[i - 1]]
    assert order == [FREE, ON_HEEL, FLAT, ON_TOES, FREE]
    down = layout.legs[1][1]
    assert np.array_equal(right == FREE, (nodes.phases < down.phases[0]) | (nodes.phases >= down.phases[1]))


def test_the_standing_foot_at_the_end_of_a_jump_never_rolls(jump):
    last = jump.scene.nodes.phases == 2
    assert (jump.scene.nodes.feet[last] == FLAT).all()


# soles


def test_a_sole_turns_with_its_plant_and_shrinks_as_it_rolls(legs):
    flat = compute_sole_corners(legs[0], Contact("left_foot", (0.1, 0.0, 0.5)), FLAT)
    assert flat.mean(axis=0) == pytest.approx([0.1, 0.0, 0.5], abs=1e-12)
    turned = compute_sole_corners(legs[0], Contact("left_foot", (0.1, 0.0, 0.5), heading_deg=90.0), FLAT)
    assert np.ptp(turned[:, 0]) == pytest.approx(np.ptp(flat[:, 2]))
    toes, heel = (
        compute_sole_corners(legs[0], Contact("left_foot", (0.1, 0.0, 0.5)), state) for state in (ON_TOES, ON_HEEL)
    )
    assert toes[:, 2].max() == pytest.approx(flat[:, 2].max())
    assert heel[:, 2].min() == pytest.approx(flat[:, 2].min())
    assert np.ptp(heel[:, 2]) < np.ptp(toes[:, 2]) < np.ptp(flat[:, 2])


@pytest.fixture(scope="module")
def standing(legs):
    feet = (Contact("left_foot", (0.1, 0.2, 0.3), friction=0.6), Contact("right_foot", (-0.1, 0.2, 0.35), friction=0.6))
    layout = build_layout(SpacetimeProblem("stand", (ProblemPhase("stand", 0.4, feet),), space="reduced"), 7)
    nodes = build_nodes(layout, legs, FootRoll(), [(0, 0.1)], 7)
    supports = build_supports(layout, nodes, legs, NormalForceLimits(margin_m=0.0))
    corners = np.concatenate([compute_sole_corners(legs[k], feet[k], FLAT) for k in (0, 1)])
    return supports, corners


def holds(supports, force, point, twist=0.0):
    wrench = np.concatenate([force, np.cross(point, force) + np.array([0.0, twist, 0.0])])
    k = int(supports.count[0])
    rows = supports.matrix[0, :k] @ wrench
    return bool((rows >= supports.lower[0, :k] - 1e-12).all() and (rows <= supports.upper[0, :k] + 1e-12).all())


def test_forces_inside_the_soles_are_given_and_outside_not(standing):
    supports, corners = standing
    rng, middle = np.random.default_rng(0), corners.mean(axis=0)
    for _ in range(200):
        inside = rng.dirichlet(np.ones(len(corners))) @ corners
        assert holds(supports, [0.0, 1.0, 0.0], inside)
    for corner in corners:
        far = corner + 0.2 * (corner - middle) / np.linalg.norm(corner - middle)
        assert not holds(supports, [0.0, 1.0, 0.0], far)


def test_friction_pull_twist_and_strength_are_limited(standing):
    supports, corners = standing
    middle = corners.mean(axis=0)
    for turn in np.linspace(0.0, 2.0 * np.pi, 13):
        side = np.array([np.cos(turn), 0.0, np.sin(turn)])
        assert holds(supports, np.array([0.0, 1.0, 0.0]) + 0.6 / np.sqrt(2.0) * 0.99 * side, middle)
        assert not holds(supports, np.array([0.0, 1.0, 0.0]) + 0.61 * side, middle)  # outside the real cone too
    assert not holds(supports, [0.0, -0.1, 0.0], middle)
    assert not holds(supports, [0.0, 7.0, 0.0], middle)
    assert holds(supports, [0.0, 1.0, 0.0], middle, twist=0.14)
    assert not holds(supports, [0.0, 1.0, 0.0], middle, twist=-0.16)


def test_two_feet_share_a_wrench_without_losing_any(walk):
    shares = walk.scene.supports.shares[~walk.scene.nodes.is_flight]
    whole = shares.sum(axis=1)
    assert whole == pytest.approx(np.broadcast_to(np.eye(6), whole.shape), abs=1e-12)


def test_the_share_goes_over_from_the_old_foot_to_the_new_one(walk):
    layout, nodes = walk.scene.layout, walk.scene.nodes
    double = np.flatnonzero(nodes.phases == 1)
    shares = [compute_left_fraction(layout, nodes, int(n)) for n in double]
    assert shares[0] == pytest.approx(1.0) and shares[-1] == pytest.approx(0.0)
    assert (np.diff(shares) <= 1e-12).all()


# guess


def test_the_guess_holds_the_body_lower_than_it_stands(jump):
    track, _ = sample_reduced_track(jump, jump.scene.variables.unpack(jump.start), [(0, 0.5)])
    assert track.q[0, 1] < jump.seats[0].q[1] - 0.05


def test_flights_of_the_guess_are_parabolas_from_where_it_leaves_to_where_it_lands(jump):
    values = jump.scene.variables.unpack(jump.start)
    edges = jump.scene.layout.edges
    track, _ = sample_reduced_track(jump, values, [(0, edges[1]), (1, edges[1]), (1, edges[2]), (2, edges[2])])
    com = compute_com_motion(jump.scene.space.tree, track.q, track.qd, track.qdd).position
    assert com[0] == pytest.approx(com[1], abs=1e-9)
    assert com[2] == pytest.approx(com[3], abs=1e-9)


def test_a_flight_needs_no_force_whatever_the_unknowns_are(jump):
    x = jump.start + 0.1 * np.random.default_rng(0).normal(size=len(jump.start))
    track, _ = sample_reduced_track(jump, jump.scene.variables.unpack(x), [(1, t) for t in np.linspace(0.95, 1.3, 8)])
    whole = compute_aggregate(jump.scene.space.tree, track.q, track.qd, track.qdd)
    assert np.abs(whole.wrench[:, :3]).max() < 1e-8 * jump.scene.space.tree.mass * 9.81


def test_packing_undoes_unpacking_and_what_is_fixed_stays(jump):
    variables = jump.scene.variables
    x = np.random.default_rng(0).normal(size=len(jump.start))
    assert variables.pack(variables.unpack(x)) == pytest.approx(x, abs=1e-12)
    fixed = ~variables.is_free
    assert np.array_equal(variables.unpack(x)[fixed], variables.values[fixed])
    assert fixed.any()


def test_the_ends_of_a_jump_stand_still_in_the_poses_of_the_behaviour(jump):
    x = jump.start + 0.05 * np.random.default_rng(0).normal(size=len(jump.start))
    track, _ = sample_reduced_track(jump, jump.scene.variables.unpack(x), [(0, 0.0), (2, jump.scene.layout.edges[-1])])
    for row, seat in enumerate(jump.seats):
        upper = np.setdiff1d(jump.scene.behaviour.columns, jump.scene.space.leg_dofs)
        assert track.q[row, upper] == pytest.approx(seat.q[upper], abs=1e-9)
        assert np.abs(track.qd[row, :6]).max() < 1e-9


def test_a_film_tells_its_contacts_and_its_length(jump):
    motion = motion_from_solution(jump, jump.scene.variables.unpack(jump.start), 30.0, "guess")
    assert (motion.name, motion.num_frames) == ("guess", 62)
    assert motion.contacts is not None
    assert not motion.contacts.active[28:40].any() and motion.contacts.active[:20].all()


def test_a_film_may_be_too_slow_to_show_every_phase(jump):
    assert motion_from_solution(jump, jump.scene.variables.unpack(jump.start), 2.0 / 3.0, "slow").num_frames == 2


def test_the_grid_of_the_check_has_a_thousand_samples_and_sees_what_touches(jump):
    track, nodes, points = sample_contacts(jump, jump.scene.variables.unpack(jump.start))
    assert len(track.times) >= 1000 and np.diff(track.times[nodes.phases == 0]).max() <= 0.05 / 4.0 + 1e-12
    assert points.active[nodes.phases == 0].any(axis=1).all() and not points.active[nodes.is_flight].any()


def test_a_film_of_the_guess_warms_a_search_to_the_guess(jump):
    film = motion_from_solution(jump, jump.scene.variables.unpack(jump.start), 120.0, "guess")
    again = vector_from_motion(jump, film)
    assert np.median(np.abs(again - jump.start)) < 0.02


# the whole programme


def small_problem():
    """A hop of one span each on the ground, with keys of every kind."""
    base = build_jump_problem(0.3, 20.0, flight_s=0.3)
    phases = tuple(replace(phase, duration_s=0.4) for phase in base.phases)
    keys = (
        Key("pose", "flight", 0.5, joints={"LeftLeg": 0.6}),
        Key("range", "flight", None, joints={"RightLeg": 0.0}, lower=0.1, upper=2.0),
        Key("turn", "flight", 1.0, axis="yaw", lower=0.1, upper=0.5),
        Key("com", "flight", 0.5, target=(None, 1.1, None)),
        Key("clearance", "flight", 0.5, point="left_foot", lower=0.02),
        Key("clearance", "flight", 0.5, point="left_hand", lower=0.3),
    )
    return replace(base, phases=phases, keys=keys, span_s=0.2)


@pytest.fixture(scope="module")
def small(jumps):
    return build_reduced_problem(small_problem(), jumps.truncate(3), ReducedSettings(rounding=1e-5))


def test_a41_every_entry_of_the_jacobian_and_gradient_is_a_central_difference(small):
    programme, rng = small.programme, np.random.default_rng(0)
    x = small.start + 0.05 * rng.normal(size=len(small.start))
    gradient, _, jacobian = programme.derivatives(x)
    dense, h = jacobian.toarray(), 1e-6
    for i in range(len(x)):
        step = h * np.eye(len(x))[i]
        (f1, c1), (f0, c0) = programme.values(x + step), programme.values(x - step)
        numeric = (c1 - c0) / (2 * h)
        assert np.abs(dense[:, i] - numeric).max() < 1e-6 * max(1.0, np.abs(numeric).max())
        assert gradient[i] == pytest.approx((f1 - f0) / (2 * h), abs=1e-6 * max(1.0, abs(gradient[i])))


def test_the_hessian_is_symmetric_and_not_negative(small):
    _, hessian, _ = small.programme.derivatives(small.start)
    dense = hessian.toarray()
    assert dense == pytest.approx(dense.T, abs=1e-9 * np.abs(dense).max())
    assert np.linalg.eigvalsh(dense).min() > -1e-9 * np.abs(dense).max()


def test_patterns_do_not_change_with_the_point(small):
    rng = np.random.default_rng(0)
    first, second = (
        small.programme.derivatives(small.start + scale * rng.normal(size=len(small.start))) for scale in (0.0, 0.1)
    )
    for one, other in zip(first[1:], second[1:], strict=True):
        assert np.array_equal(one.indices, other.indices) and np.array_equal(one.indptr, other.indptr)


def test_linear_rows_are_linear(small):
    programme, rng = small.programme, np.random.default_rng(0)
    x, d = small.start, rng.normal(size=len(small.start))
    rows = [programme.values(x + share * d)[1][programme.is_linear] for share in (0.0, 0.5, 1.0)]
    assert programme.is_linear.any()
    assert rows[1] == pytest.approx(0.5 * (rows[0] + rows[2]), abs=1e-9)


def test_rows_have_names_with_their_instant(small):
    names = [small.programme.row_name(i) for i in range(small.programme.row_lower.size)]
    assert all(name.endswith(" s") and " at " in name for name in names)
    for word in ("reach (left_foot)", "joint limit", "key pose (LeftLeg)", "angular momentum", "friction", "clearance"):
        assert any(word in name for name in names)


def test_terms_of_the_objective_add_up_and_scale_with_their_weights(small, jumps):
    start = small.programme.unknowns.unpack(small.start)
    terms = small.programme.terms(start)
    assert sum(terms.values()) == pytest.approx(small.programme.values(small.start)[0], rel=1e-12)
    weights = small.problem.objective
    double = replace(small.problem, objective=replace(weights, accel=2.0 * weights.accel))
    again = build_reduced_problem(double, jumps.truncate(3), ReducedSettings(rounding=1e-5)).programme.terms(start)
    assert again["accel"] == pytest.approx(2.0 * terms["accel"], rel=1e-12)
    assert again["torque"] == pytest.approx(terms["torque"], rel=1e-12)


def test_without_physics_there_is_no_row_of_forces(jumps):
    built = build_reduced_problem(small_problem(), jumps.truncate(3), ReducedSettings(has_physics=False))
    names = [built.programme.row_name(i) for i in range(built.programme.row_lower.size)]
    assert not any("force" in name or "momentum" in name for name in names)
    assert any("reach" in name for name in names)


def test_settings_follow_what_the_feet_do():
    assert choose_settings(build_jump_problem()).roll == FootRoll()
    walk, run = choose_settings(build_walk_problem((0.7, 0.7))), choose_settings(build_run_problem((1.2, 1.2)))
    assert walk.roll.heel_s > 0.0 == run.roll.heel_s
    assert walk.crouch_m == run.crouch_m < choose_settings(build_jump_problem()).crouch_m
