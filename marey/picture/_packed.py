"""The scene as the compiled kernels take it: tuples of numbers, which cost nothing to pass, and a few flat arrays.

(Arrays inside tuples are counted anew at every call: a first version that passed them so was many times slower.)
"""

from __future__ import annotations

from typing import NamedTuple

from marey.base import FloatArray, IntArray

Vector = tuple[float, float, float]

# columns of the table of cones (S, 14), after the start's x, y, z and the unit axis x, y, z
LENGTH, START_RADIUS, END_RADIUS, SINE, SQUARED_COSINE, RED, GREEN, BLUE = range(6, 14)
CONE_COLUMNS = 14
# columns of the table of marks (N, 10), after the start's x, z and the end's x, z
MARK_START_RADIUS, MARK_END_RADIUS, MARK_RED, MARK_GREEN, MARK_BLUE, OPACITY = range(4, 10)


class CellGrid(NamedTuple):
    """Square cells of a plane; cell c holds ``items[starts[first + c]:starts[first + c + 1]]``."""

    x: float  # lower corner
    y: float
    per_cell: float  # one over the side of a cell
    columns: int
    rows: int
    first: int  # where the cells of this grid begin in the common list of starts


class SceneGrids(NamedTuple):
    """What lies where, so that a ray asks few bodies."""

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


class PackedScene(NamedTuple):
    """All arguments of :func:`render_rows` but the rows and the picture."""

    eye: PackedCamera
    floor: PackedGround
    lamp: PackedLight
    grids: SceneGrids
    cones: FloatArray  # (S, 14)
    marks: FloatArray  # (N, 10)
    starts: IntArray  # cells of all grids, one after the other
    items: IntArray
    encode: FloatArray  # (T,) linear value to display value, 0 to 255
