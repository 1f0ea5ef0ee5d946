r"""Compiled rows of contacts with planes.

A row in the direction u at a point P is :math:`u^T J_P = u^T J_{joint} + (a \times u)^T J_\omega`, with a the arm from
the joint to the point. [Tournier2011]_ §10.3.
"""

from __future__ import annotations

from math import cos, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.simulate.constraints.ground import ContactSpheres, PlaneArrays
from marey.simulate.solver.constrained_step import ContactMemory, RowTable

FRICTIONLESS, STICK, COULOMB, STAGGERED = 0, 1, 2, 3
SLOTS = 9  # rows that a contact can have: normal and up to eight facets, or two tangents
NEAR_M = 0.02  # [m] points nearer than this get a row, and those that could come to the ground within the step
TOUCH_M = 1e-3  # [m] points that would come so near touch: they have friction
RECOVERY = 0.5  # [m/s] a penetration is left at this speed at most
SLIP_PART = 2.0  # [-] friction takes about mu times the normal speed that a contact stops; so much is surely enough
SLIDING = 0.02  # [m/s] a contact that slides faster has no anchor
FAR_M = 0.02  # [m] an anchor that is farther away is lost


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
        touches = gap + dt * fall <= TOUCH_M and mode != FRICTIONLESS and mu > 0.0
        # Tangents along the slip, and the speed that pulls a standing corner back to its anchor
        u, v, w = speeds[c, 0] - fall * n[0], speeds[c, 1] - fall * n[1], speeds[c, 2] - fall * n[2]
        slip = sqrt(u * u + v * v + w * w)
        if slip > 1e-6:
            axes[0, 0], axes[0, 1], axes[0, 2] = u / slip, v / slip, w / slip
        else:
            # A point at rest: any direction in the plane
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
def contact_impulses(directions: FloatArray, owners: IntArray, multipliers: FloatArray, count: int) -> FloatArray:
    """Impulses ``(C, 3)`` of contacts from the multipliers of their rows."""
    out = np.zeros((count, 3))
    for i in range(owners.shape[0]):
        c = owners[i]
        if c >= 0 and multipliers[i] != 0.0:
            for r in range(3):
                out[c, r] += multipliers[i] * directions[i, r]
    return out


@kernel
def update_contact_memory(
    angular: FloatArray,
    linear: FloatArray,
    spheres: ContactSpheres,
    planes: PlaneArrays,
    near: NearContacts,
    impulses: FloatArray,
    velocity: FloatArray,
    memory: ContactMemory,
) -> ContactMemory:
    """Anchors of the corners that stand, and normal impulses of all contacts, for the next step."""
    which, arms, places = near.which, near.arms, near.places
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
        if slip_speed(angular, linear, spheres.joints[s], arms[c], n, velocity) > SLIDING:
            continue
        # A corner that stands keeps its anchor unless it has been carried far from it
        away = 0.0
        for r in range(3):
            away += (places[c, r] - anchors[p, s, r]) ** 2
        held[p, s] = True
        if not memory.anchored[p, s] or away > FAR_M * FAR_M:
            anchors[p, s] = places[c]
    return ContactMemory(anchors, held, pushes)
