"""Torque limits: the table, the rows of both spaces, and a check that shares loads as well as contacts can (F10)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import FormatError, InputError
from marey.dynamics import GRAVITY, JointTree, compute_aggregate, compute_torques
from marey.spacetime import (
    Contact,
    Key,
    ProblemPhase,
    SpacetimeProblem,
    load_problem,
    optimize,
    parse_problem,
    problem_to_toml,
)
from marey.spacetime.dispatch import build_character, check_problem
from marey.spacetime.full.layout import FullBodyModel, FullLayout
from marey.spacetime.full.programme import FullProgramme
from marey.spacetime.full.sampling import build_guess
from marey.spacetime.problem.builders import build_jump_problem
from marey.spacetime.problem.supply import (
    SolutionTrack,
    build_torque_limits,
    find_contact_points,
    measure_torque_excess,
)
from marey.spacetime.reduced.assembly import build_reduced_problem, choose_settings
from marey.spacetime.reduced.solve import read_problem_behaviour

LEFT = Contact("left_foot", (0.1, 0.0, 0.0), friction=0.9, twist_m=0.3)
RIGHT = Contact("right_foot", (-0.1, 0.0, 0.0), friction=0.9, twist_m=0.3)
SQUAT = SpacetimeProblem("squat", (ProblemPhase("hold", 0.2, (LEFT, RIGHT)),), guess="crouch", strength=1.0)


def hold(problem: SpacetimeProblem, **angles: float) -> tuple[JointTree, SolutionTrack]:
    """The body at rest on its contacts, with the centre of mass over their middle."""
    tree = build_character(problem)
    q = np.zeros((1, tree.num_dofs))
    for name, value in angles.items():
        q[0, tree.index(name)] = value
    zero = np.zeros_like(q)
    q[0, tree.index("root_tz")] = -float(np.asarray(compute_aggregate(tree, q, zero, zero).com)[0, 2])
    return tree, SolutionTrack(np.zeros(1), np.zeros(1, dtype=np.int64), q, zero, zero)


def measure(tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack) -> dict[str, float]:
    limits = build_torque_limits(tree, problem)
    points = find_contact_points(tree, problem, track)
    wrench = np.asarray(compute_aggregate(tree, track.q, track.qd, track.qdd).wrench) / (tree.mass * GRAVITY)
    excess = measure_torque_excess(tree, limits, track, points, wrench=wrench, gravity=GRAVITY)[0]
    return {tree.names[int(dof)]: float(value) for dof, value in zip(limits.dofs, excess, strict=True)}


def test_the_table_grows_with_weight_stature_and_strength_and_gives_way_to_what_is_named():
    tree = JointTree.fang22(1.8, 80.0)
    limits = build_torque_limits(tree, replace(SQUAT, strength=0.5, torque_limits={"left_knee": (-20.0, 10.0)}))
    found = {tree.names[int(i)]: (low, high) for i, low, high in zip(*limits, strict=True)}
    unit = 0.5 * 80.0 * GRAVITY * 1.8
    assert found["left_knee"] == (-20.0, 10.0)
    np.testing.assert_allclose(found["right_knee"], (-0.163 * unit, 0.087 * unit), rtol=0.02)
    np.testing.assert_allclose(found["left_hip_rx"], (-0.113 * unit, 0.161 * unit), rtol=0.02)
    assert "left_hip_ry" not in found and not any(name.startswith("root") for name in found)


def test_torques_on_one_foot_are_those_of_newton_and_euler():
    angles = {"left_hip_rx": -0.6, "left_knee": 1.1, "right_hip_rx": -0.3, "right_knee": 0.9}
    one = replace(SQUAT, phases=(ProblemPhase("hold", 0.2, (replace(LEFT, half_extents_m=(0.3, 0.3)),)),))
    tree, track = hold(one, **angles)
    whole = compute_aggregate(tree, track.q, track.qd, track.qdd)
    external = np.zeros((1, tree.num_dofs, 6))
    external[0, tree.index("left_knee")] = np.asarray(whole.wrench)[0]
    truth = compute_torques(tree, track.q, track.qd, track.qdd, external=external)[0]
    assert np.abs(truth[:6]).max() < 1e-6
    knee, hip = (truth[tree.index(name)] for name in ("left_knee", "left_hip_rx"))
    # Limits at half of the torque: it is beyond them by the other half
    tight = {"left_knee": (-abs(knee) / 2, abs(knee) / 2), "left_hip_rx": (-abs(hip) / 2, abs(hip) / 2)}
    found = measure(tree, replace(one, strength=None, torque_limits=tight), track)
    assert found["left_knee"] == pytest.approx(1.0, abs=1e-3)
    assert found["left_hip_rx"] == pytest.approx(1.0, abs=1e-3)


def test_a_weak_leg_is_spared_if_the_other_can_carry_the_body():
    wide = tuple(replace(foot, half_extents_m=(0.3, 0.3)) for foot in (LEFT, RIGHT))
    both = replace(SQUAT, phases=(ProblemPhase("hold", 0.2, wide),))
    tree, track = hold(both, left_hip_rx=-0.6, left_knee=1.1, right_hip_rx=-0.6, right_knee=1.1)
    knees = {"left_knee": (-15.0, 15.0), "right_knee": (-400.0, 400.0)}
    assert max(measure(tree, replace(both, strength=None, torque_limits=knees), track).values()) < 1e-3
    weak = dict.fromkeys(knees, (-15.0, 15.0))
    assert max(measure(tree, replace(both, strength=None, torque_limits=weak), track).values()) > 0.5


def test_torque_rows_have_the_derivatives_of_their_values():
    layout = FullLayout.from_problem(SQUAT, FullBodyModel.from_tree(build_character(SQUAT)))
    guess = build_guess(layout)
    programme, rng = FullProgramme(layout, guess), np.random.default_rng(1)
    x, step = guess / layout.scales + 0.05 * rng.normal(size=guess.size), rng.normal(size=guess.size)
    numeric = (programme.values(x + 1e-6 * step)[1] - programme.values(x - 1e-6 * step)[1]) / 2e-6
    own = [i for i in range(len(numeric)) if "torque of" in programme.row_name(i)]
    np.testing.assert_allclose((programme.derivatives(x)[2] @ step)[own], numeric[own], rtol=0, atol=1e-6)


def test_the_reduced_space_has_a_row_for_every_limited_torque():
    problem = replace(build_jump_problem(0.5), strength=1.0)
    behaviour = read_problem_behaviour(problem).with_energy()
    built = build_reduced_problem(problem, behaviour, choose_settings(problem))
    limits = build_torque_limits(behaviour.tree, problem)
    names = {behaviour.tree.names[int(dof)] for dof in limits.dofs}
    assert {"LeftLeg", "LeftUpLeg_rx", "RightFoot_rx", "LeftForeArm", "Spine_rx"} <= names
    x, rng = built.start, np.random.default_rng(0)
    step = 1e-2 * rng.normal(size=x.size)
    numeric = (built.programme.values(x + 1e-5 * step)[1] - built.programme.values(x - 1e-5 * step)[1]) / 2e-5
    own = [i for i in range(len(numeric)) if built.programme.row_name(i).startswith("torque")]
    assert len(own) == len(limits.dofs) * len(built.scene.maker.heavy)
    np.testing.assert_allclose((built.programme.derivatives(x)[2] @ step)[own], numeric[own], rtol=0, atol=1e-4)


def test_limits_travel_through_files_and_mistakes_are_named_with_their_line(tmp_path):
    problem = replace(SQUAT, torque_limits={"left_knee": (-80.0, 40.0)})
    again = parse_problem(problem_to_toml(problem))
    assert (again.strength, dict(again.torque_limits)) == (1.0, {"left_knee": (-80.0, 40.0)})
    path = tmp_path / "squat.toml"
    text = problem_to_toml(problem).replace("left_knee", "left_kne")
    path.write_text(text)
    with pytest.raises(FormatError, match="left_kne") as error:
        load_problem(path)
    assert "torque_limits" in text.splitlines()[error.value.line - 1]
    for wrong in (replace(SQUAT, strength=0.0), replace(SQUAT, torque_limits={"left_knee": (10.0, 40.0)})):
        with pytest.raises(InputError):
            check_problem(wrong)


@pytest.mark.slow
def test_a_body_holds_a_squat_or_says_which_joint_is_too_weak():
    bent = {"left_knee": 1.2, "right_knee": 1.2}
    keys = tuple(
        Key(kind, "hold", at, joints=bent if kind == "pose" else {})
        for kind in ("pose", "velocity")
        for at in (0.0, 1.0)
    )
    squat = replace(SQUAT, phases=(ProblemPhase("hold", 0.4, (LEFT, RIGHT)),), keys=keys)
    strong = optimize(squat, on_failure="return")
    assert strong.is_solved and strong.check.torque_excess <= 0.05
    feeble = optimize(replace(squat, strength=0.01, max_iterations=60), on_failure="return")
    assert not feeble.is_solved and "torque" in feeble.sentence
