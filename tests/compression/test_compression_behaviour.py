"""The codec on whole synthetic bodies: what survives, what it costs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from marey import samples
from marey.base import MareyError
from marey.compression import compress, decompress
from marey.lie import SO3
from marey.motion import Motion, mirror

BOUNDS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


@pytest.fixture(scope="module")
def walk() -> Motion:
    return samples.walk(seconds=0.8, rate_hz=30.0)


@pytest.fixture(scope="module")
def packed(walk) -> bytes:
    return compress(walk, max_error_m=1e-3)


@pytest.fixture(scope="module")
def sizes(walk) -> dict[float, int]:
    return {bound: len(compress(walk, max_error_m=bound)) for bound in BOUNDS}


def worst_m(one: Motion, other: Motion) -> float:
    return float(np.linalg.norm(one.joint_positions() - other.joint_positions(), axis=-1).max())


def held(motion: Motion, frames: int) -> Motion:
    """The first pose of a clip, held."""
    return Motion(
        motion.skeleton,
        motion.rate_hz,
        np.tile(motion.root_positions[:1], (frames, 1)),
        SO3(np.tile(motion.rotations.wxyz[:1], (frames, 1, 1))),
    )


CLIPS = {
    "walk": lambda: samples.walk(1.0, seconds=0.5, rate_hz=40.0),
    "run": lambda: samples.run(seconds=0.6, rate_hz=40.0),
    "jump": lambda: samples.jump(rate_hz=40.0),
}


@pytest.mark.parametrize("bound", [3e-4, 3e-3])
@pytest.mark.parametrize("name", CLIPS)
def test_synthetic_clips_stay_within_the_bound(name, bound):
    motion = CLIPS[name]()
    assert worst_m(motion, decompress(compress(motion, max_error_m=bound))) <= bound


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_the_shortest_clips_keep_the_bound_and_their_length(walk, frames):
    back = decompress(compress(walk[:frames], max_error_m=1e-4))
    assert back.num_frames == frames
    assert worst_m(walk[:frames], back) <= 1e-4


def test_a_constant_clip_costs_little_more_than_one_frame(walk):
    one = len(compress(held(walk, 1), max_error_m=1e-3))
    assert len(compress(held(walk, 300), max_error_m=1e-3)) < one + 100


def test_a_constant_clip_comes_back_constant(walk):
    back = decompress(compress(held(walk, 40), max_error_m=1e-3)).joint_positions()
    assert np.ptp(back, axis=0).max() < 1e-9


def test_contacts_survive_bit_by_bit(walk, packed):
    back = decompress(packed).contacts
    assert back is not None and walk.contacts is not None
    assert back.names == walk.contacts.names
    np.testing.assert_array_equal(back.active, walk.contacts.active)


def test_a_clip_without_contacts_comes_back_without(walk):
    assert decompress(compress(replace(walk, contacts=None))).contacts is None


def test_translations_survive_within_the_bound(walk):
    moving = np.tile(walk.skeleton.offsets, (walk.num_frames, 1, 1))
    head = walk.skeleton.index("head")
    moving[:, head, 1] += 0.01 * np.sin(np.linspace(0.0, 6.0, walk.num_frames))
    motion = replace(walk, translations=moving)
    back = decompress(compress(motion, max_error_m=5e-4))
    assert back.translations is not None and back.translations.shape == moving.shape
    assert worst_m(motion, back) <= 5e-4


@pytest.mark.parametrize("rate_hz", [23.976, 30.0, 1000.0 / 3.0])
def test_the_rate_survives_to_the_last_bit(walk, rate_hz):
    assert decompress(compress(replace(walk[:6], rate_hz=rate_hz))).rate_hz == rate_hz


@pytest.mark.parametrize("name", ["", "walk", "Läufer 3/4", "a\tb"])
def test_the_name_survives(walk, name):
    assert decompress(compress(replace(walk[:6], name=name))).name == name


def test_decoded_rotations_have_length_one(packed):
    lengths = np.linalg.norm(decompress(packed).rotations.wxyz, axis=-1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-12)


def test_a_copy_of_a_clip_gives_the_same_bytes(walk, packed):
    twin = replace(walk, root_positions=walk.root_positions.copy(), rotations=SO3(walk.rotations.wxyz.copy()))
    assert compress(twin, max_error_m=1e-3) == packed


def test_decoding_twice_gives_the_same_motion(packed):
    one, other = decompress(packed), decompress(packed)
    np.testing.assert_array_equal(one.rotations.wxyz, other.rotations.wxyz)
    np.testing.assert_array_equal(one.root_positions, other.root_positions)


def test_the_sign_of_a_quaternion_does_not_matter_to_the_bound(walk):
    flipped = np.array(walk.rotations.wxyz)
    flipped[::2] *= -1.0
    assert worst_m(walk, decompress(compress(replace(walk, rotations=SO3(flipped)), max_error_m=1e-3))) <= 1e-3


@pytest.mark.parametrize("bound", [3e-4, 1e-3])
def test_a_mirrored_clip_has_nearly_the_same_size(walk, sizes, bound):
    assert len(compress(mirror(walk), max_error_m=bound)) == pytest.approx(sizes[bound], rel=0.05)


@pytest.mark.parametrize(("fine", "coarse"), list(pairwise(BOUNDS)))
def test_a_larger_bound_never_takes_a_larger_file(sizes, fine, coarse):
    assert sizes[coarse] <= sizes[fine]


def test_a_clip_is_far_smaller_than_its_numbers(walk, packed):
    assert 10 * len(packed) < walk.root_positions.nbytes + walk.rotations.wxyz.nbytes


def test_a_distant_place_keeps_the_bound(walk):
    far = replace(walk, root_positions=walk.root_positions + np.array([500.0, 0.0, -800.0]))
    assert worst_m(far, decompress(compress(far, max_error_m=1e-3))) <= 1e-3


def test_every_sampled_prefix_is_refused(packed):
    for length in {*range(40), *range(40, len(packed), 23), len(packed) - 1}:
        with pytest.raises(MareyError):
            decompress(packed[:length])


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_sampled_flip_is_refused(packed, mask):
    for place in {*range(32), *range(32, len(packed), 29), len(packed) - 1}:
        damaged = bytearray(packed)
        damaged[place] ^= mask
        with pytest.raises(MareyError):
            decompress(bytes(damaged))
