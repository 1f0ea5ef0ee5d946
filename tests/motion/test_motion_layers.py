"""Additive layers: keys are met, weights are geodesic, the rest keeps its bits."""

from __future__ import annotations

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.lie import SO3, geodesic_distance
from marey.motion import Layer, LayerKey, Motion, apply_layers, key_pose, mix_motions
from marey.skeleton import Pose


@pytest.fixture(scope="module")
def walk() -> Motion:
    return samples.walk()[:60]


def turn_key(time_s: float, joint: str, angle_rad: float) -> LayerKey:
    return LayerKey(time_s, joint, rotation=SO3.exp(np.array([angle_rad, 0.0, 0.0])).wxyz)


def test_no_layer_and_no_key_keep_every_bit(walk: Motion) -> None:
    for layers in ([], [Layer()]):
        made = apply_layers(walk, layers)
        assert np.array_equal(made.rotations.wxyz, walk.rotations.wxyz)
        assert np.array_equal(made.root_positions, walk.root_positions)


def test_a_key_turns_its_joint_by_its_angle_times_the_weight(walk: Motion) -> None:
    made = apply_layers(walk, [Layer((turn_key(0.2, "left_elbow", 0.8),), weight=0.25)])
    turned = geodesic_distance(made.rotations, walk.rotations)
    j = walk.skeleton.index("left_elbow")
    np.testing.assert_allclose(turned[:, j], 0.2, atol=1e-12)
    assert turned[:, [k for k in range(turned.shape[1]) if k != j]].max() == 0.0


def test_between_two_keys_nothing_swings_past_them(walk: Motion) -> None:
    keys = (turn_key(0.1, "head", 0.0), turn_key(0.5, "head", 0.6), turn_key(0.8, "head", 0.6))
    made = apply_layers(walk, [Layer(keys)])
    angle = geodesic_distance(made.rotations, walk.rotations)[:, walk.skeleton.index("head")]
    assert angle[: round(0.1 * walk.rate_hz)].max() < 1e-12
    assert angle.max() <= 0.6 + 1e-9
    assert np.all(np.diff(angle[: round(0.5 * walk.rate_hz)]) >= -1e-9)


def test_a_mask_leaves_the_other_joints_alone(walk: Motion) -> None:
    keys = (turn_key(0.0, "head", 0.3), turn_key(0.0, "left_elbow", 0.3))
    made = apply_layers(walk, [Layer(keys, mask=("head",))])
    assert np.array_equal(
        made.rotations.wxyz[:, walk.skeleton.index("left_elbow")],
        walk.rotations.wxyz[:, walk.skeleton.index("left_elbow")],
    )


@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_a_keyed_pose_is_shown_and_fades_beside_it(walk: Motion, weight: float) -> None:
    frame, rng = 30, np.random.default_rng(1)
    turns = SO3.exp(0.2 * rng.standard_normal((len(walk.skeleton.names), 3)))
    pose = Pose(walk.skeleton, walk.root_positions[frame] + [0.1, 0.0, -0.2], walk.rotations[frame] @ turns)
    layer = key_pose(Layer(weight=weight), walk, pose, frame / walk.rate_hz, around_s=0.2)
    shown = apply_layers(walk, [layer])
    np.testing.assert_allclose(shown[frame].joint_positions(), pose.joint_positions(), atol=1e-9)
    far = np.abs(np.arange(walk.num_frames) - frame) >= round(0.2 * walk.rate_hz)
    np.testing.assert_allclose(shown.joint_positions()[far], walk.joint_positions()[far], atol=1e-9)
    # A second pose on top of the first one, at another time
    second = Pose(walk.skeleton, shown.root_positions[40], shown.rotations[40] @ turns)
    again = apply_layers(walk, [key_pose(layer, shown, second, 40 / walk.rate_hz)])
    np.testing.assert_allclose(again[40].joint_positions(), second.joint_positions(), atol=1e-9)


def test_a_slope_of_ones_own_makes_the_exact_cubic_and_leaves_other_axes_alone(walk: Motion) -> None:
    times = np.linspace(0.0, 1.0, 11)
    ends = [LayerKey(t, "pelvis", offset=np.array([t**3, t, 0.0]), slope={"x": 3.0 * t * t}) for t in (0.0, 1.0)]
    plain = [LayerKey(key.time_s, "pelvis", offset=key.offset) for key in ends]
    (told,), (bare,) = (Layer(tuple(keys)).tracks(walk.skeleton, times).values() for keys in (ends, plain))
    np.testing.assert_allclose(told[:, 0], times**3, atol=1e-12)
    np.testing.assert_array_equal(told[:, 1:], bare[:, 1:])
    with pytest.raises(InputError, match="slope 'w'"):
        LayerKey(0.0, "pelvis", offset=np.zeros(3), slope={"w": 1.0})


def test_the_ends_of_a_mixture_are_its_clips_bit_for_bit(walk: Motion) -> None:
    other = apply_layers(walk, [Layer((turn_key(0.0, "spine1", 0.5),))])
    weights = np.clip(np.linspace(-1.0, 2.0, walk.num_frames), 0.0, 1.0)
    made = mix_motions(walk, other, weights)
    for clip, at in ((walk, weights == 0.0), (other, weights == 1.0)):
        assert at.any()
        assert np.array_equal(made.rotations.wxyz[at], clip.rotations.wxyz[at])
    angle = geodesic_distance(made.rotations, walk.rotations)[:, walk.skeleton.index("spine1")]
    np.testing.assert_allclose(angle, 0.5 * weights, atol=1e-9)


def test_what_cannot_be_is_refused(walk: Motion) -> None:
    with pytest.raises(UnknownNameError, match="left_elbow"):
        apply_layers(walk, [Layer((turn_key(0.0, "left_elbo", 0.1),))])
    with pytest.raises(InputError, match="Only the root"):
        apply_layers(walk, [Layer((LayerKey(0.0, "head", offset=np.zeros(3)),))])
    with pytest.raises(InputError, match="rotation or an offset"):
        LayerKey(0.0, "head")
    with pytest.raises(InputError, match="weight 0"):
        key_pose(Layer(weight=0.0), walk, walk[0], 0.0)
    with pytest.raises(InputError, match="0 to 1"):
        mix_motions(walk, walk, np.full(walk.num_frames, 2.0))
