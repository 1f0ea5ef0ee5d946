"""Absolute and relative configurations (Tournier 2011, feature F2): round trip, separation, another root."""

from __future__ import annotations

import numpy as np
import pytest

import marey
from marey.base import InputError
from marey.lie import SE3
from marey.motion import find_central_joint, from_absolute, reroot, to_absolute

WALK = marey.samples.walk()[::20]


def test_relative_to_absolute_and_back_gives_the_clip_and_no_separation():
    found = from_absolute(WALK.skeleton, to_absolute(WALK), rate_hz=WALK.rate_hz)
    assert np.abs(found.motion.joint_positions() - WALK.joint_positions()).max() < 1e-12
    assert found.separations.max() < 1e-12


def test_a_bone_that_slips_separates_its_own_joint_and_those_it_carries():
    frames, joint = to_absolute(WALK), 4
    shift = np.zeros((WALK.num_frames, WALK.skeleton.num_joints, 3))
    shift[3, joint] = [0.0, 0.02, 0.0]
    apart = from_absolute(WALK.skeleton, SE3(frames.rotation, frames.translation + shift), rate_hz=30.0).separations
    assert apart[3, joint] == pytest.approx(0.02)
    for child in WALK.skeleton.children(joint):
        assert apart[3, child] == pytest.approx(0.02)
    assert apart.sum() == pytest.approx(0.02 * (1 + len(WALK.skeleton.children(joint))))


@pytest.mark.parametrize("joint", [None, "head", "left_ankle"])
def test_another_root_leaves_every_bone_where_it_was(joint):
    moved = reroot(WALK, joint)
    number = [moved.skeleton.index(name) for name in WALK.skeleton.names]
    old, new = to_absolute(WALK), to_absolute(moved)
    assert np.abs(old.rotation.matrix() - new.rotation[:, number].matrix()).max() < 1e-12
    # Every joint of the old tree is a joint of the new one; the origin of the old root was none
    gaps = np.linalg.norm(WALK.joint_positions()[:, 1:, None] - moved.joint_positions()[:, None], axis=-1)
    assert gaps.min(axis=2).max() < 1e-12
    if joint is not None:
        assert moved.skeleton.names[0] == joint
        back = reroot(moved, WALK.skeleton.names[0])
        same = [back.skeleton.index(name) for name in WALK.skeleton.names]
        assert np.abs((back.joint_positions()[:, same] - WALK.joint_positions())[:, 1:]).max() < 1e-12


def test_the_central_joint_makes_the_lowest_tree():
    def height(skeleton):
        depth = np.zeros(skeleton.num_joints, dtype=int)
        for j in range(1, skeleton.num_joints):
            depth[j] = depth[skeleton.parents[j]] + 1
        return depth.max()

    lowest = min(height(reroot(WALK, name).skeleton) for name in WALK.skeleton.names)
    assert height(reroot(WALK).skeleton) == lowest
    assert WALK.skeleton.names[find_central_joint(WALK.skeleton)] == reroot(WALK).skeleton.names[0]


def test_frames_of_another_body_are_refused():
    with pytest.raises(InputError, match="frames have batch"):
        from_absolute(WALK.skeleton, SE3.identity(3, 2), rate_hz=30.0)
