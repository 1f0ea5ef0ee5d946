"""Paths on the ground: smooth curves by arc length, and polylines made walkable.

A path knows the speed and the turning that a body may have on it. Polylines are rounded inside a corridor, joined by
Dubins paths, and given ends with a prescribed heading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen

MAX_LATERAL_MPS2: Final = 1.5  # [m/s²] how hard a curve may push, [Glardon2005]_ leaves steering to others
MAX_TURN_RATE_RADPS: Final = 1.5  # [rad/s]
FAST_CURVES: Final = (MAX_LATERAL_MPS2, MAX_TURN_RATE_RADPS)
COMFORTABLE_CURVES: Final = (0.5, 0.8)  # [m/s²], [rad/s]: as much as a walk that does not lean can take without tipping
HANDLE: Final = 0.4  # of the distance: the arms of the Bézier curve
SPACING_M: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroundPath:
    """A curve that is walked: points close together, each with its direction and curvature."""

    points: FloatArray  # (M, 2) [m] (x, z), at most a few centimetres apart
    lengths: FloatArray = field(init=False)  # (M,) [m] arc length
    headings: FloatArray = field(init=False)  # (M,) [rad] continuous
    curvatures: FloatArray = field(init=False)  # (M,) [1/m] positive turns left

    def __post_init__(self) -> None:
        points = frozen(self.points, None, 2, name="way points")
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if len(points) < 3 or (steps < 1e-9).any():
            raise InputError("a way of fewer than three points, or with two alike", "Give points that lie apart")
        lengths = np.concatenate([[0.0], np.cumsum(steps)])
        tangent = np.gradient(points, lengths, axis=0, edge_order=2)
        headings = np.unwrap(np.arctan2(tangent[:, 0], tangent[:, 1]))
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "lengths", frozen(lengths, None, name="lengths"))
        object.__setattr__(self, "headings", frozen(headings, None, name="headings"))
        object.__setattr__(self, "curvatures", frozen(np.gradient(headings, lengths), None, name="curvatures"))

    @property
    def length_m(self) -> float:
        """Arc length from end to end [m]."""
        return float(self.lengths[-1])

    def point_at(self, along_m: ArrayLike) -> FloatArray:
        """Points ``(..., 2)`` [m] at arc lengths; straight on beyond both ends."""
        s = np.asarray(along_m, dtype=np.float64)
        inside = np.stack([np.interp(s, self.lengths, self.points[:, i]) for i in range(2)], axis=-1)
        over = np.where(s < 0.0, s, np.maximum(s - self.length_m, 0.0))
        angle = self.heading_at(s)
        return inside + over[..., None] * np.stack([np.sin(angle), np.cos(angle)], axis=-1)

    def heading_at(self, along_m: ArrayLike) -> FloatArray:
        """Direction ``(...)`` [rad] at arc lengths, held at the ends."""
        return np.interp(np.asarray(along_m, dtype=np.float64), self.lengths, self.headings)

    def until(self, along_m: float) -> GroundPath:
        """The way up to an arc length, inside it."""
        inside = self.lengths < along_m - 1e-6
        inside[:2] = True
        return GroundPath(
            np.concatenate([self.points[inside], self.point_at(max(along_m, float(self.lengths[1]) + 1e-3))[None]])
        )

    def nearest(self, point: ArrayLike, near_m: float | None = None, *, reach_m: float = 2.0) -> float:
        """Arc length of the nearest point [m], within ``reach_m`` of ``near_m`` if given; may lie beyond an end."""
        p = np.asarray(point, dtype=np.float64)
        gaps = np.linalg.norm(self.points - p, axis=1)
        if near_m is not None:
            gaps = np.where(np.abs(self.lengths - near_m) <= reach_m, gaps, np.inf)
        best = int(np.argmin(gaps))
        angle = float(self.headings[best])
        return float(self.lengths[best] + (p - self.points[best]) @ np.array([np.sin(angle), np.cos(angle)]))

    def __repr__(self) -> str:
        return f"Way({len(self.points)} points, {self.length_m:.2f} m)"


def straight_path(start: ArrayLike, heading_rad: float, length_m: float) -> GroundPath:
    """A straight line from a point."""
    s = np.linspace(0.0, length_m, max(3, int(np.ceil(length_m / SPACING_M)) + 1))
    return GroundPath(np.asarray(start, dtype=np.float64) + s[:, None] * heading_vector(heading_rad))


def heading_vector(heading_rad: float) -> FloatArray:
    """Unit vector ``(2,)`` (x, z) of a heading."""
    return np.array([np.sin(heading_rad), np.cos(heading_rad)])


def evaluate_bezier(controls: FloatArray, count: int) -> FloatArray:
    """Points ``(count, 2)`` of a Bézier curve, by de Casteljau's corner cutting."""
    u = np.linspace(0.0, 1.0, count)[:, None, None]
    level = np.broadcast_to(controls, (count, *controls.shape))
    while level.shape[1] > 1:
        level = (1.0 - u) * level[:, :-1] + u * level[:, 1:]
    return level[:, 0]


