"""What contacts and joints can give: wrench limits of a phase, forces of contacts along a motion, and torque limits.

The table is in units of body weight times stature, so that it fits bodies of every size. Coordinates follow the house's
signs: hips extend, knees and elbows bend, ankles point and the trunk bends forwards with positive angles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.dynamics import GRAVITY, JointTree, compute_point_positions, compute_torques
from marey.dynamics.contact_cones import compute_friction_edges, fit_moving_cones
from marey.motion import standing_height
from marey.numerics import convex_hull, solve_qp
from marey.skeleton import role_map
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


MIN_LOAD: Final = 0.2  # [mg] normal force above which the pressure point counts
CONE_EDGES: Final = 8  # of the pyramid about the friction cone of a corner; the round one is measured as a whole
LEVEL_M: Final = 0.01  # [m] points this near to one plane have a common centre of pressure
FACE_SCALE: Final = 2.0  # rows of faces are twice as strict
MOMENT_COST: Final = 1e-3  # of the moments of grips in the split: the forces of contacts come first
EXACT_TOL: Final = 1e-4  # [mg] corners that give a wrench to this have the pressure between them
PUSH_COST: Final = 1e-4  # of the forces of grips: no larger than needed


@dataclass(frozen=True, slots=True, eq=False)
class SolutionTrack:
    """A motion on a dense grid; instants on a border appear once for each side."""

    times: FloatArray  # (T,) [s]
    phases: IntArray  # (T,)
    q: FloatArray  # (T, dofs)
    qd: FloatArray
    qdd: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SupplyPoints:
    """Points at which the surroundings can push, at every sample."""

    places: FloatArray  # (T, P, 3) [m]
    active: BoolArray  # (T, P)
    normals: FloatArray  # (T, P, 3) unit
    friction: FloatArray  # (T, P); infinite for a grip, which pushes and pulls along every axis
    strength: FloatArray  # (T, P) [mg] largest force of a grip, largest normal force of the sole of a corner
    twist: FloatArray  # (T, P) [mg m] largest moment of a grip about each axis
    drift: FloatArray  # (T,) [m] of the points of the body from their plants
    links: IntArray  # (T, P) coordinate whose link each pushes


def find_contact_points(tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack) -> SupplyPoints:
    """Corners of soles and middles of grips of a problem, at every sample of a motion."""
    count, most = len(track.times), max((4 * len(phase.contacts) for phase in problem.phases), default=0)
    flat = [np.zeros((count, most)) for _ in range(4)]
    active, friction, strength, twist = flat[0] > 0.0, flat[1], flat[2], flat[3]
    links = np.zeros((count, most), dtype=np.int64)
    places, normals, drift = np.zeros((count, most, 3)), np.zeros((count, most, 3)), np.zeros(count)
    for p, phase in enumerate(problem.phases):
        own = np.flatnonzero(track.phases == p)
        for k, contact in enumerate(phase.contacts if len(own) else ()):
            link, place = tree.points[contact.point]
            at = compute_point_positions(tree, track.q[own], [link], [place])[:, 0]
            drift[own] = np.maximum(drift[own], np.linalg.norm(at - np.asarray(contact.position), axis=1))
            # The corners of a sole, or the middle of a grip
            is_grip = contact.kind == "grip"
            corners = np.asarray(contact.position)[None] if is_grip else sole_corners(contact)
            columns = np.arange(4 * k, 4 * k + len(corners))
            block = np.ix_(own, columns)
            places[block], normals[block], active[block] = corners, contact_frame(contact)[0], True
            friction[block] = np.inf if is_grip else contact.friction
            strength[block], twist[block] = contact.max_force, contact.twist_m
            links[block] = link
    return SupplyPoints(places, active, normals, friction, strength, twist, drift, links)


def measure_supply(
    wrench: FloatArray, points: SupplyPoints, is_held: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    r"""What contacts cannot give of wrenches about the world's origin ``(T, 6)`` [mg, mg m].

    Forces at the active points are sums of generators, the edges of friction cones or all directions of a grip, with
    weights :math:`\lambda \ge 0` that bring :math:`G\lambda` nearest to the wrench about the middle of the points.

    Returns:
        what is missing ``(T, 6)``, sideways force beyond friction or force beyond a grip ``(T,)``, distance of the
        pressure point outside the hull ``(T,)`` [m], and normal force ``(T,)``, infinite without feet on one plane.
    """
    count = len(wrench)
    missing, cone, cop, least = np.zeros((count, 6)), np.zeros(count), np.zeros(count), np.full(count, np.inf)
    active = points.active & is_held[:, None]
    alone = is_held & ~active.any(axis=1)
    missing[alone] = wrench[alone]
    # Moments about the middle of what touches
    shares = active / np.maximum(active.sum(axis=1, keepdims=True), 1)
    middles = np.einsum("tp,tpi->ti", shares, points.places)
    demands = np.concatenate([wrench[:, :3], wrench[:, 3:] - np.cross(middles, wrench[:, :3])], axis=1)
    arms = points.places - middles[:, None]
    # Samples whose points have one normal and one friction go together; the others one by one
    first = np.argmax(active, axis=1)
    own = np.arange(count)
    normal, friction = points.normals[own, first], points.friction[own, first]
    is_same = (np.abs(points.normals - normal[:, None]).max(axis=2) < 1e-6) & (points.friction == friction[:, None])
    is_plain = (is_same | ~active).all(axis=1) & np.isfinite(friction) & active.any(axis=1)
    kinds = np.unique(np.column_stack([normal, friction])[is_plain], axis=0)
    for kind in kinds:
        at = np.flatnonzero(is_plain & (np.column_stack([normal, friction]) == kind).all(axis=1))
        up, mu = kind[:3], float(kind[3])
        x = np.cross(up, [1.0, 0.0, 0.0] if abs(up[0]) < 0.7 else [0.0, 1.0, 0.0])
        axes = np.stack([x / np.linalg.norm(x), np.cross(up, x / np.linalg.norm(x))])
        no_grips = np.zeros(active[at].shape, dtype=np.bool_)
        edges = compute_friction_edges(up, mu / np.cos(np.pi / CONE_EDGES), CONE_EDGES)
        given, _ = fit_moving_cones(demands[at], arms[at], active[at], no_grips, edges, 1.0)
        missing[at] = demands[at] - given
        # On one plane: friction of the whole, and the pressure point where the corners do not give the moment
        is_level = np.where(active[at], np.abs(arms[at] @ up), 0.0).max(axis=1) < LEVEL_M
        load = wrench[at, :3] @ up
        least[at[is_level]] = load[is_level]
        sideways = np.linalg.norm(wrench[at, :3] - load[:, None] * up, axis=1)
        cone[at] = np.where(is_level, np.maximum(sideways - mu * load.clip(0.0), 0.0), 0.0)
        for k in np.flatnonzero(is_level & (load > MIN_LOAD) & (np.abs(missing[at]).max(axis=1) > EXACT_TOL)):
            corners: FloatArray = arms[at[k], active[at[k]]] @ axes.T
            hull = convex_hull(np.round(corners, 9))
            cop[at[k]] = _outside_hull(axes @ np.cross(up, demands[at[k], 3:]) / load[k], hull)
    for t in np.flatnonzero(active.any(axis=1) & ~is_plain):
        missing[t], cone[t] = _split_wrench(demands[t], arms[t], points, np.flatnonzero(active[t]), int(t))
    return missing, cone, cop, least


def _split_wrench(
    demand: FloatArray, arms: FloatArray, points: SupplyPoints, own: IntArray, t: int
) -> tuple[FloatArray, float]:
    """What contacts of several kinds leave of a wrench ``(6,)``, and the force beyond the strength of a grip [mg]."""
    from scipy.optimize import lsq_linear, nnls

    is_grip = np.isinf(points.friction[t, own])
    G, price, _ = build_generators(arms, points, own, t)
    # Grips take what the others leave: internal forces have no need
    extra = np.diag(price)[price > 0.0]
    weights = nnls(np.concatenate([G, extra]), np.concatenate([demand, np.zeros(len(extra))]))[0]
    # What a hand can turn is limited: weights between ends, where the free ones pass them
    ends = np.where(price == MOMENT_COST, points.twist[t, own].min(), np.inf)
    if (weights > ends).any():
        weights = lsq_linear(G, demand, (np.zeros(len(ends)), ends), method="bvls").x
    start, over = 0, 0.0
    for k, holds in zip(own, is_grip, strict=True):
        if holds:
            push = weights[start : start + 3] - weights[start + 3 : start + 6]
            over = max(over, float(np.linalg.norm(push)) - float(points.strength[t, k]))
        start += 12 if holds else CONE_EDGES
    return demand - G @ weights, over


def build_generators(
    arms: FloatArray, points: SupplyPoints, own: IntArray, t: int, num_edges: int = CONE_EDGES
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Wrenches ``(6, n)`` that points give at a sample, the price of each ``(n,)``, and its point ``(n,)``.

    A corner of a sole has the edges of its friction cone, a grip both ways along every axis and turn. ``arms (P, 3)``
    are the places of the points.
    """
    angles = 2.0 * np.pi * np.arange(num_edges) / num_edges
    columns, costs, owners = list[FloatArray](), list[float](), list[int]()
    for k in own.tolist():
        if np.isinf(points.friction[t, k]):
            push = np.concatenate([np.eye(3), -np.eye(3)])
            turn = np.concatenate([np.zeros((6, 3)), push], axis=1)
            costs += [PUSH_COST] * 6 + [MOMENT_COST] * 6
        else:
            up, mu = points.normals[t, k], points.friction[t, k] / np.cos(np.pi / num_edges)
            x = np.cross(up, [1.0, 0.0, 0.0] if abs(up[0]) < 0.7 else [0.0, 1.0, 0.0])
            x = x / np.linalg.norm(x)
            push = up + mu * (np.outer(np.cos(angles), x) + np.outer(np.sin(angles), np.cross(up, x)))
            turn = np.zeros((0, 6))
            costs += [0.0] * num_edges
        columns += [np.concatenate([push, np.cross(arms[k], push)], axis=1), turn]
        owners += [k] * (len(push) + len(turn))
    return np.concatenate(columns).T, np.array(costs), np.array(owners, dtype=np.int64)


