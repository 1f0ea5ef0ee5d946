"""The ground, a plane that a figure cannot enter, and where a figure can touch it.

It is touched by corners of soles and by balls inside segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen
from marey.skeleton import Skeleton, capsules, foot_points, leg_length, role_map, t_pose

Friction = Literal["frictionless", "stick", "coulomb", "staggered"]
FRICTIONS: Final[tuple[Friction, ...]] = ("frictionless", "stick", "coulomb", "staggered")  # as the kernels count
FACETS: Final = (4, 6, 8)
UP: Final = (0.0, 1.0, 0.0)
GAMMA: Final = 0.2  # [-] part of a penetration or drift that a step repairs


def check_gamma(gamma: float) -> None:
    """Refuse a part of the drift that would not settle."""
    if not 0.0 < gamma <= 1.0:
        raise InputError(f"gamma is {gamma}", "Take a part above 0 and up to 1")


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
        check_gamma(self.gamma)
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


SIDES: Final = ("left", "right")
# The sole, as parts of stature, which is leg / 0.491 ([Winter2009]_ fig. 4.1)
LEG_SHARE: Final = 0.491
SOLE_HALF_WIDTH: Final = 0.0275
HEEL_BACK: Final = 0.018  # from the middle of the heel pad to its end
TOE_RADIUS_M: Final = 0.015
TOE_SPRING_M: Final = 0.006  # [m] a toe is this far above the sole: it touches when it bends, not in every stance
INSIDE_M: Final = 0.01  # [m] a ball that sticks out of another one by less adds nothing
ABOVE_SOLE_M: Final = 0.03  # [m] a shank that ends lower than this is supported by its foot: ankles are low in captures


class ContactSpheres(NamedTuple):
    """Balls that ride on joints; a corner has no radius."""

    joints: IntArray  # (C,)
    offsets: FloatArray  # (C, 3) [m] centre in the joint's frame
    radii: FloatArray  # (C,) [m]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepContacts:
    """Points of a figure near the ground in one step, and what the ground did to them."""

    names: tuple[str, ...]  # (C,)
    joints: IntArray  # (C,) that carry them
    places: FloatArray  # (C, 3) [m] in world, at the beginning of the step
    normals: FloatArray  # (C, 3)
    gaps: FloatArray  # (C,) [m] at the beginning of the step; negative inside
    impulses: FloatArray  # (C, 3) [N s] on the figure, in world
    dt: float  # [s] length of the step

    @property
    def forces(self) -> FloatArray:
        """Mean forces ``(C, 3)`` [N] during the step."""
        return self.impulses / self.dt

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        pushing = int(np.count_nonzero(np.linalg.norm(self.impulses, axis=1) > 0.0))
        return f"Contacts({len(self)} near, {pushing} push, {np.linalg.norm(self.forces.sum(axis=0)):.0f} N)"


@lru_cache(maxsize=64)
def contact_spheres(skeleton: Skeleton) -> tuple[ContactSpheres, tuple[str, ...]]:
    """Touching points of a skeleton and their names.

    Four corners and a toe for each foot; for everything else the balls at the ends of its solid segments, so that a
    figure that has fallen lies on its hands, head, knees, hips and back.
    """
    corners, feet = _sole_corners(skeleton)
    # Balls at the ends of the solid segments that are not feet; of those inside one another only the larger
    pose, solid = t_pose(skeleton), capsules(skeleton)
    origins, frames = pose.joint_positions(), pose.joint_rotations()
    candidates: list[tuple[float, int, FloatArray, FloatArray]] = []
    for s in range(len(solid)):
        j = int(solid.joints[s])
        ends = ((solid.starts[s], solid.start_radii[s]), (solid.ends[s], solid.end_radii[s]))
        if j not in feet:
            candidates += [(float(r), j, np.array(p), origins[j] + frames[j] @ p) for p, r in ends]
    sole = min((float((origins[j] + frames[j] @ p)[1]) for _, j, p, _ in corners), default=-np.inf)
    candidates = [c for c in candidates if c[3][1] - c[0] > sole + ABOVE_SOLE_M]
    candidates.sort(key=lambda c: (-c[0], c[1]))
    kept: list[tuple[float, int, FloatArray, FloatArray]] = []
    for radius, j, offset, place in candidates:
        if all(np.linalg.norm(place - p) + radius > r + INSIDE_M for r, _, _, p in kept):
            kept.append((radius, j, offset, place))
    kept.sort(key=lambda c: c[1])
    found = corners + [(f"{skeleton.names[j]}_{n}", j, offset, r) for n, (r, j, offset, _) in enumerate(kept)]
    joints = np.array([j for _, j, _, _ in found], dtype=np.int64)
    offsets = np.array([offset for _, _, offset, _ in found], dtype=np.float64).reshape(-1, 3)
    radii = np.array([radius for _, _, _, radius in found], dtype=np.float64)
    return ContactSpheres(joints, offsets, radii), tuple(name for name, _, _, _ in found)


_NamedSphere = tuple[str, int, FloatArray, float]  # name, joint, centre in its frame, radius


def _sole_corners(skeleton: Skeleton) -> tuple[list[_NamedSphere], frozenset[int]]:
    """Corners of heels and balls of the feet, toes, and the joints of the feet."""
    roles, points, pose = role_map(skeleton), foot_points(skeleton), t_pose(skeleton)
    origins, frames = pose.joint_positions(), pose.joint_rotations()
    places = dict(zip(points.names, points.positions(origins, frames), strict=True))
    found: list[_NamedSphere] = []
    feet: set[int] = set()
    for side in SIDES:
        ankle = roles.get(f"{side}_ankle")
        if ankle is None or f"{side}_heel" not in places:
            continue
        stature_m = leg_length(skeleton, roles, side) / LEG_SHARE
        heel, ball, toe = (places[f"{side}_{part}"] for part in ("heel", "ball", "toe_end"))
        ahead = (ball - heel) * (1.0, 0.0, 1.0)
        ahead = ahead / max(float(np.linalg.norm(ahead)), 1e-9)
        half = SOLE_HALF_WIDTH * stature_m * np.cross((0.0, 1.0, 0.0), ahead)
        heel = heel - HEEL_BACK * stature_m * ahead
        for name, place in (("heel", heel), ("ball", ball)):
            for way, sign in (("left", 1.0), ("right", -1.0)):
                offset = frames[ankle].inverse() @ (place + sign * half - origins[ankle])
                found.append((f"{side}_{name}_{way}", ankle, offset, 0.0))
        carrier = int(points.joints[points.index(f"{side}_toe_end")])
        up = np.array([0.0, TOE_RADIUS_M + TOE_SPRING_M, 0.0])
        offset = frames[carrier].inverse() @ (toe - TOE_RADIUS_M * ahead + up - origins[carrier])
        found.append((f"{side}_toe", carrier, offset, TOE_RADIUS_M))
        feet |= {ankle, carrier, *(int(c) for c in skeleton.children(ankle))}
    return found, frozenset(feet)
