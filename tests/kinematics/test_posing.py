"""The posing desk: goals and pose space."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.creatures import CREATURES, make_walk

from marey import samples
from marey.base import InputError
from marey.kinematics import BoxLimits, ConeLimits, PointTask, solve_ik
from marey.kinematics.posing import METHODS, PoseEditor
from marey.lie import SO3
from marey.models import PGA
from marey.motion import KeyFrames
from marey.skeleton import Pose, Skeleton

WALK = samples.walk()
UP = np.array([0.0, 0.15, 0.05])


@pytest.fixture
def desk() -> PoseEditor:
    return PoseEditor(WALK[40])


def place(desk: PoseEditor, handle: str) -> np.ndarray:
    return desk.state.pose.joint_positions()[desk.joints[handle]]


def test_a_dragged_hand_goes_where_it_is_put_and_the_others_hold(desk: PoseEditor) -> None:
    before = {handle: place(desk, handle) for handle in desk.joints}
    desk.drag("right_wrist", before["right_wrist"] + UP)
    np.testing.assert_allclose(place(desk, "right_wrist"), before["right_wrist"] + UP, atol=2e-3)
    for handle in ("left_ankle", "right_ankle", "head", "pelvis"):
        np.testing.assert_allclose(place(desk, handle), before[handle], atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_every_solver_on_the_list_can_be_dragged_with(desk: PoseEditor, method: str) -> None:
    desk.method = method
    goal = place(desk, "right_wrist") + 0.3 * UP
    desk.drag("right_wrist", goal)
    assert np.linalg.norm(place(desk, "right_wrist") - goal) < 0.01


@pytest.mark.parametrize("kind", [BoxLimits, ConeLimits])
def test_limits_hold_while_dragging(desk: PoseEditor, kind: type[BoxLimits] | type[ConeLimits]) -> None:
    desk.limits = kind.from_clips([WALK], margin_rad=0.1)
    desk.drag("right_wrist", place(desk, "right_wrist") + np.array([0.0, 0.6, 0.2]))
    assert desk.limits.violation(desk.state.pose).max() < 1e-6


def test_letting_go_brings_goals_out_of_reach_back_to_the_body(desk: PoseEditor) -> None:
    desk.drag("head", place(desk, "head") + np.array([0.0, 2.0, 0.0]))
    assert desk.result is not None and np.linalg.norm(desk.state.goals["head"] - place(desk, "head")) > 0.5
    desk.release()
    np.testing.assert_allclose(desk.state.goals["head"], place(desk, "head"), atol=1e-12)


def test_modes_move_the_pose_inside_its_space(desk: PoseEditor) -> None:
    desk.model = PGA(n_components=4).fit(WALK)
    desk.set_mode(1, 1.5)
    assert desk.modes()[1] == pytest.approx(1.5, abs=1e-6)
    np.testing.assert_array_equal(desk.state.pose.root_position, WALK[40].root_position)


def test_the_reduced_solver_stays_in_the_pose_space(desk: PoseEditor) -> None:
    desk.model, desk.is_reduced = PGA(n_components=6).fit(WALK), True
    desk.drag("right_wrist", place(desk, "right_wrist") + 0.3 * UP)
    again = desk.model.rotations(desk.modes() * desk.model.deviations).wxyz[1:]
    now = desk.state.pose.rotations.wxyz[1:]
    assert np.abs(np.abs(np.sum(again * now, axis=-1)) - 1.0).max() < 1e-6


def test_goals_that_are_no_places_are_refused(desk: PoseEditor) -> None:
    for bad in (np.array([np.nan, 0.0, 0.0]), np.array([1e9, 0.0, 0.0])):
        with pytest.raises(InputError, match="not a place"):
            desk.drag("head", bad)
    with pytest.raises(InputError, match="no handle 'tail'"):
        desk.drag("tail", np.zeros(3))


def test_modes_need_a_space_and_have_a_range(desk: PoseEditor) -> None:
    with pytest.raises(InputError, match="no pose space"):
        desk.set_mode(0, 1.0)
    desk.model = PGA(n_components=2).fit(WALK)
    with pytest.raises(InputError, match="mode 0 at 1e"):
        desk.set_mode(0, 1e300)


@pytest.mark.parametrize("creature", ["dog", "spider"])
def test_an_animal_is_dragged_by_its_own_joints_and_key_framed(creature: str) -> None:
    walk = make_walk(CREATURES[creature])
    desk = PoseEditor(walk[0])
    foot = {"dog": "LeftWrist", "spider": "Leg2L_4"}[creature]
    before = {handle: place(desk, handle) for handle in desk.joints}
    desk.limits = BoxLimits.from_clips([walk], margin_rad=0.5)
    keys = KeyFrames(walk.skeleton).with_key(0.0, desk.state.pose)
    goal = before[foot] + np.array([0.0, 0.03, 0.02])
    desk.drag(foot, goal)
    np.testing.assert_allclose(place(desk, foot), goal, atol=2e-3)
    for other in desk.feet - {foot}:
        np.testing.assert_allclose(place(desk, other), before[other], atol=2e-3)
    assert desk.limits.violation(desk.state.pose).max() < 1e-6
    # A middle joint can be dragged as well
    knee = {"dog": "LeftElbow", "spider": "Leg2L_3"}[creature]
    desk.drag(knee, place(desk, knee) + np.array([0.01, 0.0, 0.0]))
    keys = keys.with_key(1.0, desk.state.pose)
    between = keys.pose_at(0.5).joint_positions()[desk.joints[foot]]
    assert before[foot][1] < between[1] < goal[1] + 0.01


@pytest.mark.parametrize(("creature", "foot", "others"), [("dog", "LeftWrist", 3), ("spider", "Leg2L_4", 4)])
def test_an_animal_keeps_the_feet_that_it_stands_on_and_no_limits_of_people(
    creature: str, foot: str, others: int
) -> None:
    start = make_walk(CREATURES[creature])[0]
    before, j = start.joint_positions(), start.skeleton.index(foot)
    result = solve_ik(start.skeleton, [PointTask(foot, before[j] + np.array([0.0, 0.03, 0.02]))], start=start)
    after = result.pose.joint_positions()
    held = [start.skeleton.index(name) for name in result.planted]
    assert len(held) == others and np.abs(after[held] - before[held]).max() < 1e-3
    assert "people" not in result.advice and result.limit_violation_rad == 0.0


@pytest.mark.parametrize(("creature", "foot", "others"), [("dog", "LeftWrist", 3), ("spider", "Leg2L_4", 4)])
def test_an_animal_whose_root_lies_on_the_floor_keeps_its_feet_too(creature: str, foot: str, others: int) -> None:
    """As in rigs of games: the node of the scene is the root, and the height of the trunk is that of its joints."""
    body = make_walk(CREATURES[creature])[0]
    parents, offsets = (
        np.array([-1, *(body.skeleton.parents + 1)]),
        np.concatenate([[[0.0] * 3], body.skeleton.offsets]),
    )
    offsets[1] = body.root_position
    skeleton = Skeleton(("scene", *body.skeleton.names), parents, offsets)
    start = Pose(skeleton, np.zeros(3), SO3.concatenate([SO3.identity(1), body.rotations]))
    before, j = start.joint_positions(), skeleton.index(foot)
    result = solve_ik(skeleton, [PointTask(foot, before[j] + np.array([0.0, 0.03, 0.02]))], start=start)
    held = [skeleton.index(name) for name in result.planted]
    assert len(held) >= others and np.abs(result.pose.joint_positions()[held] - before[held]).max() < 1e-3


def test_a_rod_has_handles_at_its_ends() -> None:
    rod = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    assert set(PoseEditor(Pose.rest(rod)).joints) == {"a", "b"}


def test_a_pose_space_drag_stays_within_three_deviations_with_feet_on_the_ground(desk: PoseEditor) -> None:
    desk.model, desk.is_reduced = PGA(n_components=6).fit(WALK), True
    desk.set_mode(0, desk.modes()[0])  # the nearest pose of the space, whose feet are where they can stand
    feet = [place(desk, f"{side}_ankle") for side in ("left", "right")]
    start = place(desk, "right_wrist")
    for k in range(1, 11):
        desk.drag("right_wrist", start + 0.05 * k * np.array([0.6, 0.0, 0.8]))
        assert np.abs(desk.modes()).max() <= 3.0 + 1e-6
        for side, foot in zip(("left", "right"), feet, strict=True):
            assert np.linalg.norm(place(desk, f"{side}_ankle") - foot) < 1e-3
