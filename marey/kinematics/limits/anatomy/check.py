"""Anatomical coordinates of joints, and the compiled check of poses against ranges and coupled regions of them.

A joint has three coordinates: flexion, side swing and twist, measured in axes of the body (:class:`AnatomicalTables`).
Each lies in an interval, and two or three coordinates, of one joint or of several, lie in regions that tables of signed
distances describe. Coordinates have an order, and a region bounds the last of its own given the others, so one sweep
over them gives a pose inside. All of a synergy, both legs say, lie in balls around exemplars that people showed.
"""

from __future__ import annotations

from math import atan2, cos, sin
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray, inline_kernel, kernel, patient_kernel
from marey.kinematics.limits.contract import CheckArrays
from marey.lie.kernels import (
    Quaternion,
    Vector,
    conjugate,
    exp,
    multiply,
    put3,
    quaternion_at,
    right_jacobian_inverse_times,
    rotate,
    unrotate,
    write_rotation,
)

FOLLOWS_RAD = 1e-12  # [rad] violation of a joint that is inside until the projection of another moves its bounds

MAX_PULLS = 6  # sweeps over regions and pulls into synergies in turn, before a pose is moved towards standing
HALVINGS = 24  # of the way to standing: to 1e-7 of it

TIE_RAD = 1e-9  # [rad] rounding must not decide on poses at a bound, nor between distances, which are stored in steps

PEAK_STEP_RAD = 0.01  # [rad] of the largest distances in cells, rounded up: a byte each, which caches keep
PEAK_SLACK = 1e-4  # [-] of a step that rounding up may take away


class AnatomicalTables(NamedTuple):
    """What :func:`check_anatomy` takes: K limited joints, M coupled regions, T tables of signed distances, S synergies.

    Coordinate ``3 k + c`` is flexion (c = 0), side swing (1) or twist (2) of the limited joint k.
    """

    joints: IntArray  # (K,) joint of the skeleton
    before: FloatArray  # (K, 4) coordinates are those of ``before R after``
    after: FloatArray  # (K, 4)
    low: FloatArray  # (3 K,) [rad] lowest value of each coordinate
    high: FloatArray  # (3 K,) [rad]
    starts: IntArray  # (3 K + 1,) first region that bounds each coordinate
    axes: IntArray  # (M, 3) coordinate along each axis of a region; an axis of one node has any
    signs: FloatArray  # (M, 3) -1 where a coordinate of the trunk is read in a mirror, for limbs of the right side
    bounded: IntArray  # (M,) axis of the coordinate that the region bounds: the last of the three in the order
    owners: IntArray  # (M,) coordinate whose joint is said to violate the region, the same in a mirror
    pages: IntArray  # (M,) table of each region
    grids: IntArray  # (T, 4) place of the first value, nodes of each axis
    origins: FloatArray  # (T, 3) [rad] first node
    spacings: FloatArray  # (T, 3) [rad]
    distances: NDArray[np.float32]  # (V,) [rad] signed distances at the nodes of all tables
    spans: IntArray  # (S + 1,) first exemplar of each synergy; that one is standing
    members: IntArray  # (S, 9) coordinates of a synergy; beyond the last of them, any
    metrics: FloatArray  # (S, 9, 9) A of the distance |A (x - e)| to an exemplar e, symmetric; zero beyond the members
    inverses: FloatArray  # (S, 9, 9) of A, zero beyond the members
    reaches: FloatArray  # (S,) [rad] radius of the balls around exemplars
    exemplars: NDArray[np.float32]  # (E, 9) [rad] A e
    # (M, 17) place, nodes, origins, inverse spacings, coordinates, signs of the axes, axis bounded of each region: a
    # look-up hands over few arrays, since each costs as much as the arithmetic
    rows: FloatArray = np.zeros((0, 17))
    peaks: NDArray[np.int8] = np.zeros(0, dtype=np.int8)  # (V,) largest distance in the cell of each node, in steps


