"""Search of a motion graph for a sketch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from marey.base import FloatArray, InputError
from marey.graph._ara import (
    DONE,
    EDGE,
    EMPTY,
    EXPANSIONS,
    FULL,
    MET,
    NODE,
    PICK,
    RUNNING,
    VIOLATIONS,
    YAW,
    Goals,
    H,
    Memory,
    Terms,
    World2D,
    least_open,
)
from marey.graph._graph import MotionGraph, composed, relative
from marey.graph._ground import CELL_M, Ground
from marey.graph._heuristics import bounds, lay_out
from marey.graph._search_result import BOUNDED, OPTIMAL, SearchResult, Solution, Step, rebuilder
from marey.graph._search_roads import CAPACITY, Ready, borrowed_memory, ready
from marey.graph._sketch import (
    Failure,
    Wish,
    as_goals,
    check_ground,
    check_parameters,
    check_route,
    compile_sketch,
)
from marey.world import Sketch

EPSILONS: Final = (10.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.0)
FEW_BELOW: Final = 3.0  # below this epsilon only edges that differ are looked at
FIRST_CHUNK: Final = 256  # expansions before the first look at the clock
LOOK_S: Final = 0.03  # [s] between two looks
START_STATES: Final = 40
OnSolution = Callable[[Solution], bool | None]


class Cancel(Protocol):
    """Something that can be set to stop a search, as ``threading.Event``."""

    def is_set(self) -> bool: ...


def search_graph(
    graph: MotionGraph,
    sketch: Sketch,
    *,
    k: int = 1,
    epsilon: Sequence[float] = EPSILONS,
    budget_s: float = 20.0,
    heuristic: str = "combined",
    on_solution: OnSolution | None = None,
    cancel: Cancel | None = None,
    pick_tolerance_m: float | None = None,
    max_states: int = CAPACITY,
) -> SearchResult:
    """Find a way through the graph for a sketch: first any, then better ones, until the best or out of time.

    Args:
        graph: to search.
        sketch: start, goal, events, corridor and world.
        k: motions that may be blended, 1 or 2; with 2 the best way with 1 is found first and bounds the rest.
        epsilon: factors within which solutions are sought, falling; 1 is the best.
        budget_s: wall time.
        heuristic: "combined", "cycle", "2d", "graph" or "euclid", see :func:`~marey.graph._heuristics.bounds`.
        on_solution: called with every solution; returns true to stop.
        cancel: looked at some thirty times a second.
        pick_tolerance_m: how near a hand comes to what it picks up; 5 cm by default.
        max_states: search states that there is memory for.

    Raises:
        InputError: ``k`` or ``epsilon`` make no search.
    """
    schedule = _checked(k, epsilon)
    clock = Clock(time.perf_counter(), budget_s, cancel)
    made = ready(graph.arrays)
    problem = Problem.of(made, sketch, heuristic, pick_tolerance_m)
    if isinstance(problem, Failure):
        return SearchResult(problem.code, seconds=clock.seconds, advice=problem.advice)
    with borrowed_memory(max_states) as memory:
        run = Run(problem, memory, clock, on_solution)
        run.go(schedule)
        return run.result(graph)


def _checked(k: int, epsilon: Sequence[float]) -> tuple[float, ...]:
    schedule = tuple(float(value) for value in epsilon)
    if k not in (1, 2):
        raise InputError(f"k is {k}", "One motion, or two that are blended")
    if not schedule or min(schedule) < 1.0 or any(a <= b for a, b in pairwise(schedule)):
        raise InputError(f"epsilon is {schedule}", "Give falling numbers, none below 1")
    return schedule


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, and who may stop it."""

    begin: float
    budget_s: float
    cancel: Cancel | None = None

    @property
    def seconds(self) -> float:
        """Since the search began."""
        return time.perf_counter() - self.begin

    @property
    def stopped(self) -> str:
        """Why to stop, if so."""
        if self.cancel is not None and self.cancel.is_set():
            return "CANCELLED"
        return "TIMEOUT" if self.seconds >= self.budget_s else ""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A sketch on a graph."""

    made: Ready
    sketch: Sketch
    wishes: tuple[Wish, ...]
    goals: Goals
    world: World2D
    terms: Terms
    rows: FloatArray  # (L, 10) the goals

    @classmethod
    def of(cls, made: Ready, sketch: Sketch, heuristic: str, pick_tolerance_m: float | None) -> Problem | Failure:
        """Compile a sketch, or tell why it is impossible."""
        roads, ground = made.roads, Ground.of(sketch)
        wishes = compile_sketch(sketch, roads, pick_tolerance_m=pick_tolerance_m)
        goals = as_goals(wishes)
        failure = check_ground(sketch, ground, wishes) or check_parameters(roads, goals, wishes)
        if failure is not None:
            return failure
        layers = lay_out(roads, goals, ground)
        failure = check_route(ground, sketch, layers)
        if failure is not None:
            return failure
        distance, terms = bounds(heuristic, roads, made.rates, goals, ground, layers)
        world = World2D(ground.origin, CELL_M, np.ascontiguousarray(distance), ground.free, ground.stand)
        return cls(made, sketch, wishes, goals, world, terms, goals.rows())

    def starts(self) -> list[tuple[int, FloatArray]]:
        """States in which one may begin, and their anchors with the root at the start of the sketch."""
        x, z = self.sketch.start.position
        heading = self.sketch.start.heading_deg
        yaw = self._towards() if heading is None else float(np.deg2rad(heading))
        frame = np.array([x, z, yaw])
        nodes = np.flatnonzero(self.made.roads.stands)
        return [(int(n), composed(frame, relative(np.zeros(3), self.made.roads.root[n]))) for n in nodes]

    def _towards(self) -> float:
        path, start = self.sketch.path, self.sketch.start.position
        if path is not None:
            return float(path.heading_at(path.nearest(start)[0]))
        place = self.wishes[0].place
        return float(np.arctan2(place[0] - start[0], place[2] - start[1]))


class Run:
    """One anytime search."""

    def __init__(
        self, problem: Problem, memory: Memory, clock: Clock, on_solution: OnSolution | None, k: int = 1
    ) -> None:
        self.problem, self.memory, self.clock, self.on_solution, self.k = problem, memory, clock, on_solution, k
        self.history: list[Solution] = []
        self.upper, self.proved, self.stopped = np.inf, np.inf, ""
        self._chunk = FIRST_CHUNK

    def go(self, schedule: Sequence[float]) -> None:
        """Search with one epsilon after the other."""
        from marey.graph._ara_kernels import reopen

        self._begin(schedule[0])
        for number, epsilon in enumerate(schedule):
            if number:
                reopen(self.memory, epsilon)
            if not self._settle(epsilon) or self._note(epsilon):
                break

    def _begin(self, epsilon: float) -> None:
        from marey.graph._ara_kernels import begin

        p = self.problem
        for node, place in p.starts():
            begin(p.made.roads, p.world, p.terms, self.memory, node, place, epsilon, len(p.wishes))

    def _settle(self, epsilon: float) -> bool:
        """Search until nothing better can be within this epsilon; false when stopped."""
        from marey.graph._ara_kernels import search

        p, state = self.problem, RUNNING
        while state == RUNNING:
            self.stopped = self.clock.stopped
            if self.stopped:
                return False
            before = time.perf_counter()
            state = search(
                p.made.roads, p.world, p.rows, p.terms, self.memory, self.upper, epsilon, epsilon < FEW_BELOW,
                self._chunk,
            )  # fmt: skip
            self._adapt(time.perf_counter() - before)
        self.stopped = "MEMORY" if state == FULL else ""
        return state == DONE

    def _adapt(self, seconds: float) -> None:
        """So many expansions that the clock is looked at in time; this changes nothing that is found."""
        factor = float(np.clip(LOOK_S / max(seconds, 1e-6), 0.5, 2.0))
        self._chunk = int(np.clip(factor * self._chunk, 32, 100_000))

    def _note(self, epsilon: float) -> bool:
        """Tell of what was found; true if there is nothing more to do."""
        if self.memory.goal == EMPTY:
            return True
        cost = self.memory.goal_cost
        least = min(least_open(self.memory), cost)
        self.proved = max(1.0, min(epsilon, cost / max(least, 1e-300), self.proved))
        found = Solution(
            epsilon, self.proved, cost, int(self.memory.counts[EXPANSIONS]), self.clock.seconds, self.k
        )  # fmt: skip
        self.history.append(found)
        stop = self.on_solution is not None and bool(self.on_solution(found))
        return stop or self.proved <= 1.0

    def result(self, graph: MotionGraph) -> SearchResult:
        """What was found so far."""
        memory, clock = self.memory, self.clock
        counts = int(memory.counts[EXPANSIONS]), clock.seconds, tuple(self.history)
        violations = int(memory.counts[VIOLATIONS])
        if memory.goal == EMPTY:
            code = self.stopped or "EXHAUSTED"
            advice = self._advice(code)
            return SearchResult(code, (), np.zeros((0, 3)), EMPTY, np.inf, np.inf, *counts, violations=violations,
                                stopped=self.stopped, advice=advice)  # fmt: skip
        chain = memory.chain()
        places = memory.real[chain][:, : YAW + 1]
        steps, met = self._steps(chain)
        cost = memory.goal_cost
        proved = self.proved if self.history and self.history[-1].cost == cost else self._bound(cost)
        status = OPTIMAL if proved <= 1.0 else BOUNDED
        return SearchResult(
            status, steps, places, int(memory.whole[chain[0], NODE]), cost, proved, *counts, self._errors(chain, met), met,
            violations, self.stopped, rebuild=rebuilder(graph),
        )  # fmt: skip

    def _bound(self, cost: float) -> float:
        return max(1.0, cost / max(min(least_open(self.memory), cost), 1e-300))

    def _steps(self, chain: list[int]) -> tuple[tuple[Step, ...], tuple[int, ...]]:
        memory = self.memory
        steps: list[Step] = []
        met: list[int] = []
        for before, here in pairwise(chain):
            edge = int(memory.whole[here, EDGE])
            steps.append(Step(edge, edge, 1.0, memory.real[before, : YAW + 1].copy()))
            if memory.whole[here, MET] > memory.whole[before, MET]:
                hold = self.problem.wishes[len(met)].hold_s
                met.append(len(steps) - 1)
                steps[-1] = replace(steps[-1], hold_s=hold)
        return tuple(steps), tuple(met)

    def _errors(self, chain: list[int], met: Sequence[int]) -> tuple[float, ...]:
        """Distance [m] at which each constraint was met."""
        memory, roads = self.memory, self.problem.made.roads
        errors: list[float] = []
        for layer, step in enumerate(met):
            here, wish = chain[step + 1], self.problem.wishes[layer]
            node, place = memory.whole[here, NODE], memory.real[here, : YAW + 1]
            if wish.kind == PICK:
                hand = composed(place, np.array([roads.hand[node, 0], roads.hand[node, 2], 0.0]))
                errors.append(float(np.linalg.norm(
                    [hand[0] - wish.place[0], roads.hand[node, 1] - wish.place[1], hand[1] - wish.place[2]]
                )))  # fmt: skip
            else:
                root = composed(place, roads.root[node])
                errors.append(float(np.hypot(root[0] - wish.place[0], root[1] - wish.place[2])))
        return tuple(errors)

    def _advice(self, code: str) -> str:
        """What would help when there is no way."""
        count = self.memory.num_states
        met = self.memory.whole[:count, MET]
        done = int(met.max(initial=0))
        wish = self.problem.wishes[min(done, len(self.problem.wishes) - 1)]
        left = float(self.memory.real[:count, H][met == done].min(initial=np.inf))
        got = f"{done} of {len(self.problem.wishes)} constraints were met; '{wish.name}' was not (cost left {left:.3g})"
        more = {"TIMEOUT": "give more time", "CANCELLED": "let it run longer", "MEMORY": "raise max_states"}
        first = more.get(code, "this graph has no way for the sketch")
        return f"{got}: {first}, widen the corridor, raise tolerances, use k = 2, or add clips"
