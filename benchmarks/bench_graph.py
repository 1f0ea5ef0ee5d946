"""Motion graphs: distances of poses, the build of a graph of 15 000 poses, and searches of the shipped sketches."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from harness import Row, compare, measure

from marey.base import FloatArray
from marey.graph import MotionGraph, build_graph, save_graph
from marey.graph.database.pose_metric import UP, WINDOW, PointClouds
from marey.lie import SO3

MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))
PAIR_NS = 100.0  # a pair of windows of five poses of 31 joints, aligned as well as can be
BUILD_S = 120.0  # [Safonova2006] took an hour
FIRST_S, BEST_S = 0.5, 20.0  # to the first motion and to the proved best, median over the shipped sketches
SEARCH_S = 30.0  # budget of one search
TURNED_DEG = 15.0  # the second ten sketches of A9 are the first with another start
EVENTS = ("pick", "three-rivers", "pick-jump-goal")
FEWER = 5.0  # expansions as the crow flies over ours at epsilon 10, picks and jumps (A8; the thesis has 20)


def planar_distance(first: FloatArray, second: FloatArray) -> float:
    """Mean squared distance [m²] of two clouds ``(K, 3)`` after the best turn and shift on the ground, pair by pair."""
    p, q = (np.asarray(cloud, dtype=np.float64) - cloud.mean(axis=0) * [1.0, 0.0, 1.0] for cloud in (first, second))
    angle = np.arctan2((p[:, 2] * q[:, 0] - p[:, 0] * q[:, 2]).sum(), (p[:, 0] * q[:, 0] + p[:, 2] * q[:, 2]).sum())
    turned = SO3.exp(-angle * UP) @ q
    return float(((p - turned) ** 2).sum(axis=1).mean())


def rows() -> list[Row]:
    """Check that both distances agree, then race them; build a graph if there are clips."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, WINDOW * 31, 3))
    clouds = PointClouds.from_points(points)
    few = PointClouds.from_points(points[:40])
    whole = slice(None)
    loop = [[planar_distance(a, b) for b in points[:40]] for a in points[:40]]
    gap = np.abs(few.distances(whole, whole) - loop).max()
    if gap > 1e-9:
        raise SystemExit(f"the two distances disagree by {gap}: the race would be void")

    def pair_by_pair() -> None:
        for a in points[:40]:
            for b in points[:40]:
                planar_distance(a, b)

    pairs = len(points) ** 2
    made = [
        measure(
            "pose distance, 4 000 000 pairs",
            lambda: clouds.distances(whole, whole),
            limit_ms=1e-6 * PAIR_NS * pairs,
            note=f"budget {PAIR_NS:g} ns a pair",
        ),
        compare(
            "pose distance, 1 600 pairs",
            lambda: few.distances(whole, whole),
            "pair by pair",
            pair_by_pair,
            repeats=5,
            bar=100.0,
        ),
    ]
    return [*made, *_build(), *_searches()]


def _build() -> list[Row]:
    folder = MOCAP / "cmu-bvh"
    if not folder.is_dir():
        return []
    from marey.io import load

    clips = [load(path) for path in sorted(folder.glob("69_*.bvh"))]
    graphs = []
    row = measure("graph of 15 000 poses", lambda: graphs.append(build_graph(clips)), limit_ms=1e3 * BUILD_S, repeats=2)
    size, graph = graphs[-1].size, graphs[-1]
    with TemporaryDirectory() as home:
        files = [Path(home) / f"{n}.safetensors" for n in range(2)]
        for file, built in zip(files, graphs, strict=False):
            save_graph(built, file)
        if files[0].read_bytes() != files[1].read_bytes():
            raise SystemExit("two builds of the same clips differ")
    note = (
        f"{size.poses} poses, {size.transitions} transitions -> {graph.num_states} states "
        f"({size.poses / graph.num_states:.1f}x), {graph.num_edges} edges ({size.transitions / graph.num_edges:.1f}x)"
    )
    return [Row(**{**{name: getattr(row, name) for name in row.__slots__}, "note": note})]


def _searches() -> list[Row]:
    """Seconds to the first way and to the proved best (A9), and expansions against those of the crow (A8)."""
    from marey.graph import search_graph
    from marey.samples import demo_graph, sketch_file, sketch_names
    from marey.world import Sketch

    graph = demo_graph()
    sketches = [Sketch.load(sketch_file(name)) for name in sketch_names()]
    turned = [
        replace(one, start=replace(one.start, heading_deg=(one.start.heading_deg or 0.0) + TURNED_DEG))
        for one in sketches
    ]
    search_graph(graph, sketches[0], k=1, budget_s=1.0)  # compiled and laid out
    found = [search_graph(graph, one, k=1, budget_s=SEARCH_S) for one in (*sketches, *turned)]
    first = [one.history[0].seconds if one.history else np.inf for one in found]
    best = [one.seconds if one.status == "OPTIMAL" else np.inf for one in found]
    bounds = ", ".join(f"{name} {one.epsilon:.2f}" for name, one in zip(sketch_names(), found, strict=False))
    ratios = [b / f for f, b in zip(first, best, strict=True) if np.isfinite(f)]
    return [
        _budget("first motion, ten sketches", 1e3 * median(first[: len(sketches)]), 1e3 * FIRST_S, f"proved: {bounds}"),
        _budget("best motion, ten sketches", 1e3 * median(best[: len(sketches)]), 1e3 * BEST_S, "inf: not proved"),
        _budget("first motion, twenty sketches", 1e3 * median(first), 1e3, "A9: at most 1 s"),
        _ratio("best over first, twenty sketches", median(ratios), 10.0, "A9: at least 10"),
        _ratio(
            "expansions of the crow over combined", *_expansions(graph), FEWER, "A8, least of: " + ", ".join(EVENTS)
        ),
    ]


def _budget(name: str, ms: float, limit_ms: float, note: str) -> Row:
    return Row(name, "budget", ms, limit_ms, *3 * (limit_ms / ms,), 1.0, note)


def _ratio(name: str, ratio: float, bar: float, note: str) -> Row:
    return Row(name, "ratio", 0.0, 0.0, ratio, ratio, ratio, bar, note)


def _expansions(graph: MotionGraph) -> tuple[float]:
    """Least ratio of expansions at epsilon 10, all constraints at once; a search that found nothing counts as it is."""
    from marey.graph.search.anytime import AnytimeSearch
    from marey.graph.search.blended_graph import borrow_memory, prepare_graph
    from marey.graph.search.problem import SearchClock, SearchProblem
    from marey.samples import sketch_file
    from marey.world import Sketch

    ratios = []
    for name in EVENTS:
        count = []
        for heuristic in ("euclid", "combined"):
            problem = SearchProblem.from_sketch(
                prepare_graph(graph, calm=True), Sketch.load(sketch_file(name)), heuristic
            )
            assert isinstance(problem, SearchProblem)
            with borrow_memory(2_000_000) as memory:
                run = AnytimeSearch(problem, memory, SearchClock(SEARCH_S), None)
                run._search_all_constraints((10.0,))
                run._accumulate_counts()
                count.append(run.expansions)
        ratios.append(count[0] / count[1])
    return (min(ratios),)


if __name__ == "__main__":
    for made in rows():
        print(made, made.note)
