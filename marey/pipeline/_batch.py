"""Many sketches become many motions; what is made already is not made again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marey.base import InputError
from marey.pipeline._job import BatchItem, BatchJob, load_finished_item
from marey.world import Sketch, load_sketch, sketch_to_toml

if TYPE_CHECKING:
    from marey.graph import MotionGraph

AnyPath = str | os.PathLike[str]
OnItem = Callable[[BatchItem, int, int], None]
"""Called with an item that is ready, how many are, and of how many."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of all sketches, in their order."""

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
        from marey.pipeline._cluster import run_on_cluster

        return run_on_cluster(jobs, folder, cluster, on_link)
    from marey.pipeline._processes import count_workers, run_in_processes

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
        raise InputError(f"an option is no plain data: {error}", "Give numbers, words and lists") from error
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
