"""Hours in minutes: engine, library and batch run side by side under a load that comes and goes, and memory is watched.

Each job has a process of its own and repeats a round of random work: commands to a character that walks on, clips that
go into a library and out of it, sketches that become motions. A fourth process burns both processors now and then. Once
a second the memory of each job is taken (``VmRSS``, with that of processes that it started). Once the first third has
filled caches, it must not grow from the second to the last: see :func:`judge_memory`.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

FLAT_SHARE, FLAT_MB = (
    0.02,
    4.0,
)  # growth from the second third to the last: of a job's memory, or a few pages of an allocator
SAMPLE_S = 1.0  # [s] between two looks at memory
BURN_S = (0.05, 3.0)  # [s] shortest and longest burst of the load, and pause between two
KEPT_CLIPS = 12  # that stay in the library
Verdict = dict[str, Any]
Round = Callable[[], None]  # a piece of work of a job


def make_engine_rounds(rng: random.Random, folder: Path) -> Round:
    """Two seconds of a character that is told something new: speed, turn, a jump, or to stand."""
    import numpy as np

    from marey.base import MareyError
    from marey.locomotion import Engine

    del folder
    engines = [Engine(speed=1.2)]

    def walk_on() -> None:
        engine = engines[0]
        if rng.random() < 0.02:
            engines[0] = engine = Engine(speed=rng.uniform(0.8, 2.0))
        with suppress(MareyError):  # wishes that a walker refuses
            if rng.random() < 0.2:
                engine.jump(rng.uniform(0.4, 1.4))
            else:
                engine.set(speed=rng.choice((0.0, rng.uniform(0.3, 3.5))), turn_rate=rng.uniform(-0.8, 0.8))
        for _ in range(120):
            pose = engine.step(1.0 / 60.0 * rng.choice((1.0, 1.0, 1.0, 2.0, 4.0)))
            assert np.isfinite(pose.rotations.wxyz).all()

    return walk_on


def make_library_rounds(rng: random.Random, folder: Path) -> Round:
    """A clip goes in, another is read, and the oldest goes out; now and then all are verified."""
    from dataclasses import replace

    import numpy as np

    import marey
    from marey.library import Library

    library = Library(folder / "library")
    walk = marey.samples.load("walk")
    counted = [0]

    def exchange() -> None:
        number = counted[0] = counted[0] + 1
        start = rng.randrange(len(walk) - 60)
        clip = walk[start : start + rng.randrange(30, 60)]
        moved = clip.root_positions + np.array((rng.uniform(-1.0, 1.0), 0.0, rng.uniform(-1.0, 1.0)))
        library.add_motion(replace(clip, root_positions=moved, name=f"clip{number}"), tags=(rng.choice("abc"),))
        known = library.clips()
        library.load(rng.choice(known).id)
        if len(known) > KEPT_CLIPS:
            library.remove(known[0].id)
        if number % 50 == 0:
            assert library.verify().is_sound

    return exchange


def make_batch_rounds(rng: random.Random, folder: Path) -> Round:
    """Some sketches become motions in one worker, that is started for them."""
    import shutil

    import marey
    from marey.pipeline import run_batch

    sketches = [marey.samples.sketch_file(name) for name in ("straight", "s-curve", "round-a-table")]

    def make_motions() -> None:
        shutil.rmtree(folder / "batch", ignore_errors=True)
        chosen = rng.sample(sketches, rng.randrange(1, 4))
        run_batch(chosen, folder / "batch", engine="locomotion", workers=1)

    return make_motions


JOBS = {"engine": make_engine_rounds, "library": make_library_rounds, "batch": make_batch_rounds}


def start_job(name: str, seed: int, seconds: float, folder: Path) -> tuple[int, Path]:
    """Repeat rounds in a process of its own until the time is up; rounds are counted in a file."""
    told = folder / f"{name}.txt"
    child = os.fork()
    if child:
        return child, told
    code = 1
    try:
        home = folder / name
        home.mkdir()
        warnings.simplefilter("ignore")  # of wishes that a walker clamps
        round_of_work = JOBS[name](random.Random(f"{seed}:{name}"), home)
        deadline, rounds = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            round_of_work()
            rounds += 1
            told.write_text(str(rounds))
        code = 0
    except BaseException:
        told.write_text(traceback.format_exc()[-600:])
    os._exit(code)


def burn(seed: int) -> int:
    """Start a process that works as hard as it can for a while, then rests, at random; two of them at times."""
    child = os.fork()
    if child:
        return child
    rng = random.Random(f"{seed}:load")
    while True:
        end = time.monotonic() + rng.uniform(*BURN_S)
        other = os.fork() if rng.random() < 0.5 else -1
        while time.monotonic() < end:
            sum(range(10_000))
        if other == 0:
            os._exit(0)
        if other > 0:
            os.waitpid(other, 0)
        time.sleep(rng.uniform(*BURN_S))


def measure_memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory of a process, and of it with all that it started [MB]."""
    own, others = 0.0, 0.0
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        own = next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmRSS"))
        for task in Path(f"/proc/{pid}/task").iterdir():
            others += sum(measure_memory_mb(int(child))[1] for child in (task / "children").read_text().split())
    return own, own + others


