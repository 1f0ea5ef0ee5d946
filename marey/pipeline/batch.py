"""Many sketches become many motions; what is made already is not made again.

A job is one sketch: what to make, and what was made of it. Jobs run on the cores of this machine or on a Dask
cluster; a process that dies takes one try of one job with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from marey.base import DaskJobs, FormatError, InputError, MareyError, Result, ask_workers, count_cores, write_atomically
from marey.pipeline.synthesis import synthesize_sketch
from marey.world import Sketch, load_sketch, parse_sketch, sketch_to_toml

if TYPE_CHECKING:
    from marey.graph import MotionGraph


REPORT_SUFFIX = ".json"
TRIES: Final = 3  # of a job whose process dies
WORKER_MODULE: Final = "marey.pipeline.worker"


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
    """Result of one sketch of a batch."""

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


def count_workers(num_jobs: int, wanted: int | None) -> int:
    """How many processes to start."""
    return max(1, min(count_cores() if wanted is None else wanted, num_jobs))


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
    # The bytes of the motion file, for a caller on another machine
    data = b""
    if result.motion is not None:
        from marey.io import save

        with TemporaryDirectory() as folder:
            made = Path(folder) / f"motion{job.suffix}"
            save(result.motion, made)
            data = made.read_bytes()
    file = f"{job.name}{job.suffix}" if data else None
    return {"name": job.name, "key": job.key, "file": file, "error": result.advice, **result.to_json()}, data


@lru_cache(maxsize=1)
def _load_graph(path: str, key: str, data: bytes | None) -> MotionGraph:
    """A graph, read once by each process."""
    from marey.graph import load_graph

    if data is None:
        return load_graph(path)
    # The file lies on another machine: its bytes came with the job
    with TemporaryDirectory() as folder:
        file = Path(folder) / "graph.safetensors"
        file.write_bytes(data)
        return load_graph(file)


def store_result(report: dict[str, Any], data: bytes, folder: Path) -> BatchItem:
    """Write motion and report atomically; the report last, so that it marks both as complete."""
    if data:
        write_atomically(folder / str(report["file"]), data)
    write_atomically(folder / f"{report['name']}{REPORT_SUFFIX}", json.dumps(report, indent=1).encode())
    return make_item(report)


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


def run_jobs(
    jobs: Sequence[BatchJob], folder: Path, workers: int | None, cluster: str | None,
    on_link: Callable[[str], None] | None,
) -> Generator[BatchItem]:  # fmt: skip
    """Items in the order they are ready, from processes on this machine or from a cluster.

    What comes back from a cluster is written here; its workers need no common disk.
    """
    if cluster is None:
        requests = [json.dumps({"job": asdict(job), "folder": str(folder.absolute())}) for job in jobs]
        for number, line in ask_workers(WORKER_MODULE, requests, count_workers(len(jobs), workers), tries=TRIES):
            died = f"its process died {TRIES} times. Run the batch again to retry"
            yield make_item(json.loads(line)) if line else BatchItem(jobs[number].name, "ERROR", error=died)
        return
    with DaskJobs(cluster, "a batch on a cluster", on_link) as dask:
        # Each graph goes to the workers once
        files = {job.graph for job in jobs if job.graph is not None}
        graphs = {path: dask.client.scatter(Path(path).read_bytes(), broadcast=True) for path in files}
        for number, future in dask.run(run_job, [(job, graphs.get(job.graph or "")) for job in jobs]):
            try:
                report, data = future.result()
            except Exception as error:  # of any kind, on another machine
                yield BatchItem(jobs[number].name, "ERROR", error=f"{type(error).__name__}: {error}")
            else:
                yield store_result(report, data, folder)


AnyPath = str | os.PathLike[str]
OnItem = Callable[[BatchItem, int, int], None]
"""Called with an item that is ready, how many are, and of how many."""


@dataclass(frozen=True, slots=True, repr=False)
class BatchReport(Result):
    """Results of all sketches of a batch, in order."""

    items: tuple[BatchItem, ...]

    @property
    def num_solved(self) -> int:
        """How many have a motion."""
        return sum(item.is_solved for item in self.items)

    @property
    def num_skipped(self) -> int:
        """How many were made by an earlier run."""
        return sum(item.is_skipped for item in self.items)

    @property
    def sentence(self) -> str:
        """For people."""
        text = f"{self.num_solved} of {len(self.items)} sketches have a motion, {self.num_skipped} from an earlier run"
        failed = [f"{item.name} ({item.status})" for item in self.items if not item.is_solved]
        return text if not failed else f"{text}; without: {', '.join(failed)}"


def run_batch(
    sketches: Sequence[Sketch | AnyPath],
    out_folder: AnyPath,
    *,
    engine: str = "auto",
    graph: MotionGraph | AnyPath | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    suffix: str = ".bvh",
    on_item: OnItem | None = None,
    on_link: Callable[[str], None] | None = None,
    **options: Any,
) -> BatchReport:
    """Make the motions of many sketches, each into ``NAME.bvh`` with a report ``NAME.json`` beside it.

    Files appear whole or not at all, and a finished one is not made again as long as its sketch and all options stay:
    a batch that was stopped, however it was stopped, goes on where it was when it is run again.

    Args:
        sketches: files or sketches; their names become file names.
        out_folder: is made if need be.
        engine: see :func:`marey.pipeline.synthesize_sketch`.
        graph: a motion graph or its file.
        workers: processes on this machine; one for each core by default.
        cluster: address of a Dask scheduler, ``tcp://host:port``, in place of own processes.
        suffix: of the motion files.
        on_item: called whenever a motion is ready.
        on_link: called with the address of the cluster's dashboard.
        options: of :func:`marey.pipeline.synthesize_sketch`; numbers, words and lists.

    Raises:
        InputError: two sketches have one name, or an option cannot be handed to another process.
        FormatError: a sketch file is wrong; nothing was made yet.
    """
    folder = Path(out_folder)
    folder.mkdir(parents=True, exist_ok=True)
    from marey.graph import save_graph
    from marey.io import WRITABLE_SUFFIXES

    if suffix not in WRITABLE_SUFFIXES:
        raise InputError(f"no motion file ends in '{suffix}'", f"Use one of {', '.join(WRITABLE_SUFFIXES)}")
    # Options go to other processes as JSON
    try:
        plain: dict[str, Any] = json.loads(json.dumps(options))
    except TypeError as error:
        raise InputError(f"an option is not plain data: {error}", "Give numbers, words and lists") from error
    # File and fingerprint of the graph; one in memory is written to the folder first
    file, key = None, ""
    if graph is not None:
        home = Path(graph) if isinstance(graph, str | os.PathLike) else folder / ".graph.safetensors"
        if not isinstance(graph, str | os.PathLike):
            save_graph(graph, home)
        elif not home.is_file():
            raise InputError(f"there is no graph file '{home}'", "Make one: marey graph build")
        file, key = str(home.absolute()), hashlib.sha256(home.read_bytes()).hexdigest()[:32]
    # Names become file names
    named: dict[str, Sketch] = {}
    for given in sketches:
        sketch = given if isinstance(given, Sketch) else load_sketch(Path(given))
        own = "".join(c if c.isalnum() or c in "-_." else "-" for c in sketch.name) or "sketch"
        name = own if isinstance(given, Sketch) else Path(given).stem
        if name in named:
            raise InputError(f"two sketches are called '{name}'", "Rename one: names become file names")
        named[name] = sketch
    jobs = [BatchJob(name, sketch_to_toml(sketch), suffix, engine, file, key, plain) for name, sketch in named.items()]
    # What an earlier run finished is told first
    items = {job.name: item for job in jobs if (item := load_finished_item(job, folder)) is not None}
    if on_item is not None:
        for number, item in enumerate(items.values()):
            on_item(item, number + 1, len(jobs))
    # The rest, as it gets ready
    left = [job for job in jobs if job.name not in items]
    for item in run_jobs(left, folder, workers, cluster, on_link) if left else ():
        items[item.name] = item
        if on_item is not None:
            on_item(item, len(items), len(jobs))
    return BatchReport(tuple(items[job.name] for job in jobs))
