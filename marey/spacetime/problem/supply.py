"""What contacts can give along a motion: points that push or hold on, and the part of a wrench that they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import JointTree, compute_point_positions
from marey.dynamics.contact_cones import compute_friction_edges, fit_moving_cones
from marey.numerics import convex_hull
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.support import contact_frame, sole_corners

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