def quintic_controls(start: FloatArray, out: FloatArray, end: FloatArray, back: FloatArray) -> FloatArray:
    """Control points ``(6, 2)`` of a Bézier curve of degree five that begins along ``out`` and ends along ``back`` [m].

    Two even control points at each end make the curvature zero there.
    """
    return np.stack([start, start + out, start + 2.0 * out, end - 2.0 * back, end - back, end])


def resample_evenly(points: FloatArray, spacing_m: float = SPACING_M) -> FloatArray:
    """The same line in points evenly apart; points that repeat are dropped."""
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    kept = np.concatenate([[True], steps > 1e-9])
    points, lengths = points[kept], np.concatenate([[0.0], np.cumsum(steps[steps > 1e-9])])
    length = float(lengths[-1])
    s: FloatArray = np.linspace(0.0, length, max(3, int(np.ceil(length / spacing_m)) + 1))
    return np.stack([np.interp(s, lengths, points[:, i]) for i in range(2)], axis=-1)


def curvature_speed_limit(
    way: GroundPath, speed_mps: float, *, lateral: float = MAX_LATERAL_MPS2, turn: float = MAX_TURN_RATE_RADPS
) -> FloatArray:
    r"""Highest speed ``(M,)`` [m/s] at the points of a way.

    .. math:: s \le \sqrt{a_{lat}/|\kappa|},\qquad s|\kappa| \le \omega_{max}
    """
    bend = np.maximum(np.abs(way.curvatures), 1e-9)
    return np.minimum(speed_mps, np.minimum(np.sqrt(lateral / bend), turn / bend))


