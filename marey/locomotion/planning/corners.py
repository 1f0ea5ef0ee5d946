"""Polylines made walkable: rounded corners inside a corridor, Dubins paths, and ends with a prescribed heading."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion.planning.ground_path import (
    SPACING_M,
    GroundPath,
    evaluate_bezier,
    heading_vector,
    resample_evenly,
)

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


STRAIGHT_RAD: Final = 1e-3  # a smaller corner is none
CORNER_POINTS: Final = 120
MAX_CUT_M: Final = 1.5  # [m] a wide corridor does not ask for wider curves than this from the corner
TURN_SPANS_M: Final = (0.1, 0.3, 0.5, 0.8, 1.2, 1.6, 2.0)  # where a turn at an end may join the line
TURN_RADII_M: Final = (1.0, 0.7, 0.5, 0.4, 0.32, 0.26, 0.21, 0.17)  # circles of a turn, the widest that fits is taken
HAIRPIN_BACK_M: Final = (0.0, 0.2, 0.4, 0.6, 0.8)  # how long before its point a hairpin's turn may begin
HAIRPIN_RAD: Final = 2.1  # a sharper corner is walked as a turn at its point


def round_corners(points: FloatArray, slack_m: float) -> FloatArray:
    """Polyline whose corners are smooth curves that stay within ``slack_m`` of it; points close together.

    A corner is replaced by a Bézier curve of degree five that begins and ends straight on the two sides, as wide as
    the slack and half of each side allow. A hairpin is walked to its point and turned there.

    Args:
        points: corners ``(N, 2)`` [m].
        slack_m: how far the curve may be from the polyline.
    """
    units = np.diff(points, axis=0)
    units = units / np.linalg.norm(units, axis=1)[:, None]
    turns = np.arccos(np.clip(np.einsum("ij,ij->i", units[:-1], units[1:]), -1.0, 1.0))
    sharp = 1 + np.flatnonzero(turns > HAIRPIN_RAD)
    edges = [0, *(int(i) for i in sharp), len(points) - 1]
    line = _round_gentle_corners(points[: edges[1] + 1], slack_m)
    for first, last in pairwise(edges[1:]):
        onward = _round_gentle_corners(points[first : last + 1], slack_m)
        line = _round_hairpin(line, onward, slack_m)
    return smooth_points(resample_evenly(line)) if len(edges) > 2 else line


def _round_hairpin(line: FloatArray, onward: FloatArray, slack_m: float) -> FloatArray:
    """One line and the next, with a turn that may begin before the point of the corner."""
    way, band = GroundPath(line), np.concatenate([line, onward])
    for back in HAIRPIN_BACK_M:
        if back >= way.length_m - 0.1:
            continue
        start, heading = way.point_at(way.length_m - back), float(way.heading_at(way.length_m - back))
        turn = _find_widest_turn(onward, start, heading, slack_m, band)
        if turn is not None:
            return np.concatenate([line[way.lengths < way.length_m - back - 1e-6], turn])
    raise _no_room_error(np.pi, slack_m)


def _round_gentle_corners(points: FloatArray, slack_m: float) -> FloatArray:
    sides = np.diff(points, axis=0)
    lengths = np.linalg.norm(sides, axis=1)
    units, last, pieces = sides / lengths[:, None], len(points) - 2, [points[:1]]
    for i in range(1, len(points) - 1):
        turn = float(np.arccos(np.clip(units[i - 1] @ units[i], -1.0, 1.0)))
        if turn < STRAIGHT_RAD:
            continue
        room = 0.5 * min(lengths[i - 1] * (2.0 if i == 1 else 1.0), lengths[i] * (2.0 if i == last else 1.0))
        # A curve that begins one metre before the corner passes it at a distance that grows with its reach.
        before, after = heading_vector(0.0), heading_vector(turn)
        middle = evaluate_bezier(_corner_controls(np.zeros(2), before, after, 1.0), 3)[1]
        reach = min(0.98 * float(room), slack_m / max(float(np.linalg.norm(middle)), 1e-6), MAX_CUT_M)
        pieces.append(evaluate_bezier(_corner_controls(points[i], units[i - 1], units[i], reach), CORNER_POINTS))
    return resample_evenly(np.concatenate([*pieces, points[-1:]]))


def _corner_controls(corner: FloatArray, before: FloatArray, after: FloatArray, reach: float) -> FloatArray:
    first, last = corner - reach * before, corner + reach * after
    arm = 0.42 * reach
    return np.stack(
        [first, first + arm * before, first + 2.0 * arm * before, last - 2.0 * arm * after, last - arm * after, last]
    )


def join_from_heading(line: FloatArray, heading_rad: float, slack_m: float) -> FloatArray:
    """The line, begun in another direction: a way from its first point that joins it further on.

    Of the ways of circles and straight lines that stay within ``slack_m`` of the line, that with the widest
    circles is taken, and of these the shortest. Its curvature is then smoothed.

    Args:
        line: points ``(M, 2)`` [m], close together.
        heading_rad: direction in which the line shall begin.
        slack_m: how far from the line the way may go.

    Raises:
        InputError: no way fits.
    """
    heading = float(GroundPath(line).headings[0])
    if abs(wrap_angle(heading_rad - heading)) < STRAIGHT_RAD:
        return line
    turn = _find_widest_turn(line, line[0], heading_rad, slack_m, line)
    if turn is None:
        raise _no_room_error(wrap_angle(heading_rad - heading), slack_m)
    return smooth_points(turn)


def _no_room_error(turn: float, slack_m: float) -> InputError:
    return InputError(
        f"no turn of {abs(np.degrees(turn)):.0f} degrees fits into {2.0 * slack_m:.2f} m beside the path",
        "Widen the corridor, lengthen the path, or face along it",
    )


def _find_widest_turn(
    line: FloatArray, start: FloatArray, heading: float, slack_m: float, band: FloatArray
) -> FloatArray | None:
    """The line, joined from another place and direction by a way that stays near the band."""
    way = GroundPath(line)
    spans = [span for span in TURN_SPANS_M if span < way.length_m - 0.1] or [0.5 * way.length_m]
    for radius in TURN_RADII_M:
        found = [
            (len(turn) * 0.01 - span, span, turn)
            for span in spans
            for turn in find_dubins_paths(start, heading, way.point_at(span), float(way.heading_at(span)), radius)
            if max_distance_to_line(turn[::5], band) <= slack_m
        ]
        if found:
            _, span, turn = min(found, key=lambda one: one[0])
            return resample_evenly(np.concatenate([turn, line[way.lengths > span + 1e-6]]))
    return None


def smooth_points(points: FloatArray, over_m: float = 0.6) -> FloatArray:
    """Points averaged over a sliding window that narrows towards both ends, so that the curvature has no steps."""
    half = max(1, round(0.5 * over_m / SPACING_M))
    total = np.concatenate([np.zeros((1, 2)), np.cumsum(points, axis=0)])
    i = np.arange(len(points))
    reach = np.minimum(half, np.minimum(i, i[::-1]))
    mean = (total[i + reach + 1] - total[i - reach]) / (2 * reach + 1)[:, None]
    return resample_evenly(mean)


def arrive_with_heading(line: FloatArray, heading_rad: float, slack_m: float) -> FloatArray:
    """The line, arriving in another direction; see :func:`turned_start`."""
    return join_from_heading(line[::-1], heading_rad + np.pi, slack_m)[::-1]


def wrap_angle(angle: float) -> float:
    """The same angle from -π to π."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)


def max_distance_to_line(points: FloatArray, line: FloatArray) -> float:
    """Largest distance [m] of points ``(K, 2)`` from a line of points close together."""
    from scipy import spatial

    tree: Any = cast(Any, spatial).cKDTree(line)
    return float(np.max(cast(FloatArray, tree.query(points)[0])))
