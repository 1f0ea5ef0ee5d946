"""Where a figure can touch: corners of its soles, and balls inside its segments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray
from marey.skeleton import Skeleton, capsules, foot_points, leg_length, role_map, t_pose

SIDES: Final = ("left", "right")
# The sole, as parts of stature, which is leg / 0.491 ([Winter2009]_ fig. 4.1)
LEG_SHARE: Final = 0.491
SOLE_HALF_WIDTH: Final = 0.0275
HEEL_BACK: Final = 0.018  # from the middle of the heel pad to its end
TOE_RADIUS_M: Final = 0.015
TOE_SPRING_M: Final = 0.006  # [m] a toe is this far above the sole: it touches when it bends, not in every stance
INSIDE_M: Final = 0.01  # [m] a ball that sticks out of another one by less adds nothing
ABOVE_SOLE_M: Final = 0.03  # [m] a shank that ends lower than this is borne by its foot: ankles sit low in captures


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
    found = corners + _body_spheres(skeleton, feet, corners)
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


def _body_spheres(skeleton: Skeleton, feet: frozenset[int], corners: list[_NamedSphere]) -> list[_NamedSphere]:
    """Balls at the ends of the solid segments that are not feet; of those inside one another only the larger.

    The ankle's end of a shank that reaches down to the sole is left out: the corners of the sole bear the figure.
    """
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
    return [(f"{skeleton.names[j]}_{n}", j, offset, r) for n, (r, j, offset, _) in enumerate(kept)]