def separating_face(points: SupplyPoints, missing: FloatArray, n: int) -> tuple[float, ...]:
    r"""The face of the cone of the contacts at a sample that separates it from the wrench there: a row (6,).

    The part :math:`r` of a wrench that no sum of generators gives has :math:`r^T g \le 0` for each of them and
    :math:`r^T w > 0`, so that :math:`-r^T w \ge 0` is a row that every wrench of the support keeps.
    """
    middle, r = points.places[n, points.active[n]].mean(axis=0), missing[n] / np.linalg.norm(missing[n])
    # About the world's origin: r . (m - o x f) = r . m - (r x o) . f
    row = -np.concatenate([r[:3] - np.cross(r[3:], middle), r[3:]])
    return tuple((FACE_SCALE * row).tolist())


def _outside_hull(place: FloatArray, hull: FloatArray) -> float:
    """Distance [m] of a place ``(2,)`` outside a hull ``(h, 2)`` in a plane."""
    edges, off = np.roll(hull, -1, axis=0) - hull, place - hull
    inner = edges[:, 0] * off[:, 1] - edges[:, 1] * off[:, 0]
    if len(hull) > 2 and ((inner >= 0.0).all() or (inner <= 0.0).all()):
        return 0.0
    share = np.clip((off * edges).sum(axis=1) / np.maximum((edges * edges).sum(axis=1), 1e-18), 0.0, 1.0)
    return float(np.linalg.norm(off - share[:, None] * edges, axis=1).min())


