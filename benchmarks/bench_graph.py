"""Motion graphs: distances of poses against the loop over pairs, and the build of a graph of 15 000 poses."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from harness import Row, compare, measure

from marey.graph import build, graph_bytes
from marey.graph._distance import WINDOW, PointClouds, planar_distance

MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))
PAIR_NS = 100.0  # a pair of windows of five poses of 31 joints, aligned as well as can be
BUILD_S = 120.0  # [Safonova2006] took an hour


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
    return [*made, *_build()]


def _build() -> list[Row]:
    folder = MOCAP / "cmu-bvh"
    if not folder.is_dir():
        return []
    from marey.io import load

    clips = [load(path) for path in sorted(folder.glob("69_*.bvh"))]
    graphs = []
    row = measure("graph of 15 000 poses", lambda: graphs.append(build(clips)), limit_ms=1e3 * BUILD_S, repeats=2)
    size, graph = graphs[-1].size, graphs[-1]
    if graph_bytes(graphs[0]) != graph_bytes(graphs[1]):
        raise SystemExit("two builds of the same clips differ")
    note = (
        f"{size.poses} poses, {size.transitions} transitions -> {graph.num_states} states "
        f"({size.poses / graph.num_states:.1f}x), {graph.num_edges} edges ({size.transitions / graph.num_edges:.1f}x)"
    )
    return [Row(**{**{name: getattr(row, name) for name in row.__slots__}, "note": note})]


if __name__ == "__main__":
    for made in rows():
        print(made, made.note)
