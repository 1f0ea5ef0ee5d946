"""In-betweens of key poses: smooth, through every key, feet where they stand, joints inside limits."""

from __future__ import annotations

import numpy as np
import pytest

import marey
from marey.base import InputError
from marey.kinematics import BoxLimits, fill_in_betweens
from marey.lie import SO3, geodesic_distance
from marey.models import PGA
from marey.motion import KeyFrames
from marey.skeleton import HUMAN, Pose, role_map

WALK = marey.samples.walk()
STEP = 20  # [frames] between keys


@pytest.fixture(scope="module")
def keys() -> KeyFrames:
    found = KeyFrames(WALK.skeleton)
    for frame in range(0, 5 * STEP, STEP):
        found = found.with_key(frame / WALK.rate_hz, WALK[frame])
    return found


@pytest.mark.parametrize("space", ["joints", "model"])
def test_every_key_is_met(keys, space):
    model = PGA(n_components=3).fit(WALK) if space == "model" else None
    clip = fill_in_betweens(keys, WALK.rate_hz, model=model, hold_feet=False).motion
    for frame in range(0, 5 * STEP, STEP):
        assert np.abs(clip.joint_positions()[frame] - WALK.joint_positions()[frame]).max() < 1e-9


def test_the_velocity_has_no_jump_at_a_key_where_slerps_have_one(keys):
    rate = 10.0 * WALK.rate_hz
    smooth = fill_in_betweens(keys, rate, hold_feet=False).motion
    turns = [(m.rotations[:-1].inverse() @ m.rotations[1:]).log() for m in (smooth, keys.in_betweens(rate))]
    jumps = [np.abs(np.diff(t, axis=0)).max() for t in turns]
    assert jumps[0] < 0.2 * jumps[1]


def test_no_joint_swings_past_its_keys():
    knee = HUMAN.index("left_knee")
    keys = KeyFrames(HUMAN)
    for time, angle in ((0.0, 0.0), (0.5, 1.0), (1.0, 1.0), (1.5, 0.2)):
        wxyz = SO3.identity(HUMAN.num_joints).wxyz.copy()
        wxyz[knee] = SO3.exp([angle, 0.0, 0.0]).wxyz
        keys = keys.with_key(time, Pose(HUMAN, HUMAN.offsets[0], SO3(wxyz)))
    angles = fill_in_betweens(keys, 100.0, hold_feet=False).motion.rotations[:, knee].log()[:, 0]
    assert angles.max() <= 1.0 + 1e-12 and angles.min() >= -1e-12
    assert np.abs(angles[50:101] - 1.0).max() < 1e-12


def test_standing_feet_stay_while_the_pelvis_moves():
    """A squat between two keys: both feet stand, measured on the clip alone."""
    roles = role_map(WALK.skeleton)
    stand = WALK[0]
    low = Pose(stand.skeleton, stand.root_position - np.array([0.0, 0.12, 0.0]), stand.rotations)
    from marey.kinematics import PointTask, solve_ik

    feet = [roles["left_ankle"], roles["right_ankle"]]
    places = stand.joint_positions()
    tasks = [PointTask(int(j), places[j]) for j in feet] + [PointTask(0, low.root_position)]
    squat = solve_ik(stand.skeleton, tasks, start=stand).pose
    keys = KeyFrames(stand.skeleton).with_key(0.0, stand).with_key(1.0, squat)
    free = fill_in_betweens(keys, 60.0, hold_feet=False).motion.joint_positions()[:, feet]
    found = fill_in_betweens(keys, 60.0)
    held = found.motion.joint_positions()[:, feet]
    assert found.planted.all()
    assert np.linalg.norm(free - places[feet], axis=-1).max() > 2e-3
    assert np.linalg.norm(held - places[feet], axis=-1).max() < 3e-3


def test_joints_stay_inside_limits(keys):
    box = BoxLimits.from_clips([WALK[: STEP // 2]])
    found = fill_in_betweens(keys, WALK.rate_hz, limits=box, hold_feet=False)
    assert box.violations(keys.in_betweens(WALK.rate_hz).rotations).max() > 0.1
    assert box.violations(found.motion.rotations).max() < 1e-6
    assert found.violation_rad < 1e-6


def test_one_key_is_held_and_none_is_refused(keys):
    one = KeyFrames(WALK.skeleton).with_key(0.5, WALK[3])
    clip = fill_in_betweens(one, 10.0).motion
    assert clip.num_frames == 6
    assert geodesic_distance(clip.rotations, WALK[3].rotations).max() < 1e-12
    with pytest.raises(InputError, match="no key frame is set"):
        fill_in_betweens(KeyFrames(WALK.skeleton), 30.0)
