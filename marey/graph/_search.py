"""Search of a motion graph for a sketch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph._ara_kernels import (
    DONE,
    EMPTY,
    EXPANSIONS,
    FULL,
    GOAL,
    JUMP,
    LATER,
    OPEN,
    PICK,
    REACH_ROOT,
    STATES,
    VIOLATIONS,
    Goals,
    Memory,
    World2D,
)
from marey.graph._graph import FLIGHT, PICK_LEFT, PICK_RIGHT, GraphArrays, MotionGraph, relative
from marey.graph._ground import CELL_M, Ground
from marey.graph._links import costs_to
from marey.world import Sketch

EPSILONS: Final = (10.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.0)
CHUNK: Final = 4000  # expansions between two looks at the clock
PICK_TOL_M: Final = 0.05
JUMP_TOL_M: Final = 0.4
MAX_REACH_M: Final = 1.2  # [m] hand from root, over the ground
START_STATES: Final = 40
CAPACITY: Final = 1_500_000
PLACE_CELL_M: Final = 0.05
YAW_CELLS: Final = 120


@dataclass(frozen=True, slots=True)
class Solution:
    """One solution on the way to the best."""

    epsilon: float  # asked for
    proved: float  # cost is at most this times the best
    cost: float
    expansions: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """What a search found."""

    status: str  # "optimal", "bounded", or why there is nothing
    edges: tuple[int, ...] = ()
    places: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))  # (len(edges) + 1, 3) anchors
    start: int = EMPTY  # state of the graph
    cost: float = np.inf
    epsilon: float = np.inf
    expansions: int = 0
    seconds: float = 0.0
    history: tuple[Solution, ...] = ()
    violations: int = 0  # of consistency, counted while expanding
    advice: str = ""

    @property
    def is_solved(self) -> bool:
        """Whether there is a way."""
        return bool(self.edges)


def search_graph(
    graph: MotionGraph,
    sketch: Sketch,
    *,
    epsilons: Sequence[float] = EPSILONS,
    budget_s: float = 20.0,
    on_solution: Callable[[Solution], bool | None] | None = None,
) -> SearchResult:
    """Find a way through the graph for a sketch, first any, then better ones, until the best or out of time."""
    from marey.graph._ara_kernels import reopen, search

    begin = time.perf_counter()
    problem = _Problem.of(graph, sketch)
    if problem.failure:
        return SearchResult(problem.failure, seconds=time.perf_counter() - begin, advice=problem.advice)
    arrays, memory = graph.arrays, _memory(CAPACITY)
    problem.push_starts(memory, epsilons[0])
    history: list[Solution] = []
    proved, status = np.inf, "timeout"
    for epsilon in epsilons:
        if history:
            least = reopen(memory, epsilon)
        state = 0
        while state == 0 and time.perf_counter() - begin < budget_s:
            state = search(
                arrays.first, arrays.target, arrays.cost, arrays.delta, arrays.path, arrays.event, arrays.hand,
                arrays.root, arrays.feet, arrays.flight, problem.world, problem.goals, problem.tables, problem.rest,
                problem.rate, PLACE_CELL_M, YAW_CELLS, epsilon, CHUNK, memory,
            )  # fmt: skip
        if state != DONE:
            status = "memory" if state == FULL else "timeout"
            break
        if memory.counts[GOAL] == EMPTY:
            status = "exhausted"
            break
        cost = float(memory.g[memory.counts[GOAL]])
        least = _least(memory)
        proved = max(1.0, min(epsilon, cost / least if least > 0.0 else np.inf, proved))
        history.append(Solution(epsilon, proved, cost, int(memory.counts[EXPANSIONS]), time.perf_counter() - begin))
        if (on_solution is not None and on_solution(history[-1])) or proved <= 1.0:
            break
    return _result(memory, history, status, time.perf_counter() - begin)


def _least(memory: Memory) -> float:
    """Least ``g + h`` of what is still open: no way can be cheaper."""
    count = int(memory.counts[STATES])
    is_open = (memory.status[:count] == OPEN) | (memory.status[:count] == 3)
    return float((memory.g[:count] + memory.h[:count])[is_open].min(initial=np.inf))


def _result(memory: Memory, history: list[Solution], status: str, seconds: float) -> SearchResult:
    expansions = int(memory.counts[EXPANSIONS])
    if not history:
        advice = "Give more time, a wider corridor or larger tolerances, or add clips"
        return SearchResult(status, expansions=expansions, seconds=seconds, advice=advice)
    edges: list[int] = []
    at = int(memory.counts[GOAL])
    places = [memory.place[at].copy()]
    while memory.parent[at] != EMPTY:
        edges.append(int(memory.edge[at]))
        at = int(memory.parent[at])
        places.append(memory.place[at].copy())
    best = history[-1]
    return SearchResult(
        "optimal" if best.proved <= 1.0 else "bounded",
        tuple(edges[::-1]),
        np.array(places[::-1]),
        int(memory.node[at]),
        best.cost,
        best.proved,
        expansions,
        seconds,
        tuple(history),
        int(memory.counts[VIOLATIONS]),
    )


def _memory(capacity: int) -> Memory:
    size = 1 << int(np.ceil(np.log2(2 * capacity)))
    counts = np.zeros(6, dtype=np.int64)
    counts[GOAL] = EMPTY

    def whole(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    return Memory(
        np.full(size, EMPTY, dtype=np.int64), whole(capacity), whole(capacity), whole(capacity),
        np.zeros((capacity, 3)), np.zeros(capacity), np.zeros(capacity), whole(capacity), whole(capacity),
        whole(capacity), whole(4 * capacity), np.zeros(4 * capacity), whole(capacity), counts,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """A sketch, as the search sees it."""

    arrays: GraphArrays
    sketch: Sketch
    world: World2D
    goals: Goals
    tables: FloatArray  # (L, N)
    rest: FloatArray  # (L,)
    rate: float
    starts: IntArray
    failure: str = ""
    advice: str = ""

    @classmethod
    def of(cls, graph: MotionGraph, sketch: Sketch) -> _Problem:
        """Compile a sketch."""
        arrays, ground = graph.arrays, Ground.of(sketch)
        goals = _goals(sketch)
        rate = least_rate(arrays)
        layers, nearest = _layers(ground, goals)
        world = World2D(ground.origin, CELL_M, layers, ground.free, ground.stand)
        tables = np.stack([_table(graph, goals, layer) for layer in range(len(goals.kind))])
        starts = _starts(graph)
        failure, advice = _failure(ground, sketch, layers, tables, starts)
        return cls(arrays, sketch, world, goals, tables, rate * nearest, rate, starts, failure, advice)

    def push_starts(self, memory: Memory, epsilon: float) -> None:
        """Put the states in which one may begin, with the root at the start of the sketch, into the open list."""
        from marey.graph._ara_kernels import estimate, push

        x, z = self.sketch.start.position
        heading = np.deg2rad(self.sketch.start.heading_deg or 0.0)
        for number, node in enumerate(self.starts):
            memory.node[number], memory.parent[number] = node, EMPTY
            memory.place[number] = relative(np.zeros(3), self.arrays.root[node])
            memory.place[number] = _turned(memory.place[number], heading, x, z)
            memory.h[number] = estimate(self.world, self.tables, self.rest, self.rate, int(node), 0, x, z)
            memory.key[number] = -2 - number
            memory.status[number] = OPEN
            key = epsilon * memory.h[number]
            memory.counts[1] = push(memory.heap, memory.keys, int(memory.counts[1]), number, key)
        memory.counts[STATES], memory.counts[LATER] = len(self.starts), 0


def least_rate(arrays: GraphArrays) -> float:
    r"""Least cost per metre, with a cell's diagonal added to every edge.

    .. math:: c_{min} = \min_e \frac{c(e)}{\ell(e) + \sqrt2\,\Delta}

    The ways left of two places in cells of size :math:`\Delta` differ by at most their distance and a diagonal, so
    that :math:`c_{min}` times the way left is consistent by construction.
    """
    return float((arrays.cost / (arrays.arc + np.sqrt(2.0) * CELL_M)).min())


def _turned(place: FloatArray, heading: float, x: float, z: float) -> FloatArray:
    c, s = np.cos(heading), np.sin(heading)
    return np.array([x + c * place[0] + s * place[1], z - s * place[0] + c * place[1], place[2] + heading])


def _goals(sketch: Sketch) -> Goals:
    rows: list[tuple[int, tuple[float, float, float], float, float, int, float]] = []
    for event in sketch.events:
        if event.kind in ("pick", "place"):
            at = sketch.world.object(event.object or "").position if event.kind == "pick" else event.to
            assert at is not None
            rows.append((PICK, at, np.nan, PICK_TOL_M, 3, 0.0))
        elif event.at is not None:
            kind = JUMP if event.kind == "jump" else REACH_ROOT
            tolerance = JUMP_TOL_M if kind == JUMP else sketch.goal.tolerance_m
            rows.append((kind, (event.at[0], 0.0, event.at[1]), np.nan, tolerance, 0, event.length_m or 0.0))
    goal = sketch.goal
    heading = np.nan if goal.heading_deg is None else float(np.deg2rad(goal.heading_deg))
    rows.append((REACH_ROOT, (goal.position[0], 0.0, goal.position[1]), heading, goal.tolerance_m, 0, 0.0))
    kind, place, headings, tolerance, hands, length = zip(*rows, strict=True)
    return Goals(
        np.array(kind), np.array(place, dtype=np.float64), np.array(headings), np.array(tolerance), np.array(hands),
        np.array(length),
    )  # fmt: skip


def _layers(ground: Ground, goals: Goals) -> tuple[FloatArray, FloatArray]:
    """Way left [m] with l constraints met ``(L, H, W)``, and the least way from where each is met ``(L,)``."""
    count = len(goals.kind)
    layers = np.empty((count, *ground.free.shape))
    nearest = np.zeros(count)
    rest = np.zeros(ground.free.shape)
    for layer in range(count - 1, -1, -1):
        reach = goals.tolerance[layer] + (MAX_REACH_M if goals.kind[layer] == PICK else 0.0) + 2.0 * CELL_M
        disk = ground.disk(goals.place[layer][[0, 2]], reach) & ground.free
        nearest[layer] = float(rest[disk].min(initial=np.inf))
        layers[layer] = ground.distances(np.where(disk, rest, np.inf))
        rest = layers[layer]
    return layers, nearest


def _table(graph: MotionGraph, goals: Goals, layer: int) -> FloatArray:
    """Least cost ``(N,)`` of reaching the event of a constraint, wherever; zero for places."""
    arrays = graph.arrays
    count = graph.num_states
    if goals.kind[layer] == REACH_ROOT:
        return np.zeros(count)
    if goals.kind[layer] == PICK:
        low = np.abs(arrays.hand[:, 1] - goals.place[layer, 1]) <= goals.tolerance[layer]
        wanted = np.flatnonzero(((arrays.event == PICK_LEFT) | (arrays.event == PICK_RIGHT)) & low)
    else:
        wanted = np.flatnonzero(arrays.event == FLIGHT)
    if not len(wanted):
        return np.full(count, np.inf)
    source = np.repeat(np.arange(count), np.diff(arrays.first))
    return costs_to(wanted, source, arrays.target, arrays.cost, count)


def _starts(graph: MotionGraph) -> IntArray:
    """States in which one may begin: both feet on the ground, as slow as any."""
    arrays = graph.arrays
    double = np.isfinite(arrays.feet[:, :, 0]).all(axis=1) & (arrays.event == 0)
    slow = arrays.arc / np.maximum(arrays.seconds, 1e-9)
    speed = np.array([slow[a:b].min(initial=np.inf) for a, b in zip(arrays.first[:-1], arrays.first[1:], strict=True)])
    order = np.argsort(np.where(double, speed, np.inf), kind="stable")
    return order[: min(START_STATES, int(double.sum()))]


def _failure(
    ground: Ground, sketch: Sketch, layers: FloatArray, tables: FloatArray, starts: IntArray
) -> tuple[str, str]:
    def cell(place: tuple[float, float]) -> tuple[int, int]:
        return int((place[1] - ground.origin[1]) / CELL_M), int((place[0] - ground.origin[0]) / CELL_M)

    if not ground.free[cell(sketch.start.position)]:
        return "start_in_collision", "Move the start off walls and into the corridor"
    if not ground.free[cell(sketch.goal.position)]:
        return "goal_in_collision", "Move the goal off walls and into the corridor"
    if not np.isfinite(layers[0][cell(sketch.start.position)]):
        return "no_2d_route", "Open the walls or widen the corridor"
    for layer in range(len(tables)):
        if not np.isfinite(tables[layer][starts]).any():
            return (
                f"no_behaviour_path({layer})",
                "Add clips that do this, or move the object to a height that they reach",
            )
    return "", ""
