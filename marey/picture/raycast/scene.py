"""What to draw, as plain data: solid bodies, a ground with marks on it, a light and a camera.

The camera is perspective, and placed so that everything is seen.

Colours are linear RGB between 0 and 1; :func:`srgb` turns the numbers of a colour picker into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.picture.raycast.meshes import TriangleMesh

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
        if len(colour) != 7 or colour[0] != "#":
            raise InputError(f"'{colour}' is no colour", "Write it as #rrggbb")
        colour = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    c = np.asarray(colour, dtype=np.float64)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


@dataclass(frozen=True, slots=True, eq=False)
class CapsuleBatch:
    """S tapered capsules in world: two balls and the cone that touches both."""

    starts: FloatArray  # (S, 3) [m] centre of the first ball
    ends: FloatArray  # (S, 3) [m] centre of the second ball
    start_radii: FloatArray  # (S,) [m]
    end_radii: FloatArray  # (S,) [m]
    colours: FloatArray  # (S, 3) linear RGB

    def __post_init__(self) -> None:
        _freeze_strokes(self, 3)

    @classmethod
    def none(cls) -> CapsuleBatch:
        """Return nothing to draw."""
        return cls(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros((0, 3)))

    @classmethod
    def join(cls, parts: Sequence[CapsuleBatch]) -> CapsuleBatch:
        """Put the capsules of several bodies in one list."""
        if not parts:
            return cls.none()
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))

    def moved(self, offset: ArrayLike) -> CapsuleBatch:
        """Return the same capsules, shifted by ``offset`` ``(3,)`` [m]."""
        return replace(self, starts=self.starts + np.asarray(offset), ends=self.ends + np.asarray(offset))

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True, eq=False)
class GroundMarks:
    """N flat marks on the ground, each a tapered stroke: a footprint, a disc or a piece of a path."""

    starts: FloatArray  # (N, 2) [m] world x and z
    ends: FloatArray  # (N, 2) [m]
    start_radii: FloatArray  # (N,) [m]
    end_radii: FloatArray  # (N,) [m]
    colours: FloatArray  # (N, 3) linear RGB
    opacities: FloatArray  # (N,) 0 unseen, 1 opaque; later marks lie on earlier ones

    def __post_init__(self) -> None:
        _freeze_strokes(self, 2)
        object.__setattr__(self, "opacities", frozen(self.opacities, len(self.starts), name="opacities"))

    @classmethod
    def none(cls) -> GroundMarks:
        """Return no marks."""
        return cls(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((0, 3)), np.zeros(0))

    @classmethod
    def join(cls, parts: Sequence[GroundMarks]) -> GroundMarks:
        """Put several lists of marks in one; the last is drawn on top."""
        if not parts:
            return cls.none()
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))

    @classmethod
    def path(cls, points: ArrayLike, *, width_m: float, colour: ArrayLike, opacity: float = 1.0) -> GroundMarks:
        """Return a line through ground points ``(N, 2)`` [m] of world x and z."""
        p = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        count = max(len(p) - 1, 0)
        radii = np.full(count, 0.5 * width_m)
        colours = np.broadcast_to(np.asarray(colour, dtype=np.float64), (count, 3))
        return cls(p[:-1], p[1:], radii, radii, colours, np.full(count, opacity))

    def moved(self, offset: ArrayLike) -> GroundMarks:
        """Return the same marks, shifted by ``offset`` ``(2,)`` [m] along x and z."""
        return replace(self, starts=self.starts + np.asarray(offset), ends=self.ends + np.asarray(offset))

    def __len__(self) -> int:
        return len(self.starts)


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


def _freeze_strokes(batch: CapsuleBatch | GroundMarks, axes: int) -> None:
    """Check and freeze what capsules and marks share: ends in as many axes, radii, colours."""
    object.__setattr__(batch, "starts", frozen(batch.starts, None, axes, name="starts"))
    count = len(batch.starts)
    object.__setattr__(batch, "ends", frozen(batch.ends, count, axes, name="ends"))
    object.__setattr__(batch, "colours", frozen(batch.colours, count, 3, name="colours"))
    for name in ("start_radii", "end_radii"):
        radii = frozen(getattr(batch, name), count, name=name)
        if count and radii.min() < 0.0:
            raise InputError(f"{name} holds {radii.min()}", "A radius cannot be negative")
        object.__setattr__(batch, name, radii)
