"""What to draw, as plain data: solid bodies, a ground with marks on it, a light and a camera.

Colours are linear RGB between 0 and 1; :func:`srgb` turns the numbers of a colour picker into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.picture._camera import PinholeCamera


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
        starts = frozen(self.starts, None, 3, name="starts")
        count = len(starts)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "ends", frozen(self.ends, count, 3, name="ends"))
        object.__setattr__(self, "start_radii", _check_radii(self.start_radii, count, "start_radii"))
        object.__setattr__(self, "end_radii", _check_radii(self.end_radii, count, "end_radii"))
        object.__setattr__(self, "colours", frozen(self.colours, count, 3, name="colours"))

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
        starts = frozen(self.starts, None, 2, name="starts")
        count = len(starts)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "ends", frozen(self.ends, count, 2, name="ends"))
        object.__setattr__(self, "start_radii", _check_radii(self.start_radii, count, "start_radii"))
        object.__setattr__(self, "end_radii", _check_radii(self.end_radii, count, "end_radii"))
        object.__setattr__(self, "colours", frozen(self.colours, count, 3, name="colours"))
        object.__setattr__(self, "opacities", frozen(self.opacities, count, name="opacities"))

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


def _check_radii(values: FloatArray, count: int, name: str) -> FloatArray:
    radii = frozen(values, count, name=name)
    if count and radii.min() < 0.0:
        raise InputError(f"{name} holds {radii.min()}", "A radius cannot be negative")
    return radii
