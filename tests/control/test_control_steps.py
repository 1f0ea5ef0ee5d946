"""Steps: feet that stand where they came down, roll, and catch a figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import marey
from marey.contacts import feet_down
from marey.control import Reference, TrackingResult, TrackWeights, make_reference, solve_tracking, track_balance
from marey.control.preparation import find_soles, remove_short_phases
from marey.control.stepping import (
    AIR,
    BALL,
    DEFAULT_FOOTSTEPS,
    FLAT,
    HEEL,
    FloorPlanes,
    Footsteps,
    make_schedule,
)
from marey.control.tracking import make_figure
from marey.motion import Motion
from marey.simulate import Ground, Push

DT = 0.01
LEVEL = FloorPlanes((Ground(),))


class Walk(NamedTuple):
    """A walk made ready, and its feet."""

    reference: Reference
    steps: Footsteps

    def points(self, frame: int) -> np.ndarray:
        """Where the clip has corners and toes ``(2, 5, 3)`` [m]."""
        return np.array(self.reference.corners[frame])


@pytest.fixture(scope="module")
def clip() -> Motion:
    """Two seconds of the walk that ships."""
    return marey.samples.walk(seconds=2.0)


@pytest.fixture(scope="module")
def reference(clip: Motion) -> Reference:
    """It, made ready for all joints."""
    return make_reference(clip, make_figure(clip, None), DT)


@pytest.fixture
def walk(reference: Reference) -> Walk:
    """Feet at its beginning."""
    steps = Footsteps(
        reference, make_schedule(reference.corners, reference.down), find_soles(reference.motion.skeleton), LEVEL
    )
    steps.begin(reference.corners[0])
    return Walk(reference, steps)


def played(walk: Walk, stop: int, points: Callable[[int], np.ndarray] | None = None) -> None:
    """Let the feet do what the clip does, or what ``points`` says, up to a frame."""
    for n in range(stop):
        walk.steps.update(n, walk.points(n) if points is None else points(n), walk.reference.com[n, [0, 2]])


def first_landing(walk: Walk) -> tuple[int, int]:
    """Frame and side of the first landing."""
    down = walk.reference.down
    landed = np.argwhere(down[1:] & ~down[:-1])
    return int(landed[0, 0]) + 1, int(landed[0, 1])


def corners_at(heel_m: float, ball_m: float) -> np.ndarray:
    """One frame of two feet with heels and balls at heights."""
    points = np.zeros((1, 2, 5, 3))
    points[..., :2, 1], points[..., 2:4, 1], points[..., 4, 1] = heel_m, ball_m, ball_m + 0.006
    return points


@pytest.mark.parametrize(
    ("heel_m", "ball_m", "phase"),
    [(0.0, 0.05, HEEL), (0.0, 0.01, FLAT), (0.05, 0.0, BALL)],
    ids=["heel", "flat", "ball"],
)
def test_phase_of_a_foot_is_told_by_its_corners(heel_m: float, ball_m: float, phase: int) -> None:
    schedule = make_schedule(corners_at(heel_m, ball_m), np.array([[True, False]]))
    np.testing.assert_array_equal(schedule.phases, [[phase, AIR]])


def test_a_heel_that_stays_a_little_high_does_not_roll_and_one_that_rises_does() -> None:
    heels = {"askew": np.full(30, 0.015), "rising": np.linspace(0.0, 0.1, 30)}
    phases = {}
    for name, heights in heels.items():
        corners = np.concatenate([corners_at(heel_m, 0.0) for heel_m in heights])
        phases[name] = make_schedule(corners, np.ones((30, 2), dtype=np.bool_)).phases[:, 0]
    assert (phases["askew"] == FLAT).all()
    assert (phases["rising"][4:] == BALL).all()  # from a centimetre on


def test_schedule_knows_the_next_landing_and_the_next_lift() -> None:
    down = np.array([[1, 1], [0, 1], [0, 1], [1, 0]], dtype=np.bool_)
    schedule = make_schedule(np.zeros((4, 2, 5, 3)), down)
    np.testing.assert_array_equal(schedule.landings[:, 0], [0, 3, 3, 3])
    np.testing.assert_array_equal(schedule.lifts[:, 0], [1, 1, 2, 4])
    np.testing.assert_array_equal(schedule.lifts[:, 1], [3, 3, 3, 3])
    assert schedule.landings[3, 1] == len(schedule)


def test_contacts_that_flicker_are_no_steps() -> None:
    down = np.ones((40, 2), dtype=np.bool_)
    down[10:13, 0] = False
    down[20:35, 1] = False
    down[27, 1] = True
    calm = remove_short_phases(down, 8)
    assert calm[:, 0].all()
    np.testing.assert_array_equal(np.flatnonzero(~calm[:, 1]), np.arange(20, 35))


def test_floor_of_a_slope_rises_and_tells_gaps() -> None:
    floor = FloorPlanes((Ground.from_slope(np.radians(10.0)),))
    assert floor.height(np.array([3.0, 2.0])) == pytest.approx(2.0 * np.tan(np.radians(10.0)))
    np.testing.assert_allclose(floor.rise(np.zeros(2)), [0.0, np.tan(np.radians(10.0))])
    np.testing.assert_allclose(floor.gaps(floor.under(np.array([1.0, 7.0, -3.0]))), 0.0, atol=1e-12)


def test_floor_of_two_planes_is_the_higher_one() -> None:
    floor = FloorPlanes((Ground(), Ground.from_slope(np.radians(10.0), point=(0.0, 0.0, 1.0))))
    assert floor.height(np.array([0.0, 0.0])) == 0.0
    assert floor.height(np.array([0.0, 2.0])) > 0.1
    assert floor.normal(np.array([0.0, 2.0]))[2] < 0.0
    assert FloorPlanes(()).height(np.zeros(2)) == 0.0


def test_feet_that_do_as_the_clip_does_are_never_off(walk: Walk) -> None:
    played(walk, len(walk.reference) - 1)
    np.testing.assert_allclose(walk.steps.offset, 0.0, atol=0.03)  # feet roll, and the held edge with them


def test_clip_moves_with_the_foot_that_lands_elsewhere(walk: Walk) -> None:
    frame, side = first_landing(walk)
    away = np.array([0.03, 0.0, 0.11])

    def points(n: int) -> np.ndarray:
        moved = walk.points(n)
        moved[side] += away
        return moved

    played(walk, frame + 3, points)
    assert walk.steps.feet[side].is_down
    np.testing.assert_allclose(walk.steps.feet[side].offset, away[[0, 2]], atol=0.02)


def test_foot_that_is_late_goes_on_down_and_the_other_one_waits(walk: Walk) -> None:
    frame, side = first_landing(walk)
    lift = next(n for n in range(frame, len(walk.reference)) if not walk.reference.down[n, 1 - side])
    stuck = walk.points(frame - 1)
    stuck[1 - side] = walk.points(frame - 1)[1 - side]
    stuck[side, :, 1] += 0.03

    def points(n: int) -> np.ndarray:
        return walk.points(n) if n < frame - 5 else stuck

    played(walk, lift + 3, points)
    assert not walk.steps.feet[side].is_down
    assert walk.steps.feet[1 - side].is_down
    first = walk.steps.swing(lift + 3, side, np.zeros(2))
    again = walk.steps.swing(lift + 4, side, np.zeros(2))
    assert again.offset[1] - first.offset[1] == pytest.approx(-DEFAULT_FOOTSTEPS.sink_m_s * DT)
    assert first.velocity[1] == pytest.approx(-DEFAULT_FOOTSTEPS.sink_m_s)


def test_foot_that_touches_early_stands_but_one_that_scuffs_does_not(walk: Walk) -> None:
    frame, side = first_landing(walk)
    early = frame - round(0.5 * DEFAULT_FOOTSTEPS.early_s / DT)

    def touching(start: int) -> Callable[[int], np.ndarray]:
        def points(n: int) -> np.ndarray:
            moved = walk.points(n)
            if n >= start:
                moved[side, :, 1] -= moved[side, :, 1].min()
            return moved

        return points

    played(walk, early + 2, touching(early))
    assert walk.steps.feet[side].is_down
    walk.steps.begin(walk.points(0))
    scuff = frame - round(2.0 * DEFAULT_FOOTSTEPS.early_s / DT)
    played(walk, scuff + 2, touching(scuff))
    assert not walk.steps.feet[side].is_down


def test_swing_ends_where_it_shall_land(walk: Walk) -> None:
    frame, side = first_landing(walk)
    played(walk, frame - 5)
    foot = walk.steps.feet[side]
    goal = walk.steps.swing(foot.due - 1, side, np.array([0.1, 0.2]))
    np.testing.assert_allclose(goal.offset, [0.1, -DEFAULT_FOOTSTEPS.aim_below_m, 0.2], atol=2e-3)


def test_step_of_ones_own_lands_and_stays(walk: Walk) -> None:
    walk.steps.update(0, walk.points(0), np.zeros(2))
    side = int(np.argmax([foot.is_down for foot in walk.steps.feet]))
    walk.steps.step_out(0, side, walk.points(0), 0.2)
    heights = [walk.steps.swing(n, side, np.array([0.0, 0.3])).offset[1] for n in range(21)]
    assert max(heights) > 0.03
    walk.steps.update(20, walk.points(0), np.zeros(2))
    assert walk.steps.feet[side].is_down


def pushed_ahead(mocap: Path, step: float) -> TrackingResult:
    """Somebody who stands, and is pushed ahead with 350 N for a tenth of a second."""
    clip = marey.load(mocap / "cmu-bvh" / "69_70.bvh")[1:]
    push = [Push("Spine1", (0.0, 0.0, 350.0), 0.2, 0.1)]
    return track_balance(clip, seconds=2.2, pushes=push, weights=TrackWeights(step=step), model=20)


@pytest.mark.mocap
def test_push_that_drives_the_capture_point_out_is_caught_by_a_step(mocap: Path) -> None:
    caught = pushed_ahead(mocap, 1.0)
    assert caught.fall is None
    assert caught.motion.contacts is not None
    assert not feet_down(caught.motion.contacts).all()
    feet = list(find_soles(caught.motion.skeleton).joints)
    places = caught.motion.joint_positions()[:, feet]
    assert np.abs(places[-1] - places[0])[:, 2].max() > 0.1


@pytest.mark.mocap
def test_push_without_steps_throws_the_figure_over(mocap: Path) -> None:
    assert pushed_ahead(mocap, 0.0).fall is not None


@pytest.fixture(scope="module")
def pushed_walk() -> TrackingResult:
    walk = marey.samples.walk(seconds=2.5)
    return solve_tracking(walk, pushes=[Push("spine3", (100.0, 0.0, 0.0), 1.0, 0.1)])


def test_walk_is_pushed_aside_and_goes_on(pushed_walk: TrackingResult) -> None:
    assert pushed_walk.fall is None
    asked = pushed_walk.reference.motion.root_positions[: len(pushed_walk.motion)]
    assert (pushed_walk.motion.root_positions - asked)[:, 0].max() > 0.03


@pytest.mark.slow
def test_walk_is_aside_at_its_end(pushed_walk: TrackingResult) -> None:
    ends = pushed_walk.motion.root_positions[-1, 0], pushed_walk.reference.motion.root_positions[-1, 0]
    assert ends[0] - ends[1] > 0.03
