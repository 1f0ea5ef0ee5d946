"""A project in a folder: its document, the one list of undo, the journal, the store of its motions."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from marey.base import InputError, WriteError
from marey.library import ProcessLock
from marey.studio.project.commands import ProjectCommand
from marey.studio.project.journal import Act, HistoryStep, Journal, JournalRecord, Snapshot
from marey.studio.project.patches import DocumentPatch, Tree, apply_patches
from marey.studio.project.schema import check_project, empty_project
from marey.studio.project.store import MotionArchive

MOST_STEPS: Final = 1000  # that can be undone
COMPACT_BYTES: Final = 4 << 20  # of journal, before the document is written whole
_HASH: Final = re.compile(rb"\b[0-9a-f]{64}\b")


class DocumentChange(msgspec.Struct, frozen=True):
    """What every page must hear of one change."""

    seq: int
    label: str
    patches: tuple[DocumentPatch, ...]


class Project:
    """The document of a folder; one process holds it at a time."""

    def __init__(self, folder: str | Path, *, name: str | None = None) -> None:
        """Open a folder, which need not exist, as of the last command."""
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = ProcessLock(self.folder / "lock.sqlite")
        except (OSError, sqlite3.Error) as error:
            raise WriteError(str(self.folder), str(error)) from error
        if not self._lock.acquire():
            raise InputError(f"another studio has '{self.folder}' open", "Close it, or open another folder")
        self.store = MotionArchive(self.folder / "motions")
        self._journal = Journal(self.folder)
        snapshot, records = self._journal.read()
        self.is_new = snapshot is None and not records
        if snapshot is None:
            snapshot = Snapshot(0, empty_project(name or self.folder.name or "Untitled"))
        self.tree: Tree = check_project(snapshot.project)
        self.seq = snapshot.seq
        self._undo, self._redo = list(snapshot.undo), list(snapshot.redo)
        for record in records:
            self._follow(record)
        self.compact()
        # Motions that neither the document nor its history names are left over from jobs
        text = msgspec.json.encode(Snapshot(self.seq, self.tree, self._undo, self._redo))
        self.store.sweep({name.decode() for name in _HASH.findall(text)})

    def run(self, commands: ProjectCommand | Sequence[ProjectCommand], *, label: str = "") -> DocumentChange:
        """Carry out a command, or several as one step of undo; it is on the disk when this returns."""
        steps = [commands] if isinstance(commands, ProjectCommand) else list(commands)
        tree = self.tree
        patches = steps[0].compile(tree)
        for before, command in pairwise(steps):
            # Each is compiled on what the ones before it leave
            tree, _ = apply_patches(tree, before.compile(tree))
            patches += command.compile(tree)
        if not patches:
            raise InputError("this changes nothing", "Give at least one change")
        return self._write("command", label or steps[0].label, tuple(patches))

    def amend(self, command: ProjectCommand) -> DocumentChange:
        """Add what the server made of the last step to it: no step of its own in the list of undo."""
        patches = tuple(command.compile(self.tree))
        return self._write("amend" if self._undo else "command", command.label, patches)

    def undo(self) -> DocumentChange | None:
        """Take the last step back; None when there is none."""
        return self._write("undo", self._undo[-1].label, self._undo[-1].inverse) if self._undo else None

    def redo(self) -> DocumentChange | None:
        """Do again what was taken back last; None when there is nothing."""
        return self._write("redo", self._redo[-1].label, self._redo[-1].patches) if self._redo else None

    @property
    def undo_label(self) -> str | None:
        """What :meth:`undo` would take back."""
        return self._undo[-1].label if self._undo else None

    @property
    def redo_label(self) -> str | None:
        """What :meth:`redo` would do again."""
        return self._redo[-1].label if self._redo else None

    def compact(self) -> None:
        """Write the document whole and empty the journal."""
        self._journal.compact(Snapshot(self.seq, self.tree, self._undo, self._redo))

    def forget_history(self) -> None:
        """Begin the list of undo here."""
        self._undo.clear()
        self._redo.clear()
        self.compact()

    def close(self) -> None:
        """Write the document whole, and let go of the folder."""
        self.compact()
        self._journal.close()
        self._lock.release()

    def _write(self, act: Act, label: str, patches: tuple[DocumentPatch, ...]) -> DocumentChange:
        # What does not apply is refused before it is written
        tree, inverse = apply_patches(self.tree, patches)
        self._journal.append(JournalRecord(self.seq + 1, act, label, patches if act in ("command", "amend") else ()))
        self._commit(act, HistoryStep(label, patches, inverse), tree)
        if self._journal.size > COMPACT_BYTES:
            # The change is on the disk: a snapshot that fails must not look as if it were not
            with suppress(WriteError):
                self.compact()
        return DocumentChange(self.seq, label, patches)

    def _follow(self, record: JournalRecord) -> None:
        """Carry out a record of the journal, as it was carried out when it was written."""
        patches = record.patches
        if record.act in ("undo", "redo"):
            patches = self._undo[-1].inverse if record.act == "undo" else self._redo[-1].patches
        tree, inverse = apply_patches(self.tree, patches)
        self._commit(record.act, HistoryStep(record.label, patches, inverse), tree)

    def _commit(self, act: Act, step: HistoryStep, tree: Tree) -> None:
        """Take a new tree, and move along the lists of undo and redo."""
        self.tree, self.seq = tree, self.seq + 1
        if act == "undo":
            self._redo.append(self._undo.pop())
            return
        if act == "amend":
            last = self._undo.pop()
            step = HistoryStep(last.label, last.patches + step.patches, step.inverse + last.inverse)
        elif act == "redo":
            self._redo.pop()
        else:
            self._redo.clear()
        self._undo.append(step)
        del self._undo[:-MOST_STEPS]


def find_hash(tree: Tree, key: str) -> str:
    """Hash of the motion of a clip or take of a document."""
    if key in tree["clips"]:
        return tree["clips"][key]["hash"]
    if key not in tree["takes"]:
        raise InputError(f"the project has no clip or take '{key}'", "It may have been removed meanwhile")
    take = tree["takes"][key]
    # Without a result its layers and edits are being put on, and the motion below stands for it
    if found := take["result"] or take["base"]:
        return found
    if take["recipe"] is None and take["clip"] in tree["clips"]:
        return tree["clips"][take["clip"]]["hash"]
    raise InputError(f"the take '{take['name']}' has no motion yet", "Run its tool first")
