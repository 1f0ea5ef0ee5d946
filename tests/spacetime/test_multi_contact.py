"""Contacts of several kinds in one phase, surroundings, and the check that judges them from the outside."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

from marey.base import FormatError, InputError
from marey.dynamics import compute_point_positions
from marey.spacetime import SpacetimeProblem, SpacetimeResult, load_problem, optimize, parse_problem, problem_to_toml
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import FullBodyModel, FullLayout
from marey.spacetime.full.sampling import (
    close_contact,
    find_hand_stands,
    interpolate_pose_keys,
    plant_points,
)
from marey.spacetime.problem.builders import build_jump_problem
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase
from marey.spacetime.problem.obstacles import build_obstacles, find_floor, measure_gaps
from marey.spacetime.problem.supply import (
    SolutionTrack,
    SupplyPoints,
    find_contact_points,
    is_shared,
    measure_supply,
    separating_face,
)
from marey.spacetime.reduced.programme import validate_reduced
from marey.world import Bar, Box

LEFT = Contact("left_foot", (0.1, 0.0, 0.0), friction=0.9)
HIGH = Contact("right_foot", (-0.1, 0.25, 0.3), friction=0.9)
RAIL = Contact("right_hand", (-0.35, 0.95, 0.2), kind="grip", max_force=1.5)
STEP = SpacetimeProblem(
    "step",
    (ProblemPhase("both", 0.3, (LEFT, HIGH, RAIL)),),
    guess="crouch",
    objective=Objective(accel=1.0, prior=2.0),
)


@cache
def stepped() -> SpacetimeResult:
    return optimize(STEP)


def test_feet_on_two_heights_and_a_hand_on_a_rail_are_solved_and_still() -> None:
    alone = replace(STEP, phases=(replace(STEP.phases[0], contacts=(LEFT,)),))
    assert is_shared(STEP, 0) and not is_shared(alone, 0)
    check = stepped().check
    assert stepped().is_solved and check.samples >= 1000 and not check.faults
    assert check.plant_drift_m < 1e-9 and check.wrench_residual < 0.05


def test_a_limb_that_closes_a_contact_has_consistent_rates() -> None:
    figure = FullBodyModel.from_tree(build_character(STEP))
    times = np.linspace(0.0, 1.0, 2001)[:, None]
    rng = np.random.default_rng(3)
    amplitude, phase = 0.002 * rng.normal(size=(2, figure.tree.num_dofs))
    base = np.zeros(figure.tree.num_dofs)
    base[[figure.tree.index(n) for n in ("left_hip_rx", "right_hip_rx")]] = -0.6
    base[[figure.tree.index(n) for n in ("left_knee", "right_knee")]] = 1.2
    q, w = base + amplitude * np.sin(6.0 * times + phase), 6.0
    qd, qdd = w * amplitude * np.cos(w * times + phase), -(w**2) * amplitude * np.sin(w * times + phase)
    from marey.dynamics import compute_point_motion

    place = compute_point_motion(figure.tree, q, qd, qdd, *figure.point("right_foot")).position.mean(axis=0)
    plant = Contact("right_foot", (float(place[0]), float(place[1]), float(place[2])))
    closed, rate, bend = close_contact(figure, LEFT, plant, (q, qd, qdd))
    at = compute_point_motion(figure.tree, closed, rate, bend, *figure.point("right_foot"))
    assert np.abs(at.position - place).max() < 1e-9
    assert np.abs(at.velocity).max() < 1e-9 and np.abs(at.acceleration).max() < 1e-9
    # What moved by millimetres has rates that differ from the derivative by as little
    numeric = np.gradient(closed, times[:, 0], axis=0)[2:-2]
    assert np.abs(numeric - rate[2:-2]).max() < 0.05 * np.abs(rate).max()


def points_of(contacts: tuple[Contact, ...]) -> SupplyPoints:
    problem = replace(STEP, phases=(ProblemPhase("both", 0.3, contacts),))
    zero = np.zeros((1, 22))
    track = SolutionTrack(np.zeros(1), np.zeros(1, dtype=np.int64), zero, zero, zero)
    return find_contact_points(build_character(problem), problem, track)


def test_supply_agrees_with_a_linear_programme_and_its_face_separates() -> None:
    slope = Contact("right_foot", (-0.4, 0.1, 0.2), normal=(0.6, 0.8, 0.0), friction=0.5)
    points, rng = points_of((replace(LEFT, friction=0.5), slope)), np.random.default_rng(0)
    # Generators of both soles about the origin
    columns: list[np.ndarray] = []
    for k in np.flatnonzero(points.active[0]):
        up = points.normals[0, k]
        x = np.cross(up, [0.0, 0.0, 1.0])
        for angle in 2.0 * np.pi * np.arange(64) / 64:
            f = up + 0.5 * (np.cos(angle) * x / np.linalg.norm(x) + np.sin(angle) * np.cross(up, x) / np.linalg.norm(x))
            columns.append(np.concatenate([f, np.cross(points.places[0, k], f)]))
    G, seen = np.array(columns).T, set[bool]()
    for _ in range(40):
        wrench = G @ (rng.random(G.shape[1]) * (rng.random(G.shape[1]) < 0.05)) / 4.0 + 0.2 * rng.normal(size=6)
        missing = measure_supply(wrench[None], points, np.array([True]))[0]
        is_given = linprog(np.zeros(G.shape[1]), A_eq=G, b_eq=wrench, bounds=(0, None)).status == 0
        size = float(np.linalg.norm(missing))
        assert not is_given or size < 1e-6
        if size > 0.05:
            face = np.array(separating_face(points, missing, 0))
            assert (face @ G > -1e-6).all() and face @ wrench < 0.0
            seen.add(True)
        elif is_given:
            seen.add(False)
    assert seen == {True, False}


def test_floor_boxes_and_bars_have_signed_distances() -> None:
    world = replace(STEP, boxes=(Box((0.0, 1.0), (0.4, 0.6), 0.5),), bars=(Bar((-1.0, 1.0, 0.0), (1.0, 1.0, 0.0)),))
    floor, box, bar = build_obstacles(world)
    assert floor.distance(np.array([[0.0, -0.1, 0.0]]))[0][0] == pytest.approx(-0.1)
    assert box.distance(np.array([[0.0, 0.6, 1.0]]))[0][0] == pytest.approx(0.1)
    assert box.distance(np.array([[0.15, 0.3, 1.0]]))[0][0] == pytest.approx(-0.05)
    assert bar.distance(np.array([[0.3, 1.1, 0.0]]))[0][0] == pytest.approx(0.085)
    lowered = replace(STEP, phases=(ProblemPhase("down", 0.3, (replace(LEFT, position=(0.1, -0.5, 0.0)),)),))
    assert find_floor(STEP) == 0.0 and find_floor(lowered) == -0.5
    assert find_floor(replace(STEP, floor_m=None)) is None and find_floor(replace(STEP, gravity=0.0)) is None


def test_a_body_in_the_floor_is_seen() -> None:
    tree = build_character(STEP)
    q = np.zeros((1, tree.num_dofs))
    q[0, 1] = 0.5  # hips half a metre up, legs straight: shins in the floor
    gaps = measure_gaps(tree, replace(STEP, phases=(ProblemPhase("fly", 0.3),)), q, np.zeros(1, dtype=np.int64))
    assert min(float(gap.min()) for _, _, gap in gaps) < -0.2


def test_surroundings_and_poses_survive_a_file() -> None:
    key = Key("pose", "both", 0.0, pose="walk.bvh@1.2")
    world = replace(STEP, boxes=(Box((0.0, 1.0)),), bars=(Bar((0.0, 1.0, 0.0), (1.0, 1.0, 0.0)),), floor_m=None)
    again = parse_problem(problem_to_toml(replace(world, keys=(key,))))
    assert again.boxes == world.boxes and again.bars == world.bars and again.floor_m is None and again.keys[0] == key


IGNORED = {
    "mass_kg": 80.0,
    "height_m": 1.9,
    "character": "fang7",
    "guess": "tuck",
    "impact": "free",
    "refine": 1,
    "objective": Objective(accel=1.0, energy=1.0),
}


@pytest.mark.parametrize("name", IGNORED)
def test_the_reduced_space_refuses_what_it_would_ignore(name: str) -> None:
    from marey.spacetime.reduced.layout import build_layout

    problem = replace(build_jump_problem(1.0), **{name: IGNORED[name]})
    with pytest.raises(InputError, match="energy" if name == "objective" else name):
        validate_reduced(problem, build_layout(problem, 3), None)  # pyright: ignore[reportArgumentType]


def test_a_refused_field_is_named_with_its_line(tmp_path) -> None:
    text = problem_to_toml(build_jump_problem(1.0)).replace("mass_kg = 65.0", "mass_kg = 80.0")
    line = 1 + text.splitlines().index("mass_kg = 80.0")
    (tmp_path / "heavy.toml").write_text(text)
    with pytest.raises(FormatError, match="mass_kg") as caught:
        load_problem(tmp_path / "heavy.toml")
    assert caught.value.line == line


def cartwheel(side: float) -> SpacetimeProblem:
    """Over both hands to the left (side 1) or to the right (-1)."""
    near, far = ("left", "right") if side > 0.0 else ("right", "left")
    foot = Contact(f"{near}_foot", (0.1 * side, 0.0, 0.0), friction=0.9)
    first, second = (
        Contact(f"{name}_hand", (x * side, 0.0, 0.0), half_extents_m=(0.08, 0.05), max_tilt_deg=80.0)
        for name, x in ((near, 0.8), (far, 1.2))
    )
    there = Contact(f"{far}_foot", (1.9 * side, 0.0, 0.0))
    phases = (
        ProblemPhase("lunge", 0.4, (foot,)),
        ProblemPhase("first hand", 0.3, (foot, first)),
        ProblemPhase("hands", 0.4, (first, second)),
        ProblemPhase("second hand", 0.3, (second, there)),
        ProblemPhase("rise", 0.4, (there,)),
    )
    turned = sorted((-6.7 * side, -5.8 * side))
    keys = (
        Key("turn", "lunge", 0.0, axis="roll", lower=-0.4, upper=0.4),
        Key("turn", "rise", 1.0, axis="roll", lower=turned[0], upper=turned[1]),
    )
    return SpacetimeProblem("cartwheel", phases, guess="stand", keys=keys, objective=Objective(accel=1.0, prior=2.0))


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_planted_guess_turns_over_with_hands_and_feet_on_their_plants(side: float) -> None:
    problem = cartwheel(side)
    figure = FullBodyModel.from_tree(build_character(problem))
    layout = FullLayout.from_problem(problem, figure)
    assert find_hand_stands(problem) and not find_hand_stands(STEP)
    flat = interpolate_pose_keys(layout)
    points = plant_points(layout, flat)
    tree, times, gaps = figure.tree, layout.timeline.spline.greville, list[float]()
    # How far the distance of two contacts is from that of their plants, wherever the root is
    for guess in (flat, points):
        apart = list[float]()
        for p in (1, 2, 3):
            own = (times > layout.timeline.edges[p] + 1e-6) & (times < layout.timeline.edges[p + 1] - 1e-6)
            one, two = problem.phases[p].contacts
            dofs, places = zip(*(figure.point(c.point) for c in (one, two)), strict=True)
            at = compute_point_positions(tree, figure.coordinates(guess[own]), dofs, np.array(places))
            apart += np.linalg.norm(at[:, 1] - at[:, 0] - np.subtract(two.position, one.position), axis=1).tolist()
        gaps.append(float(np.mean(apart)))
    assert gaps[1] < 0.25 * gaps[0]
    # Half way round while the hands carry it
    turn = points[:, figure.angle_index("roll")] * -side
    assert turn[0] < 0.5 and turn[-1] > 5.5 and abs(np.interp(0.9, times, turn) - np.pi) < 0.5
    inside = (points >= tree.lower[figure.angles] - 1e-9) & (points <= tree.upper[figure.angles] + 1e-9)
    assert inside.all()


def test_a_cartwheel_is_solved_with_the_head_below_the_hips_over_the_hands() -> None:
    problem = cartwheel(1.0)
    result = optimize(problem)
    assert result.check.samples >= 1000 and not result.check.faults
    tree = build_character(problem)
    q = tree.from_motion(result.motion)
    trunk = tree.points["head"][0]
    head, hips = compute_point_positions(
        tree, q, [trunk, trunk], np.array([tree.points["head"][1], np.zeros(3)])
    ).swapaxes(0, 1)
    times = np.arange(len(q)) / result.motion.rate_hz
    over = (times > 0.75) & (times < 1.05)
    assert (head[over, 1] < hips[over, 1]).all()
    assert head[0, 1] > hips[0, 1] + 0.5 and head[-1, 1] > hips[-1, 1] + 0.4
