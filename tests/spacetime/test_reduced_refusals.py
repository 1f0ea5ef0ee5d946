"""What the reduced space refuses before it solves anything, with the phase and the measured distance (A47, F9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import marey.spacetime
from marey.base import InputError, MissingFileError, UnknownNameError
from marey.spacetime import (
    BehaviourSpace,
    SpacetimeProblem,
    build_flip_problem,
    build_jump_problem,
    build_run_problem,
    build_walk_problem,
    optimize,
    optimize_reduced,
)
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase

FOLDER = Path(marey.spacetime.__file__).parent / "behaviours"


def never(_):
    raise AssertionError("the solver began")


def stand(*contacts, name="stand"):
    return ProblemPhase(name, 0.5, contacts)


def left(x=0.05, z=0.0, **more):
    return Contact("left_foot", (x, 0.0, z), **more)


def right(x=-0.05, z=0.0, **more):
    return Contact("right_foot", (x, 0.0, z), **more)


@pytest.mark.parametrize("step", [2.0, 2.5, 6.0])
def test_a47_a_step_too_long_for_the_legs_is_refused_with_its_distance(walks, step):
    with pytest.raises(InputError, match=rf"'double 0' are planted {step:.2f} m apart.*reaches 1\.\d\d m"):
        optimize_reduced(build_walk_problem((step, 0.7)), behaviour=walks, on_iteration=never)


def test_a47_a_step_without_double_support_is_refused_too(walks):
    phases = (stand(left(), name="one"), stand(right(z=2.2), name="two"), stand(left(z=2.5), name="three"))
    with pytest.raises(InputError, match=r"'one' and 'two' are planted 2\.20 m apart"):
        optimize_reduced(SpacetimeProblem("stride", phases, space="reduced"), behaviour=walks, on_iteration=never)


def test_a_flight_may_be_longer_than_any_step(walks):
    with pytest.raises(AssertionError, match="the solver began"):
        optimize_reduced(
            build_run_problem((2.4, 2.4)), behaviour=BehaviourSpace.load(FOLDER / "run.safetensors"), on_iteration=never
        )


@pytest.mark.parametrize(("x", "words"), [(1.0, r"2\.00 m apart"), (0.95, r"1\.90 m apart"), (0.88, r"from its hip")])
def test_a47_plants_beside_each_other_and_too_far_apart(jumps, x, words):
    problem = SpacetimeProblem("split", (stand(left(x), right(-x)),), space="reduced")
    with pytest.raises(InputError, match=words):
        optimize_reduced(problem, behaviour=jumps, on_iteration=never)


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ((ProblemPhase("fly", 0.4), stand(left(), right())), "begins in the air.*'fly'"),
        ((stand(left(), right()), ProblemPhase("fly", 0.4)), "ends in the air.*'fly'"),
        ((stand(left(), right()), stand(left(z=0.3), right(), name="slid")), "left_foot has another plant.*'slid'"),
        ((stand(left(), left(0.2)),), "plants 'left_foot' twice"),
        ((stand(left(normal=(0.0, 0.8, 0.6)), right()),), "sloping"),
        ((stand(Contact("left_hand", (0.0, 2.0, 0.0), kind="grip")),), "full space"),
        ((stand(Contact("left_foot", (0.0, 0.0, 0.0), kind="grip")),), "full space"),
    ],
)
def test_phases_that_no_reduced_motion_has(jumps, phases, words):
    with pytest.raises(InputError, match=words):
        optimize_reduced(SpacetimeProblem("odd", phases, space="reduced"), behaviour=jumps, on_iteration=never)


@pytest.mark.parametrize("kind", ["velocity", "point", "com_velocity", "bar", "force"])
def test_keys_that_only_the_full_space_knows(jumps, kind):
    key = Key(kind, "push", point="left_hand", target=(0.0, 1.0, 0.0), lower=0.1)
    with pytest.raises(InputError, match=rf"key '{kind}' of phase 'push'.*reduced space knows pose, range"):
        optimize_reduced(replace(build_jump_problem(), keys=(key,)), behaviour=jumps, on_iteration=never)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (Key("pose", "nowhere", joints={"LeftLeg": 0.5}), UnknownNameError, "nowhere"),
        (Key("pose", "flight", joints={"LeftLge": 0.5}), UnknownNameError, "LeftLge"),
        (Key("pose", "flight", 1.5, joints={"LeftLeg": 0.5}), InputError, "share of its phase"),
        (Key("turn", "flight", axis="up", lower=0.0), InputError, "yaw"),
        (Key("com", "push", 0.5, target=(None, 1.0, None)), InputError, "belongs to a flight"),
        (Key("clearance", "flight", point="tail", lower=0.1), UnknownNameError, "tail"),
    ],
)
def test_keys_that_name_what_is_not_there(jumps, key, error, words):
    with pytest.raises(error, match=words):
        optimize_reduced(replace(build_jump_problem(), keys=(key,)), behaviour=jumps, on_iteration=never)


@pytest.mark.parametrize("basis", [None, ""])
def test_a_problem_without_a_basis_is_refused(basis):
    with pytest.raises(InputError, match="names no basis"):
        optimize(replace(build_jump_problem(), basis=basis))


def test_a_basis_that_is_nowhere_is_refused():
    with pytest.raises(MissingFileError, match="nowhere"):
        optimize(build_jump_problem(basis="nowhere.safetensors"))


def test_weights_and_durations_that_are_none_are_refused():
    with pytest.raises(InputError, match="torque"):
        optimize(replace(build_jump_problem(), objective=Objective(torque=-1.0)))
    with pytest.raises(InputError, match="flight"):
        optimize(build_jump_problem(flight_s=float("nan")))


def test_builders_refuse_what_they_cannot_build():
    for steps in ((), (0.7,), (0.7, 0.7, 0.7)):
        with pytest.raises(InputError, match="even number"):
            build_walk_problem(steps)
    with pytest.raises(InputError, match="2 heights for 3 stances"):
        build_run_problem((1.0, 1.0), (0.0, 0.1))


def test_builders_say_what_they_were_asked():
    jump = build_jump_problem(0.8, 90.0, landing_height_m=0.2)
    assert [contact.heading_deg for contact in jump.phases[2].contacts] == [90.0, 90.0]
    assert jump.phases[2].contacts[0].position == pytest.approx((0.0, 0.2, 0.7))  # turned left: its left is behind
    stones = build_run_problem((1.0, 1.2), (0.0, 0.1, 0.2))
    assert [phase.contacts[0].position[1] for phase in stones.phases if phase.contacts] == [0.0, 0.1, 0.2]
    over = build_walk_problem((0.7, 0.7, 0.7, 0.7), obstacle_m=(0.0, 0.3))
    assert {key.lower for key in over.keys} == {0.3}
    assert {key.point for key in over.keys} == {"left_foot"}
    assert len(build_flip_problem(is_straight=True).keys) > len(build_flip_problem().keys)