@inline_kernel
def swing_and_twist(q: Quaternion) -> Vector:
    r"""Coordinates (s_y, s_z, t) of :math:`q = \exp(0, s_y, s_z) \exp(t, 0, 0)`."""
    w, x, y, z = q
    n = np.sqrt(w * w + x * x)
    twist = 2.0 * atan2(x, w)
    # A twist beyond half a turn is one the other way
    if twist > np.pi:
        twist -= 2.0 * np.pi
    elif twist < -np.pi:
        twist += 2.0 * np.pi
    if n < 1e-12:
        return np.pi, 0.0, 0.0
    # The swing is q times the conjugate of the twist (w, x, 0, 0) / n
    c, s = w / n, x / n
    u, v = c * y - s * z, c * z + s * y
    size = np.sqrt(u * u + v * v)
    scale = 2.0 * atan2(size, n) / size if size > 1e-12 else 2.0 / n
    # q and -q are one rotation: the swing has a positive real part, whatever the sign of w
    return scale * u, scale * v, twist


@kernel
def _coordinate_gradient(swing_y: float, swing_z: float, twist: float, g: Vector) -> Vector:
    r"""Body gradient of a function of the coordinates with partial derivatives ``g``.

    With :math:`\omega` the body velocity carried over the twist and :math:`A = J_r^{-1}(s)`, the twist changes by
    :math:`\dot t = (A\omega)_x / A_{xx}` and the swing by :math:`A(\omega - \dot t\,e_x)`.
    """
    s = (0.0, swing_y, swing_z)
    # Columns of A; rows would need its transpose
    a = right_jacobian_inverse_times(s, (1.0, 0.0, 0.0))
    b = right_jacobian_inverse_times(s, (0.0, 1.0, 0.0))
    c = right_jacobian_inverse_times(s, (0.0, 0.0, 1.0))
    rest = (g[2] - g[0] * a[1] - g[1] * a[2]) / a[0]
    body = (
        g[0] * a[1] + g[1] * a[2] + rest * a[0],
        g[0] * b[1] + g[1] * b[2] + rest * b[0],
        g[0] * c[1] + g[1] * c[2] + rest * c[0],
    )
    return unrotate((cos(0.5 * twist), sin(0.5 * twist), 0.0, 0.0), body)


@inline_kernel
def _locate(nodes: float, at: float, origin: float, density: float) -> tuple[int, float, float]:
    """Cell of a region along one axis, place in it, and the derivative of that place; the border goes on beyond it."""
    u, last = (at - origin) * density, nodes - 1.0
    if u <= 0.0:
        return 0, 0.0, 0.0
    if u >= last:
        return int(last) - (1 if last > 0.0 else 0), (1.0 if last > 0.0 else 0.0), 0.0
    i = int(u)
    return i, u - i, density


@inline_kernel
def read_distance(rows: FloatArray, region: int, v: NDArray[np.float32], x: FloatArray) -> tuple[float, Vector]:
    """Signed distance of a region, trilinear, and its derivatives along the coordinates of its axes."""
    # Numbers are read here, not in a call: handing arrays over takes longer than the arithmetic
    i, r, dr = _locate(rows[region, 1], rows[region, 13] * x[int(rows[region, 10])], rows[region, 4], rows[region, 7])
    j, s, ds = _locate(rows[region, 2], rows[region, 14] * x[int(rows[region, 11])], rows[region, 5], rows[region, 8])
    k, t, dt = _locate(rows[region, 3], rows[region, 15] * x[int(rows[region, 12])], rows[region, 6], rows[region, 9])
    dr, ds, dt = rows[region, 13] * dr, rows[region, 14] * ds, rows[region, 15] * dt
    n, o = int(rows[region, 2]), int(rows[region, 3])
    at = int(rows[region, 0]) + (i * n + j) * o + k
    # An axis of one node has no next one
    up, side, on = (n * o if dr != 0.0 or r > 0.0 else 0), (o if n > 1 else 0), (1 if o > 1 else 0)
    a, b = np.float64(v[at]), np.float64(v[at + on])
    c, d = np.float64(v[at + side]), np.float64(v[at + side + on])
    e, f = np.float64(v[at + up]), np.float64(v[at + up + on])
    g, h = np.float64(v[at + up + side]), np.float64(v[at + up + side + on])
    p, q = a + t * (b - a), c + t * (d - c)
    w, z = e + t * (f - e), g + t * (h - g)
    low, high = p + s * (q - p), w + s * (z - w)
    along = (1.0 - r) * ((1.0 - s) * (b - a) + s * (d - c)) + r * ((1.0 - s) * (f - e) + s * (h - g))
    across = (1.0 - r) * (q - p) + r * (z - w)
    return low + r * (high - low), (dr * (high - low), ds * across, dt * along)


