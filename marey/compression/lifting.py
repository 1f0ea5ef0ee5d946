"""A pyramid of coarser and coarser versions of a track, on rotations or on points: [Tournier2011]_ §9.2.2.

Every second sample is predicted from the others by a cumulative Catmull-Rom spline, and the pyramid keeps the
difference. The codec drops the finest differences: every second, fourth, ... sample is left, and the rest is filled in.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3

ALIASING_RAD: Final = np.pi / 2.0  # [rad] neighbours further apart than this may be filled in the wrong way round


def level_sizes(frames: int) -> tuple[int, ...]:
    r"""Samples of each level, finest first: :math:`s_0 = m`, :math:`s_{j+1} = \lceil s_j/2\rceil`, down to one.

    There are :math:`1 + \lceil\log_2 m\rceil` of them.
    """
    if frames < 1:
        raise InputError(f"a track of {frames} samples", "It needs at least one")
    sizes = [frames]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    return tuple(sizes)


def upsample_rotations(kept: SO3, frames: int) -> SO3:
    """Track of ``frames`` rotations from the samples of a coarser level, all dropped details zero."""
    for size in _list_finer_sizes(kept.shape[0], frames):
        odd = predict_rotations(kept, size - kept.shape[0])
        kept = SO3(interleave(kept.wxyz, odd.wxyz))
    return kept


def upsample_points(kept: FloatArray, frames: int) -> FloatArray:
    """Track of ``frames`` points from the samples of a coarser level, all dropped details zero."""
    for size in _list_finer_sizes(len(kept), frames):
        kept = interleave(kept, predict_points(kept, size - len(kept)))
    return kept


def coarsest_safe_level(track: SO3) -> int:
    """How many of the finest levels may be dropped before neighbours are more than π/2 apart."""
    dropped = 0
    while track.shape[0] > 1:
        track = track[::2]
        if track.shape[0] > 1 and (track[:-1].inverse() @ track[1:]).angle().max() >= ALIASING_RAD:
            break
        dropped += 1
    return dropped


def _list_finer_sizes(kept: int, frames: int) -> tuple[int, ...]:
    sizes = level_sizes(frames)
    if kept not in sizes:
        raise InputError(f"{kept} samples are no level of a track of {frames}", f"The levels have {sizes}")
    return tuple(reversed(sizes[: sizes.index(kept)]))


def interleave(even: FloatArray, odd: FloatArray) -> FloatArray:
    """Samples of two tracks in turn."""
    track = np.empty((len(even) + len(odd), *even.shape[1:]))
    track[::2], track[1::2] = even, odd
    return track


def predict_rotations(q: SO3, count: int) -> SO3:
    r"""Rotations half-way after each of the first ``count`` samples.

    .. math:: q_i\,(q_{i-1}^{-1}q_i)^{1/16}\,(q_i^{-1}q_{i+1})^{1/2}\,(q_{i+1}^{-1}q_{i+2})^{-1/16}

    The cumulative Catmull-Rom spline at its middle. Beyond the ends the track is reflected in its end.
    """
    if q.shape[0] == 1:
        return SO3.concatenate([q] * count) if count else q[:0]
    # One sample more before the first, two more after the last: q_{-1} = q_0 q_1^{-1} q_0
    first, last, third = q[:1], q[-1:], q[max(-3, -q.shape[0])][None]
    tail = [last @ q[-2][None].inverse() @ last, last @ third.inverse() @ last]
    q = SO3.concatenate([first @ q[1:2].inverse() @ first, q, *tail])
    before, here, after, far = (q[i : i + count] for i in range(4))
    middle = (here.inverse() @ after).power(0.5)
    leave, arrive = (before.inverse() @ here).power(1.0 / 16.0), (after.inverse() @ far).power(-1.0 / 16.0)
    return here @ leave @ middle @ arrive


def predict_points(p: FloatArray, count: int) -> FloatArray:
    r"""Points half-way after each of the first ``count`` samples: :math:`(-p_{i-1}+9p_i+9p_{i+1}-p_{i+2})/16`."""
    if len(p) == 1:
        return np.repeat(p, count, axis=0)
    # Beyond the ends the track is reflected in its end
    tail = [2.0 * p[-1] - p[-2], 2.0 * p[-1] - p[max(-3, -len(p))]]
    p = np.concatenate([[2.0 * p[0] - p[1]], p, tail])
    before, here, after, far = (p[i : i + count] for i in range(4))
    return (9.0 * (here + after) - before - far) / 16.0
