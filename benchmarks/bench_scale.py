"""How cost grows with size: frames of a clip, poses of a graph, clips of a library.

``python benchmarks/bench_scale.py [frames] [poses] [clips]`` prints a line for each job: processor time at each size,
the growth exponent between the sizes, and the peak of memory over what the process held before, per frame. Each run has
a process of its own, so that peaks are its own; processor time is used because wall time depends on what else runs.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from harness import Row

MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))
FRAMES = (1_000, 10_000, 100_000)
POSES = (5_000, 20_000, 45_000, 100_000)
CLIPS = (100, 10_000)
FRAME_EXPONENT, FRAME_KB = 1.05, 3.0  # bars of frame-wise work
POSE_EXPONENT = 1.3  # bar of a graph build
BUILD_S = {45_000: 45.0, 100_000: 180.0}  # [s] bars of a build, on two cores
ADD_RATIO = 1.2  # bar of one more clip, in a large library against a small one
LEAST_S = 0.3  # [s] of processor time that a measurement takes at least; short jobs are repeated
Job = Callable[[], object]


def read_status(key: str) -> int:
    """Figure of this process [kB]: ``VmRSS`` now, ``VmHWM`` at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def measure_job(job: Job) -> dict[str, float]:
    """Processor time [s] of a job, its best of some repeats, and the growth of the peak of memory [kB]."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, took, total = read_status("VmRSS"), math.inf, 0.0
    while total < LEAST_S:
        start = time.process_time()
        job()
        used = time.process_time() - start
        took, total = min(took, used), total + max(used, 1e-4)
    return {"seconds": took, "kb": read_status("VmHWM") - before}


def make_motion(frames: int) -> Any:
    """Walk of a captured or shipped person, there and back until it is long enough."""
    import numpy as np

    import marey

    folder = MOCAP / "cmu-bvh"
    walk = marey.load(folder / "16_31.bvh") if folder.is_dir() else marey.samples.load("walk")
    order = np.concatenate([np.arange(len(walk)), np.arange(len(walk) - 2, 0, -1)])
    order = np.resize(order, frames)
    return marey.Motion(walk.skeleton, walk.rate_hz, walk.root_positions[order], marey.SO3(walk.rotations.wxyz[order]))


def frame_jobs(frames: int) -> dict[str, Callable[[], Job]]:
    """Makers of jobs by name; each makes its own input, outside the measurement."""
    import marey

    def kinematics() -> Job:
        from marey.skeleton import joint_frames

        motion = make_motion(frames)
        return lambda: joint_frames(motion.skeleton, motion.root_positions, motion.rotations.wxyz)

    def contacts() -> Job:
        motion = make_motion(frames)
        return lambda: marey.detect_contacts(motion)

    def validity() -> Job:
        from marey.contacts import ensure_contacts
        from marey.dynamics import check_validity

        motion = ensure_contacts(make_motion(frames))
        return lambda: check_validity(motion)

    def retarget() -> Job:
        motion = make_motion(frames)
        return lambda: marey.retarget(motion, marey.HUMAN)

    def compress() -> Job:
        motion = make_motion(frames)
        return lambda: marey.compress(motion)

    return {job.__name__: job for job in (kinematics, contacts, validity, retarget, compress)}


def run_frames(name: str, frames: int) -> dict[str, float]:
    """Measure one job of frames; kernels are compiled, and lazy modules loaded, on a short clip before."""
    frame_jobs(300)[name]()()
    return measure_job(frame_jobs(frames)[name]())


@cache
def load_clips() -> list[Any]:
    """All captured clips, in the order of their names."""
    from marey.io import load

    return [load(path) for path in sorted((MOCAP / "cmu-bvh").glob("*.bvh"))]


def run_poses(poses: int) -> dict[str, float]:
    """Build a graph of so many poses from as many captured clips as it takes; wall time counts too."""
    from marey.graph import build_graph

    clips = load_clips()
    # Poses at the rate of the graph, clips as they are; beyond the captures, clips of other speeds
    chosen, count, turn = list[Any](), 0, 0
    while count < poses:
        clip = clips[turn % len(clips)]
        if turn >= len(clips):
            clip = vary_clip(clip, turn // len(clips))
        chosen.append(clip)
        count += round(clip.duration_s * 30.0)
        turn += 1
    build_graph([clip for clip in clips if clip.name.startswith("69_0")][:3])  # compiled
    built = list[Any]()
    start, own = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    found = measure_job(lambda: built.append(build_graph(chosen, workers=2)))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["seconds"] += spent.ru_utime + spent.ru_stime - own.ru_utime - own.ru_stime
    return found | {"wall_s": time.perf_counter() - start, "poses": built[-1].size.poses, "edges": built[-1].num_edges}


def vary_clip(clip: Any, number: int) -> Any:
    """The same motion a little slower: other poses at the rate of a graph."""
    from dataclasses import replace

    return replace(clip, rate_hz=clip.rate_hz / (1.0 + 0.03 * number), name=f"{clip.name}-{number}")


def run_clips(clips: int) -> dict[str, float]:
    """Processor time [s] of one more clip in a library of so many clips of one shape, the mean of forty."""
    from dataclasses import replace

    from marey.library import Library
    from marey.library.records import motion_signature

    walk = make_motion(400)
    with tempfile.TemporaryDirectory() as home, Library(Path(home) / "library") as library:
        library.add_motion(shift_clip(walk, 0))
        # Rows alone, in one transaction: the files of the others do not matter to one more
        record, catalogue = library.clips()[0], library._store.catalogue
        with catalogue.writing():
            for number in range(1, clips):
                own = replace(record, id=f"{number:064x}", name=f"w{number}")
                catalogue.insert(own, motion_signature(shift_clip(walk, number)))
        more = [shift_clip(walk, number) for number in range(clips, clips + 40)]
        library.add_motion(shift_clip(walk, clips + 40))
        start = time.process_time()
        for clip in more:
            library.add_motion(clip)
        return {"seconds": (time.process_time() - start) / len(more), "rows": float(len(library))}


def shift_clip(walk: Any, number: int) -> Any:
    """A window of 48 frames of a walk, with a root of its own place: no other clip is the same motion."""
    import numpy as np

    from marey.motion import Motion

    window = walk[number % 300 : number % 300 + 48]
    rng = np.random.default_rng(number)
    noise = np.cumsum(rng.normal(0.0, 1e-3, (48, 3)), axis=0)
    return Motion(window.skeleton, window.rate_hz, window.root_positions + noise, window.rotations, name=f"w{number}")


def run_apart(kind: str, *values: object) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    words = [sys.executable, __file__, "--one", kind, *map(str, values)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def growth(sizes: tuple[int, ...], seconds: list[float]) -> list[float]:
    """Exponents between one size and the next."""
    pairs = zip(sizes, sizes[1:], seconds, seconds[1:], strict=False)
    return [math.log(b / a) / math.log(n / m) for m, n, a, b in pairs]


def frame_rows() -> list[Row]:
    """A row for each job of frames."""
    made = list[Row]()
    for name in frame_jobs(1):
        runs = [run_apart("frames", name, size) for size in FRAMES]
        seconds = [run["seconds"] for run in runs]
        grown, kb = growth(FRAMES, seconds), runs[-1]["kb"] / FRAMES[-1]
        note = f"exponents {', '.join(f'{e:.2f}' for e in grown)}; {kb:.1f} kB a frame"
        made.append(limit_row(f"{name}, growth of {FRAMES[-1]} frames", seconds[-1], max(grown), FRAME_EXPONENT, note))
        made.append(limit_row(f"{name}, kB a frame", seconds[-1], kb, FRAME_KB, note))
    return made


def pose_rows() -> list[Row]:
    """Rows of graph builds; none without captures."""
    if not (MOCAP / "cmu-bvh").is_dir():
        return []
    runs = {size: run_apart("poses", size) for size in POSES}
    sizes = tuple(int(run["poses"]) for run in runs.values())
    seconds = [run["seconds"] for run in runs.values()]
    grown = growth(sizes, seconds)
    said = ", ".join(f"{n}: {s:.1f} s" for n, s in zip(sizes, seconds, strict=True))
    peak_gb = max(run["kb"] for run in runs.values()) / 1e6
    note = f"{said}; exponents {', '.join(f'{e:.2f}' for e in grown)}; peak {peak_gb:.1f} GB"
    made = [limit_row("graph build, growth of poses", seconds[-1], max(grown), POSE_EXPONENT, note)]
    for size, bar in BUILD_S.items():
        run = runs[size]
        made.append(
            limit_row(f"graph build, {int(run['poses'])} poses", run["seconds"], run["wall_s"], bar, "wall [s]")
        )
    return made


def clip_rows() -> list[Row]:
    """Row of the library."""
    small, large = (run_apart("clips", size)["seconds"] for size in CLIPS)
    note = f"{1e3 * small:.1f} ms at {CLIPS[0]} rows, {1e3 * large:.1f} ms at {CLIPS[1]}"
    return [limit_row(f"library add at {CLIPS[1]} rows", large, large / small, ADD_RATIO, note)]


def limit_row(name: str, seconds: float, figure: float, bar: float, note: str) -> Row:
    """A figure and the most that it may be; the ratio is that of the bar to it, so that one and more holds."""
    return Row(f"{name}: {figure:.2f} ({bar:g})", "bar", 1e3 * seconds, 0.0, *3 * (bar / max(figure, 1e-9),), 1.0, note)


def rows(kinds: tuple[str, ...] = ("frames", "poses", "clips")) -> list[Row]:
    """Rows of the kinds of size."""
    makers = {"frames": frame_rows, "poses": pose_rows, "clips": clip_rows}
    return [row for kind in kinds for row in makers[kind]()]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        kind, *given = sys.argv[2:]
        makers: dict[str, Callable[..., dict[str, float]]] = {
            "frames": run_frames,
            "poses": run_poses,
            "clips": run_clips,
        }
        print(json.dumps(makers[kind](*(int(v) if v.isdigit() else v for v in given))))
    else:
        for found in rows(tuple(sys.argv[1:]) or ("frames", "poses", "clips")):
            print(found, found.note, flush=True)