@inline_kernel
def is_deeper(rows: FloatArray, region: int, peaks: NDArray[np.int8], x: FloatArray, depth: float) -> bool:
    """Tell if no point of the cell of a pose is nearer to the border of a region than ``depth`` [rad] inside it.

    A trilinear distance is largest in a corner of its cell, so one look-up spares the eight of most distances.
    """
    # Without a branch, which a processor would guess wrong
    at = 0
    for axis in range(3):
        u = (rows[region, 13 + axis] * x[int(rows[region, 10 + axis])] - rows[region, 4 + axis]) * rows[
            region, 7 + axis
        ]
        at = at * int(rows[region, 1 + axis]) + int(min(max(u, 0.0), max(rows[region, 1 + axis] - 2.0, 0.0)))
    return PEAK_STEP_RAD * (peaks[int(rows[region, 0]) + at] + PEAK_SLACK) < -depth


@inline_kernel
def is_any_beyond(
    span: tuple[int, int],
    rows: FloatArray,
    v: NDArray[np.float32],
    peaks: NDArray[np.int8],
    x: FloatArray,
    level: float,
) -> bool:
    """Tell if the signed distance to a region of a span is above a level [rad]."""
    is_beyond = False
    for m in range(span[0], span[1]):
        if not is_deeper(rows, m, peaks, x, -level):
            is_beyond |= read_distance(rows, m, v, x)[0] > level
    return is_beyond


@kernel
def bound_coordinate(
    whole: tuple[float, float],
    span: tuple[int, int],
    rows: FloatArray,
    v: NDArray[np.float32],
    peaks: NDArray[np.int8],
    given: FloatArray,
    near: float,
) -> tuple[float, float, bool]:
    """What a span of regions leaves of a coordinate's interval, given the others; a point, and True, if nothing.

    Regions in which the pose is deeper than ``near`` [rad] are left out.
    """
    low, high, is_empty = whole[0], whole[1], False
    for m in range(span[0], span[1]):
        if is_deeper(rows, m, peaks, given, near) or read_distance(rows, m, v, given)[0] < -near:
            continue
        # Interval of the bounded coordinate in which a region's distance is not positive, given the others
        row = rows[m]
        axis = int(row[16])
        first, step, sign = row[4 + axis], 1.0 / row[7 + axis], row[13 + axis]
        # Values at the nodes of a line: between four lines of the table, whose weights are the same all along
        e, c = (1, 2) if axis == 0 else (0, 2) if axis == 1 else (0, 1)
        strides = (int(row[2]) * int(row[3]), int(row[3]), 1)
        j, s, _ = _locate(row[1 + e], row[13 + e] * given[int(row[10 + e])], row[4 + e], row[7 + e])
        k, t, _ = _locate(row[1 + c], row[13 + c] * given[int(row[10 + c])], row[4 + c], row[7 + c])
        at, along = int(row[0]) + j * strides[e] + k * strides[c], strides[axis]
        side, on = (strides[e] if row[1 + e] > 1.0 else 0), (strides[c] if row[1 + c] > 1.0 else 0)
        # The deepest node, and the ends of the nodes inside around it; beyond the table its border goes on
        best, least, before, begin, below, above, is_open = 0, np.inf, 0.0, -np.inf, -np.inf, np.inf, False
        for n in range(int(row[1 + axis])):
            k = at + n * along
            low_side = (1.0 - t) * np.float64(v[k]) + t * np.float64(v[k + on])
            d = (1.0 - s) * low_side + s * ((1.0 - t) * np.float64(v[k + side]) + t * np.float64(v[k + side + on]))
            if d > TIE_RAD:
                if is_open and n > 0 and before <= TIE_RAD:
                    above = first + step * (n - 1 + before / (before - d))
                is_open = False
            elif n > 0 and before > TIE_RAD:
                begin = first + step * (n - d / (d - before))
            if d < least - TIE_RAD:
                best, least = n, d
                below, above, is_open = begin, np.inf, True
            before = d
        if least > -TIE_RAD:
            a, b, is_found = sign * (first + step * best), sign * (first + step * best), False
        else:
            a, b, is_found = (below, above, True) if sign > 0.0 else (-above, -below, True)
        low, high = max(low, a), min(high, b)
        is_empty |= not is_found
    if low <= high and not is_empty:
        return low, high, False
    middle = min(max(0.5 * (low + high), whole[0]), whole[1])
    return middle, middle, True


