r"""Lower bounds of the cost left, by name; all consistent by construction but the one that says so.

Every bound is a maximum of terms :math:`\lambda d_m(x) + \varphi_m(s)`: ``m`` constraints are met, ``x`` is the place
of the root and ``s`` the state of the graph. Such a term is consistent if :math:`d_m` falls by no more than the
stretched length :math:`\ell(e)` along an edge, and :math:`\varphi_m(s) \le c(e) - \lambda \ell(e) + \varphi_m(t)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, UnknownNameError, kernel
from marey.graph.arrays import (
    BIN_SHIFT,
    HEADING_TOL,
    JUMP,
    PICK,
    PICKS,
    REACH,
    STEP,
    HeuristicTerms,
    SearchGraph,
    SketchConstraint,
    wrap_angles,
)
from marey.graph.search.ground import GRID_CELL_M, GroundGrid

CHECK_INTERVAL = 8  # sweeps between two looks for a cycle


@kernel
def sweep_costs(
    first: IntArray, target: IntArray, cost: FloatArray, counts: BoolArray, apart: BoolArray, after: FloatArray,
    value: FloatArray, via: IntArray,
) -> bool:  # fmt: skip
    r"""One sweep of :math:`V(s) = \min_e c_e + \min([e\ not\ apart] V(t), [e\ counts] A(t))`; whether anything fell."""
    fell = False
    for s in range(len(first) - 1):
        for e in range(first[s], first[s + 1]):
            t = target[e]
            there = np.inf if apart[e] else value[t]
            if counts[e] and after[t] < there:
                there = after[t]
            if cost[e] + there < value[s] - 1e-12:
                value[s], via[s] = cost[e] + there, e
                fell = True
    return fell


@kernel
def compute_potentials(
    first: IntArray, target: IntArray, cost: FloatArray, counts: BoolArray, apart: BoolArray, after: FloatArray,
    sweeps: int,
) -> tuple[FloatArray, bool]:  # fmt: skip
    """Least cost from every state along an edge that counts, and on from its end with ``after``; costs may be negative.

    Args:
        first: edges of state s are ``first[s]`` to ``first[s + 1]``.
        target: of each edge ``(E,)``.
        cost: of each edge ``(E,)``.
        counts: edges that meet the constraint ``(E,)``.
        apart: edges that are used only to meet the constraint ``(E,)``.
        after: least cost from then on ``(N,)``.
        sweeps: give up after so many.

    Returns:
        Costs ``(N,)``, inf where unreachable, and whether they converged.
    """
    value = np.full(len(first) - 1, np.inf)
    via = np.full(len(first) - 1, -1, dtype=np.int64)
    for _ in range(sweeps):
        if not sweep_costs(first, target, cost, counts, apart, after, value, via):
            return value, True
    return value, False


@kernel
def least_chosen_cycle_rate(
    source: IntArray, via: IntArray, target: IntArray, cost: FloatArray, length: FloatArray
) -> float:
    """Least cost per length of the cycles formed by the chosen edges of all states; inf without a cycle."""
    count = len(via)
    mark = np.full(count, -1, dtype=np.int64)
    best = np.inf
    for root in range(count):
        # Follow the chosen edges to a cycle that was not seen before
        s = root
        while mark[s] == -1 and via[s] >= 0:
            mark[s] = root
            s = target[via[s]]
        if mark[s] != root or via[s] < 0:
            continue
        # Cost and length once round the cycle
        spent, way, t = 0.0, 0.0, s
        while True:
            spent += cost[via[t]]
            way += length[via[t]]
            t = target[via[t]]
            if t == s:
                break
        if way > 0.0:
            best = min(best, spent / way)
    return float(best)


@kernel
def least_cycle_rate(first: IntArray, target: IntArray, cost: FloatArray, length: FloatArray, guess: float) -> float:
    r"""Least :math:`\sum c / \sum \ell` over all cycles, from above: each negative cycle of c - rate l lowers it."""
    count = len(first) - 1
    source = np.empty(len(target), dtype=np.int64)
    for s in range(count):
        source[first[s] : first[s + 1]] = s
    none, never = np.zeros(len(target), dtype=np.bool_), np.full(count, np.inf)
    rate = guess
    for _ in range(200):
        # Bellman-Ford on c - rate l: without a negative cycle the rate is the least one
        reduced = cost - rate * length
        value, via = np.zeros(count), np.full(count, -1, dtype=np.int64)
        found = np.inf
        for k in range(count + CHECK_INTERVAL):
            if not sweep_costs(first, target, reduced, none, none, never, value, via):
                return rate
            # Look for a cycle of lower rate among the chosen edges now and then
            if k % CHECK_INTERVAL == CHECK_INTERVAL - 1:
                found = least_chosen_cycle_rate(source, via, target, cost, length)
                if found < rate * (1.0 - 1e-12):
                    break
        if not found < rate * (1.0 - 1e-12):
            return rate
        rate = found
    return rate


HEURISTICS: Final = ("euclid", "2d", "graph", "thesis", "combined", "cycle", "unrepaired")
DIRECTIONAL_HEURISTICS: Final = ("combined", "cycle")  # those that follow all that is left through the graph
RATE_FRACTIONS: Final = (0.0, 0.6, 0.995)  # of the rate of the cheapest cycle, at which potentials are taken
ZIGZAG_FACTOR: Final = float(
    np.sqrt(2.0)
)  # [-] slope of an interpolant of values that differ by their distance at most
NUM_DIRECTION_BINS: Final = 60  # direction bins of a bound
NEIGHBOUR_BINS: Final = 2  # by which moved footsteps turn at most
MAX_SWEEPS: Final = 2000
REACH_CELLS: Final = 2.0  # a place within a tolerance has all four cells round it within that and so many cells


class CostRates(NamedTuple):
    """Cost per metre of a graph."""

    length: FloatArray  # (E,) [m] by which the way left may fall along an edge
    edge: float  # least cost per metre of an edge
    cycle: float  # and of a cycle


def worst_case(way_m: FloatArray) -> FloatArray:
    r"""Bound [m] of the difference of remaining distances between positions that are ``way_m`` apart.

    The field holds values at centres of cells of size :math:`\Delta`, which differ by no more than their distance; in
    between it is linear in each direction. Coupling the four corners of one place with those of the other gives
    :math:`\sqrt{a^2 + \Delta^2}`, and the slope inside a cell is at most the square root of two.
    """
    return np.minimum(ZIGZAG_FACTOR * way_m, np.sqrt(way_m * way_m + GRID_CELL_M**2))


def root_path_lengths(roads: SearchGraph, arc: FloatArray) -> FloatArray:
    """Way of the root ``(E,)`` [m] from the place of one state along an edge to the place of the next.

    States that were merged have one place, edges begin and end where their own clips do: the gaps count.
    """
    begin = np.linalg.norm(roads.path[:, 0] - roads.root[roads.source, :2], axis=1)
    c, s = np.cos(roads.delta[:, 2]), np.sin(roads.delta[:, 2])
    rx, rz = roads.root[roads.target, 0], roads.root[roads.target, 1]
    end = roads.delta[:, :2] + np.stack([c * rx + s * rz, -s * rx + c * rz], axis=1)
    chords = np.linalg.norm(np.diff(roads.path, axis=1), axis=2).sum(axis=1)
    return begin + np.maximum(arc, chords) + np.linalg.norm(roads.path[:, -1] - end, axis=1)


def measure_rates(roads: SearchGraph, length: FloatArray) -> CostRates:
    """Least costs per metre, of edges and of cycles; cycles do without edges that are apart."""
    each = roads.cost / np.maximum(length, 1e-9)
    cost = np.where(roads.apart, np.inf, roads.cost)
    guess = float(each[~roads.apart].max(initial=float(each.min())))
    return CostRates(length, float(each.min()), float(least_cycle_rate(roads.first, roads.target, cost, length, guess)))


def find_meeting_edges(roads: SearchGraph, constraint: SketchConstraint) -> BoolArray:
    """Edges ``(E,)`` that meet a constraint if they are at the right place."""
    t = roads.target
    if constraint.kind == JUMP:
        long = (roads.flight[:, 0] >= constraint.length_m) & (roads.flight[:, 1] >= constraint.rise_m)
        return (roads.flight[:, 0] > 0.0) & long
    if constraint.kind == STEP:
        return np.linalg.norm(roads.delta[:, :2], axis=1) >= constraint.length_m
    if constraint.kind == PICK:
        low = np.abs(roads.hand[:, 1] - constraint.place[1]) <= constraint.tolerance_m
        wanted = np.isin(roads.event, [e for e in PICKS if e & constraint.hands]) & low
        # States `(N,)` whose hand is as far from the root as the object is from where the root is pinned, if it is
        away = np.hypot(constraint.pin[0] - constraint.place[0], constraint.pin[1] - constraint.place[2])
        own = np.linalg.norm(roads.hand[:, [0, 2]] - roads.root[:, :2], axis=1)
        return (
            wanted & (np.isnan(away) | (np.abs(own - away) <= constraint.tolerance_m + constraint.root_tolerance_m))
        )[t]
    return roads.stands[t] if constraint.is_stop else np.ones(len(t), dtype=bool)


def slack_allowance(constraints: Sequence[SketchConstraint]) -> FloatArray:
    """Decrease ``(L,)`` [m] of the remaining distance when moved footsteps meet a constraint."""
    slack = np.array([constraint.slack_m for constraint in constraints])
    return np.where(slack > 0.0, worst_case(slack), 0.0)


class ConstraintLayers(NamedTuple):
    """The sketch as both parts of a bound see it."""

    meets: tuple[BoolArray, ...]  # (L) of (E,)
    distance: FloatArray  # (L, H, W) [m] through all constraints that are left
    nearest: FloatArray  # (L,) [m] least way from where each is met to the end


def layer_distances(
    roads: SearchGraph, constraints: Sequence[SketchConstraint], ground: GroundGrid
) -> ConstraintLayers:
    """Distances through the constraints in order, last first ([Safonova2006]_ F24, layered)."""
    count = len(constraints)
    meets = tuple(find_meeting_edges(roads, constraint) for constraint in constraints)
    distance, nearest = np.empty((count, *ground.free.shape)), np.zeros(count)
    rest, slack = np.zeros(ground.free.shape), slack_allowance(constraints)
    for layer in range(count - 1, -1, -1):
        constraint = constraints[layer]
        centre = constraint.pin if np.isfinite(constraint.pin[0]) else (constraint.place[0], constraint.place[2])
        # Largest distance [m] of the root from the constraint when an edge meets it
        hits = meets[layer]
        if not hits.any() or constraint.kind not in (PICK, JUMP, STEP):
            reach = constraint.tolerance_m
        elif np.isfinite(constraint.pin[0]):
            reach = constraint.tolerance_m + constraint.slack_m
        else:
            t = roads.target[hits]
            # How far the root is from the constraint when an edge of each kind meets it
            if constraint.kind == STEP:
                own = np.linalg.norm(roads.delta[hits, :2], axis=1) + np.linalg.norm(roads.root[t, :2], axis=1)
            elif constraint.kind == PICK:
                own = np.linalg.norm(roads.hand[t][:, [0, 2]] - roads.root[t, :2], axis=1)
            else:
                path, delta, root = roads.path[hits], roads.delta[hits], roads.root[t]
                c, s = np.cos(delta[:, 2]), np.sin(delta[:, 2])
                end = delta[:, :2] + np.stack(
                    [c * root[:, 0] + s * root[:, 1], -s * root[:, 0] + c * root[:, 1]], axis=1
                )
                own = np.linalg.norm(path[:, -1] - path[:, 0], axis=1) + np.linalg.norm(end - path[:, -1], axis=1)
            reach = float(constraint.tolerance_m + constraint.slack_m + own.max())
        disk = ground.disk(centre, reach + REACH_CELLS * GRID_CELL_M) & ground.wide
        rest = np.maximum(rest - slack[layer], 0.0)  # where a move has met it, there is so much less left
        nearest[layer] = float(rest[disk].min(initial=np.inf))
        rest = np.maximum(ground.distances(np.where(disk, rest, np.inf)), rest)  # what is left after it is left before
        distance[layer] = rest
    return ConstraintLayers(meets, distance, nearest)


def compute_bounds(
    name: str,
    roads: SearchGraph,
    rates: CostRates,
    constraints: Sequence[SketchConstraint],
    ground: GroundGrid,
    layers: ConstraintLayers,
    final: FloatArray | None = None,
) -> tuple[FloatArray, HeuristicTerms]:
    """Distances ``(L, H, W)`` [m] and terms of a bound.

    Args:
        name: "euclid" and "2d": distance to the goal as the crow flies, or round walls. "graph": cost of the dearest
            event (pick, jump, step over water) that is left. "thesis": the greatest of distance through all, and cost
            of each event plus distance from there ([Safonova2006]_ (4.3), layered). "cycle": distance at the rate
            of the cheapest cycle plus what getting into and out of that cycle costs, in order through all events.
            "combined": the same and distance at the rate of the cheapest edge, so that it is nowhere below "2d" or
            "graph". (4.3) is the greatest of distance alone and events alone; with the same rate taken off the costs
            of edges both may be added, which guides where the greatest of two is flat. "unrepaired": (4.3) as
            printed, as if the root stood on the object; not consistent.
        roads: the graph.
        rates: of it.
        constraints: constraints.
        ground: of the sketch.
        layers: of the sketch on this graph.
        final: cost ``(N,)`` that is still to come at the end; "cycle" and "combined" know of it.

    Raises:
        UnknownNameError: no bound has this name.
    """
    if name not in HEURISTICS:
        raise UnknownNameError("heuristic", name, "the search", HEURISTICS)
    count, states = len(constraints), len(roads.first) - 1
    flat = np.zeros((count, states))
    if name in ("euclid", "2d"):
        distance = layers.distance[-1]
        if name == "euclid":
            # Distance [m] of every cell to the goal, as the crow flies
            goal = constraints[-1]
            away = np.hypot(ground.x[None] - goal.place[0], ground.z[:, None] - goal.place[2])
            distance = np.maximum(away - goal.tolerance_m - REACH_CELLS * GRID_CELL_M, 0.0)
        # One distance for all layers, less what moves of footsteps may save on the way
        saved = np.cumsum(slack_allowance(constraints)[::-1])[::-1]
        distance = np.maximum(distance[None] - saved[:, None, None], 0.0)
        return distance, HeuristicTerms(np.array([rates.edge]), flat[None])
    if name in DIRECTIONAL_HEURISTICS:
        also = (rates.edge,) if name == "combined" else ()
        # Potentials through all layers from the last, on costs less rate times length
        rate: FloatArray = np.array([*also, *(rates.cycle * share for share in RATE_FRACTIONS)])
        base = np.zeros((len(rate), len(layers.meets), states))
        for r in range(len(rate)):
            after = np.zeros(states) if final is None else final
            cost = roads.cost - rate[r] * rates.length
            for layer in range(len(layers.meets) - 1, -1, -1):
                meets = layers.meets[layer]
                after, _ = compute_potentials(roads.first, roads.target, cost, meets, roads.apart, after, states + 2)
                base[r, layer] = after
        return layers.distance, HeuristicTerms(rate, base) if final is None else HeuristicTerms(rate, base, final)
    if name == "graph":
        ahead = _dearest_event_cost(roads, constraints, layers, np.zeros(count))
        return layers.distance, HeuristicTerms(np.zeros(1), ahead[None])
    nearest = layers.nearest
    if name == "unrepaired":
        # Way left [m] from each constraint itself, as if the root stood there
        nearest = np.zeros(count)
        for layer in range(count - 1):
            row, column = ground.cell((constraints[layer].place[0], constraints[layer].place[2]))
            nearest[layer] = layers.distance[layer + 1, row, column]
    ahead = _dearest_event_cost(roads, constraints, layers, rates.edge * nearest)
    return layers.distance, HeuristicTerms(np.array([rates.edge, 0.0]), np.stack([flat, ahead]))


def _dearest_event_cost(
    roads: SearchGraph, constraints: Sequence[SketchConstraint], layers: ConstraintLayers, rest: FloatArray
) -> FloatArray:
    """Cost ``(L, N)`` of the dearest pick, jump or step that is left, with ``rest`` (L,) from there on.

    Edges that are apart may still be taken for a constraint before it. Places have no table: one that is to be reached
    standing would hide the way to it, since a maximum sees only the dearer of the two.
    """

    def tables(apart: BoolArray) -> FloatArray:
        costs = np.zeros((len(rest), len(roads.first) - 1))
        for layer in [n for n, constraint in enumerate(constraints) if constraint.kind != REACH]:
            # Least cost of meeting the constraint anywhere: the table H_mg of [Safonova2006]_ F23
            meets = layers.meets[layer]
            states = len(roads.first) - 1
            values, _ = compute_potentials(
                roads.first, roads.target, roads.cost, meets, apart, np.zeros(states), states + 2
            )
            costs[layer] = values
        return costs + rest[:, None]

    # The dearest constraint that is left, this one or a later one
    own = tables(roads.apart)
    later = tables(np.zeros_like(roads.apart)) if roads.apart.any() and len(own) > 1 else own
    ahead = own.copy()
    for layer in range(len(own) - 1):
        ahead[layer] = np.maximum(own[layer], later[layer + 1 :].max(axis=0))
    return ahead


def add_direction_terms(
    roads: SearchGraph, rates: CostRates, constraints: Sequence[SketchConstraint], layers: ConstraintLayers,
    terms: HeuristicTerms,
) -> HeuristicTerms:  # fmt: skip
    """Terms of "cycle" that know how the anchor is turned: they include the cost of turning to the target directions.

    Directions are binned; an edge may lead to the two bins in which its turn can end, so that the bound is
    below what it stands for.
    """
    states, width = len(roads.first) - 1, 2.0 * np.pi / NUM_DIRECTION_BINS
    bins = np.arange(NUM_DIRECTION_BINS)
    # Each edge turns by one or two bins
    exact = roads.delta[:, 2] / width
    low = np.floor(exact + 1e-9).astype(np.int64)
    high = np.ceil(exact - 1e-9).astype(np.int64)
    edge = np.concatenate([np.arange(len(low)), np.flatnonzero(high > low)])
    turn = np.concatenate([low, high[high > low]])
    # Graph of states times bins, sorted by start
    start = (roads.source[edge][:, None] * NUM_DIRECTION_BINS + bins).ravel()
    order = np.argsort(start, kind="stable")
    end = (bins + turn[:, None]) % NUM_DIRECTION_BINS
    target = (roads.target[edge][:, None] * NUM_DIRECTION_BINS + end).ravel()[order]
    edge, end = np.repeat(edge, NUM_DIRECTION_BINS)[order], end.ravel()[order]
    first = np.searchsorted(start[order], np.arange(states * NUM_DIRECTION_BINS + 1))
    cost = (roads.cost - terms.rate[-1] * rates.length)[edge]
    after, turned = np.zeros(states * NUM_DIRECTION_BINS), np.empty((len(constraints), states, NUM_DIRECTION_BINS))
    # Potentials from the last constraint to the first
    for layer in range(len(constraints) - 1, -1, -1):
        meets, constraint = layers.meets[layer][edge], constraints[layer]
        if constraint.kind == REACH and not np.isnan(constraint.heading_rad):
            # Only edges that end in a direction bin compatible with the target heading of the root meet it
            middle = (
                (end + 0.5) * width - np.pi - BIN_SHIFT + roads.root[roads.target[edge], 2] - constraint.heading_rad
            )
            meets &= np.abs(wrap_angles(middle)) <= HEADING_TOL + 0.5 * width + 1e-9
        if constraint.slack_m > 0.0:
            # Moved footsteps may end in the neighbours of a bin: the least of them
            own = after.reshape(-1, NUM_DIRECTION_BINS)
            near = [np.roll(own, step, axis=1) for step in range(-NEIGHBOUR_BINS, NEIGHBOUR_BINS + 1)]
            after = np.minimum.reduce(near).ravel()
        after, _ = compute_potentials(first, target, cost, meets, roads.apart[edge], after, MAX_SWEEPS)
        turned[layer] = after.reshape(states, NUM_DIRECTION_BINS)
    return terms._replace(turned=turned)


def order_diverse_edges(
    roads_first: IntArray, cost: FloatArray, delta: FloatArray, cheap: int
) -> tuple[IntArray, IntArray]:
    """Order of edges ``(E,)`` and how many of each state come first ``(N,)``.

    First are the cheapest of every bin of 15 degrees and 15 cm of step, then the ``cheap`` cheapest of the others, then
    the rest ([Safonova2006]_ searches all; this many give the same way nearly always, sooner).
    """
    states = len(roads_first) - 1
    source = np.repeat(np.arange(states), np.diff(roads_first))
    turn = np.floor(delta[:, 2] / np.deg2rad(15.0)).astype(np.int64) + 64
    step = np.floor(delta[:, :2] / 0.15).astype(np.int64) + 512
    order = np.lexsort((cost, step[:, 1], step[:, 0], turn, source))
    key = np.stack([source, turn, step[:, 0], step[:, 1]])[:, order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    is_first = np.zeros(len(order), dtype=bool)
    is_first[order[fresh]] = True
    others = order[~fresh][np.lexsort((cost[order[~fresh]], source[order[~fresh]]))]
    start = np.searchsorted(source[others], np.arange(states))
    is_first[others[np.arange(len(others)) - start[source[others]] < cheap]] = True
    return np.lexsort((cost, ~is_first, source)), np.bincount(source[is_first], minlength=states)
