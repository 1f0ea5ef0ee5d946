"""How cost grows with size: frames of a clip, poses of a graph, clips of a library.

``python benchmarks/bench_scale.py [frames] [poses] [clips]`` prints a line for each job: processor time at each size,
the growth exponent between the sizes, and the peak of memory over what the process held before, per frame. Each run has
a process of its own, so that peaks are its own; processor time is used because wall time depends on what else runs.
``builds`` is for a machine that does nothing else: wall time of whole builds, clips prepared by two processes.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
# Captured clips of such a build, and whether they are mirrored too
BUILDS = {45_000: (313, False), 100_000: (339, True)}
ADD_RATIO = 1.2  # bar of one more clip, in a large library against a small one
LEAST_S = 0.3  # [s] of processor time that a measurement takes at least; short jobs are repeated
PROCESSES = 3  # that a job of frames is measured in; the least time and the largest memory count
Job = Callable[[], object]


def read_status(key: str) -> int:
    """Figure of this process [kB]: ``VmRSS`` now, ``VmHWM`` at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def measure_job(job: Job) -> dict[str, float]:
    """Processor time [s] of a job, its first run and its best of some, and the growth of the peak of memory [kB].

    The first run takes its memory from the system. Later ones find that of small clips in the process again, but not
    that of large ones, which the allocator has given back: growth between them compares unlike things.
    """
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, took = read_status("VmRSS"), list[float]()
    while sum(took) < LEAST_S:
        start = time.process_time()
        job()
        took.append(max(time.process_time() - start, 1e-5))
    return {"first": took[0], "seconds": min(took), "kb": read_status("VmHWM") - before}


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


def load_clips() -> list[Any]:
    """All captured clips, in an order drawn once: the first of them are those of many people."""
    import random

    from marey.io import load

    paths = sorted((MOCAP / "cmu-bvh").glob("*.bvh"))
    random.Random(0).shuffle(paths)
    return [load(path) for path in paths]


# Steps of a build, and the functions that they are
STEPS = {
    "gathering": ("gather_database", "PoseMetric"),
    "transitions": ("find_transitions",),
    "lost events": ("rescue_events",),
    "merging": ("merge_states",),
    "cheapest ways": ("cull_transitions", "count_ways"),
    "arrays and tables": ("make_arrays", "event_table", "select_cheapest"),
}


