"""What planted feet can supply at a node, and how two feet share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.numerics import smoothstep
from marey.spacetime._limbs import Leg, compute_sole_centre
from marey.spacetime._problem import Contact
from marey.spacetime._reduced_layout import ReducedLayout
from marey.spacetime._reduced_nodes import FREE, ON_HEEL, ON_TOES, CollocationNodes

HEEL_STRIP_M: Final = 0.04  # [m] length of the sole that bears while the foot rolls on its heel
PRESSURE_SCALE: Final = 4.0  # rows of the centre of pressure are four times as strict, twists twice
TWIST_SCALE: Final = 2.0
MAX_ROWS: Final = 20  # normal force, 4 of friction, 2 of twist, edges of the hull of two soles at most 8


@dataclass(frozen=True, slots=True)
class NormalForceLimits:
    """Bounds of the force along the normal, in body weights."""

    push: float = 3.0  # while the foot's stance ends in a flight
    land: float = 5.0  # after a landing
    lift_off: float = 0.2  # at the instant of leaving the ground
    touch_down: float = 2.0  # at the instant of landing
    margin_m: float = 0.01  # the polygon is this much smaller than the soles
    twist_m: float = 0.15  # moment about the vertical over the normal force of two feet; a third of it for one


@dataclass(frozen=True, slots=True, eq=False)
class NodeSupports:
    """Linear rows ``lower <= rows @ (f, m) <= upper`` of the wrench about the world's origin over the body weight."""

    matrix: FloatArray  # (N, R, 6)
    lower: FloatArray  # (N, R)
    upper: FloatArray  # (N, R)
    count: IntArray  # (N,) how many of the R rows are used
    shares: FloatArray  # (N, 2, 6, 6) wrench of the left and of the right foot from the whole


def build_supports(
    layout: ReducedLayout, nodes: CollocationNodes, legs: tuple[Leg, Leg], limits: NormalForceLimits
) -> NodeSupports:
    """Friction, pressure and force limits at every node; empty in flight."""
    matrix = np.zeros((nodes.count, MAX_ROWS, 6))
    lower, upper = np.full((nodes.count, MAX_ROWS), -np.inf), np.full((nodes.count, MAX_ROWS), np.inf)
    count, shares = np.zeros(nodes.count, dtype=np.int64), np.zeros((nodes.count, 2, 6, 6))
    known: dict[tuple[int, int, int], tuple[FloatArray, FloatArray, FloatArray]] = {}
    for n in np.flatnonzero(~nodes.is_flight):
        phase, left, right = int(nodes.phases[n]), int(nodes.feet[n, 0]), int(nodes.feet[n, 1])
        planted = [(leg, state) for leg, state in ((0, left), (1, right)) if state != FREE]
        contacts = [_find_contact(layout, leg, phase) for leg, _ in planted]
        if (phase, left, right) not in known:
            soles = [_sole_outline(legs[leg], c, state) for (leg, state), c in zip(planted, contacts, strict=True)]
            known[phase, left, right] = _support_rows(np.concatenate(soles), contacts, limits)
        rows, low, high = known[phase, left, right]
        k = len(rows)
        matrix[n, :k], lower[n, :k], upper[n, :k], count[n] = rows, low, high, k
        upper[n, 0] = _max_normal_force(layout, nodes, int(n), limits, contacts)
        shares[n] = _split_matrices(layout, nodes, int(n), legs)
    return NodeSupports(matrix, lower, upper, count, shares)


def compute_sole_corners(leg: Leg, contact: Contact, state: int) -> FloatArray:
    """Corners ``(4, 3)`` [m] of the bearing part of a planted sole, in world."""
    return _sole_outline(leg, contact, state)


def _find_contact(layout: ReducedLayout, leg: int, phase: int) -> Contact:
    contact = layout.interval_of(leg, phase).contact
    assert contact is not None
    return contact


def _sole_outline(leg: Leg, contact: Contact, state: int) -> FloatArray:
    centre = compute_sole_centre(leg)
    back, front = leg.heel[2] - centre[2], leg.tip[2] - centre[2]
    if state == ON_TOES:
        back = leg.ball[2] - centre[2]
    elif state == ON_HEEL:
        front = back + HEEL_STRIP_M
    turn = np.deg2rad(contact.heading_deg)
    along, across = np.array([np.sin(turn), 0.0, np.cos(turn)]), np.array([np.cos(turn), 0.0, -np.sin(turn)])
    half = leg.half_width
    points = [along * z + across * x for z in (back, front) for x in (-half, half)]
    return np.asarray(contact.position) + np.array(points)


