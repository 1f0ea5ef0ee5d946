"""Many sketches become many motions; what is made already is not made again.

A job is one sketch: what to make, and what was made of it. Jobs run on the cores of this machine or on a Dask
cluster; a process that dies takes one try of one job with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
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


def run_on_cluster(
    jobs: Sequence[BatchJob], folder: Path, address: str, on_link: Callable[[str], None] | None
) -> Generator[BatchItem]:
    """Run jobs on a cluster and write here what comes back; workers need no common disk.

    Raises:
        MissingExtraError: Dask is not installed.
        InputError: no scheduler answers at the address.
    """
    with DaskJobs(address, "a batch on a cluster", on_link) as cluster:
        files = {job.graph for job in jobs if job.graph is not None}
        graphs = {path: cluster.client.scatter(Path(path).read_bytes(), broadcast=True) for path in files}
        for number, future in cluster.run(run_job, [(job, graphs.get(job.graph or "")) for job in jobs]):
            yield _store_future(future, jobs[number], folder)


def _store_future(future: Any, job: BatchJob, folder: Path) -> BatchItem:
    try:
        report, data = future.result()
    except Exception as error:
        return BatchItem(job.name, "ERROR", error=f"{type(error).__name__}: {error}")
    return store_result(report, data, folder)


TRIES: Final = 3  # of a job whose process dies
WORKER_MODULE: Final = "marey.pipeline.worker"


def count_workers(num_jobs: int, wanted: int | None) -> int:
    """How many processes to start."""
    return max(1, min(count_cores() if wanted is None else wanted, num_jobs))


def run_in_processes(jobs: Sequence[BatchJob], folder: Path, workers: int) -> Generator[BatchItem]:
    """Run jobs in worker processes; items in the order they are ready."""
    requests = [json.dumps({"job": asdict(job), "folder": str(folder)}) for job in jobs]
    for number, line in ask_workers(WORKER_MODULE, requests, workers, tries=TRIES):
        yield (
            make_item(json.loads(line))
            if line
            else BatchItem(
                jobs[number].name, "ERROR", error=f"its process died {TRIES} times. Run the batch again to retry"
            )
        )


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
    jobs = _make_jobs(sketches, folder, engine, graph, suffix, options)
    items = {job.name: item for job in jobs if (item := load_finished_item(job, folder)) is not None}
    for number, item in enumerate(items.values()):
        _report_item(on_item, item, number + 1, len(jobs))
    left = [job for job in jobs if job.name not in items]
    for item in _run_jobs(left, folder, workers, cluster, on_link):
        items[item.name] = item
        _report_item(on_item, item, len(items), len(jobs))
    return BatchReport(tuple(items[job.name] for job in jobs))


def _report_item(on_item: OnItem | None, item: BatchItem, done: int, total: int) -> None:
    if on_item is not None:
        on_item(item, done, total)


def _run_jobs(
    jobs: list[BatchJob], folder: Path, workers: int | None, cluster: str | None, on_link: Callable[[str], None] | None
) -> Iterator[BatchItem]:
    if not jobs:
        return iter(())
    if cluster is not None:
        return run_on_cluster(jobs, folder, cluster, on_link)

    return run_in_processes(jobs, folder.absolute(), count_workers(len(jobs), workers))


def _make_jobs(
    sketches: Sequence[Sketch | AnyPath],
    folder: Path,
    engine: str,
    graph: MotionGraph | AnyPath | None,
    suffix: str,
    options: dict[str, Any],
) -> list[BatchJob]:
    import json

    from marey.io import WRITABLE_SUFFIXES

    if suffix not in WRITABLE_SUFFIXES:
        raise InputError(f"no motion file ends in '{suffix}'", f"Use one of {', '.join(WRITABLE_SUFFIXES)}")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(options))
    except TypeError as error:
        raise InputError(f"an option is not plain data: {error}", "Give numbers, words and lists") from error
    file, key = _graph_file(graph, folder)
    named = [_name_and_text(sketch) for sketch in sketches]
    names = [name for name, _ in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two sketches are called '{twice}'", "Rename one: names become file names")
    return [BatchJob(name, toml, suffix, engine, file, key, plain) for name, toml in named]


def _name_and_text(sketch: Sketch | AnyPath) -> tuple[str, str]:
    """Name and text of a sketch."""
    if isinstance(sketch, Sketch):
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in sketch.name) or "sketch"
        return name, sketch_to_toml(sketch)
    return Path(sketch).stem, sketch_to_toml(load_sketch(Path(sketch)))


def _graph_file(graph: MotionGraph | AnyPath | None, folder: Path) -> tuple[str | None, str]:
    """File and fingerprint of a graph; one in memory is written to the folder first."""
    if graph is None:
        return None, ""
    if isinstance(graph, str | os.PathLike):
        file = Path(graph)
        if not file.is_file():
            raise InputError(f"there is no graph file '{file}'", "Make one: marey graph build")
    else:
        from marey.graph import save_graph

        file = folder / ".graph.safetensors"
        save_graph(graph, file)
    return str(file.absolute()), hashlib.sha256(file.read_bytes()).hexdigest()[:32]
