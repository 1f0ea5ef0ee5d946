"""Anytime search: constraint by constraint for a first way, then over all of them for the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.graph.arrays import (
    DONE,
    EMPTY,
    FULL,
    PICK,
    RUNNING,
    GridArrays,
    HeuristicTerms,
    SearchGraph,
    SearchMemory,
    SearchSpace,
    SketchConstraint,
    allocate_memory,
    clear_memory,
    compose_planar,
    pack_constraints,
)
from marey.graph.paths import SearchSolution
from marey.graph.search.ara import add_start, expand_states, least_open_cost, relax_edge, reopen_states
from marey.graph.search.directions import FacingEdges, tabulate_facing
from marey.graph.search.free_blends import blend_to_picks
from marey.graph.search.ground import GRID_STEPS, grid_distances
from marey.graph.search.heuristics import compute_potentials, tabulate_costs
from marey.graph.search.problem import Detour, Detours, SearchClock, SearchPath, SearchProblem, constraint_object
from marey.graph.search.sketch import find_missing_turn

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph

SPARSE_EDGES_BELOW: Final = 3.0  # below this epsilon only edges that differ are looked at
FIRST_CHUNK: Final = 256  # expansions before the first look at the clock
CLOCK_INTERVAL_S: Final = 0.03  # [s] between two looks
STAGE_SHARE: Final = 0.3  # of the budget that may go into ways found constraint by constraint
EPSILON_FACTOR: Final = 0.97  # of a bound that is proved, for the next search
FACING_ABOVE: Final = 1.3  # a first way whose bound is above this is worth a dearer bound
FACING_BUDGET_S: Final = 4.0  # [s] that must be left for it
OnSolution = Callable[[SearchSolution, "AnytimeSearch"], bool | None]


@cache
def compile_kernels() -> None:
    """Load the compiled search once, before any clock runs."""
    none, one = np.zeros(0, dtype=np.int64), np.zeros((1, 3))
    spot, bits, no_bits = np.zeros((1, 2, 2)), np.ones((2, 2), dtype=bool), np.zeros(0, dtype=bool)
    roads = SearchGraph(
        np.zeros(2, dtype=np.int64), none, np.zeros(1, dtype=np.int64), none, np.zeros(0), np.zeros((0, 3)),
        np.zeros((0, 9, 2)), np.zeros((0, 2)), np.zeros(1, dtype=np.int64), one, one, spot, np.zeros(1, dtype=bool),
        no_bits,
    )  # fmt: skip
    world = GridArrays(np.zeros(2), 1.0, np.zeros((1, 2, 2)), bits, bits)
    terms, memory = HeuristicTerms(np.zeros(1), np.zeros((1, 1, 1, 1))), allocate_memory(4)
    space = SearchSpace(roads, world, pack_constraints([SketchConstraint(PICK, (0.0, 0.0, 0.0), 0.0)]), terms, memory)
    grid_distances(bits, np.zeros((2, 2)), GRID_STEPS)
    tabulate_costs(roads.first, none, np.zeros(0), none, no_bits, no_bits, np.zeros(1), np.zeros((1, 1)))
    turns = FacingEdges(roads.first, none, np.zeros(0), no_bits, none, no_bits)
    rows = np.zeros((1, 1), dtype=np.int64)
    tabulate_facing(turns, rows[:0], no_bits, rows, np.zeros((1, 1)), np.zeros((1, 1, 1)))
    compute_potentials(roads.first, none, np.zeros(0), no_bits, no_bits, np.zeros(1), 1)
    add_start(space, 0, np.array([1.0, 1.0, 0.0]), 1.0)
    expand_states(space, np.inf, 1.0, False, 4)
    reopen_states(memory, 1.0)
    least_open_cost(memory.states, memory.num_states)


class AnytimeSearch:
    """One anytime search on one graph."""

    def __init__(
        self,
        problem: SearchProblem,
        memory: SearchMemory,
        clock: SearchClock,
        on_solution: OnSolution | None,
        *,
        k: int = 1,
        few: bool = True,
        looks: Detours | None = None,
        before: AnytimeSearch | None = None,
        patience: SearchClock | None = None,
        blended: MotionGraph | None = None,
    ) -> None:
        self.problem, self.memory, self.clock, self.on_solution, self.k = problem, memory, clock, on_solution, k
        self.few, self._looks, self._patience = few, looks, patience or clock
        self._blended = blended
        self._stages: tuple[SearchProblem, ...] = ()
        self._hands: dict[str, int] = {}
        self.best: SearchPath | None = None if before is None else before.best
        self.history: list[SearchSolution] = [] if before is None else list(before.history)
        self.detours: list[tuple[int, Detour]] = [] if before is None else before.detours
        self.proved, self.stopped, self.is_exhausted, self._before = np.inf, "", False, before
        self.expansions, self.violations = (0, 0) if before is None else (before.expansions, before.violations)
        self.done, self._chunk, self._low, self._got = False, FIRST_CHUNK, 0.0, (0, np.inf)

    @property
    def cost(self) -> float:
        """Of the best way so far."""
        return np.inf if self.best is None else self.best.cost

    def run_schedule(self, schedule: Sequence[float]) -> None:
        """Search with one epsilon after the other."""
        if len(self.problem.constraints) > 1:
            share = self.clock.part(STAGE_SHARE)
            # Lower bound of all ways: the least f of the starts
            clear_memory(self.memory)
            self._begin(self.problem, self.problem.starts(), schedule[0])
            self._low = least_open_cost(self.memory.states, self.memory.num_states)
            # First ways, soon found: meet the constraints one after the other, each from where the last was met
            self._stages = tuple(self.problem.stage(layer) for layer in range(len(self.problem.constraints)))
            best_hands: dict[str, int] = {}
            # The first as it comes, then each stage as good as its share of the time allows
            for part in dict.fromkeys((tuple(schedule[:1]), tuple(schedule))):
                way = self._chain_stages(part, share)
                if way is not None and way.cost < self.cost:
                    self.best, best_hands = way, self._hands
                    self._report_solution(part[-1], min(self.proved, way.cost / max(self._low, 1e-300)))
                if self.done or self.stopped:
                    break
            self.stopped = self.clock.stopped
            self.problem = self.problem.with_assigned_hands(best_hands)
        if not self.done and not self.stopped:
            self._search_all_constraints(schedule)
        # Add up what the last search did, and how far it got
        self._accumulate_counts()
        states = self.memory.states[: self.memory.num_states]
        furthest = int(states.met.max(initial=0))
        self._got = furthest, float(states.h[states.met == furthest].min(initial=np.inf))
        # A way that was found in the graph searched before has the bound that was proved there
        if self._before is not None and self.best is self._before.best:
            self.proved = min(self.proved, self._before.proved)

    def _chain_stages(self, schedule: Sequence[float], clock: SearchClock) -> SearchPath | None:
        """One way for each constraint, joined; None if one was not found.

        The first is searched for as long as it takes, the others for each constraint's share of the time.
        """
        whole: SearchPath | None = None
        hands = dict[str, int]()
        for number, alone in enumerate(self._stages):
            thing = constraint_object(alone.constraints[0])
            stage = self.problem.stage(number, hands[thing]) if thing in hands else alone
            clear_memory(self.memory)
            starts = stage.starts() if whole is None else [(int(whole.nodes[-1]), whole.places[-1])]
            part = clock.part(1.0 / (len(self._stages) - number)) if len(schedule) > 1 else clock
            # From any way downwards, until the best or until its time is over
            epsilon, last = schedule[0], schedule[-1]
            self._begin(stage, starts, epsilon)
            while self._search_epsilon(stage, epsilon, np.inf, part) and epsilon > last and self.memory.goal != EMPTY:
                least = least_open_cost(self.memory.states, self.memory.num_states)
                epsilon = max(last, EPSILON_FACTOR * min(epsilon, self.memory.goal_cost / max(least, 1e-300)))
                reopen_states(self.memory, epsilon)
            self._accumulate_counts()
            if self.memory.goal == EMPTY:
                return None
            way = self._read_path(stage)
            if way is None:
                return None
            # Without the cost that was put on the end of the stage, if any was
            way = (
                way
                if not len(stage.terms.final)
                else way._replace(cost=way.cost - float(stage.terms.final[way.nodes[-1]]))
            )
            if whole is None:
                whole = way
            else:
                # The stages so far, and the one that begins where they end
                whole = SearchPath(
                    whole.made,
                    np.concatenate([whole.nodes, way.nodes[1:]]),
                    np.concatenate([whole.places, way.places[1:]]),
                    np.concatenate([whole.met, whole.met[-1] + way.met[1:]]),
                    np.concatenate([whole.edges, way.edges]),
                    whole.cost + way.cost,
                    {**whole.mixed, **{len(whole.edges) + n: mix for n, mix in way.mixed.items()}},
                )
            if thing:
                hands[thing] = int(stage.made.roads.event[way.nodes[-1]])
        self._hands = hands
        return whole

    def _search_all_constraints(self, schedule: Sequence[float]) -> None:
        """Anytime repairing A* over all constraints ([Likhachev2004]_), from the bound that is proved downwards.

        Once there is a way, the next epsilon is just below its bound: greater ones are settled at once, and much
        smaller ones look for long where nothing better is found.
        """
        clear_memory(self.memory)
        self.problem = self.problem.with_direction_bounds()
        if self.proved > FACING_ABOVE and self.clock.budget_s - self.clock.seconds > FACING_BUDGET_S:
            self.problem = self.problem.with_facing_bounds()
        last = schedule[-1]
        epsilon = schedule[0] if self.best is None else max(last, EPSILON_FACTOR * self.proved)
        self._begin(self.problem, self.problem.starts(), epsilon)
        if self.best is not None:
            # The bound of the starts may be better than the one before
            least = least_open_cost(self.memory.states, self.memory.num_states)
            epsilon = max(last, min(epsilon, EPSILON_FACTOR * self.cost / max(least, 1e-300)))
            reopen_states(self.memory, epsilon)
        while True:
            is_settled = self._search_epsilon(self.problem, epsilon, self.cost, self.clock)
            # No way at all, here nor in what was searched before; ways inside phases are beside that
            is_none = is_settled and self.memory.goal == EMPTY and self.best is None
            self.is_exhausted = is_none and (self._before is None or self._before.is_exhausted)
            while is_settled and self.memory.goal == EMPTY and self.best is None and self._retry_blocked_edges(epsilon):
                is_settled = self._search_epsilon(self.problem, epsilon, self.cost, self.clock)
            # Keep what was found, with the bound that is proved
            while self.memory.goal_cost < self.cost:
                way = self._read_path(self.problem)
                self.best = way if way is not None and way.cost < self.cost else self.best
                if way is not None and self._blended is None:
                    break
                # A goal that blends do not reach, or at more cost, is none: search on
                self.memory.counts[0].goal = EMPTY
                if way is not None and way is self.best:
                    break
                is_settled = self._search_epsilon(self.problem, epsilon, self.cost, self.clock)
            if self.best is not None:
                least = min(least_open_cost(self.memory.states, self.memory.num_states), self.cost)
                proved = self.cost / max(least, 1e-300)
                self._report_solution(epsilon, min(epsilon, proved) if is_settled else proved)
            if self.done or not is_settled or self.best is None or epsilon <= last:
                break
            epsilon = max(last, EPSILON_FACTOR * min(epsilon, self.proved))
            reopen_states(self.memory, epsilon)

    def _read_path(self, problem: SearchProblem) -> SearchPath | None:
        """The path to the goal that was found: footsteps moved, or steps blended, to its picks; None if they cannot."""
        if self._blended is None:
            return SearchPath.from_memory(problem.made, self.memory, problem.constraints)
        way = SearchPath.from_memory(problem.made, self.memory, problem.constraints, is_moved=False)
        return blend_to_picks(self._blended, way, problem.constraints)

    def _retry_blocked_edges(self, epsilon: float) -> bool:
        """Try other ways for edges that met a wall; whether one was found."""
        if self._looks is None:
            return False
        p, memory, world = self.problem, self.memory, self.problem.world
        grid, edges = np.array([*world.origin, world.cell]), len(p.made.roads.target)
        blocked = np.unique(memory.blocked[: int(memory.counts[0].blocked)], axis=0)
        memory.counts[0].blocked = 0
        found = False
        for s, e in blocked.tolist():
            place = np.array([memory.states[s].x, memory.states[s].z, memory.states[s].yaw])
            detour = None if self.clock.stopped else self._looks.find(e, place, world.free, grid)
            if detour is not None:
                self.detours.append((e, detour))
                new = edges + len(self.detours) - 1
                found |= bool(relax_edge(p.space(memory), s, e, new, detour.cost, epsilon))
        return found

    def _begin(self, p: SearchProblem, starts: list[tuple[int, FloatArray]], epsilon: float) -> None:
        space = p.space(self.memory)
        for node, place in starts:
            add_start(space, node, place, epsilon)

    def _search_epsilon(self, p: SearchProblem, epsilon: float, upper: float, clock: SearchClock) -> bool:
        """Search until nothing better can be within this epsilon; false when stopped."""
        state, space = RUNNING, p.space(self.memory)
        is_few = self.few and epsilon < SPARSE_EDGES_BELOW
        while state == RUNNING:
            if clock.stopped or (self.best is None and self._patience.stopped):
                self.stopped = self.clock.stopped or self._patience.stopped
                return False
            before = time.perf_counter()
            state = expand_states(space, upper, epsilon, is_few, self._chunk)
            # So many expansions that the clock is looked at in time; this changes nothing that is found
            seconds = time.perf_counter() - before
            factor = float(np.clip(CLOCK_INTERVAL_S / max(seconds, 1e-6), 0.5, 2.0))
            self._chunk = int(np.clip(factor * self._chunk, 32, 100_000))
        self.stopped = "MEMORY" if state == FULL else ""
        return state == DONE

    def _report_solution(self, epsilon: float, proved: float) -> None:
        """Record the best path and report it."""
        self.proved = max(1.0, min(proved, self.proved))
        expansions = self.expansions + int(self.memory.counts[0].expansions)
        # Root at every state of the best way, for whoever draws it
        assert self.best is not None
        roots = compose_planar(self.best.places, self.best.made.roads.root[self.best.nodes])[:, :2]
        found = SearchSolution(epsilon, self.proved, self.cost, expansions, self.clock.seconds, self.k, roots)
        self.history.append(found)
        stop = self.on_solution is not None and bool(self.on_solution(found, self))
        self.done = stop or self.proved <= 1.0

    def _accumulate_counts(self) -> None:
        counts = self.memory.counts[0]
        self.expansions += int(counts.expansions)
        self.violations += int(counts.violations)
        counts.expansions = counts.violations = 0

    def advice(self, code: str) -> str:
        """Advice when there is no path."""
        done, left = self._got
        constraints = self.problem.constraints
        constraint = constraints[min(done, len(constraints) - 1)]
        got = f"{done} of {len(constraints)} constraints were met; '{constraint.name}' was not (cost left {left:.3g})"
        sharp = find_missing_turn(self.problem.made.roads, self.problem.sketch, constraint.place[::2])
        if sharp:
            return f"{got}: {sharp}"
        more = {"TIMEOUT": "give more time", "CANCELLED": "let it run longer", "MEMORY": "raise max_states"}
        first = more.get(code, "this graph has no path for the sketch")
        return f"{got}: {first}, widen the corridor, raise tolerance_m of goal or event, or add clips"
