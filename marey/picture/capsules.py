"""From a scene to a picture: sort the bodies into cells, then cast rays.

For each pixel the compiled ray-caster finds the surface that is seen and the light that leaves it.

Every pixel near a body takes four visibility samples, eight where they differ, and shades each surface it finds
once; a pixel that can only see the ground takes one, because the pattern, the marks and the shadows of the ground are
averaged in closed form.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, IntArray, kernel
from marey.lie.kernels import Vector, dot, unit
from marey.picture.scene import CapsuleBatch, GroundPattern, Light, RenderScene
from marey.picture.surfaces import (
    BLUE,
    END_RADIUS,
    GREEN,
    LENGTH,
    RED,
    START_RADIUS,
    CellGrid,
    PackedCamera,
    PackedGround,
    PackedLight,
    PackedScene,
    PackedView,
    SceneGrids,
    cell_span,
    cone_normal,
    draw_marks,
    ground_pattern,
    ground_pixel_size,
    ground_visibility,
    hit_cone,
    mix_colours,
    occlude_by_cone,
    pixel_ray,
    point_on_ray,
    shade_by_cone,
)

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
    # How many rectangles each cell meets,
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
    # where its list begins,
    for c in range(len(starts) - 1):
        starts[c + 1] += starts[c]
    # and which they are.
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
    cones: FloatArray, starts: IntArray, items: IntArray, view: PackedView, i: int, p: Vector, d: Vector
) -> Vector:
    """Light from body ``i`` at p: lamp and shadow, sky and floor with creases, a highlight, darker rims."""
    grids, lamp = view.grids, view.lamp
    n = cone_normal(cones, i, p)
    facing = dot(n, lamp.direction)
    lit = 0.0
    if facing > 0.0:
        begin, end = cell_span(grids.from_lamp, starts, dot(p, lamp.across), dot(p, lamp.along))
        lit = _lamp_visibility(cones, items, begin, end, lamp.direction, lamp.softness, i, p)
    # Neighbours darken the creases; the sky is brighter above than the floor below.
    begin, end = starts[grids.neighbours + i], starts[grids.neighbours + i + 1]
    crease = 1.0 - CREASE * (1.0 - _sky_visibility(cones, items, begin, end, BODY_REACH, p, n))
    sky = lamp.floor + (lamp.sky - lamp.floor) * (0.5 + 0.5 * n[1])
    # Highlight about the half vector; surfaces darken where they turn away.
    half = point_on_ray(lamp.direction, -1.0, d)
    shine = max(dot(n, half), 0.0) / np.sqrt(dot(half, half))
    away = 1.0 - min(max(-dot(n, d), 0.0), 1.0)
    light = (lamp.key * max(facing, 0.0) * lit + sky * crease) * (1.0 - RIM * away * away * away)
    gloss = GLOSS * lit * shine**24
    return cones[i, RED] * light + gloss, cones[i, GREEN] * light + gloss, cones[i, BLUE] * light + gloss


@kernel
def _shade_ground(
    cones: FloatArray, marks: FloatArray, starts: IntArray, items: IntArray, view: PackedView, u: float, v: float
) -> Vector:
    """Light from the ground, or the background, that picture point (u, v) sees."""
    eye, floor, lamp, grids = view.eye, view.floor, view.lamp, view.grids
    o, d = eye.position, pixel_ray(eye, u, v)
    t = (floor.height - o[1]) / d[1]
    if not floor.shown or not t > 0.0:
        return floor.background
    x, z = o[0] + t * d[0], o[2] + t * d[2]
    left = ground_visibility(floor, x, z)
    if left <= 0.0:
        return floor.background
    # Pattern and marks, averaged over the pixel; then the shadow of the lamp, and contact shadows.
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
def render_rows(scene: PackedScene, first: int, last: int, image: NDArray[np.uint8]) -> None:
    """Draw rows ``first`` to ``last`` of ``image`` ``(H, W, 3)``."""
    view, cones, marks, starts, items, encode = scene
    eye, floor, grids, o = view.eye, view.floor, view.grids, view.eye.position
    seen, depths = np.empty(SAMPLES, dtype=np.int64), np.empty(SAMPLES)
    for row in range(first, last):
        for column in range(eye.width):
            begin, end = cell_span(grids.on_screen, starts, column, row)
            light = (0.0, 0.0, 0.0)
            # What each sample sees: the nearest body of the tile, unless the ground hides it.
            taken, mixed = 0, False
            while begin < end and taken < (SAMPLES if mixed else COARSE_SAMPLES):
                d = unit(pixel_ray(eye, column + SAMPLE_U[taken], row + SAMPLE_V[taken]))
                seen[taken], depths[taken] = NOTHING, np.inf
                if floor.shown:
                    t = (floor.height - o[1]) / d[1]
                    if t > 0.0:
                        depths[taken] = t
                for k in range(begin, end):
                    t = hit_cone(cones, items[k], o, d)
                    if t < depths[taken]:
                        depths[taken], seen[taken] = t, items[k]
                mixed = mixed or seen[taken] != seen[0]
                taken += 1
            # Every surface is shaded once, and weighs as many samples as see it.
            for k in range(taken):
                which, same = seen[k], 0
                if which == DONE:
                    continue
                for j in range(k, taken):
                    if seen[j] == which:
                        same += 1
                        seen[j] = DONE
                if which == NOTHING:
                    u, v = column + 0.5, row + 0.5  # its pattern is averaged about the middle
                    colour = _shade_ground(cones, marks, starts, items, view, u, v)
                else:
                    d = unit(pixel_ray(eye, column + SAMPLE_U[k], row + SAMPLE_V[k]))
                    colour = _shade_body(cones, starts, items, view, which, point_on_ray(o, depths[k], d), d)
                light = point_on_ray(light, same / taken, colour)
            if taken == 0:
                light = _shade_ground(cones, marks, starts, items, view, column + 0.5, row + 0.5)
            for c in range(3):
                value = min(max(light[c], 0.0), 1.0)
                image[row, column, c] = np.uint8(encode[int(value * (len(encode) - 1) + 0.5)])


Image = NDArray[np.uint8]

TILE_PX: Final = 8  # [pixel] side of a picture tile; 4 to 16 take the same time within 5 %, 32 takes more
CELL_M: Final = 0.12  # [m] side of a cell of the lamp's plane and of the ground
MAX_CELLS: Final = 200_000  # cells grow rather than be more than this
MAX_PIXELS: Final = 64_000_000  # 8000 x 8000
ENCODE_STEPS: Final = 8192  # number of linear values; the darkest step is below half a display value
MARK_EDGE_M: Final = 0.05  # [m] marks are looked for this far around, so that their edges can be averaged
UNBOUNDED: Final = 1e9  # a tangent wider than any picture


def render_capsules(scene: RenderScene, size: tuple[int, int], *, threads: int = 1) -> Image:
    """Draw the solids, the ground and the marks of a scene: ``(H, W, 3)`` display values."""
    width, height = (int(n) for n in size)
    if width < 1 or height < 1 or width * height > MAX_PIXELS:
        raise InputError(f"a picture of {width} x {height} pixels", f"Ask for 1 to {MAX_PIXELS} pixels")
    packed = pack_scene(scene, (width, height))
    image = np.empty((height, width, 3), dtype=np.uint8)
    if threads <= 1:
        render_rows(packed, 0, height, image)
        return image
    edges: list[int] = np.linspace(0, height, 4 * threads + 1).astype(np.int64).tolist()

    def draw(first: int, last: int) -> None:
        render_rows(packed, first, last, image)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(draw, edges[:-1], edges[1:]))
    return image


def pack_scene(scene: RenderScene, size: tuple[int, int]) -> PackedScene:
    """Prepare a scene for the kernels: tapers of the cones, and which bodies matter where."""
    eye, floor, lamp = pack_camera(scene, size), pack_ground(scene), pack_light(scene.light)
    cones = pack_solids(scene.solids)
    # Sort cones and marks into the cells where a ray may meet them, or their shadow.
    marks = scene.marks
    begins, ends = cones[:, 0:3], cones[:, 0:3] + cones[:, 3:6] * cones[:, LENGTH, None]
    radii = cones[:, START_RADIUS : END_RADIUS + 1]
    largest = radii.max(axis=1, initial=0.0)
    lowest = np.minimum(begins[:, 1], ends[:, 1]) - floor.height
    drop = np.maximum(np.maximum(begins[:, 1], ends[:, 1]) - floor.height, 0.5) / lamp.direction[1]
    plane = np.array([lamp.across, lamp.along]).T
    ground = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    reach = np.sqrt(np.maximum((GROUND_REACH * largest) ** 2 - np.maximum(lowest, 0.0) ** 2, 0.0))
    sorter = _CellSorter()
    # Sort capsules into picture tiles by the exact bounds of their two balls; the hull stays inside
    axes = np.array([eye.right, eye.up, eye.forward]).T
    a_low, a_high = _ball_bounds((begins - eye.position) @ axes, radii[:, 0])
    b_low, b_high = _ball_bounds((ends - eye.position) @ axes, radii[:, 1])
    # From tangents to pixels; rows go down.
    low, high = np.minimum(a_low, b_low), np.maximum(a_high, b_high)
    middle = 0.5 * np.array([eye.width, eye.height])
    first = middle + np.stack([low[:, 0], -high[:, 1]], axis=1) / eye.per_pixel
    last = middle + np.stack([high[:, 0], -low[:, 1]], axis=1) / eye.per_pixel
    grids = SceneGrids(
        sorter.add(0.0, 0.0, float(TILE_PX), -(-eye.width // TILE_PX), -(-eye.height // TILE_PX), first, last),
        sorter.cells(begins @ plane, ends @ plane, largest + lamp.softness * drop + 0.01),
        sorter.cells(begins @ ground, ends @ ground, np.where(reach > 0.0, reach, -np.inf)),
        sorter.cells(marks.starts, marks.ends, np.maximum(marks.start_radii, marks.end_radii) + MARK_EDGE_M),
        sorter.neighbours(begins, ends, largest),
    )
    columns = [marks.start_radii[:, None], marks.end_radii[:, None], marks.colours, marks.opacities[:, None]]
    return PackedScene(
        PackedView(eye, floor, lamp, grids),
        cones,
        np.concatenate([marks.starts, marks.ends, *columns], axis=1),
        np.concatenate(sorter.starts),
        np.concatenate(sorter.items),
        encode_srgb(np.linspace(0.0, 1.0, ENCODE_STEPS)),
    )


def pack_solids(solids: CapsuleBatch) -> FloatArray:
    """Table ``(S, 14)`` of tapered capsules; where one ball holds the other, only the larger is left."""
    steps = solids.ends - solids.starts
    lengths = np.linalg.norm(steps, axis=1)
    ra, rb = solids.start_radii, solids.end_radii
    # One ball holds the other: the larger is drawn as a capsule without length.
    swallowed = lengths <= np.abs(ra - rb) * (1 + 1e-9)
    safe = np.where(swallowed, 1.0, lengths)
    starts = np.where((swallowed & (rb > ra))[:, None], solids.ends, solids.starts)
    axes = np.where(swallowed[:, None], [0.0, 1.0, 0.0], steps / safe[:, None])
    sines = np.where(swallowed, 0.0, (ra - rb) / safe)
    larger = np.maximum(ra, rb)
    radii = np.where(swallowed, larger, [ra, rb])
    shapes = np.stack([np.where(swallowed, 0.0, lengths), *radii, sines, 1.0 - sines**2], axis=1)
    return np.concatenate([starts, axes, shapes, solids.colours], axis=1)


def pack_camera(scene: RenderScene, size: tuple[int, int]) -> PackedCamera:
    """Pack the camera of a scene for pictures of ``size`` (width, height) pixels."""
    right, up, forward = scene.camera.axes()
    focal = scene.camera.pixels_per_tangent(size[1])
    return PackedCamera(
        _to_tuple(scene.camera.position), _to_tuple(right), _to_tuple(up), _to_tuple(forward), 1.0 / focal, *size
    )


def pack_ground(scene: RenderScene) -> PackedGround:
    """Pack the ground plane and the background of a scene."""
    g = scene.ground or GroundPattern()
    focus = g.focus.ravel().tolist()
    return PackedGround(
        0 if scene.ground is None else 1,
        float(g.height_m),
        _to_tuple(g.colour),
        float(g.checker),
        1.0 / float(g.square_m),
        _to_tuple(g.line_colour),
        float(g.line_width_m) / float(g.square_m),
        (focus[0], focus[1], focus[2], focus[3]),
        float(g.fade_m[0]),
        float(max(g.fade_m[1], g.fade_m[0] + 1e-6)),
        _to_tuple(scene.background),
    )


def pack_light(light: Light) -> PackedLight:
    """Pack a light with two axes across its direction, along which soft shadows are sampled."""
    d = light.direction
    across = np.cross(d, [1.0, 0.0, 0.0] if abs(d[0]) < 0.7 else [0.0, 0.0, 1.0])
    across = across / np.linalg.norm(across)
    numbers = (float(n) for n in (light.key, light.sky, light.floor, light.softness, light.shadow))
    return PackedLight(_to_tuple(d), _to_tuple(across), _to_tuple(np.cross(d, across)), *numbers)


def _to_tuple(values: FloatArray) -> Vector:
    x, y, z = values.tolist()
    return float(x), float(y), float(z)


def encode_srgb(linear: FloatArray) -> FloatArray:
    """Display values, 0 to 255, of linear ones between 0 and 1 (IEC 61966-2-1, the inverse of ``srgb``)."""
    curve = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 0.0) ** (1 / 2.4) - 0.055)
    return np.floor(255.0 * np.clip(curve, 0.0, 1.0) + 0.5)


class _CellSorter:
    """Collects the cell lists of several grids in two flat arrays."""

    def __init__(self) -> None:
        self.starts: list[IntArray] = []
        self.items: list[IntArray] = []

    def cells(self, a: FloatArray, b: FloatArray, reach: FloatArray) -> CellGrid:
        """Sort segments of a plane, widened by ``reach``, into square cells that hold them all."""
        low, high = np.minimum(a, b) - reach[:, None], np.maximum(a, b) + reach[:, None]
        reached = np.isfinite(reach)
        if not reached.any():
            return self.add(0.0, 0.0, 1.0, 1, 1, low, high)
        corner = low[reached].min(axis=0)
        (x, y), (width, height) = corner.tolist(), (high[reached].max(axis=0) - corner).tolist()
        # Cells grow rather than be too many.
        cell = max(CELL_M, float(np.sqrt(width * height / MAX_CELLS)), max(width, height) / MAX_CELLS)
        return self.add(x, y, cell, int(width / cell) + 1, int(height / cell) + 1, low, high)

    def neighbours(self, begins: FloatArray, ends: FloatArray, radii: FloatArray) -> int:
        """List for each capsule the others whose contact shadow may reach it; return where the lists begin."""
        middles, halves = 0.5 * (begins + ends), 0.5 * np.linalg.norm(ends - begins, axis=1)
        gaps = np.linalg.norm(middles[:, None] - middles[None], axis=-1)
        near = gaps < (halves + radii)[:, None] + (halves + BODY_REACH * radii)[None]
        np.fill_diagonal(near, False)
        return self._append(np.concatenate([[0], np.cumsum(near.sum(axis=1))]), np.nonzero(near)[1])

    def _append(self, starts: IntArray, items: IntArray) -> int:
        first = sum(len(part) for part in self.starts)
        self.starts.append(starts + sum(len(part) for part in self.items))
        self.items.append(items)
        return first

    def add(
        self, x: float, y: float, cell: float, columns: int, rows: int, low: FloatArray, high: FloatArray
    ) -> CellGrid:
        """Sort bounds ``(N, 2)`` into the cells of a grid with its corner at ``x``, ``y``."""
        starts, items = fill_grid(
            x, y, 1.0 / cell, columns, rows, np.ascontiguousarray(low), np.ascontiguousarray(high)
        )
        return CellGrid(x, y, 1.0 / cell, columns, rows, self._append(starts, items))


def _ball_bounds(p: FloatArray, radii: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Bounds ``(N, 2)`` of the tangents x/z and y/z of balls at camera coordinates ``p``.

    The tangent lines of a disc at :math:`(x, z)` through the origin have slopes
    :math:`(xz \pm r\sqrt{x^2 + z^2 - r^2}) / (z^2 - r^2)`. A ball that reaches the camera's plane covers everything.
    """
    x, z, r = p[:, :2], p[:, 2:], radii[:, None]
    front = z > 1.001 * r + 1e-6
    safe = np.where(front, z**2 - r**2, 1.0)
    spread = r * np.sqrt(np.maximum(x**2 + z**2 - r**2, 0.0))
    low = np.where(front, (x * z - spread) / safe, -UNBOUNDED)
    high = np.where(front, (x * z + spread) / safe, UNBOUNDED)
    return low, high
