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
from marey.graph.search.free_blends import blend_to_picks
from marey.graph.search.ground import GRID_STEPS, grid_distances
from marey.graph.search.heuristics import compute_potentials
from marey.graph.search.problem import Detour, Detours, SearchClock, SearchPath, SearchProblem, constraint_object

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph

SPARSE_EDGES_BELOW: Final = 3.0  # below this epsilon only edges that differ are looked at
FIRST_CHUNK: Final = 256  # expansions before the first look at the clock
CLOCK_INTERVAL_S: Final = 0.03  # [s] between two looks
STAGE_SHARE: Final = 0.5  # of the budget that may go into ways found constraint by constraint
OnSolution = Callable[[SearchSolution], bool | None]


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
    terms, memory = HeuristicTerms(np.zeros(1), np.zeros((1, 1, 1))), allocate_memory(4)
    space = SearchSpace(roads, world, pack_constraints([SketchConstraint(PICK, (0.0, 0.0, 0.0), 0.0)]), terms, memory)
    grid_distances(bits, np.zeros((2, 2)), GRID_STEPS)
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
        stage_share: float = STAGE_SHARE,
        blended: MotionGraph | None = None,
    ) -> None:
        self.problem, self.memory, self.clock, self.on_solution, self.k = problem, memory, clock, on_solution, k
        self.few, self._looks, self._patience = few, looks, patience or clock
        self._stage_share, self._blended = stage_share, blended
        self._stages: tuple[SearchProblem, ...] = ()
        self._hands: dict[str, int] = {}
        self.best: SearchPath | None = None if before is None else before.best
        self.history: list[SearchSolution] = [] if before is None else list(before.history)
        self.detours: list[tuple[int, Detour]] = [] if before is None else before.detours
        self.proved, self.stopped = np.inf, ""
        self.expansions, self.violations = (0, 0) if before is None else (before.expansions, before.violations)
        self.done, self._chunk, self._low, self._got = False, FIRST_CHUNK, 0.0, (0, np.inf)

    @property
    def cost(self) -> float:
        """Of the best way so far."""
        return np.inf if self.best is None else self.best.cost

    def run_schedule(self, schedule: Sequence[float]) -> None:
        """Search with one epsilon after the other."""
        if len(self.problem.constraints) > 1:
            share = self.clock.part(self._stage_share)
            # Lower bound of all ways: the least f of the starts
            clear_memory(self.memory)
            self._begin(self.problem, self.problem.starts(), schedule[0])
            self._low = least_open_cost(self.memory.states, self.memory.num_states)
            # First ways, soon found: meet the constraints one after the other, each from where the last was met
            self._stages = tuple(self.problem.stage(layer) for layer in range(len(self.problem.constraints)))
            best_hands: dict[str, int] = {}
            for number in range(len(schedule)):
                way, is_settled = self._chain_stages(schedule[: number + 1], share)
                if way is not None and way.cost < self.cost:
                    self.best, best_hands = way, self._hands
                    self._report_solution(schedule[number], min(self.proved, way.cost / max(self._low, 1e-300)))
                if self.done or self.stopped or not is_settled:
                    break
            self.stopped = self.clock.stopped
            self.problem = self.problem.with_assigned_hands(best_hands)
        if not self.done and not self.stopped:
            # All constraints at every epsilon that is not proved yet; the way found so far is the upper bound
            self._search_all_constraints([epsilon for epsilon in schedule if epsilon < self.proved] or schedule[-1:])
        # Add up what the last search did, and how far it got
        self._accumulate_counts()
        states = self.memory.states[: self.memory.num_states]
        furthest = int(states.met.max(initial=0))
        self._got = furthest, float(states.h[states.met == furthest].min(initial=np.inf))

    def _chain_stages(self, schedule: Sequence[float], clock: SearchClock) -> tuple[SearchPath | None, bool]:
        """One way for each constraint, joined; None if one was not found. And whether all epsilons were searched.

        The first is searched for as long as it takes, the others for each constraint's share of the time.
        """
        whole: SearchPath | None = None
        is_settled, hands = True, dict[str, int]()
        for number, alone in enumerate(self._stages):
            thing = constraint_object(alone.constraints[0])
            stage = self.problem.stage(number, hands[thing]) if thing in hands else alone
            clear_memory(self.memory)
            starts = stage.starts() if whole is None else [(int(whole.nodes[-1]), whole.places[-1])]
            upper = self.cost - (0.0 if whole is None else whole.cost)
            part = clock.part(1.0 / (len(self._stages) - number)) if len(schedule) > 1 else clock
            # One epsilon after the other, until stopped
            self._begin(stage, starts, schedule[0])
            for round_number, epsilon in enumerate(schedule):
                if round_number:
                    reopen_states(self.memory, epsilon)
                if not self._search_epsilon(stage, epsilon, upper, part):
                    is_settled = False
                    break
            self._accumulate_counts()
            if self.memory.goal == EMPTY:
                return None, is_settled
            way = self._read_path(stage)
            if way is None:
                return None, is_settled
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
        return whole, is_settled

    def _search_all_constraints(self, schedule: Sequence[float]) -> None:
        """Anytime repairing A* over all constraints ([Likhachev2004]_)."""
        clear_memory(self.memory)
        self.problem = self.problem.with_direction_bounds()
        self._begin(self.problem, self.problem.starts(), schedule[0])
        for number, epsilon in enumerate(schedule):
            if number:
                reopen_states(self.memory, epsilon)
            is_settled = self._search_epsilon(self.problem, epsilon, self.cost, self.clock)
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
            if self.done or not is_settled or self.best is None:
                break

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
        stop = self.on_solution is not None and bool(self.on_solution(found))
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
        more = {"TIMEOUT": "give more time", "CANCELLED": "let it run longer", "MEMORY": "raise max_states"}
        first = more.get(code, "this graph has no path for the sketch")
        return f"{got}: {first}, widen the corridor, raise tolerance_m of goal or event, or add clips"