def run_poses(*sizes: int) -> dict[str, Any]:
    """Processor time of each step of graphs of so many poses; a clip is prepared once for all of them.

    Clips are different ones up to the last; then come their mirror images, which are poses that no clip has.
    """
    import marey.graph.construction.build as build
    from marey.graph.construction.jobs import run_task
    from marey.graph.database.clips import make_clip_tasks
    from marey.graph.database.settings import GraphSettings

    spent = dict[str, float]()

    def watch(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*values: Any, **options: Any) -> Any:
            start = time.process_time()
            result = function(*values, **options)
            spent[step] = spent.get(step, 0.0) + time.process_time() - start
            return result

        return watched

    for step, names in STEPS.items():
        for name in names:
            setattr(build, name, watch(step, getattr(build, name)))
    settings = GraphSettings(mirror=True)
    tasks = make_clip_tasks(load_clips(), settings)
    tasks = [*tasks[::2], *tasks[1::2]]
    build.assemble_graph(
        build.gather_database(map(run_task, tasks[:12]), tasks[0].body, settings), settings
    )  # compiled
    prepared, poses, preparing, runs = list[Any](), 0, 0.0, dict[str, Any]()
    for size in sizes:
        start = time.process_time()
        while poses < size and len(prepared) < len(tasks):
            prepared.append(run_task(tasks[len(prepared)]))
            poses += sum(len(run.roots) for run in prepared[-1].runs)
        preparing += time.process_time() - start
        spent.clear()
        # Peak of memory [kB], from here
        Path("/proc/self/clear_refs").write_text("5")
        before, start = read_status("VmRSS"), time.process_time()
        graph = build.assemble_graph(build.gather_database(prepared, tasks[0].body, settings), settings)
        spent["the rest"] = time.process_time() - start - sum(spent.values())
        kb, size_of = read_status("VmHWM") - before, graph.size
        runs[str(size)] = {
            "poses": size_of.poses, "kb": kb, "mirrored": max(0, len(prepared) - len(tasks) // 2),
            "steps": {"preparation": preparing, **spent}, "like pairs": size_of.like_pairs,
            "transitions": size_of.transitions, "phases": size_of.phases, "ways": size_of.ways,
            "states": graph.num_states, "edges": graph.num_edges,
        }  # fmt: skip
        print(json.dumps(runs[str(size)]), file=sys.stderr, flush=True)
    return runs


def run_build(size: int) -> dict[str, float]:
    """Wall and processor time [s] of a whole build by two processes, and of reading its clips before."""
    from marey.graph import build_graph

    count, is_mirrored = BUILDS[size]
    start = time.perf_counter()
    clips = load_clips()[:count]
    reading = time.perf_counter() - start
    build_graph(clips[:2], workers=1)  # compiled
    start, times = time.perf_counter(), os.times()
    graph = build_graph(clips, workers=2, mirror=is_mirrored)
    wall, done = time.perf_counter() - start, os.times()
    processor = sum(done[:4]) - sum(times[:4])
    return {"poses": graph.size.poses, "wall": wall, "processor": processor, "reading": reading}


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


def run_apart(kind: str, *values: object) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    words = [sys.executable, __file__, "--one", kind, *map(str, values)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, text=True, check=False, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    )
    if done.returncode:
        raise SystemExit(f"{kind} {values}: exit {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def growth(sizes: tuple[int, ...], seconds: list[float]) -> list[float]:
    """Exponents between one size and the next."""
    pairs = zip(sizes, sizes[1:], seconds, seconds[1:], strict=False)
    return [math.log(b / a) / math.log(n / m) for m, n, a, b in pairs]


def frame_rows() -> list[Row]:
    """A row for each job of frames."""
    made = list[Row]()
    for name in frame_jobs(1):
        runs = [[run_apart("frames", name, size) for _ in range(PROCESSES)] for size in FRAMES]
        seconds, best = ([min(run[key] for run in of_size) for of_size in runs] for key in ("first", "seconds"))
        grown, kb = growth(FRAMES, seconds), max(run["kb"] for run in runs[-1]) / FRAMES[-1]
        repeated = ", ".join(f"{e:.2f}" for e in growth(FRAMES, best))
        note = f"exponents {', '.join(f'{e:.2f}' for e in grown)}, of repeated runs {repeated}; {kb:.1f} kB a frame"
        made.append(limit_row(f"{name}, growth of {FRAMES[-1]} frames", seconds[-1], max(grown), FRAME_EXPONENT, note))
        made.append(limit_row(f"{name}, kB a frame", seconds[-1], kb, FRAME_KB, note))
    return made


def pose_rows() -> list[Row]:
    """Rows of graph builds; none without captures.

    Clips are prepared by two processes and assembled by one: with both processors free a build takes half of the time
    of preparation and all of the rest.
    """
    if not (MOCAP / "cmu-bvh").is_dir():
        return []
    runs = run_apart("poses", *POSES)
    sizes = tuple(int(run["poses"]) for run in runs.values())
    for counted in ("like pairs", "transitions", "phases", "ways", "states", "edges"):
        numbers = [float(run[counted]) for run in runs.values()]
        print(f"{counted}: {', '.join(f'{n:.0f}' for n in numbers)}; exponents {show_growth(sizes, numbers)}")
    steps = {name: [run["steps"][name] for run in runs.values()] for name in runs[str(POSES[0])]["steps"]}
    made = list[Row]()
    for name, seconds in {**steps, "all": [sum(run["steps"].values()) for run in runs.values()]}.items():
        said = ", ".join(f"{n}: {s:.2f} s" for n, s in zip(sizes, seconds, strict=True))
        note = f"{said}; exponents {show_growth(sizes, seconds)}"
        whole = math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])
        made.append(limit_row(f"graph build, {name}", seconds[-1], whole, POSE_EXPONENT, note))
    peak_gb = max(run["kb"] for run in runs.values()) / 1e6
    for size, bar in BUILD_S.items():
        run = runs[str(size)]
        total, ready = sum(run["steps"].values()), run["steps"]["preparation"]
        note = f"two processors [s], of processor time; {run['mirrored']} clips mirrored; peak {peak_gb:.1f} GB"
        made.append(limit_row(f"graph build, {int(run['poses'])} poses", total, total - 0.5 * ready, bar, note))
    return made


def build_rows() -> list[Row]:
    """Rows of the wall time of whole builds; none without captures."""
    made = list[Row]()
    for size, bar in BUILD_S.items() if (MOCAP / "cmu-bvh").is_dir() else ():
        run = run_apart("builds", size)
        load = os.getloadavg()[0]
        note = f"wall [s], two processes; {run['processor']:.1f} s of processors; load {load:.1f} at the end"
        made.append(limit_row(f"whole graph build, {int(run['poses'])} poses", run["wall"], run["wall"], bar, note))
    return made


def show_growth(sizes: tuple[int, ...], figures: list[float]) -> str:
    """Exponents between one size and the next, in words."""
    return ", ".join(f"{e:.2f}" for e in growth(sizes, figures))


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
    makers = {"frames": frame_rows, "poses": pose_rows, "clips": clip_rows, "builds": build_rows}
    return [row for kind in kinds for row in makers[kind]()]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        kind, *given = sys.argv[2:]
        makers: dict[str, Callable[..., dict[str, Any]]] = {
            "frames": run_frames,
            "poses": run_poses,
            "clips": run_clips,
            "builds": run_build,
        }
        print(json.dumps(makers[kind](*(int(v) if v.isdigit() else v for v in given))))
    else:
        for found in rows(tuple(sys.argv[1:]) or ("frames", "poses", "clips")):
            print(found, found.note, flush=True)