MEN_NM: Final = 75.0 * GRAVITY * 1.75  # [N m] weight times stature of a man for whom [Harbo2012]_ is evaluated
ATHLETE_NM: Final = 69.6 * GRAVITY * 1.732  # [N m] of the gymnast of [Millard2018]_

# Part of the body and axis ("" is a hinge): lowest and highest torque over weight times stature. Legs: men of 18 to 25
# years, C1 of table 3 of [Anderson2007]_. Elbows, and arms to the side (adduction, which is more than abduction, both
# ways): regressions of [Harbo2012]_ at 25 years; extension and adduction were measured in motion only. Arms fore and
# aft, trunk: isometric maxima of the whole-body table of [Millard2018]_, a trained man's, at the best angle, so that
# these are wide. What the sources do not measure (turns about long axes, bending of trunk, hips and ankles to the side,
# wrists, neck) has no limit.
ISOMETRIC_MAXIMA: Final[dict[tuple[str, str], tuple[float, float]]] = {
    ("hip", "rx"): (-0.113, 0.161),
    ("knee", ""): (-0.163, 0.087),
    ("ankle", "rx"): (-0.033, 0.095),
    ("elbow", ""): (-46.4 / MEN_NM, 49.7 / MEN_NM),
    ("shoulder", "rx"): (-91.1 / ATHLETE_NM, 127.4 / ATHLETE_NM),
    ("shoulder", "rz"): (-80.1 / MEN_NM, 80.1 / MEN_NM),
    **{(f"spine{i}", "rx"): (-687.9 / ATHLETE_NM, 211.7 / ATHLETE_NM) for i in (1, 2, 3)},
}


class TorqueLimits(NamedTuple):
    """Coordinates whose torque is limited."""

    dofs: IntArray  # (L,) of the tree
    lower: FloatArray  # (L,) [N m] at most 0
    upper: FloatArray  # (L,) at least 0


