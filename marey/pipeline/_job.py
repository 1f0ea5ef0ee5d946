"""One sketch of a batch: what to make, and what was made of it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from marey.base import FormatError, MareyError
from marey.pipeline._synthesize import synthesize_sketch
from marey.world import parse_sketch

if TYPE_CHECKING:
    from marey.graph import MotionGraph
    from marey.motion import Motion

REPORT_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class BatchJob:
    """Everything that it takes to make one motion, as plain data that any process can read."""

    name: str  # of the files
    sketch: str  # TOML
    suffix: str = ".bvh"  # of the motion
    engine: str = "auto"
    graph: str | None = None  # file
    graph_key: str = ""  # fingerprint of the graph
    options: dict[str, Any] = field(default_factory=dict[str, Any])  # of synthesize

    @property
    def key(self) -> str:
        """Fingerprint of all that the motion depends on, wherever the graph lies."""
        facts = {name: value for name, value in asdict(self).items() if name != "graph"}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class BatchItem:
    """What became of one sketch."""

    name: str
    status: str  # of the synthesis, or "ERROR"
    file: str | None = None  # name of the motion file, none if there is no motion
    seconds: float = 0.0  # [s] that it took
    error: str = ""  # what was wrong, and what would help
    is_skipped: bool = False  # made by an earlier run

    @property
    def is_solved(self) -> bool:
        """Whether there is a motion."""
        return self.file is not None


def run_job(job: BatchJob, graph: bytes | None = None) -> tuple[dict[str, Any], bytes]:
    """Make a motion; nothing is written.

    Args:
        job: what to make.
        graph: the file of the graph, where there is no such file on this machine.

    Returns:
        The report, and the bytes of the motion file; none if there is no motion.
    """
    try:
        sketch = parse_sketch(job.sketch, file=job.name)
        wanted = None if job.graph is None else _load_graph(job.graph, job.graph_key, graph)
        result = synthesize_sketch(sketch, job.engine, graph=wanted, **job.options)
    except MareyError as error:
        return {"name": job.name, "key": job.key, "status": "ERROR", "file": None, "error": str(error)}, b""
    data = b"" if result.motion is None else _encode_motion(result.motion, job.suffix)
    file = f"{job.name}{job.suffix}" if data else None
    return {"name": job.name, "key": job.key, "file": file, "error": result.advice, **result.to_json()}, data


@lru_cache(maxsize=1)
def _load_graph(path: str, key: str, data: bytes | None) -> MotionGraph:
    """A graph, read once by each process."""
    from marey.graph import load_graph

    if data is None:
        return load_graph(path)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "graph.safetensors"
        file.write_bytes(data)
        return load_graph(file)


def _encode_motion(motion: Motion, suffix: str) -> bytes:
    from marey.io import save

    with TemporaryDirectory() as folder:
        file = Path(folder) / f"motion{suffix}"
        save(motion, file)
        return file.read_bytes()


def store_result(report: dict[str, Any], data: bytes, folder: Path) -> BatchItem:
    """Write motion and report, each whole or not at all; the report last, so that it stands for both."""
    if data:
        write_atomically(folder / str(report["file"]), data)
    write_atomically(folder / f"{report['name']}{REPORT_SUFFIX}", json.dumps(report, indent=1).encode())
    return make_item(report)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that its name appears only when all of it is on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def make_item(report: dict[str, Any], *, is_skipped: bool = False) -> BatchItem:
    """The short form of a report."""
    return BatchItem(
        str(report["name"]), str(report["status"]), report.get("file"), float(report.get("took_s", 0.0)),
        str(report.get("error", "")), is_skipped,
    )  # fmt: skip


def load_finished_item(job: BatchJob, folder: Path) -> BatchItem | None:
    """What an earlier run made of the same job; none if it made no motion, or another one, or was stopped."""
    try:
        report: dict[str, Any] = json.loads((folder / f"{job.name}{REPORT_SUFFIX}").read_text(encoding="utf-8"))
        whole = report["key"] == job.key and report["file"] and (folder / str(report["file"])).is_file()
        return make_item(report, is_skipped=True) if whole else None
    except (OSError, ValueError, KeyError, TypeError, FormatError):
        return None
