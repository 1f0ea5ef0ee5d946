"""A whole archive of captures: read into a library, pose models fitted, a motion graph built; done work is kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from marey.base import DaskJobs, InputError, write_atomically
from marey.library import ClipRecord, Library

if TYPE_CHECKING:
    from marey.motion import Motion


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
    folder = Path(out_folder)
    folder.mkdir(parents=True, exist_ok=True)
    if cluster is not None and on_link is not None:
        with DaskJobs(cluster, "an archive on a cluster", on_link):
            pass  # the address is checked and told before the work begins
    tell = _ignore_progress if on_step is None else on_step
    with Library(folder / LIBRARY) as library:
        added = library.add(
            paths, workers=workers, cluster=cluster,
            progress=lambda done, total, _: tell("read", done, total),
        )  # fmt: skip
        clips = library.clips()
        if not clips:
            raise InputError(f"none of {len(added.results)} files could be read", "Run `marey info` on one of them")
        ledger = _ResultLedger(folder / LEDGER_FILE)
        # A pose model of each behaviour, of the clips that share its most common joints
        folder_models = folder / MODELS
        from marey.models import PGA

        folder_models.mkdir(exist_ok=True)
        behaviours = sorted({clip.behaviour for clip in clips})
        for number, behaviour in enumerate(behaviours):
            own = _select_common_joints([clip for clip in clips if clip.behaviour == behaviour])
            file = folder_models / f"{behaviour}.safetensors"
            if not ledger.has(behaviour, _hash_inputs(own), file):
                PGA().fit([library.load(clip.id) for clip in own]).save(file)
                ledger.enter(behaviour, _hash_inputs(own))
            tell("fit", number + 1, len(behaviours))
        models = tuple(behaviours)
        graph, advice = _build_graph(library, clips, folder, ledger, tell, workers, cluster, settings)
    failed = tuple(f"{result.path}: {result.message}" for result in added.failed)
    return ArchiveReport(len(clips), failed, models, graph, advice, tuple(ledger.kept))


def _ignore_progress(step: str, done: int, total: int) -> None:
    """Default progress callback: does nothing."""


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


def _select_common_joints(clips: Sequence[ClipRecord]) -> list[ClipRecord]:
    joints = Counter(clip.joints for clip in clips).most_common(1)[0][0]
    return [clip for clip in clips if clip.joints == joints]


def _build_graph(
    library: Library, clips: Sequence[ClipRecord], folder: Path, ledger: _ResultLedger, tell: OnStep,
    workers: int | None,
    cluster: str | None, settings: dict[str, Any],
) -> tuple[str | None, str]:  # fmt: skip
    """The graph of all clips, or the reason why there is none."""
    from marey.base import count_cores
    from marey.graph import build_graph, save_graph

    file, key = folder / GRAPH, _hash_inputs(clips, settings)
    if ledger.has("graph", key, file):
        return str(file), ""
    motions: list[Motion] = [library.load(clip.id) for clip in clips]
    try:
        graph = build_graph(
            motions, workers=workers or count_cores(), cluster=cluster, resume=folder / READY,
            on_progress=lambda done, total: tell("graph", done, total), **settings,
        )  # fmt: skip
    except InputError as error:
        return None, str(error)
    save_graph(graph, file)
    ledger.enter("graph", key)
    return str(file), ""
