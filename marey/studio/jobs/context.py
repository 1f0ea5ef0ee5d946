"""What a tool gets: the document, motions of the project, uploaded files, a way to tell how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from marey.base import InputError, UnknownNameError
from marey.motion import Motion
from marey.pipeline import edit_motion
from marey.pipeline.tools import Tool
from marey.studio.project.document import find_hash
from marey.studio.project.patches import Tree
from marey.studio.project.store import MotionArchive

HASH_LENGTH: Final = 64  # of the name of a motion in the archive


class RunContext:
    """The tool's view of a run; a ToolContext."""

    def __init__(
        self,
        project: Tree,
        store: MotionArchive,
        uploads: Path,
        *,
        seed: int = 0,
        tell: Callable[[float, str, Tree], None] | None = None,
        show: Callable[[str, str], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Prepare a run."""
        self.project: Mapping[str, Any] = project
        self.seed = seed
        self._store, self._uploads = store, uploads
        self._tell, self._show, self._is_cancelled = tell, show, is_cancelled

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked this run to end."""
        return self._is_cancelled is not None and self._is_cancelled()

    def motion(self, key: str) -> Motion:
        """Motion of a clip or take, with the layers and edits of the take; or of a hash that a page shows."""
        if len(key) == HASH_LENGTH and key not in self.project["takes"] and key not in self.project["clips"]:
            return self._store.get(key)
        take = self.project["takes"].get(key)
        if take is not None and take["result"] is None and take["base"] is not None:
            return edit_motion(self._store.get(take["base"]), take["layers"], take["edits"])
        return self._store.get(find_hash(cast(Tree, self.project), key))

    def file(self, key: str) -> str:
        """Path of an uploaded file."""
        files = list((self._uploads / key).iterdir()) if key.isalnum() and (self._uploads / key).is_dir() else []
        if not files:
            raise InputError(f"there is no uploaded file '{key[:80]}'", "Drop the file again")
        return str(files[0])

    def progress(self, fraction: float, sentence: str, **facts: Any) -> None:
        """Say how far the run is, and what can be drawn of it."""
        if self._tell is not None:
            self._tell(min(max(float(fraction), 0.0), 1.0), sentence, facts)

    def partial(self, motion: Motion) -> None:
        """Show a motion before the end."""
        if self._show is not None:
            self._show(self._store.put(motion), motion.name)


def list_tools() -> Mapping[str, Tool]:
    """The tools by id; those of :mod:`marey.studio.tools`."""
    from marey.studio.tools import TOOLS

    return TOOLS


def find_tool(name: str, *kinds: str) -> Tool:
    """Return a tool of one of these kinds, or of any where none is given."""
    known = {key: tool for key, tool in list_tools().items() if not kinds or tool.kind in kinds}
    if name not in known:
        raise UnknownNameError("tool", name, "the studio", known)
    return known[name]