@inline_kernel
def _is_inside(tables: AnatomicalTables, i: int, x: FloatArray) -> bool:
    """Tell if a coordinate is inside its interval and the regions that bound it."""
    span, is_inside = (tables.starts[i], tables.starts[i + 1]), tables.low[i] - TIE_RAD <= x[i]
    is_inside &= x[i] <= tables.high[i] + TIE_RAD
    return is_inside and not is_any_beyond(span, tables.rows, tables.distances, tables.peaks, x, TIE_RAD)


@kernel
def _mark_outside(tables: AnatomicalTables, x: FloatArray, outside: IntArray) -> int:
    """List the coordinates that are outside their interval or a region that bounds them; return how many."""
    count = 0
    for i in range(x.shape[0]):
        if not _is_inside(tables, i, x):
            outside[count] = i
            count += 1
    return count


@inline_kernel
def _measure_coordinates(tables: AnatomicalTables, wxyz: FloatArray, x: FloatArray) -> None:
    """Write the coordinates ``(3 K,)`` of one pose."""
    for k in range(tables.joints.shape[0]):
        q = quaternion_at(wxyz, tables.joints[k])
        q = multiply(quaternion_at(tables.before, k), multiply(q, quaternion_at(tables.after, k)))
        x[3 * k], x[3 * k + 1], x[3 * k + 2] = swing_and_twist(q)


@kernel
def _measure_violations(
    tables: AnatomicalTables,
    x: FloatArray,
    outside: IntArray,
    squares: FloatArray,
    slopes: FloatArray,
) -> None:
    """Write squared violations ``(3 K,)`` of the coordinates listed, and the gradient of half their sum."""
    rows, v = tables.rows, tables.distances
    # The way to the interval and to all regions is at least that to the farthest of them: a region, or the interval
    away, over, farthest = np.zeros(x.shape[0]), np.zeros(x.shape[0]), np.full(x.shape[0], -1)
    for n in range(outside.shape[0]):
        i = int(outside[n])
        over[i] = x[i] - min(max(x[i], tables.low[i]), tables.high[i])
        worst = abs(over[i])
        for m in range(tables.starts[i], tables.starts[i + 1]):
            worst = max(worst, read_distance(rows, m, v, x)[0])
        # Where regions leave nothing between them, the point that they agree on best is inside
        whole, span = (tables.low[i], tables.high[i]), (tables.starts[i], tables.starts[i + 1])
        low, _, is_empty = bound_coordinate(whole, span, rows, v, tables.peaks, x, np.inf)
        if is_empty and abs(x[i] - low) < worst:
            over[i] = x[i] - low
        else:
            for m in range(tables.starts[i], tables.starts[i + 1]):
                d, own = read_distance(rows, m, v, x)[0], tables.owners[m]
                if d > away[own]:
                    away[own], farthest[own] = d, m
    for i in range(x.shape[0]):
        if abs(over[i]) >= away[i]:
            squares[i] = over[i] ** 2
            slopes[i] += over[i]
            continue
        squares[i] = away[i] ** 2
        d, slope = read_distance(rows, farthest[i], v, x)
        for axis in range(3):
            slopes[tables.axes[farthest[i], axis]] += d * slope[axis]


@kernel
def _find_exemplar(tables: AnatomicalTables, s: int, x: FloatArray, off: FloatArray) -> float:
    """Write A (x - e) ``(9,)`` of the exemplar e nearest to a pose; return how far the pose is from its ball."""
    best, least, size, here = tables.spans[s], np.inf, tables.members.shape[1], np.zeros(off.shape[0])
    for c in range(size):
        for d in range(size):
            here[c] += tables.metrics[s, c, d] * x[tables.members[s, d]]
    for e in range(tables.spans[s], tables.spans[s + 1]):
        square = 0.0
        for c in range(size):
            square += (here[c] - tables.exemplars[e, c]) ** 2
            if square >= least:
                break  # farther away than another, whatever comes
        if square < least:
            best, least = e, square
    for c in range(size):
        off[c] = here[c] - tables.exemplars[best, c]
    return np.sqrt(least) - tables.reaches[s]


