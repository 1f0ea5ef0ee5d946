"""Table 4.1 of [Safonova2006]_: how many pick points are reached without and with blends of two.

Points are drawn where the clips can reach: heights between the lowest and the highest pick of the graph, on the ground
between 1.5 and 3.5 m ahead of the start and up to 45 degrees to either side. Success is a way within the tolerance
within the budget.

    python benchmarks/study_picks.py CLIPS_FOLDER --points 179 --budget 120
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marey.base import FloatArray
from marey.graph import MotionGraph, build, search_graph
from marey.io import load
from marey.world import Event, Sketch, Stand, Thing, World

TOLERANCES_M = (0.025, 0.05, 0.1)


def pick_graph(folder: Path) -> MotionGraph:
    """Walks, turns and picks of subject 69, and their mirror images."""
    return build([load(file) for file in sorted(folder.glob("69_*.bvh"))], mirror=True)


def pick_points(graph: MotionGraph, count: int, rng: np.random.Generator) -> FloatArray:
    """Points ``(n, 3)`` [m] in the region that the clips reach."""
    heights = graph.arrays.hand[(graph.arrays.event == 1) | (graph.arrays.event == 2), 1]
    away, side = rng.uniform(1.5, 3.5, count), rng.uniform(-np.pi / 4.0, np.pi / 4.0, count)
    height = rng.uniform(heights.min(), heights.max(), count)
    return np.stack([away * np.sin(side), height, away * np.cos(side)], axis=1)


def pick_sketch(point: Sequence[float]) -> Sketch:
    """Stand at the origin, pick something up."""
    x, y, z = (float(v) for v in point)
    things = World(objects=(Thing("object", (x, y, z)),))
    return Sketch(Stand((0.0, 0.0), 0.0), Stand((0.0, 5.0)), events=(Event("pick", object="object"),), world=things)


def compare(graph: MotionGraph, points: FloatArray, tolerance_m: float, budget_s: float) -> dict[str, float]:
    """Shares solved [%], costs and times, of k = 1 beside k = 2."""
    costs, seconds = np.full((len(points), 2), np.inf), np.zeros((len(points), 2))
    for n, point in enumerate(points):
        for k in (1, 2):
            found = search_graph(
                graph, pick_sketch(point), k=k, budget_s=budget_s, pick_tolerance_m=tolerance_m, until=1
            )
            costs[n, k - 1], seconds[n, k - 1] = found.cost, found.seconds
    both = np.isfinite(costs).all(axis=1)
    return {
        "k1": 100.0 * float(np.isfinite(costs[:, 0]).mean()),
        "k2": 100.0 * float(np.isfinite(costs[:, 1]).mean()),
        "ratio": float((costs[both, 0] / costs[both, 1]).mean()) if both.any() else np.nan,
        "worse": int((costs[both, 1] > costs[both, 0] * (1.0 + 1e-9)).sum()),
        "s1": float(np.median(seconds[:, 0])),
        "s2": float(np.median(seconds[:, 1])),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", type=Path)
    parser.add_argument("--points", type=int, default=179)
    parser.add_argument("--budget", type=float, default=120.0)
    chosen = parser.parse_args()
    begin = time.perf_counter()
    graph = pick_graph(chosen.clips)
    print(f"{graph.num_states} states, {graph.num_edges} edges, built in {time.perf_counter() - begin:.0f} s")
    points = pick_points(graph, chosen.points, np.random.default_rng(41))
    print("tolerance  k=1 %  k=2 %  cost k1/k2  k2 dearer  median s k=1  k=2")
    for tolerance in TOLERANCES_M:
        row = compare(graph, points, tolerance, chosen.budget)
        print(
            f"{100.0 * tolerance:6.1f} cm  {row['k1']:5.1f}  {row['k2']:5.1f}  {row['ratio']:9.3f}  {row['worse']:9.0f}"
            f"  {row['s1']:12.2f}  {row['s2']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
