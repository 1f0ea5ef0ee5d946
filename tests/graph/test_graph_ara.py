"""The anytime search on random graphs, against Dijkstra."""

from __future__ import annotations

import numpy as np
import pytest

from marey.graph._ara_kernels import (
    DONE,
    EMPTY,
    EXPANSIONS,
    GOAL,
    OPEN,
    PICK,
    STATES,
    VIOLATIONS,
    Goals,
    World2D,
    push,
    reopen,
    search,
)
from marey.graph._links import costs_to
from marey.graph._search import _least, _memory

EPSILONS = (10.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.0)
OPEN_GROUND = World2D(
    np.array([-5.0, -5.0]), 10.0, np.zeros((1, 1, 1)), np.ones((1, 1), dtype=bool), np.ones((1, 1), dtype=bool)
)
AT_ORIGIN = Goals(
    np.array([PICK]), np.zeros((1, 3)), np.array([np.nan]), np.array([0.1]), np.array([3]), np.array([0.0])
)


class RandomGraph:
    """A connected random graph; node 0 is the start, the last node picks something up at the origin."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        ring = np.stack([np.arange(count), (np.arange(count) + 1) % count], axis=1)
        links = np.concatenate([ring, rng.integers(0, count, (4 * count, 2))])
        links = links[np.argsort(links[:, 0], kind="stable")]
        self.count, self.source, self.target = count, links[:, 0], links[:, 1]
        self.cost = rng.uniform(0.1, 3.0, len(links))
        self.first = np.searchsorted(self.source, np.arange(count + 1))
        true = costs_to(np.array([count - 1]), self.source, self.target, self.cost, count)
        self.best = float(true[0])
        self.estimates = rng.uniform(0.2, 1.0) * true[None]  # a share of the true cost is consistent
        self.event = np.zeros(count, dtype=np.int64)
        self.event[-1] = 1

    def run(self, memory, epsilon: float) -> None:
        edges = len(self.target)
        state = search(
            self.first, self.target, self.cost, np.zeros((edges, 3)), np.zeros((edges, 2, 2)), self.event,
            np.zeros((self.count, 3)), np.zeros((self.count, 3)), np.full((self.count, 2, 2), np.nan),
            np.zeros((edges, 2)), OPEN_GROUND, AT_ORIGIN, self.estimates, np.zeros(1), 0.0, 0.05, 120, epsilon,
            1_000_000, memory,
        )  # fmt: skip
        assert state == DONE

    def memory(self, epsilon: float):
        memory = _memory(4096)
        memory.node[0], memory.parent[0], memory.key[0], memory.status[0] = 0, EMPTY, -2, OPEN
        memory.h[0] = self.estimates[0, 0]
        memory.counts[1] = push(memory.heap, memory.keys, 0, 0, epsilon * memory.h[0])
        memory.counts[STATES] = 1
        return memory


@pytest.mark.parametrize("seed", range(3))
def test_safonova_a4_every_solution_keeps_its_bound_and_the_last_is_the_best(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        graph = RandomGraph(rng, int(rng.integers(5, 120)))
        memory, before = graph.memory(EPSILONS[0]), np.inf
        for number, epsilon in enumerate(EPSILONS):
            if number:
                reopen(memory, epsilon)
            graph.run(memory, epsilon)
            cost = float(memory.g[memory.counts[GOAL]])
            proved = max(1.0, min(epsilon, cost / max(_least(memory), 1e-300)))
            assert cost <= epsilon * graph.best + 1e-9
            assert cost <= proved * graph.best + 1e-9
            assert cost <= before + 1e-12
            before = cost
        assert before == pytest.approx(graph.best, abs=1e-9)
        assert memory.counts[VIOLATIONS] == 0


def test_safonova_a5_no_state_is_expanded_twice_for_one_epsilon():
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(40):
        graph = RandomGraph(rng, 200)
        memory = graph.memory(EPSILONS[0])
        for number, epsilon in enumerate(EPSILONS):
            before = int(memory.counts[EXPANSIONS])
            if number:
                reopen(memory, epsilon)
            graph.run(memory, epsilon)
            assert memory.counts[EXPANSIONS] - before <= memory.counts[STATES]
        single = graph.memory(1.0)
        graph.run(single, 1.0)
        ratios.append(memory.counts[EXPANSIONS] / single.counts[EXPANSIONS])
    assert np.median(ratios) <= 3.0


def test_an_estimate_that_is_no_bound_is_counted():
    """The guard of the count: an estimate that falls by more than an edge costs must be seen."""
    graph = RandomGraph(np.random.default_rng(6), 60)
    graph.estimates = graph.estimates.copy()
    graph.estimates[0, ::3] *= 5.0
    memory = graph.memory(1.0)
    graph.run(memory, 1.0)
    assert memory.counts[VIOLATIONS] > 0