def limit_acceleration(
    way: GroundPath, limit: FloatArray, *, acceleration: float, first: float | None = None, last: float | None = None
) -> FloatArray:
    r"""Highest speed ``(M,)`` below a limit whose change keeps :math:`|s\,ds/dx| \le a`, with given ends."""
    squares = np.square(np.minimum(limit, 1e3))
    if first is not None:
        squares[0] = min(first**2, 1e6)
    if last is not None:
        squares[-1] = min(last**2, squares[-1])
    gain = 2.0 * acceleration * np.diff(way.lengths)
    for i in range(1, len(squares)):
        squares[i] = min(squares[i], squares[i - 1] + gain[i - 1])
    for i in range(len(squares) - 2, -1, -1):
        squares[i] = min(squares[i], squares[i + 1] + gain[i])
    return np.sqrt(squares)


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
    # In units of the radius, with the line from start to end along heading 0; `a` and `b` are the headings there.
    away = (end - start) / radius_m
    bearing = float(np.arctan2(away[0], away[1]))
    a, b, place = heading - bearing, end_heading - bearing, np.array((0.0, float(np.hypot(*away))))
    words: list[tuple[Piece, Piece, Piece]] = []
    for first, last in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
        # Circle, straight line, circle: the line touches both circles on the sides to which they turn.
        between = place + last * heading_vector(b + 0.5 * np.pi) - first * heading_vector(a + 0.5 * np.pi)
        gap, line = float(np.hypot(*between)), float(np.arctan2(between[0], between[1]))
        if first != last and gap < 2.0:
            continue
        length = gap if first == last else float(np.sqrt(gap * gap - 4.0))
        line += 0.0 if first == last else first * float(np.arcsin(2.0 / gap))
        turns = (first * (line - a)) % FULL_TURN_RAD, (last * (b - line)) % FULL_TURN_RAD
        words.append(((first, turns[0]), (0, length), (last, turns[1])))
    for turn in (1, -1):
        # Circle, opposite circle, circle: the middle one lies on either side.
        c1, c3 = turn * heading_vector(a + 0.5 * np.pi), place + turn * heading_vector(b + 0.5 * np.pi)
        between = c3 - c1
        gap, line = float(np.hypot(*between)), float(np.arctan2(between[0], between[1]))
        for side in (1, -1) if gap < 4.0 else ():
            middle = c1 + 2.0 * heading_vector(line + side * float(np.arccos(gap / 4.0)))
            # At a point where circles touch, the heading stands across the line of centres.
            m1, m2 = middle - c1, c3 - middle
            h1 = float(np.arctan2(m1[0], m1[1])) + turn * 0.5 * np.pi
            h2 = float(np.arctan2(m2[0], m2[1])) - turn * 0.5 * np.pi
            arcs = (turn * (h1 - a)) % FULL_TURN_RAD, (-turn * (h2 - h1)) % FULL_TURN_RAD
            words.append(((turn, arcs[0]), (-turn, arcs[1]), (turn, (turn * (b - h2)) % FULL_TURN_RAD)))
    words.sort(key=lambda word: sum(length for _, length in word))
    return [_sample_dubins_path(start, heading, word, radius_m) for word in words]


def _sample_dubins_path(
    start: FloatArray, heading: float, word: tuple[Piece, Piece, Piece], radius: float
) -> FloatArray:
    points, at = [start[None]], start
    for turn, length in word:
        # A whole turn is none: it comes from rounding of an angle.
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


STRAIGHT_RAD: Final = 1e-3  # smaller corners are ignored
CORNER_POINTS: Final = 120
CORNER_ARM: Final = 0.42  # [-] of the reach: the arms of a corner's Bézier curve
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
        # The turn of a hairpin may begin before its point.
        way, band = GroundPath(line), np.concatenate([line, onward])
        for back in [back for back in HAIRPIN_BACK_M if back < way.length_m - 0.1]:
            start, heading = way.point_at(way.length_m - back), float(way.heading_at(way.length_m - back))
            turn = _find_widest_turn(onward, start, heading, slack_m, band)
            if turn is not None:
                line = np.concatenate([line[way.lengths < way.length_m - back - 1e-6], turn])
                break
        else:
            raise _no_room_error(np.pi, slack_m)
    return smooth_points(resample_evenly(line)) if len(edges) > 2 else line


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
        middle = evaluate_bezier(quintic_controls(-before, CORNER_ARM * before, after, CORNER_ARM * after), 3)[1]
        reach = min(0.98 * float(room), slack_m / max(float(np.linalg.norm(middle)), 1e-6), MAX_CUT_M)
        before, after, arm = units[i - 1], units[i], CORNER_ARM * reach
        first, last_point = points[i] - reach * before, points[i] + reach * after
        pieces.append(evaluate_bezier(quintic_controls(first, arm * before, last_point, arm * after), CORNER_POINTS))
    return resample_evenly(np.concatenate([*pieces, points[-1:]]))


def join_from_heading(line: FloatArray, heading_rad: float, slack_m: float) -> FloatArray:
    """The line, begun in another direction: a way from its first point that joins it further on.

    Of the ways of circles and straight lines that stay within ``slack_m`` of the line, that with the widest
    circles is taken, and of these the shortest. Its curvature is then smoothed.

    Args:
        line: points ``(M, 2)`` [m], close together.
        heading_rad: direction at the start of the line.
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
    """Moving average of points with a window that narrows towards both ends, so that the curvature is continuous."""
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
