r"""The ground, a plane that a figure cannot enter, and where a figure can touch it.

It is touched by corners of soles and by balls inside segments.

A row in the direction u at a point P is :math:`u^T J_P = u^T J_{joint} + (a \times u)^T J_\omega`, with a the arm from
the joint to the point. [Tournier2011]_ §10.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, pi, sin, sqrt
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, kernel
from marey.simulate.constrained_step import ContactMemory, RowTable
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
    reaches: FloatArray  # (P,) [m] points that are nearer have friction whichever way they are expected to go


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


FRICTIONLESS, STICK, COULOMB, STAGGERED = 0, 1, 2, 3
SLOTS = 9  # rows that a contact can have: normal and up to eight facets, or two tangents
NEAR_M = 0.02  # [m] points nearer than this get a row, and those that could come to the ground within the step
NO_REACH_M = -np.inf  # [m] only what is expected to touch has friction
TOUCH_M = 1e-3  # [m] points that would come so near touch: they have friction
RECOVERY = 0.5  # [m/s] a penetration is left at this speed at most
SLIP_PART = 2.0  # [-] friction takes about mu times the normal speed that a contact stops; so much is surely enough
STANDING = 0.003  # [m/s] a contact that slides more slowly stands: its tiny slip has no direction
SLIDING = 0.02  # [m/s] a contact that slides faster has no anchor
FAR_M = 0.02  # [m] an anchor that is farther away is lost


class SegmentMotion(NamedTuple):
    """Where the segments are, and how velocities move them; see ``Mechanics``."""

    frames: FloatArray  # (J, 3, 3)
    joints: FloatArray  # (J, 3) [m]
    angular: FloatArray  # (J, 3, d)
    linear: FloatArray  # (J, 3, d)


class RowImpulses(NamedTuple):
    """What the rows of a step push; see ``ConstraintRows``."""

    directions: FloatArray  # (m, 3)
    owners: IntArray  # (m,)
    multipliers: FloatArray  # (m,) [N s]


class NearContacts(NamedTuple):
    """Contacts of a step before it is solved."""

    which: IntArray  # (C, 2) plane and sphere
    gaps: FloatArray  # (C,) [m]
    arms: FloatArray  # (C, 3) [m] from the joint to the point
    speeds: FloatArray  # (C, 3) [m/s] of the point at the expected velocity
    places: FloatArray  # (C, 3) [m] of the point in world


@kernel
def point_velocity(
    angular: FloatArray, linear: FloatArray, j: int | IntArray, arm: FloatArray, v: FloatArray
) -> tuple[float, float, float]:
    """Velocity of a point."""
    a = b = c = x = y = z = 0.0
    for i in range(v.shape[0]):
        a += angular[j, 0, i] * v[i]
        b += angular[j, 1, i] * v[i]
        c += angular[j, 2, i] * v[i]
        x += linear[j, 0, i] * v[i]
        y += linear[j, 1, i] * v[i]
        z += linear[j, 2, i] * v[i]
    return x + b * arm[2] - c * arm[1], y + c * arm[0] - a * arm[2], z + a * arm[1] - b * arm[0]


@kernel
def find_near_contacts(
    frames: FloatArray,
    joints: FloatArray,
    angular: FloatArray,
    linear: FloatArray,
    spheres: ContactSpheres,
    planes: PlaneArrays,
    velocity: FloatArray,
    dt: float,
) -> NearContacts:
    """Contacts that a step of this velocity might make."""
    most, count = planes.points.shape[0] * spheres.joints.shape[0], 0
    which, gaps, arms = np.empty((most, 2), dtype=np.int64), np.empty(most), np.empty((most, 3))
    speeds, places = np.empty((most, 3)), np.empty((most, 3))
    arm, centre = np.empty(3), np.empty(3)
    for s in range(spheres.joints.shape[0]):
        j, o = spheres.joints[s], spheres.offsets[s]
        # Centre of the sphere relative to its joint, in world axes
        for r in range(3):
            centre[r] = frames[j, r, 0] * o[0] + frames[j, r, 1] * o[1] + frames[j, r, 2] * o[2]
        for p in range(planes.points.shape[0]):
            n = planes.normals[p]
            # Gap along the normal, and the arm from the joint to the point of contact
            gap = -spheres.radii[s]
            for r in range(3):
                gap += n[r] * (joints[j, r] + centre[r] - planes.points[p, r])
                arm[r] = centre[r] - spheres.radii[s] * n[r]
            # Kept if the point could reach the plane within two steps at its speed of approach
            x, y, z = point_velocity(angular, linear, j, arm, velocity)
            fall = max(0.0, -(x * n[0] + y * n[1] + z * n[2]))
            if gap < NEAR_M + 2.0 * dt * fall:
                which[count, 0], which[count, 1], gaps[count] = p, s, gap
                for r in range(3):
                    arms[count, r], places[count, r] = arm[r], joints[j, r] + arm[r]
                speeds[count, 0], speeds[count, 1], speeds[count, 2] = x, y, z
                count += 1
    return NearContacts(which[:count], gaps[:count], arms[:count], speeds[:count], places[:count])


@kernel
def _begin_row(out: RowTable, i: int, owner: int, slot: int, bound: float, mu: float) -> None:
    out.b[i], out.owners[i], out.slots[i] = bound, owner, slot
    out.lower[i], out.upper[i], out.partners[i], out.grips[i] = 0.0, np.inf, -1, mu


@kernel
def slip_speed(
    angular: FloatArray, linear: FloatArray, j: int | IntArray, arm: FloatArray, n: FloatArray, velocity: FloatArray
) -> float:
    """Speed at which a point slides with a velocity."""
    x, y, z = point_velocity(angular, linear, j, arm, velocity)
    fall = n[0] * x + n[1] * y + n[2] * z
    return sqrt(max(0.0, x * x + y * y + z * z - fall * fall))


@kernel
def write_contact_rows(
    angular: FloatArray,
    linear: FloatArray,
    spheres: ContactSpheres,
    planes: PlaneArrays,
    near: NearContacts,
    memory: ContactMemory,
    velocity: FloatArray,
    dt: float,
) -> RowTable:
    """Rows of all near contacts.

    The rows of a cone alone would lift what slides by mu times its speed. A contact that slid before the step, at
    ``velocity``, and would slide on without friction keeps most of that slip for sure: that much is allowed for.
    """
    which, arms, speeds = near.which, near.arms, near.speeds
    most, d = which.shape[0] * SLOTS, angular.shape[2]
    whole, b, lower, upper = np.empty((3, most), dtype=np.int64), np.empty(most), np.empty(most), np.empty(most)
    J, directions = np.empty((most, d)), np.empty((most, 3))
    out = RowTable(J, b, lower, upper, directions, whole[0], whole[1], whole[2], np.empty(most))
    axes, pull, i = np.empty((2, 3)), np.empty(3), 0
    for c in range(which.shape[0]):
        p, s = which[c, 0], which[c, 1]
        n, mode, mu, gap, first = planes.normals[p], planes.modes[p], float(planes.frictions[p]), near.gaps[c], i
        # Normal row J v >= b: a gap may close, a penetration is repaired by a share, no faster than RECOVERY
        slot = (p * spheres.joints.shape[0] + s) * SLOTS
        fall = speeds[c, 0] * n[0] + speeds[c, 1] * n[1] + speeds[c, 2] * n[2]
        bound = -gap / dt if gap >= 0.0 else min(-planes.gammas[p] * gap / dt, RECOVERY)
        is_near = gap + dt * fall <= TOUCH_M or gap <= planes.reaches[p]
        touches = is_near and mode != FRICTIONLESS and mu > 0.0
        # Tangents along the slip, and the speed that pulls a standing corner back to its anchor
        u, v, w = speeds[c, 0] - fall * n[0], speeds[c, 1] - fall * n[1], speeds[c, 2] - fall * n[2]
        slip = sqrt(u * u + v * v + w * w)
        if slip > STANDING:
            axes[0, 0], axes[0, 1], axes[0, 2] = u / slip, v / slip, w / slip
        else:
            # A point that stands: fixed directions. Those of its tiny slip change from step to step, as would forces
            a, e, h = (1.0, 0.0, 0.0) if abs(n[0]) < 0.7 else (0.0, 0.0, 1.0)
            part = a * n[0] + e * n[1] + h * n[2]
            a, e, h = a - part * n[0], e - part * n[1], h - part * n[2]
            length = sqrt(a * a + e * e + h * h)
            axes[0, 0], axes[0, 1], axes[0, 2] = a / length, e / length, h / length
        # The second direction completes the frame: n x t
        t = axes[0]
        axes[1, 0] = n[1] * t[2] - n[2] * t[1]
        axes[1, 1] = n[2] * t[0] - n[0] * t[2]
        axes[1, 2] = n[0] * t[1] - n[1] * t[0]
        kept = 0.0
        for r in range(3):
            held = memory.anchored[p, s]
            pull[r] = planes.gammas[p] * (memory.anchors[p, s, r] - near.places[c, r]) / dt if held else 0.0
        if touches and mode == COULOMB:
            # Slip that no friction of this step can stop
            before = slip_speed(angular, linear, spheres.joints[s], arms[c], n, velocity)
            kept = max(0.0, min(slip, before) - SLIP_PART * mu * max(0.0, bound - fall))
        # Normal row alone: no friction yet, boxed friction, or a cone that allows for slip
        if not touches or mode != COULOMB or kept > 0.0:
            _begin_row(out, i, c, slot, bound, mu)
            out.directions[i] = n
            i += 1
        if touches and mode == COULOMB:
            # Facets of the cone of friction: directions n + mu (cos, sin) in the tangents
            sides = int(planes.facets[p])
            for f in range(sides):
                u, w = mu * cos(2.0 * pi * f / sides), mu * sin(2.0 * pi * f / sides)
                _begin_row(out, i, c, slot + 1 + f, bound - mu * kept, mu)
                for r in range(3):
                    side = u * axes[0, r] + w * axes[1, r]
                    out.directions[i, r] = n[r] + side
                    out.b[i] += side * pull[r]
                i += 1
        elif touches:
            # Two tangential rows with impulses up to `strongest`
            strongest = np.inf if mode == STICK else mu * float(memory.pushes[p, s])
            for f in range(2):
                towards = axes[f, 0] * pull[0] + axes[f, 1] * pull[1] + axes[f, 2] * pull[2]
                _begin_row(out, i, c, slot + 1 + f, towards, mu)
                out.directions[i] = axes[f]
                out.lower[i], out.upper[i] = -strongest, strongest
                i += 1
            if mode == STAGGERED:
                out.partners[first + 1 : i] = first
        for k in range(first, i):
            # Row of direction u at the point: u^T (J_linear + J_angular x arm)
            j, arm, row = spheres.joints[s], arms[c], out.J[k]
            x, y, z = out.directions[k, 0], out.directions[k, 1], out.directions[k, 2]
            about_x, about_y, about_z = arm[1] * z - arm[2] * y, arm[2] * x - arm[0] * z, arm[0] * y - arm[1] * x
            for m in range(row.shape[0]):
                row[m] = x * linear[j, 0, m] + y * linear[j, 1, m] + z * linear[j, 2, m]
                row[m] += about_x * angular[j, 0, m] + about_y * angular[j, 1, m] + about_z * angular[j, 2, m]
    b, lower, upper, directions, whole = b[:i], lower[:i], upper[:i], directions[:i], whole[:, :i]
    return RowTable(out.J[:i], b, lower, upper, directions, whole[0], whole[1], whole[2], out.grips[:i])


@kernel
def list_contact_rows(
    segments: SegmentMotion,
    spheres: ContactSpheres,
    planes: PlaneArrays,
    memory: ContactMemory,
    expected: FloatArray,
    velocity: FloatArray,
    dt: float,
) -> tuple[NearContacts, RowTable]:
    """Contacts that a step of the ``expected`` velocity might make, and their rows."""
    frames, joints, angular, linear = segments
    near = find_near_contacts(frames, joints, angular, linear, spheres, planes, expected, dt)
    return near, write_contact_rows(angular, linear, spheres, planes, near, memory, velocity, dt)


@kernel
def conclude_contacts(
    segments: SegmentMotion,
    spheres: ContactSpheres,
    planes: PlaneArrays,
    near: NearContacts,
    rows: RowImpulses,
    velocity: FloatArray,
    memory: ContactMemory,
) -> tuple[FloatArray, ContactMemory]:
    """Impulses ``(C, 3)`` of contacts from the multipliers of their rows, and what the next step has to know.

    That is the anchors of the corners that stand, and the normal impulses of all contacts.
    """
    which, arms, places = near.which, near.arms, near.places
    directions, owners, multipliers = rows
    impulses = np.zeros((which.shape[0], 3))
    for i in range(owners.shape[0]):
        c = owners[i]
        if c >= 0 and multipliers[i] != 0.0:
            for r in range(3):
                impulses[c, r] += multipliers[i] * directions[i, r]
    anchors, held = memory.anchors.copy(), np.zeros(memory.anchored.shape, dtype=np.bool_)
    pushes = np.zeros(memory.anchored.shape)
    for c in range(which.shape[0]):
        p, s = which[c, 0], which[c, 1]
        n = planes.normals[p]
        # Normal impulse: the bound of staggered friction in the next step
        push = impulses[c, 0] * n[0] + impulses[c, 1] * n[1] + impulses[c, 2] * n[2]
        pushes[p, s] = max(0.0, push)
        # Only corners that press and do not slide stand
        if push <= 0.0 or spheres.radii[s] > 0.0:
            continue
        if slip_speed(segments.angular, segments.linear, spheres.joints[s], arms[c], n, velocity) > SLIDING:
            continue
        # A corner that stands keeps its anchor unless it has been carried far from it
        away = 0.0
        for r in range(3):
            away += (places[c, r] - anchors[p, s, r]) ** 2
        held[p, s] = True
        if not memory.anchored[p, s] or away > FAR_M * FAR_M:
            anchors[p, s] = places[c]
    return impulses, ContactMemory(anchors, held, pushes)
