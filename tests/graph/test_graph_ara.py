"""The anytime search on random graphs, against Dijkstra."""

from __future__ import annotations

import numpy as np
import pytest

from marey.graph.algorithms import pop_heap, push_heap, shortest_costs_to
from marey.graph.arrays import (
    DONE,
    EMPTY,
    FULL,
    PICK,
    GridArrays,
    HeuristicTerms,
    SearchGraph,
    SearchSpace,
    SketchConstraint,
    allocate_memory,
    clear_memory,
    pack_constraints,
)
from marey.graph.search.ara import add_start, expand_states, least_open_cost, reopen_states
from marey.graph.search.heuristics import compute_potentials, least_cycle_rate

EPSILONS = (10.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.0)
ALL = np.ones((2, 2), dtype=bool)
OPEN_GROUND = GridArrays(np.array([-5.0, -5.0]), 5.0, np.zeros((1, 2, 2)), ALL, ALL)
AT_ORIGIN = pack_constraints([SketchConstraint(PICK, (0.0, 0.0, 0.0), 0.1, hands=3)])


class RandomGraph:
    """A connected random graph; node 0 is the start, the last node picks something up at the origin."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        ring = np.stack([np.arange(count), (np.arange(count) + 1) % count], axis=1)
        links = np.concatenate([ring, rng.integers(0, count, (4 * count, 2))])
        links = links[np.argsort(links[:, 0], kind="stable")]
        self.count, self.source, self.target = count, links[:, 0], np.ascontiguousarray(links[:, 1])
        self.cost = rng.uniform(0.1, 3.0, len(links))
        self.first = np.searchsorted(self.source, np.arange(count + 1))
        self.true = shortest_costs_to(np.array([count - 1]), self.source, self.target, self.cost, count)
        self.best = float(self.true[0])
        self.terms = HeuristicTerms(
            np.zeros(1), rng.uniform(0.2, 1.0) * self.true[None, None, None]
        )  # a share is consistent
        edges = len(links)
        self.apart = np.zeros(edges, dtype=bool)
        event = np.zeros(count, dtype=np.int64)
        event[-1] = 1
        self.roads = SearchGraph(
            self.first, np.arange(edges), np.diff(self.first), self.target, self.cost, np.zeros((edges, 3)),
            np.zeros((edges, 2, 2)), np.zeros((edges, 2)), event, np.zeros((count, 3)), np.zeros((count, 3)),
            np.full((count, 2, 2), np.nan), np.zeros(count, dtype=bool), self.apart,
        )  # fmt: skip

    def run(self, memory, epsilon: float, upper: float = np.inf, budget: int = 1_000_000) -> int:
        return expand_states(self.space(memory), upper, epsilon, False, budget)

    def space(self, memory) -> SearchSpace:
        return SearchSpace(self.roads, OPEN_GROUND, AT_ORIGIN, self.terms, memory)

    def memory(self, epsilon: float, capacity: int = 4096):
        memory = allocate_memory(capacity)
        assert add_start(self.space(memory), 0, np.zeros(3), epsilon)
        return memory


def least(memory) -> float:
    return max(least_open_cost(memory.states, memory.num_states), 1e-300)


@pytest.mark.parametrize("seed", range(3))
def test_safonova_a4_every_solution_keeps_its_bound_and_the_last_is_the_best(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        graph = RandomGraph(rng, int(rng.integers(5, 120)))
        memory, before = graph.memory(EPSILONS[0]), np.inf
        for number, epsilon in enumerate(EPSILONS):
            if number:
                reopen_states(memory, epsilon)
            assert graph.run(memory, epsilon) == DONE
            cost = memory.goal_cost
            proved = max(1.0, min(epsilon, cost / least(memory)))
            assert cost <= epsilon * graph.best + 1e-9
            assert cost <= proved * graph.best + 1e-9
            assert cost <= before + 1e-12
            before = cost
        assert before == pytest.approx(graph.best, abs=1e-9)
        assert memory.counts[0].violations == 0


def test_safonova_a5_no_state_is_expanded_twice_for_one_epsilon():
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(40):
        graph = RandomGraph(rng, 200)
        memory = graph.memory(EPSILONS[0])
        for number, epsilon in enumerate(EPSILONS):
            before = int(memory.counts[0].expansions)
            if number:
                reopen_states(memory, epsilon)
            graph.run(memory, epsilon)
            assert memory.counts[0].expansions - before <= memory.num_states
        single = graph.memory(1.0)
        graph.run(single, 1.0)
        ratios.append(memory.counts[0].expansions / single.counts[0].expansions)
    assert np.median(ratios) <= 3.0


def test_an_estimate_that_is_no_bound_is_counted():
    """The guard of the count: an estimate that falls by more than an edge costs must be seen."""
    graph = RandomGraph(np.random.default_rng(6), 60)
    graph.terms.base[0, 0, ::3] *= 5.0
    memory = graph.memory(1.0)
    graph.run(memory, 1.0)
    assert memory.counts[0].violations > 0


def test_a_search_in_pieces_finds_what_one_in_one_piece_finds():
    graph = RandomGraph(np.random.default_rng(7), 150)
    whole, parts = graph.memory(2.0), graph.memory(2.0)
    graph.run(whole, 2.0)
    while graph.run(parts, 2.0, budget=3) != DONE:
        pass
    assert whole.goal_cost == parts.goal_cost
    assert whole.chain() == parts.chain()


def test_what_cannot_beat_a_known_cost_is_left_out():
    graph = RandomGraph(np.random.default_rng(8), 150)
    memory = graph.memory(1.0)
    assert graph.run(memory, 1.0, upper=graph.best) == DONE
    assert memory.goal == EMPTY
    memory = graph.memory(1.0)
    graph.run(memory, 1.0, upper=graph.best * 1.01)
    assert memory.goal_cost == pytest.approx(graph.best)


def test_memory_that_is_full_says_so_and_can_be_used_again():
    graph = RandomGraph(np.random.default_rng(9), 150)
    memory = graph.memory(1.0, capacity=8)
    assert graph.run(memory, 1.0) == FULL
    clear_memory(memory)
    assert (memory.table == EMPTY).all()
    assert memory.num_states == 0


def test_the_heap_gives_numbers_back_in_order():
    rng = np.random.default_rng(10)
    keys = rng.normal(size=500)
    heap, held, size = np.empty(500, dtype=np.int64), np.empty(500), 0
    for number, key in enumerate(keys):
        size = push_heap(heap, held, size, number, key)
    out = []
    while size:
        out.append(heap[0])
        size = pop_heap(heap, held, size)
    np.testing.assert_array_equal(out, np.argsort(keys, kind="stable"))


def test_costs_to_go_are_those_of_dijkstra():
    graph = RandomGraph(np.random.default_rng(11), 80)
    values, settled = compute_potentials(
        graph.first, graph.target, graph.cost, graph.target == graph.count - 1, graph.apart, np.zeros(graph.count), 200
    )
    assert settled
    at_end = graph.source != graph.count - 1  # from the end itself a way leads round
    wanted = graph.true.copy()
    wanted[-1] = min(graph.cost[~at_end] + graph.true[graph.target[~at_end]])
    np.testing.assert_allclose(values, wanted, atol=1e-9)


def test_the_rate_of_the_cheapest_cycle_is_that_of_bisection():
    rng = np.random.default_rng(12)
    for _ in range(10):
        graph = RandomGraph(rng, 40)
        length = rng.uniform(0.1, 1.0, len(graph.cost))
        found = least_cycle_rate(graph.first, graph.target, graph.cost, length, 100.0)
        no, never = np.zeros(len(length), dtype=bool), np.zeros(40)
        assert compute_potentials(graph.first, graph.target, graph.cost - 0.999 * found * length, ~no, no, never, 60)[1]
        assert not compute_potentials(
            graph.first, graph.target, graph.cost - 1.001 * found * length, ~no, no, never, 60
        )[1]
