"""Many sketches become many motions, an archive becomes library, models and graph; what is made already is kept.

A job is one sketch: what to make, and what was made of it. Jobs run on the cores of this machine or on a Dask
cluster; a process that dies takes one try of one job with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from marey.base import DaskJobs, FormatError, InputError, MareyError, Result, ask_workers, count_cores, write_atomically
from marey.library import ClipRecord, Library
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


# A whole archive of captures: read into a library, pose models fitted, a motion graph built

OnStep = Callable[[str, int, int], None]
"""Called with the step ("read", "fit" or "graph"), how much of it is ready, and of how much."""
LEDGER_FILE: Final = ".done.json"
LIBRARY, MODELS, GRAPH, READY = "library", "models", "graph.safetensors", ".graph"


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Result of an archive run."""

    clips: int  # in the library
    failed: tuple[str, ...]  # files that could not be read, each with its reason
    models: tuple[str, ...]  # behaviours that have a pose model
    graph: str | None  # file of the graph; none if the clips make none
    advice: str = ""  # why there is no graph
    kept: tuple[str, ...] = ()  # what an earlier run had made of the same clips

    @property
    def sentence(self) -> str:
        """For people."""
        graph = "a graph" if self.graph is not None else f"no graph ({self.advice})"
        text = f"{self.clips} clips, {len(self.failed)} files unread, {len(self.models)} pose models, {graph}"
        return text if not self.kept else f"{text}; from an earlier run: {', '.join(self.kept)}"


def run_archive(
    paths: str | Path | Iterable[str | Path],
    out_folder: str | os.PathLike[str],
    *,
    workers: int | None = None,
    cluster: str | None = None,
    on_step: OnStep | None = None,
    on_link: Callable[[str], None] | None = None,
    **settings: Any,
) -> ArchiveReport:
    """Make of an archive all that the engines need.

    ``OUT/library`` is a :class:`marey.library.Library`, ``OUT/models`` has a pose model for each behaviour found, and
    ``OUT/graph.safetensors`` is a motion graph. A run that was stopped, however it was stopped, goes on where it was:
    files that were read, clips that were prepared and results of the same clips are not made again.

    Args:
        paths: motion files, and folders that are searched for them.
        out_folder: is made if need be.
        workers: processes on this machine; one for each core by default.
        cluster: address of a Dask scheduler, ``tcp://host:port``, in place of own processes; no common disk is needed.
        on_step: sees the progress.
        on_link: called with the address of the cluster's dashboard.
        settings: of :class:`marey.graph.GraphSettings`.

    Raises:
        InputError: no clip could be read, no cluster answers, or a setting makes no sense.
    """
    from marey.graph import build_graph, save_graph
    from marey.models import PGA, select_alike

    folder = Path(out_folder)
    folder.mkdir(parents=True, exist_ok=True)
    if cluster is not None and on_link is not None:
        with DaskJobs(cluster, "an archive on a cluster", on_link):
            pass  # the address is checked and told before the work begins

    def tell(step: str, done: int, total: int) -> None:
        if on_step is not None:
            on_step(step, done, total)

    with Library(folder / LIBRARY) as library:
        # Every file into the library; those of an earlier run are skipped
        added = library.add(
            paths, workers=workers, cluster=cluster, progress=lambda done, total, _: tell("read", done, total)
        )
        clips = library.clips()
        if not clips:
            raise InputError(f"none of {len(added.results)} files could be read", "Run `marey info` on one of them")
        ledger = _ResultLedger(folder / LEDGER_FILE)
        # A pose model of each behaviour, of the clips that share its most common joints
        (folder / MODELS).mkdir(exist_ok=True)
        behaviours = sorted({clip.behaviour for clip in clips})
        for number, behaviour in enumerate(behaviours):
            own = [clip for clip in clips if clip.behaviour == behaviour]
            file = folder / MODELS / f"{behaviour}.safetensors"
            if not ledger.has(behaviour, _hash_inputs(own), file):
                PGA().fit(list(select_alike([library.load(clip.id) for clip in own]).values())).save(file)
                ledger.enter(behaviour, _hash_inputs(own))
            tell("fit", number + 1, len(behaviours))
        # The graph of all clips, or the reason why there is none
        file, key, advice = folder / GRAPH, _hash_inputs(clips, settings), ""
        if not ledger.has("graph", key, file):
            try:
                graph = build_graph(
                    [library.load(clip.id) for clip in clips], workers=workers or count_cores(), cluster=cluster,
                    resume=folder / READY, on_progress=lambda done, total: tell("graph", done, total), **settings,
                )  # fmt: skip
            except InputError as error:
                advice = str(error)
            else:
                save_graph(graph, file)
                ledger.enter("graph", key)
    failed = tuple(f"{result.path}: {result.message}" for result in added.failed)
    made = None if advice else str(file)
    return ArchiveReport(len(clips), failed, tuple(behaviours), made, advice, tuple(ledger.kept))


class _ResultLedger:
    """Ledger of finished results and their inputs; a result is entered when its file is complete."""

    def __init__(self, file: Path) -> None:
        self._file, self.kept = file, list[str]()
        try:
            self._keys: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._keys = {}

    def has(self, name: str, key: str, file: Path) -> bool:
        """Whether a result of the same key is there."""
        found = self._keys.get(name) == key and file.is_file()
        if found:
            self.kept.append(name)
        return found

    def enter(self, name: str, key: str) -> None:
        """Write down that a result is there."""
        self._keys[name] = key
        write_atomically(self._file, json.dumps(self._keys, indent=1).encode())


def _hash_inputs(clips: Sequence[ClipRecord], settings: Mapping[str, Any] | None = None) -> str:
    facts = [sorted(clip.id for clip in clips), sorted((settings or {}).items())]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
