"""Joining clips."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from marey import samples
from marey.base import InputError
from marey.lie import geodesic_distance
from marey.motion import concatenate, headings
from marey.motion.editing import skeleton_difference
from marey.skeleton import HUMAN, Skeleton, human

run, walk = (cache(make) for make in (samples.run, samples.walk))


def test_parts_follow_one_another_unchanged(wild):
    joined = concatenate([wild[:40], wild[40:70], wild[70:]])
    np.testing.assert_array_equal(joined.root_positions, wild.root_positions)
    np.testing.assert_array_equal(joined.rotations.wxyz, wild.rotations.wxyz)
    np.testing.assert_array_equal(joined.contacts.active, wild.contacts.active)


def test_an_aligned_clip_goes_on_where_the_first_ends(wild):
    joined = concatenate([wild, wild], align=True)
    step = joined.root_positions[90] - joined.root_positions[89]
    before = wild.root_positions[89] - wild.root_positions[88]
    np.testing.assert_allclose(step[[0, 2]], before[[0, 2]], atol=1e-12)
    yaw = headings(joined)
    assert np.angle(np.exp(1j * (yaw[90] - yaw[89]))) == pytest.approx(0.0, abs=1e-9)


def test_aligning_keeps_heights_and_poses(wild):
    joined = concatenate([wild, wild], align=True)
    np.testing.assert_allclose(joined.root_positions[90:, 1], wild.root_positions[:, 1], atol=1e-12)
    assert geodesic_distance(joined.rotations[90:, 1:], wild.rotations[:, 1:]).max() < 1e-7


def test_a_walk_and_a_run_of_the_sample_body_can_be_joined():
    joined = concatenate([walk(), run()], align=True)
    assert joined.num_frames == walk().num_frames + run().num_frames
    gaps = np.linalg.norm(np.diff(joined.root_positions[:, [0, 2]], axis=0), axis=1)
    assert gaps.max() < 0.1


def test_one_clip_is_itself(wild):
    np.testing.assert_array_equal(concatenate([wild]).root_positions, wild.root_positions)


def test_nothing_cannot_be_joined():
    with pytest.raises(InputError, match="at least one"):
        concatenate([])


def test_another_rate_is_refused_with_the_remedy(wild):
    with pytest.raises(InputError, match=r"clip 1 .* 30 Hz, the first at 60 Hz.*Resample"):
        concatenate([wild, replace(wild, rate_hz=30.0)])


def test_another_bone_length_is_named_with_its_difference(wild):
    taller = replace(wild, skeleton=human(1.9))
    with pytest.raises(InputError, match=r"offset of '\w+' differs by \d+.* mm.*Retarget"):
        concatenate([wild, taller])


def test_differences_of_skeletons_are_named():
    names = list(HUMAN.names)
    names[3] = "belly"
    renamed = Skeleton(tuple(names), HUMAN.parents, HUMAN.offsets)
    parents = HUMAN.parents.copy()
    parents[15] = 9
    regrown = Skeleton(HUMAN.names, parents, HUMAN.offsets)
    short = Skeleton(HUMAN.names[:5], HUMAN.parents[:5], HUMAN.offsets[:5])
    assert skeleton_difference(HUMAN, renamed) == "joint 3 is called 'belly', not 'spine1'"
    assert skeleton_difference(HUMAN, regrown) == "'head' hangs on 'spine3', not on 'neck'"
    assert skeleton_difference(HUMAN, short) == "5 joints, not 22; 'right_knee' is in one only"
    assert skeleton_difference(HUMAN, human()) is None


def test_contact_tracks_that_do_not_match_are_dropped(wild):
    bare = replace(wild, contacts=None)
    assert concatenate([wild, bare]).contacts is None


def test_rigid_and_moving_bones_join(wild):
    moving = np.broadcast_to(HUMAN.offsets, (90, 22, 3)) * 1.1
    joined = concatenate([wild, replace(wild, translations=moving)])
    np.testing.assert_allclose(joined.joint_positions()[:90], wild.joint_positions(), atol=1e-12)
