"""What to draw, as plain data: solid bodies, triangles, a ground with marks on it, a light and a camera.

The camera is perspective, and placed so that everything is seen. Triangles are soft bodies, skins of characters, boxes
and columns of a world. Colours are linear RGB between 0 and 1; :func:`linear_from_srgb` turns the numbers of a colour
picker into them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints

RING_SEGMENTS: Final = 12  # half the sides of a drawn ball or column


@dataclass(frozen=True, slots=True, eq=False)
class TriangleMesh:
    """Triangles in world, coloured at their corners."""

    vertices: FloatArray  # (V, 3) [m]
    faces: IntArray  # (F, 3) counter-clockwise from outside
    colours: FloatArray  # (V, 3) linear RGB

    def __post_init__(self) -> None:
        vertices = frozen(self.vertices, None, 3, name="vertices")
        faces = frozen_ints(self.faces, None, 3, name="faces")
        if len(faces) and not (faces.min() >= 0 and faces.max() < len(vertices)):
            raise InputError(f"faces name vertex {faces.max()}", f"There are {len(vertices)}")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)
        object.__setattr__(self, "colours", frozen(self.colours, len(vertices), 3, name="colours"))

    @classmethod
    def join(cls, parts: Sequence[TriangleMesh]) -> TriangleMesh:
        """Put several meshes in one."""
        starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
        faces = [part.faces + start for part, start in zip(parts, starts[:-1], strict=True)]
        empty = np.zeros((0, 3))
        return cls(
            np.concatenate([empty, *(part.vertices for part in parts)]),
            np.concatenate([empty.astype(np.int64), *faces]),
            np.concatenate([empty, *(part.colours for part in parts)]),
        )

    @classmethod
    def capsule(cls, start: ArrayLike, end: ArrayLike, radii: tuple[float, float], colour: ArrayLike) -> TriangleMesh:
        """A tapered capsule as triangles."""
        a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
        length = float(np.linalg.norm(b - a))
        if length <= abs(radii[0] - radii[1]) + 1e-12:
            # One ball holds the other: only the larger is seen
            a, length, radii = (a if radii[0] >= radii[1] else b), 0.0, (max(radii), max(radii))
        axis = (b - a) / length if length > 0.0 else np.array([0.0, 1.0, 0.0])
        side = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
        side /= np.linalg.norm(side)
        frame = np.stack([side, np.cross(axis, side), axis])
        # Rings around the axis, as radius and height: a quarter of a circle at each end.
        angles = np.linspace(0.0, 0.5 * np.pi, RING_SEGMENTS // 2 + 1)
        first = [(radii[0] * np.sin(t), -radii[0] * np.cos(t)) for t in angles]
        last = [(radii[1] * np.cos(t), length + radii[1] * np.sin(t)) for t in angles]
        rings = [(float(r), float(z)) for r, z in [*first, *last]]
        sides = 2 * RING_SEGMENTS
        around = np.arange(sides) * np.pi / RING_SEGMENTS
        circle = np.stack([np.cos(around), np.sin(around)], axis=-1)
        local = np.concatenate([np.column_stack([r * circle, np.full(sides, z)]) for r, z in rings])
        vertices: FloatArray = np.asarray(a + local @ frame, dtype=np.float64)
        # Two triangles for each piece between two rings.
        i, j = np.meshgrid(np.arange(len(rings) - 1), np.arange(sides), indexing="ij")
        low, low_next = i * sides + j, i * sides + (j + 1) % sides
        corners = [(low, low_next, low_next + sides), (low, low_next + sides, low + sides)]
        faces = np.concatenate([np.stack(three, axis=-1).reshape(-1, 3) for three in corners])
        return cls(vertices, faces, np.broadcast_to(np.asarray(colour), vertices.shape))

    @classmethod
    def none(cls) -> TriangleMesh:
        """Return nothing to draw."""
        return cls(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3)))

    @classmethod
    def column(cls, outline: ArrayLike, heights: tuple[float, float], colour: ArrayLike) -> TriangleMesh:
        """An upright column over a convex outline ``(N, 2)`` [m] of world x and z, between two heights [m].

        Walls and lids have vertices of their own, so that edges stay sharp.
        """
        corners = np.asarray(outline, dtype=np.float64)
        count, (low, high) = len(corners), heights
        after = np.roll(corners, -1, axis=0)
        parts: list[FloatArray] = []
        faces: list[IntArray] = []
        # Each wall is a quadrangle of two triangles, each lid a fan
        walls = [(corners, low), (after, low), (after, high), (corners, high)]
        parts.append(np.stack([np.insert(p, 1, y, axis=1) for p, y in walls], axis=1).reshape(-1, 3))
        first = 4 * np.arange(count)[:, None]
        faces += [first + np.array(three) for three in ((0, 1, 2), (0, 2, 3))]
        fan = np.stack([np.zeros(count - 2), np.arange(1, count - 1), np.arange(2, count)], axis=1).astype(np.int64)
        for number, y in enumerate((low, high)):
            parts.append(np.insert(corners, 1, y, axis=1))
            faces.append(fan + 4 * count + number * count)
        vertices = np.concatenate(parts)
        return cls(vertices, np.concatenate(faces), np.broadcast_to(np.asarray(colour), vertices.shape))

    def moved(self, offset: ArrayLike) -> TriangleMesh:
        """The same mesh, shifted by ``offset`` ``(3,)`` [m]."""
        return replace(self, vertices=self.vertices + np.asarray(offset))

    def normals(self) -> FloatArray:
        """Unit normals ``(V, 3)`` at the corners: the mean of the faces around, by area."""
        p = self.vertices[self.faces]
        across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
        total = np.zeros((len(self.vertices), 3))
        for corner in range(3):
            np.add.at(total, self.faces[:, corner], across)
        return total / np.maximum(np.linalg.norm(total, axis=1), 1e-300)[:, None]


UP: Final = np.array([0.0, 1.0, 0.0])  # +Y, as everywhere in marey
MIN_VIEW_M: Final = 1e-9  # [m] below this, position and target are one point
MAX_VIEW_SINE: Final = 1e-6  # [-] a view this near to the vertical takes +Z as up on the picture


@dataclass(frozen=True, slots=True, eq=False)
class PinholeCamera:
    """A pinhole that looks from ``position`` at ``target``, with +Y up on the picture."""

    position: FloatArray  # (3,) [m] in world
    target: FloatArray  # (3,) [m] in world; drawn at the middle of the picture
    fov_rad: float = np.deg2rad(30.0)  # [rad] angle between the top and the bottom edge

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", frozen(self.position, 3, name="camera position"))
        object.__setattr__(self, "target", frozen(self.target, 3, name="camera target"))
        if np.linalg.norm(self.target - self.position) < MIN_VIEW_M:
            raise InputError("the camera stands at its own target", "Move one of them")
        if not 0.0 < self.fov_rad < np.pi:
            raise InputError(f"the camera's fov_rad is {self.fov_rad}", "It must lie between 0 and π")

    def axes(self) -> FloatArray:
        """Rows ``(3, 3)``: right, up and forward of the picture, as unit vectors in world."""
        return view_axes(self.target - self.position)

    def pixels_per_tangent(self, height: int) -> float:
        """Return how many pixels one unit of (offset / depth) takes in a picture of this height."""
        return float(0.5 * height / np.tan(0.5 * self.fov_rad))

    def project(self, points: ArrayLike, size: tuple[int, int]) -> FloatArray:
        r"""Pixels and depth ``(..., 3)`` of world points ``(..., 3)`` on a picture of ``(width, height)``.

        .. math:: u = \tfrac w2 + f\,\frac{r\cdot(p-c)}{d},\quad v = \tfrac h2 - f\,\frac{u\cdot(p-c)}{d},
            \quad d = \text{forward}\cdot(p-c)

        Pixel ``(0, 0)`` has its centre at (0.5, 0.5), rows go down; points behind the camera have a negative depth.
        """
        right, up, depth = np.moveaxis((np.asarray(points, dtype=np.float64) - self.position) @ self.axes().T, -1, 0)
        focal = self.pixels_per_tangent(size[1])
        return np.stack([0.5 * size[0] + focal * right / depth, 0.5 * size[1] - focal * up / depth, depth], axis=-1)


def view_axes(direction: ArrayLike) -> FloatArray:
    """Rows ``(3, 3)``: right, up and forward of a picture seen along ``direction``."""
    forward = np.asarray(direction, dtype=np.float64)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, UP)
    if np.linalg.norm(right) < MAX_VIEW_SINE:
        right = np.cross(forward, [0.0, 0.0, 1.0])
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(right, forward), forward])


def view_direction(heading_rad: float, *, turn_rad: float, elevation_rad: float) -> FloatArray:
    """Direction ``(3,)`` in which a camera looks at something that heads ``heading_rad`` (0 = +Z, positive to +X).

    With ``turn_rad`` 0 the motion is seen from its right side and runs to the right of the picture; a positive
    turn shows more of its front, and the camera stands ``elevation_rad`` above the horizon.
    """
    towards = np.array([np.sin(heading_rad), 0.0, np.cos(heading_rad)])
    side = np.cross(towards, UP)  # to the right of a viewer along `towards`
    stands = np.cos(turn_rad) * side + np.sin(turn_rad) * towards
    return -(np.cos(elevation_rad) * stands + np.sin(elevation_rad) * UP)


@dataclass(frozen=True, slots=True)
class Margins:
    """Free borders of a picture [pixel]."""

    sides: float = 0.0
    top: float = 0.0
    bottom: float = 0.0


def frame_balls(
    points: ArrayLike,
    radii: ArrayLike,
    direction: ArrayLike,
    size: tuple[int, int],
    *,
    fov_rad: float,
    margins: Margins | None = None,
) -> PinholeCamera:
    r"""Nearest camera looking along ``direction`` that sees all balls.

    In the camera's axes a ball :math:`(x, z)` of radius :math:`r` lies inside an edge of slope :math:`k` when
    :math:`x + r\sqrt{1+k^2} - c_x \le k (z - c_z)`, and alike at the opposite edge of slope :math:`k'`. The two
    tightest lines meet at :math:`(k + k') c_z = \min(x - r' + k'z) - \max(x + r' - kz)`. Width and height each
    give such a :math:`c_z`; the smaller is the farther camera, which satisfies both.

    Args:
        points: centres of the balls ``(N, 3)`` [m] in world.
        radii: their radii ``(N,)``, or one number for all [m].
        direction: where the camera looks, any length.
        size: (width, height) of the picture.
        fov_rad: angle between the top and the bottom edge.
        margins: borders to leave free.
    """
    axes, margins = view_axes(direction), margins or Margins()
    x, y, z = np.moveaxis(np.asarray(points, dtype=np.float64).reshape(-1, 3) @ axes.T, -1, 0)
    slope = np.tan(0.5 * fov_rad)
    across = slope * (size[0] - 2.0 * margins.sides) / size[1]
    top, bottom = slope * (1.0 - 2.0 * margins.top / size[1]), slope * (1.0 - 2.0 * margins.bottom / size[1])
    # The tightest lines at each edge meet at the depth of the camera; the farther one satisfies both.
    edges_x = _tightest_edges(x, z, np.asarray(radii), across, across)
    edges_y = _tightest_edges(y, z, np.asarray(radii), top, bottom)
    depth = min((edges_x[0] - edges_x[1]) / (2.0 * across), (edges_y[0] - edges_y[1]) / (top + bottom))
    middle_y = 0.5 * (edges_y[0] + edges_y[1] + (top - bottom) * depth)
    position = np.array([0.5 * (edges_x[0] + edges_x[1]), middle_y, depth]) @ axes
    return PinholeCamera(position, position + axes[2] * max(0.1, float(z.mean()) - depth), fov_rad)


def _tightest_edges(x: FloatArray, z: FloatArray, radii: FloatArray, high: float, low: float) -> tuple[float, float]:
    """Tightest line at the low and at the high edge, for slopes ``low`` and ``high``."""
    tightest_low = np.min(x - radii * np.sqrt(1.0 + low**2) + low * z)
    tightest_high = np.max(x + radii * np.sqrt(1.0 + high**2) - high * z)
    return float(tightest_low), float(tightest_high)


def fit_height(
    points: ArrayLike,
    radii: ArrayLike,
    direction: ArrayLike,
    width: int,
    *,
    wide_rad: float,
    limits: tuple[int, int],
    margins: Margins | None = None,
) -> tuple[PinholeCamera, int]:
    """Camera and picture height for which the balls fill a given width: the lowest picture that holds them.

    ``wide_rad`` is the angle between the left and the right edge; the height stays between the ``limits`` [pixel].
    """
    low, high = limits
    while low < high:
        middle = (low + high) // 2
        # High enough if a picture of twice the height would move the camera no nearer.
        size = (width, middle)
        fov_width, taller = _vertical_fov_rad(wide_rad, size), (size[0], 2 * size[1])
        here = frame_balls(points, radii, direction, size, fov_rad=fov_width, margins=margins)
        there = frame_balls(
            points, radii, direction, taller, fov_rad=_vertical_fov_rad(wide_rad, taller), margins=margins
        )
        forward = here.axes()[2]
        if bool(forward @ (there.position - here.position) < 1e-6):
            high = middle
        else:
            low = middle + 1
    fov = _vertical_fov_rad(wide_rad, (width, low))
    return frame_balls(points, radii, direction, (width, low), fov_rad=fov, margins=margins), low


def _vertical_fov_rad(wide_rad: float, size: tuple[int, int]) -> float:
    return float(2.0 * np.arctan(np.tan(0.5 * wide_rad) * size[1] / size[0]))


def linear_from_srgb(colour: str | ArrayLike) -> FloatArray:
    """Linear RGB of ``"#rrggbb"`` or of display values ``(..., 3)`` between 0 and 1 (IEC 61966-2-1)."""
    if isinstance(colour, str):
        if not re.fullmatch("#[0-9a-fA-F]{6}", colour):
            raise InputError(f"'{colour[:20]}' is no colour", "Write it as #rrggbb")
        colour = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    c = np.asarray(colour, dtype=np.float64)
    if not np.all((c >= 0.0) & (c <= 1.0)):
        raise InputError("a display value of the colour is not between 0 and 1", "Divide values of 0 to 255 by 255")
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


@dataclass(frozen=True, slots=True, eq=False)
class StrokeBatch:
    """S tapered strokes: two balls, or discs, and what lies between them."""

    AXES: ClassVar[int]  # of a centre

    starts: FloatArray  # (S, AXES) [m] centre of the first ball
    ends: FloatArray  # (S, AXES) [m] centre of the second ball
    start_radii: FloatArray  # (S,) [m]
    end_radii: FloatArray  # (S,) [m]
    colours: FloatArray  # (S, 3) linear RGB

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", frozen(self.starts, None, self.AXES, name="starts"))
        count = len(self.starts)
        object.__setattr__(self, "ends", frozen(self.ends, count, self.AXES, name="ends"))
        for name in (one.name for one in fields(self)[2:]):
            values = frozen(getattr(self, name), count, *((3,) if name == "colours" else ()), name=name)
            if name.endswith("_radii") and count and values.min() < 0.0:
                raise InputError(f"{name} holds {values.min()}", "A radius cannot be negative")
            object.__setattr__(self, name, values)

    @classmethod
    def none(cls) -> Self:
        """Return nothing to draw."""
        extra = (np.zeros(0) for _ in fields(cls)[5:])
        return cls(np.zeros((0, cls.AXES)), np.zeros((0, cls.AXES)), np.zeros(0), np.zeros(0), np.zeros((0, 3)), *extra)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Put several batches in one; of flat marks the last is drawn on top."""
        if not parts:
            return cls.none()
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    def moved(self, offset: ArrayLike) -> Self:
        """Return the same strokes, shifted by ``offset`` ``(AXES,)`` [m]."""
        return replace(self, starts=self.starts + np.asarray(offset), ends=self.ends + np.asarray(offset))

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True, eq=False)
class CapsuleBatch(StrokeBatch):
    """Tapered capsules in world: two balls and the cone that touches both."""

    AXES: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, eq=False)
