"""Knees and elbows that bend backwards are seen and straightened; those of captures and samples are left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.kinematics.hinges import measure_bends, straighten_hinges
from marey.lie import SO3
from marey.samples import walk


def knee_angles(motion, side):
    """Angle between thigh and shank from positions alone, without a sign [rad]."""
    p = motion.joint_positions()
    hip, knee, ankle = (p[:, motion.skeleton.index(f"{side}_{part}")] for part in ("hip", "knee", "ankle"))
    thigh, shank = knee - hip, ankle - knee
    cosine = (thigh * shank).sum(axis=1) / np.linalg.norm(thigh, axis=1) / np.linalg.norm(shank, axis=1)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def test_the_bend_of_a_walk_is_the_angle_between_its_bones():
    motion = walk()
    bends = {bend.role: bend for bend in measure_bends(motion)}
    assert bends["left_knee"].axis[0] > 0.9
    np.testing.assert_allclose(bends["left_knee"].angles, knee_angles(motion, "left"), atol=np.deg2rad(3.0))
    assert straighten_hinges(motion) == (motion, ())


def test_a_knee_bent_backwards_for_three_frames_is_interpolated_near_to_the_original():
    motion = walk()
    joint = motion.skeleton.index("left_knee")
    wxyz = motion.rotations.wxyz.copy()
    wxyz[40:43, joint] = SO3.exp([-0.6, 0.0, 0.0]).wxyz
    mended, findings = straighten_hinges(replace(motion, rotations=SO3(wxyz)))
    assert len(findings) == 1
    away = np.linalg.norm(mended.joint_positions() - motion.joint_positions(), axis=-1)
    assert away.max() < 0.03


@pytest.mark.parametrize("degrees", [20.0, 60.0])
def test_a_knee_bent_backwards_for_long_is_straightened_and_the_foot_keeps_its_turn(degrees):
    motion = walk()
    joint, foot = motion.skeleton.index("left_knee"), motion.skeleton.index("left_ankle")
    wxyz = motion.rotations.wxyz.copy()
    wxyz[40:70, joint] = SO3.exp([-np.deg2rad(degrees), 0.0, 0.0]).wxyz
    broken = replace(motion, rotations=SO3(wxyz))
    mended, findings = straighten_hinges(broken)
    assert len(findings) == 1
    assert findings[0].startswith("left knee bends backwards")
    assert np.rad2deg(knee_angles(mended, "left")[40:70].max()) < 11.0
    R_before, R_after = (m.joint_frames()[1][40:70, foot] for m in (broken, mended))
    assert float((R_before.inverse() @ R_after).angle().max()) < 1e-9
    unchanged = np.r_[0:40, 70 : motion.num_frames]
    assert (mended.rotations.wxyz[unchanged] == broken.rotations.wxyz[unchanged]).all()


@pytest.mark.mocap
def test_no_captured_limb_is_changed(mocap):
    from marey import load

    for name in ("07_03", "16_31", "35_14", "91_42", "69_68", "143_13", "75_19"):
        assert straighten_hinges(load(next(mocap.rglob(f"{name}.bvh"))))[1] == (), name
