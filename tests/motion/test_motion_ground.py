"""The floor and the height of a body."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from marey import samples
from marey.contacts import detect_contacts
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion, align_to_ground, contact_positions, ground_height, standing_height
from marey.skeleton import HUMAN, Skeleton, human

jump, run, walk = (cache(make) for make in (samples.jump, samples.run, samples.walk))


def lifted(motion: Motion, height_m: float) -> Motion:
    return replace(motion, root_positions=motion.root_positions + np.array([0.0, height_m, 0.0]))


@pytest.mark.parametrize("make", [walk, run, jump])
@pytest.mark.parametrize("height_m", [0.0, 0.3, -2.0])
def test_the_floor_of_a_sample_is_found_where_it_was_put(make, height_m):
    assert ground_height(lifted(make(), height_m)) == pytest.approx(height_m, abs=0.01)


def test_aligning_puts_the_floor_at_zero_and_changes_nothing_else():
    clip = lifted(walk(), 0.37)
    flat = align_to_ground(clip)
    assert ground_height(flat) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_array_equal(flat.root_positions[:, [0, 2]], clip.root_positions[:, [0, 2]])


def test_a_few_frames_that_sink_below_the_floor_do_not_move_it():
    clip = walk()
    positions = clip.root_positions.copy()
    positions[100:104, 1] -= 0.2
    assert ground_height(replace(clip, root_positions=positions)) == pytest.approx(0.0, abs=0.01)


def test_one_standing_frame_is_enough():
    clip = walk()[:1]
    lowest = contact_positions(clip)[0, :, 1].min()
    assert ground_height(clip) == pytest.approx(lowest, abs=0.02)


def test_a_tree_without_feet_rests_on_its_lowest_joint():
    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0, 0], [0, -1.0, 0]]))
    clip = Motion(stick, 30.0, np.full((5, 3), 2.0), SO3.identity(5, 2))
    assert ground_height(clip) == pytest.approx(1.0)


@pytest.mark.parametrize("stature_m", [1.2, 1.75, 2.0])
def test_the_canonical_human_is_as_tall_as_it_was_made(stature_m):
    assert standing_height(human(stature_m)) == pytest.approx(stature_m, rel=0.01)


def test_a_head_without_tip_is_given_its_crown():
    bald = Skeleton(HUMAN.names, HUMAN.parents, HUMAN.offsets, np.zeros((22, 3)))
    assert standing_height(bald) == pytest.approx(1.75, rel=0.02)


def test_the_pose_at_rest_does_not_change_the_height():
    hanging = HUMAN.offsets.copy()
    for side, angle in (("left", -1.5), ("right", 1.5)):
        for part in ("elbow", "wrist"):
            joint = HUMAN.index(f"{side}_{part}")
            hanging[joint] = SO3.exp([0.0, 0.0, angle]) @ hanging[joint]
    at_ease = Skeleton(HUMAN.names, HUMAN.parents, hanging, HUMAN.tips)
    assert standing_height(at_ease) == pytest.approx(standing_height(HUMAN), abs=1e-9)


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["07_01", "09_06", "16_09", "35_14", "118_11", "69_70"])
def test_standing_feet_of_captured_clips_are_on_the_aligned_floor(mocap, name):
    clip = align_to_ground(load(mocap / "cmu-bvh" / f"{name}.bvh"))
    contacts = detect_contacts(clip)
    feet = [k for k, point in enumerate(contacts.names) if point.endswith(("heel", "toe"))]
    heights = np.where(contacts.active[:, feet], contact_positions(clip)[:, feet, 1], np.inf).min(axis=1)
    assert abs(np.median(heights[np.isfinite(heights)])) < 0.02
