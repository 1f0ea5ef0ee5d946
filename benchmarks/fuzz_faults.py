"""Kills and full disks: what a process leaves behind that is ended at any moment, or whose disk is full.

A killed job leaves its target as it was or whole; run again, it ends with the bytes of a run that nothing disturbed. On
a full disk a command ends with one sentence that names the file, and the file that was there keeps its bytes.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

SMALL_BYTES = 20_000  # of a disk on which nothing fits
LEFT_BYTES = 9000  # of it, at first
KINDS = ("build", "add", "fit", "batch")
KILLS_IN_A_ROW = 4  # of one job, at most
WORKERS_EVERY = 8  # jobs, of which one has workers and a process of its own
Verdict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A command that writes into a folder, and what of it must be equal."""

    words: tuple[str, ...]  # of the command line; {out} is the folder
    results: Callable[[Path], dict[str, str]]  # hashes of what the command has made
    check: Callable[[Path], str]  # what is wrong with what a kill has left; nothing, if nothing is


class Reference(NamedTuple):
    """A run that nothing disturbed."""

    made: dict[str, str]
    took_s: float
    code: int  # 1 where a sketch could not be kept in every point


def hash_files(folder: Path, pattern: str) -> dict[str, str]:
    """Hashes of files by name, drafts of killed processes left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob(pattern))
        if path.is_file() and not path.name.startswith(".")
    }


def check_models(folder: Path) -> str:
    """Every tensor file can be read."""
    from marey.base import read_format

    broken = [path.name for path in folder.glob("[!.]*.safetensors") if not read_format(path)]
    return f"half-written: {', '.join(broken)}" if broken else ""


def check_library(folder: Path) -> str:
    """The library is sound."""
    from marey.library import Library, is_library

    if not is_library(folder / "library"):
        return ""
    with Library(folder / "library") as library:
        report = library.verify()
    return "" if report.is_sound else str(report)


def check_batch(folder: Path) -> str:
    """Every report is whole, and so is the motion that it names."""
    import json

    from marey.io import load

    for path in folder.glob("batch/[!.]*.json"):
        report = json.loads(path.read_text())
        if report.get("file") and load(path.parent / report["file"]).num_frames < 2:
            return f"{path.name} names a broken motion"
    return ""


def hash_batch(folder: Path) -> dict[str, str]:
    """Hashes of motions; reports hold times."""
    return hash_files(folder, "batch/*.bvh")


def make_jobs(home: Path, workers: int) -> dict[str, Job]:
    """One job of each kind, on clips and sketches that are written to ``home``."""
    import numpy as np

    import marey
    from marey.base import write_atomically
    from marey.lie import SO3
    from marey.motion import Motion

    clips = home / "clips"
    clips.mkdir(exist_ok=True)
    walk, jump = marey.samples.load("walk"), marey.samples.load("jump")
    for number in range(8):
        rng = np.random.default_rng(number)
        base = (walk, jump)[number % 2]
        noise = SO3.exp(0.01 * rng.standard_normal((1, base.skeleton.num_joints, 3)))
        motion = Motion(base.skeleton, base.rate_hz, base.root_positions, base.rotations @ noise, name=f"clip{number}")
        marey.save(motion, clips / f"clip{number}.bvh")
    names = ("straight", "s-curve", "round-a-table")
    for name in names:
        write_atomically(home / f"{name}.toml", marey.samples.sketch_file(name).read_text())
    sketches = [str(home / f"{name}.toml") for name in names]
    fast = ("--engine", "locomotion", "--workers", str(max(workers, 1)))
    return {
        "build": Job(
            ("graph", "build", str(clips), "-o", "{out}/graph.safetensors", "--resume", "{out}/.ready",
             "--workers", str(max(workers, 1))),
            lambda folder: hash_files(folder, "graph.safetensors"), check_models,
        ),
        "add": Job(
            ("library", "add", str(clips), "--library", "{out}/library", "--workers", str(workers)),
            lambda folder: hash_files(folder, "library/clips/*/*.safetensors"), check_library,
        ),
        "fit": Job(
            ("fit", *(str(clips / f"clip{number}.bvh") for number in (0, 2, 4)), "-o", "{out}/model.safetensors"),
            lambda folder: hash_files(folder, "model.safetensors"), check_models,
        ),
        "batch": Job(("synth", *sketches, "-o", "{out}/batch", *fast), hash_batch, check_batch),
    }  # fmt: skip


class ForkedCommand:
    """A command in a copy of this process, which has all modules and kernels loaded: it starts at once."""

    def __init__(self, words: list[str]) -> None:
        self.returncode: int | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (read when the command has ended)
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(self._said.fileno(), 2)
            code = run_command(words)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def wait(self, seconds: float) -> None:
        """Return when the command has ended, or the time is up."""
        end = time.monotonic() + seconds
        while self.returncode is None and time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.002)

    def kill(self) -> None:
        """End the command."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> tuple[bytes, bytes]:
        """Wait for the end; nothing, and what was said on stderr."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._said.seek(0)
        return b"", self._said.read()


def run_command(words: list[str]) -> int:
    """Run a command in this process; its exit code."""
    from marey.cli import main

    return main(["--quiet", *words])


def start(job: Job, out: Path, workers: int) -> subprocess.Popen[bytes] | ForkedCommand:
    """Start a command in a session of its own: a copy of this process, or with workers a new one."""
    words = [word.replace("{out}", str(out)) for word in job.words]
    if not workers:
        return ForkedCommand(words)
    return subprocess.Popen(
        [sys.executable, "-m", "marey", "--quiet", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def run_kills(seed: int, seconds: float, count: int = 1000) -> Iterator[Verdict]:
    """Kill jobs at random moments until the time is up; a verdict for each kill.

    One job in ``WORKERS_EVERY`` is a command of its own with two workers, the others are copies of this process.
    """
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        kinds = {workers: make_jobs(home, workers) for workers in (0, 2)}
        wanted = dict[tuple[str, int], Reference]()
        kills, number = dict.fromkeys(KINDS, 0), 0
        while sum(kills.values()) < count and time.monotonic() < deadline:
            kind, workers = min(KINDS, key=lambda name: kills[name]), 0 if rng.randrange(WORKERS_EVERY) else 2
            job, out = kinds[workers][kind], home / f"{kind}-{number}"
            if (kind, workers) not in wanted:
                out.mkdir()
                if not workers:
                    # Here, for modules and kernels
                    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                        run_command([word.replace("{out}", str(out)) for word in job.words])
                    shutil.rmtree(out)
                    out.mkdir()
                # A run that nothing disturbs tells what is right, and how long it takes
                began, process = time.monotonic(), start(job, out, workers)
                said = process.communicate()[1]
                made = job.results(out)
                if not made or b"unexpected" in said:
                    yield {"kind": kind, "verdict": "no right run", "said": said.decode()[-300:]}
                    return
                wanted[kind, workers] = Reference(made, time.monotonic() - began, process.returncode or 0)
                shutil.rmtree(out)
            right = wanted[kind, workers]
            if any(right.made != other.made for (name, _), other in wanted.items() if name == kind):
                yield {"kind": kind, "verdict": "other bytes with workers", "said": str(right.made)}
                return
            out.mkdir()
            found = _kill_and_repeat(job, out, right, rng, workers)
            yield {"kind": kind, "number": number, "workers": workers, **found}
            shutil.rmtree(out, ignore_errors=True)
            kills[kind] += found["kills"]
            number += 1


def _kill_and_repeat(job: Job, out: Path, wanted: Reference, rng: random.Random, workers: int) -> Verdict:
    """Kill a job up to ``KILLS_IN_A_ROW`` times, each on what the last has left, then let it end."""
    kills, right, left = 0, wanted.made, dict[str, str]()
    for _ in range(rng.randint(1, KILLS_IN_A_ROW)):
        process = start(job, out, workers)
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.1, 1.0) * wanted.took_s)
        is_killed = process.returncode is None
        if rng.random() < 0.5:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()  # its workers see their input end
        process.communicate()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kills += is_killed
        # What the kill has left
        if wrong := job.check(out):
            return {"kills": kills, "verdict": "half-written", "said": wrong}
        left = job.results(out)
        if any(right.get(name) != value for name, value in left.items()):
            return {"kills": kills, "verdict": "other bytes", "said": str(left)}
        if not is_killed:
            break
    process = start(job, out, workers)
    said = process.communicate()[1]
    if process.returncode != wanted.code:
        return {"kills": kills, "verdict": "rerun failed", "said": said.decode()[-300:]}
    if job.results(out) != right:
        return {"kills": kills, "verdict": "rerun differs", "said": str(job.results(out))}
    return {"kills": kills, "verdict": "held", "said": f"{len(left)} of {len(right)} files were there"}


# Commands that write one file: suffix of the file, words
WRITERS = {
    "convert bvh": (".bvh", "convert walk {out}"),
    "convert glb": (".glb", "convert walk {out}"),
    "convert npz": (".npz", "convert walk {out}"),
    "convert clip": (".safetensors", "convert walk {out}"),
    "convert csv": (".csv", "convert walk {out}"),
    "convert fbx": (".fbx", "convert walk {out}"),
    "convert usda": (".usda", "convert walk {out}"),
    "compress": (".marey", "compress walk -o {out}"),
    "fit": (".safetensors", "fit walk -o {out}"),
    "limits": (".safetensors", "limits fit walk -o {out} --kind box"),
    "strip": (".png", "strip walk -o {out}"),
    "plot": (".png", "plot walk -o {out}"),
    "film": (".gif", "film walk -o {out}"),
    "retarget": (".bvh", "retarget walk -o {out}"),
    "walk": (".bvh", "walk stroll -o {out}"),
    "measure": (".csv", "measure walk --csv {out}"),
    "contacts": (".csv", "contacts walk --csv {out}"),
    "physics": (".csv", "physics walk --csv {out}"),
    "plant": (".bvh", "plant walk -o {out}"),
    "synth": (".bvh", "synth straight -o {out} --engine locomotion"),
}


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Make a disk of ``SMALL_BYTES`` at a folder, where this process may; else files can only grow that far."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield made.returncode == 0
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def run_disks(seed: int, seconds: float) -> Iterator[Verdict]:
    """Run each writer on a full disk, over a file that is there, until the time is up.

    Some bytes are left at first, so that a part of a file can be written; what fits into them finds none the next time.
    """
    deadline, names = time.monotonic() + seconds, list(WRITERS)
    random.Random(seed).shuffle(names)
    for name in names:
        for left in (LEFT_BYTES, 0):
            if time.monotonic() > deadline:
                return
            found = _write_on_full_disk(name, left)
            if found["verdict"] != "fitted after all":
                break
        yield found


def _write_on_full_disk(name: str, left: int) -> Verdict:
    suffix, words = WRITERS[name]
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder)) as is_disk:
        target, other = Path(folder) / f"target{suffix}", Path(folder) / "filler"
        old = b"what was there"
        target.write_bytes(old)
        with suppress(OSError), other.open("wb", buffering=0) as filler:
            for _ in range(SMALL_BYTES - left):
                filler.write(b"x")
        limit = None if is_disk else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (left // 2,) * 2)
        command = [sys.executable, "-m", "marey", *(w.replace("{out}", str(target)) for w in words.split())]
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
        lines = [line for line in done.stderr.splitlines() if line.startswith("marey: ")]
        rest = [path.name for path in Path(folder).iterdir() if path not in (target, other)]
        if target.read_bytes() != old:
            verdict = "fitted after all" if done.returncode == 0 else "the old file is lost"
        elif done.returncode != 1 or "Traceback" in done.stderr:
            verdict = f"exit {done.returncode}"
        elif not lines or f"/{target.name}'" not in lines[-1]:
            verdict = "the file is not named"
        else:
            verdict = "held" if not rest else f"left behind: {', '.join(rest)}"
        return {"kind": name, "verdict": verdict, "said": done.stderr[-300:]}
