"""Clips made ready one by one, by several processes or on a cluster; what is done is kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import DaskJobs, MareyError, TensorFormat, run_in_pool
from marey.contacts import ContactPhase, StancePlant
from marey.graph.database.clips import ClipTask, PhaseRun, PreparedClip, Progress

CLIP_FILE: Final = TensorFormat("marey-graph-clip", "prepared clip", 1, "Delete it; it will be made again.")
IsCancelled = Callable[[], bool]


class BuildCancelledError(MareyError, RuntimeError):
    """A build was cancelled; clips that were ready are kept where ``resume`` says."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(done, total)
        self.done, self.total = done, total

    def __str__(self) -> str:
        return f"the build was cancelled after {self.done} of {self.total} clips. Build again to go on"


def run_clip_tasks(
    tasks: Sequence[ClipTask],
    *,
    workers: int = 1,
    cluster: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    on_progress: Progress | None = None,
    cancel: IsCancelled | None = None,
) -> list[PreparedClip]:
    """Make clips ready, in any order, wherever; the result is in the order of the tasks.

    Args:
        tasks: one for each clip.
        workers: processes on this machine.
        cluster: address of a Dask scheduler, ``tcp://host:port``, in place of own processes.
        resume: folder in which each clip is kept as soon as it is ready, and looked for first.
        on_progress: called with how many are ready, of how many.
        cancel: asked between clips.

    Raises:
        BuildCancelledError: ``cancel`` said so.
        MissingExtraError: a cluster without Dask.
        InputError: no cluster answers.
    """
    store = None if resume is None else _ClipStore(Path(resume))
    done: dict[int, PreparedClip] = {}
    for number, task in enumerate(tasks):
        found = None if store is None else store.load(task)
        if found is not None:
            done[number] = found
    left = [number for number in range(len(tasks)) if number not in done]
    if on_progress is not None and done:
        on_progress(len(done), len(tasks))
    for index, clip in _run_tasks([tasks[number] for number in left], workers, cluster, cancel):
        done[left[index]] = clip
        if store is not None:
            store.save(tasks[left[index]], clip)
        if on_progress is not None:
            on_progress(len(done), len(tasks))
    if len(done) < len(tasks):
        raise BuildCancelledError(len(done), len(tasks))
    return [done[number] for number in range(len(tasks))]


def _run_tasks(
    tasks: Sequence[ClipTask], workers: int, cluster: str | None, cancel: IsCancelled | None
) -> Iterator[tuple[int, PreparedClip]]:
    """Clips as they get ready; ends early when cancelled."""
    if cluster is None:
        yield from run_in_pool(run_task, tasks, workers, cancel)
        return
    with DaskJobs(cluster, "a build on a cluster") as jobs:
        for index, future in jobs.run(run_task, [(task,) for task in tasks], cancel):
            yield index, future.result()


def run_task(task: ClipTask) -> PreparedClip:
    """Make one clip ready; a name that other processes can find."""
    return task()


class _ClipStore:
    """Prepared clips in a folder, by what they were made from."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def load(self, task: ClipTask) -> PreparedClip | None:
        """A clip prepared by an earlier build; None if it is absent or damaged."""
        path = self._path(task)
        if not path.is_file():
            return None
        try:
            return unpack_clip(*CLIP_FILE.read(path))
        except (MareyError, KeyError, TypeError, ValueError, IndexError):
            return None

    def save(self, task: ClipTask, clip: PreparedClip) -> None:
        """Keep a clip; a killed process leaves no half of one."""
        CLIP_FILE.write(self._path(task), *pack_clip(clip))

    def _path(self, task: ClipTask) -> Path:
        return self._folder / f"{hash_task(task)}.safetensors"


@cache
def hash_sources() -> bytes:
    """The code that cleans and cuts clips: what another version has made is not used."""
    home = Path(__file__).parents[1] / "database"
    return b"".join((home / f"{name}.py").read_bytes() for name in ("clips", "events"))


def hash_task(task: ClipTask) -> str:
    """Fingerprint of everything that a prepared clip depends on."""
    motion, body = task.motion, task.body
    found = hashlib.sha256(hash_sources())
    facts = (motion.name, motion.rate_hz, motion.skeleton.names, body.skeleton.names, task.behaviour, task.is_mirrored)
    found.update(repr((*facts, sorted(asdict(task.settings).items()))).encode())
    arrays: list[NDArray[Any]] = [
        motion.root_positions, motion.rotations.wxyz, motion.skeleton.offsets, body.skeleton.offsets, body.masses,
        body.centres, body.inertias,
    ]  # fmt: skip
    if motion.contacts is not None:
        found.update(repr(motion.contacts.names).encode())
        arrays.append(motion.contacts.active)
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:32]


def pack_clip(clip: PreparedClip) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and facts of a prepared clip."""
    tensors: dict[str, NDArray[Any]] = {}
    facts: dict[str, Any] = {"notes": list(clip.notes), "runs": []}
    for number, run in enumerate(clip.runs):
        tensors |= {f"{number}/{name}": getattr(run, name) for name in ("roots", "wxyz", "torques")}
        phases = [
            {"start": p.start, "stop": p.stop, "planted": list(p.planted), "kind": p.kind,
             "plants": [[q.foot, *q.position.tolist(), q.yaw_rad, q.spread_m] for q in p.plants]}
            for p in run.phases
        ]  # fmt: skip
        facts["runs"].append({"name": run.name, "behaviour": run.behaviour, "phases": phases})
    return tensors, facts


def unpack_clip(tensors: dict[str, NDArray[Any]], facts: dict[str, Any]) -> PreparedClip:
    """A prepared clip from its arrays and facts."""
    runs: list[PhaseRun] = []
    for number, about in enumerate(facts["runs"]):
        phases: list[ContactPhase] = []
        for p in about["phases"]:
            plants = tuple(StancePlant(str(foot), np.array([x, y, z]), *rest) for foot, x, y, z, *rest in p["plants"])
            span = int(p["start"]), int(p["stop"])
            phases.append(ContactPhase(*span, tuple(p["planted"]), str(p["kind"]), plants))
        roots, wxyz, torques = (tensors[f"{number}/{name}"] for name in ("roots", "wxyz", "torques"))
        runs.append(PhaseRun(str(about["name"]), str(about["behaviour"]), roots, wxyz, torques, tuple(phases)))
    return PreparedClip(tuple(runs), tuple(str(note) for note in facts["notes"]))
