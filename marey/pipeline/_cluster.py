"""Jobs on a Dask cluster; the scheduler gives those of a worker that died to another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

from marey.library._cluster import connect_dask
from marey.pipeline._job import BatchItem, BatchJob, run_job, store_result

RETRIES: Final = 3  # of a job that fails on its worker


def run_on_cluster(
    jobs: Sequence[BatchJob], folder: Path, address: str, on_link: Callable[[str], None] | None
) -> Generator[BatchItem]:
    """Run jobs on a cluster and write here what comes back; workers need no common disk.

    Raises:
        MissingExtraError: Dask is not installed.
        InputError: nobody answers at the address.
    """
    dask, connected = connect_dask(address, "a batch on a cluster")
    with connected as client:
        if on_link is not None:
            on_link(str(client.dashboard_link))
        graphs = {path: client.scatter(Path(path).read_bytes(), broadcast=True) for path in _graph_files(jobs)}
        futures = {
            client.submit(run_job, job, graphs.get(job.graph or ""), pure=False, retries=RETRIES): job for job in jobs
        }
        for future in dask.as_completed(list(futures), loop=client.loop):
            yield _store_future(future, futures[future], folder)


def _store_future(future: Any, job: BatchJob, folder: Path) -> BatchItem:
    try:
        report, data = future.result()
    except Exception as error:
        return BatchItem(job.name, "ERROR", error=f"{type(error).__name__}: {error}")
    return store_result(report, data, folder)


def _graph_files(jobs: Sequence[BatchJob]) -> set[str]:
    return {job.graph for job in jobs if job.graph is not None}
