"""One project and everybody who works on it: commands go to the document, changes to every page, runs to the workers.

Everything here happens in the event loop, so that commands have one order. What takes longer than a blink runs in a
thread or in a worker process, and comes back here.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import msgspec

from marey.base import InputError, MareyError, count_cores
from marey.pipeline import edit_motion
from marey.pipeline.tools import Tool, ToolResult
from marey.studio import commands, protocol
from marey.studio.commands import ProjectCommand
from marey.studio.job_pool import JobPool, StudioJob
from marey.studio.project import DocumentChange, Project
from marey.studio.protocol import encode_frame
from marey.studio.schema import CharacterEntry, ClipEntry, RecipeEntry, TakeEntry, Tree, check_plain
from marey.studio.worker import RunContext, describe_motion, explain, find_tool, list_tools, make_plain

FILES: Final = "files"  # folders of what jobs made for downloading, and of what was uploaded
UPLOADS: Final = "uploads"
THREADS: Final = {"clip": 3, "ask": 3, "edit": 1}
Answer = TypeVar("Answer")
Listener = Callable[[bytes], None]  # sends a frame to a page, when the ones before it are through


class StudioHub:
    """The project of one server."""

    def __init__(self, project: Project, *, workers: int | None = None) -> None:
        self.project = project
        self.listeners: set[Listener] = set()
        cores = max(1, min(4, count_cores() - 1)) if workers is None else workers
        self.pool = JobPool(lambda job: self.broadcast(job.describe()), self._finish_job, workers=cores)
        self.tasks: set[asyncio.Task[Any]] = set()
        # Apart, so that long questions do not keep a clip from being shown, nor either an edit from being made
        self.threads = {kind: ThreadPoolExecutor(count, f"marey-{kind}") for kind, count in THREADS.items()}
        self._edits: dict[str, Any] = {}  # take -> what its motion is being made from
        for name in (FILES, UPLOADS):
            shutil.rmtree(project.folder / name, ignore_errors=True)
        self._tools = tuple(tool.to_json() for tool in list_tools().values())

    # Pages

    def welcome(self) -> protocol.WelcomeMessage:
        """Everything that a page needs to begin, or to begin anew."""
        jobs = tuple(job.describe() for job in self.pool.jobs.values())
        project = self.project
        return protocol.WelcomeMessage(
            protocol.VERSION, project.seq, project.tree, self._tools, jobs, project.undo_label, project.redo_label
        )

    def broadcast(self, message: protocol.ServerMessage) -> None:
        """Send a message to every page."""
        frame = encode_frame(message)
        for listener in tuple(self.listeners):
            listener(frame)

    def spawn(self, work: Any) -> None:
        """Run a coroutine beside everything else, and keep it from being collected."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def in_thread(self, kind: str, act: Callable[..., Answer], *args: Any) -> Answer:
        """Run something in one of the threads of a kind."""
        return await asyncio.get_running_loop().run_in_executor(self.threads[kind], act, *args)

    async def close(self) -> None:
        """End the runs, and write the project."""
        for task in tuple(self.tasks):
            task.cancel()
        for pool in self.threads.values():
            pool.shutdown(wait=False, cancel_futures=True)
        await self.pool.close()
        self.project.close()

    # The document

    def run(self, name: str, args: Any, sender: Listener | None = None, message_id: str = "") -> None:
        """Carry out a command of a page."""
        self.publish(self.project.run(commands.read_command(name, args)), sender, message_id)

    def publish(self, change: DocumentChange | None, sender: Listener | None = None, message_id: str = "") -> None:
        """Tell every page of a change of the document, and make the motions whose layers or edits have changed."""
        if change is None:
            raise InputError("there is nothing to take back or to do again", "")
        undo, redo = self.project.undo_label, self.project.redo_label
        message = protocol.PatchMessage(change.seq, change.label, change.patches, undo, redo)
        others = encode_frame(message)
        own = encode_frame(msgspec.structs.replace(message, id=message_id)) if message_id else others
        for listener in tuple(self.listeners):
            listener(own if listener == sender else others)
        for key, take in self.project.tree["takes"].items():
            if take["result"] is None and take["base"] is not None:
                self._edit_take(key, take)

    def _edit_take(self, key: str, take: Tree) -> None:
        """Make the motion of a take with its layers and edits, in a thread; the newest state wins."""
        wanted = (take["base"], take["layers"], take["edits"])
        if self._edits.get(key) == wanted:
            return
        self._edits[key] = wanted

        def make() -> str:
            base, layers, edits = wanted
            return self.project.store.put(edit_motion(self.project.store.get(base), layers, edits))

        async def work() -> None:
            message = ""
            try:
                made = await self.in_thread("edit", make)
            except Exception as error:  # told to the user, who can undo it
                made, told = wanted[0], explain(error)
                message = f"{told['sentence']}. {told['fix']}"
                self.broadcast(protocol.ToastMessage("error", told["sentence"], told["fix"] or "Undo the last step"))
            if self._edits.get(key) != wanted:
                return
            del self._edits[key]
            now = self.project.tree["takes"].get(key)
            if now is not None and (now["base"], now["layers"], now["edits"]) == wanted and now["result"] is None:
                self.publish(self.project.amend(commands.SetEdited(key, made, message)))

        self.spawn(work())

    # Runs of tools

    def context(self, **how: Any) -> RunContext:
        """What a tool gets that runs in a thread of this process."""
        return RunContext(self.project.tree, self.project.store, self.project.folder / UPLOADS, **how)

    def start(self, message: protocol.StartMessage) -> StudioJob:
        """Begin a job."""
        tool = find_tool(message.tool)
        if not tool.has_recipe:
            raise InputError(f"'{tool.title}' is no job", "Use it with the pointer")
        check_plain(message.settings, "the settings")
        if message.take and message.take not in {**self.project.tree["takes"], **self.project.tree["clips"]}:
            raise InputError(f"the project has no take '{message.take}'", "Choose one of its takes")
        if message.into and message.into not in self.project.tree["takes"]:
            raise InputError(f"the project has no take '{message.into}'", "Choose one of its takes")
        if message.id in self.pool.jobs:
            raise InputError(f"there is a job '{message.id}'", "Give each start an id of its own")
        # Settings whose main input is the take that the page shows, where nothing else is said
        names = {parameter.name for parameter in tool.parameters}
        is_open = message.take and "motion" in names and not message.settings.get("motion")
        settings = tool.check({**message.settings, "motion": message.take} if is_open else dict(message.settings))
        key = message.id or secrets.token_hex(8)
        request = {
            "job": key if key.isalnum() else secrets.token_hex(8),  # names a folder
            "tool": tool.id,
            "settings": settings,
            "seed": message.seed,
            "project": self.project.tree,
            "folder": str(self.project.folder.absolute()),
        }
        job = StudioJob(key, tool.id, message.take, request, message.into)
        self.pool.submit(job)
        return job

    def _finish_job(self, job: StudioJob) -> None:
        """Put what a job gave into the document, and tell where its files are."""
        outcome = job.outcome or {}
        request = job.request
        try:
            tool = find_tool(job.tool)
            made = self.keep(tool, outcome, request["settings"], job.take, into=job.into, seed=request["seed"])
        except MareyError as error:
            told = explain(error)
            job.state, job.sentence, job.fix = "failed", told["sentence"], told["fix"]
            return
        folder = request["job"]
        files = [
            {"name": file["name"], "size": file["size"], "url": f"/api/export?job={folder}&file={number}"}
            for number, file in enumerate(outcome["files"])
        ]
        parts = {"files": files, "table": outcome["table"], "text": outcome["text"], "report": outcome["report"]}
        job.result = made | {name: part for name, part in parts.items() if part}

    def keep(self, tool: Tool, outcome: Tree, settings: Tree, take: str, *, into: str = "", seed: int = 0) -> Tree:
        """Put the motions of an outcome into the document, as one step; return the ids they have got."""
        motion, motions = outcome.get("motion"), list(outcome.get("motions", ()))
        if tool.id == "import":
            return self.add_clips(motions or ([motion] if motion else []))
        motions = [made for made in motions if motion is None or made["hash"] != motion["hash"]]
        if motion is None and not motions:
            return {}
        tree = self.project.tree
        inputs, others = tool.split(settings)
        recipe = RecipeEntry(tool.id, inputs, others, seed)
        if into and motion is not None:
            self.publish(self.project.run(commands.SetResult(into, motion["hash"], "fresh", recipe=recipe)))
            return {"take": into}
        entry = tree["takes"].get(take) or tree["clips"].get(take)
        base = "" if entry is None else entry.get("clip", take)
        characters = dict(tree["characters"])
        takes: dict[str, TakeEntry] = {}
        for made in [*([motion] if motion else []), *motions]:
            key = commands.new_id(tree, "takes", tuple(takes))
            name = f"{entry['name']} · {tool.title}" if entry and made is motion else made["name"]
            character = _find_character(characters, made)
            takes[key] = TakeEntry(name[:200], character, base, recipe, base=made["hash"], result=made["hash"])
        fresh = {key: one for key, one in characters.items() if key not in tree["characters"]}
        self.publish(self.project.run(commands.AddMotions(fresh, {}, takes), label=tool.title))
        return {"take": next(iter(takes)), "takes": list(takes)}

    def add_clips(self, motions: Sequence[Tree], *, label: str = "Import") -> Tree:
        """Put motions into the document as clips, each with a take; return the ids they have got."""
        tree = self.project.tree
        characters = dict(tree["characters"])
        clips: dict[str, ClipEntry] = {}
        takes: dict[str, TakeEntry] = {}
        for made in motions:
            key, take = commands.new_id(tree, "clips", tuple(clips)), commands.new_id(tree, "takes", tuple(takes))
            character = _find_character(characters, made)
            name = (made["name"] or "clip")[:200]
            facts = {part: made[part] for part in ("hash", "source", "frames", "rate_hz", "notes", "contacts")}
            clips[key] = ClipEntry(name=name, character=character, **facts)
            takes[take] = TakeEntry(name, character, key, base=made["hash"], result=made["hash"])
        if clips:
            fresh = {key: one for key, one in characters.items() if key not in tree["characters"]}
            self.publish(self.project.run(commands.AddMotions(fresh, clips, takes), label=label))
        return {"clips": list(clips), "takes": list(takes)}

    def keep_drag(self, tool: Tool, result: ToolResult, settings: Tree) -> None:
        """Make one step of what a drag or live session left: edit, layer, keys, world, a motion."""
        take = str(settings.get("motion") or settings.get("take") or "")
        report, steps = make_plain(result.report), list[ProjectCommand]()
        if "edit" in report:
            steps.append(commands.read_command("set_edit", {"take": take, "edit": report["edit"]}))
        if "layer" in report:
            count = len(self.project.tree["takes"].get(take, {}).get("layers", ()))
            layer = {"id": f"l{secrets.token_hex(4)}", "name": f"{tool.title} {count + 1}"} | report["layer"]
            steps.append(commands.read_command("add_layer", {"take": take, "layer": layer}))
        if "keys" in report:
            steps.append(commands.read_command("set_keys", {"take": take, **report["keys"]}))
        for root in {"world", "sketch"} & set(report):
            patch: Tree = {"path": (), "value": report[root]}
            steps.append(commands.read_command("edit_world", {"root": root, "patches": [patch]}))
        if steps:
            self.publish(self.project.run(steps, label=tool.title))
        elif result.motion is not None:
            outcome = {"motion": describe_motion(result.motion, self.project.store)}
            recipe = report.get("recipe", {})
            self.keep(tool, outcome, recipe.get("settings", dict(settings)), take, seed=recipe.get("seed", 0))


def _find_character(characters: dict[str, Any], made: Tree) -> str:
    """Id of the character with these joints and this skin; a new one is put among the others."""
    mesh = made.get("mesh")
    for key, known in characters.items():
        entry = msgspec.to_builtins(known)
        is_same = entry["joints"] == made["joints"] and entry["parents"] == made["parents"]
        if is_same and mesh in (None, entry["mesh"]):
            return key
    number = len(characters) + 1
    while (key := f"p{number}") in characters:
        number += 1
    name = str(made.get("skeleton") or made["name"] or "character")[:200]
    characters[key] = CharacterEntry(name, made["joints"], made["parents"], made["source"], mesh)
    return key
