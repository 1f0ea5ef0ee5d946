"""A pyramid of coarser and coarser versions of a track, on rotations or on points: [Tournier2011]_ §9.2.2.

Every second sample is predicted from the others by a cumulative Catmull-Rom spline and only the difference is kept.
Dropping the finest differences leaves every second, fourth, ... sample and a smooth way to fill in the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3

Track = TypeVar("Track", SO3, FloatArray)

PREDICTIONS: Final = ("catmull-rom", "linear")
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


@dataclass(frozen=True, slots=True, eq=False)
class RotationPyramid:
    """The single coarsest rotation, and what each level differs from its prediction."""

    coarsest: SO3  # batch (1, ...)
    details: tuple[FloatArray, ...]  # finest first, (s_j // 2, ..., 3) [rad] in the frame of the prediction
    prediction: str = "catmull-rom"


@dataclass(frozen=True, slots=True, eq=False)
class PointPyramid:
    """The single coarsest point, and what each level differs from its prediction."""

    coarsest: FloatArray  # (1, ...)
    details: tuple[FloatArray, ...]  # finest first, (s_j // 2, ...)
    prediction: str = "catmull-rom"


def lift_rotations(track: SO3, prediction: str = "catmull-rom") -> RotationPyramid:
    r"""Decompose rotations, batch ``(m, ...)``; a detail is :math:`\log(q_{pred}^{-1}\,q)`."""
    _check_track(track.shape[0], prediction)
    details: list[FloatArray] = []
    while track.shape[0] > 1:
        coarse, odd = track[::2], track[1::2]
        details.append((_predict_rotations(coarse, len(odd), prediction).inverse() @ odd).log())
        track = coarse
    return RotationPyramid(track, tuple(details), prediction)


def lift_points(track: FloatArray, prediction: str = "catmull-rom") -> PointPyramid:
    """Decompose points ``(m, ...)``; a detail is the plain difference."""
    track = np.asarray(track, dtype=np.float64)
    _check_track(len(track), prediction)
    details: list[FloatArray] = []
    while len(track) > 1:
        coarse, odd = track[::2], track[1::2]
        details.append(odd - _predict_points(coarse, len(odd), prediction))
        track = coarse
    return PointPyramid(track, tuple(details), prediction)


def unlift_rotations(pyramid: RotationPyramid) -> SO3:
    """Rotations from all levels: undoes :func:`lift_rotations`."""
    track = pyramid.coarsest
    for detail in reversed(pyramid.details):
        odd = _predict_rotations(track, len(detail), pyramid.prediction) @ SO3.exp(detail)
        track = SO3(_interleave(track.wxyz, odd.wxyz))
    return track


def unlift_points(pyramid: PointPyramid) -> FloatArray:
    """Points from all levels: undoes :func:`lift_points`."""
    track = pyramid.coarsest
    for detail in reversed(pyramid.details):
        track = _interleave(track, _predict_points(track, len(detail), pyramid.prediction) + detail)
    return track


def upsample_rotations(kept: SO3, frames: int, prediction: str = "catmull-rom") -> SO3:
    """Track of ``frames`` rotations from the samples of a coarser level, all dropped details zero."""
    for size in _list_finer_sizes(kept.shape[0], frames):
        odd = _predict_rotations(kept, size - kept.shape[0], prediction)
        kept = SO3(_interleave(kept.wxyz, odd.wxyz))
    return kept


def upsample_points(kept: FloatArray, frames: int, prediction: str = "catmull-rom") -> FloatArray:
    """Track of ``frames`` points from the samples of a coarser level, all dropped details zero."""
    for size in _list_finer_sizes(len(kept), frames):
        kept = _interleave(kept, _predict_points(kept, size - len(kept), prediction))
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


def _check_track(frames: int, prediction: str) -> None:
    level_sizes(frames)
    if prediction not in PREDICTIONS:
        raise InputError(f"prediction '{prediction}'", f"Choose one of {', '.join(PREDICTIONS)}")


def _interleave(even: FloatArray, odd: FloatArray) -> FloatArray:
    track = np.empty((len(even) + len(odd), *even.shape[1:]))
    track[::2], track[1::2] = even, odd
    return track


def _predict_rotations(q: SO3, count: int, prediction: str) -> SO3:
    r"""Rotations half-way after each of the first ``count`` samples.

    .. math:: q_i\,(q_{i-1}^{-1}q_i)^{1/16}\,(q_i^{-1}q_{i+1})^{1/2}\,(q_{i+1}^{-1}q_{i+2})^{-1/16}

    The cumulative Catmull-Rom spline at its middle. Beyond the ends the track is reflected in its end.
    """
    if q.shape[0] == 1:
        return SO3.concatenate([q] * count) if count else q[:0]
    # One sample more before the first, two more after the last: q_{-1} = q_0 q_1^{-1} q_0
    first_ends, last_ends = q[:1], q[-1:]
    third = q[max(-3, -q.shape[0])][None]
    ends = [last_ends @ q[-2][None].inverse() @ last_ends, last_ends @ third.inverse() @ last_ends]
    q = SO3.concatenate([first_ends @ q[1:2].inverse() @ first_ends, q, *ends])
    before, here, after, far = (q[i : i + count] for i in range(4))
    middle = (here.inverse() @ after).power(0.5)
    if prediction == "linear":
        return here @ middle
    first, last = (before.inverse() @ here).power(1.0 / 16.0), (after.inverse() @ far).power(-1.0 / 16.0)
    return here @ first @ middle @ last


def _predict_points(p: FloatArray, count: int, prediction: str) -> FloatArray:
    r"""Points half-way after each of the first ``count`` samples: :math:`(-p_{i-1}+9p_i+9p_{i+1}-p_{i+2})/16`."""
    if len(p) == 1:
        return np.repeat(p, count, axis=0)
    tail = [2.0 * p[-1] - p[-2], 2.0 * p[-1] - p[max(-3, -len(p))]]
    p = np.concatenate([[2.0 * p[0] - p[1]], p, tail])
    before, here, after, far = (p[i : i + count] for i in range(4))
    if prediction == "linear":
        return 0.5 * (here + after)
    return (9.0 * (here + after) - before - far) / 16.0
