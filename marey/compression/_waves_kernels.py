"""Wavelets in time and the coding of their coefficients."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression._entropy_kernels import (
    GROUPS,
    RATIOS,
    Bytes,
    Coder,
    close_stream,
    code_number,
    magnitude_bucket,
    new_coder,
    open_stream,
)

ALPHA: Final = -1.586134342059924  # the four lifting steps of the biorthogonal 9/7 wavelet
BETA: Final = -0.052980118572961
GAMMA: Final = 0.882911075530934
DELTA: Final = 0.443506852043971
ZETA: Final = 1.149604398860241  # makes both bands nearly orthonormal
MIN_BAND_LENGTH: Final = 4  # a track this short is not split further
BYTES_PER_NUMBER: Final = 16


@kernel
def count_wavelet_levels(frames: int) -> int:
    """How often a track of so many frames is split."""
    count = 0
    while frames > MIN_BAND_LENGTH:
        frames = (frames + 1) // 2
        count += 1
    return count


@kernel
def _lifting_step(x: FloatArray, first: int, weight: float) -> None:
    """Add ``weight`` times both neighbours to every second row from ``first``; the ends are mirrored."""
    n = x.shape[0]
    for t in range(first, n, 2):
        left = t - 1 if t > 0 else t + 1
        right = t + 1 if t + 1 < n else t - 1
        for c in range(x.shape[1]):
            x[t, c] += weight * (x[left, c] + x[right, c])


@kernel
def forward_wavelet(tracks: FloatArray) -> FloatArray:
    """Wavelet coefficients ``(F, n)`` of tracks ``(F, n)``: the coarsest band first, then finer and finer details."""
    out = tracks.copy()
    size = out.shape[0]
    for _ in range(count_wavelet_levels(out.shape[0])):
        x = out[:size].copy()
        _lifting_step(x, 1, ALPHA)
        _lifting_step(x, 0, BETA)
        _lifting_step(x, 1, GAMMA)
        _lifting_step(x, 0, DELTA)
        half = (size + 1) // 2
        for t in range(size):
            for c in range(x.shape[1]):
                if t % 2 == 0:
                    out[t // 2, c] = x[t, c] * ZETA
                else:
                    out[half + t // 2, c] = x[t, c] / ZETA
        size = half
    return out


@kernel
def inverse_wavelet(waves: FloatArray) -> FloatArray:
    """Undo :func:`to_waves`."""
    out = waves.copy()
    levels = count_wavelet_levels(out.shape[0])
    for level in range(levels - 1, -1, -1):
        size = out.shape[0]
        for _ in range(level):
            size = (size + 1) // 2
        half = (size + 1) // 2
        x = np.empty((size, out.shape[1]))
        for t in range(size):
            for c in range(x.shape[1]):
                x[t, c] = out[t // 2, c] / ZETA if t % 2 == 0 else out[half + t // 2, c] * ZETA
        _lifting_step(x, 0, -DELTA)
        _lifting_step(x, 1, -GAMMA)
        _lifting_step(x, 0, -BETA)
        _lifting_step(x, 1, -ALPHA)
        out[:size] = x
    return out


@kernel
def _code_band(
    coder: Coder, data: Bytes, q: IntArray, first: int, last: int, above: int, group: int, slow: IntArray, room: int,
    is_reading: bool,
) -> Bytes:  # fmt: skip
    """Rows ``first .. last`` of the coefficients; ``above`` is the first row of the band one coarser, or -1."""
    count = q.shape[1]
    for t in range(first, last):
        if not is_reading and coder.interval[2] + room > data.shape[0]:
            grown = np.empty(2 * data.shape[0] + room, dtype=np.uint8)
            grown[: data.shape[0]] = data
            data = grown
        unusual = 0
        for c in range(count):
            near = abs(q[t - 1, c]) if t > first else 0
            far = abs(q[t - 2, c]) if t > first + 1 else near
            parent = abs(q[above + (t - first) // 2, c]) if above >= 0 else 0
            beside = q[t, c - 1] if c > 0 else 0
            fast = (256 * (2 * near + far + 2 * parent) + slow[c]) // 6
            ratio = min(max((unusual + 8 + 16 * (RATIOS // 2)) >> 4, 0), RATIOS - 1)
            q[t, c] = code_number(
                coder, data, q[t, c], c, group, fast, slow[c], ratio, min(parent, 3) * 4 + min(near, 3), abs(beside), 0,
                is_reading,
            )  # fmt: skip
            size = 256 * abs(q[t, c])
            surprise = magnitude_bucket(size + 64) - magnitude_bucket(((fast + slow[c]) >> 1) + 64)
            unusual += (16 * surprise - unusual) >> 3
            slow[c] += (size - slow[c]) >> 4
    return data


@kernel
def _code_bands(coder: Coder, data: Bytes, q: IntArray, is_reading: bool) -> Bytes:
    frames, count = q.shape
    levels = count_wavelet_levels(frames)
    sizes = np.empty(levels + 1, dtype=np.int64)
    sizes[0] = frames
    for level in range(levels):
        sizes[level + 1] = (sizes[level] + 1) // 2
    slow = np.full(count, 2048)
    room = BYTES_PER_NUMBER * (count + 8)
    data = _code_band(coder, data, q, 0, sizes[levels], -1, 0, slow, room, is_reading)
    above = -1
    for level in range(levels, 0, -1):
        group = min(1 + levels - level, GROUPS - 1) if levels - level < 2 else GROUPS - 1
        data = _code_band(coder, data, q, sizes[level], sizes[level - 1], above, group, slow, room, is_reading)
        above = sizes[level]
        if is_reading and coder.interval[2] > data.shape[0] + 8:
            break
        for c in range(count):
            slow[c] = slow[c] >> 1
    return data


@kernel
def write_wavelet(q: IntArray, stretch: IntArray, squash: IntArray) -> Bytes:
    """Bytes of quantised coefficients ``(F, n)``."""
    coder = new_coder(q.shape[1] + 1, stretch, squash)
    data = np.empty(4096 + BYTES_PER_NUMBER * (q.shape[1] + 8), dtype=np.uint8)
    data = _code_bands(coder, data, q.copy(), False)
    length = close_stream(coder, data)
    return data[:length].copy()


@kernel
def read_wavelet(data: Bytes, frames: int, count: int, stretch: IntArray, squash: IntArray) -> tuple[IntArray, int]:
    """Undo :func:`write_waves`; the last value is how many bytes were used, -1 if they did not suffice."""
    coder = new_coder(count + 1, stretch, squash)
    open_stream(coder, data)
    q = np.zeros((frames, count), dtype=np.int64)
    _code_bands(coder, data, q, True)
    return q, (coder.interval[2] if coder.interval[2] <= data.shape[0] + 8 else -1)


@kernel
def compute_position_metric(
    parents: IntArray, places: FloatArray, frames: FloatArray, columns: FloatArray, owners: IntArray
) -> FloatArray:
    """Metric ``(n, n)`` of numbers that turn joints: their product is the sum of products of all joint velocities.

    Args:
        parents: ``(J,)``.
        places: ``(F, J, 3)`` joint positions.
        frames: ``(F, J, 3, 3)`` world rotations.
        columns: ``(F, n, 3)`` angular velocity of each number in the frame of its joint.
        owners: ``(n,)`` the joint of each number.
    """
    count, joints = owners.shape[0], parents.shape[0]
    metric = np.zeros((count, count))
    moves = np.zeros((count, 3 * joints))
    for f in range(places.shape[0]):
        moves[:] = 0.0
        for i in range(count):
            j = owners[i]
            w = frames[f, j] @ columns[f, i]
            for d in range(j + 1, joints):
                above = parents[d]
                while above > j:
                    above = parents[above]
                if above != j:
                    continue
                a, b, c = (
                    places[f, d, 0] - places[f, j, 0],
                    places[f, d, 1] - places[f, j, 1],
                    places[f, d, 2] - places[f, j, 2],
                )
                moves[i, 3 * d] = w[1] * c - w[2] * b
                moves[i, 3 * d + 1] = w[2] * a - w[0] * c
                moves[i, 3 * d + 2] = w[0] * b - w[1] * a
        metric += moves @ moves.T
    return metric / places.shape[0]
