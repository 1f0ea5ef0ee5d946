"""Balance: standing on both feet and on one, pushed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import marey
from marey.base import InputError, UnknownNameError
from marey.contacts import feet_down
from marey.control import make_stand, track_balance
from marey.control.balance import hull_distances
from marey.control.in_place import make_balance_clip
from marey.control.preparation import find_soles, sole_positions
from marey.control.tracking_laws import TrackWeights
from marey.kinematics import PointTask
from marey.motion import Motion, centre_of_mass
from marey.numerics import convex_hull
from marey.simulate import Push
from marey.skeleton import role_map


@pytest.fixture(scope="module")
def pick_up(mocap: Path) -> Motion:
    """Clip 69_70: who walks up to an object, squats and picks it up."""
    return marey.load(mocap / "cmu-bvh" / "69_70.bvh")[1:]


def pushes_around(force_n: float, seconds: float) -> list[Push]:
    """A push of a tenth of a second every five seconds, each from another side."""
    sides = [(np.cos(1.3 * n), 0.0, np.sin(1.3 * n)) for n in range(int(seconds / 5.0) + 1)]
    return [Push("Spine1", force_n * np.array(side), 5.0 * n + 1.0, 0.1) for n, side in enumerate(sides)]


@pytest.mark.mocap
@pytest.mark.parametrize("feet", ["both", "left", "right"])
def test_stand_has_its_centre_of_mass_over_its_feet(pick_up: Motion, feet: str) -> None:
    clip = make_stand(pick_up, 4.0, feet=feet)
    assert clip.contacts is not None
    down, corners = feet_down(clip.contacts)[-1], sole_positions(clip, find_soles(clip.skeleton))[-1, :, :4]
    middle = corners[down].reshape(-1, 3).mean(axis=0)
    assert np.abs(centre_of_mass(clip)[-1] - middle)[[0, 2]].max() < 0.01
    assert np.abs(corners[down][..., 1]).max() < 2e-3
    assert down.sum() == (2 if feet == "both" else 1)
    if feet != "both":
        assert corners[~down][..., 1].min() > 0.1


@pytest.mark.mocap
def test_moves_of_balance_sway_and_bend_and_lift_each_foot(pick_up: Motion) -> None:
    moves = make_balance_clip(pick_up)
    heights = moves.joint_positions()[:, 0, 1]
    corners = sole_positions(moves, find_soles(moves.skeleton))[..., :4, 1].min(axis=-1)
    assert np.ptp(heights) > 0.05
    assert (corners.max(axis=0) > 0.1).all()
    assert np.ptp(centre_of_mass(moves)[:, [0, 2]], axis=0).min() > 0.08


@pytest.mark.mocap
def test_stand_wants_a_foot_and_a_time(pick_up: Motion) -> None:
    with pytest.raises(UnknownNameError):
        make_stand(pick_up, feet="middle")
    with pytest.raises(InputError, match="seconds"):
        make_stand(pick_up, 0.0)
    with pytest.raises(InputError, match="modes"):
        track_balance(pick_up, model=0, seconds=1.0)


@pytest.mark.mocap
def test_tournier_68_two_feet_withstand_pushes_of_20_n(pick_up: Motion) -> None:
    seconds = 3.5  # benchmarks/study_control.py runs the whole minute
    found = track_balance(pick_up, seconds=seconds, pushes=pushes_around(20.0, seconds), model=20)
    assert found.fall is None
    assert found.planned.all()
    assert found.error_m.max() < 0.02


@pytest.mark.mocap
def test_two_feet_withstand_a_push_of_100_n_and_come_back(pick_up: Motion) -> None:
    found = track_balance(pick_up, seconds=2.5, pushes=[Push("Spine1", (100.0, 0.0, 0.0), 1.0, 0.1)], model=20)
    assert found.fall is None
    assert found.error_m.max() > found.error_m[-1]
    assert found.error_m[-1] < 0.03


@pytest.mark.mocap
def test_tournier_68_one_foot_stands_longer_with_angular_momentum_held(pick_up: Motion) -> None:
    """The features of the source alone, all joints free: nothing but the momentum keeps the body from turning."""
    # Centre of mass and momentum alone, and no step saves it; study_control.py stands for 12 s
    bare = TrackWeights(com=5e4, momentum=2e4, root=0.0, pose=0.0, step=0.0)
    held, free = (
        track_balance(pick_up, seconds=5.0, feet="left", model=None, limits=None, momentum=momentum, weights=bare)
        for momentum in (True, False)
    )
    assert free.fall is not None
    assert held.fall is None


@pytest.mark.mocap
def test_one_foot_is_lifted_and_stays_up(pick_up: Motion) -> None:
    found = track_balance(pick_up, seconds=4.0, feet="left", model=20)
    assert found.fall is None
    assert found.motion.contacts is not None
    assert not feet_down(found.motion.contacts)[-60:, 1].any()
    assert found.error_m[-1] < 0.01  # what never lands is not sent after the capture point


@pytest.mark.mocap
def test_hand_reaches_while_the_figure_balances(pick_up: Motion) -> None:
    clip = make_stand(pick_up, 1.0)
    hand = role_map(clip.skeleton)["right_wrist"]
    goal = clip.joint_positions()[-1, hand] + (0.0, 0.1, 0.0)
    reach = PointTask(hand, goal, weight=30.0)
    found = track_balance(pick_up, seconds=3.0, model=20, tasks=[reach])
    assert found.fall is None
    assert np.linalg.norm(found.motion.joint_positions()[-1, hand] - goal) < 0.03


@pytest.mark.mocap
@pytest.mark.parametrize("seconds", [2.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_tournier_69_a_goal_two_metres_away_does_not_tip_a_figure_that_balances(
    pick_up: Motion, seconds: float
) -> None:
    clip = make_stand(pick_up, 1.0)
    hand = role_map(clip.skeleton)["left_wrist"]
    start = clip.joint_positions()[-1, hand]
    found = track_balance(pick_up, seconds=seconds, tasks=[PointTask(hand, start + np.array([0.0, 0.0, 2.0]))])
    assert found.fall is None
    # Centre of mass over the hull of the points of the soles that are on the ground, in every frame
    corners = sole_positions(found.motion, find_soles(found.motion.skeleton)).reshape(len(found.motion), -1, 3)
    for points, com in zip(corners[5:], centre_of_mass(found.motion)[5:], strict=True):
        hull = convex_hull(points[points[:, 1] < 0.01][:, [0, 2]])
        assert hull_distances(hull, com[[0, 2]])[1].min() > 0.0
    assert found.motion.joint_positions()[-1, hand, 2] - start[2] > 0.2  # it does reach


@pytest.mark.slow
@pytest.mark.parametrize("way", range(8))
def test_a_figure_that_caught_a_push_of_250_n_stands_as_before_three_seconds_later(pick_up: Motion, way: int) -> None:
    angle = np.pi / 4.0 * way
    push = Push("Spine1", (250.0 * np.sin(angle), 0.0, 250.0 * np.cos(angle)), 0.5, 0.1)
    found = track_balance(pick_up, seconds=3.65, pushes=[push])
    assert found.fall is None
    places, roles = found.motion.joint_positions(), role_map(found.motion.skeleton)
    before, after = places[40], places[360]
    assert np.sqrt(((after - before) ** 2).sum(axis=1).mean()) < 0.03
    turned = (found.motion.rotations[40].inverse() @ found.motion.rotations[360]).log()
    assert np.degrees(np.linalg.norm(turned, axis=-1)).max() < 10.0
    apart = [p[roles["left_ankle"]] - p[roles["right_ankle"]] for p in (before, after)]
    assert np.linalg.norm(apart[0] - apart[1]) < 0.03