class GroundMarks(StrokeBatch):
    """Flat marks on the ground, world x and z: a footprint, a disc or a piece of a path."""

    AXES: ClassVar[int] = 2

    opacities: FloatArray  # (S,) 0 unseen, 1 opaque; later marks lie on earlier ones

    @classmethod
    def path(cls, points: ArrayLike, *, width_m: float, colour: ArrayLike) -> GroundMarks:
        """Return a line through ground points ``(N, 2)`` [m] of world x and z."""
        p = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        count = max(len(p) - 1, 0)
        radii = np.full(count, 0.5 * width_m)
        colours = np.broadcast_to(np.asarray(colour, dtype=np.float64), (count, 3))
        return cls(p[:-1], p[1:], radii, radii, colours, np.ones(count))


@dataclass(frozen=True, slots=True, eq=False)
class GroundPattern:
    """A level floor with a checker and lines, which fades into the background away from what is shown."""

    height_m: float = 0.0  # [m] world y
    colour: FloatArray = field(default_factory=lambda: linear_from_srgb("#f3f4f5"))
    checker: float = 0.035  # [-] how much darker every second square is
    square_m: float = 0.5  # [m] side of a square; lines run every second square
    line_colour: FloatArray = field(default_factory=lambda: linear_from_srgb("#cfd3d8"))
    line_width_m: float = 0.012  # [m]; 0 draws no lines
    focus: FloatArray = field(default_factory=lambda: np.zeros((2, 2)))  # (2, 2) [m] x and z of a segment
    fade_m: tuple[float, float] = (2.0, 6.0)  # [m] distance from the focus where fading starts and ends

    def __post_init__(self) -> None:
        object.__setattr__(self, "colour", frozen(self.colour, 3, name="ground colour"))
        object.__setattr__(self, "line_colour", frozen(self.line_colour, 3, name="line colour"))
        object.__setattr__(self, "focus", frozen(self.focus, 2, 2, name="focus"))
        if not self.square_m > 0.0:
            raise InputError(f"ground squares of {self.square_m} m", "Their side must be positive")


