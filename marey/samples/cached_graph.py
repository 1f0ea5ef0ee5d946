"""The motion graph of the synthesised clips, made once on a machine and kept in the user's cache."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from marey.base import MareyError, cache_folder
from marey.samples.graph_clips import demo_clips

if TYPE_CHECKING:
    from marey.graph import MotionGraph


DEMO_SETTINGS: Final[dict[str, Any]] = {"mirror": True, "density": 100.0, "merge": 1.5, "links": 24}
"""Engine walks are far more alike than captured ones: links to the same gait alone would fill the usual density."""
MAKERS: Final = ("samples", "locomotion", "blending", "graph", "motion")  # packages whose code decides what it is
READERS: Final = ("search", "reconstruction")  # folders of them that only read it


def demo_graph(
    *,
    on_progress: Callable[[int, int], None] | None = None,
    folder: str | Path | None = None,
    workers: int = 1,
) -> MotionGraph:
    """The motion graph of :func:`demo_clips` and their mirror images.

    It is read from the cache if this version of marey has made it before; a cache that cannot be read or written is
    no error.

    Args:
        on_progress: called with how many clips are ready, of how many.
        folder: of the cache; by default ``MAREY_CACHE``, or the one of the system.
        workers: processes that make clips ready; more than one only where the main module can be imported again.
    """
    from marey.graph import build_graph, load_graph, save_graph

    file = demo_graph_file(folder)
    if file.is_file():
        try:
            return load_graph(file)
        except (MareyError, OSError):
            pass  # damaged: it is built again
    graph = build_graph(demo_clips(), workers=workers, on_progress=on_progress, **DEMO_SETTINGS)
    # Write the graph, and forget those that other versions made
    with contextlib.suppress(MareyError, OSError):  # a home that cannot be written to
        file.parent.mkdir(parents=True, exist_ok=True)
        save_graph(graph, file)
        for old in file.parent.glob("demo-graph-*.safetensors"):
            if old != file:
                old.unlink(missing_ok=True)
    return graph


def demo_graph_file(folder: str | Path | None = None) -> Path:
    """Where the graph of this version of marey is kept, whether it was made already or not."""
    # It is named by everything that it depends on: the code that makes it and the model it is made with
    home = Path(__file__).parents[1]
    found = [f for name in MAKERS for f in sorted((home / name).rglob("*.py")) if f.parent.name not in READERS]
    found.append(home / "locomotion" / "data" / "locomotion.safetensors")
    whole = sha256()
    for file in found:
        whole.update(file.name.encode() + sha256(file.read_bytes()).digest())
    return Path(cache_folder() if folder is None else folder) / f"demo-graph-{whole.hexdigest()[:12]}.safetensors"
