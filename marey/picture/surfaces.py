"""The scene as the compiled kernels take it, and the surfaces that a ray can meet.

A tapered capsule is met, shades and occludes in closed form; the ground's
pattern, marks and fading are averaged over a pixel in closed form.

(Arrays inside tuples are counted anew at every call: a first version that passed them so was many times slower.)

A tapered capsule is the convex hull of two balls. With the axis :math:`u`, length :math:`L`, radii
:math:`r_a, r_b` and the taper :math:`s = (r_a - r_b)/L`, the sine of the cone's half angle, the cone touches the
balls in the planes :math:`y = s r_a` and :math:`y = L + s r_b`, where :math:`y` is measured along the axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.lie.kernels import Vector, dot, row3, subtract3, unit

# columns of the table of cones (S, 14), after the start's x, y, z and the unit axis x, y, z
LENGTH, START_RADIUS, END_RADIUS, SINE, SQUARED_COSINE, RED, GREEN, BLUE = range(6, 14)
# columns of the table of marks (N, 10), after the start's x, z and the end's x, z
MARK_START_RADIUS, MARK_END_RADIUS, MARK_RED, MARK_GREEN, MARK_BLUE, OPACITY = range(4, 10)
ROUNDING = 1e-12  # [-] of the terms of a square: below it, a negative one is zero


class CellGrid(NamedTuple):
    """Square cells of a plane; cell c holds ``items[starts[first + c]:starts[first + c + 1]]``."""

    x: float  # lower corner
    y: float
    per_cell: float  # one over the side of a cell
    columns: int
    rows: int
    first: int  # where the cells of this grid begin in the common list of starts


class SceneGrids(NamedTuple):
    """Acceleration grids of the ray caster."""

    on_screen: CellGrid  # cones by picture tile
    from_lamp: CellGrid  # cones by cell of the lamp's plane, soft edges included
    beneath: CellGrid  # cones by cell of the ground (x, z) that their contact shadow reaches
    marked: CellGrid  # marks by cell of the ground
    neighbours: int  # where, in the list of starts, the cones begin that occlude cone 0, 1, ...


class PackedCamera(NamedTuple):
    """A camera as rays: pixel (u, v) looks along ``forward + (u - w/2)/f right - (v - h/2)/f up``."""

    position: Vector
    right: Vector
    up: Vector
    forward: Vector
    per_pixel: float  # one over the focal length [1/pixel]
    width: int
    height: int


class PackedGround(NamedTuple):
    """The ground; with ``shown`` 0 there is none."""

    shown: int
    height: float
    colour: Vector
    checker: float
    per_square: float  # one over the side of a square [1/m]
    line_colour: Vector
    line_width: float  # in squares
    focus: tuple[float, float, float, float]  # x, z of one end and of the other
    fade_start: float
    fade_end: float
    background: Vector


class PackedLight(NamedTuple):
    """The lights; the lamp's own plane is spanned by ``across`` and ``along``."""

    direction: Vector  # towards the lamp
    across: Vector
    along: Vector
    key: float
    sky: float
    floor: float
    softness: float
    shadow: float


class PackedView(NamedTuple):
    """All that is no array: tuples of numbers cost nothing to pass."""

    eye: PackedCamera
    floor: PackedGround
    lamp: PackedLight
    grids: SceneGrids


class PackedScene(NamedTuple):
    """A scene as :func:`render_rows` takes it."""

    view: PackedView
    cones: FloatArray  # (S, 14)
    marks: FloatArray  # (N, 10)
    starts: IntArray  # cells of all grids, one after the other
    items: IntArray
    encode: FloatArray  # (T,) linear value to display value, 0 to 255


SHADOW_BIAS_M = 0.003  # [m] half width of a shadow's edge where it touches what casts it


@kernel
def point_on_ray(a: Vector, t: float, b: Vector) -> Vector:
    """Return ``a + t b``."""
    return a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]


@kernel
def _axis(cones: FloatArray, i: int) -> Vector:
    return cones[i, 3], cones[i, 4], cones[i, 5]


@kernel
def _capsule_radius(cones: FloatArray, i: int, h: float) -> float:
    """Radius of the ball that rolls from start to end, when its centre has gone ``h`` along the axis."""
    radius = cones[i, START_RADIUS]
    if cones[i, LENGTH] > 0.0:
        radius += (cones[i, END_RADIUS] - radius) * h / cones[i, LENGTH]
    return radius


