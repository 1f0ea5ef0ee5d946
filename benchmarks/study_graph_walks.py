"""Random walks on graphs of captured people, beside the captures that they show: knees, feet, joints, world.

``python benchmarks/study_graph_walks.py FOLDER [PEOPLE...] [--walks N] [--seed S] [--keep FOLDER] [--strips FOLDER]``
builds a graph of the clips of each person (``07+08+35`` are three people in one graph), draws N random sketches for it
(gently curved, bent and turning paths of 3 to 8 m; every third one crosses a ditch of 0.25 to 0.4 m, every other third
passes a table) and prints what the meter says about the motions beside the raw captured frames that they show.
Settings were chosen on the graphs of 69 and 16; the others are the test.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np

from marey.graph import MotionGraph, build_graph, load_graph, save_graph
from marey.io import load
from marey.measure import Measurement, measure_motion
from marey.measure.posture import measure_limbs
from marey.measure.tracks import MeasuredBody, MeterSettings
from marey.motion import Motion
from marey.picture import film_strip, save_image
from marey.pipeline import synthesize_sketch
from marey.world import GroundPose, Path, River, Sketch, Table, World

PEOPLE = ("69", "16", "07+08+35", "91", "118", "83")
MIRRORED = "~"
FIGURES = (
    "bound", "way", "ratio", "turned", "invert", "knee", "acc99", "accmax", "scraped", "share", "out_cm", "wet_mm",
    "inside", "valid",
)  # fmt: skip
BARS = {
    "invert": 0.0, "knee": 3.0, "acc99": 1.3, "accmax": 1.3, "share": 1.2, "out_cm": 1.0, "wet_mm": 1.0, "inside": 0.0,
    "ratio": 1.15,
}  # fmt: skip


def random_sketch(rng: np.random.Generator, number: int) -> Sketch:
    """A path of two to four bends from the origin, facing along it; a ditch or a table on some."""
    heading, points = 0.0, [np.zeros(2)]
    bend = (0.4, 0.8, 1.6)[number % 3]  # [rad] gentle, bent, turning
    for _ in range(int(rng.integers(2, 5))):
        step = rng.uniform(1.4, 2.2)
        points.append(points[-1] + step * np.array([np.sin(heading), np.cos(heading)]))
        heading += rng.uniform(-bend, bend)
    path = Path(np.array(points), "spline")
    last = points[-1]
    world = World()
    middle, along = path.point_at(0.5 * path.length_m), float(path.heading_at(0.5 * path.length_m))
    across = np.array([np.cos(along), -np.sin(along)])
    if number % 3 == 1:
        ends = (middle - 3.0 * across, middle + 3.0 * across)
        world = World(rivers=(River(tuple(ends[0]), tuple(ends[1]), float(rng.uniform(0.25, 0.4))),))
    elif number % 3 == 2:
        side = rng.choice([-1.0, 1.0])
        world = World(
            tables=(Table(tuple(middle + side * 0.75 * across), (0.8, 0.5), 0.75, float(np.degrees(along)) + 90.0),)
        )
    return Sketch(
        GroundPose((0.0, 0.0), 0.0),
        GroundPose((float(last[0]), float(last[1]))),
        path,
        world=world,
        name=f"walk-{number}",
    )


@dataclass
class SourceClip:
    """A captured clip as it was read, and what the meter says about it."""

    motion: Motion
    measured: Measurement
    knees: np.ndarray  # (F, 2) [deg]
    elbows: np.ndarray  # (F, 2) [deg]

    @classmethod
    def read(cls, motion: Motion) -> SourceClip:
        """Measure a clip."""
        return cls(motion, measure_motion(motion), *limb_angles(motion))


def limb_angles(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Flexion of knees and elbows ``(F, 2)`` [deg]."""
    limbs = measure_limbs(MeasuredBody.from_motion(motion, MeterSettings()), MeterSettings())
    by = {limb.name: limb.flexion_deg for limb in limbs}
    return tuple(np.stack([by[f"left_{part}"], by[f"right_{part}"]], axis=1) for part in ("knee", "elbow"))


def shown_knees(graph: MotionGraph, sources: dict[str, SourceClip], steps) -> tuple[np.ndarray, dict[str, int]]:
    """Raw captured knee angles of the poses that a way shows, and how many poses of each clip it shows.

    A run of the graph is found in its clip by the elbows, which nothing in the graph changes.
    """
    database, found, used = graph.database, [], {}
    for step in steps:
        for start, stop in step.stretches or graph.stretches(step.edge):
            name = database.clips[int(database.clip[start])].partition("#")[0]
            source = sources[name.removesuffix(MIRRORED)]
            run = np.flatnonzero(database.clip == database.clip[start])
            offset = _offset(database, run, source, name.endswith(MIRRORED))
            frames = offset + (np.arange(start, stop) - run[0]) * source.motion.rate_hz / database.rate_hz
            frames = np.clip(np.rint(frames).astype(int), 0, source.motion.num_frames - 1)
            knees = source.knees[frames]
            found.append(knees[:, ::-1] if name.endswith(MIRRORED) else knees)
            used[name.removesuffix(MIRRORED)] = used.get(name.removesuffix(MIRRORED), 0) + stop - start
    return np.concatenate(found), used


_OFFSETS: dict[tuple[int, int], int] = {}


