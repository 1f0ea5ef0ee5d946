"""Bad problems are refused before anything is solved ([Fang2003]_ A53 of the specification)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.problems import EXAMPLES

from marey.base import InputError, MareyError
from marey.motion import Motion
from marey.spacetime import SpacetimeProblem, optimize
from marey.spacetime.dispatch import build_character, check_problem
from marey.spacetime.full.keys import _max_distance  # pyright: ignore[reportPrivateUsage]
from marey.spacetime.full.layout import FullBodyModel
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase

FOOT = Contact("left_foot", (0.0, 0.0, 0.0))
STAND = SpacetimeProblem("stand", (ProblemPhase("stand", 0.4, (FOOT,)),), guess="stand")


def refusal(problem: SpacetimeProblem) -> str:
    with pytest.raises(MareyError) as caught:
        optimize(problem)
    return str(caught.value)


def with_foot(**changes: object) -> SpacetimeProblem:
    return replace(STAND, phases=(replace(STAND.phases[0], contacts=(replace(FOOT, **changes),)),))


def with_phase(**changes: object) -> SpacetimeProblem:
    return replace(STAND, phases=(replace(STAND.phases[0], **changes),))


def with_keys(*keys: Key) -> SpacetimeProblem:
    return replace(STAND, keys=keys)


def test_plants_out_of_reach_are_refused_with_the_measured_distance() -> None:
    far = Contact("right_hand", (0.0, 2.2, 4.0), kind="grip")
    near = Contact("left_hand", (0.0, 2.2, 0.0), kind="grip")
    message = refusal(SpacetimeProblem("bars", (ProblemPhase("one", 0.5, (near,)), ProblemPhase("two", 0.5, (far,)))))
    assert "4.00 m apart" in message and "'one' to 'two'" in message


def test_reach_between_hands_is_both_arms_and_the_shoulders() -> None:
    figure = FullBodyModel.from_tree(build_character(STAND))
    assert _max_distance(figure, "left_hand", "right_hand") == pytest.approx((2 * (0.186 + 0.20) + 2 * 0.12) * 1.65)
    assert _max_distance(figure, "left_foot", "left_foot") == 0.0


def test_a_plant_that_moves_between_supports_is_refused() -> None:
    moved = replace(FOOT, position=(0.0, 0.0, 0.3))
    message = refusal(replace(STAND, phases=(STAND.phases[0], ProblemPhase("next", 0.4, (moved,)))))
    assert "0.30 m apart" in message


def test_a_target_out_of_reach_is_refused() -> None:
    key = Key("point", "stand", 0.5, point="right_hand", target=(0.0, 5.0, 0.0))
    assert "right_hand" in refusal(with_keys(key))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (with_phase(duration_s=0.0), "zero duration"),
        (with_phase(duration_s=-1.0), "lasts -1"),
        (with_phase(duration_s=float("nan")), "nan"),
        (with_phase(duration_range_s=(0.5, 0.6)), "outside its range"),
        (with_phase(span_s=0.0), "stand"),
        (with_foot(position=(float("nan"), 0.0, 0.0)), "finite"),
        (with_foot(normal=(0.0, 2.0, 0.0)), "unit"),
        (with_foot(half_extents_m=(0.0, 0.05)), "half extents"),
        (with_foot(friction=-0.1), "negative"),
        (with_foot(friction=float("inf")), "finite"),
        (with_foot(max_tilt_deg=float("nan")), "tilt"),
        (with_foot(kind="glue"), "glue"),
        (with_foot(point="left_fot"), "left_foot"),
        (with_keys(Key("pose", "stand", 2.0, joints={"left_knee": 0.4})), "0 to 1"),
        (with_keys(Key("pose", "stand", 1.0, joints={"left_knee": float("inf")})), "finite"),
        (with_keys(Key("pose", "stand", 1.0, joints={"left_nee": 0.4})), "left_knee"),
        (with_keys(Key("pose", "stand", 1.0)), "no coordinate"),
        (with_keys(Key("pose", "stand", 1.0, joints={"left_knee": -1.0})), "no room"),
        (with_keys(Key("range", "stand", 1.0, joints={"left_knee": 0.0}, lower=1.0, upper=0.5)), "at least 1"),
        (with_keys(Key("dance", "stand")), "dance"),
        (with_keys(Key("point", "stand", 1.0)), "no point"),
        (with_keys(Key("point", "stand", 1.0, point="head")), "no target"),
        (with_keys(Key("turn", "nowhere", 1.0, lower=0.0)), "nowhere"),
        (replace(STAND, objective=Objective(accel=float("nan"))), "accel"),
        (replace(STAND, character="nobody"), "nobody"),
        (replace(STAND, guess="sleep"), "sleep"),
        (replace(STAND, frames_per_span=0), "at least 1"),
        (replace(STAND, gravity=-9.81), "gravity"),
        (replace(STAND, start_com=(0.0, float("nan"), 0.0)), "start_com"),
        (replace(STAND, limits={"left_knee": (float("nan"), 1.0)}), "left_knee"),
        (with_phase(duration_s=1e6), "spans"),
        (with_keys(Key("clearance", "stand", 1.0, point="hed", lower=0.1)), "'head'"),
    ],
)
def test_bad_input_is_refused_by_name(problem: SpacetimeProblem, words: str) -> None:
    assert words in refusal(problem)


def test_contradicting_keys_are_both_named() -> None:
    one = Key("pose", "stand", 0.5, joints={"left_knee": 0.4})
    other = Key("range", "stand", 0.5, joints={"left_knee": 0.0}, lower=0.9)
    message = refusal(with_keys(one, other))
    assert "'pose'" in message and "'range'" in message and "left_knee" in message and "0.20 s" in message


def test_contacts_that_share_the_load_have_no_known_torques() -> None:
    other = Contact("right_foot", (-0.2, 0.1, 0.0))
    shared = with_phase(contacts=(FOOT, other))
    check_problem(shared)
    assert "share the load" in refusal(replace(shared, objective=Objective(torque=1.0)))


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
def test_a_time_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(InputError, match="time limit"):
        optimize(STAND, time_limit_s=limit)


def test_unknown_methods_are_refused() -> None:
    for option in ({"space": "half"}, {"derivatives": "magic"}, {"solver": "simplex"}, {"on_failure": "weep"}):
        with pytest.raises(MareyError):
            optimize(STAND, **option)


def test_a_warm_start_of_another_skeleton_is_refused() -> None:
    stranger = EXAMPLES["dismount-0.6"]()
    tree = build_character(stranger)
    short = tree.to_motion(np.zeros((2, tree.num_dofs)), 30.0)
    with pytest.raises(InputError, match="four"):
        optimize(stranger, warm_start=short)
    from marey.samples import walk

    assert isinstance(walk(), Motion)
    with pytest.raises(InputError, match="skeleton"):
        optimize(stranger, warm_start=walk())
