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
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

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
MIN_FRAMES: Final = 4  # of a step whose forces can be checked
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


class PartnerRows(NamedTuple):
    """Steps with which one step may be blended."""

    partner: IntArray  # (M,)
    most: FloatArray  # (M,) [-] largest share of the partner: gap and jump of velocity stay within their limits
    price: FloatArray  # (M,) cost of the gaps at both ends at a share of one


class StepPartners:
    """Steps that may be blended, by prediction from the sources alone (F33), looked up when a path asks for them."""

    def __init__(self, graph: MotionGraph) -> None:
        self.counts: Counter[str] = Counter()  # alike pairs of steps looked at, and how many each rule has pruned
        arrays = graph.arrays
        self._arrays, self._source, self._limit = arrays, arrays.source, MAX_GAP * graph.transitions.threshold
        self._distance, self._rate = state_distances(graph), gap_cost_per_distance(graph)
        self._alike = find_partners(graph, self._distance).matrix()
        is_step = (np.hypot(*arrays.delta[:, :2].T) > MIN_STEP_M) & (arrays.flight[:, 0] <= 0.0)
        self._steps = np.flatnonzero(is_step & (arrays.seconds * graph.database.rate_hz >= MIN_FRAMES))
        # Velocities [m/s] of the root where edges begin and end, in the frame of the anchor
        span = arrays.seconds[:, None] / (arrays.path.shape[1] - 1)
        self._speeds = [(arrays.path[:, b] - arrays.path[:, a]) / span for a, b in ((0, 1), (-2, -1))]
        self._known: dict[int, PartnerRows] = {}

    def of(self, e: int) -> PartnerRows:
        """Partners of an edge; none where it is no step."""
        if e not in self._known:
            self._known[e] = self._find(e)
        return self._known[e]

    def _find(self, e: int) -> PartnerRows:
        arrays, source, target, T = self._arrays, self._source, self._arrays.target, self._arrays.seconds
        A, B, steps = source[e], target[e], self._steps
        own = steps[self._alike[A, source[steps]] & self._alike[B, target[steps]] & (steps != e)]
        own = own if np.isin(e, steps) else own[:0]
        # Rules in the order of the thesis: how long they last, how they turn, how velocity and pose jump at both ends
        jump = np.maximum(*(np.linalg.norm(v[own] - v[e], axis=1) for v in self._speeds))
        gaps = np.stack([self._distance[A, source[own]], self._distance[B, target[own]]])
        most = np.sqrt(self._limit / np.maximum(gaps.max(axis=0), 1e-12))
        most = np.minimum(np.minimum(most, MAX_JUMP_MPS / np.maximum(jump, 1e-9)), MAX_SHARE)
        rules = {
            "duration": np.abs(np.log(T[own] / T[e])) <= np.log(MAX_STRETCH),
            "turn": np.abs(wrap_angles(arrays.delta[own, 2] - arrays.delta[e, 2])) <= MAX_TURN_RAD,
            "velocity or gap": most >= MIN_SHARE,
        }
        kept = np.ones(len(own), dtype=bool)
        self.counts["alike"] += len(own)
        for name, is_good in rules.items():
            self.counts[name] += int((kept & ~is_good).sum())
            kept &= is_good
        self.counts["kept"] += int(kept.sum())
        # Of what is left, those that lead farthest aside for what they cost, in each of some directions
        price = 2.0 * self._rate * gaps.sum(axis=0)
        change = arrays.delta[own] - arrays.delta[e]
        change[:, 2] = LEVER_M * wrap_angles(change[:, 2])
        worth = np.where(kept, most / np.sqrt(price + 1e-3), 0.0)[:, None] * (change @ DIRECTIONS.T)
        best = np.unique(np.argmax(worth, axis=0)[worth.max(axis=0) > 0.0]) if kept.any() else np.zeros(0, dtype=int)
        return PartnerRows(own[best], most[best], price[best])


