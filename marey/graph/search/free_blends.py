r"""Blends of any two alike steps, with weights off the grid: a path that ends near a pick is made to end in it.

The interpolated graph of [Safonova2006]_ (F16, F21) has a weight for every edge. The search walks edges of one motion
and, near events, pairs of them at ten weights. Here every step of a path that it found may be blended with a step that
is alike (same contacts, poses at both ends within ``pair_limit`` thresholds), and the weights are found at once:

.. math:: \min_\lambda \sum_i \rho_i \lambda_i^2 \quad\text{with}\quad
          p(\lambda) = p^*, \qquad 0 \le \lambda_i \le \bar\lambda_i

:math:`\lambda_i` is the weight of the second step, :math:`\rho_i` what its gaps of pose cost, p hand and pinned root
at the end. Nothing is warped: each step is an interpolation of two captured ones, pruned by the physics of blends
(F30 to F33): first by what the sources tell, then by a check of the blended motion itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.blending import ContactCheck, check_contact
from marey.graph.arrays import PICK, SketchConstraint, compose_planar, wrap_angles
from marey.graph.paths import (
    PathStep,
    blended_costs,
    blended_deltas,
    find_partners,
    gap_cost_per_distance,
    planted_feet,
    state_distances,
)
from marey.graph.reconstruction.track import step_track
from marey.graph.search.problem import SearchPath
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import contact_points

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph

MIN_STEP_M: Final = 0.05  # [m] an edge that moves its anchor by less is no step
MAX_STRETCH: Final = 1.4  # by which one step may last longer than the other
MAX_TURN_RAD: Final = np.deg2rad(30.0)  # by which they may turn otherwise (F33)
MAX_JUMP_MPS: Final = 0.5  # [m/s] of the root's velocity where a blend begins or ends (F32)
MIN_SHARE: Final = 0.1  # [-] a step of which less may be blended in is of no use
MAX_SHARE: Final = 0.9  # [-] and more than this is the other step
MAX_GAP: Final = 6.0  # thresholds: a pose may jump by so much where a way goes over to a blend, or back
SLIDE_MM, SINK_MM, MAX_FRICTION = 2.0, 5.0, 0.8  # a blend may slide and sink more than its sources by this (F31)
ROUNDS: Final = 12  # of Newton's method, and of leaving out steps whose blend fails its check
FIRM: Final = 1e3  # [1/m] weight of the targets against that of the gaps
LEVER_M: Final = 0.5  # [m] at which a turn counts as a move, where steps are compared
DIRECTIONS: Final = np.array([d for d in np.ndindex(3, 3, 3) if d != (1, 1, 1)], dtype=np.float64) - 1.0
YAW_SHARE: Final = 0.02  # [-] weight of the root where it is not pinned: it stays about where it was


@dataclass(frozen=True, slots=True, eq=False)
class StepPartners:
    """Steps that may be blended: edge e with ``partner[first[e]:first[e + 1]]``; how many each rule has pruned."""

    first: IntArray  # (E + 1,)
    partner: IntArray  # (M,)
    most: FloatArray  # (M,) [-] largest share of the partner: gap and jump of velocity stay within their limits
    price: FloatArray  # (M,) cost of the gaps at both ends at a share of one
    counts: Counter[str]

    @classmethod
    def from_graph(cls, graph: MotionGraph) -> StepPartners:
        """Compare all steps with all, by prediction from the sources alone (F33)."""
        arrays, source, threshold = graph.arrays, graph.arrays.source, graph.transitions.threshold
        distance, T = state_distances(graph), arrays.seconds
        alike, rate = find_partners(graph, distance).matrix(), gap_cost_per_distance(graph)
        steps = np.flatnonzero((np.hypot(*arrays.delta[:, :2].T) > MIN_STEP_M) & (arrays.flight[:, 0] <= 0.0))
        # Velocities [m/s] of the root where edges begin and end, in the frame of the anchor
        span = T[:, None] / (arrays.path.shape[1] - 1)
        speeds = [(arrays.path[:, b] - arrays.path[:, a]) / span for a, b in ((0, 1), (-2, -1))]
        rows: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
        counts: Counter[str] = Counter()
        for e in steps.tolist():
            A, B = source[e], arrays.target[e]
            own = steps[alike[A, source[steps]] & alike[B, arrays.target[steps]] & (steps != e)]
            counts["alike"] += len(own)
            lasts = np.abs(np.log(T[own] / T[e])) <= np.log(MAX_STRETCH)
            turns = np.abs(wrap_angles(arrays.delta[own, 2] - arrays.delta[e, 2])) <= MAX_TURN_RAD
            jump = np.maximum(*(np.linalg.norm(v[own] - v[e], axis=1) for v in speeds))
            gap = np.maximum(distance[A, source[own]], distance[B, arrays.target[own]])
            smooth = np.sqrt(MAX_GAP * threshold / np.maximum(gap, 1e-12))
            most = np.minimum(np.minimum(smooth, MAX_JUMP_MPS / np.maximum(jump, 1e-9)), MAX_SHARE)
            kept = np.ones(len(own), dtype=bool)
            for name, is_good in (("duration", lasts), ("turn", turns), ("velocity or gap", most >= MIN_SHARE)):
                counts[name] += int((kept & ~is_good).sum())
                kept &= is_good
            price = 2.0 * rate * (distance[A, source[own]] + distance[B, arrays.target[own]])
            # Of what is left, those that lead farthest aside for what they cost, in each of some directions
            change = arrays.delta[own] - arrays.delta[e]
            change[:, 2] = LEVER_M * wrap_angles(change[:, 2])
            worth = np.where(kept, most / np.sqrt(price + 1e-3), 0.0)[:, None] * (change @ DIRECTIONS.T)
            best = np.unique(np.argmax(worth, axis=0)[worth.max(axis=0) > 0.0]) if kept.any() else np.zeros(0, int)
            counts["kept"] += int(kept.sum())
            rows.append((np.full(len(best), e), own[best], most[best], price[best]))
        edge, partner, most, price = (np.concatenate(column) for column in zip(*rows, strict=True))
        return cls(np.searchsorted(edge, np.arange(graph.num_edges + 1)), partner, most, price, counts)


@lru_cache(maxsize=4)
def find_step_partners(graph: MotionGraph) -> StepPartners:
    """Partners of all steps of a graph; made once."""
    return StepPartners.from_graph(graph)


def blend_to_picks(graph: MotionGraph, way: SearchPath, constraints: Sequence[SketchConstraint]) -> SearchPath | None:
    """The path with steps blended so that each pick that it ends near is met; None where blends do not get there.

    Args:
        graph: that was searched.
        way: path whose last step before each pick ends near it.
        constraints: that it meets, in order.
    """
    first = 0
    for constraint, step in zip(constraints, way.met_at, strict=True):
        if constraint.kind == PICK and constraint.slack_m > 0.0:
            found = _blend_approach(graph, way, constraint, first, step)
            if found is None:
                return None
            way = found
        first = step + 1
    return way


def _blend_approach(
    graph: MotionGraph, way: SearchPath, goal: SketchConstraint, first: int, last: int
) -> SearchPath | None:
    """Blend the steps from ``first`` to ``last`` so that the pick at the end of ``last`` is met."""
    roads, blends, partners = way.made.roads, way.made.blends, find_step_partners(graph)
    edges = way.edges[first : last + 1]
    if edges.max() >= len(roads.target):
        return None
    base = edges if blends is None else blends.a[edges]
    is_free = np.ones(len(edges), dtype=bool) if blends is None else blends.a[edges] == blends.c[edges]
    deltas, node, end = roads.delta[edges], int(way.nodes[last + 1]), way.places[last + 1]
    # Hand and root at the end, as they are in the frame of the anchor and as they are to be: where the search put them
    local = np.stack([roads.hand[node][[0, 2]], roads.root[node][:2]])
    wanted = _points(end, local)
    firm = FIRM * np.array([1.0, 1.0 if np.isfinite(goal.pin[0]) else YAW_SHARE])
    rows = partners.first
    tried = [(i, m) for i in np.flatnonzero(is_free) for m in range(rows[base[i]], rows[base[i] + 1])]
    refused: set[int] = set()
    for _ in range(ROUNDS):
        columns = np.array([(i, m) for i, m in tried if m not in refused], dtype=np.int64).reshape(-1, 2)
        solved = _solve_shares(graph, partners, way.places[first], deltas, base, columns, (local, wanted, firm))
        if solved is None:
            return None
        chosen, shares, places = solved
        # Every blended step is checked as it will be shown; one that fails is left out, and the rest is solved again
        bad = [
            int(m)
            for (i, m), share in zip(chosen, shares, strict=True)
            if not _is_physical(graph, int(base[i]), int(partners.partner[m]), 1.0 - float(share))
        ]
        partners.counts["checked"] += len(chosen)
        partners.counts["check failed"] += len(bad)
        if not bad:
            break
        refused.update(bad)
    else:
        return None
    # Costs of the blends and their gaps in place of those of the steps; what follows is carried along
    mixed, cost = dict(way.mixed), way.cost
    for (i, m), share in zip(chosen, shares, strict=True):
        e, c = np.array([base[i]]), np.array([partners.partner[m]])
        cost += float(blended_costs(graph, e, c, np.array([1.0 - share]))[0, 0] - roads.cost[edges[i]])
        cost += float(share**2 * partners.price[m])
        mixed[first + int(i)] = (int(c[0]), 1.0 - float(share))
    moved = way.places.copy()
    moved[first : last + 2] = places
    found = way._replace(places=moved, mixed=mixed, cost=cost)
    number = way.met_at.index(last)
    hand_m = found.errors((goal,) * len(way.met_at))[number]
    return found if hand_m <= goal.tolerance_m else None


def _points(anchor: FloatArray, local: FloatArray) -> FloatArray:
    """Points ``(2, 2)`` of the frame of an anchor in the world."""
    return compose_planar(anchor, np.column_stack([local, np.zeros(len(local))]))[:, :2]


def _solve_shares(
    graph: MotionGraph,
    partners: StepPartners,
    start: FloatArray,
    deltas: FloatArray,
    base: IntArray,
    columns: IntArray,
    aim: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray] | None:
    """Shares of one partner a step that bring the last points to their targets, and the places then.

    Args:
        graph: of the steps.
        partners: of all steps.
        start: anchor of the first step.
        deltas: of the steps as they are ``(n, 3)``.
        base: edges of the steps ``(n,)``.
        columns: step and number of the partner ``(M, 2)``.
        aim: points in the frame of the last anchor, in the world, and their weights.
    """
    from scipy.optimize import lsq_linear

    local, wanted, firm = aim
    weights, shares = np.repeat(firm, 2), np.zeros(len(columns))
    is_single = False
    for _ in range(ROUNDS):
        # Anchors with the present shares
        changes = blended_deltas(graph, base[columns[:, 0]], partners.partner[columns[:, 1]], np.zeros(1))[:, 0]
        changes = changes - deltas[columns[:, 0]]
        changes[:, 2] = wrap_angles(changes[:, 2])
        own = deltas.copy()
        np.add.at(own, columns[:, 0], shares[:, None] * changes)
        places = [start]
        for delta in own:
            places.append(compose_planar(places[-1], delta))
        at = np.array(places)
        points = _points(at[-1], local)
        off = (wanted - points).ravel()
        if is_single and np.abs(weights * off).max() < 0.1:
            used = np.flatnonzero(shares > 1e-6)
            return columns[used], shares[used], at
        if not len(columns):
            return None
        # Derivative of the points by each share: the step moves, and all behind it turns about its end
        before, after = at[columns[:, 0]], at[columns[:, 0] + 1]
        shift = compose_planar(np.column_stack([0.0 * before[:, :2], before[:, 2]]), changes)[:, :2]
        lever = points[None] - after[:, None, :2]
        turned = changes[:, 2, None, None] * np.stack([lever[..., 1], -lever[..., 0]], axis=-1)
        J = (shift[:, None] + turned).reshape(len(columns), -1).T
        size = np.sqrt(partners.price[columns[:, 1]] + 1e-3)
        A = np.concatenate([weights[:, None] * J, np.diag(size)])
        b = np.concatenate([weights * (off + J @ shares), np.zeros(len(columns))])
        shares = np.asarray(lsq_linear(A, b, (0.0, partners.most[columns[:, 1]]), method="bvls").x)
        if not is_single:
            # k = 2: of each step only the partner with the greatest share
            order = np.lexsort((-shares, columns[:, 0]))
            best = order[np.unique(columns[order, 0], return_index=True)[1]]
            best = best[shares[best] > 1e-4]
            columns, shares, is_single = columns[best], shares[best], True
    return None


def _is_physical(graph: MotionGraph, edge: int, other: int, weight: float) -> bool:
    """Whether a blended step slides, sinks and pushes no worse than its sources, within the limits of F31."""
    shown = ((edge, other, weight), (edge, edge, 1.0), (other, other, 1.0))
    own, *sources = (_check_step(graph, PathStep(*one, np.zeros(3))) for one in shown)
    return (
        own.slide_mm <= SLIDE_MM + max(s.slide_mm for s in sources)
        and own.sink_mm <= SINK_MM + max(s.sink_mm for s in sources)
        and own.friction <= max(MAX_FRICTION, *(s.friction for s in sources))
    )


def _check_step(graph: MotionGraph, step: PathStep) -> ContactCheck:
    """Slide, sink and friction of one step as it is shown."""
    track, body = step_track(graph, step), graph.database.body
    source = int(np.searchsorted(graph.arrays.first, step.edge, side="right")) - 1
    feet = planted_feet(graph.database.classes[int(graph.arrays.kind[source])])
    names = contact_points(body.skeleton).names
    down = np.array([any(name == f"{foot}_{part}" for foot in feet for part in ("heel", "toe")) for name in names])
    contacts = Contacts(names, np.tile(down, (len(track.times), 1)))
    motion = Motion(body.skeleton, graph.database.rate_hz, track.roots, SO3(track.wxyz), contacts=contacts)
    return check_contact(motion, body)
