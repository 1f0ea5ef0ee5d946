"""Clips staged by worker processes or on a cluster; answers come back as they are ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from marey.library._records import IngestJob
from marey.library._store import StagedClip
from marey.library._workers import ask_workers, count_cores

JOBS_WORTH_A_WORKER: Final = 6  # a worker needs about a second to start; a file, some hundredths
WORKER: Final = "marey.library._worker"
OnLink = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StagingResult:
    """What a worker made of one job: a staged clip, or the sentence that says why not."""

    index: int
    staged: StagedClip | None
    clip_file: Path
    error: str = ""


def count_workers(num_jobs: int, wanted: int | None = None) -> int:
    """How many processes to start; 0 means in this process."""
    if wanted is not None:
        return max(0, min(wanted, num_jobs))
    return 0 if count_cores() == 1 else min(count_cores(), num_jobs // JOBS_WORTH_A_WORKER)


def stage_clips(
    jobs: Sequence[IngestJob], folder: Path, workers: int, *, cluster: str | None = None, on_link: OnLink | None = None
) -> Generator[StagingResult]:
    """Stage every job as a clip in ``folder``; yield answers in the order they are ready.

    Args:
        jobs: what to read.
        folder: of the staged clips, here.
        workers: processes on this machine; 0 reads in this one.
        cluster: address of a Dask scheduler, in place of own processes.
        on_link: called with the address of the cluster's dashboard.
    """
    if cluster is not None:
        from marey.library._cluster import stage_on_cluster

        for index, line in stage_on_cluster(jobs, [_clip_file(folder, n) for n in range(len(jobs))], cluster, on_link):
            yield _parse_answer(line, index, folder)
        return
    requests = [_format_request(index, job, folder) for index, job in enumerate(jobs)]
    if workers == 0:
        from marey.library._worker import answer_request

        yield from (_parse_answer(answer_request(request), index, folder) for index, request in enumerate(requests))
        return
    for index, line in ask_workers(WORKER, requests, workers):
        yield _parse_answer(line, index, folder)


def _clip_file(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.safetensors"


def _format_request(index: int, job: IngestJob, folder: Path) -> str:
    return json.dumps({"job": asdict(job), "clip_file": str(_clip_file(folder, index))})


def _parse_answer(line: str, index: int, folder: Path) -> StagingResult:
    file = _clip_file(folder, index)
    if not line.endswith("}\n") and not line.endswith("}"):
        return StagingResult(index, None, file, "the reader crashed on this file")
    values = cast(dict[str, Any], json.loads(line))
    if "error" in values:
        return StagingResult(index, None, file, values["error"])
    return StagingResult(index, StagedClip.from_json(line), file)