@dataclass(frozen=True, slots=True, eq=False)
class Light:
    """A far lamp with soft edges, and the light of sky and floor."""

    direction: FloatArray = field(default_factory=lambda: np.array([-0.4, 1.0, 0.5]))  # (3,) towards the lamp
    key: float = 0.72  # [-] strength of the lamp
    sky: float = 0.52  # [-] light from above
    floor: float = 0.38  # [-] light sent back by the floor
    softness: float = 0.07  # [-] half width of a shadow's edge over the distance to what casts it
    shadow: float = 0.50  # [-] how dark a shadow on the ground is: 0 none, 1 black

    def __post_init__(self) -> None:
        direction = frozen(self.direction, 3, name="light direction")
        if direction[1] <= 0.0:
            raise InputError("the lamp is not above the ground", "Give its direction a positive y")
        object.__setattr__(self, "direction", frozen(direction / np.linalg.norm(direction), 3, name="light"))


@dataclass(frozen=True, slots=True, eq=False)
class RenderScene:
    """Everything :func:`render` needs."""

    camera: PinholeCamera
    solids: CapsuleBatch = field(default_factory=CapsuleBatch.none)
    marks: GroundMarks = field(default_factory=GroundMarks.none)
    ground: GroundPattern | None = field(default_factory=GroundPattern)
    light: Light = field(default_factory=Light)
    background: FloatArray = field(default_factory=lambda: np.ones(3))  # (3,) linear RGB: white paper
    mesh: TriangleMesh = field(default_factory=TriangleMesh.none)
    panes: TriangleMesh = field(default_factory=TriangleMesh.none)  # drawn half transparent: walls before a body
