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
    EMPTY,
    FLIGHT,
    JUMP,
    NO_FINAL,
    PICK,
    PICKS,
    REACH,
    STEP,
    HeuristicTerms,
    SearchGraph,
    SketchConstraint,
    compose_planar,
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
def tabulate_costs(
    first: IntArray, target: IntArray, cost: FloatArray, drop: IntArray, counts: BoolArray, apart: BoolArray,
    after: FloatArray, table: FloatArray,
) -> None:  # fmt: skip
    r"""Least cost ``(K, N)`` by state and way left to a constraint, :math:`V_k(s) = \min_e c_e + V_{k - \delta_e}(t)`.

    Args:
        first: edges of state s are ``first[s]`` to ``first[s + 1]``.
        target: of each edge ``(E,)``.
        cost: of each edge ``(E,)``.
        drop: steps ``(E,)`` by which the way left falls along an edge at most; positive.
        counts: edges that meet the constraint where the way left is none ``(E,)``.
        apart: edges that are used only to meet it ``(E,)``.
        after: least cost from then on ``(N,)``.
        table: filled; its first row is what is left where the way is none.
    """
    for k in range(1, len(table)):
        for s in range(len(first) - 1):
            least = np.inf
            for e in range(first[s], first[s + 1]):
                t, row = target[e], max(k - drop[e], 0)
                there = np.inf if apart[e] else table[row, t]
                if row == 0 and counts[e]:
                    there = min(there, after[t])
                least = min(least, cost[e] + there)
            table[k, s] = least


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


HEURISTICS: Final = ("euclid", "2d", "graph", "thesis", "combined", "cycle", "legs", "unrepaired")
DIRECTIONAL_HEURISTICS: Final = ("combined", "cycle", "legs")  # those that follow all that is left through the graph
LEG_RATE_FRACTIONS: Final = (0.0, 0.995)
LEG_STEP_M: Final = 0.02  # [m] of costs by the way to the next constraint,
MAX_LEG_ROWS: Final = 600  # of which there are no more
LEG_ROOM_M: Final = 1.0  # [m] that a way may lead farther away from a constraint than where the one before was met
RATE_FRACTIONS: Final = (0.0, 0.6, 0.995)  # of the rate of the cheapest cycle, at which potentials are taken
ZIGZAG_FACTOR: Final = float(
    np.sqrt(2.0)
)  # [-] slope of an interpolant of values that differ by their distance at most
FOOTING_STEP_M: Final = 0.01  # [m] at which water is looked for dry ground,
FOOT_SPREAD_M: Final = 0.5  # [m] so far beside the place where it is crossed,
MAX_WATER_M: Final = 3.0  # [m] and so far from there
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
    if constraint.mark != EMPTY:
        return roads.marks[constraint.mark][t]
    return roads.stands[t] if constraint.is_stop else np.ones(len(t), dtype=bool)


def slack_allowance(constraints: Sequence[SketchConstraint]) -> FloatArray:
    """Decrease ``(L,)`` [m] of the remaining distance when moved footsteps meet a constraint."""
    slack = np.array([constraint.slack_m for constraint in constraints])
    return np.where(slack > 0.0, worst_case(slack), 0.0)


def meeting_reach(roads: SearchGraph, hits: BoolArray, constraint: SketchConstraint) -> float:
    """Largest distance [m] of the root from a constraint when one of the edges ``hits`` meets it."""
    if not hits.any() or constraint.kind not in (PICK, JUMP):
        return constraint.tolerance_m
    if np.isfinite(constraint.pin[0]):
        return constraint.tolerance_m + constraint.slack_m
    t = roads.target[hits]
    if constraint.kind == PICK:
        own = np.linalg.norm(roads.hand[t][:, [0, 2]] - roads.root[t, :2], axis=1)
    else:
        path, end = roads.path[hits], compose_planar(roads.delta[hits], roads.root[t])[:, :2]
        own = np.linalg.norm(path[:, -1] - path[:, 0], axis=1) + np.linalg.norm(end - path[:, -1], axis=1)
    return float(constraint.tolerance_m + constraint.slack_m + own.max())


