"""The catalogue: one sqlite file in write-ahead mode, opened by any number of processes at a time."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path, PurePath
from typing import Any, Final

from marey.base import InputError
from marey.library.records import (
    SAME_MOTION_TOL,
    ClipRecord,
    IngestJob,
    Query,
    Span,
    is_same_motion,
    signature_check,
    signature_key,
)

CATALOGUE_VERSION: Final = 3
APPLICATION_ID: Final = 0x6D617265  # "mare", so that another program's sqlite file is not taken for ours
BUSY_TIMEOUT_S: Final = 60.0  # a commit takes milliseconds; a minute means that something is stuck

_LISTS: Final = ("joints", "contacts", "warnings")  # kept as JSON text
_COLUMNS: Final = tuple(f.name for f in fields(ClipRecord) if f.name != "tags")
_MIGRATIONS: Final = (
    # 0 -> 1
    """
    CREATE TABLE clips (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, subject TEXT, behaviour TEXT NOT NULL,
        num_joints INTEGER NOT NULL, num_frames INTEGER NOT NULL, rate_hz REAL NOT NULL, duration_s REAL NOT NULL,
        height_m REAL NOT NULL, mean_speed_mps REAL NOT NULL, heading_change_rad REAL NOT NULL, flight_s REAL NOT NULL,
        root_low_m REAL NOT NULL, root_high_m REAL NOT NULL, format TEXT NOT NULL,
        source TEXT NOT NULL, source_absolute TEXT NOT NULL, file_sha256 TEXT NOT NULL, file_bytes INTEGER NOT NULL,
        joints TEXT NOT NULL, contacts TEXT NOT NULL, warnings TEXT NOT NULL
    );
    CREATE INDEX clips_by_shape ON clips (num_joints, num_frames);
    CREATE TABLE tags (
        clip TEXT NOT NULL REFERENCES clips (id) ON DELETE CASCADE, tag TEXT NOT NULL, PRIMARY KEY (clip, tag)
    ) WITHOUT ROWID;
    CREATE TABLE signatures (clip TEXT PRIMARY KEY REFERENCES clips (id) ON DELETE CASCADE, signature BLOB NOT NULL);
    CREATE TABLE sources (
        path TEXT NOT NULL, options TEXT NOT NULL, stamp TEXT NOT NULL,
        clip TEXT NOT NULL REFERENCES clips (id) ON DELETE CASCADE, PRIMARY KEY (path, options)
    );
    """,
    # 1 -> 2: takes, characters and licences; signatures found by an index; files of several takes
    """
    ALTER TABLE clips ADD COLUMN take TEXT NOT NULL DEFAULT '';
    ALTER TABLE clips ADD COLUMN character TEXT NOT NULL DEFAULT '';
    ALTER TABLE clips ADD COLUMN licence TEXT NOT NULL DEFAULT '';
    ALTER TABLE signatures ADD COLUMN tree TEXT NOT NULL DEFAULT '';
    ALTER TABLE signatures ADD COLUMN key REAL NOT NULL DEFAULT 0.0;
    UPDATE signatures SET tree = signature_tree(signature), key = signature_number(signature);
    CREATE INDEX signatures_by_key ON signatures (tree, key);
    CREATE INDEX clips_by_name ON clips (name);
    CREATE TABLE files (
        path TEXT NOT NULL, options TEXT NOT NULL, stamp TEXT NOT NULL, takes INTEGER NOT NULL,
        PRIMARY KEY (path, options)
    );
    INSERT INTO files SELECT path, options, stamp, 1 FROM sources
        WHERE lower(path) NOT LIKE '%.glb' AND lower(path) NOT LIKE '%.gltf';
    """,
    # 2 -> 3: a second number of each signature, in the index: rows of near keys are not read
    """
    ALTER TABLE signatures ADD COLUMN second REAL NOT NULL DEFAULT 0.0;
    UPDATE signatures SET second = signature_check(signature);
    DROP INDEX signatures_by_key;
    CREATE INDEX signatures_by_key ON signatures (tree, key, second);
    """,
)


class Catalogue:
    """Rows of clips; every change happens inside :meth:`writing`, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _translate_errors(path):
            # autocommit: transactions are opened by hand, where a reader can see them
            self._db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row

            def place(source: Any) -> str:
                # A file's folder and name: what lies above says where the archive stands, nothing of the clip
                return "/".join(PurePath(str(source)).parts[-2:])

            def tree(signature: bytes) -> str:
                return signature_key(signature)[0]

            def number(signature: bytes) -> float:
                return signature_key(signature)[1]

            self._db.create_function("place", 1, place, deterministic=True)
            self._db.create_function("signature_tree", 1, tree, deterministic=True)
            self._db.create_function("signature_number", 1, number, deterministic=True)
            self._db.create_function("signature_check", 1, signature_check, deterministic=True)
            self._open()

    def _open(self) -> None:
        """Check whose file it is, switch it to write-ahead mode, and bring its tables to this version."""
        self._db.execute("BEGIN")  # one view of the file, while another process may be making it
        version, owner = self._pragma("user_version"), self._pragma("application_id")
        if owner != APPLICATION_ID and self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise InputError(f"'{self.path}' is not a marey catalogue", "Give the folder of a marey library")
        if version > CATALOGUE_VERSION:
            what = f"'{self.path}' has catalogue version {version}; this marey knows versions up to {CATALOGUE_VERSION}"
            raise InputError(what, "Upgrade marey: pip install --upgrade marey")
        self._db.execute("COMMIT")
        # sqlite does not wait by itself when two processes switch a new file at the same time
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self._db.execute("PRAGMA synchronous = FULL")  # a committed row survives a power cut
        self._db.execute("PRAGMA foreign_keys = ON")
        if self._pragma("user_version") < CATALOGUE_VERSION:
            with self.writing():
                for step in _MIGRATIONS[self._pragma("user_version") :]:
                    for statement in filter(str.strip, step.split(";")):
                        self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {CATALOGUE_VERSION}")

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def writing(self) -> Generator[None]:
        """Hold the only write lock of the catalogue; commit at the end, roll back on any error."""
        with _translate_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ---- changes, inside `writing` only

    def insert(self, record: ClipRecord, signature: bytes) -> None:
        """Add the row of a clip, its tags and its signature."""
        values = asdict(record) | {name: json.dumps(getattr(record, name)) for name in _LISTS}
        names = ", ".join(_COLUMNS)
        marks = ", ".join(f":{name}" for name in _COLUMNS)
        self._db.execute(f"INSERT INTO clips ({names}) VALUES ({marks})", values)  # noqa: S608 (our own names)
        values = (record.id, signature, *signature_key(signature), signature_check(signature))
        self._db.execute("INSERT INTO signatures (clip, signature, tree, key, second) VALUES (?, ?, ?, ?, ?)", values)
        self.tag(record.id, record.tags)

    def tag(self, clip_id: str, tags: tuple[str, ...]) -> None:
        """Give a clip more tags."""
        self._db.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [(clip_id, tag) for tag in tags])

    def note_source(self, job: IngestJob, stamp: str, clip_id: str, num_takes: int | None) -> None:
        """Remember that this file, as it is now, holds this clip: the next run skips it.

        With the number of its takes every take is in, and the next run skips the whole file.
        """
        self._db.execute("REPLACE INTO sources VALUES (?, ?, ?, ?)", (job.absolute, job.options, stamp, clip_id))
        if num_takes is not None:
            row = (job.absolute, replace(job, take="").options, stamp, num_takes)
            self._db.execute("REPLACE INTO files VALUES (?, ?, ?, ?)", row)

    def delete(self, clip_id: str) -> None:
        """Drop the row of a clip and all that hangs on it."""
        self._db.execute("DELETE FROM clips WHERE id = ?", (clip_id,))

    # ---- questions

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with _translate_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    def ids(self) -> set[str]:
        """Addresses of all clips."""
        return {row[0] for row in self._rows("SELECT id FROM clips")}

    def has(self, clip_id: str) -> bool:
        """Whether there is a clip of this address."""
        return bool(self._rows("SELECT 1 FROM clips WHERE id = ?", (clip_id,)))

    def data_version(self) -> int:
        """A number that changes when another process has written."""
        with _translate_errors(self.path):
            return self._pragma("data_version")

    def find_source(self, job: IngestJob, stamp: str) -> str | None:
        """Return the clip that this take of a file held when it had the same stamp, if it was read before."""
        query = "SELECT clip FROM sources WHERE path = ? AND options = ? AND stamp = ?"
        rows = self._rows(query, (job.absolute, job.options, stamp))
        return str(rows[0][0]) if rows else None

    def find_takes(self, job: IngestJob, stamp: str) -> tuple[tuple[str, str], ...]:
        """Takes and clips of a file that was read as it is now; nothing unless all of them are still there."""
        query = "SELECT takes FROM files WHERE path = ? AND options = ? AND stamp = ?"
        rows = self._rows(query, (job.absolute, job.options, stamp))
        if not rows:
            return ()
        begins = f"{job.options} take="
        found = self._rows(
            "SELECT options, clip FROM sources WHERE path = ? AND stamp = ? "
            "AND (options = ? OR substr(options, 1, ?) = ?) ORDER BY rowid",
            (job.absolute, stamp, job.options, len(begins), begins),
        )
        takes = tuple((str(row[0])[len(begins) :], str(row[1])) for row in found)
        return takes if len(takes) == rows[0][0] else ()

    def same_motion(self, record: ClipRecord, signature: bytes) -> str | None:
        """Return the clip with the same content, or with the same motion but for rounding."""
        if self.has(record.id):
            return record.id
        # By the index: the same tree and near numbers; then the same length, and the same rate to a thousandth
        (tree, key), second = signature_key(signature), signature_check(signature)
        query = (
            "SELECT id, signature FROM signatures JOIN clips ON clip = id WHERE tree = ? AND key BETWEEN ? AND ? "
            "AND second BETWEEN ? AND ? AND num_frames = ? AND abs(rate_hz - ?) < 1e-3 * rate_hz"
        )
        near: list[float] = []
        for number in (key, second):
            reach = SAME_MOTION_TOL + 1e-9 * abs(number)
            near += [number - reach, number + reach]
        rows = self._rows(query, (tree, *near, record.num_frames, record.rate_hz))
        return next((str(row[0]) for row in rows if is_same_motion(row[1], signature)), None)

    def find(self, query: Query) -> tuple[ClipRecord, ...]:
        """Return the clips for which every condition holds, in the order of their names."""
        parts, values = ["1"], list[Any]()
        for column in ("behaviour", "subject"):
            if getattr(query, column) is not None:
                parts.append(f"{column} = ?")
                values.append(getattr(query, column))
        for tag in query.tags:
            parts.append("EXISTS (SELECT 1 FROM tags WHERE clip = id AND tag = ?)")
            values.append(tag)
        spans: dict[str, Span] = {"mean_speed_mps": query.speed_mps, "duration_s": query.duration_s}
        for column, (low, high) in spans.items():
            for bound, sign in ((low, ">="), (high, "<=")):
                if bound is not None:
                    parts.append(f"{column} {sign} ?")
                    values.append(bound)
        if query.text:
            parts.append(
                "(instr(lower(name || ' ' || place(source) || ' ' || character || ' ' || warnings), ?) "
                "OR EXISTS (SELECT 1 FROM tags WHERE clip = id AND instr(lower(tag), ?)))"
            )
            values += [query.text.lower()] * 2
        where = " AND ".join(parts)
        sql = f"SELECT * FROM clips WHERE {where} ORDER BY name, id LIMIT ?"  # noqa: S608 (values are bound)
        rows = self._rows(sql, (*values, -1 if query.limit is None else query.limit))
        return tuple(self._record(row) for row in rows)

    def named(self, key: str) -> tuple[ClipRecord, ...]:
        """Return the clips whose name is ``key``, or else those whose address begins with it."""
        rows = self._rows("SELECT * FROM clips WHERE name = ?", (key,))
        if not rows and len(key) >= 4:  # three digits of an address are too few to mean it
            rows = self._rows("SELECT * FROM clips WHERE substr(id, 1, ?) = ?", (len(key), key))
        return tuple(self._record(row) for row in rows)

    def names(self) -> tuple[str, ...]:
        """Names of all clips, sorted."""
        return tuple(row[0] for row in self._rows("SELECT name FROM clips ORDER BY name"))

    def _record(self, row: Mapping[str, Any]) -> ClipRecord:
        tags = self._rows("SELECT tag FROM tags WHERE clip = ? ORDER BY tag", (row["id"],))
        values: dict[str, Any] = {name: row[name] for name in _COLUMNS}
        values |= {name: tuple(json.loads(row[name])) for name in _LISTS}
        return ClipRecord(**values, tags=tuple(tag[0] for tag in tags))


@contextmanager
def _translate_errors(path: Path) -> Generator[None]:
    """Errors of sqlite as errors of the catalogue file: it is damaged, locked for too long, or cannot be written."""
    try:
        yield
    except sqlite3.Error as error:
        fix = "Check that the folder can be written and that no other program holds it"
        raise InputError(f"catalogue '{path}': {error}", fix) from error
