"""Table 4.1 of [Safonova2006]_: how many problems are solved without blends (k = 1) and with blends of two (k = 2).

P1: from a stand at the origin to a pick. Points are drawn where the clips can reach: heights between the lowest and the
highest pick of the graph, on the ground between 1.5 and 3.5 m ahead and up to 45 degrees to either side. P2: the same,
and the root is pinned to a place while picking: its distance from the object and the object's height are drawn from the
convex hull of what the picks of the graph have, its direction up to 30 degrees from the way there. P3: one walk cycle
from a walking state to a place straight ahead, between the shortest and the longest of the graph.

Success is a final motion whose hand and pinned root are within the tolerance, found within the budget. Every problem
is one search that ends with its first solution: without blends first, for a third of the budget, then with them. The
main columns have footsteps that give way (``method="moved"``, the product's way); "plain" are those of the graph alone
(``method="img_ara"``: with k = 2 any step may be blended with an alike one), "thesis" is what Table 4.1 prints. The
last line counts pairs of steps that were looked at, and how many each rule of the physics of blends has pruned.
``--thesis`` builds a graph of about the size of the thesis's second one (6 500 poses, 70 000 transitions, 200 states,
2 200 edges) in place of the whole one. With ``--improve`` searches go on until the cost is proved to be within 1.5 of
the best, or the time is over, so that costs of k = 1 and k = 2 can be compared.

    python benchmarks/study_picks.py CLIPS_FOLDER --points 179 --budget 16 --plain 2
    python benchmarks/study_picks.py demo --points 60
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph import MotionGraph, SearchResult, build_graph, load_graph, search_graph
from marey.graph.arrays import PICK_LEFT, PICK_RIGHT, compose_planar
from marey.graph.paths import blended_deltas, find_partners
from marey.graph.search.free_blends import find_step_partners
from marey.io import load
from marey.world import Event, GroundPose, Sketch, Thing, World

TOLERANCES_M = (0.025, 0.05, 0.1)
EPSILONS = (3.0, 1.5)
THESIS = {"P1": ((31, 99), (70, 100), (99, 100)), "P2": ((16, 96), (45, 99.5), (87, 100))}  # [%] k = 1, k = 2
THESIS_WALKS = ((40, 100), (75, 100), (100, 100))
WEIGHTS = np.linspace(0.0, 1.0, 10)
THESIS_CLIPS = (1, 2, 4, 5, 6, 7, 8, *range(68, 76))  # walks, turns, picks of subject 69: 6 444 poses
THESIS_SIZE = {"density": 7.5, "merge": 3.0, "step_bin_m": 0.1, "spare": 12}
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
        return Sketch(GroundPose((0.0, 0.0), 0.0), GroundPose((0.0, 5.0)), events=(event,), world=things)


def study_graph(source: str, *, is_thesis: bool = False) -> MotionGraph:
    """A graph file, the demo graph, or walks, turns and picks of subject 69: few, or all and their mirror images."""
    if source == "demo":
        from marey.samples import demo_graph

        return demo_graph()
    if Path(source).is_file():
        return load_graph(source)
    if is_thesis:
        return build_graph([load(Path(source) / f"69_{trial:02d}.bvh") for trial in THESIS_CLIPS], **THESIS_SIZE)
    return build_graph([load(file) for file in sorted(Path(source).glob("69_*.bvh"))], mirror=True)


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
    errors: FloatArray  # (m, 2) [m] as found, and in the final motion: hand and pinned root, the greater
    plain: FloatArray  # (n, 2) costs of the plain search

    def __str__(self) -> str:
        share = 100.0 * np.isfinite(self.costs).mean(axis=0)
        plain = 100.0 * np.isfinite(self.plain).mean(axis=0)
        both = np.isfinite(self.costs).all(axis=1)
        ratio = self.costs[both, 0] / self.costs[both, 1] if both.any() else np.full(1, np.nan)
        dearer = int((self.costs[both, 1] > self.costs[both, 0] * (1.0 + 1e-9)).sum())
        lost = int((np.isfinite(self.costs[:, 0]) & ~np.isfinite(self.costs[:, 1])).sum())
        worst = 1000.0 * self.errors.max(axis=0, initial=0.0)
        return (
            f"{share[0]:5.1f}  {share[1]:5.1f}  {lost:4d}  {ratio.mean():9.3f}  {dearer:6d}  "
            f"{np.median(self.seconds):8.2f}  {self.seconds.sum():7.0f}  {worst[0]:8.1f}  {worst[1]:8.2f}  "
            f"{plain[0]:5.1f}  {plain[1]:5.1f}"
        )


HEADER = (
    "             k=1 %  k=2 %  lost  cost 1/2   dearer  median s  total s  found mm  final mm  plain 1, 2  thesis 1, 2"
)


def compare(
    graph: MotionGraph, tasks: list[Task], tolerance_m: float, budget_s: float, plain_s: float, *, improve: bool = False
) -> tuple[Row, list[SearchResult]]:
    """Search every problem once with moved footsteps and once without; what is not within the tolerance is no way."""
    costs, plain = np.full((len(tasks), 2), np.inf), np.full((len(tasks), 2), np.inf)
    seconds, errors, results = np.zeros(len(tasks)), list[tuple[float, float]](), list[SearchResult]()
    for n, task in enumerate(tasks):
        found = solve(graph, task, tolerance_m, budget_s, "moved", improve=improve)
        seconds[n] = found.seconds
        results.append(found)
        if found.is_solved:
            errors.append((found.found_errors[0], found.errors[0]))
        if found.is_solved and found.errors[0] <= tolerance_m:
            costs[n] = alone(found), found.cost
        if plain_s > 0.0:
            found = solve(graph, task, tolerance_m, plain_s, "img_ara", improve=improve)
            plain[n] = alone(found), found.cost
    return Row(costs, seconds, np.array(errors).reshape(-1, 2), plain), results


def solve(
    graph: MotionGraph, task: Task, tolerance_m: float, budget_s: float, method: str, *, improve: bool = False
) -> SearchResult:
    """Search one problem up to its first solution, or until it is known to be good."""
    return search_graph(
        graph, task.sketch, k=2, budget_s=budget_s, epsilon=EPSILONS, pick_tolerance_m=tolerance_m, until=1,
        method=method, on_solution=None if improve else lambda _: True,
    )  # fmt: skip


def alone(found: SearchResult) -> float:
    """Cost of the best way without blends."""
    return min((s.cost for s in found.history if s.k == 1), default=np.inf)


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
        at = compose_planar(at, blended_deltas(graph, first[:, column], second[:, column], weights))
    a, c = (graph.arrays.root[graph.arrays.target[ways[:, -1]]][:, None] for ways in (first, second))
    w = weights[None, :, None]
    source = int(np.searchsorted(graph.arrays.first, first[0, 0], side="right")) - 1
    home = graph.arrays.root[source]
    end = compose_planar(at, w * a + (1.0 - w) * c)[..., :2] - home[:2]
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
            good &= partners.matrix()[graph.arrays.target[ways[a, column]], graph.arrays.target[ways[c, column]]]
        if good.any():
            ends = cycle_ends(graph, ways[a[good]], ways[c[good]], WEIGHTS)
            best[n] = min(best[n], float(np.linalg.norm(ends - place, axis=-1).min()))
    return near.min(axis=1), best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", help="folder with clips of subject 69, a graph file, or 'demo'")
    parser.add_argument("--points", type=int, default=179)
    parser.add_argument("--budget", type=float, default=16.0, help="seconds for each problem")
    parser.add_argument("--plain", type=float, default=2.0, help="seconds for each problem without moves; 0: none")
    parser.add_argument("--improve", action="store_true", help="go on after the first solution")
    parser.add_argument("--thesis", action="store_true", help="a graph as large as the thesis's")
    chosen = parser.parse_args()
    begin, rng = time.perf_counter(), np.random.default_rng(41)
    graph = study_graph(chosen.clips, is_thesis=chosen.thesis)
    print(f"{graph.num_states} states, {graph.num_edges} edges, built in {time.perf_counter() - begin:.0f} s")
    print(f"picks {pick_shapes(graph).min(axis=0)} to {pick_shapes(graph).max(axis=0)} m (reach, height)\n{HEADER}")
    for name, make in (("P1", free_tasks), ("P2", pinned_tasks)):
        tasks = make(graph, chosen.points, rng)
        for tolerance, printed in zip(TOLERANCES_M, THESIS[name], strict=True):
            row, _ = compare(graph, tasks, tolerance, chosen.budget, chosen.plain, improve=chosen.improve)
            print(f"{name} {100 * tolerance:5.1f} cm  {row}  {printed[0]:10} {printed[1]:5}", flush=True)
    near = walk_study(graph, 20, np.random.default_rng(5))
    for tolerance, printed in zip(TOLERANCES_M, THESIS_WALKS, strict=True):
        share = [100.0 * float((away <= tolerance).mean()) for away in near]
        print(
            f"P3 {100 * tolerance:5.1f} cm  {share[0]:5.1f}  {share[1]:5.1f}  thesis {printed[0]} {printed[1]}",
            flush=True,
        )
    print(f"pairs of steps: {dict(find_step_partners(graph).counts)}")
    print(f"{time.perf_counter() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