def judge_memory(samples: list[tuple[float, float]]) -> tuple[str, str]:
    """Whether memory stayed flat after the first third: of the job's own process, and with what it starts at most.

    Processes that a job starts and ends have as much memory as they are old, so that of them the peaks are compared.
    """
    third = len(samples) // 3
    if third < 3:
        return "too short", f"{len(samples)} samples"
    parts = [samples[k * third : (k + 1) * third] for k in range(3)]
    medians = [statistics.median(own for own, _ in part) for part in parts]
    peaks = [max(family for _, family in part) for part in parts]
    said = f"own {', '.join(f'{m:.1f}' for m in medians)} MB by thirds, with children at most "
    said += f"{', '.join(f'{m:.1f}' for m in peaks)}"
    is_flat = all(found[2] - found[1] <= max(FLAT_MB, FLAT_SHARE * found[1]) for found in (medians, peaks))
    return "held" if is_flat else "memory grows", said


def run_load(seed: int, seconds: float, record: Path | None = None) -> Iterator[Verdict]:
    """A verdict for each job after all have run side by side; samples are written as CSV if a file is given."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        jobs = {name: start_job(name, seed, seconds, folder) for name in JOBS}
        load = burn(seed)
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
        codes = dict[str, int]()
        begin = time.monotonic()
        lines = [",".join(("seconds", *(f"{name} {part}" for name in jobs for part in ("own", "with children"))))]
        try:
            while len(codes) < len(jobs):
                time.sleep(SAMPLE_S)
                for name, (pid, _) in jobs.items():
                    if name not in codes and (done := os.waitpid(pid, os.WNOHANG))[0]:
                        codes[name] = os.waitstatus_to_exitcode(done[1])
                    elif name not in codes:
                        samples[name].append(measure_memory_mb(pid))
                now = [samples[name][-1] if name not in codes else (0.0, 0.0) for name in jobs]
                lines.append(",".join(f"{v:.1f}" for v in (time.monotonic() - begin, *chain(*now))))
        finally:
            os.kill(load, signal.SIGKILL)
            os.waitpid(load, 0)
        if record is not None:
            record.write_text("\n".join(lines) + "\n")
        for name, (_, told) in jobs.items():
            rounds = told.read_text() if told.is_file() else "0"
            verdict, said = judge_memory(samples[name])
            if codes[name]:
                verdict, said = f"exit {codes[name]}", rounds
            yield {
                "kind": name,
                "verdict": verdict,
                "said": f"{rounds} rounds; {said}",
                "mb": max((family for _, family in samples[name]), default=0.0),
            }
