"""Wrench limits of the contacts of a phase: linear rows at the support, and one quadratic row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.numerics import convex_hull
from marey.spacetime.problem.definition import Contact, ProblemPhase, SpacetimeProblem

CONE_SIDES: Final = 8  # of the pyramid inside the friction cone
PRESSURE: Final = "pressure inside the support"
TWIST: Final = "twist about the normal"
CONE_SMOOTHING: Final = 1e-2  # [mg] rounds the tip of the friction cone, where its gradient jumps


@dataclass(frozen=True, slots=True, eq=False)
class PhaseSupport:
    """Limits of the wrench about ``centre``, all in body weights [mg] and [mg m].

    ``lower <= matrix @ (f, n) <= upper`` and one round row: the friction cone of a foot, the strength of a grip.
    """

    centre: FloatArray  # (3,) [m]
    normal: FloatArray  # (3,)
    matrix: FloatArray  # (R, 6)
    lower: FloatArray  # (R,)
    upper: FloatArray  # (R,)
    labels: tuple[str, ...]  # (R,)
    hull: FloatArray  # (E, 3) corners of the support polygon relative to the centre [m]; empty for a grip
    friction: float | None  # None: a grip
    max_force: float  # [mg]

    def round_row(self, force: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Value ``(n,)`` that must be at least 0, and its gradient ``(n, 3)``, at forces ``(n, 3)`` [mg].

        A foot: :math:`\mu f_n - \sqrt{|f_t|^2 + \epsilon^2} + \epsilon`; a grip: :math:`(K^2 - |f|^2) / 2K`.
        """
        if self.friction is None:
            value = 0.5 * (self.max_force - np.einsum("ni,ni->n", force, force) / self.max_force)
            return value, -force / self.max_force
        along = force @ self.normal
        tangent = force - along[:, None] * self.normal
        length = np.sqrt(np.einsum("ni,ni->n", tangent, tangent) + CONE_SMOOTHING**2)
        value = self.friction * along - length + CONE_SMOOTHING
        return value, self.friction * self.normal - tangent / length[:, None]


def is_shared(problem: SpacetimeProblem, number: int) -> bool:
    """Whether contacts of a phase share its wrench in a way that one set of rows cannot say.

    One contact has rows of its own, feet on one plane those of their hull; of others each has its own wrench. So it has
    where torques are limited: they depend on what each contact bears.
    """
    phase = problem.phases[number]
    if len(phase.contacts) < 2 or problem.has_torque_limits:
        return len(phase.contacts) > 1
    first = phase.contacts[0]
    is_level = all(
        c.kind == "foot"
        and np.allclose(c.normal, first.normal, atol=1e-9)
        and abs(float(np.subtract(c.position, first.position) @ np.asarray(first.normal))) < 1e-6
        for c in phase.contacts
    )
    return not is_level


def build_support(phase: ProblemPhase, margin_m: float = 0.0) -> PhaseSupport:
    """Limits of a phase with contacts (rows C1-C5 of [Fang2003]_ §4.2.3); coplanar feet share their hull.

    ``margin_m`` is taken off the sides of the feet: what holds at frames with it holds between them without it.
    """
    kinds = {contact.kind for contact in phase.contacts}
    if kinds == {"foot"}:
        return _foot_support(phase.contacts, phase.name, margin_m)
    if kinds != {"grip"} or len(phase.contacts) != 1:
        raise InputError(
            f"phase '{phase.name}' mixes {len(phase.contacts)} contacts of kinds {', '.join(sorted(kinds))}",
            "One set of rows is for one grip, or for feet on one plane; the others have a wrench each",
        )
    # A grip bears any force up to its strength, and small moments about every axis
    contact = phase.contacts[0]
    matrix = np.concatenate([np.zeros((3, 3)), np.eye(3)], axis=1)
    limit = np.full(3, contact.twist_m)
    labels = ("moment about x", "moment about y", "moment about z")
    centre, normal = np.asarray(contact.position, dtype=np.float64), contact_frame(contact)[0]
    return PhaseSupport(centre, normal, matrix, -limit, limit, labels, np.zeros((0, 3)), None, contact.max_force)