@kernel
def _measure_synergies(tables: AnatomicalTables, x: FloatArray, squares: FloatArray, slopes: FloatArray) -> bool:
    """Add squared violations and slopes of the synergies, shared by their coordinates; return if there are any."""
    is_outside, size = False, tables.members.shape[1]
    off = np.empty(size)
    for s in range(tables.reaches.shape[0]):
        d = _find_exemplar(tables, s, x, off)
        if d <= TIE_RAD:
            continue
        is_outside = True
        share = d / (d + tables.reaches[s])
        for c in range(size):
            squares[tables.members[s, c]] += (share * off[c]) ** 2
            for k in range(size):
                slopes[tables.members[s, k]] += share * off[c] * tables.metrics[s, c, k]
    return is_outside


@kernel
def _sweep_regions(tables: AnatomicalTables, p: FloatArray) -> None:
    """Clamp each coordinate to what those before it allow."""
    for i in range(p.shape[0]):
        if not _is_inside(tables, i, p):
            whole, span = (tables.low[i], tables.high[i]), (tables.starts[i], tables.starts[i + 1])
            least, most, _ = bound_coordinate(whole, span, tables.rows, tables.distances, tables.peaks, p, np.inf)
            p[i] = min(max(p[i], least), most)


@kernel
def _project_coordinates(tables: AnatomicalTables, p: FloatArray) -> None:
    """Bring coordinates ``(3 K,)`` into intervals, regions and synergies."""
    for _ in range(MAX_PULLS):
        _sweep_regions(tables, p)
        # Move the coordinates to the ball of their nearest exemplar, until none is outside
        is_outside, size = False, tables.members.shape[1]
        off = np.empty(size)
        for s in range(tables.reaches.shape[0]):
            d = _find_exemplar(tables, s, p, off)
            if d <= TIE_RAD:
                continue
            is_outside = True
            share = (d + TIE_RAD) / (d + tables.reaches[s])
            for c in range(size):
                for k in range(size):
                    p[tables.members[s, k]] -= share * off[c] * tables.inverses[s, c, k]
        if not is_outside:
            return
    # Standing is inside all of them, and so is some pose on the way there
    start, end, near, far, size = p.copy(), p.copy(), 0.0, 1.0, tables.members.shape[1]
    off = np.empty(size)
    for s in range(tables.reaches.shape[0]):
        for k in range(size):
            standing = 0.0
            for c in range(size):
                standing += tables.inverses[s, k, c] * tables.exemplars[tables.spans[s], c]
            if tables.inverses[s, k, k] > 0.0:
                end[tables.members[s, k]] = standing
    for n in range(HALVINGS + 1):
        t = far if n == HALVINGS else 0.5 * (near + far)
        p[:] = (1.0 - t) * start + t * end
        _sweep_regions(tables, p)
        is_inside = True
        for s in range(tables.reaches.shape[0]):
            is_inside = is_inside and _find_exemplar(tables, s, p, off) <= TIE_RAD
        if is_inside:
            far = t
        else:
            near = t


@kernel
def check_anatomy(wxyz: FloatArray, tables: AnatomicalTables) -> CheckArrays:
    """Project rotations ``(F, J, 4)``: each coordinate into its interval, given those before it."""
    frames, joints, limited = wxyz.shape[0], wxyz.shape[1], tables.joints.shape[0]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    x, squares, slopes, p = np.empty(3 * limited), np.empty(3 * limited), np.empty(3 * limited), np.empty(3 * limited)
    outside = np.empty(3 * limited, dtype=np.int64)
    for f in range(frames):
        _measure_coordinates(tables, wxyz[f], x)
        squares[:], slopes[:] = 0.0, 0.0
        count = _mark_outside(tables, x, outside)
        if count > 0:
            _measure_violations(tables, x, outside[:count], squares, slopes)
        if not _measure_synergies(tables, x, squares, slopes) and count == 0:
            continue
        p[:] = x
        _project_coordinates(tables, p)
        for k in range(limited):
            j, after = tables.joints[k], quaternion_at(tables.after, k)
            moved = p[3 * k] != x[3 * k] or p[3 * k + 1] != x[3 * k + 1] or p[3 * k + 2] != x[3 * k + 2]
            if moved:
                q = multiply(exp((0.0, p[3 * k], p[3 * k + 1])), exp((p[3 * k + 2], 0.0, 0.0)))
                q = multiply(conjugate(quaternion_at(tables.before, k)), multiply(q, conjugate(after)))
                write_rotation(out[f, j], q)
            # A joint that only follows another is marked, so that a solver takes both
            away = np.sqrt(squares[3 * k] + squares[3 * k + 1] + squares[3 * k + 2])
            violation[f, j] = max(away, FOLLOWS_RAD) if moved else away
            g = (slopes[3 * k], slopes[3 * k + 1], slopes[3 * k + 2])
            if g[0] != 0.0 or g[1] != 0.0 or g[2] != 0.0:
                g = _coordinate_gradient(x[3 * k], x[3 * k + 1], x[3 * k + 2], g)
                put3(gradient[f], j, rotate(after, g))
    return out, violation, gradient