def _max_normal_force(
    layout: ReducedLayout, nodes: CollocationNodes, n: int, limits: NormalForceLimits, contacts: list[Contact]
) -> float:
    """Largest normal force [mg] at a node: small where the body leaves the ground, limited where it lands."""
    phase, time = int(nodes.phases[n]), nodes.times[n]
    after = phase + 1 < layout.num_phases and layout.is_flight(phase + 1)
    before = phase > 0 and layout.is_flight(phase - 1)
    if after and abs(time - layout.edges[phase + 1]) < 1e-9:
        return limits.lift_off
    if before and abs(time - layout.edges[phase]) < 1e-9:
        return limits.touch_down
    landed = before and time < 0.5 * (layout.edges[phase] + layout.edges[phase + 1])
    cap = limits.land if landed or not after else limits.push
    return min(cap, sum(contact.max_force for contact in contacts))


def _support_rows(
    corners: FloatArray, contacts: list[Contact], limits: NormalForceLimits
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Rows for a support near the level of its corners.

    About :math:`o`: :math:`0 \le f_y \le f_{max}`, :math:`|f_{x,z}| \le \mu f_y/\sqrt2`, the twist
    :math:`|m_y| \le c f_y`, and :math:`e \cdot m_o - e \cdot (a \times Y) f_y \ge 0` for every edge :math:`a + s e`.
    """
    o = corners.mean(axis=0)
    hull = _convex_hull((corners - o)[:, [2, 0]])  # (along Z, along X): counter-clockwise about Y
    points = np.stack([hull[:, 1], np.zeros(len(hull)), hull[:, 0]], axis=1)
    up = np.array([0.0, 1.0, 0.0])
    mu = min(contact.friction for contact in contacts) / np.sqrt(2.0)
    twist = limits.twist_m if len(contacts) == 2 else limits.twist_m / 3.0
    rows, low, high = [np.concatenate([up, np.zeros(3)])], [0.0], [np.inf]
    sideways = [sign * np.array(axis) for axis in ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0)) for sign in (1.0, -1.0)]
    rows += [np.concatenate([mu * up + side, np.zeros(3)]) for side in sideways]
    rows += [TWIST_SCALE * np.concatenate([twist * up, sign * up]) for sign in (1.0, -1.0)]
    for a, b in zip(points, np.roll(points, -1, axis=0), strict=True):
        edge = (b - a) / np.linalg.norm(b - a)
        inner = a + limits.margin_m * np.cross(up, edge)
        rows.append(PRESSURE_SCALE * np.concatenate([-(edge @ np.cross(inner, up)) * up, edge]))
    matrix = np.array(rows)
    matrix[:, :3] -= np.cross(matrix[:, 3:], o)  # m_o = m - o x f, and r . (o x f) = (r x o) . f
    low += [0.0] * (len(matrix) - 1)
    high += [np.inf] * (len(matrix) - 1)
    return matrix, np.array(low), np.array(high)


def _split_matrices(layout: ReducedLayout, nodes: CollocationNodes, n: int, legs: tuple[Leg, Leg]) -> FloatArray:
    r"""Matrices that split the wrench: a share of the force at the middle of each sole, and of what moment is left.

    .. math:: f_i = \alpha_i f,\qquad m_i = \alpha_i (m + (o_i - \bar o)\times f),\qquad \bar o = \sum\alpha_i o_i
    """
    out = np.zeros((2, 6, 6))
    left = compute_left_fraction(layout, nodes, n)
    phase = int(nodes.phases[n])
    alpha = np.array([left, 1.0 - left])
    centres = [
        _sole_outline(legs[leg], _find_contact(layout, leg, phase), int(nodes.feet[n, leg])).mean(axis=0)
        if alpha[leg] > 0.0
        else 0.0
        for leg in (0, 1)
    ]
    middle = sum(a * c for a, c in zip(alpha, centres, strict=True))
    for leg in (0, 1):
        if alpha[leg] > 0.0:
            out[leg] = alpha[leg] * np.eye(6)
            out[leg, 3:, :3] = alpha[leg] * _skew_matrix(np.asarray(centres[leg] - middle))
    return out


def compute_left_fraction(layout: ReducedLayout, nodes: CollocationNodes, n: int) -> float:
    """Share of the force that the left foot takes: in double support it goes over from the old foot to the new one."""
    down = nodes.feet[n] != FREE
    if not down.all():
        return float(down[0])
    phase = int(nodes.phases[n])
    u = (nodes.times[n] - layout.edges[phase]) / (layout.edges[phase + 1] - layout.edges[phase])
    ramp = smoothstep(u)
    start, stop = _neighbour_fraction(layout, phase - 1), _neighbour_fraction(layout, phase + 1)
    return float((1.0 - ramp) * start + ramp * stop)


def _neighbour_fraction(layout: ReducedLayout, phase: int) -> float:
    """Left share of a neighbouring phase of one foot; a half beside flights and at the ends."""
    if not 0 <= phase < layout.num_phases:
        return 0.5
    left, right = layout.contacts[phase]
    if (left is None) == (right is None):
        return 0.5
    return 1.0 if left is not None else 0.0


def _skew_matrix(v: FloatArray) -> FloatArray:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _convex_hull(points: FloatArray) -> FloatArray:
    """Corners of the convex hull of points ``(n, 2)``, counter-clockwise."""
    from scipy.spatial import ConvexHull

    return points[ConvexHull(points).vertices]