def contact_frame(contact: Contact) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit normal, direction of the heading and across it, right-handed."""
    normal = np.asarray(contact.normal, dtype=np.float64)
    ahead = np.array([0.0, 0.0, 1.0]) if abs(normal[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
    # Heading 0 is +Z, or +Y on a wall that faces it, across the normal
    ahead = ahead - normal * float(normal @ ahead)
    ahead = ahead / float(np.linalg.norm(ahead))
    across: FloatArray = np.cross(normal, ahead)
    turn = np.deg2rad(contact.heading_deg)
    along: FloatArray = np.cos(turn) * ahead + np.sin(turn) * across
    side: FloatArray = np.cross(normal, along)
    return normal, along, side


def sole_corners(contact: Contact, margin_m: float = 0.0) -> FloatArray:
    """Corners ``(4, 3)`` [m] of a sole in world, smaller by a margin on all sides."""
    _, ahead, aside = contact_frame(contact)
    signs = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], dtype=np.float64)
    length, width = (max(side - margin_m, 0.1 * side) for side in contact.half_extents_m)
    return signs[:, :1] * length * ahead + signs[:, 1:] * width * aside + np.asarray(contact.position)


def _foot_support(contacts: tuple[Contact, ...], phase: str, margin_m: float) -> PhaseSupport:
    r"""Rows of feet: normal force, an edge of the hull each, the pyramid of friction, the twist to both sides.

    A force at the point :math:`p` of the plane has the moment :math:`n = p \times f`. The point is on the inner side
    of the edge from :math:`a` along :math:`e` (counter-clockwise about :math:`N`) where
    :math:`N \cdot (e \times (p - a)) \ge 0`, hence :math:`e \cdot n - e \cdot (a \times N) f_n \ge 0`: nothing is
    divided by the force.
    """
    normal, along, across = contact_frame(contacts[0])
    centre = np.asarray(contacts[0].position, dtype=np.float64)
    corners = np.concatenate([sole_corners(contact, margin_m) for contact in contacts]) - centre
    height = np.abs(corners @ normal).max()
    if height > 1e-6:
        raise InputError(
            f"the contacts of phase '{phase}' are not on one plane, {1e3 * height:.1f} mm apart",
            "Give them one height and one normal, or split the phase",
        )
    # Corners of the hull in the plane, those that rounding splits taken as one
    flat = zip((corners @ along).tolist(), (corners @ across).tolist(), strict=True)
    ordered = sorted({(round(x, 12), round(y, 12)) for x, y in flat})
    if len(ordered) < 3:
        raise InputError("a support without area", "Give half extents above 0")
    hull = convex_hull(np.array(ordered))
    points = hull[:, :1] * along + hull[:, 1:] * across
    twist_m, cap = max(c.twist_m for c in contacts), sum(c.max_force for c in contacts)
    friction = min(c.friction for c in contacts)
    rows, labels = [np.concatenate([normal, np.zeros(3)])], ["normal force"]
    for start, end in zip(points, np.roll(points, -1, axis=0), strict=True):
        edge = (end - start) / np.linalg.norm(end - start)
        rows.append(np.concatenate([-(edge @ np.cross(start, normal)) * normal, edge]))
        labels.append(PRESSURE)
    for angle in np.arange(CONE_SIDES) * 2.0 * np.pi / CONE_SIDES:
        side = np.cos(angle) * along + np.sin(angle) * across
        rows.append(np.concatenate([friction * np.cos(np.pi / CONE_SIDES) * normal - side, np.zeros(3)]))
        labels.append("friction cone")
    for sign in (1.0, -1.0):
        rows.append(np.concatenate([twist_m * normal, sign * normal]))
        labels.append(TWIST)
    lower, upper = np.zeros(len(rows)), np.full(len(rows), np.inf)
    upper[0] = cap
    return PhaseSupport(centre, normal, np.array(rows), lower, upper, tuple(labels), points, friction, cap)
