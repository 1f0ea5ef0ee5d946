"""Key frames and the motion between them."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.lie import SO3, geodesic_distance
from marey.motion import KeyFrames
from marey.skeleton import HUMAN, Pose, human


def bent(angle: float, x: float = 0.0) -> Pose:
    """The rest pose with the left knee bent about x, the root moved sideways."""
    vectors = np.zeros((HUMAN.num_joints, 3))
    vectors[HUMAN.index("left_knee"), 0] = angle
    return Pose(HUMAN, HUMAN.offsets[0] + np.array([x, 0.0, 0.0]), SO3.exp(vectors))


KEYS = KeyFrames(HUMAN).with_key(1.0, bent(1.2, 0.4)).with_key(0.0, bent(0.0))


def test_keys_are_kept_in_order_of_time() -> None:
    assert KEYS.times == (0.0, 1.0)


def test_halfway_between_two_keys_the_knee_is_half_bent() -> None:
    middle = KEYS.pose_at(0.5)
    assert middle.rotations[HUMAN.index("left_knee")].angle() == pytest.approx(0.6)
    assert middle.root_position[0] == pytest.approx(0.2)


def test_engell_68_keys_are_met_exactly_and_held_outside() -> None:
    for time, pose in ((0.0, bent(0.0)), (1.0, bent(1.2)), (-3.0, bent(0.0)), (9.0, bent(1.2))):
        assert geodesic_distance(KEYS.pose_at(time).rotations, pose.rotations).max() < 1e-12


def test_engell_68_in_betweens_turn_at_constant_speed() -> None:
    clip = KEYS.in_betweens(50.0)
    assert clip.num_frames == 51 and clip.duration_s == pytest.approx(1.0)
    steps = geodesic_distance(clip.rotations[1:], clip.rotations[:-1])[:, HUMAN.index("left_knee")]
    np.testing.assert_allclose(steps, 1.2 / 50.0, rtol=1e-9)


def test_a_key_can_be_replaced_moved_and_deleted_without_touching_the_old_set() -> None:
    changed = KEYS.with_key(0.5, bent(2.0)).moved(1.0, 2.0).without_key(0.0)
    assert changed.times == (0.5, 2.0)
    assert KEYS.times == (0.0, 1.0)


def test_moving_onto_another_key_replaces_it() -> None:
    assert KEYS.moved(0.0, 1.0).times == (1.0,)
    assert KEYS.moved(0.0, 1.0).poses[1.0] is KEYS.poses[0.0]


def test_a_set_without_keys_rests_and_has_no_clip() -> None:
    np.testing.assert_array_equal(KeyFrames(HUMAN).pose_at(1.0).root_position, HUMAN.offsets[0])
    with pytest.raises(InputError, match="no key frame is set"):
        KeyFrames(HUMAN).in_betweens(30.0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="There are keys at 0, 1"):
        KEYS.without_key(0.3)
    with pytest.raises(InputError, match="not negative"):
        KEYS.with_key(-1.0, bent(0.0))
    with pytest.raises(InputError, match="finite"):
        KEYS.with_key(float("nan"), bent(0.0))


def test_another_skeleton_is_refused() -> None:
    other = human(1.5)
    renamed = type(other)(("x", *other.names[1:]), other.parents, other.offsets)
    with pytest.raises(InputError, match="another skeleton"):
        KEYS.with_key(0.5, Pose.rest(renamed))
