"""The range coder and the order of frames."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.compression.predictor import order_frames, read_frames, write_frames
from marey.compression.range_coder import (
    BUCKETS,
    MAX_BITS,
    NumberContext,
    build_odds_tables,
    close_stream,
    code_bit,
    code_number,
    magnitude_bucket,
    new_coder,
    open_stream,
)
from marey.compression.wavelet import (
    count_wavelet_levels,
    forward_wavelet,
    inverse_wavelet,
    read_wavelet,
    write_wavelet,
)

TABLES = build_odds_tables()


TABLES_CRC = 3902802069  # of version 1 of the format


def test_log_odds_tables_are_part_of_the_format():
    assert zlib.crc32(TABLES[0].astype("<i8").tobytes() + TABLES[1].astype("<i8").tobytes()) == TABLES_CRC


def test_log_odds_are_far_from_where_another_library_could_round_differently():
    chance = (np.arange(4096) + 0.5) / 4096.0
    odds = (np.arange(4096) - 2048) / 256.0
    for values in (256.0 * np.log(chance / (1.0 - chance)), 65536.0 / (1.0 + np.exp(-odds))):
        assert np.abs(np.abs(values - np.floor(values)) - 0.5).min() > 1e-6


def test_a_fair_bit_costs_one_bit_and_a_sure_one_nearly_none():
    rng = np.random.default_rng(1)
    for chance, share in ((32768, 0.5), (65000, 0.99)):
        coder = new_coder(1, *TABLES)
        data = np.zeros(10_000, dtype=np.uint8)
        bits = (rng.random(8000) < share).astype(int)
        for bit in bits:
            code_bit(coder.interval, data, chance, int(bit), False)
        length = close_stream(coder, data)
        p = chance / 65536
        expected = -(bits * np.log2(p) + (1 - bits) * np.log2(1 - p)).sum() / 8
        assert abs(length - expected) < 4
        reader = new_coder(1, *TABLES)
        stream = data[:length].copy()
        open_stream(reader, stream)
        assert [code_bit(reader.interval, stream, chance, 0, True) for _ in bits] == bits.tolist()


@given(st.lists(st.integers(-(2**MAX_BITS) + 1, 2**MAX_BITS - 1), max_size=40))
@settings(max_examples=30)
def test_any_whole_numbers_come_back(values):
    known = NumberContext(channel=1, group=0, fast=300, slow=500, ratio=3, last=2, beside=1, signs=4)
    data = np.zeros(40 * 16 + 16, dtype=np.uint8)
    coder = new_coder(2, *TABLES)
    for value in values:
        code_number(coder, data, value, known, False)
    length = close_stream(coder, data)
    reader = new_coder(2, *TABLES)
    stream = data[:length].copy()
    open_stream(reader, stream)
    assert [code_number(reader, stream, 0, known, True) for _ in values] == values


def test_buckets_of_magnitudes_rise_and_end():
    sizes = [magnitude_bucket(m) for m in range(5000)]
    assert sizes == sorted(sizes) and sizes[0] == 0
    assert magnitude_bucket(2**40) == BUCKETS - 1


@pytest.mark.parametrize("levels", [0, 1, 5])
@pytest.mark.parametrize("frames", [1, 2, 31, 32, 33])
def test_every_frame_comes_once_after_those_it_needs(frames, levels):
    order, strides = order_frames(frames, levels)
    assert sorted(order) == list(range(frames))
    seen: set[int] = set()
    for t, stride in zip(order, strides, strict=True):
        is_first_level = stride == 1 << levels
        assert t == 0 or t - stride in seen
        assert is_first_level or t + stride >= frames or t + stride in seen
        seen.add(int(t))


@pytest.mark.parametrize("levels", [0, 3])
@pytest.mark.parametrize("size", [0.05, 3.0, 4000.0])
def test_frames_come_back_from_their_bytes(levels, size):
    rng = np.random.default_rng(2)
    numbers = np.rint(rng.laplace(scale=size, size=(60, 9))).astype(np.int64)
    refined = rng.integers(0, 3, size=60)
    data = write_frames(numbers, refined, levels, *TABLES)
    back, flags, used = read_frames(data, 60, 9, levels, *TABLES)
    assert np.array_equal(back, numbers) and np.array_equal(flags, refined)
    assert used - len(data) <= 4


def test_coding_is_near_the_entropy_of_a_known_law():
    rng = np.random.default_rng(3)
    theta = 0.8
    magnitude = rng.geometric(1.0 - theta, size=(3000, 12)) - 1
    numbers = magnitude * rng.choice([-1, 1], size=magnitude.shape)
    data = write_frames(numbers, np.zeros(3000, dtype=np.int64), 0, *TABLES)
    share = np.where(numbers == 0, 1.0 - theta, 0.5 * (1.0 - theta) * theta ** np.abs(numbers))
    assert 8 * len(data) < 1.03 * -np.log2(share).sum()


def test_numbers_that_never_change_cost_nearly_nothing():
    data = write_frames(np.zeros((4000, 20), dtype=np.int64), np.zeros(4000, dtype=np.int64), 0, *TABLES)
    assert len(data) < 80


def test_a_stream_that_is_cut_off_is_noticed():
    numbers = np.rint(np.random.default_rng(4).laplace(scale=9.0, size=(200, 9))).astype(np.int64)
    data = write_frames(numbers, np.zeros(200, dtype=np.int64), 0, *TABLES)
    assert read_frames(data[: len(data) // 2].copy(), 200, 9, 0, *TABLES)[2] == -1
    waves = write_wavelet(numbers, *TABLES)
    assert read_wavelet(waves[: len(waves) // 2].copy(), 200, 9, *TABLES)[1] == -1


@pytest.mark.parametrize("frames", [1, 2, 4, 5, 8, 17, 200, 333])
def test_wavelets_are_undone(frames):
    tracks = np.random.default_rng(frames).normal(size=(frames, 3)).cumsum(axis=0)
    np.testing.assert_allclose(inverse_wavelet(forward_wavelet(tracks)), tracks, atol=1e-11)


def test_wavelets_are_nearly_orthonormal():
    noise = np.random.default_rng(6).normal(size=(4096, 2))
    assert 0.9 < (forward_wavelet(noise) ** 2).sum() / (noise**2).sum() < 1.1
    unit = np.zeros((512, 1))
    for place in (2, 6, 12, 24, 50, 100, 200, 400):
        unit[:] = 0.0
        unit[place] = 1.0
        assert 0.9 < np.linalg.norm(inverse_wavelet(unit)) < 1.15


def test_wavelets_of_a_slow_track_are_in_the_coarse_bands():
    t = np.linspace(0.0, 1.0, 512)[:, None]
    waves = forward_wavelet(np.cos(2.0 * np.pi * t))
    assert (waves[64:] ** 2).sum() < 1e-6 * (waves**2).sum()
    assert count_wavelet_levels(512) == 7


@pytest.mark.parametrize("size", [0.3, 20.0])
def test_waves_come_back_from_their_bytes(size):
    numbers = np.rint(np.random.default_rng(5).laplace(scale=size, size=(77, 6))).astype(np.int64)
    back, used = read_wavelet(write_wavelet(numbers, *TABLES), 77, 6, *TABLES)
    assert np.array_equal(back, numbers) and used > 0
