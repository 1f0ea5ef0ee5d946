"""Ground: a plane that a figure cannot enter, and how it holds what stands on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen

Friction = Literal["frictionless", "stick", "coulomb", "staggered"]
FRICTIONS: Final[tuple[Friction, ...]] = ("frictionless", "stick", "coulomb", "staggered")  # as the kernels count
FACETS: Final = (4, 6, 8)
UP: Final = (0.0, 1.0, 0.0)
GAMMA: Final = 0.2  # [-] part of a penetration or drift that a step repairs


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    r"""A plane; everything on the side of its normal is free.

    A point at the gap :math:`\phi` gets the row :math:`n^T J_P v \ge -\phi/h` (it may come as near as the ground), or
    :math:`-\gamma\phi/h` where it is inside. [Tournier2011]_ §10.3, §13.

    ``friction`` is one of

    - "frictionless": only the normal row;
    - "stick": a point that touches does not slide, whatever it takes;
    - "coulomb": a cone with ``facets`` sides turned to the direction of sliding, as rows of the same programme;
    - "staggered": normal and tangential impulses in turn, each bounded by the other, to a fixed point.
    """

    point: FloatArray = (0.0, 0.0, 0.0)  # pyright: ignore[reportAssignmentType]  # (3,) [m]
    normal: FloatArray = UP  # pyright: ignore[reportAssignmentType]  # (3,)
    friction: Friction = "coulomb"
    mu: float = 0.8  # [-] coefficient of friction: shoes on a dry floor
    facets: int = 4
    gamma: float = GAMMA

    def __post_init__(self) -> None:
        normal = frozen(self.normal, 3, name="normal")
        length = float(np.linalg.norm(normal))
        if length < 1e-9:
            raise InputError("the normal of a ground is zero", "Give the direction that points out of it")
        if self.friction not in FRICTIONS:
            raise UnknownNameError("friction", str(self.friction), "the ground", FRICTIONS)
        if not (np.isfinite(self.mu) and self.mu >= 0.0):
            raise InputError(f"mu is {self.mu}", "Give a coefficient of friction that is not negative")
        if self.facets not in FACETS:
            raise InputError(f"a cone with {self.facets} facets", "Take 4, 6 or 8")
        if not 0.0 < self.gamma <= 1.0:
            raise InputError(f"gamma is {self.gamma}", "Take a part above 0 and up to 1")
        object.__setattr__(self, "point", frozen(self.point, 3, name="point"))
        object.__setattr__(self, "normal", frozen(normal / length, 3, name="normal"))

    @classmethod
    def from_slope(
        cls,
        slope_rad: float,
        *,
        uphill: ArrayLike = (0.0, 0.0, 1.0),
        point: ArrayLike = (0.0, 0.0, 0.0),
        friction: Friction = "coulomb",
        mu: float = 0.8,
    ) -> Ground:
        """Plane that rises by an angle in a level direction."""
        if not abs(slope_rad) < 0.5 * np.pi:
            raise InputError(f"a slope of {slope_rad} rad", "Keep it within a quarter turn")
        level = frozen(uphill, 3, name="uphill") * (1.0, 0.0, 1.0)
        length = float(np.linalg.norm(level))
        if length < 1e-9:
            raise InputError("the uphill direction is not level", "Give it components along x or z")
        normal = np.cos(slope_rad) * np.array(UP) - np.sin(slope_rad) * level / length
        return cls(frozen(point, 3, name="point"), normal, friction, mu)

    def gaps(self, points: ArrayLike) -> FloatArray:
        """Distance ``(...)`` [m] of points ``(..., 3)`` above the plane; negative inside."""
        return (np.asarray(points, dtype=np.float64) - self.point) @ self.normal


class PlaneArrays(NamedTuple):
    """Grounds as the kernels take them."""

    points: FloatArray  # (P, 3)
    normals: FloatArray  # (P, 3)
    modes: IntArray  # (P,)
    frictions: FloatArray  # (P,) coefficients
    facets: IntArray  # (P,)
    gammas: FloatArray  # (P,)


def pack_planes(grounds: tuple[Ground, ...]) -> PlaneArrays:
    """Arrays of grounds; there may be none."""
    return PlaneArrays(
        np.array([g.point for g in grounds], dtype=np.float64).reshape(-1, 3),
        np.array([g.normal for g in grounds], dtype=np.float64).reshape(-1, 3),
        np.array([FRICTIONS.index(g.friction) for g in grounds], dtype=np.int64),
        np.array([g.mu for g in grounds], dtype=np.float64),
        np.array([g.facets for g in grounds], dtype=np.int64),
        np.array([g.gamma for g in grounds], dtype=np.float64),
    )
