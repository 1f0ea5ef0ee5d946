"""A graph made ready for the search, once, with blends near events; and memory that searches share.

Blended states are (A, C, w) and their edges are pairs of edges, beside all that is not blended.

A way goes over to a blend at a state A in one of two manners ([Safonova2006]_ F21). Along two edges of A itself: both
begin with one pose. Or along one edge of A and one of a state C of its class: the pose jumps by the part 1 - w of what
A and C differ by, and that gap is paid for as the gaps between merged states are. It comes back likewise. In between
it keeps its weight, so no planted foot moves.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph.arrays import (
    EMPTY,
    FLIGHT,
    PICKS,
    GraphArrays,
    SearchGraph,
    SearchMemory,
    allocate_memory,
    clear_memory,
    compose_planar,
    wrap_angles,
)
from marey.graph.paths import (
    blended_costs,
    blended_deltas,
    blended_flights,
    blended_hands,
    blended_paths,
    blended_seconds,
    find_partners,
    gap_cost_per_distance,
    state_distances,
)
from marey.graph.search.heuristics import (
    CostRates,
    measure_rates,
    order_diverse_edges,
    root_path_lengths,
    worst_case,
)
from marey.numerics import smootherstep

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


NUM_WEIGHTS: Final = 10  # from 0 to 1 ([Safonova2006]_ §4.3.1); those between are blends
WEIGHTS: Final = np.linspace(0.0, 1.0, NUM_WEIGHTS)[1:-1]
NUM_KEPT_PAIRS: Final = (8, 24, 12)  # of edges to or from a pair of states, by how far from the event
NEIGHBOURS: Final = 5  # events that one is blended with: those that are most like it
SHORTEST_JUMP_M: Final = 0.05  # [m] strides of a run are flights, too, and no events
UNLIKE_M: Final = 0.02  # [m] two events that differ by less have nothing between them
NUM_CHEAP_PAIRS: Final = 5  # edges of a state that are kept besides those that differ
MAX_STRETCH: Final = 1.4  # by which a blended edge may last longer or shorter than the one with the greater weight
MAX_TURN: Final = np.deg2rad(20.0)  # [rad] by which two blended flights may differ: momentum would jump (F32)
GAP_COST_FACTOR: Final = 6.0  # thresholds: a pose may jump by so much where a way goes over to a blend, or back


class EdgeBlends(NamedTuple):
    """Edges made of those of a graph: edge e is ``a[e]`` with ``weight[e]`` and ``c[e]`` with the rest, warped."""

    a: IntArray  # (E,)
    c: IntArray  # (E,)
    weight: FloatArray  # (E,)
    warp: FloatArray  # (E, 3) x, z [m], yaw [rad] by which the body is carried over its foot, beside what the clips do


class _EdgePairs(NamedTuple):
    """Pairs of edges (a, c), the states that they leave (A, C) and reach (B, D), and pairs of states that are nodes."""

    a: IntArray  # (L,)
    c: IntArray  # (L,)
    ends: IntArray  # (L, 4) A, C, B, D
    nodes: IntArray  # (P, 2) rising


class _BlendedRows(NamedTuple):
    """Blended edges between numbered states; ``gap`` is what they cost besides."""

    link: IntArray  # (R,) number of the pair of edges
    weight: IntArray  # (R,) number of the weight
    begin: IntArray  # (R,)
    finish: IntArray  # (R,)
    gap: FloatArray  # (R,) squared distance


def lay_out_pairs(graph: MotionGraph, roads: SearchGraph) -> tuple[SearchGraph, FloatArray, EdgeBlends]:
    """All edges of a graph, and blends of two within some edges of a pick or a flight.

    Returns:
        Roads, their arc lengths ``(E,)`` [m], and what is blended.
    """
    distance = state_distances(graph)
    # Breadth-first from pairs of events, backwards then forwards, over pairs of edges that may be blended
    partners = find_partners(graph, distance)
    count = graph.num_states
    source = roads.source
    into = np.argsort(roads.target, kind="stable")
    in_first = np.searchsorted(roads.target[into], np.arange(count + 1))
    # Pairs of picks, and of flights, of one class (n, 2): each with those that are most like it
    arrays, likes = graph.arrays, set[tuple[int, int]]()
    # Events of one class differ by where the hand is, or by how far and high one flies
    size = np.where(np.isin(arrays.event, PICKS)[:, None], arrays.hand, 0.0)
    leaving = arrays.source
    flights = np.flatnonzero((arrays.flight[:, 0] > 0.0) & (arrays.event[leaving] == FLIGHT))
    size[leaving[flights], :2] = arrays.flight[flights]
    is_jump = (arrays.event == FLIGHT) & (size[:, 0] > SHORTEST_JUMP_M)
    for s in np.flatnonzero(np.isin(arrays.event, PICKS) | is_jump).tolist():
        # The nearest partners that differ enough to be worth blending
        others = partners.of(s)
        others = others[is_jump[others] == is_jump[s]]
        others = others[np.linalg.norm(size[others] - size[s], axis=1) > UNLIKE_M]
        nearest = others[np.argsort(distance[s, others], kind="stable")][:NEIGHBOURS]
        likes.update((min(s, p), max(s, p)) for p in nearest.tolist())
    events, allowed = np.array(sorted(likes), dtype=np.int64).reshape(-1, 2), partners.matrix()
    gaps = gap_cost_per_distance(graph) * distance
    nodes, found = _unique_pairs(events), list[IntArray]()
    for order, first, end in ((into, in_first, source), (np.arange(len(source)), roads.first, roads.target)):
        frontier = events
        for kept in NUM_KEPT_PAIRS:
            # Pairs of edges next to the frontier; where both end in one state the blend is over
            around = [_neighbouring_pairs(graph, pair, order, first, end, gaps, kept) for pair in frontier]
            found.extend(around)
            apart = [edges for edges in around if len(edges) and end[edges[0, 0]] != end[edges[0, 1]]]
            if not apart:
                break
            ends = np.sort(end[np.concatenate(apart)], axis=1)
            fresh = sorted(_unique_pairs(ends[allowed[ends[:, 0], ends[:, 1]] & (ends[:, 0] != ends[:, 1])]) - nodes)
            frontier = np.array(fresh, dtype=np.int64).reshape(-1, 2)
            nodes.update(fresh)
    edges = np.unique(np.concatenate(found), axis=0) if found else np.zeros((0, 2), dtype=np.int64)
    ends = np.concatenate([source[edges], roads.target[edges]], axis=1)
    links = _EdgePairs(edges[:, 0], edges[:, 1], ends, np.array(sorted(nodes), dtype=np.int64).reshape(-1, 2))
    # All blended edges: from one state, from a pair or over a gap; to one state, to a pair or over a gap
    count, W, w = graph.num_states, len(WEIGHTS), WEIGHTS[None]
    A, C, B, D = links.ends.T
    # Numbers of blended states: one for each pair and weight, after the states of the graph
    number = np.full((count, count), -1, dtype=np.int64)
    for p, q in (links.nodes.T, links.nodes.T[::-1]):
        number[p, q] = count + W * np.arange(len(links.nodes))
    begin, finish = _state_numbers(number, A, C), _state_numbers(number, B, D)
    # A blend must last about as long as what it is mostly made of
    T = graph.arrays.seconds
    most = np.where(WEIGHTS >= 0.5, T[links.a][:, None], T[links.c][:, None])
    is_good = np.abs(np.log(blended_seconds(graph, links.a, links.c, WEIGHTS) / most)) <= np.log(MAX_STRETCH)
    limit = GAP_COST_FACTOR * graph.transitions.threshold
    # Edges between pairs, then into a blend over a gap, then out of one to the nearer state
    found = [_lookup(begin, finish, np.zeros(begin.shape), is_good & (begin >= 0) & (finish >= 0))]
    for state, part in ((A, (1.0 - w) ** 2), (C, w**2)):
        gap = part * distance[A, C][:, None]
        enters = is_good & (A != C)[:, None] & (gap <= limit) & (finish >= count)
        found.append(_lookup(np.repeat(state[:, None], W, axis=1), finish, gap, enters))
    gap = np.minimum((1.0 - w) ** 2, w**2) * distance[B, D][:, None]
    leaves = is_good & (B != D)[:, None] & (gap <= limit) & (begin >= count)
    nearer = np.asarray(np.where(w >= 0.5, B[:, None], D[:, None]), dtype=np.int64)
    found.append(_lookup(begin, nearer, gap, leaves))
    whole = (np.concatenate([part[column] for part in found]).astype(np.int64) for column in range(4))
    return _append_rows(graph, roads, links, _BlendedRows(*whole, gap=np.concatenate([part.gap for part in found])))


def _unique_pairs(pairs: IntArray) -> set[tuple[int, int]]:
    return {(int(p), int(q)) for p, q in pairs}


def _neighbouring_pairs(
    graph: MotionGraph, pair: IntArray, order: IntArray, first: IntArray, end: IntArray, gaps: FloatArray, kept: int
) -> IntArray:
    """Cheap pairs of edges ``(n, 2)`` that reach (or leave) a pair of states: from one state first, then from two."""
    arrays = graph.arrays
    own = [order[first[s] : first[s + 1]] for s in pair]
    a, c = (grid.ravel() for grid in np.meshgrid(*own, indexing="ij"))
    flies = (arrays.flight[a, 0] > 0.0) | (arrays.flight[c, 0] > 0.0)
    turn = np.abs(wrap_angles(arrays.delta[a, 2] - arrays.delta[c, 2]))
    good = np.isfinite(gaps[end[a], end[c]]) & ~(flies & (turn > MAX_TURN))
    a, c = a[good], c[good]
    cost, same = arrays.cost[a] + arrays.cost[c] + gaps[end[a], end[c]], end[a] == end[c]
    chosen = np.lexsort((cost, ~same))[:kept]
    return np.stack([a[chosen], c[chosen]], axis=1)


def _state_numbers(number: IntArray, first: IntArray, second: IntArray) -> IntArray:
    """Numbers ``(L, W)`` of the states (first, second, w); -1 if there is no such state."""
    rising = np.arange(len(WEIGHTS))
    at = np.where((first < second)[:, None], rising, rising[::-1])
    pairs = number[first, second][:, None]
    return np.where((first == second)[:, None], first[:, None], np.where(pairs < 0, -1, pairs + at))


def _lookup(begin: IntArray, finish: IntArray, gap: FloatArray, chosen: BoolArray) -> _BlendedRows:
    link, weight = np.nonzero(chosen)
    return _BlendedRows(link, weight, begin[chosen], finish[chosen], gap[chosen])


def _append_rows(
    graph: MotionGraph, roads: SearchGraph, links: _EdgePairs, rows: _BlendedRows
) -> tuple[SearchGraph, FloatArray, EdgeBlends]:
    """Write blended edges after those of the graph, and pairs of states at all weights after its states."""
    edges, arrays = len(roads.target), graph.arrays
    a, c, w = links.a[rows.link], links.c[rows.link], WEIGHTS[rows.weight]

    def with_blends(own: FloatArray, blended: FloatArray) -> FloatArray:
        """Values of edges, and of blended ones at their own weights."""
        return np.concatenate([own, blended[rows.link, rows.weight]])

    # Costs, displacements, paths and flights at all weights; a gap between the poses costs more
    cost = with_blends(roads.cost, blended_costs(graph, links.a, links.c, WEIGHTS))
    cost[edges:] += gap_cost_per_distance(graph) * rows.gap
    delta = with_blends(roads.delta, blended_deltas(graph, links.a, links.c, WEIGHTS))
    path = with_blends(roads.path, blended_paths(graph, links.a, links.c, WEIGHTS))
    flight = with_blends(roads.flight, blended_flights(graph, links.a, links.c, WEIGHTS))
    arc = np.concatenate([arrays.arc, w * arrays.arc[a] + (1.0 - w) * arrays.arc[c]])
    # Sort all edges by the state that they leave
    start, target = np.concatenate([roads.source, rows.begin]), np.concatenate([roads.target, rows.finish])
    by = np.argsort(start, kind="stable")
    states = _append_states(graph, roads, links.nodes)
    first = np.searchsorted(start[by], np.arange(len(states.event) + 1))
    order, few = order_diverse_edges(first, cost[by], delta[by], NUM_CHEAP_PAIRS, states.event[target[by]])
    laid = states._replace(
        first=first, order=order, few=few, target=target[by], cost=cost[by], delta=delta[by], path=path[by],
        flight=flight[by], apart=np.zeros(len(by), dtype=bool),
    )  # fmt: skip
    whole = np.arange(edges)
    blends = EdgeBlends(
        np.concatenate([whole, a])[by], np.concatenate([whole, c])[by], np.concatenate([np.ones(edges), w])[by],
        np.zeros((len(by), 3)),
    )  # fmt: skip
    return laid, arc[by], blends


WARPS: Final = ((0.0, 0.0), (-1.0, 0.0), (-0.5, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
"""Turn and length [-] of a step beside what its clip does, in parts of the largest; as captured comes first."""


class StepWarp(NamedTuple):
    """By how much steps may depart from captured ones, and what that costs."""

    turn_rad: float = 0.0  # largest turn about the planted foot
    length_m: float = 0.0  # by which a step is longer or shorter at most
    price: float = 0.0  # [-] of the cost of a step, for the largest warp


NO_WARP: Final = StepWarp()


def add_warped_steps(
    roads: SearchGraph, arc: FloatArray, limits: StepWarp
) -> tuple[SearchGraph, FloatArray, EdgeBlends]:
    r"""A graph whose steps also turn, and are longer and shorter, than their clips.

    A step is an edge that leaves one planted foot and is no take-off; of those that differ from one another, since only
    what differs needs warps. The body is carried over its foot by a share :math:`s(t)` of a displacement
    :math:`(x, z, \theta)` that rises smoothly from zero to one, and the step ends in the state in which the captured
    one does. A step with a part :math:`w` of the largest warp costs :math:`1 + p w^2` times as much.

    Args:
        roads: the graph.
        arc: length of the root's way along each edge ``(E,)`` [m].
        limits: largest warps, and p.
    """
    source, place = roads.source, np.empty(len(roads.order), dtype=np.int64)
    place[roads.order] = np.arange(len(place))
    is_step = (np.isfinite(roads.feet[:, :, 0]).sum(axis=1) == 1)[source] & (roads.event[roads.target] != FLIGHT)
    steps = np.flatnonzero(is_step & (place < (roads.first[:-1] + roads.few)[source]))
    kinds = [row for row in WARPS[1:] if limits.turn_rad * row[0] != 0.0 or limits.length_m * row[1] != 0.0]
    edge = np.concatenate([np.arange(len(place)), *[steps] * len(kinds)])
    share = np.concatenate([np.zeros((len(place), 2)), np.repeat(kinds, len(steps), axis=0).reshape(-1, 2)])
    # In the order of the search: states, then captured steps as they were, each with its warped ones behind it
    size = np.abs(share).max(axis=1)
    by = np.lexsort((size, place[edge]))
    edge, share, size = edge[by], share[by], size[by]
    # Along the step, which is from anchor to anchor
    ahead = roads.delta[edge, :2] / np.maximum(np.linalg.norm(roads.delta[edge, :2], axis=1, keepdims=True), 1e-9)
    warp = np.concatenate([limits.length_m * share[:, 1:] * ahead, limits.turn_rad * share[:, :1]], axis=1)
    # The root on its way is carried as it is in the motion
    carried = warp[:, None] * smootherstep(np.linspace(0.0, 1.0, roads.path.shape[1]))[:, None]
    path = compose_planar(carried, np.pad(roads.path[edge], ((0, 0), (0, 0), (0, 1))))[..., :2]
    states = len(roads.first) - 1
    laid = roads._replace(
        first=np.searchsorted(source[edge], np.arange(states + 1)), order=np.arange(len(edge)),
        few=roads.few + np.bincount(source[edge[size > 0.0]], minlength=states), target=roads.target[edge],
        cost=roads.cost[edge] * (1.0 + limits.price * size**2), delta=compose_planar(warp, roads.delta[edge]),
        path=path, flight=roads.flight[edge], apart=roads.apart[edge],
    )  # fmt: skip
    return laid, arc[edge], EdgeBlends(edge, edge, np.ones(len(edge)), warp)


def _append_states(graph: MotionGraph, roads: SearchGraph, nodes: IntArray) -> SearchGraph:
    """States, and pairs of states at all weights."""
    W, w = len(WEIGHTS), WEIGHTS[None, :, None]

    def mixed(values: FloatArray) -> FloatArray:
        flat = values.reshape(len(values), -1)
        blend = w * flat[nodes[:, 0]][:, None] + (1.0 - w) * flat[nodes[:, 1]][:, None]
        return np.concatenate([values, blend.reshape(-1, *values.shape[1:])])

    hand = mixed(roads.hand)
    event = np.concatenate([roads.event, np.repeat(roads.event[nodes[:, 0]], W)])
    picks = np.flatnonzero(np.isin(roads.event[nodes[:, 0]], PICKS))
    if len(picks):
        at = (len(roads.event) + W * picks[:, None] + np.arange(W)).ravel()
        hand[at] = blended_hands(graph, nodes[picks, 0], nodes[picks, 1], WEIGHTS).reshape(-1, 3)
    stands = np.concatenate([roads.stands, np.zeros(W * len(nodes), dtype=bool)])
    return roads._replace(event=event, hand=hand, root=mixed(roads.root), feet=mixed(roads.feet), stands=stands)


DEFAULT_MAX_STATES: Final = 5_000_000  # search states; about 0.8 GB if all are used
STAND_MPS: Final = 0.35  # [m/s] where the clips have no such state, double support at most so fast will do
MIN_STANDS: Final = 40  # and at least so many of the slowest
NUM_CHEAP_EDGES: Final = 5  # edges of a state that are kept besides those that differ
LONGEST_LEAD: Final = 20  # edges before a pick
NUM_KEPT_GRAPHS: Final = 8  # graphs that are kept ready


@dataclass(frozen=True, slots=True, eq=False)
class PreparedGraph:
    """A graph as the search walks it."""

    source: object  # what it was made of
    roads: SearchGraph
    rates: CostRates
    blends: EdgeBlends | None = None  # what its edges are made of; None: edges of the graph
    key: tuple[int, bool, StepWarp] = (1, False, NO_WARP)  # k, calm and warp of `prepare_graph`


_prepared_graphs: list[PreparedGraph] = []
_spare_memories: list[SearchMemory] = []
_lock = threading.Lock()


def prepare_graph(graph: MotionGraph, k: int = 1, *, calm: bool = False, warp: StepWarp = NO_WARP) -> PreparedGraph:
    """A graph, with blends of two near its picks if ``k`` is 2; made ready when it is first asked for.

    With ``calm``, flights and picks are allowed only where a constraint requires them. A ``warp`` is that of
    :func:`add_warped_steps`, for a graph without blends.
    """
    with _lock:
        for known in _prepared_graphs:
            if known.source is graph.arrays and known.key == (k, calm, warp):
                return known
    if calm:
        # The same graph with all flights and picks set apart
        prepared = prepare_graph(graph, k, warp=warp)
        # Picks to which states lead that have but one way to go
        edges = prepared.roads
        single = np.flatnonzero(np.diff(edges.first) == 1)
        edge = edges.first[single]
        pick: IntArray = np.where(np.isin(edges.event, PICKS), np.arange(len(edges.event)), EMPTY)
        end, own = np.zeros((len(pick), 3)), pick.copy()
        for _ in range(LONGEST_LEAD):
            after = pick[edges.target[edge]]
            new = (pick[single] == EMPTY) & (after != EMPTY)
            if not new.any():
                break
            pick[single[new]] = after[new]
            end[single[new]] = compose_planar(edges.delta[edge[new]], end[edges.target[edge[new]]])
        apart = (edges.flight[:, 0] > 0.0) | np.isin(edges.event[edges.target], PICKS)
        leap = np.full(len(pick), EMPTY)
        leap[single] = np.where(edges.flight[edge, 0] > 0.0, edge, EMPTY)
        edges = edges._replace(pick=np.where(own == EMPTY, pick, EMPTY), pick_end=end, leap=leap, apart=apart)
        rates = measure_rates(edges, prepared.rates.length)
        made = replace(prepared, roads=edges, rates=rates, key=(k, calm, warp))
    else:
        arrays, arc, blends = graph.arrays, graph.arrays.arc, None
        if k == 1:
            # Arrays of the graph in search order; copies, since kernels need writable arrays
            order, few = order_diverse_edges(
                arrays.first, arrays.cost, arrays.delta, NUM_CHEAP_EDGES, arrays.event[arrays.target]
            )
            whole = np.array
            roads = SearchGraph(
                whole(arrays.first), order, few, whole(arrays.target), whole(arrays.cost), whole(arrays.delta),
                whole(arrays.path), whole(arrays.flight), whole(arrays.event), whole(arrays.hand), whole(arrays.root),
                whole(arrays.feet), whole(find_standing_states(arrays)), np.zeros(len(arrays.target), dtype=bool),
            )  # fmt: skip
        else:
            roads, arc, blends = lay_out_pairs(graph, prepare_graph(graph).roads)
        if warp != NO_WARP:
            roads, arc, blends = add_warped_steps(roads, arc, warp)
        rates = measure_rates(roads, worst_case(root_path_lengths(roads, arc)))
        made = PreparedGraph(arrays, roads, rates, blends, (k, calm, warp))
    with _lock:
        _prepared_graphs.append(made)
        del _prepared_graphs[:-NUM_KEPT_GRAPHS]
    return made


def find_standing_states(arrays: GraphArrays) -> BoolArray:
    """States ``(N,)`` in which one may begin, stop and end: standing still, else both feet planted and slow."""
    if arrays.is_standing.any():
        return arrays.is_standing
    double = np.isfinite(arrays.feet[:, :, 0]).all(axis=1) & (arrays.event == 0)
    # Speed [m/s] of the slowest edge that leaves each state
    slowest = np.full(len(arrays.first) - 1, np.inf)
    np.minimum.at(slowest, arrays.source, arrays.arc / np.maximum(arrays.seconds, 1e-9))
    speed = np.where(double, slowest, np.inf)
    kth = np.sort(speed)[min(MIN_STANDS, len(speed)) - 1]
    return double & (speed <= max(STAND_MPS, kth))


@contextmanager
def borrow_memory(capacity: int) -> Generator[SearchMemory]:
    """Memory for one search; that of an earlier one, if it is large enough."""
    with _lock:
        at = next((n for n, memory in enumerate(_spare_memories) if len(memory.states) == capacity), None)
        memory = _spare_memories.pop(at) if at is not None else None
    memory = allocate_memory(capacity) if memory is None else memory
    try:
        yield memory
    finally:
        clear_memory(memory)
        with _lock:
            _spare_memories.append(memory)
            del _spare_memories[:-2]
