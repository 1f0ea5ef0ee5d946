r"""Lower bounds that know which way a walker faces.

:func:`add_direction_terms` tabulates what it costs to end turned as a goal asks. :func:`add_facing_terms` tabulates
whole stretches from one constraint to the next: a state, its direction, and what is left of the way along the straight
line to the constraint. Whoever has picked something up from a table faces the table, and has to turn before it counts
that the next one is four metres to the side; bounds that know of distances alone charge nothing for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph.arrays import (
    BIN_SHIFT,
    HEADING_TOL,
    MAX_ANCHOR_ROTATION_RAD,
    PICK,
    REACH,
    HeuristicTerms,
    SearchGraph,
    SketchConstraint,
    compose_planar,
    wrap_angles,
)
from marey.graph.search.ground import GRID_CELL_M, GroundGrid
from marey.graph.search.heuristics import (
    REACH_CELLS,
    ConstraintLayers,
    CostRates,
    compute_potentials,
    meeting_reach,
)

NUM_DIRECTION_BINS: Final = 60  # direction bins of a bound
NEIGHBOUR_BINS: Final = 2  # by which moved footsteps turn at most
MAX_SWEEPS: Final = 2000
FACING_STEP_M: Final = 0.02  # [m] of the way left along a line: an edge counts for up to so much more than it leads
FACING_BEHIND_M: Final = 0.6  # [m] that a place is passed by before more of it makes no difference
FACING_ROOM_M: Final = 1.0  # [m] by which a stretch is longer than from constraint to constraint; beyond, it counts so
MAX_FACING_ENTRIES: Final = 4e8  # edges times directions times rows of all tables: two seconds
PICK_ROOM_M: Final = 0.08  # [m] by which the root of a pick may be off: joins of clips


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


class FacingEdges(NamedTuple):
    """Edges of a graph, as tables of ways and directions read them; B directions."""

    first: IntArray  # (N + 1,) edges of state s are first[s] to first[s + 1]
    target: IntArray  # (E,)
    cost: FloatArray  # (E,)
    apart: BoolArray  # (E,) used only to meet a constraint
    turn: IntArray  # (E,) bins by which it turns, from 0 to B - 1,
    is_between: BoolArray  # (E,) or one more


@kernel
def tabulate_facing(
    edges: FacingEdges, drop: IntArray, meets: BoolArray, lead: IntArray, after: FloatArray, table: FloatArray
) -> None:
    r"""Least cost ``(K, N, B)`` by way left, state and direction.

    .. math:: V_k(s, b) = \min_e c_e + \min_{b'} \min(V_{k'}(t, b'), [e\ meets,\ k' \le \ell(t, b')] A(t, b'))

    with :math:`k' = \max(k - \delta_e(b), 0)`, and b' the one or two bins in which an edge may end.

    Args:
        edges: of the graph.
        drop: rows ``(E, B)`` by which the way left falls along an edge at most; positive.
        meets: edges that meet the constraint ``(E,)``.
        lead: last row ``(N, B)`` at which it is met there.
        after: least cost from then on ``(N, B)``.
        table: filled, from the first row on, which holds all that is nearer.
    """
    count, bins = table.shape[1], table.shape[2]
    # The lesser of a bin and the next
    near = np.empty_like(table)
    table[0], near[0] = np.inf, np.inf
    for k in range(len(table)):
        own, fell = table[k], True
        own[:] = np.inf
        # Ways inside the first row do not come nearer: they are followed until nothing falls
        while fell:
            fell = False
            for s in range(count):
                for e in range(edges.first[s], edges.first[s + 1]):
                    t, c, hits = edges.target[e], edges.cost[e], meets[e]
                    if edges.apart[e] and not hits:
                        continue
                    for b in range(bins):
                        row, end = max(k - drop[e, b], 0), b + edges.turn[e]
                        if end >= bins:
                            end -= bins
                        there = np.inf
                        if not edges.apart[e]:
                            there = near[row, t, end] if edges.is_between[e] else table[row, t, end]
                        if hits and row <= lead[t, end] and after[t, end] < there:
                            there = after[t, end]
                        if c + there < own[s, b] - 1e-12:
                            own[s, b] = c + there
                            fell = True
            for s in range(count):
                for b in range(bins):
                    near[k, s, b] = min(own[s, b], own[s, b + 1 if b + 1 < bins else 0])
            fell = fell and k == 0


def add_facing_terms(
    roads: SearchGraph, constraints: Sequence[SketchConstraint], layers: ConstraintLayers, ground: GroundGrid,
    start: Sequence[float], terms: HeuristicTerms,
) -> HeuristicTerms:  # fmt: skip
    r"""Terms :math:`V_m(u_m \cdot (p_m - x), s, \psi)`, least costs of all stretches that are left.

    Stretch m leads from constraint m - 1 to m along the line :math:`u_m`. An edge counts for as much as it leads along
    that line from its direction :math:`\psi`, the best of its bin; it may end in either bin that its turn leads to; the
    way left is rounded down at every edge. A pick is met only in directions in which the root, a reach away from the
    object, is on free ground; where footsteps give way, in directions near those. Walls are left out. Each of these
    makes the bound lower, never higher. Unchanged where the tables would take too long.
    """
    states, bins, last = len(roads.first) - 1, NUM_DIRECTION_BINS, len(constraints) - 1
    width = 2.0 * np.pi / bins
    yaw = (np.arange(bins) + 0.5) * width - np.pi - BIN_SHIFT
    places = np.array([w.pin if np.isfinite(w.pin[0]) else (w.place[0], w.place[2]) for w in constraints])
    lines = np.diff(np.vstack([start, places]), axis=0)
    lengths = np.linalg.norm(lines, axis=1)
    lines /= np.maximum(lengths, 1e-9)[:, None]
    rows = np.ceil((lengths + FACING_ROOM_M + FACING_BEHIND_M) / FACING_STEP_M).astype(np.int64)
    if float(rows.sum()) * bins * len(roads.target) > MAX_FACING_ENTRIES:
        return terms
    turn = np.floor(roads.delta[:, 2] / width + 1e-9).astype(np.int64)
    is_between = np.abs(roads.delta[:, 2] / width - turn) > 1e-6
    edges = FacingEdges(roads.first, roads.target, roads.cost, roads.apart, turn % bins, is_between)
    # Way (E,) [m] and direction of the root along an edge
    step = compose_planar(roads.delta, roads.root[roads.target])[:, :2] - roads.root[roads.source, :2]
    way, side = np.hypot(step[:, 0], step[:, 1])[:, None], np.arctan2(step[:, 0], step[:, 1])[:, None]
    reach = roads.hand[:, [0, 2]] - roads.root[:, :2]
    far, aside = np.hypot(reach[:, 0], reach[:, 1])[:, None], np.arctan2(reach[:, 0], reach[:, 1])[:, None]
    table = np.zeros((last + 1, int(rows.max()), states, bins))

    def row_of(way_left: FloatArray, layer: int) -> IntArray:
        """Row of a way left [m]."""
        row = np.floor((way_left + FACING_BEHIND_M) / FACING_STEP_M).astype(np.int64)
        return np.clip(row, 0, rows[layer] - 1)

    for layer in range(last, -1, -1):
        constraint, line = constraints[layer], np.arctan2(lines[layer, 0], lines[layer, 1])
        off = np.maximum(np.abs(wrap_angles(yaw + side - line)) - 0.5 * width, 0.0)
        drop = np.maximum(np.ceil(way * np.cos(off) / FACING_STEP_M - 1e-9).astype(np.int64), 1)
        # Where the root is when the constraint is met: how far before the place, by state and direction (N, B, 2)
        loose = meeting_reach(roads, layers.meets[layer], constraint)
        before, is_legal = np.zeros((states, bins, 2)), np.ones((states, bins), dtype=bool)
        if constraint.kind == PICK:
            if np.isnan(constraint.pin[0]):
                before = far[..., None] * np.stack([np.sin(aside + yaw), np.cos(aside + yaw)], axis=-1)
                loose = constraint.tolerance_m + 0.5 * width * float(far[np.isin(roads.event, (1, 2))].max(initial=0.0))
            is_legal = _is_free_near(ground, places[layer] - before, loose + PICK_ROOM_M)
        lead = row_of(before @ lines[layer] + loose + constraint.slack_m, layer)
        after = np.zeros((states, bins))
        if layer < last:
            left = lengths[layer + 1] + before @ lines[layer + 1] - loose
            after = table[layer + 1][row_of(left, layer + 1), np.arange(states)[:, None], np.arange(bins)]
        if constraint.kind == REACH and np.isfinite(constraint.heading_rad):
            middle = yaw + roads.root[:, 2:3] - constraint.heading_rad
            is_legal = np.abs(wrap_angles(middle)) <= HEADING_TOL + 0.5 * width + 1e-9
        after = np.where(is_legal, after, np.inf)
        lead = np.where(is_legal, lead, -1)
        # The bins in which an edge may end, and those to which moved footsteps turn
        spread = int(np.ceil(MAX_ANCHOR_ROTATION_RAD / width)) + 1 if constraint.slack_m > 0.0 else 0
        shifts = range(-spread, spread + 2)
        after = np.minimum.reduce([np.roll(after, -n, axis=1) for n in shifts])
        lead = np.maximum.reduce([np.roll(lead, -n, axis=1) for n in shifts])
        own = table[layer, : rows[layer]]
        tabulate_facing(edges, drop, layers.meets[layer], lead, after, own)
        table[layer, rows[layer] :] = own[-1]
    away = np.column_stack([-lines, np.sum(lines * places, axis=1) + FACING_BEHIND_M]) / FACING_STEP_M
    return terms._replace(facing=table, line=away)


def _is_free_near(ground: GroundGrid, places: FloatArray, room_m: float) -> BoolArray:
    """Whether there is a free cell within some distance of places ``(..., 2)``."""
    from scipy.ndimage import distance_transform_edt  # pyright: ignore[reportUnknownVariableType]

    away = GRID_CELL_M * np.asarray(distance_transform_edt(~ground.free))
    height, width = away.shape
    row = np.clip(((places[..., 1] - ground.origin[1]) / GRID_CELL_M).astype(np.int64), 0, height - 1)
    column = np.clip(((places[..., 0] - ground.origin[0]) / GRID_CELL_M).astype(np.int64), 0, width - 1)
    return away[row, column] <= room_m + REACH_CELLS * GRID_CELL_M
