"""Laws of the parts of the full space: jets, instants, supports on slopes, sampled motions, durations."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.problems import EXAMPLES

from marey.base import FloatArray
from marey.dynamics import JointTree, compute_aggregate, compute_point_motion
from marey.spacetime import SpacetimeProblem, SpacetimeResult, optimize
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import (
    FullBodyModel,
    FullLayout,
    InstantBuilder,
    Timeline,
    compute_body_state,
    motion_jets,
)
from marey.spacetime.full.programme import FullProgramme
from marey.spacetime.full.sampling import (
    ALLOWED_EXCESS,
    build_guess,
    compute_support_com,
    find_weak_instants,
    motion_from_unknowns,
    sample_track,
)
from marey.spacetime.full.solve import find_free_phases, replace_durations
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase
from marey.spacetime.problem.supply import build_support
from marey.spacetime.programme import StateJet, chain_blocks, cross_rows, skew_matrices

FOOT = Contact("left_foot", (0.0, 0.0, 0.0), friction=1.0)
HOP = SpacetimeProblem(
    "hop",
    (
        ProblemPhase("push", 0.3, (FOOT,)),
        ProblemPhase("air", 0.25),
        ProblemPhase("land", 0.3, (replace(FOOT, position=(0.0, 0.0, 0.2)),)),
    ),
    objective=Objective(prior=2.0),
    guess="crouch",
    limits={"pitch": (-0.3, 0.6), "roll": (-0.3, 0.3), "yaw": (-0.5, 0.5)},
    floor_m=None,
)
seeds = st.integers(0, 10_000)


@cache
def hop() -> SpacetimeResult:
    return optimize(HOP)


def random_jet(seed: int, width: int = 3) -> StateJet:
    rng = np.random.default_rng(seed)
    return StateJet(rng.normal(size=(4, width)), rng.normal(size=(3, 4, width, 5)))


def near(a: StateJet, b: StateJet) -> bool:
    return bool(np.allclose(a.value, b.value, atol=1e-12) and np.allclose(a.partials, b.partials, atol=1e-12))


@given(seed=seeds)
def test_vector_product_is_that_of_numpy_and_of_its_matrix(seed: int) -> None:
    a, b = np.random.default_rng(seed).normal(size=(2, 6, 3))
    assert np.abs(cross_rows(a, b) - np.cross(a, b)).max() < 1e-13
    assert np.abs((skew_matrices(a) @ b[..., None])[..., 0] - np.cross(a, b)).max() < 1e-13


@given(seed=seeds)
def test_vector_product_of_jets_is_bilinear_and_antisymmetric(seed: int) -> None:
    a, b, c = (random_jet(seed + i) for i in range(3))
    assert near(a.cross(b), b.cross(a) * -1.0)
    assert near((a + b).cross(c), a.cross(c) + b.cross(c))
    assert near(a.cross(a), a * 0.0)


@given(seed=seeds)
def test_constant_maps_of_jets_compose(seed: int) -> None:
    jet, rng = random_jet(seed), np.random.default_rng(seed)
    A, B = rng.normal(size=(2, 3)), rng.normal(size=(4, 2))
    assert near(jet.apply_matrix(A).apply_matrix(B), jet.apply_matrix(B @ A))
    direction = rng.normal(size=3)
    assert near(jet.component_along(np.tile(direction, (4, 1))), jet.apply_matrix(direction[None]))
    assert near(StateJet.stack([jet.columns(np.array([0])), jet.columns(np.array([1, 2]))]), jet)


def test_partials_of_a_point_follow_from_its_jacobian() -> None:
    J, Jd, Jdd = np.random.default_rng(0).normal(size=(3, 2, 3, 4))
    place, speed, pull = (jet.partials for jet in motion_jets((J[..., 0], Jd[..., 0], Jdd[..., 0]), (J, Jd, Jdd)))
    assert np.array_equal(place[0], speed[1]) and np.array_equal(speed[1], pull[2])
    assert np.array_equal(pull[1], 2.0 * speed[0]) and not place[1:].any() and not speed[2].any()


def test_blocks_are_the_chain_rule_through_the_spline() -> None:
    timeline = Timeline.from_problem(HOP)
    instants = timeline.grid(3)
    rng = np.random.default_rng(1)
    points, change = rng.normal(size=(2, timeline.spline.num_coefficients, 5))
    maps = rng.normal(size=(3, 2, 5))  # y = A q + B qd + C qdd
    count = len(instants.times)
    partials = np.broadcast_to(maps[:, None], (3, count, 2, 5)).copy()
    basis = np.repeat(instants.basis.transpose(1, 0, 2)[:, None], 5, axis=1)
    entries = np.zeros((count, 2, 20))
    chain_blocks(partials, np.arange(count), basis, np.ones((count, 20)), entries)
    near_points = change[instants.first[:, None] + np.arange(4)].swapaxes(1, 2)
    ours = np.einsum("nmc,nc->nm", entries, near_points.reshape(count, -1))
    curves = instants.curves(points + change), instants.curves(points)
    exact = sum(np.einsum("md,nd->nm", maps[k], curves[0][k] - curves[1][k]) for k in range(3))
    assert np.abs(ours - exact).max() < 1e-9 * np.abs(exact).max()


@pytest.mark.parametrize("tree", [JointTree.fang22(), JointTree.fang7()])
def test_values_alone_are_the_values_of_the_full_state(tree: JointTree) -> None:
    figure = FullBodyModel.from_tree(tree)
    rng = np.random.default_rng(2)
    angles, speeds, pulls = rng.normal(scale=0.5, size=(3, 6, len(figure.angles)))
    name = "left_hand" if "left_hand" in tree.points else "hands"
    points = ((name, *figure.point(name)),)
    light = compute_body_state(figure, (angles, speeds, pulls), points, None)
    full = compute_body_state(figure, (angles, speeds, pulls), points)
    for part in ("angles", "speeds", "com", "com_velocity", "com_acceleration", "spin", "spin_rate"):
        ours, theirs = getattr(light, part), getattr(full, part)
        assert np.abs(ours.value - theirs.value).max() < 1e-9 and ours.partials.shape[-1] == 0
    for ours, theirs in zip(light.points[name], full.points[name], strict=True):
        assert np.abs(ours.value - theirs.value).max() < 1e-12


def test_instants_asked_for_twice_are_one_and_borders_have_two_sides() -> None:
    timeline = Timeline.from_problem(HOP)
    builder = InstantBuilder(timeline)
    first = builder.add(0, 0.1)
    assert builder.add(0, 0.1) == first and builder.add(0, 0.2) != first
    assert builder.add(0, 0.3) != builder.add(1, 0.3)
    assert builder.add(1, 0.3 + 1e-12) == builder.add(1, 0.3)
    assert len(builder.build().times) == 4


def test_gauss_frames_integrate_cubics_exactly() -> None:
    timeline = Timeline.from_problem(HOP)
    for phase, (start, end) in enumerate(zip(timeline.edges[:-1], timeline.edges[1:], strict=True)):
        times = timeline.gauss_frames(phase, 2)
        weights = np.repeat(0.5 * np.diff(timeline.breaks(phase)), 2)
        assert weights @ times**3 == pytest.approx((end**4 - start**4) / 4.0, rel=1e-12)


@pytest.mark.parametrize("degrees", [0.0, 20.0, 40.0])
def test_weight_on_a_slope_slips_where_its_tangent_exceeds_the_friction(degrees: float) -> None:
    slope = np.deg2rad(degrees)
    tilted = replace(FOOT, normal=(0.0, float(np.cos(slope)), float(np.sin(slope))), friction=0.6)
    support = build_support(ProblemPhase("slope", 1.0, (tilted,)))
    upright = np.array([[0.0, 1.0, 0.0]])
    assert (support.round_row(upright)[0][0] >= 0.0) == (np.tan(slope) <= 0.6)


def test_a_body_stands_on_a_slope_that_holds_it_and_not_on_a_steeper_one() -> None:
    def stand(degrees: float) -> SpacetimeResult:
        slope = np.deg2rad(degrees)
        foot = replace(FOOT, normal=(0.0, float(np.cos(slope)), float(np.sin(slope))), friction=0.5, max_tilt_deg=60.0)
        still = (Key("velocity", "stand", 0.0), Key("velocity", "stand", 1.0))
        middle = Key("com_velocity", "stand", 0.5, target=(0.0, 0.0, 0.0))
        phase = ProblemPhase("stand", 0.4, (foot,))
        return optimize(
            SpacetimeProblem("slope", (phase,), keys=(*still, middle), guess="stand", max_iterations=60),
            on_failure="return",
        )

    assert stand(15.0).is_solved
    steep = stand(50.0)
    assert not steep.is_solved or steep.check.max_force > 1.01  # it cannot rest there


def test_motion_has_its_rate_its_contacts_and_its_plants() -> None:
    motion = hop().motion
    assert motion.rate_hz == 120.0 and motion.num_frames == int(0.85 * 120.0 + 1e-6) + 1
    assert motion.contacts is not None and set(motion.contacts.names) == {"left_heel", "left_toe"}
    times = motion.times()
    flying = (times > 0.301) & (times < 0.549)
    active = np.asarray(motion.contacts.active)
    assert not active[flying].any() and active[times < 0.299].all()
    tree = build_character(HOP)
    q = tree.from_motion(motion)
    foot = compute_point_motion(tree, q, q * 0.0, q * 0.0, *tree.points["left_foot"]).position
    assert np.abs(foot[times < 0.299]).max() < 1e-9
    assert np.abs(foot[times > 0.551] - [0.0, 0.0, 0.2]).max() < 1e-9


def test_slower_frame_rates_sample_the_same_motion() -> None:
    problem = HOP
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    x = build_guess(layout)
    fast, slow = (motion_from_unknowns(layout, x, rate, "guess") for rate in (120.0, 60.0))
    assert np.abs(fast.root_positions[::2][: slow.num_frames] - slow.root_positions).max() < 1e-12


def test_centre_of_mass_of_a_support_is_that_of_the_sampled_motion() -> None:
    layout = FullLayout.from_problem(HOP, FullBodyModel.from_tree(build_character(HOP)))
    x = build_guess(layout) + np.random.default_rng(4).normal(scale=0.05, size=layout.num_unknowns)
    place, speed, spin = compute_support_com(layout, x, 0, 0.17)
    builder = InstantBuilder(layout.timeline)
    builder.add(0, 0.17)
    track = sample_track(layout, x, builder.build())
    whole = compute_aggregate(layout.figure.tree, track.q, track.qd, track.qdd)
    assert place == pytest.approx(whole.com[0], abs=1e-12) and speed == pytest.approx(whole.com_velocity[0], abs=1e-12)
    assert spin == pytest.approx(whole.angular_momentum[0], abs=1e-9)


def test_changed_durations_keep_the_number_of_knots() -> None:
    problem = replace(HOP, phases=tuple(replace(p, duration_range_s=(0.1, 0.6)) for p in HOP.phases))
    free = find_free_phases(problem)
    assert free == [0, 1, 2]
    moved = replace_durations(problem, free, np.array([0.37, 0.21, 0.33]), np.array([3.0, 3.0, 3.0]))
    assert Timeline.from_problem(moved).spline.num_spans == Timeline.from_problem(problem).spline.num_spans
    assert moved.duration_s == pytest.approx(0.91)


def test_a_range_of_one_value_is_not_free() -> None:
    fixed = replace(HOP, phases=(replace(HOP.phases[0], duration_range_s=(0.3, 0.3)), *HOP.phases[1:]))
    assert find_free_phases(fixed) == []


def test_extra_frames_are_asked_where_physics_fails_most() -> None:
    problem = EXAMPLES["pegs"]()
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    x = build_guess(layout)
    weak = find_weak_instants(layout, x)
    assert weak and ALLOWED_EXCESS < 0.05  # what the check calls valid
    more = FullProgramme(layout, x, extra=weak)
    assert len(more.instants.times) > len(FullProgramme(layout, x).instants.times)


def test_terms_of_a_result_add_up_to_its_objective() -> None:
    assert sum(hop().terms.values()) == pytest.approx(hop().objective, rel=1e-9)
    assert {"accel", "prior", "ridge"} == set(hop().terms)


def test_counts_are_those_of_the_layout() -> None:
    counts, figure = hop().counts, FullBodyModel.from_tree(build_character(HOP))
    timeline = Timeline.from_problem(HOP)
    assert counts["control_points"] == timeline.spline.num_coefficients * len(figure.angles)
    assert counts["unknowns"] == counts["control_points"] + 9  # place, speed and spin of one flight
    assert counts["spans"] == sum(len(timeline.breaks(p)) - 1 for p in range(3))


def distance(a: SpacetimeResult, b: SpacetimeResult) -> FloatArray:
    tree = build_character(HOP)
    return np.abs(tree.from_motion(a.motion) - tree.from_motion(b.motion)).max(axis=0)


def test_the_whole_problem_may_be_moved_and_the_motion_moves_with_it() -> None:
    shift = (0.7, 0.3, -0.4)

    def moved(contact: Contact) -> Contact:
        x, y, z = contact.position
        return replace(contact, position=(x + shift[0], y + shift[1], z + shift[2]))

    phases = tuple(replace(p, contacts=tuple(moved(c) for c in p.contacts)) for p in HOP.phases)
    there = replace(HOP, phases=phases)
    result = optimize(there)
    assert np.abs(result.motion.root_positions - hop().motion.root_positions - shift).max() < 1e-3
    assert distance(result, hop())[3:].max() < 1e-3
