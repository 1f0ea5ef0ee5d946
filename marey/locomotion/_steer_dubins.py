"""Shortest ways of bounded curvature between two places with directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._steer import heading_vector

FULL_TURN_RAD: Final = 2.0 * np.pi
Piece = tuple[int, float]  # turning left (1), right (-1) or not (0); length in radii


def find_dubins_paths(
    start: FloatArray, heading: float, end: FloatArray, end_heading: float, radius_m: float
) -> list[FloatArray]:
    """Ways of three pieces, circles of one radius and straight lines, shortest first (Dubins 1957).

    Args:
        start: place ``(x, z)`` [m].
        heading: direction at the start [rad].
        end: the other place.
        end_heading: direction there.
        radius_m: of the circles.

    Returns:
        Points ``(M, 2)`` of each way, a centimetre apart.
    """
    away = (end - start) / radius_m
    distance, bearing = float(np.hypot(*away)), float(np.arctan2(away[0], away[1]))
    words = sorted(
        _dubins_words(distance, heading - bearing, end_heading - bearing), key=lambda w: sum(n for _, n in w)
    )
    return [_sample_word(start, heading, word, radius_m) for word in words]


def _dubins_words(d: float, a: float, b: float) -> Iterator[tuple[Piece, Piece, Piece]]:
    """All six words for unit circles; the line from start to end is heading 0, ``a`` and ``b`` are the headings."""
    for first, last in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        straight = _circle_line_circle(d, a, b, first, last)
        if straight is not None:
            yield straight
    for turn in (1, -1):
        yield from _three_circles(d, a, b, turn)


def _circle_centre(place: tuple[float, float], heading: float, turn: int) -> FloatArray:
    return np.array(place) + turn * heading_vector(heading + 0.5 * np.pi)


def _circle_line_circle(d: float, a: float, b: float, first: int, last: int) -> tuple[Piece, Piece, Piece] | None:
    between = _circle_centre((0.0, d), b, last) - _circle_centre((0.0, 0.0), a, first)
    gap, bearing = float(np.hypot(*between)), float(np.arctan2(between[0], between[1]))
    if first == last:
        length, line = gap, bearing
    else:
        if gap < 2.0:
            return None
        length = float(np.sqrt(gap * gap - 4.0))
        line = bearing + first * float(np.arcsin(2.0 / gap))
    return (first, (first * (line - a)) % FULL_TURN_RAD), (0, length), (last, (last * (b - line)) % FULL_TURN_RAD)


def _three_circles(d: float, a: float, b: float, turn: int) -> Iterator[tuple[Piece, Piece, Piece]]:
    """Circle, opposite circle, circle: the middle one lies on either side."""
    c1, c3 = _circle_centre((0.0, 0.0), a, turn), _circle_centre((0.0, d), b, turn)
    between = c3 - c1
    gap, bearing = float(np.hypot(*between)), float(np.arctan2(between[0], between[1]))
    if gap >= 4.0:
        return
    for side in (1, -1):
        middle = c1 + 2.0 * heading_vector(bearing + side * float(np.arccos(gap / 4.0)))
        # at a point where circles touch, the heading stands across the line of centres
        m1, m2 = middle - c1, c3 - middle
        h1 = float(np.arctan2(m1[0], m1[1])) + turn * 0.5 * np.pi
        h2 = float(np.arctan2(m2[0], m2[1])) - turn * 0.5 * np.pi
        yield (
            (turn, (turn * (h1 - a)) % FULL_TURN_RAD),
            (-turn, (-turn * (h2 - h1)) % FULL_TURN_RAD),
            (turn, (turn * (b - h2)) % FULL_TURN_RAD),
        )


def _sample_word(start: FloatArray, heading: float, word: tuple[Piece, Piece, Piece], radius: float) -> FloatArray:
    points, at = [start[None]], start
    for turn, length in word:
        if length < 1e-6 or (length > FULL_TURN_RAD - 1e-6 and turn):
            continue
        s = np.linspace(0.0, length, max(2, int(np.ceil(length * radius / 0.01)) + 1))[1:]
        if turn == 0:
            piece = at + radius * s[:, None] * heading_vector(heading)
        else:
            left = turn * heading_vector(heading + 0.5 * np.pi)
            piece = at + radius * (np.sin(s)[:, None] * heading_vector(heading) + (1.0 - np.cos(s))[:, None] * left)
            heading += turn * length
        points.append(piece)
        at = piece[-1]
    return np.concatenate(points)
