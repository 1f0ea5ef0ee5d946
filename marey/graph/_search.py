"""Search of a motion graph for a sketch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from marey.base import InputError
from marey.graph._ara import Memory, clear
from marey.graph._graph import MotionGraph
from marey.graph._search_fallback import Detours
from marey.graph._search_problem import Cancel, Clock, Problem
from marey.graph._search_result import BOUNDED, OPTIMAL, SearchResult, Solution, Step, rebuilder
from marey.graph._search_roads import CAPACITY, borrowed_memory, ready
from marey.graph._search_run import OnSolution, Run, compile_kernels
from marey.graph._sketch import Failure
from marey.world import Sketch

__all__ = ["EPSILONS", "SearchResult", "Solution", "Step", "search_graph"]

EPSILONS: Final = (3.0, 2.0, 1.5, 1.2, 1.0)
"""Factors of the best cost within which solutions are sought. Larger ones lead into places that one cannot stop in."""
SINGLE_SHARE: Final = 0.4  # of the budget that may be spent before blends are looked at


def search_graph(
    graph: MotionGraph,
    sketch: Sketch,
    *,
    k: int = 2,
    epsilon: Sequence[float] = EPSILONS,
    budget_s: float = 20.0,
    heuristic: str = "cycle",
    on_solution: OnSolution | None = None,
    cancel: Cancel | None = None,
    pick_tolerance_m: float | None = None,
    max_states: int = CAPACITY,
    few: bool = True,
    until: int | None = None,
    fallback: bool = True,
) -> SearchResult:
    """Find a way through the graph for a sketch: first any, then better ones, until the best or out of time.

    Args:
        graph: to search.
        sketch: start, goal, events, corridor and world.
        k: motions that may be blended, 1 or 2; with 2 the best way with 1 is found first and bounds the rest.
        epsilon: factors within which solutions are sought, falling; 1 is the best.
        budget_s: wall time.
        heuristic: "cycle", "combined", "2d", "graph" or "euclid", see :func:`~marey.graph._heuristics.bounds`.
        on_solution: called with every solution; returns true to stop.
        cancel: looked at some thirty times a second.
        pick_tolerance_m: how near a hand comes to what it picks up; 5 cm by default.
        max_states: search states that there is memory for.
        few: below an epsilon of 3 look only at edges that differ from one another and are cheap; bounds are then
            those of the graph of these edges.
        until: only the first so many constraints, the goal being the last.
        fallback: where no way is found, look for other ways inside phases whose own way meets a wall.

    Raises:
        InputError: ``k`` or ``epsilon`` make no search.
    """
    schedule = _checked(k, epsilon)
    made = ready(graph)
    compile_kernels()
    clock = Clock(time.perf_counter(), budget_s, cancel)
    problem = Problem.of(made, sketch, heuristic, pick_tolerance_m, until)
    is_blended = k == 2 and any(event.kind in ("pick", "place") for event in sketch.events)
    if isinstance(problem, Failure) and not (is_blended and problem.code.startswith("PARAM")):
        return SearchResult(problem.code, seconds=clock.seconds, advice=problem.advice)
    with borrowed_memory(max_states) as memory:
        run = None
        if isinstance(problem, Problem):
            share = Clock(clock.begin, SINGLE_SHARE * budget_s if is_blended else budget_s, cancel)
            looks = Detours(graph) if fallback and _has_walls(sketch) else None
            run = Run(problem, memory, share, on_solution, few=few, looks=looks)
            run.go(schedule)
        if is_blended and clock.stopped == "" and not (run is not None and run.done and run.proved > 1.0):
            options = (heuristic, pick_tolerance_m, until)
            run = _blended(graph, sketch, memory, clock, run, on_solution, schedule, options, few=few)
        if isinstance(run, Failure):
            return SearchResult(run.code, seconds=clock.seconds, advice=run.advice)
        assert run is not None
        return _result(graph, run, clock)


def _has_walls(sketch: Sketch) -> bool:
    world = sketch.world
    return bool(sketch.path is not None or world.walls or world.tables or world.boxes)


def _checked(k: int, epsilon: Sequence[float]) -> tuple[float, ...]:
    schedule = tuple(float(value) for value in epsilon)
    if k not in (1, 2):
        raise InputError(f"k is {k}", "One motion, or two that are blended")
    if not schedule or not min(schedule) >= 1.0 or any(a <= b for a, b in pairwise(schedule)):
        raise InputError(f"epsilon is {schedule}", "Give falling numbers, none below 1")
    return schedule


def _blended(
    graph: MotionGraph,
    sketch: Sketch,
    memory: Memory,
    clock: Clock,
    single: Run | None,
    on_solution: OnSolution | None,
    schedule: Sequence[float],
    options: tuple[str, float | None, int | None],
    *,
    few: bool,
) -> Run | Failure:
    """Search with blends of two; what was found without them is the cost to beat."""
    problem = Problem.of(ready(graph, 2), sketch, *options)
    if isinstance(problem, Failure):
        return problem if single is None else single
    clear(memory)
    best, history = (None, ()) if single is None else (single.best, single.history)
    run = Run(problem, memory, clock, on_solution, k=2, best=best, history=history, few=few)
    if single is not None:
        run.expansions, run.violations, run.detours = single.expansions, single.violations, single.detours
    run.go(schedule)
    return run


def _result(graph: MotionGraph, run: Run, clock: Clock) -> SearchResult:
    if run.best is None:
        code = run.stopped or "EXHAUSTED"
        return SearchResult(
            code, expansions=run.expansions, seconds=clock.seconds, violations=run.violations, stopped=run.stopped,
            advice=run.advice(code),
        )  # fmt: skip
    way, wishes = run.best, run.problem.wishes
    return SearchResult(
        status=OPTIMAL if run.proved <= 1.0 else BOUNDED,
        steps=way.steps(wishes, run.detours),
        places=way.places,
        start=int(way.nodes[0]),
        cost=way.cost,
        epsilon=run.proved,
        expansions=run.expansions,
        seconds=clock.seconds,
        history=tuple(run.history),
        errors=way.errors(wishes),
        met=way.met_at,
        violations=run.violations,
        stopped=run.stopped,
        rebuild=rebuilder(graph),
    )
