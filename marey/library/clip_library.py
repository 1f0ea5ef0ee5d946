"""The clip store: a folder, a catalogue, and what one does with them: add by workers, query, verify, repair.

Clips are staged by processes on this machine or on a Dask cluster, whose workers need no common disk.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from marey.base import (
    DaskJobs,
    InputError,
    MareyError,
    MissingFileError,
    UnknownNameError,
    WriteError,
    ask_workers,
    count_cores,
    write_atomically,
)
from marey.library.ingest import describe_clip, file_stamp, stage_file, stage_motion
from marey.library.records import (
    AddOutcome,
    AddReport,
    ClipRecord,
    IngestJob,
    Query,
    VerifyReport,
    content_address,
    motion_signature,
)
from marey.library.store import StagedFile, Store, file_sha256, take_path, write_note
from marey.library.survey import is_library, survey_paths
from marey.library.worker import answer_request
from marey.motion import Motion

FULL_DISK: Final = os.strerror(errno.ENOSPC)
Progress = Callable[[int, int, AddOutcome], None]  # files done, files in all, what became of the last


class Library:
    """A folder of clips with a catalogue; any number of processes may use it at the same time.

    A clip is in it whole or not at all, whenever a process is killed. Opening a library finishes or undoes what
    killed runs left behind.

    Args:
        folder: the library's folder.
        create: make it when it does not exist.

    Raises:
        MissingFileError: there is no library in the folder, and ``create`` is false.
        InputError: the catalogue is damaged, of a newer version, or cannot be written.
    """

    def __init__(self, folder: str | Path, *, create: bool = True) -> None:
        self.folder = Path(folder)
        if not create and not is_library(self.folder):
            raise MissingFileError(str(folder), "There is no library here; make one with: marey library add FILES")
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"'{folder}' is a file", "A library is a folder")
        try:
            self._store = Store(self.folder)
        except OSError as error:
            raise InputError(f"library '{folder}' cannot be opened: {error}") from error

    def add(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        tags: Iterable[str] = (),
        subject: str | None = None,
        rate_hz: float | None = None,
        unit: str | None = None,
        up: str | None = None,
        workers: int | None = None,
        cluster: str | None = None,
        on_link: Callable[[str], None] | None = None,
        progress: Progress | None = None,
    ) -> AddReport:
        """Take in motion files, in parallel; a bad file is reported and does not stop the others.

        Every take of a file is a clip, named ``file:take`` where there are several. Files of a folder that hold no
        motion are listed in the report. A run that was stopped can be started again: files it had read are skipped.

        Args:
            paths: motion files, and folders that are searched for them.
            tags: words given to every clip; a clip that is already there gets them too.
            subject: captured person; estimated from names such as ``07_01`` by default.
            rate_hz: frame rate to use instead of the files' own.
            unit: length unit of the files, as in :func:`marey.load`.
            up: vertical axis of the files, as in :func:`marey.load`.
            workers: processes to start; 0 works in this process; by default one a core when there are enough files.
            cluster: address of a Dask scheduler, ``tcp://host:port``, in place of own processes.
            on_link: called with the address of the cluster's dashboard.
            progress: called after each file with the number done, the number in all, and what became of it.
        """
        words = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
        found = survey_paths(paths)
        jobs = [
            IngestJob(str(path), words, subject, rate_hz, unit, licence, up=up)
            for path, licence in zip(found.motions, found.licences, strict=True)
        ]
        results: dict[int, tuple[AddOutcome, ...]] = {}
        with closing(self._add_jobs(jobs, workers, cluster, on_link)) as done:
            for index, outcomes in done:
                results[index] = outcomes
                if progress is not None:
                    for outcome in outcomes:
                        progress(len(results), len(jobs), outcome)
        return AddReport(
            tuple(outcome for index in range(len(jobs)) for outcome in results[index]),
            tuple(AddOutcome(str(path), "skipped", None, reason) for path, reason in found.skipped),
        )

    def _add_jobs(
        self, jobs: Sequence[IngestJob], workers: int | None, cluster: str | None, on_link: Callable[[str], None] | None
    ) -> Generator[tuple[int, tuple[AddOutcome, ...]]]:
        """Yield the number of each job and what became of its takes, in the order they are done."""
        # Files of an earlier run first, then what workers read
        known = {index: results for index, job in enumerate(jobs) if (results := self._find_unchanged(job))}
        yield from known.items()
        fresh = [index for index in range(len(jobs)) if index not in known]
        if fresh:
            todo = [jobs[index] for index in fresh]
            num_workers = count_workers(len(todo), workers)
            with (
                self._store.run() as folder,
                closing(stage_clips(todo, folder, num_workers, cluster=cluster, on_link=on_link)) as ready,
            ):
                for answer in ready:
                    # A full disk fails every file that follows: the run stops, and a later one goes on from here
                    if any(FULL_DISK in outcome.message for outcome in answer.staged.refused):
                        raise WriteError(str(self.folder), FULL_DISK)
                    # The takes of one file; with the last, the file is known to be done, unless one was refused
                    outcomes, clips = list[AddOutcome](), answer.staged.clips
                    for number, staged in enumerate(clips):
                        num_takes = len(clips) if number == len(clips) - 1 and not answer.staged.refused else None
                        before = (
                            self._store.catalogue.find_source(staged.job, staged.stamp) if staged.job.take else None
                        )
                        taken = self._store.take_in(staged, take_path(answer.clip_file, number), num_takes=num_takes)
                        if before is not None:  # a killed run had taken it in already
                            taken = AddOutcome(taken.path, "unchanged", taken.clip_id, take=taken.take)
                        outcomes.append(taken)
                    yield fresh[answer.index], (*outcomes, *answer.staged.refused)

    def add_motion(self, motion: Motion, *, tags: Iterable[str] = (), subject: str | None = None) -> AddOutcome:
        """Take in a motion in memory; its name becomes the clip's name."""
        job = IngestJob("" if motion.source is None else motion.source.path, tuple(tags), subject)
        with self._store.run() as folder:
            file = folder / "000000.safetensors"
            return self._store.take_in(stage_motion(motion, job, file, stamp=""), file)

    def clips(self, query: Query | str | None = None) -> tuple[ClipRecord, ...]:
        """Return the clips that a query asks for, by name; a text finds names, folders, tags and warnings."""
        if query is None or isinstance(query, str):
            query = Query(text=query)
        return self._store.catalogue.find(query)

    def find(self, key: str) -> ClipRecord:
        """Return the one clip with this name, or whose id begins with ``key``.

        Raises:
            UnknownNameError: there is none; the message suggests the nearest name.
            InputError: there are several; the message lists their ids.
        """
        found = self._store.catalogue.named(key)
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(record.id[:12] for record in found)
            raise InputError(f"'{key}' means {len(found)} clips: {ids}", "Give more digits of one id")
        raise UnknownNameError("clip", key, f"library '{self.folder}'", self._store.catalogue.names())

    def path(self, clip_id: str) -> Path:
        """Return the file of a clip, given by name or id."""
        return self._store.clip_path(self.find(clip_id).id)

    def load(self, clip_id: str) -> Motion:
        """Return the motion of a clip, given by name or id, with its contacts."""
        from marey.io import read_clip

        return read_clip(self.path(clip_id))

    def verify(self, *, repair: bool = False) -> VerifyReport:
        """Check every clip: file there, bytes as written, motion under its own address; no file without a row.

        With ``repair``, rows without files are dropped, files without rows get their rows back, and damaged files
        are moved to the folder ``damaged``.
        """
        from marey.io import read_clip

        store = self._store
        with store.catalogue.writing():  # one view of both: no clip is halfway in
            records = {record.id: record for record in store.catalogue.find(Query())}
            files = {path.stem for path in store.clips.glob("*/*.safetensors")}
        missing, strays = tuple(sorted(records.keys() - files)), tuple(sorted(files - records.keys()))
        # Bytes as written, motion under its own address
        damaged = list[str]()
        for clip_id in sorted(records.keys() & files):
            path = store.clip_path(clip_id)
            try:
                is_intact = file_sha256(path) == records[clip_id].file_sha256
                is_intact = is_intact and content_address(read_clip(path)) == clip_id
            except (MareyError, OSError):
                is_intact = not path.exists()  # removed by another process since: absent, not damaged
            damaged += [] if is_intact else [clip_id]
        done = list[str]()
        if repair:
            for clip_id in missing:
                store.take_out(clip_id)
                done.append(f"{clip_id[:12]}: dropped the row, its file is gone; add the source again")
            for clip_id in damaged:
                aside = store.set_aside(clip_id)
                done.append(f"{clip_id[:12]}: moved the damaged file to {aside}; add the source again")
            # A file without a row gets its row back, if it is a whole clip under its own address
            for clip_id in strays:
                path = store.clip_path(clip_id)
                try:
                    motion = read_clip(path)
                    if content_address(motion) != clip_id:
                        raise MareyError("its motion has another address")
                except MareyError as error:
                    done.append(f"{clip_id[:12]}: moved to {store.set_aside(clip_id)}: {error}")
                    continue
                source = clip_id if motion.source is None else motion.source.path
                record = describe_clip(motion, IngestJob(source), path)
                with store.catalogue.writing():
                    if clip_id not in store.catalogue.ids():
                        store.catalogue.insert(record, motion_signature(motion))
                done.append(f"{clip_id[:12]}: wrote its row again; tags are lost")
        return VerifyReport(len(records), missing, tuple(damaged), strays, tuple(done))

    def remove(self, ids: str | Iterable[str]) -> tuple[ClipRecord, ...]:
        """Remove clips, given by name or id, and return what they were; each goes whole or stays whole."""
        records = tuple(self.find(key) for key in ([ids] if isinstance(ids, str) else ids))
        for record in records:
            self._store.take_out(record.id)
        return records

    def close(self) -> None:
        """Let go of the catalogue; the library cannot be used afterwards."""
        self._store.catalogue.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._store.catalogue.ids())

    def __repr__(self) -> str:
        return f"Library('{self.folder}', {len(self)} clips)"

    def _find_unchanged(self, job: IngestJob) -> tuple[AddOutcome, ...]:
        """Return the stored results for a file that is unchanged since an earlier run; nothing for any other."""
        try:
            takes = self._store.catalogue.find_takes(job, file_stamp(job.path))
        except OSError:
            return ()
        if takes and job.tags:
            with self._store.catalogue.writing():
                for _, clip_id in takes:
                    self._store.catalogue.tag(clip_id, job.tags)
        return tuple(AddOutcome(job.path, "unchanged", clip_id, take=take) for take, clip_id in takes)


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
