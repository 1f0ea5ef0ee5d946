"""Table 4.1 of [Safonova2006]_: how many problems are solved without blends (k = 1) and with blends of two (k = 2).

P1: from a stand at the origin to a pick. Points are drawn where the clips can reach: heights between the lowest and the
highest pick of the graph, on the ground between 1.5 and 3.5 m ahead and up to 45 degrees to either side. P2: the same,
and the root is pinned to a place while picking: its distance from the object and the object's height are drawn from the
convex hull of what the picks of the graph have, its direction up to 30 degrees from the way there. P3: one walk cycle
from a walking state to a place straight ahead, between the shortest and the longest of the graph.

Success is a way within the tolerance within the budget. Every problem of P1 and P2 is one search: without blends first,
for two fifths of the budget, then with them; it ends when the cost is proved to be within 1.5 times the best. Where
that finds nothing, the last column tells of a second search within twice the tolerance whose footsteps are then moved
(``marey.graph._refine_places``): root and hand of the final motion are within the tolerance.

    python benchmarks/study_picks.py CLIPS_FOLDER --points 179 --budget 12
    python benchmarks/study_picks.py demo --points 60
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph import MotionGraph, SearchResult, build, load_graph, rebuild_for, search_graph
from marey.graph._graph import PICK_LEFT, PICK_RIGHT, composed
from marey.graph._pairs import blended_deltas, find_partners
from marey.graph._refine_places import Aim, hand_and_root, refine_places
from marey.io import load
from marey.world import Event, Sketch, Stand, Thing, World

TOLERANCES_M = (0.025, 0.05, 0.1)
EPSILONS = (3.0, 1.5)
WEIGHTS = np.linspace(0.0, 1.0, 10)
CYCLE = 4  # edges: two steps, each with its double support


class Task(NamedTuple):
    """Something to pick up, and where the root is meanwhile."""

    point: FloatArray  # (3,) [m]
    root: FloatArray | None = None  # (2,) [m]

    @property
    def sketch(self) -> Sketch:
        """Stand at the origin, pick something up."""
        at = None if self.root is None else (float(self.root[0]), float(self.root[1]))
        x, y, z = (float(v) for v in self.point)
        things = World(objects=(Thing("object", (x, y, z)),))
        event = Event("pick", at=at, object="object")
        return Sketch(Stand((0.0, 0.0), 0.0), Stand((0.0, 5.0)), events=(event,), world=things)


def study_graph(source: str) -> MotionGraph:
    """A graph file, the demo graph, or walks, turns and picks of subject 69 and their mirror images."""
    if source == "demo":
        from marey.samples import demo_graph

        return demo_graph()
    if Path(source).is_file():
        return load_graph(source)
    return build([load(file) for file in sorted(Path(source).glob("69_*.bvh"))], mirror=True)


def pick_shapes(graph: MotionGraph) -> FloatArray:
    """Distance of the root from the hand over the ground, and height of the hand ``(n, 2)`` [m], of all picks."""
    arrays = graph.arrays
    picks = np.isin(arrays.event, (PICK_LEFT, PICK_RIGHT))
    reach = np.linalg.norm(arrays.hand[picks][:, [0, 2]] - arrays.root[picks, :2], axis=1)
    return np.stack([reach, arrays.hand[picks, 1]], axis=1)


def free_tasks(graph: MotionGraph, count: int, rng: np.random.Generator) -> list[Task]:
    """P1: points in the region that the clips reach."""
    heights = pick_shapes(graph)[:, 1]
    away, side = rng.uniform(1.5, 3.5, count), rng.uniform(-np.pi / 4.0, np.pi / 4.0, count)
    height = rng.uniform(heights.min(), heights.max(), count)
    return [Task(point) for point in np.stack([away * np.sin(side), height, away * np.cos(side)], axis=1)]


def pinned_tasks(graph: MotionGraph, count: int, rng: np.random.Generator) -> list[Task]:
    """P2: the same points but for their heights, with roots as far from them as picks are at such heights."""
    from scipy.spatial import Delaunay

    shapes = pick_shapes(graph)
    hull, found = Delaunay(shapes), list[Task]()
    points = [task.point for task in free_tasks(graph, count, rng)]
    while len(found) < count:
        reach, height = rng.uniform(shapes.min(axis=0), shapes.max(axis=0))
        if hull.find_simplex(np.array([reach, height])) >= 0:
            point = points[len(found)].copy()
            point[1] = height
            turn = np.arctan2(point[0], point[2]) + rng.uniform(-np.pi / 6.0, np.pi / 6.0)
            found.append(Task(point, point[[0, 2]] - reach * np.array([np.sin(turn), np.cos(turn)])))
    return found


class Row(NamedTuple):
    """What became of the problems of one kind at one tolerance."""

    costs: FloatArray  # (n, 2) with k = 1 and k = 2; infinite where there is no way
    seconds: FloatArray  # (n,)
    errors: FloatArray  # (m, 2) [m] hand from object as found, and in the final motion
    moved: int  # of those without a way, how many have one within twice the tolerance that can be moved

    def __str__(self) -> str:
        share = 100.0 * np.isfinite(self.costs).mean(axis=0)
        both = np.isfinite(self.costs).all(axis=1)
        ratio = self.costs[both, 0] / self.costs[both, 1] if both.any() else np.full(1, np.nan)
        dearer = int((self.costs[both, 1] > self.costs[both, 0] * (1.0 + 1e-9)).sum())
        lost = int((np.isfinite(self.costs[:, 0]) & ~np.isfinite(self.costs[:, 1])).sum())
        worst = 1000.0 * self.errors.max(axis=0, initial=0.0)
        moved = share[1] + 100.0 * self.moved / len(self.costs)
        return (
            f"{share[0]:5.1f}  {share[1]:5.1f}  {lost:4d}  {ratio.mean():9.3f}  {dearer:6d}  "
            f"{np.median(self.seconds):8.2f}  {self.seconds.sum():7.0f}  {worst[0]:8.1f}  {worst[1]:8.2f}  {moved:5.1f}"
        )


HEADER = "              k=1 %  k=2 %  lost  cost 1/2   dearer  median s  total s  found mm  final mm  moved %"


def compare(
    graph: MotionGraph, tasks: list[Task], tolerance_m: float, budget_s: float, *, rebuilt: int = 5
) -> tuple[Row, list[SearchResult]]:
    """Search every problem once; costs without blends are those that the search had before it looked at blends."""
    costs, seconds, errors = np.full((len(tasks), 2), np.inf), np.zeros(len(tasks)), list[tuple[float, float]]()
    results, moved = list[SearchResult](), 0
    for n, task in enumerate(tasks):
        found = search_graph(
            graph, task.sketch, k=2, budget_s=budget_s, epsilon=EPSILONS, pick_tolerance_m=tolerance_m, until=1
        )
        costs[n, 0] = min((s.cost for s in found.history if s.k == 1), default=np.inf)
        costs[n, 1], seconds[n] = found.cost, found.seconds
        results.append(found)
        moved += not found.is_solved and can_be_moved(graph, task, tolerance_m, budget_s)
        if found.is_solved and len(errors) < rebuilt:
            errors.append((found.errors[0], max(rebuild_for(graph, found, task.sketch)[1])))
    return Row(costs, seconds, np.array(errors).reshape(-1, 2), moved), results


def can_be_moved(graph: MotionGraph, task: Task, tolerance_m: float, budget_s: float) -> bool:
    """Whether a way within twice the tolerance becomes one within it when its footsteps are moved."""
    wide = 2.0 * tolerance_m
    found = search_graph(graph, task.sketch, k=2, budget_s=budget_s, epsilon=(3.0,), pick_tolerance_m=wide, until=1)
    if not found.is_solved:
        return False
    step = found.met[0]
    moved = refine_places(graph, found, {step: Aim(task.point, task.root)}, most_m=wide)
    hand, root = hand_and_root(graph, moved, step)
    away = 0.0 if task.root is None else float(np.linalg.norm(root - task.root))
    return away <= tolerance_m and float(np.linalg.norm((hand - task.point)[[0, 2]])) <= tolerance_m


def walk_cycles(graph: MotionGraph, rng: np.random.Generator, most: int = 4000) -> IntArray:
    """Ways of one walk cycle ``(n, CYCLE)`` from the walking state with the most of them."""
    arrays = graph.arrays
    quiet = (arrays.event == 0) & ~arrays.is_standing
    single = quiet & (np.isfinite(arrays.feet[:, :, 0]).sum(axis=1) == 1)
    start = int(np.argmax(np.where(single, np.diff(arrays.first), 0)))
    ways = np.arange(arrays.first[start], arrays.first[start + 1])[:, None]
    for _ in range(CYCLE - 1):
        ends = arrays.target[ways[:, -1]]
        ways = np.concatenate(
            [np.column_stack([np.repeat(ways[[n]], arrays.first[s + 1] - arrays.first[s], axis=0),
                              np.arange(arrays.first[s], arrays.first[s + 1])]) for n, s in enumerate(ends)]
        )  # fmt: skip
        ways = ways[quiet[arrays.target[ways[:, -1]]]]
        ways = ways[rng.permutation(len(ways))[:most]]
    return ways[arrays.kind[arrays.target[ways[:, -1]]] == arrays.kind[start]]


def cycle_ends(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    """Where roots end ``(n, W, 2)`` [m] after blended cycles, seen from the root at their start."""
    at = np.zeros((len(first), len(weights), 3))
    for column in range(CYCLE):
        at = composed(at, blended_deltas(graph, first[:, column], second[:, column], weights))
    a, c = (graph.arrays.root[graph.arrays.target[ways[:, -1]]][:, None] for ways in (first, second))
    w = weights[None, :, None]
    source = int(np.searchsorted(graph.arrays.first, first[0, 0], side="right")) - 1
    home = graph.arrays.root[source]
    end = composed(at, w * a + (1.0 - w) * c)[..., :2] - home[:2]
    cos, sin = np.cos(home[2]), np.sin(home[2])
    return np.stack([cos * end[..., 0] - sin * end[..., 1], sin * end[..., 0] + cos * end[..., 1]], axis=-1)


def walk_study(graph: MotionGraph, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """P3: how near [m] cycles come to ``count`` places straight ahead, alone and blended."""
    ways = walk_cycles(graph, rng)
    alone = cycle_ends(graph, ways, ways, np.ones(1))[:, 0]
    ahead = np.sort(alone[np.abs(alone[:, 0]) < 0.1, 1])
    places = np.stack([np.zeros(count), np.linspace(*np.quantile(ahead, [0.02, 0.98]), count)], axis=1)
    partners, near = find_partners(graph), np.linalg.norm(places[:, None] - alone[None], axis=-1)
    best = near.min(axis=1)
    for n, place in enumerate(places):
        chosen = np.concatenate([np.argsort(near[n])[:150], rng.integers(0, len(ways), 50)])
        a, c = (chosen[side] for side in np.triu_indices(len(chosen), 1))
        good = np.ones(len(a), dtype=bool)
        for column in range(CYCLE):
            good &= partners.has(graph.arrays.target[ways[a, column]], graph.arrays.target[ways[c, column]])
        if good.any():
            ends = cycle_ends(graph, ways[a[good]], ways[c[good]], WEIGHTS)
            best[n] = min(best[n], float(np.linalg.norm(ends - place, axis=-1).min()))
    return near.min(axis=1), best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", help="folder with clips of subject 69, a graph file, or 'demo'")
    parser.add_argument("--points", type=int, default=179)
    parser.add_argument("--budget", type=float, default=12.0, help="seconds for each problem")
    chosen = parser.parse_args()
    begin, rng = time.perf_counter(), np.random.default_rng(41)
    graph = study_graph(chosen.clips)
    print(f"{graph.num_states} states, {graph.num_edges} edges, built in {time.perf_counter() - begin:.0f} s")
    print(f"picks {pick_shapes(graph).min(axis=0)} to {pick_shapes(graph).max(axis=0)} m (reach, height)\n{HEADER}")
    for name, make in (("P1", free_tasks), ("P2", pinned_tasks)):
        tasks = make(graph, chosen.points, rng)
        for tolerance in TOLERANCES_M:
            print(f"{name} {100 * tolerance:5.1f} cm  {compare(graph, tasks, tolerance, chosen.budget)[0]}", flush=True)
    near = walk_study(graph, 20, np.random.default_rng(5))
    for tolerance in TOLERANCES_M:
        share = [100.0 * float((away <= tolerance).mean()) for away in near]
        print(f"P3 {100 * tolerance:5.1f} cm  {share[0]:5.1f}  {share[1]:5.1f}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
