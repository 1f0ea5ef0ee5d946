"""The compiled ray-caster: which surface each pixel sees, and the light that leaves it.

Every pixel near a body takes four visibility samples, eight where they differ, and shades each surface it finds
once; a pixel that can only see the ground takes one, because the pattern, the marks and the shadows of the ground are
averaged in closed form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray, kernel
from marey.picture._cone_kernels import cone_normal, dot, hit_cone, occlude_by_cone, point_on_ray, shade_by_cone, unit
from marey.picture._ground_kernels import (
    cell_span,
    draw_marks,
    ground_pattern,
    ground_pixel_size,
    ground_visibility,
    mix_colours,
    pixel_ray,
)
from marey.picture._packed import BLUE, GREEN, RED, PackedCamera, PackedGround, PackedLight, SceneGrids, Vector

GROUND_REACH = 5.0  # [-] a body's contact shadow on the ground ends at so many of its radii
BODY_REACH = 3.0  # [-] the same, on other bodies
NOTHING = -1  # a ray that meets no body
DONE = -2  # a sample whose surface is shaded
# samples of a pixel, placed so that no two share a row or a column of an 8 x 8 grid, the four outermost first
SAMPLE_U = (0.0625, 0.3125, 0.6875, 0.9375, 0.5625, 0.4375, 0.1875, 0.8125)
SAMPLE_V = (0.4375, 0.9375, 0.0625, 0.5625, 0.3125, 0.6875, 0.1875, 0.8125)
SAMPLES = 8
COARSE_SAMPLES = 4  # samples that settle a pixel if they see one surface
CREASE = 0.75  # [-] strength of contact shadows on bodies
GLOSS = 0.10  # [-] strength of the highlight
RIM = 0.30  # [-] how much a surface darkens where it turns away, so that limbs part from one another


@kernel
def fill_grid(
    x: float, y: float, per_cell: float, columns: int, rows: int, low: FloatArray, high: FloatArray
) -> tuple[IntArray, IntArray]:
    """Cell lists of rectangles ``(N, 2)``: count, sum up, fill; items keep their order in every cell."""
    starts = np.zeros(columns * rows + 1, dtype=np.int64)
    spans = np.empty((len(low), 4), dtype=np.int64)
    for i in range(len(low)):
        spans[i, 0] = min(max(np.floor((low[i, 0] - x) * per_cell), 0), columns)
        spans[i, 1] = min(max(np.floor((high[i, 0] - x) * per_cell) + 1, 0), columns)
        spans[i, 2] = min(max(np.floor((low[i, 1] - y) * per_cell), 0), rows)
        spans[i, 3] = min(max(np.floor((high[i, 1] - y) * per_cell) + 1, 0), rows)
        for row in range(spans[i, 2], spans[i, 3]):
            for column in range(spans[i, 0], spans[i, 1]):
                starts[row * columns + column + 1] += 1
    for c in range(len(starts) - 1):
        starts[c + 1] += starts[c]
    items = np.empty(starts[-1], dtype=np.int64)
    place = starts[:-1].copy()
    for i in range(len(low)):
        for row in range(spans[i, 2], spans[i, 3]):
            for column in range(spans[i, 0], spans[i, 1]):
                c = row * columns + column
                items[place[c]] = i
                place[c] += 1
    return starts, items


@kernel
def _first_hit(
    cones: FloatArray, items: IntArray, begin: int, end: int, floor: PackedGround, o: Vector, d: Vector
) -> tuple[int, float]:
    """The nearest body on a ray among those of a tile, unless the ground hides it."""
    best, which = np.inf, NOTHING
    if floor.shown:
        t = (floor.height - o[1]) / d[1]
        if t > 0.0:
            best = t
    for k in range(begin, end):
        t = hit_cone(cones, items[k], o, d)
        if t < best:
            best, which = t, items[k]
    return which, best


@kernel
def _lamp_visibility(
    cones: FloatArray, items: IntArray, begin: int, end: int, lamp: Vector, softness: float, own: int, p: Vector
) -> float:
    """Share of the lamp that reaches a point, 0 to 1: what the most hiding of some bodies leaves."""
    hidden = 0.0
    for k in range(begin, end):
        if items[k] != own:
            hidden = max(hidden, shade_by_cone(cones, items[k], p, lamp, softness))
            if hidden >= 1.0:
                break
    return 1.0 - hidden


@kernel
def _sky_visibility(
    cones: FloatArray, items: IntArray, begin: int, end: int, reach: float, p: Vector, n: Vector
) -> float:
    """Share of the sky that reaches a point, 0 to 1: the product over some bodies."""
    share = 1.0
    for k in range(begin, end):
        share *= 1.0 - occlude_by_cone(cones, items[k], reach, p, n)
    return share


@kernel
def _shade_body(
    cones: FloatArray,
    starts: IntArray,
    items: IntArray,
    grids: SceneGrids,
    lamp: PackedLight,
    i: int,
    p: Vector,
    d: Vector,
) -> Vector:
    """Light from body ``i`` at p: lamp and shadow, sky and floor with creases, a highlight, darker rims."""
    n = cone_normal(cones, i, p)
    facing = dot(n, lamp.direction)
    lit = 0.0
    if facing > 0.0:
        begin, end = cell_span(grids.from_lamp, starts, dot(p, lamp.across), dot(p, lamp.along))
        lit = _lamp_visibility(cones, items, begin, end, lamp.direction, lamp.softness, i, p)
    begin, end = starts[grids.neighbours + i], starts[grids.neighbours + i + 1]
    crease = 1.0 - CREASE * (1.0 - _sky_visibility(cones, items, begin, end, BODY_REACH, p, n))
    sky = lamp.floor + (lamp.sky - lamp.floor) * (0.5 + 0.5 * n[1])
    half = point_on_ray(lamp.direction, -1.0, d)
    shine = max(dot(n, half), 0.0) / np.sqrt(dot(half, half))
    away = 1.0 - min(max(-dot(n, d), 0.0), 1.0)
    light = (lamp.key * max(facing, 0.0) * lit + sky * crease) * (1.0 - RIM * away * away * away)
    gloss = GLOSS * lit * shine**24
    return cones[i, RED] * light + gloss, cones[i, GREEN] * light + gloss, cones[i, BLUE] * light + gloss


@kernel
def _shade_ground(
    cones: FloatArray,
    marks: FloatArray,
    starts: IntArray,
    items: IntArray,
    grids: SceneGrids,
    eye: PackedCamera,
    floor: PackedGround,
    lamp: PackedLight,
    u: float,
    v: float,
) -> Vector:
    """Light from the ground, or the background, that picture point (u, v) sees."""
    o, d = eye.position, pixel_ray(eye, u, v)
    t = (floor.height - o[1]) / d[1]
    if not floor.shown or not t > 0.0:
        return floor.background
    x, z = o[0] + t * d[0], o[2] + t * d[2]
    left = ground_visibility(floor, x, z)
    if left <= 0.0:
        return floor.background
    wx, wz = ground_pixel_size(eye, t, d)
    colour = ground_pattern(floor, x, z, wx, wz)
    begin, end = cell_span(grids.marked, starts, x, z)
    if begin < end:  # here and below: a call costs more than the test
        colour = draw_marks(colour, marks, items, begin, end, x, z, max(wx, wz))
    p, light = (x, floor.height, z), 1.0
    begin, end = cell_span(grids.from_lamp, starts, dot(p, lamp.across), dot(p, lamp.along))
    if begin < end:
        lit = _lamp_visibility(cones, items, begin, end, lamp.direction, lamp.softness, NOTHING, p)
        light = 1.0 - lamp.shadow * (1.0 - lit)
    begin, end = cell_span(grids.beneath, starts, x, z)
    if begin < end:
        light *= _sky_visibility(cones, items, begin, end, GROUND_REACH, p, (0.0, 1.0, 0.0))
    return mix_colours(floor.background, (colour[0] * light, colour[1] * light, colour[2] * light), left)


@kernel
def _is_uniform(seen: IntArray, count: int) -> bool:
    same = True
    for k in range(1, count):
        same = same and seen[k] == seen[0]
    return same


@kernel
def _count_same(seen: IntArray, first: int, count: int) -> int:
    """How many samples see what sample ``first`` sees; they are marked as done."""
    which, same = seen[first], 0
    for k in range(first, count):
        if seen[k] == which:
            same += 1
            seen[k] = DONE
    return same


@kernel
def render_rows(
    eye: PackedCamera,
    floor: PackedGround,
    lamp: PackedLight,
    grids: SceneGrids,
    cones: FloatArray,
    marks: FloatArray,
    starts: IntArray,
    items: IntArray,
    encode: FloatArray,
    first: int,
    last: int,
    image: NDArray[np.uint8],
) -> None:
    """Draw rows ``first`` to ``last`` of ``image`` ``(H, W, 3)``."""
    seen, depths = np.empty(SAMPLES, dtype=np.int64), np.empty(SAMPLES)
    for row in range(first, last):
        for column in range(eye.width):
            begin, end = cell_span(grids.on_screen, starts, column, row)
            light = (0.0, 0.0, 0.0)
            if begin == end:
                light = _shade_ground(cones, marks, starts, items, grids, eye, floor, lamp, column + 0.5, row + 0.5)
            else:
                taken = 0
                while taken < SAMPLES and not (taken == COARSE_SAMPLES and _is_uniform(seen, COARSE_SAMPLES)):
                    d = unit(pixel_ray(eye, column + SAMPLE_U[taken], row + SAMPLE_V[taken]))
                    seen[taken], depths[taken] = _first_hit(cones, items, begin, end, floor, eye.position, d)
                    taken += 1
                for k in range(taken):
                    which = seen[k]
                    if which == DONE:
                        continue
                    share = _count_same(seen, k, taken) / taken
                    if which == NOTHING:
                        u, v = column + 0.5, row + 0.5  # its pattern is averaged about the middle
                        colour = _shade_ground(cones, marks, starts, items, grids, eye, floor, lamp, u, v)
                    else:
                        d = unit(pixel_ray(eye, column + SAMPLE_U[k], row + SAMPLE_V[k]))
                        p = point_on_ray(eye.position, depths[k], d)
                        colour = _shade_body(cones, starts, items, grids, lamp, which, p, d)
                    light = point_on_ray(light, share, colour)
            for c in range(3):
                value = min(max(light[c], 0.0), 1.0)
                image[row, column, c] = np.uint8(encode[int(value * (len(encode) - 1) + 0.5)])