def _offset(database, run: np.ndarray, source: SourceClip, mirrored: bool) -> int:
    """First raw frame of a run."""
    key = (id(database), int(run[0]))
    if key not in _OFFSETS:
        own = limb_angles(database.motion(int(run[0]), int(run[-1]) + 1))[1]
        own = own[:, ::-1] if mirrored else own
        stride = source.motion.rate_hz / database.rate_hz
        last = source.motion.num_frames - int((len(run) - 1) * stride)
        at = np.rint(np.arange(len(run)) * stride).astype(int)
        errors = [
            float(np.abs(source.elbows[np.minimum(k + at, source.motion.num_frames - 1)] - own).mean())
            for k in range(max(last, 1))
        ]
        _OFFSETS[key] = int(np.argmin(errors))
    return _OFFSETS[key]


def study(people: str, folder: FilePath, args: argparse.Namespace) -> None:
    """One graph: its walks and its bars."""
    files = [file for person in people.split("+") for file in sorted(folder.glob(f"{person}_*.bvh"))]
    clips = [load(file) for file in files]
    sources = {clip.name: SourceClip.read(clip) for clip in clips}
    kept = FilePath(args.keep) / f"{people}.safetensors" if args.keep else None
    if kept is not None and kept.exists():
        graph = load_graph(kept)
    else:
        graph = build_graph(clips, mirror=True)
        if kept is not None:
            save_graph(graph, kept)
    rng, rows = np.random.default_rng(args.seed), []
    print(f"{people}: {len(clips)} clips, {graph.num_states} states, {graph.num_edges} edges")
    print(f"  {'sketch':8s} {'status':9s} {' '.join(f'{name:>{max(len(name), 6)}s}' for name in FIGURES)} faults")
    for number in range(args.walks):
        sketch = random_sketch(rng, number)
        try:
            done = synthesize_sketch(sketch, "graph", graph=graph, budget_s=args.budget, k=args.k)
        except Exception as error:
            print(f"  {sketch.name:8s} refused: {error}")
            continue
        if done.motion is None or done.search is None or done.errors is None:
            print(f"  {sketch.name:8s} {done.status}: {done.advice[:100]}")
            rows.append(None)
            continue
        measured = measure_motion(done.motion, world=sketch.world)
        raw, used = shown_knees(graph, sources, done.search.steps)
        # Without the rest at the end, which no step of the way shows
        shown_s = len(raw) / graph.database.rate_hz + sum(step.hold_s for step in done.search.steps)
        knees = limb_angles(done.motion)[0][: round(shown_s * done.motion.rate_hz)]
        shares = np.array(list(used.values())) / sum(used.values())
        own = [sources[name].measured for name in used]
        acc99 = sum(s * m["joint_acceleration_p99_deg_per_s2"] for s, m in zip(shares, own, strict=True))
        accmax = max(m["joint_acceleration_max_deg_per_s2"] for m in own)
        way = sum(s * m["way_m"] / sources[n].motion.duration_s for s, m, n in zip(shares, own, used, strict=True))
        scraped = sum(s * m["scraped_m_per_s"] for s, m in zip(shares, own, strict=True)) / max(way, 1e-9) * 10.0
        asked = sketch.path.length_m if sketch.path is not None else 1.0
        row = {
            "bound": done.search.epsilon,
            "way": done.way_m,
            "ratio": done.way_m / asked,
            "turned": measured["heading_change_deg"],
            "invert": measured["inverted_knee_frames"],
            "knee": float(np.abs(np.median(knees, axis=0) - np.median(raw, axis=0)).max()),
            "acc99": measured["joint_acceleration_p99_deg_per_s2"] / acc99,
            "accmax": measured["joint_acceleration_max_deg_per_s2"] / accmax,
            "scraped": measured["scraped_m_per_10m"],
            "share": measured["scraped_m_per_10m"] / max(scraped, 1e-9),
            "out_cm": 100.0 * done.errors.off_corridor_m,
            "wet_mm": done.errors.wet_mm,
            "inside": measured.values.get("obstacle_frames", 0.0),
            "valid": np.nan if done.validity is None else done.validity.valid_fraction,
        }
        rows.append(row)
        kinds = ",".join(sorted({fault.kind for fault in measured.faults}))
        figures = " ".join(f"{value:{max(len(name), 6)}.2f}" for name, value in row.items())
        print(f"  {sketch.name:8s} {done.status:9s} {figures} {kinds}", flush=True)
        if args.strips:
            picture = film_strip(done.motion, count=14, layout="travel", world=sketch)
            save_image(picture, FilePath(args.strips) / f"{people}-{number}.png")
    made = [row for row in rows if row is not None]
    if made:
        value = {name: np.array([row[name] for row in made]) for name in FIGURES}
        kept = ", ".join(f"{name} {int((value[name] <= bar).sum())}" for name, bar in BARS.items())
        medians = ", ".join(f"{name} {np.median(v):.2f}" for name, v in value.items())
        print(f"  {people}: {len(made)} of {len(rows)} solved; kept: {kept}; medians: {medians}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=FilePath)
    parser.add_argument("people", nargs="*", default=list(PEOPLE))
    parser.add_argument("--walks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=3.0)
    parser.add_argument("--k", type=int, default=1)
    parser.add_argument("--keep", help="folder of graphs that are built once")
    parser.add_argument("--strips", help="folder for pictures")
    args = parser.parse_args()
    for people in args.people:
        study(people, args.folder, args)


if __name__ == "__main__":
    main()
