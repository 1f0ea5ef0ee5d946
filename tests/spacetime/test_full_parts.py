"""Parts of the full space: supports, jets, time line, guesses, slopes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.problems import EXAMPLES
from scipy.optimize import linprog

from marey.base import FloatArray, InputError
from marey.dynamics import JointTree, compute_aggregate, compute_point_motion
from marey.spacetime import SpacetimeProblem
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import FullBodyModel, FullLayout, Timeline, compute_body_state
from marey.spacetime.full.objectives import compute_world_axes
from marey.spacetime.full.sampling import (
    NEUTRAL_POSES,
    build_guess,
    compute_support_com,
    motion_from_unknowns,
    neutral_pose,
    set_flight_unknowns,
)
from marey.spacetime.problem.definition import Contact, Key, ProblemPhase
from marey.spacetime.problem.supply import build_support, contact_frame
from marey.spacetime.programme import StateJet, skew_matrices

FOOT = Contact("left_foot", (0.3, 0.1, -0.2), heading_deg=30.0)
STAND = ProblemPhase("stand", 0.5, (FOOT,))


def layout_of(name: str) -> FullLayout:
    problem = EXAMPLES[name]()
    return FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))


def is_supplied(phase: ProblemPhase, wrench: FloatArray) -> bool:
    """Whether vertical forces at the corners of the feet add up to a normal force and two moments."""
    support = build_support(phase)
    moments = np.cross(support.hull, support.normal)
    A = np.vstack([np.ones(len(support.hull)), (moments @ np.stack(contact_frame(phase.contacts[0])[1:]).T).T])
    return linprog(np.zeros(A.shape[1]), A_eq=A, b_eq=wrench, bounds=(0, None)).status == 0


@given(along=st.floats(-0.2, 0.2), across=st.floats(-0.1, 0.1), load=st.floats(0.1, 5.0))
def test_pressure_rows_agree_with_a_linear_programme(along: float, across: float, load: float) -> None:
    support = build_support(STAND)
    _, ahead, aside = contact_frame(FOOT)
    place = along * ahead + across * aside
    edge = min(abs(abs(along) - 0.12), abs(abs(across) - 0.05))
    if edge < 1e-6:
        return
    moment = np.cross(place, load * support.normal)
    rows = support.matrix @ np.concatenate([load * support.normal, moment])
    inside = bool((rows >= -1e-12).all())
    assert inside == (abs(along) < 0.12 and abs(across) < 0.05)
    assert inside == is_supplied(STAND, np.array([load, moment @ ahead, moment @ aside]))


@given(angle=st.floats(0.0, 6.28), share=st.floats(0.0, 1.5))
def test_friction_pyramid_lies_inside_the_cone(angle: float, share: float) -> None:
    support = build_support(STAND)
    _, ahead, aside = contact_frame(FOOT)
    sideways = 0.8 * share * (np.cos(angle) * ahead + np.sin(angle) * aside)
    force = support.normal + sideways
    in_pyramid = bool((support.matrix @ np.concatenate([force, np.zeros(3)]) >= 0.0).all())
    in_cone = support.round_row(force[None])[0][0] >= 0.0
    assert in_cone or not in_pyramid
    assert in_pyramid or share > np.cos(np.pi / 8) - 1e-9


def test_two_feet_share_their_hull() -> None:
    both = ProblemPhase("both", 0.5, (Contact("left_foot", (0.1, 0.0, 0.0)), Contact("right_foot", (-0.1, 0.0, 0.1))))
    support = build_support(both)
    assert len(support.hull) == 6 and support.max_force == 12.0
    middle = np.cross([-0.1, 0.0, 0.05], support.normal)  # between the feet, relative to the left one
    assert (support.matrix @ np.concatenate([support.normal, middle]) >= 0.0).all()


def test_margin_shrinks_the_feet() -> None:
    wide, narrow = build_support(STAND), build_support(STAND, 0.01)
    assert np.linalg.norm(narrow.hull[0]) < np.linalg.norm(wide.hull[0])
    assert np.abs(narrow.hull @ contact_frame(FOOT)[1]).max() == pytest.approx(0.11)


def test_grip_has_strength_in_all_directions() -> None:
    grip = build_support(
        ProblemPhase("hang", 0.5, (Contact("left_hand", (0.0, 2.0, 0.0), kind="grip", max_force=5.0),))
    )
    forces = 4.9 * np.vstack([np.eye(3), -np.eye(3)])
    assert (grip.round_row(forces)[0] > 0.0).all() and (grip.round_row(1.03 * forces)[0] < 0.0).all()


def test_mixed_contacts_are_refused() -> None:
    grip = Contact("left_hand", (0.0, 2.0, 0.0), kind="grip")
    with pytest.raises(InputError, match="mixes"):
        build_support(ProblemPhase("both", 0.5, (FOOT, grip)))


@pytest.mark.parametrize("normal", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.6, 0.8, 0.0)])
def test_frames_of_contacts_are_right_handed(normal: tuple[float, float, float]) -> None:
    axes = np.stack(contact_frame(replace(FOOT, normal=normal)))
    assert np.abs(axes @ axes.T - np.eye(3)).max() < 1e-12
    assert np.cross(axes[1], axes[2]) @ axes[0] == pytest.approx(1.0)


def test_jets_obey_the_product_rule() -> None:
    rng = np.random.default_rng(0)
    a, b = (StateJet(rng.normal(size=(4, 3)), rng.normal(size=(3, 4, 3, 2))) for _ in range(2))
    moved = [StateJet(j.value + 1e-7 * j.partials[1, :, :, 0], j.partials) for j in (a, b)]
    numeric = (moved[0].cross(moved[1]).value - a.cross(b).value) / 1e-7
    assert np.abs(numeric - a.cross(b).partials[1, :, :, 0]).max() < 1e-5
    assert np.abs(skew_matrices(a.value) @ b.value[..., None] - np.cross(a.value, b.value)[..., None]).max() < 1e-14
    assert np.array_equal((a + b - b * 1.0).at(np.array([2])).value, ((a + b) - b).value[[2]])


def test_state_agrees_with_the_aggregate_of_the_tree() -> None:
    figure = FullBodyModel.from_tree(JointTree.fang22())
    rng = np.random.default_rng(1)
    curves = tuple(rng.normal(scale=0.5, size=(5, 19)) for _ in range(3))
    state = compute_body_state(figure, curves, (("foot", *figure.point("left_foot")),))
    q, qd, qdd = (figure.coordinates(c) for c in curves)
    whole = compute_aggregate(figure.tree, q, qd, qdd, gravity=0.0)
    assert np.abs(state.com.value - whole.com).max() < 1e-12
    assert np.abs(state.spin.value - whole.angular_momentum).max() < 1e-10
    assert np.abs(state.com_acceleration.value * figure.tree.mass - whole.wrench[:, :3]).max() < 1e-9
    foot = compute_point_motion(figure.tree, q, qd, qdd, *figure.point("left_foot"))
    assert np.abs(state.points["foot"][1].value - foot.velocity).max() < 1e-12


def test_world_axes_turn_points_as_their_jacobian_says() -> None:
    figure = FullBodyModel.from_tree(JointTree.fang22())
    angles = np.random.default_rng(2).normal(scale=0.4, size=(3, 19))
    q = figure.coordinates(angles)
    dof, place = figure.point("right_hand")
    tip, joint = (compute_point_motion(figure.tree, q, q * 0, q * 0, dof, p) for p in (place, np.zeros(3)))
    axes = compute_world_axes(figure, angles)
    elbow = list(figure.angles).index(dof)
    turned = np.cross(axes[:, elbow], tip.position - joint.position)
    assert np.abs(turned - tip.J[:, :, dof]).max() < 1e-12


def test_names_of_the_root_are_found_by_word() -> None:
    figure = FullBodyModel.from_tree(JointTree.fang22())
    assert [figure.names[figure.angle_index(w)] for w in ("yaw", "pitch", "roll")] == ["root_ry", "root_rx", "root_rz"]
    assert figure.point("left_foot@joint")[0] == figure.tree.index("left_knee")
    planar = FullBodyModel.from_tree(JointTree.fang7())
    assert list(planar.spins) == [0] and list(planar.axes) == [1, 2]


def test_frames_cut_spans_evenly_and_include_the_knots() -> None:
    timeline = Timeline.from_problem(EXAMPLES["monkey-bars"]())
    frames = timeline.even_frames(1, 2)
    assert len(frames) == 15 and frames[0] == timeline.edges[1] and frames[-1] == timeline.edges[2]
    assert np.ptp(np.diff(frames)) < 1e-12
    assert len(timeline.gauss_frames(1, 2)) == 14


def test_consecutive_flights_share_one_parabola() -> None:
    phases = (STAND, ProblemPhase("up", 0.2), ProblemPhase("down", 0.2), ProblemPhase("land", 0.5, (FOOT,)))
    layout = FullLayout.from_problem(SpacetimeProblem("leap", phases), FullBodyModel.from_tree(JointTree.fang22()))
    assert len(layout.flights) == 1 and layout.flights[0].phases == (1, 2)
    assert layout.flights[0].end_s - layout.flights[0].start_s == pytest.approx(0.4)


@pytest.mark.parametrize("name", sorted(NEUTRAL_POSES))
def test_neutral_poses_are_within_the_limits(name: str) -> None:
    for tree in (JointTree.fang22(), JointTree.fang7()):
        figure = FullBodyModel.from_tree(tree)
        pose = neutral_pose(figure, name)
        assert (pose >= tree.lower[figure.angles]).all() and (pose <= tree.upper[figure.angles]).all()
        assert np.abs(pose).max() > 0.1


def test_flat_guess_is_flat_but_for_the_keys() -> None:
    layout = layout_of("monkey-bars")
    assert np.ptp(layout.points(build_guess(layout)), axis=0).max() == 0.0
    layout = layout_of("dismount-0.8")
    points = layout.points(build_guess(layout))
    pitch = points[:, layout.figure.angle_index("pitch")]
    assert pitch[0] == 0.0 and pitch[-1] == pytest.approx(-2 * np.pi + 0.24) and (np.diff(pitch) <= 0.0).all()


def test_guessed_flights_are_ballistic_between_their_supports() -> None:
    layout = layout_of("pegs")
    x = build_guess(layout)
    flight = layout.flights[0]
    place, speed = x[flight.place], x[flight.speed]
    end = compute_support_com(layout, x, 2, float(layout.timeline.edges[2]))[0]
    assert np.abs(place + 0.4 * speed + 0.5 * 0.16 * layout.gravity - end).max() < 1e-12
    assert np.array_equal(set_flight_unknowns(layout, x), x)


def test_warm_guess_gives_the_motion_back() -> None:
    layout = layout_of("ground-leap")
    x = build_guess(layout) + 0.0
    x[: layout.num_curve_unknowns] += np.random.default_rng(3).normal(scale=0.05, size=layout.num_curve_unknowns)
    motion = motion_from_unknowns(layout, x, 240.0, "shaken")
    again = build_guess(layout, motion)
    assert np.abs(layout.points(again) - layout.points(x)).max() < 2e-2
    assert motion.contacts is not None and motion.contacts.track("left_toe")[0]


def test_problems_know_their_phases_and_refuse_unknown_choices() -> None:
    problem = EXAMPLES["pegs"]()
    assert problem.duration_s == pytest.approx(1.85) and problem.phase_index("flight 2") == 3
    for choice in ({"space": "half"}, {"flight": "hover"}, {"impact": "hard"}, {"phases": ()}):
        with pytest.raises(InputError):
            replace(problem, **choice)


def test_a_key_through_a_phase_bounds_the_curve_at_every_instant() -> None:
    from marey.spacetime import optimize

    key = Key("range", "stand", None, joints={"left_elbow": 0.0}, lower=0.5, upper=0.6)
    upright = {"pitch": (-0.3, 0.3), "roll": (-0.3, 0.3), "yaw": (-0.3, 0.3)}
    result = optimize(SpacetimeProblem("stand", (STAND,), keys=(key,), guess="stand", limits=upright))
    elbow = JointTree.fang22().from_motion(result.motion)[:, JointTree.fang22().index("left_elbow")]
    assert elbow.min() >= 0.5 - 1e-9 and elbow.max() <= 0.6 + 1e-9
