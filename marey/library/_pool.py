"""Clips staged by worker processes or on a cluster; answers come back as they are ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from marey.library._records import Job
from marey.library._store import Staged
from marey.library._workers import ask_workers, count_cores

JOBS_WORTH_A_WORKER: Final = 6  # a worker needs about a second to start; a file, some hundredths
WORKER: Final = "marey.library._worker"
OnLink = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker made of one job: a staged clip, or the sentence that says why not."""

    index: int
    staged: Staged | None
    clip_file: Path
    error: str = ""


def count_workers(num_jobs: int, wanted: int | None = None) -> int:
    """How many processes to start; 0 means in this process."""
    if wanted is not None:
        return max(0, min(wanted, num_jobs))
    return 0 if count_cores() == 1 else min(count_cores(), num_jobs // JOBS_WORTH_A_WORKER)


def answers(
    jobs: Sequence[Job], folder: Path, workers: int, *, cluster: str | None = None, on_link: OnLink | None = None
) -> Generator[Answer]:
    """Stage every job as a clip in ``folder``; yield answers in the order they are ready.

    Args:
        jobs: what to read.
        folder: of the staged clips, here.
        workers: processes on this machine; 0 reads in this one.
        cluster: address of a Dask scheduler, in place of own processes.
        on_link: called with the address of the cluster's dashboard.
    """
    if cluster is not None:
        from marey.library._cluster import staged_on_cluster

        for index, line in staged_on_cluster(jobs, [_clip_file(folder, n) for n in range(len(jobs))], cluster, on_link):
            yield _parsed(line, index, folder)
        return
    requests = [_request(index, job, folder) for index, job in enumerate(jobs)]
    if workers == 0:
        from marey.library._worker import answer

        yield from (_parsed(answer(request), index, folder) for index, request in enumerate(requests))
        return
    for index, line in ask_workers(WORKER, requests, workers):
        yield _parsed(line, index, folder)


def _clip_file(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.safetensors"


def _request(index: int, job: Job, folder: Path) -> str:
    return json.dumps({"job": asdict(job), "clip_file": str(_clip_file(folder, index))})


def _parsed(line: str, index: int, folder: Path) -> Answer:
    file = _clip_file(folder, index)
    if not line.endswith("}\n") and not line.endswith("}"):
        return Answer(index, None, file, "the reader crashed on this file")
    values = cast(dict[str, Any], json.loads(line))
    if "error" in values:
        return Answer(index, None, file, values["error"])
    return Answer(index, Staged.from_json(line), file)
