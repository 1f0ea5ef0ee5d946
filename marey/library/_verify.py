"""Is every clip there, whole, and under the right address? And what to do when not."""

from __future__ import annotations

from marey.base import MareyError
from marey.library._address import content_address, motion_signature
from marey.library._disk import file_sha256
from marey.library._ingest import describe_clip
from marey.library._records import ClipRecord, IngestJob, Query, VerifyReport
from marey.library._store import Store
from marey.motion import Motion


def verify_store(store: Store, *, repair: bool = False) -> VerifyReport:
    """Compare catalogue and files; see :meth:`marey.library.Library.verify`."""
    with store.catalogue.writing():  # one view of both: no clip is halfway in
        records = {record.id: record for record in store.catalogue.find(Query())}
        files = store.stored_ids()
    missing = tuple(sorted(records.keys() - files))
    damaged = tuple(sorted(i for i in records.keys() & files if not is_intact(store, records[i])))
    strays = tuple(sorted(files - records.keys()))
    repairs = _repair_store(store, missing, damaged, strays) if repair else ()
    return VerifyReport(len(records), missing, damaged, strays, repairs)


def is_intact(store: Store, record: ClipRecord) -> bool:
    """Whether the file of a clip has the bytes that were written and its motion has the address."""
    path = store.clip_path(record.id)
    try:
        return file_sha256(path) == record.file_sha256 and content_address(_read_stored(store, record.id)) == record.id
    except (MareyError, OSError):
        return not path.exists()  # removed by another process since: absent, not damaged


def _read_stored(store: Store, clip_id: str) -> Motion:
    from marey.io import read_clip

    return read_clip(store.clip_path(clip_id))


def _repair_store(
    store: Store, missing: tuple[str, ...], damaged: tuple[str, ...], strays: tuple[str, ...]
) -> tuple[str, ...]:
    done = list[str]()
    for clip_id in missing:
        store.take_out(clip_id)
        done.append(f"{clip_id[:12]}: dropped the row, its file is gone; add the source again")
    for clip_id in damaged:
        aside = store.set_aside(clip_id)
        done.append(f"{clip_id[:12]}: moved the damaged file to {aside}; add the source again")
    done += [_adopt_stray(store, clip_id) for clip_id in strays]
    return tuple(done)


def _adopt_stray(store: Store, clip_id: str) -> str:
    """Give a file without a row its row back, if it is a whole clip under its own address."""
    try:
        motion = _read_stored(store, clip_id)
        if content_address(motion) != clip_id:
            raise MareyError("its motion has another address")
    except MareyError as error:
        aside = store.set_aside(clip_id)
        return f"{clip_id[:12]}: moved to {aside}: {error}"
    source = clip_id if motion.source is None else motion.source.path
    record = describe_clip(motion, IngestJob(source), store.clip_path(clip_id))
    with store.catalogue.writing():
        if clip_id not in store.catalogue.ids():
            store.catalogue.insert(record, motion_signature(motion))
    return f"{clip_id[:12]}: wrote its row anew; tags are lost"