def find_crossings(
    roads: SearchGraph, meets: BoolArray, constraint: SketchConstraint, ground: GroundGrid
) -> tuple[BoolArray, BoolArray]:
    """Edges that cross water in some direction with dry feet ``(E,)``, and cells where the root may be then ``(H, W)``.

    Directions are looked at degree by degree, and water is as wide as it is at its narrowest near the place.
    """
    s, c = np.sin(constraint.heading_rad), np.cos(constraint.heading_rad)
    x, z, reach = constraint.place[0], constraint.place[2], constraint.tolerance_m
    # Water before and behind the place, along lines across it
    across = np.arange(-reach - FOOT_SPREAD_M, reach + FOOT_SPREAD_M, FOOTING_STEP_M)
    along = np.arange(0.0, MAX_WATER_M, FOOTING_STEP_M)
    extent: list[float] = []
    for sign in (-1.0, 1.0):
        u = sign * along
        column = ((x + s * u[:, None] + c * across - ground.origin[0]) / GRID_CELL_M).astype(np.int64)
        row = ((z + c * u[:, None] - s * across - ground.origin[1]) / GRID_CELL_M).astype(np.int64)
        height, width = ground.stand.shape
        inside = (row >= 0) & (column >= 0) & (row < height) & (column < width)
        dry: BoolArray = inside & ground.stand[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
        extent.append(float(along[np.argmax(dry.any(axis=1))]) if dry.any() else MAX_WATER_M)
    # Feet on the anchors of both ends; in flight, those that were there before
    away = np.where(np.isfinite(roads.feet[:, :, 0]), np.linalg.norm(roads.feet, axis=2), np.inf)
    foot = roads.feet[np.arange(len(away)), np.argmin(away, axis=1)]
    planted: BoolArray = np.any(np.isfinite(away), axis=1)
    usual = foot[planted].mean(axis=0)
    spare = FOOTING_STEP_M + float(np.linalg.norm(foot[planted] - usual, axis=1).max())
    foot = np.where(planted[:, None], foot, usual)
    edge = np.flatnonzero(meets)
    begin, t = foot[roads.source[edge]], roads.target[edge]
    delta = roads.delta[edge]
    end = compose_planar(delta, np.pad(foot[t], ((0, 0), (0, 1))))[:, :2]
    root = compose_planar(delta, roads.root[t])[:, :2]
    # Parts along and across the way over the water, by direction of the anchor
    turn = np.deg2rad(np.arange(-180.0, 180.0))[None]
    cos, sin = np.cos(turn), np.sin(turn)

    def parts(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        return p[:, 1:] * cos - p[:, :1] * sin, p[:, :1] * cos + p[:, 1:] * sin

    lever = np.deg2rad(0.5) * np.linalg.norm(end, axis=1)[:, None]
    first: FloatArray = extent[1] - parts(end)[0] - spare - lever
    last: FloatArray = -extent[0] - parts(begin)[0] + spare + lever
    is_dry: BoolArray = (first <= last) & (parts(delta[:, :2])[0] > -lever)
    if not is_dry.any():
        return np.zeros_like(meets), ground.disk((x, z), reach + MAX_WATER_M)
    # Where the root is after it
    ahead, side = parts(root)
    low, high = float((first + ahead)[is_dry].min()), float((last + ahead)[is_dry].max())
    most = float(np.maximum(np.abs(side), np.abs(side - parts(delta[:, :2])[1]))[is_dry].max())
    spare = REACH_CELLS * GRID_CELL_M
    dx, dz = ground.x[None] - x, ground.z[:, None] - z
    u, v = s * dx + c * dz, c * dx - s * dz
    found = np.zeros_like(meets)
    found[edge[is_dry.any(axis=1)]] = True
    return found, (u >= low - spare) & (u <= high + spare) & (np.abs(v) <= reach + most + spare)


class ConstraintLayers(NamedTuple):
    """The sketch as both parts of a bound see it."""

    meets: tuple[BoolArray, ...]  # (L) of (E,)
    distance: FloatArray  # (L, H, W) [m] through all constraints that are left
    nearest: FloatArray  # (L,) [m] least way from where each is met to the end
    leg: FloatArray  # (L, H, W) [m] to the next constraint alone
    between: FloatArray  # (L,) [m] least way from where each is met to the next,
    farthest: FloatArray  # (L,) [m] and the longest shortest one


def layer_distances(
    roads: SearchGraph, constraints: Sequence[SketchConstraint], ground: GroundGrid
) -> ConstraintLayers:
    """Distances through the constraints in order, last first ([Safonova2006]_ F24, layered)."""
    count = len(constraints)
    meets = [find_meeting_edges(roads, constraint) for constraint in constraints]
    distance, nearest = np.empty((count, *ground.free.shape)), np.zeros(count)
    leg, between, farthest = np.empty_like(distance), np.zeros(count), np.zeros(count)
    rest, slack = np.zeros(ground.free.shape), slack_allowance(constraints)
    for layer in range(count - 1, -1, -1):
        constraint = constraints[layer]
        centre = constraint.pin if np.isfinite(constraint.pin[0]) else (constraint.place[0], constraint.place[2])
        if constraint.kind in (JUMP, STEP) and not np.isnan(constraint.heading_rad):
            meets[layer], region = find_crossings(roads, meets[layer], constraint, ground)
        else:
            region = ground.disk(centre, meeting_reach(roads, meets[layer], constraint) + REACH_CELLS * GRID_CELL_M)
        disk = region & ground.wide
        rest = np.maximum(rest - slack[layer], 0.0)  # where a move has met it, there is so much less left
        nearest[layer] = float(rest[disk].min(initial=np.inf))
        rest = np.maximum(ground.distances(np.where(disk, rest, np.inf)), rest)  # what is left after it is left before
        distance[layer] = rest
        leg[layer] = rest if layer + 1 == count else ground.distances(np.where(disk, 0.0, np.inf))
        ways = np.zeros(1) if layer + 1 == count else leg[layer + 1][disk]
        between[layer] = float(ways.min(initial=np.inf))
        farthest[layer] = float(ways.max(initial=0.0, where=np.isfinite(ways)))
    return ConstraintLayers(tuple(meets), distance, nearest, leg, between, farthest)


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
        return distance, HeuristicTerms(np.array([rates.edge]), flat[None, :, None])
    if name in DIRECTIONAL_HEURISTICS:
        also = (rates.edge,) if name == "combined" else ()
        shares = LEG_RATE_FRACTIONS if name == "legs" else RATE_FRACTIONS
        rate: FloatArray = np.array([*also, *(rates.cycle * share for share in shares)])
        # Rows by the way to the next constraint, if it is to be walked
        longest = float(layers.leg[np.isfinite(layers.leg)].max(initial=0.0)) if name == "legs" else 0.0
        step = max(LEG_STEP_M, longest / MAX_LEG_ROWS)
        rows = int(longest / step) + 1
        drop = np.maximum(np.ceil(rates.length / step - 1e-9).astype(np.int64), 1)
        # Potentials through all layers from the last, on costs less rate times length
        base, rest = np.zeros((len(rate), count, rows, states)), np.zeros((count, states))
        for r in range(len(rate)):
            after = np.zeros(states) if final is None else final
            cost = roads.cost - rate[r] * rates.length
            for layer in range(count - 1, -1, -1):
                # Those who set out from the constraint before are not much farther away: beyond, it is no cheaper
                own = rows if layer == 0 else min(rows, 1 + int((layers.farthest[layer - 1] + LEG_ROOM_M) / step))
                meets, table = layers.meets[layer], base[r, layer, :own]
                table[0], _ = compute_potentials(roads.first, roads.target, cost, meets, roads.apart, after, states + 2)
                tabulate_costs(roads.first, roads.target, cost, drop, meets, roads.apart, after, table)
                base[r, layer, own:] = table[-1]
                # What is left where the constraint before this one was met
                after = table[min(int(layers.between[layer - 1] / step), own - 1)]
                if rate[r] == 0.0:
                    rest[layer - 1] = after
        end = NO_FINAL if final is None else final
        return layers.distance, HeuristicTerms(rate, base, layers.leg, step, rest, end)
    if name == "graph":
        ahead = _dearest_event_cost(roads, constraints, layers, np.zeros(count))
        return layers.distance, HeuristicTerms(np.zeros(1), ahead[None, :, None])
    nearest = layers.nearest
    if name == "unrepaired":
        # Way left [m] from each constraint itself, as if the root stood there
        nearest = np.zeros(count)
        for layer in range(count - 1):
            row, column = ground.cell((constraints[layer].place[0], constraints[layer].place[2]))
            nearest[layer] = layers.distance[layer + 1, row, column]
    ahead = _dearest_event_cost(roads, constraints, layers, rates.edge * nearest)
    return layers.distance, HeuristicTerms(np.array([rates.edge, 0.0]), np.stack([flat, ahead])[:, :, None])


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


def order_diverse_edges(
    roads_first: IntArray, cost: FloatArray, delta: FloatArray, cheap: int, event: IntArray
) -> tuple[IntArray, IntArray]:
    """Order of edges ``(E,)`` and how many of each state come first ``(N,)``.

    First are all that lead to a pick or a take-off ``event`` (E,), since each of them is another height, reach or
    flight; of the others the cheapest of every bin of 15 degrees and 15 cm of step, then the ``cheap`` cheapest; then
    the rest ([Safonova2006]_ searches all; this many give the same way nearly always, sooner).
    """
    states = len(roads_first) - 1
    source = np.repeat(np.arange(states), np.diff(roads_first))
    turn = np.floor(delta[:, 2] / np.deg2rad(15.0)).astype(np.int64) + 64
    step = np.floor(delta[:, :2] / 0.15).astype(np.int64) + 512
    is_first = np.isin(event, (*PICKS, FLIGHT))
    order = np.lexsort((cost, step[:, 1], step[:, 0], turn, source))
    order = order[~is_first[order]]
    key = np.stack([source, turn, step[:, 0], step[:, 1]])[:, order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    is_first[order[fresh]] = True
    others = order[~fresh][np.lexsort((cost[order[~fresh]], source[order[~fresh]]))]
    start = np.searchsorted(source[others], np.arange(states))
    is_first[others[np.arange(len(others)) - start[source[others]] < cheap]] = True
    return np.lexsort((cost, ~is_first, source)), np.bincount(source[is_first], minlength=states)
