"""The clip store: a folder, a catalogue, and what one does with them: add, query, verify, repair."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from marey.base import InputError, MareyError, MissingFileError, UnknownNameError, WriteError
from marey.library.ingest import describe_clip, file_stamp, stage_motion
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
from marey.library.staging import count_workers, stage_clips
from marey.library.store import Store, file_sha256, take_path
from marey.library.survey import is_library, survey_paths
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
