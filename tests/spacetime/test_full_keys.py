"""Keys of the full space: rows measure what they say, and solved motions do what is asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.problems import EXAMPLES

from marey.base import FloatArray
from marey.dynamics import compute_aggregate, compute_com_motion, compute_point_motion
from marey.spacetime import SpacetimeProblem, SpacetimeResult, optimize
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.layout import FullBodyModel, FullLayout, InstantBuilder
from marey.spacetime.full.physics_rows import POSITION_ROW, SPEED_ROW
from marey.spacetime.full.programme import FullProgramme
from marey.spacetime.full.sampling import build_guess, sample_track, set_flight_unknowns
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase

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
)


def with_key(key: Key) -> tuple[FullProgramme, FloatArray]:
    """A programme with one key, and unscaled unknowns off the guess whose flights leave from their supports."""
    problem = replace(HOP, keys=(key,))
    layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
    guess = build_guess(layout)
    shaken = guess + np.random.default_rng(7).normal(scale=0.05, size=guess.size)
    x = set_flight_unknowns(layout, shaken)
    for flight in layout.flights:  # as the support throws it, so that the sampled motion is the one the rows see
        builder = InstantBuilder(layout.timeline)
        builder.add(0, 0.3)
        track = sample_track(layout, x, builder.build())
        com = compute_com_motion(layout.figure.tree, track.q, track.qd, track.qdd)
        x[flight.place], x[flight.speed] = com.position[0], com.velocity[0]
    return FullProgramme(layout, guess), x


def rows_named(programme: FullProgramme, x: FloatArray, words: str) -> FloatArray:
    values = programme.values(x / programme.layout.scales)[1]
    return np.array([value for i, value in enumerate(values) if words in programme.row_name(i)])


def sampled(programme: FullProgramme, x: FloatArray, phase: int, time: float) -> tuple[FloatArray, ...]:
    builder = InstantBuilder(programme.layout.timeline)
    builder.add(phase, time)
    track = sample_track(programme.layout, x, builder.build())
    return track.q, track.qd, track.qdd


INSTANTS = [("push", 0, 0.4, 0.12), ("air", 1, 0.6, 0.45), ("land", 2, 0.5, 0.70)]


@pytest.mark.parametrize(("phase", "number", "share", "time"), INSTANTS)
def test_point_rows_measure_the_way_to_the_target(phase: str, number: int, share: float, time: float) -> None:
    programme, x = with_key(Key("point", phase, share, point="right_hand", target=(0.1, None, 0.3)))
    tree = programme.layout.figure.tree
    at = compute_point_motion(tree, *sampled(programme, x, number, time), *tree.points["right_hand"]).position[0]
    found = rows_named(programme, x, "right_hand along")
    assert found == pytest.approx(POSITION_ROW * (at - [0.1, 0.0, 0.3])[[0, 2]], abs=1e-9)


@pytest.mark.parametrize(("phase", "number", "share", "time"), INSTANTS)
def test_centre_of_mass_rows_measure_place_and_velocity(phase: str, number: int, share: float, time: float) -> None:
    for kind, unit in (("com", POSITION_ROW), ("com_velocity", SPEED_ROW)):
        programme, x = with_key(Key(kind, phase, share, target=(0.0, 1.0, 0.0)))
        moved = compute_com_motion(programme.layout.figure.tree, *sampled(programme, x, number, time))
        value = moved.position[0] if kind == "com" else moved.velocity[0]
        words = "centre of mass along" if kind == "com" else "velocity of the centre of mass along"
        found = rows_named(programme, x, words)[-3:]
        assert found == pytest.approx(unit * (value - [0.0, 1.0, 0.0]), abs=1e-9)


@pytest.mark.parametrize(("phase", "number", "share", "time"), INSTANTS)
def test_clearance_rows_are_heights(phase: str, number: int, share: float, time: float) -> None:
    programme, x = with_key(Key("clearance", phase, share, point="right_foot@joint", lower=0.1))
    tree = programme.layout.figure.tree
    dof = tree.points["right_foot"][0]
    at = compute_point_motion(tree, *sampled(programme, x, number, time), dof, np.zeros(3)).position[0]
    assert rows_named(programme, x, "height of") == pytest.approx([POSITION_ROW * at[1]], abs=1e-9)


def test_force_rows_are_the_force_along_the_normal_in_body_weights() -> None:
    programme, x = with_key(Key("force", "push", 0.4, upper=2.0))
    tree = programme.layout.figure.tree
    wrench = compute_aggregate(tree, *sampled(programme, x, 0, 0.12)).wrench[0]
    assert rows_named(programme, x, "force along") == pytest.approx([wrench[1] / programme.layout.weight], abs=1e-9)


@pytest.mark.parametrize(
    ("key", "words", "column"),
    [
        (Key("pose", "push", 0.4, joints={"left_knee": 0.5}), "angle of left_knee", 0),
        (Key("range", "push", 0.4, joints={"left_knee": 0.0}, lower=0.1, upper=0.9), "angle of left_knee", 0),
        (Key("velocity", "push", 0.4, joints={"left_knee": 1.0}), "speed of left_knee", 1),
    ],
)
def test_coordinate_rows_are_the_curves(key: Key, words: str, column: int) -> None:
    programme, x = with_key(key)
    knee = programme.layout.figure.tree.index("left_knee")
    assert rows_named(programme, x, words) == pytest.approx([sampled(programme, x, 0, 0.12)[column][0, knee]])
    index = next(i for i in range(len(programme.row_lower)) if words in programme.row_name(i))
    assert programme.is_linear[index]
    wanted = (0.1, 0.9) if key.kind == "range" else (next(iter(key.joints.values())),) * 2
    assert (programme.row_lower[index], programme.row_upper[index]) == pytest.approx(wanted)


def test_bar_rows_are_the_square_of_the_distance_to_a_bar() -> None:
    programme, x = with_key(Key("bar", "push", 0.4, point="right_hand", target=(None, 0.9, 0.2), lower=0.05))
    tree = programme.layout.figure.tree
    dof, hand = tree.points["right_hand"]
    states = sampled(programme, x, 0, 0.12)
    ends = [compute_point_motion(tree, *states, dof, place).position[0, 1:] for place in (np.zeros(3), hand)]
    along = np.linspace(0.0, 1.0, 20001)[:, None]
    nearest = np.linalg.norm((1.0 - along) * ends[0] + along * ends[1] - [0.9, 0.2], axis=1).min()
    found = rows_named(programme, x, "bar clear of")
    assert found == pytest.approx([POSITION_ROW * nearest**2 / (4.0 * 0.05)], rel=1e-6)


def test_every_row_has_a_name_with_its_phase_and_its_time() -> None:
    programme, _ = with_key(Key("com", "air", 0.5, target=(None, 1.0, None)))
    names = [programme.row_name(i) for i in range(len(programme.row_lower))]
    assert all(any(name.startswith(f"{phase} at ") for phase in ("push", "air", "land")) for name in names)
    assert any(name.startswith("air at 0.4") and name.endswith("centre of mass along y") for name in names)


def test_values_do_not_depend_on_whether_derivatives_are_known() -> None:
    for name in ("dismount-0.6", "ground-leap", "space-spin"):
        problem = EXAMPLES[name]()
        layout = FullLayout.from_problem(problem, FullBodyModel.from_tree(build_character(problem)))
        guess = build_guess(layout)
        x = (guess + np.random.default_rng(1).normal(scale=0.1, size=guess.size)) / layout.scales
        light = FullProgramme(layout, guess).values(x)
        programme = FullProgramme(layout, guess)
        programme.derivatives(x)
        heavy = programme.values(x)
        assert light[0] == pytest.approx(heavy[0], rel=1e-12)
        assert np.abs(light[1] - heavy[1]).max() < 1e-12 * max(np.abs(heavy[1]).max(), 1.0)


def solved(*keys: Key) -> tuple[SpacetimeResult, FloatArray]:
    result = optimize(replace(HOP, keys=keys))
    return result, build_character(HOP).from_motion(result.motion)


def test_a_hand_goes_where_it_is_sent_and_the_knee_bends_as_told() -> None:
    tree = build_character(HOP)
    result, q = solved(
        Key("point", "land", 1.0, point="right_hand", target=(None, 1.0, 0.5)),
        Key("pose", "land", 1.0, joints={"right_knee": 0.9}),
    )
    last = q[-1:]
    hand = compute_point_motion(tree, last, last * 0.0, last * 0.0, *tree.points["right_hand"]).position[0]
    assert result.is_solved and hand[1:] == pytest.approx([1.0, 0.5], abs=2e-4)
    assert last[0, tree.index("right_knee")] == pytest.approx(0.9, abs=1e-4)


def test_a_higher_key_for_the_centre_of_mass_lifts_the_leap() -> None:
    tree = build_character(HOP)
    low = optimize(HOP)
    free = tree.from_motion(low.motion)
    apex = float(compute_aggregate(tree, free, free * 0.0, free * 0.0).com[:, 1].max())
    high, q = solved(Key("com", "air", 0.5, target=(None, apex + 0.05, None)))
    com = compute_aggregate(tree, q, q * 0.0, q * 0.0).com[:, 1]
    middle = float(np.interp(0.425, high.motion.times(), com))
    assert middle == pytest.approx(apex + 0.05, abs=2e-4) and high.objective > low.objective


def test_a_range_through_a_phase_holds_at_every_frame() -> None:
    result, q = solved(Key("range", "air", None, joints={"right_knee": 0.0}, lower=0.7))
    times = result.motion.times()
    flying = (times > 0.3) & (times < 0.55)
    assert q[flying, build_character(HOP).index("right_knee")].min() >= 0.7 - 1e-6


def test_a_soft_landing_keeps_the_force_below_its_key() -> None:
    free = optimize(HOP)
    result, _ = solved(Key("force", "land", None, upper=0.9 * free.check.max_force))
    assert result.is_solved and result.check.max_force < free.check.max_force


def test_on_the_moon_the_parabola_is_flatter() -> None:
    moon = optimize(replace(HOP, gravity=1.62))
    tree, q, times = build_character(HOP), build_character(HOP).from_motion(moon.motion), moon.motion.times()
    air = (times >= 0.3) & (times <= 0.55)
    height = compute_aggregate(tree, q[air], q[air] * 0.0, q[air] * 0.0).com[:, 1]
    assert np.polynomial.Polynomial.fit(times[air], height, 2).deriv(2)(0.4) == pytest.approx(-1.62, rel=1e-6)
    assert moon.check.is_valid and moon.objective < optimize(HOP).objective
