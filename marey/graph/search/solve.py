"""Search of a motion graph for a sketch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.graph.arrays import SearchMemory, clear_memory
from marey.graph.database.settings import SearchSettings
from marey.graph.paths import BOUNDED, OPTIMAL, PathStep, SearchResult, SearchSolution
from marey.graph.reconstruction.motion import final_errors
from marey.graph.search.anytime import AnytimeSearch, compile_kernels
from marey.graph.search.blended_graph import DEFAULT_MAX_STATES, NO_WARP, StepWarp, borrow_memory, prepare_graph
from marey.graph.search.problem import CancelToken, Detours, SearchClock, SearchProblem
from marey.graph.search.sketch import SearchFailure, leap_low_boxes
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


__all__ = ["EPSILONS", "PathStep", "SearchResult", "SearchSolution", "search_graph"]

EPSILONS: Final = (3.0, 2.0, 1.5, 1.2, 1.0)
"""Factors of the best cost within which solutions are sought. Larger ones lead into places that one cannot stop in."""
SEARCH_METHODS: Final = ("moved", "img_ara")
OBJECTIVES: Final = ("effort", "time", "smoothness", "speed")
NUM_WEIGHED_GRAPHS: Final = 8  # that are kept
TRANSITION_FACTOR: Final = 4.0  # [-] by which transitions are dearer for "smoothness"
SPEED_WEIGHT: Final = 4.0  # [-] of the squared relative error of the speed, for "speed"
PINNED_SHARE: Final = 0.1  # [-] of the budget for captured picks alone, where a root is pinned


@lru_cache(maxsize=NUM_WEIGHED_GRAPHS)
def weigh_edges(graph: MotionGraph, objective: str, speed_mps: float | None = None) -> MotionGraph:
    r"""The graph with costs :math:`c = T p + t` of its edges by an objective.

    Effort a second :math:`p` and the price :math:`t` of transitions are those of the build ("effort"). "time" takes
    every second as hard as the median one, "smoothness" every transition as four times as dear; "speed" multiplies
    :math:`p` by :math:`1 + 4 (v / v^* - 1)^2`.
    """
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, "the search", OBJECTIVES)
    arrays, power, price = graph.arrays, graph.arrays.power, graph.arrays.price
    if objective == "time":
        power = np.full_like(power, np.median(power))
    elif objective == "smoothness":
        price = TRANSITION_FACTOR * price
    elif speed_mps is None:
        raise InputError("the sketch has no speed to keep to", "Give it speed_mps, or choose another objective")
    else:
        power = power * (1.0 + SPEED_WEIGHT * (arrays.arc / arrays.seconds / speed_mps - 1.0) ** 2)
    return replace(graph, arrays=arrays._replace(power=power, price=price, cost=arrays.seconds * power + price))


def search_graph(
    graph: MotionGraph,
    sketch: Sketch,
    *,
    k: int = 2,
    epsilon: Sequence[float] = EPSILONS,
    budget_s: float = 20.0,
    heuristic: str = "legs",
    on_solution: Callable[[SearchSolution], bool | None] | None = None,
    cancel: CancelToken | None = None,
    pick_tolerance_m: float | None = None,
    max_states: int = DEFAULT_MAX_STATES,
    few: bool = True,
    until: int | None = None,
    fallback: bool = True,
    calm: bool = True,
    direct: bool = True,
    method: str = "moved",
    objective: str = "effort",
    settings: SearchSettings | None = None,
) -> SearchResult:
    """Find a way through the graph for a sketch: first any, then better ones, until the best or out of time.

    Args:
        graph: to search.
        sketch: start, goal, events, corridor and world.
        k: motions that may be blended, 1 or 2; with 2 a way with 1 is found first and is the cost to beat. A way
            without blends that stays the cheapest keeps its bound, which is that of the graph without blends.
        epsilon: factors within which solutions are sought, falling; 1 is the best.
        budget_s: processor time of this thread [s]; four times as much of the wall's ends the search too.
        heuristic: "legs", "cycle", "combined", "thesis", "2d", "graph" or "euclid", see
            :func:`~marey.graph.search.heuristics.compute_bounds`.
        on_solution: called with every solution, whose ``result`` can be rebuilt at once; returns true to stop.
        cancel: looked at some thirty times a second.
        pick_tolerance_m: how near a hand comes to what it picks up; 5 cm by default.
        max_states: search states that there is memory for.
        few: below an epsilon of 3 look only at edges that differ from one another and are cheap; bounds are then
            those of the graph of these edges.
        until: only the first so many constraints, the goal being the last.
        calm: jump and pick up only where a constraint asks for it, unless there is no such way; bounds are then those
            of the graph without other jumps and picks.
        direct: where no path is drawn, keep to places through which a way is at most a tenth and 1 m longer than the
            shortest, unless there is no such way; bounds are then those of such ways.
        fallback: where no way is found, look for other ways inside phases whose own way meets a wall.
        method: "moved": footsteps before a pick give way by some centimetres, each by 3 cm and 3 degrees at most, so
            that the hand is over its object and a pinned root at its pin; the world is looked at again with these
            steps. Of what the hand is off, arm and spine do up to 5 cm in the final motion. "img_ara": steps are as
            captured and blended, as in [Safonova2006]_.
        objective: what costs are made of: "effort", "time", "smoothness" or "speed", see :func:`weigh_edges`.
        settings: distances, limits of steps that are warped where captured ones find no way, and shares of the budget;
            bounds of such a way are those of the graph with warped steps.

    Raises:
        InputError: ``k`` or ``epsilon`` make no search.
        UnknownNameError: there is no such method or objective.
    """
    if objective != "effort":
        graph = weigh_edges(graph, objective, sketch.speed_mps if objective == "speed" else None)
    schedule = tuple(float(value) for value in epsilon)
    if k not in (1, 2):
        raise InputError(f"k is {k}", "One motion, or two that are blended")
    if not schedule or not min(schedule) >= 1.0 or any(a <= b for a, b in pairwise(schedule)):
        raise InputError(f"epsilon is {schedule}", "Give falling numbers, none below 1")
    # Whether there is something that blends may help with
    is_blended = k == 2 and (
        bool(sketch.world.rivers) or any(event.kind in ("pick", "place", "jump") for event in sketch.events)
    )
    if method not in SEARCH_METHODS:
        raise UnknownNameError("method", method, "the search", SEARCH_METHODS)
    chosen = SearchSettings() if settings is None else settings
    if method == "img_ara":
        # Captured picks hardly ever have hand and pinned root both in place: most of the time is for blends
        is_pinned = any(event.kind in ("pick", "place") and event.at is not None for event in sketch.events)
        share = min(chosen.unblended_share, PINNED_SHARE) if is_pinned else chosen.unblended_share
        chosen = replace(chosen, slack_m=0.0, arm_m=0.0, turn_rad=0.0, stretch_m=0.0, unblended_share=share)
    ask = _SearchQuery(
        graph,
        sketch,
        schedule,
        heuristic,
        pick_tolerance_m,
        chosen,
        until,
        is_blended,
        few,
        method,
        on_solution,
    )
    # What is made once for a graph is not charged to the budget
    prepare_graph(graph, calm=calm)
    compile_kernels()
    clock = SearchClock(budget_s, cancel)
    with borrow_memory(max_states) as memory:
        direct = direct and sketch.path is None
        run = ask.answer(memory, clock, calm=calm, direct=direct)
        if isinstance(run, SearchFailure) and run.code == "NO_2D_ROUTE":
            # Boxes that close the way are jumped over where they are low enough
            ask = replace(ask, sketch=leap_low_boxes(sketch, chosen), is_blended=k == 2)
            run = ask.answer(memory, clock, calm=calm, direct=direct) if ask.sketch is not sketch else run
        # Longer ways, then warped steps, then other ways inside phases where something may stand in the way, then
        # unasked jumps
        world = sketch.world
        has_walls = bool(sketch.path is not None or world.walls or world.tables or world.boxes)
        warped = replace(ask, warp=StepWarp(chosen.turn_rad, chosen.stretch_m, chosen.warp_price))
        is_warped = chosen.turn_rad > 0.0 or chosen.stretch_m > 0.0
        tries = (
            (ask, calm, direct),
            (replace(warped, is_blended=False), calm, is_warped),
            (replace(ask, is_blended=False, looks=Detours(graph)), calm, fallback and has_walls),
            (ask, False, calm),
            (warped, False, calm and is_warped),
        )
        for other, is_calm, is_meant in tries:
            if is_meant and not isinstance(run, SearchFailure) and run.best is None and not clock.stopped:
                clear_memory(memory)
                run = other.answer(memory, clock, calm=is_calm, before=run)
        if isinstance(run, SearchFailure):
            return SearchResult(run.code, seconds=clock.seconds, advice=run.advice)
        return _make_result(graph, ask.sketch, run, clock)


@dataclass(frozen=True, slots=True, eq=False)
class _SearchQuery:
    """Arguments of one search."""

    graph: MotionGraph
    sketch: Sketch
    schedule: tuple[float, ...]
    heuristic: str
    pick_tolerance_m: float | None
    settings: SearchSettings
    until: int | None
    is_blended: bool
    few: bool
    method: str
    on_solution: Callable[[SearchSolution], bool | None] | None
    warp: StepWarp = NO_WARP
    looks: Detours | None = None  # other ways inside phases

    def answer(
        self,
        memory: SearchMemory,
        clock: SearchClock,
        *,
        calm: bool,
        direct: bool = False,
        before: AnytimeSearch | None = None,
    ) -> AnytimeSearch | SearchFailure:
        """Search without blends, then with them; what was found without them is the cost to beat."""
        problem = self._problem(1, calm, direct)
        if isinstance(problem, SearchFailure) and not (self.is_blended and problem.code.startswith("PARAM")):
            return problem
        share = self.settings.direct_share if direct else self.settings.calm_share if calm else 1.0
        patience = clock.part(share)

        def tell(found: SearchSolution, run: AnytimeSearch) -> bool | None:
            made = _make_result(self.graph, self.sketch, run, clock)
            return self.on_solution is not None and self.on_solution(replace(found, result=made))

        listener = None if self.on_solution is None else tell
        run = before
        if isinstance(problem, SearchProblem):
            share = clock.part(self.settings.unblended_share) if self.is_blended else clock
            run = AnytimeSearch(
                problem,
                memory,
                share,
                listener,
                few=self.few,
                looks=self.looks,
                before=before,
                patience=patience.part(self.settings.unblended_share) if self.is_blended else patience,
            )
            run.run_schedule(self.schedule)
        is_over = clock.stopped != "" or (run is not None and run.done and run.proved > 1.0)
        if self.is_blended and not is_over:
            # Blends are laid out once for a graph, after the first way
            spent = clock.seconds
            prepare_graph(self.graph, 2, calm=calm)
            clock = replace(clock, budget_s=clock.budget_s + clock.seconds - spent)
            blended = self._problem(2, calm, direct, is_free=self.method == "img_ara")
            if isinstance(blended, SearchFailure):
                return blended if run is None else run
            clear_memory(memory)
            run = AnytimeSearch(
                blended, memory, clock, listener, k=2, few=self.few, before=run, patience=patience,
                blended=self.graph if self.method == "img_ara" else None,
            )  # fmt: skip
            run.run_schedule(self.schedule)
        if run is not None:
            return run
        # What to say where time was over before anything was looked at
        return problem if isinstance(problem, SearchFailure) else SearchFailure("TIMEOUT", "give more time")

    def _problem(self, k: int, calm: bool, direct: bool, *, is_free: bool = False) -> SearchProblem | SearchFailure:
        made = prepare_graph(self.graph, k, calm=calm, warp=self.warp if k == 1 else NO_WARP)
        # Near a pick is enough where blends of all steps do the rest
        settings = replace(self.settings, slack_m=SearchSettings().slack_m) if is_free else self.settings
        return SearchProblem.from_sketch(
            made, self.sketch, self.heuristic, self.pick_tolerance_m, self.until, settings, self.graph.tables,
            direct=direct,
        )  # fmt: skip


def _make_result(graph: MotionGraph, sketch: Sketch, run: AnytimeSearch, clock: SearchClock) -> SearchResult:
    if run.best is None:
        code = "EXHAUSTED" if run.is_exhausted else run.stopped or "EXHAUSTED"
        return SearchResult(
            code, expansions=run.expansions, seconds=clock.seconds, violations=run.violations, stopped=run.stopped,
            advice=run.advice(code),
        )  # fmt: skip
    way, constraints = run.best, run.problem.constraints
    # Hands may be asked for less than the search found: arm and spine do the rest
    return SearchResult(
        status=OPTIMAL if run.proved <= 1.0 else BOUNDED,
        steps=way.steps(constraints, run.detours),
        places=way.places,
        start=int(way.nodes[0]),
        cost=way.cost,
        epsilon=run.proved,
        expansions=run.expansions,
        seconds=clock.seconds,
        history=tuple(run.history),
        found_errors=way.errors(constraints),
        tolerance_m=min(
            (
                constraint.pin_tolerance_m
                for constraint in constraints
                if constraint.pin_tolerance_m < constraint.tolerance_m
            ),
            default=np.inf,
        ),
        met=way.met_at,
        violations=run.violations,
        stopped=run.stopped,
        rebuild=lambda result: final_errors(graph, result, sketch),
    )
