"""A body on one foot moves as gravity tips it: an inverted pendulum, played at its own speed and faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.dynamics import GRAVITY, Body, check_validity, find_supports
from marey.dynamics.validation.check import compute_tipping_ratio
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, t_pose

RATE = 120.0


def pendulum(stiffness: float = 1.0, seconds: float = 3.0) -> Motion:
    """A stiff body whose centre of mass leaves the middle as that of a pendulum, ``stiffness`` times gravity's."""
    pose = t_pose(HUMAN)
    still = Motion(HUMAN, RATE, pose.root_position[None], SO3(pose.rotations.wxyz[None]))
    flat = Contacts(("left_foot",), np.ones((1, 1), dtype=bool))
    height = Body.from_skeleton(HUMAN).centre_of_mass(still)[0, 1] - find_supports(still, flat, floor="plants").floor_m
    rate = np.sqrt(stiffness * GRAVITY / height)
    times = np.arange(round(seconds * RATE)) / RATE - 0.5 * seconds
    sway = 0.4 * np.sinh(rate * times) / np.sinh(rate * times[-1])
    roots = pose.root_position + np.outer(sway, [0.0, 0.0, 1.0])
    motion = Motion(HUMAN, RATE, roots, SO3(np.repeat(pose.rotations.wxyz[None], len(times), axis=0)))
    return replace(motion, contacts=Contacts(("left_foot",), np.ones((len(times), 1), dtype=bool)))


def planted(motion: Motion) -> np.ndarray:
    """Haste with the foot held below where the centre of mass is half way."""
    report = check_validity(motion, floor="plants", cutoff_hz=None)
    supports, middle = report.supports, motion.num_frames // 2
    below = (report.dynamics.com[middle] - supports.points[middle, :6].mean(axis=0)) * [1.0, 0.0, 1.0]
    fixed = np.repeat(supports.points[middle : middle + 1] + below, motion.num_frames, axis=0)
    return compute_tipping_ratio(report.dynamics, replace(supports, points=fixed), report.centre_of_pressure)


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_haste_of_a_pendulum_is_its_stiffness_over_gravity(share):
    motion = pendulum(share)
    found = planted(motion)
    np.testing.assert_allclose(found[found > 0.0], share, atol=0.03)
    assert (found > 0.0).mean() > 0.9


def test_haste_grows_with_the_square_of_the_speed_of_play():
    motion = pendulum(0.6)
    slow, fast = planted(motion), planted(replace(motion, rate_hz=1.5 * RATE))
    assert np.median(fast) == pytest.approx(2.25 * np.median(slow), rel=0.02)


def test_nothing_tells_where_both_feet_or_none_touch():
    motion = pendulum()
    both = replace(motion, contacts=Contacts(("feet",), np.ones((motion.num_frames, 1), dtype=bool)))
    none = replace(motion, contacts=Contacts(("feet",), np.zeros((motion.num_frames, 1), dtype=bool)))
    for clip in (both, none):
        np.testing.assert_array_equal(planted(clip), 0.0)


def test_a_body_that_stays_over_its_foot_tells_nothing():
    motion = pendulum()
    still = replace(motion, root_positions=np.repeat(motion.root_positions[180:181], motion.num_frames, axis=0))
    np.testing.assert_array_equal(planted(still), 0.0)