@kernel
def hit_cone(cones: FloatArray, i: int, o: Vector, d: Vector) -> float:
    r"""Smallest positive distance at which the ray :math:`o + t d`, :math:`\|d\| = 1`, meets capsule ``i``; else inf.

    On the cone :math:`c^2 |q|^2 - y^2 + 2 r_a s y - r_a^2 = 0` with :math:`q = o + td - a`, :math:`c^2 = 1 - s^2`.
    Both balls lie inside the cone, so a line that misses it misses everything.
    """
    q, u = subtract3(o, row3(cones, i)), _axis(cones, i)
    length, ra, rb = cones[i, LENGTH], cones[i, START_RADIUS], cones[i, END_RADIUS]
    s, cc = cones[i, SINE], cones[i, SQUARED_COSINE]
    y, v, qd, qq = dot(q, u), dot(d, u), dot(q, d), dot(q, q)
    # The cone along the ray: a t^2 + 2 b t + c = 0.
    a = cc - v * v
    b = cc * qd - y * v + ra * s * v
    c = cc * qq - y * y + 2.0 * ra * s * y - ra * ra
    square = b * b - a * c
    if square < -ROUNDING * (b * b + abs(a * c)):
        return np.inf
    # A ray along the axis meets the cone at its apex, where the square is zero
    root = -(b + np.copysign(np.sqrt(max(square, 0.0)), b))
    # The cone counts between the planes where it touches the balls, each ball beyond its own.
    low, high = s * ra, length + s * rb
    best = np.inf
    for t in (root / a, c / root):
        if 0.0 < t < best and low <= y + t * v <= high:
            best = t
    t = _hit_ball(qd, qq - ra * ra)
    if t < best and y + t * v <= low:
        best = t
    t = _hit_ball(qd - length * v, qq - 2.0 * length * y + length * length - rb * rb)
    if t < best and y + t * v >= high:
        best = t
    return best


@kernel
def _hit_ball(b: float, c: float) -> float:
    """Smaller root of ``t² + 2 b t + c`` if it is positive, else inf."""
    square = b * b - c
    if square < 0.0:
        return np.inf
    t = -b - np.sqrt(square)
    return t if t > 0.0 else np.inf


@kernel
def cone_normal(cones: FloatArray, i: int, p: Vector) -> Vector:
    """Outward unit normal of capsule ``i`` at a point of its surface."""
    q, u = subtract3(p, row3(cones, i)), _axis(cones, i)
    y = dot(q, u)
    x = np.sqrt(max(dot(q, q) - y * y, 0.0))
    # The normal leaves the axis where the cone's own perpendicular meets it, or at the centre of a ball.
    foot = y - x * cones[i, SINE] / np.sqrt(cones[i, SQUARED_COSINE])
    return unit(point_on_ray(q, -min(max(foot, 0.0), cones[i, LENGTH]), u))


@kernel
def shade_by_cone(cones: FloatArray, i: int, p: Vector, lamp: Vector, softness: float) -> float:
    r"""Share of a soft lamp that capsule ``i`` hides from a point, 0 to 1.

    The ray to the lamp passes the axis at distance :math:`g + r`, having gone :math:`t`; the edge of the shadow is
    :math:`w = t\,\mathrm{softness}` to each side, and the share is a smooth step of :math:`g / w`.
    """
    q, u = subtract3(p, row3(cones, i)), _axis(cones, i)
    # Nearest points of the axis, at h, and of the ray to the lamp, at t.
    b, e = dot(u, lamp), dot(lamp, q)
    h = min(max((dot(u, q) - b * e) / max(1.0 - b * b, 1e-9), 0.0), cones[i, LENGTH])
    t = h * b - e
    if t <= 0.0:
        return 0.0
    radius, width = _capsule_radius(cones, i, h), softness * t + SHADOW_BIAS_M
    gap = point_on_ray(point_on_ray(q, t, lamp), -h, u)
    square = dot(gap, gap)
    if square >= (radius + width) ** 2:
        return 0.0
    # A smooth step over the edge of the shadow.
    x = min(max(0.5 - 0.5 * (np.sqrt(square) - radius) / width, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


@kernel
def occlude_by_cone(cones: FloatArray, i: int, reach: float, p: Vector, n: Vector) -> float:
    r"""Share of the sky that capsule ``i`` hides from a point with normal ``n``, about :math:`\cos\theta (r/l)^2`.

    This is the form factor of a ball at the nearest point of the axis, at distance :math:`l`; it is lowered so that
    it ends at ``reach`` radii.
    """
    q, u = subtract3(p, row3(cones, i)), _axis(cones, i)
    h = min(max(dot(q, u), 0.0), cones[i, LENGTH])
    # cos(theta) (r/l)^2 about the nearest point of the axis, less its value at the reach.
    q = point_on_ray(q, -h, u)
    cosine, square, radius = -dot(q, n), dot(q, q), _capsule_radius(cones, i, h)
    ratio = radius * radius / square - 1.0 / (reach * reach)
    if cosine <= 0.0 or ratio <= 0.0:
        return 0.0
    return min(cosine / np.sqrt(square) * ratio, 1.0)


@kernel
def cell_span(grid: CellGrid, starts: IntArray, x: float, y: float) -> tuple[int, int]:
    """Begin and end, in the list of items, of the cell at a point; nothing outside the grid."""
    column = int(np.floor((x - grid.x) * grid.per_cell))
    row = int(np.floor((y - grid.y) * grid.per_cell))
    if column < 0 or row < 0 or column >= grid.columns or row >= grid.rows:
        return 0, 0
    c = grid.first + row * grid.columns + column
    return starts[c], starts[c + 1]


@kernel
def pixel_ray(eye: PackedCamera, u: float, v: float) -> Vector:
    """Direction of the ray through a point of the picture, of depth 1 along the camera's axis."""
    x, y = (u - 0.5 * eye.width) * eye.per_pixel, (0.5 * eye.height - v) * eye.per_pixel
    return (
        eye.forward[0] + x * eye.right[0] + y * eye.up[0],
        eye.forward[1] + x * eye.right[1] + y * eye.up[1],
        eye.forward[2] + x * eye.right[2] + y * eye.up[2],
    )


@kernel
def mix_colours(a: Vector, b: Vector, share: float) -> Vector:
    """Return ``a`` with a share of ``b`` in its place."""
    return a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]), a[2] + share * (b[2] - a[2])