class BoundDistances(NamedTuple):
    """Signed distances of poses to the bounds of their coordinates: intervals of all coordinates, then regions."""

    values: FloatArray  # (F, B) [rad] positive outside; -inf where a bound is not near in any frame
    joints: IntArray  # (B, 3) that a bound reads
    gradients: FloatArray  # (F, B, 3, 3) of the distance by the body velocity of each of these joints


@kernel
def measure_bounds(wxyz: FloatArray, tables: AnatomicalTables, near_rad: float) -> BoundDistances:
    """Distances of poses ``(F, J, 4)`` to single bounds; what is further inside than ``near_rad`` is left out.

    The nearer end of an interval is its bound. A region of several joints has a gradient for each of them.
    """
    frames, size, count = wxyz.shape[0], 3 * tables.joints.shape[0], tables.pages.shape[0]
    values, gradients = np.full((frames, size + count), -np.inf), np.zeros((frames, size + count, 3, 3))
    joints, rows, x = np.zeros((size + count, 3), dtype=np.int64), tables.rows, np.empty(size)
    for f in range(frames):
        _measure_coordinates(tables, wxyz[f], x)
        for b in range(size + count):
            if b < size:
                over, under = x[b] - tables.high[b], tables.low[b] - x[b]
                values[f, b], slope = max(over, under), (1.0 if over > under else -1.0, 0.0, 0.0)
            else:
                values[f, b], slope = read_distance(rows, b - size, tables.distances, x)
            if values[f, b] < -near_rad:
                continue
            # Derivatives by coordinates become derivatives by the body velocities of their joints
            for axis in range(3):
                i = b if b < size else tables.axes[b - size, axis]
                k, c, d = i // 3, i % 3, slope[axis]
                joints[b, axis] = tables.joints[k]
                if d != 0.0:
                    g = (d if c == 0 else 0.0, d if c == 1 else 0.0, d if c == 2 else 0.0)
                    g = _coordinate_gradient(x[3 * k], x[3 * k + 1], x[3 * k + 2], g)
                    put3(gradients[f, b], axis, rotate(quaternion_at(tables.after, k), g))
    return BoundDistances(values, joints, gradients)


@patient_kernel
def measure_violation(wxyz: FloatArray, fields: tuple[NDArray[Any], ...]) -> FloatArray:
    """How far each joint of one pose ``(J, 4)`` is outside ``(J,)`` [rad], as :func:`check_anatomy` has it.

    ``fields`` are the tables as a plain tuple, which is quick to hand over.
    """
    tables = AnatomicalTables(*fields)
    limited, violation = tables.joints.shape[0], np.zeros(wxyz.shape[0])
    x, squares, slopes = np.empty(3 * limited), np.zeros(3 * limited), np.zeros(3 * limited)
    outside = np.empty(3 * limited, dtype=np.int64)
    _measure_coordinates(tables, wxyz, x)
    count = _mark_outside(tables, x, outside)
    if count > 0:
        _measure_violations(tables, x, outside[:count], squares, slopes)
    if _measure_synergies(tables, x, squares, slopes) or count > 0:
        for k in range(limited):
            violation[tables.joints[k]] = np.sqrt(squares[3 * k] + squares[3 * k + 1] + squares[3 * k + 2])
    return violation


@kernel
def measure_anatomy(wxyz: FloatArray, tables: AnatomicalTables) -> FloatArray:
    """Coordinates ``(F, 3 K)`` of rotations ``(F, J, 4)``."""
    out = np.empty((wxyz.shape[0], 3 * tables.joints.shape[0]))
    for f in range(wxyz.shape[0]):
        _measure_coordinates(tables, wxyz[f], out[f])
    return out
