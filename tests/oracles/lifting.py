"""The whole pyramid of [Tournier2011]_ §9.2.2: the coarsest sample and the details of every level.

The codec keeps samples of one level and no details; here the product's predictions are used for all levels.
"""

from __future__ import annotations

from collections.abc import Sequence

from marey.base import FloatArray
from marey.compression.tournier import interleave, predict_points, predict_rotations
from marey.lie import SO3


def lift_rotations(track: SO3) -> tuple[SO3, list[FloatArray]]:
    r"""Coarsest rotation, and details finest first, :math:`\log(q_{pred}^{-1}\,q)`, of a batch ``(m, ...)``."""
    details: list[FloatArray] = []
    while track.shape[0] > 1:
        coarse, odd = track[::2], track[1::2]
        details.append((predict_rotations(coarse, len(odd)).inverse() @ odd).log())
        track = coarse
    return track, details


def unlift_rotations(track: SO3, details: Sequence[FloatArray]) -> SO3:
    """Rotations from all levels: undoes :func:`lift_rotations`."""
    for detail in reversed(details):
        odd = predict_rotations(track, len(detail)) @ SO3.exp(detail)
        track = SO3(interleave(track.wxyz, odd.wxyz))
    return track


def lift_points(track: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Coarsest point, and details finest first, plain differences, of points ``(m, ...)``."""
    details: list[FloatArray] = []
    while len(track) > 1:
        coarse, odd = track[::2], track[1::2]
        details.append(odd - predict_points(coarse, len(odd)))
        track = coarse
    return track, details


def unlift_points(track: FloatArray, details: Sequence[FloatArray]) -> FloatArray:
    """Points from all levels: undoes :func:`lift_points`."""
    for detail in reversed(details):
        track = interleave(track, predict_points(track, len(detail)) + detail)
    return track