@kernel
def _square_wave_integral(x: float, width: float) -> float:
    """Integral over ``width`` around x of a square wave of period 2 and values ±1: a difference of triangles."""
    a, b = 0.5 * (x + 0.5 * width), 0.5 * (x - 0.5 * width)
    return 2.0 * (abs(a - np.floor(a + 0.5)) - abs(b - np.floor(b + 0.5)))


@kernel
def _line_coverage(x: float, width: float, line: float) -> float:
    """Length, within ``width`` around x, that lines at the even numbers cover."""
    gap = abs(x - 2.0 * np.floor(0.5 * x + 0.5))
    return max(min(gap + 0.5 * width, 0.5 * line) - max(gap - 0.5 * width, -0.5 * line), 0.0)


@kernel
def ground_pattern(floor: PackedGround, x: float, z: float, wx: float, wz: float) -> Vector:
    """Checker and lines of the ground, averaged over a pixel of ``wx`` by ``wz`` metres."""
    x, z, wx, wz = x * floor.per_square, z * floor.per_square, wx * floor.per_square, wz * floor.per_square
    per_x, per_z = 1.0 / wx, 1.0 / wz
    light = 1.0 - floor.checker * (
        0.5 - 0.5 * _square_wave_integral(x, wx) * per_x * _square_wave_integral(z, wz) * per_z
    )
    plain = (floor.colour[0] * light, floor.colour[1] * light, floor.colour[2] * light)
    across, along = _line_coverage(x, wx, floor.line_width) * per_x, _line_coverage(z, wz, floor.line_width) * per_z
    return mix_colours(plain, floor.line_colour, 1.0 - (1.0 - min(across, 1.0)) * (1.0 - min(along, 1.0)))


@kernel
def _stroke_distance(x: float, z: float, ux: float, uz: float, start_radius: float, end_radius: float) -> float:
    """Distance to the edge of a stroke from the origin to (ux, uz), negative inside."""
    size = ux * ux + uz * uz
    h = 0.0 if size == 0.0 else min(max((x * ux + z * uz) / size, 0.0), 1.0)
    gx, gz = x - h * ux, z - h * uz
    return np.sqrt(gx * gx + gz * gz) - (start_radius + h * (end_radius - start_radius))


@kernel
def draw_marks(
    colour: Vector, marks: FloatArray, items: IntArray, begin: int, end: int, x: float, z: float, width: float
) -> Vector:
    """Colour of the ground under the marks of a cell, edges averaged over ``width`` metres."""
    for k in range(begin, end):
        m = items[k]
        ux, uz = marks[m, 2] - marks[m, 0], marks[m, 3] - marks[m, 1]
        gap = _stroke_distance(
            x - marks[m, 0], z - marks[m, 1], ux, uz, marks[m, MARK_START_RADIUS], marks[m, MARK_END_RADIUS]
        )
        share = marks[m, OPACITY] * min(max(0.5 - gap / width, 0.0), 1.0)
        colour = mix_colours(colour, (marks[m, MARK_RED], marks[m, MARK_GREEN], marks[m, MARK_BLUE]), share)
    return colour


@kernel
def ground_visibility(floor: PackedGround, x: float, z: float) -> float:
    """Opacity of the ground at a point: 1 near the focus, 0 far away."""
    ax, az, bx, bz = floor.focus
    gap = _stroke_distance(x - ax, z - az, bx - ax, bz - az, 0.0, 0.0)
    f = min(max((floor.fade_end - gap) / (floor.fade_end - floor.fade_start), 0.0), 1.0)
    return f * f * (3.0 - 2.0 * f)


@kernel
def ground_pixel_size(eye: PackedCamera, t: float, d: Vector) -> tuple[float, float]:
    r"""Size along x and z [m] of a pixel whose ray :math:`d`, of depth 1, meets the ground after :math:`t`.

    The hit :math:`p = o + t d` keeps its height, so when the ray turns by :math:`e` it moves by
    :math:`t (e - d\, e_y / d_y)`; a pixel to the right turns it by right/f, and one above by up/f.
    """
    scale, per_drop = t * eye.per_pixel, 1.0 / d[1]
    sx, sz = d[0] * per_drop, d[2] * per_drop
    wx = abs(eye.right[0] - sx * eye.right[1]) + abs(eye.up[0] - sx * eye.up[1])
    wz = abs(eye.right[2] - sz * eye.right[1]) + abs(eye.up[2] - sz * eye.up[1])
    return max(scale * wx, 1e-6), max(scale * wz, 1e-6)
