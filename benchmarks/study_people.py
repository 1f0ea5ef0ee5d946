"""Whole people tracked by one and two cameras, root free: ``python benchmarks/study_people.py MOCAP [CLIPS] [FRAMES]``.

Captures of people who are neither in the pose model nor in any tuning (``tracking_people.toml``), on the canonical
human, seen from a random side with 2 px of noise. The trackers have equal information: detections, body, limits and the
first pose, which the default tracker is not told. The filters see a quarter of the clips.

With ``--bodies`` the people have the proportions of their captures, of which the tracker is told nothing or all; errors
are of shoulders, elbows, wrists, hips, knees and ankles.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from fit_people_poses import list_clips, read_clip

import marey
from marey.kinematics import posing_limits
from marey.motion import Motion, resample
from marey.skeleton import HUMAN
from marey.tracking import (
    Camera,
    EffectorFilter,
    Observations,
    PersonTracker,
    PoseFilter,
    fit_body,
    measure_clip_segments,
    observe,
    track_points,
)

POINTS = (
    "head",
    *(
        f"{side}_{part}"
        for part in ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
        for side in ("left", "right")
    ),
)
TOOLS = ("left_wrist", "right_wrist", "head", "left_ankle", "right_ankle")

LIMITS = posing_limits(HUMAN)
GUIDED = EffectorFilter(25, "guided", tools=TOOLS, limits=LIMITS, root="free")
FULL = PoseFilter(100, tools=TOOLS, limits=LIMITS, root="free")
DEFAULT, COMPARED = "pose model, no start", 4  # filters are slow: every fourth clip or so
TRACKERS = {
    DEFAULT: lambda views, start, rng: PersonTracker(body=start.skeleton).run(views),
    "pose model": lambda views, start, rng: PersonTracker().run(views, start),
    "end effectors, guided, 25": GUIDED.run,
    "end effectors, random walk, 25": replace(GUIDED, proposal="random-walk").run,
    "full pose, guided, 100": replace(FULL, proposal="guided").run,
    "full pose, random walk, 100": FULL.run,
}


def place_cameras(motion: Motion, seed: int) -> list[Camera]:
    """Two cameras about a quarter turn apart, far enough to see the whole way."""
    rng, middle = np.random.default_rng(seed), motion.root_positions.mean(axis=0) * (1.0, 0.0, 1.0) + (0.0, 1.0, 0.0)
    away = max(3.5, 3.0 + 1.2 * float(np.abs(motion.root_positions - middle)[:, [0, 2]].max()))
    first = rng.uniform(0.0, 2.0 * np.pi)
    sides = (first, first + 0.5 * np.pi * rng.uniform(0.7, 1.2))
    eyes = [middle + np.array([away * np.sin(side), 0.4, away * np.cos(side)]) for side in sides]
    return [Camera(eye, middle, 900.0, (1280, 960)) for eye in eyes]


def error_cm(found: Motion, truth: Motion) -> float:
    """Mean distance of all joints [cm]."""
    return 100.0 * float(np.linalg.norm(found.joint_positions() - truth.joint_positions(), axis=-1).mean())


def study_bodies(files: list[tuple[Path, float]], frames: int) -> None:
    """Print errors [cm] on captures with their own proportions."""
    rows = list[list[float]]()
    for file, rate_hz in files:
        truth = resample(marey.load(file, rate_hz=rate_hz)[1:], 30.0)[:frames]
        rng, points = np.random.default_rng(1), track_points(truth, POINTS[1:])
        views = [observe(truth, eye, POINTS, rng=rng) for eye in place_cameras(truth, sum(file.stem.encode()))]
        body, row = fit_body(measure_clip_segments(truth)), list[float]()
        for tracker, eyes in (
            (PersonTracker(), views[:1]),
            (PersonTracker(body=body), views[:1]),
            (PersonTracker(), views),
        ):
            away = track_points(tracker.run(eyes).motion, POINTS[1:]) - points
            row.append(100.0 * float(np.linalg.norm(away, axis=-1).mean()))
        rows.append(row)
        print(f"{file.stem}: unknown {row[0]:.1f}, known {row[1]:.1f}, two cameras {row[2]:.1f} cm", flush=True)
    for name, found in (("mean", np.mean(rows, 0)), ("median", np.median(rows, 0)), ("worst", np.max(rows, 0))):
        print(f"{name}: unknown {found[0]:.1f}, known {found[1]:.1f}, two cameras {found[2]:.1f} cm")


def main(mocap: Path, count: int, frames: int) -> None:
    """Print both tables."""
    files = list_clips(mocap, "test")
    files = [files[i] for i in np.unique(np.linspace(0, len(files) - 1, count).astype(int))]
    if "--bodies" in sys.argv:
        study_bodies(files, frames)
        return
    rows, compared = dict[str, list[float]](), [file for file, _ in files[:: max(1, len(files) // COMPARED)]]
    print(f"{len(files)} clips of {frames} frames at 30 Hz: {', '.join(file.stem for file, _ in files)}")
    for file, rate_hz in files:
        truth = read_clip(file, rate_hz)[:frames]
        line = [file.stem]
        for cameras in (1, 2):
            rng = np.random.default_rng(1)
            eyes = place_cameras(truth, sum(file.stem.encode()))[:cameras]
            views: list[Observations] = [observe(truth, eye, POINTS, noise_px=2.0, rng=rng) for eye in eyes]
            for name, run in TRACKERS.items():
                if name != DEFAULT and file not in compared:
                    continue
                begin = time.process_time()
                found = error_cm(run(views, truth[0], np.random.default_rng(0)).motion, truth)
                rows.setdefault(f"{name} | {cameras}", []).append(found)
                line.append(f"{name} ({cameras}) {found:.1f} [{time.process_time() - begin:.0f} s]")
        print("; ".join(line), flush=True)
    print("| tracker | cameras | mean [cm] | median | worst clip |\n|---|---|---|---|---|")
    for name, found in rows.items():
        print(f"| {name} | {np.mean(found):.1f} | {np.median(found):.1f} | {np.max(found):.1f} |")


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if not word.startswith("--")]
    main(Path(given[0]), *(int(n) for n in (*given[1:3], *("16", "60")[len(given) - 1 :])))
