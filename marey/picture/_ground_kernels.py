"""The compiled ground: its pattern, its marks and its fading, averaged over a pixel in closed form."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.picture._packed import (
    MARK_BLUE,
    MARK_END_RADIUS,
    MARK_GREEN,
    MARK_RED,
    MARK_START_RADIUS,
    OPACITY,
    CellGrid,
    PackedCamera,
    PackedGround,
    Vector,
)


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
    """How much of the ground is left at a point: 1 near the focus, 0 far away."""
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
