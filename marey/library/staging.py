"""Clips staged by worker processes or on a Dask cluster; answers come back as they are ready.

Workers of a cluster need no common disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from marey.base import DaskJobs, MareyError, ask_workers, count_cores, write_atomically
from marey.library.ingest import file_stamp, stage_file
from marey.library.records import AddOutcome, IngestJob
from marey.library.store import StagedFile, take_path, write_note
from marey.library.worker import answer_request


def collect_files(job: IngestJob) -> dict[str, bytes]:
    """What a worker has to read for a job: the file, and what lies beside an AMC (skeletons) or a glTF (buffers)."""
    file = Path(job.path)
    if not file.is_file():
        return {}
    beside = {".amc": "*.[aA][sS][fF]", ".gltf": "*.[bB][iI][nN]"}.get(file.suffix.lower())
    others = sorted(file.parent.glob(beside)) if beside else []
    return {one.name: one.read_bytes() for one in (file, *others)}


def stage_bytes(job: IngestJob, files: dict[str, bytes], stamp: str) -> tuple[str, list[bytes]]:
    """Stage one job on a worker; return the answer and its clips, both as they would have been written at home."""
    with TemporaryDirectory() as folder:
        try:
            for name, data in files.items():
                (Path(folder) / name).write_bytes(data)
            clip, here = Path(folder) / "staged" / "clip.safetensors", Path(folder) / Path(job.path).name
            clip.parent.mkdir()
            staged = stage_file(job, str(here), clip, stamp)
            return staged.to_json(), [take_path(clip, number).read_bytes() for number in range(len(staged.clips))]
        except (MareyError, OSError) as error:
            said = str(error).replace(folder, str(Path(job.path).parent))
            return StagedFile(refused=(AddOutcome(job.path, "failed", None, said),)).to_json(), []


TRIES: Final = 2  # of a file whose worker dies, since it may have died of another cause
JOBS_WORTH_A_WORKER: Final = 6  # a worker needs about a second to start; a file, some hundredths
WORKER: Final = "marey.library.worker"
OnLink = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StagingResult:
    """Result of one job: the takes of its file, and where they are staged."""

    index: int
    staged: StagedFile
    clip_file: Path  # of the first take; see `take_path`


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
    files = [folder / f"{index:06d}.safetensors" for index in range(len(jobs))]
    requests = [json.dumps({"job": asdict(job), "clip_file": str(file)}) for job, file in zip(jobs, files, strict=True)]
    if cluster is not None:
        answers = _answer_on_cluster(jobs, files, cluster, on_link)
    elif workers == 0:
        answers = ((index, answer_request(request)) for index, request in enumerate(requests))
    else:
        answers = ask_workers(WORKER, requests, workers, tries=TRIES)
    # An answer is one JSON object; less of it means that the worker died
    for index, line in answers:
        if line.rstrip().endswith("}"):
            yield StagingResult(index, StagedFile.from_json(line), files[index])
        else:
            crash = AddOutcome(jobs[index].path, "failed", None, "the reader crashed on this file")
            yield StagingResult(index, StagedFile(refused=(crash,)), files[index])


def _answer_on_cluster(
    jobs: Sequence[IngestJob], clip_files: Sequence[Path], address: str, on_link: OnLink | None
) -> Generator[tuple[int, str]]:
    """Number and answer of every job, as ``answer_request`` gives it; clips are written here."""
    arguments = [(job, collect_files(job), file_stamp(job.path) if Path(job.path).is_file() else "") for job in jobs]
    with DaskJobs(address, "a library on a cluster", on_link) as cluster:
        for index, future in cluster.run(stage_bytes, arguments):
            try:
                line, data = cast(tuple[str, list[bytes]], future.result())
            except Exception as error:  # of any kind, on another machine
                refused = AddOutcome(jobs[index].path, "failed", None, f"{type(error).__name__}: {error}")
                line, data = StagedFile(refused=(refused,)).to_json(), []
            for number, (staged, clip) in enumerate(zip(StagedFile.from_json(line).clips, data, strict=True)):
                clip_file = take_path(clip_files[index], number)
                write_atomically(clip_file, clip)
                write_note(staged, clip_file)
            yield index, line