def build_torque_limits(tree: JointTree, problem: SpacetimeProblem) -> TorqueLimits:
    """Limits of the torques of a body: the table times ``strength``, and in its place what the problem names.

    Raises:
        UnknownNameError: the problem limits a coordinate that the body does not have.
    """
    found: dict[int, tuple[float, float]] = {}
    if problem.strength is not None:
        roles = {tree.skeleton.names[joint]: role for role, joint in role_map(tree.skeleton).joints.items()}
        unit = problem.strength * tree.mass * GRAVITY * standing_height(tree.skeleton)
        # In the planar character both limbs are one link, with the strength of both
        unit *= 2.0 if "hip" in tree.groups else 1.0
        for i, (name, group) in enumerate(zip(tree.names, tree.groups, strict=True)):
            part = roles.get(group, group).removeprefix("left_").removeprefix("right_")
            axis = name.removeprefix(group).removeprefix("_")
            known = ISOMETRIC_MAXIMA.get((part, axis)) or (None if axis else ISOMETRIC_MAXIMA.get((part, "rx")))
            if known is not None:
                found[i] = unit * known[0], unit * known[1]
    found |= {tree.index(name): (ends[0], ends[1]) for name, ends in problem.torque_limits.items()}
    dofs = np.array(sorted(found), dtype=np.int64)
    lower, upper = np.array([found[int(i)] for i in dofs], dtype=np.float64).reshape(-1, 2).T
    return TorqueLimits(dofs, lower, upper)


LOAD_CONE_EDGES: Final = 4  # of the pyramid about a corner's friction cone: the split of loads needs no more
WEIGHT_COST: Final = 1e-6  # of the weights of generators [mg], against the excess of torques
MISS_COST: Final = 1e9  # of what is missing of the wrench [mg], which the check counts elsewhere


def measure_torque_excess(
    tree: JointTree,
    limits: TorqueLimits,
    track: SolutionTrack,
    points: SupplyPoints,
    *,
    wrench: FloatArray,
    gravity: float,
) -> FloatArray:
    r"""How far torques pass their limits ``(T, L)``, over these, if contacts share their load as well as they can.

    .. math:: \tau = \tau_0(q, \dot q, \ddot q) - \sum_k \lambda_k J_k^T g_k,\quad \sum_k \lambda_k g_k = w,\quad
        \lambda_k \ge 0

    with weights of the generators of contacts that pass the limits by the least sum of squares.

    Args:
        tree: the character.
        limits: of its torques.
        track: the motion.
        points: what can push at every sample.
        wrench: what the contacts give together ``(T, 6)`` [mg, mg m], about the world's origin.
        gravity: [m/s^2] along -Y.
    """
    dofs, weight, count = limits.dofs, tree.mass * GRAVITY, len(limits.dofs)
    if not count:
        return np.zeros((len(track.times), 0))
    torques = compute_torques(tree, track.q, track.qd, track.qdd, gravity=gravity)[:, dofs]
    # Axes and origins of the limited coordinates in the world, and the links that they carry
    places = np.concatenate([np.zeros((count, 3)), tree.axes[dofs]])
    at = compute_point_positions(tree, track.q, np.tile(dofs, 2), places)
    origins, axes = at[:, :count], at[:, count:] - at[:, :count]
    carries = np.zeros((count, tree.num_dofs))
    for row, dof in enumerate(dofs.tolist()):
        carries[row, tree.subtree(dof)] = 1.0
    unit = 0.5 * (limits.upper - limits.lower)
    for t in np.flatnonzero(points.active.any(axis=1)).tolist():
        own = np.flatnonzero(points.active[t])
        G, price, owners = build_generators(points.places[t], points, own, t, LOAD_CONE_EDGES)
        # s . (n - o x f): what each generator does along each coordinate that carries its link
        by_weight = (axes[t] @ G[3:] - np.cross(axes[t], origins[t]) @ G[:3]) * carries[:, points.links[t, owners]]
        # Unknowns: weights of generators [mg], excess of torques over the limits, what is missing of the wrench
        n = G.shape[1]
        H = np.diag(np.repeat([WEIGHT_COST, 1.0, MISS_COST], [n, count, 6]))
        A = np.zeros((6 + count, n + count + 6))
        A[:6, :n], A[:6, n + count :] = G, np.eye(6)
        A[6:, :n], A[6:, n : n + count] = weight * by_weight / unit[:, None], np.eye(count)
        low = np.concatenate([wrench[t], (torques[t] - limits.upper) / unit])
        high = np.concatenate([wrench[t], (torques[t] - limits.lower) / unit])
        most = points.strength[t, owners].copy()
        most[price == MOMENT_COST] = points.twist[t, owners][price == MOMENT_COST]
        ends = np.full(count + 6, np.inf)
        bounds = np.concatenate([np.zeros(n), -ends]), np.concatenate([most, ends])
        answer = solve_qp(H, np.zeros(n + count + 6), A, low, high, bounds=bounds)
        torques[t] -= weight * by_weight @ answer.x[:n]
    return np.maximum(limits.lower - torques, torques - limits.upper).clip(0.0) / unit
