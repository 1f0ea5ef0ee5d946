"""Jobs on the cores of this machine; a process that dies takes one try of one job with it."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from marey.library._workers import ask_workers, count_cores
from marey.pipeline._job import BatchItem, BatchJob, make_item

TRIES: Final = 3  # of a job whose process dies
WORKER_MODULE: Final = "marey.pipeline._worker"


def count_workers(num_jobs: int, wanted: int | None) -> int:
    """How many processes to start."""
    return max(1, min(count_cores() if wanted is None else wanted, num_jobs))


def run_in_processes(jobs: Sequence[BatchJob], folder: Path, workers: int) -> Generator[BatchItem]:
    """Run jobs in worker processes; items in the order they are ready."""
    requests = [json.dumps({"job": asdict(job), "folder": str(folder)}) for job in jobs]
    for number, line in ask_workers(WORKER_MODULE, requests, workers, tries=TRIES):
        yield make_item(json.loads(line)) if line else _report_crash(jobs[number])


def _report_crash(job: BatchJob) -> BatchItem:
    return BatchItem(job.name, "ERROR", error=f"its process died {TRIES} times. Run the batch again to retry")
