"""Compiled costs to go over the graph alone, and the cheapest cycle."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel

CHECK_INTERVAL = 8  # sweeps between two looks for a cycle


@kernel
def sweep_costs(
    first: IntArray, target: IntArray, cost: FloatArray, counts: BoolArray, apart: BoolArray, after: FloatArray,
    value: FloatArray, via: IntArray,
) -> bool:  # fmt: skip
    r"""One sweep of :math:`V(s) = \min_e c_e + \min([e\ not\ apart] V(t), [e\ counts] A(t))`; whether anything fell."""
    fell = False
    for s in range(len(first) - 1):
        for e in range(first[s], first[s + 1]):
            t = target[e]
            there = np.inf if apart[e] else value[t]
            if counts[e] and after[t] < there:
                there = after[t]
            if cost[e] + there < value[s] - 1e-12:
                value[s], via[s] = cost[e] + there, e
                fell = True
    return fell


@kernel
def compute_potentials(
    first: IntArray, target: IntArray, cost: FloatArray, counts: BoolArray, apart: BoolArray, after: FloatArray,
    sweeps: int,
) -> tuple[FloatArray, bool]:  # fmt: skip
    """Least cost from every state along an edge that counts, and on from its end with ``after``; costs may be negative.

    Args:
        first: edges of state s are ``first[s]`` to ``first[s + 1]``.
        target: of each edge ``(E,)``.
        cost: of each edge ``(E,)``.
        counts: edges that meet what is wanted ``(E,)``.
        apart: edges that are taken to meet what is wanted and for nothing else ``(E,)``.
        after: least cost from then on ``(N,)``.
        sweeps: give up after so many.

    Returns:
        Costs ``(N,)``, inf where there is no way, and whether they settled.
    """
    value = np.full(len(first) - 1, np.inf)
    via = np.full(len(first) - 1, -1, dtype=np.int64)
    for _ in range(sweeps):
        if not sweep_costs(first, target, cost, counts, apart, after, value, via):
            return value, True
    return value, False


@kernel
def least_chosen_cycle_rate(
    source: IntArray, via: IntArray, target: IntArray, cost: FloatArray, length: FloatArray
) -> float:
    """Least cost per length of the cycles that the chosen edges of all states close; inf if there is none."""
    count = len(via)
    mark = np.full(count, -1, dtype=np.int64)
    best = np.inf
    for root in range(count):
        s = root
        while mark[s] == -1 and via[s] >= 0:
            mark[s] = root
            s = target[via[s]]
        if mark[s] != root or via[s] < 0:
            continue
        spent, way, t = 0.0, 0.0, s
        while True:
            spent += cost[via[t]]
            way += length[via[t]]
            t = target[via[t]]
            if t == s:
                break
        if way > 0.0:
            best = min(best, spent / way)
    return float(best)


@kernel
def least_cycle_rate(first: IntArray, target: IntArray, cost: FloatArray, length: FloatArray, guess: float) -> float:
    r"""Least :math:`\sum c / \sum \ell` over all cycles, from above: each negative cycle of c - rate l lowers it."""
    count = len(first) - 1
    source = np.empty(len(target), dtype=np.int64)
    for s in range(count):
        source[first[s] : first[s + 1]] = s
    none, never = np.zeros(len(target), dtype=np.bool_), np.full(count, np.inf)
    rate = guess
    for _ in range(200):
        reduced = cost - rate * length
        value, via = np.zeros(count), np.full(count, -1, dtype=np.int64)
        found = np.inf
        for k in range(count + CHECK_INTERVAL):
            if not sweep_costs(first, target, reduced, none, none, never, value, via):
                return rate
            if k % CHECK_INTERVAL == CHECK_INTERVAL - 1:
                found = least_chosen_cycle_rate(source, via, target, cost, length)
                if found < rate * (1.0 - 1e-12):
                    break
        if not found < rate * (1.0 - 1e-12):
            return rate
        rate = found
    return rate