find_step_partners = lru_cache(maxsize=4)(StepPartners)
"""Partners of the steps of a graph; made once."""


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
    rows = [(i, partners.of(int(base[i]))) for i in np.flatnonzero(is_free)]
    tried = BlendChoices(
        np.repeat([i for i, _ in rows], [len(own.partner) for _, own in rows]).astype(np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *(own.partner for _, own in rows)]),
        np.concatenate([np.zeros(0), *(own.most for _, own in rows)]),
        np.concatenate([np.zeros(0), *(own.price for _, own in rows)]),
    )
    for _ in range(ROUNDS):
        solved = _solve_shares(graph, way.places[first], deltas, base, tried, (local, wanted, firm))
        if solved is None:
            return None
        chosen, shares, places = solved
        # Every blended step is checked as it will be shown; one that fails is left out, and the rest is solved again
        pairs = zip(base[chosen.step].tolist(), chosen.partner.tolist(), (1.0 - shares).tolist(), strict=True)
        bad = [(e, c) for e, c, weight in pairs if not _is_physical(graph, e, c, weight)]
        partners.counts["checked"] += len(shares)
        partners.counts["check failed"] += len(bad)
        if not bad:
            break
        kept = [(e, c) not in bad for e, c in zip(base[tried.step].tolist(), tried.partner.tolist(), strict=True)]
        tried = tried.take(np.flatnonzero(kept))
    else:
        return None
    # Costs of the blends and their gaps in place of those of the steps; what follows is carried along
    mixed, cost = dict(way.mixed), way.cost
    for i, c, share, price in zip(chosen.step, chosen.partner, shares, chosen.price, strict=True):
        blended = blended_costs(graph, base[[i]], np.array([c]), np.array([1.0 - share]))[0, 0]
        cost += float(blended - roads.cost[edges[i]] + share**2 * price)
        mixed[first + int(i)] = (int(c), 1.0 - float(share))
    moved = way.places.copy()
    moved[first : last + 2] = places
    found = way._replace(places=moved, mixed=mixed, cost=cost)
    number = way.met_at.index(last)
    hand_m = found.errors((goal,) * len(way.met_at))[number]
    return found if hand_m <= goal.tolerance_m else None


class BlendChoices(NamedTuple):
    """Steps of a path and what they may be blended with."""

    step: IntArray  # (M,)
    partner: IntArray  # (M,)
    most: FloatArray  # (M,)
    price: FloatArray  # (M,)

    def take(self, rows: IntArray) -> BlendChoices:
        """Some of them."""
        return BlendChoices(self.step[rows], self.partner[rows], self.most[rows], self.price[rows])


def _points(anchor: FloatArray, local: FloatArray) -> FloatArray:
    """Points ``(2, 2)`` of the frame of an anchor in the world."""
    return compose_planar(anchor, np.column_stack([local, np.zeros(len(local))]))[:, :2]


def _solve_shares(
    graph: MotionGraph,
    start: FloatArray,
    deltas: FloatArray,
    base: IntArray,
    tried: BlendChoices,
    aim: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[BlendChoices, FloatArray, FloatArray] | None:
    """Shares of one partner a step that bring the last points to their targets, and the places then.

    Args:
        graph: of the steps.
        start: anchor of the first step.
        deltas: of the steps as they are ``(n, 3)``.
        base: edges of the steps ``(n,)``.
        tried: what they may be blended with.
        aim: points in the frame of the last anchor, in the world, and their weights.
    """
    from scipy.optimize import lsq_linear

    local, wanted, firm = aim
    weights, shares = np.repeat(firm, 2), np.zeros(len(tried.step))
    is_single = False
    for _ in range(ROUNDS):
        # Anchors with the present shares
        changes = blended_deltas(graph, base[tried.step], tried.partner, np.zeros(1))[:, 0] - deltas[tried.step]
        changes[:, 2] = wrap_angles(changes[:, 2])
        own = deltas.copy()
        np.add.at(own, tried.step, shares[:, None] * changes)
        places = [start]
        for delta in own:
            places.append(compose_planar(places[-1], delta))
        at = np.array(places)
        points = _points(at[-1], local)
        off = (wanted - points).ravel()
        if is_single and np.abs(weights * off).max() < 0.1:
            used = np.flatnonzero(shares > 1e-6)
            return tried.take(used), shares[used], at
        if not len(shares):
            return None
        # Derivative of the points by each share: the step moves, and all behind it turns about its end
        before, after = at[tried.step], at[tried.step + 1]
        shift = compose_planar(np.column_stack([0.0 * before[:, :2], before[:, 2]]), changes)[:, :2]
        lever = points[None] - after[:, None, :2]
        turned = changes[:, 2, None, None] * np.stack([lever[..., 1], -lever[..., 0]], axis=-1)
        J = (shift[:, None] + turned).reshape(len(shares), -1).T
        A = np.concatenate([weights[:, None] * J, np.diag(np.sqrt(tried.price + 1e-3))])
        b = np.concatenate([weights * (off + J @ shares), np.zeros(len(shares))])
        shares = np.asarray(lsq_linear(A, b, (0.0, tried.most), method="bvls").x)
        if not is_single:
            # k = 2: of each step only the partner with the greatest share
            order = np.lexsort((-shares, tried.step))
            best = order[np.unique(tried.step[order], return_index=True)[1]]
            best = best[shares[best] > 1e-4]
            tried, shares, is_single = tried.take(best), shares[best], True
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
