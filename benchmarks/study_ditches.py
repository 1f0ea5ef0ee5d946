"""Random gently curved paths of 11 m over a ditch of 0.7 m, by default: how many get a motion that keeps the sketch.

``python benchmarks/study_ditches.py [--count N] [--seed S] [--engine NAME] [--strips FOLDER]`` prints one row for each.
"""

from __future__ import annotations

import argparse
from pathlib import Path as FilePath

import numpy as np

from marey.base import MareyError
from marey.picture import film_strip, save_image
from marey.pipeline import synthesize_sketch
from marey.world import GroundPose, Path, River, Sketch, World


def random_sketch(rng: np.random.Generator, number: int) -> Sketch:
    """A path of 11 m that bends gently all the way, and a ditch across it after 6 m."""
    heading, curvature, points = rng.uniform(-0.3, 0.3), 0.0, [np.zeros(2)]
    for _ in range(22):
        curvature = np.clip(curvature + rng.uniform(-0.06, 0.06), -0.15, 0.15)  # [1/m] radii of 7 m and more
        heading += 0.5 * curvature
        points.append(points[-1] + 0.5 * np.array([np.sin(heading), np.cos(heading)]))
    path = Path(np.array(points), "spline")
    middle, along = path.point_at(6.0), float(path.heading_at(6.0))
    across = np.array([np.cos(along), -np.sin(along)])
    a, b = middle - 2.0 * across, middle + 2.0 * across
    river = River((float(a[0]), float(a[1])), (float(b[0]), float(b[1])), 0.7)
    end = (float(points[-1][0]), float(points[-1][1]))
    return Sketch(GroundPose((0.0, 0.0)), GroundPose(end), path, world=World(rivers=(river,)), name=f"ditch-{number}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--strips", type=FilePath)
    args = parser.parse_args()
    rng, solved, kept = np.random.default_rng(args.seed), 0, 0
    for number in range(args.count):
        sketch = random_sketch(rng, number)
        try:
            made = synthesize_sketch(sketch, args.engine)
        except MareyError as error:
            print(f"{sketch.name:9s} refused: {error}", flush=True)
            continue
        if made.motion is None or made.errors is None or made.validity is None:
            print(f"{sketch.name:9s} {made.status}: {made.advice[:120]}", flush=True)
            continue
        solved, kept = solved + 1, kept + (not made.broken)
        told = "; ".join(made.broken) or "keeps the sketch"
        print(
            f"{sketch.name:9s} {made.engine:10s} {made.way_m:5.1f} of {made.errors.asked_m:4.1f} m, "
            f"valid {made.validity.valid_fraction:.2f}, {told}; {'; '.join(made.remarks)[:160]}", flush=True,
        )  # fmt: skip
        if args.strips is not None:
            save_image(
                film_strip(made.motion, count=14, layout="travel", world=sketch), args.strips / f"{sketch.name}.png"
            )
    print(f"{solved} of {args.count} have a motion, {kept} of them keep all constraints")


if __name__ == "__main__":
    main()
