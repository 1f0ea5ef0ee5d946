"""One page: reads its messages, answers each or says in words why not, and sends what the project tells.

A drag or live session is a channel with a thread of its own, which answers the newest position only. The viewport also
asks what no tool answers: the world, the skin of a character, the sequence of strips.

A page can be wrong, slow or hostile. Messages that cannot be read are counted, and too many close the socket; messages
that come too fast wait; a page that does not read what it is sent is let go, and finds everything again when it comes
back.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from marey.base import InputError
from marey.picture import describe_world
from marey.pipeline.recipes import format_toml
from marey.pipeline.takes import play_strips
from marey.pipeline.tools import DragAnswer, DragSession, Tool, ToolContext, ToolResult
from marey.studio import protocol
from marey.studio.project import MotionArchive
from marey.studio.protocol import DragPhase, cut_blocks, decode_frame, encode_frame, make_header
from marey.studio.schema import Tree, check_plain
from marey.studio.web.hub import StudioHub
from marey.studio.worker import RunContext, describe_motion, explain, find_tool
from marey.world import parse_sketch

STEP_S: Final = 1.0 / 60.0  # of a live session
IDLE_S: Final = 600.0  # [s] after which a channel that nobody uses ends
MOST_MALFORMED: Final = 100  # messages, before the socket is closed
RATE_HZ: Final = 500.0  # messages; more wait in the socket
BURST: Final = 1000
MOST_QUEUED_BYTES: Final = 64 << 20  # that a page has not taken yet
MOST_QUESTIONS: Final = 16  # asked and wanted at the same time
MOST_CHANNELS: Final = 4
HELLO_S: Final = 10.0  # [s] in which a page must say hello


class ChannelListener(NamedTuple):
    """What a channel tells; called from its thread."""

    answer: Callable[[int, dict[str, Any], dict[str, Any]], None]  # number, arrays, facts
    finish: Callable[[ToolResult, Tree], None]
    fail: Callable[[Exception], None]


class Channel:
    """One drag between pointer-down and pointer-up, or one live session."""

    def __init__(self, tool: Tool, context: ToolContext, settings: Tree, listener: ChannelListener) -> None:
        self.tool, self.settings = tool, settings
        self._context, self._listener = context, listener
        self._change = threading.Condition()
        self._newest: tuple[int, Tree] | None = None
        self._end: Tree | None = None
        self.is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"marey-{tool.id}", daemon=True)
        self._thread.start()

    def post(self, phase: DragPhase, n: int, args: Tree) -> None:
        """Leave a position of the pointer, or the end; returns at once."""
        with self._change:
            if phase == "end":
                self._end = args
            elif self.tool.kind == "live" and self._newest is not None:
                # Its arguments hold only what changes: none may be lost
                self._newest = (n, {**self._newest[1], **args})
            else:
                self._newest = (n, args)
            self._change.notify()

    def close(self) -> None:
        """Forget the channel: what it would have made is not kept."""
        with self._change:
            self.is_closed = True
            self._change.notify()

    def _run(self) -> None:
        try:
            session: DragSession = self.tool.run(self._context, self.settings)
            if self.tool.kind == "live":
                # A live session runs by the clock, whatever the page asks
                step, begin_s = 0, time.monotonic()
                heard_s = begin_s
                while not self.is_closed and self._end is None and time.monotonic() - heard_s < IDLE_S:
                    args: Tree = {}
                    with self._change:
                        if self._newest is not None:
                            (_, args), self._newest = self._newest, None
                            heard_s = time.monotonic()
                    self._tell(step, session.move(args))
                    step += 1
                    late_s = time.monotonic() - begin_s - step * STEP_S
                    if late_s > 0.25:
                        # A session that cannot keep up runs slower; it does not catch up in a burst
                        begin_s += late_s
                    with self._change:
                        self._change.wait_for(lambda: self.is_closed or self._end is not None, max(0.0, -late_s))
            else:
                self._run_drag(session)
            if self._end is not None and not self.is_closed:
                self._listener.finish(session.end(self._end), {**self.settings, **self._end})
        except Exception as error:  # told to the user by the session
            if not self.is_closed:
                self._listener.fail(error)
        self.is_closed = True

    def _run_drag(self, session: DragSession) -> None:
        while True:
            with self._change:
                is_awake = self._change.wait_for(
                    lambda: self._newest is not None or self._end is not None or self.is_closed, IDLE_S
                )
                if self.is_closed or self._end is not None or not is_awake:
                    return
                assert self._newest is not None
                (n, args), self._newest = self._newest, None
            self._tell(n, session.move(args))

    def _tell(self, n: int, answer: DragAnswer) -> None:
        if not self.is_closed:
            self._listener.answer(n, arrays_to_wire(answer.arrays), {**answer.facts})


def arrays_to_wire(arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Arrays of a tool as pages read them: rotations with the scalar last."""
    found = {name: np.asarray(array) for name, array in arrays.items()}
    turned = {name: array for name, array in found.items() if name.endswith("rotations") and array.shape[-1:] == (4,)}
    return found | {name: np.roll(array, -1, axis=-1) for name, array in turned.items()}


View = tuple[Any, dict[str, Any]]  # value and arrays of the answer


def show_scenery(context: RunContext, store: MotionArchive, args: Tree) -> View:
    """Triangles of the sketch or world of the project, joined; each thing says where its own begin."""
    vertices: list[Any] = [np.zeros((0, 3))]
    faces: list[Any] = [np.zeros((0, 3), np.int32)]
    things: list[Tree] = []
    tree = context.project["sketch"] or context.project["world"]
    for thing in describe_world(parse_sketch(format_toml(tree), file="sketch"), np.asarray) if tree else ():
        corners = np.reshape(thing["faces"], (-1, 3)).astype(np.int32)
        first_vertex, first_face = sum(map(len, vertices)), sum(map(len, faces))
        places = {"first_vertex": first_vertex, "vertices": len(thing["vertices"])}
        places |= {"first_face": first_face, "faces": len(corners)}
        things.append({"colour": thing["colour"], "opacity": thing["opacity"], **places})
        vertices.append(thing["vertices"])
        faces.append(corners + first_vertex)
    return things, {"vertices": np.concatenate(vertices), "faces": np.concatenate(faces)}


def show_mesh(context: RunContext, store: MotionArchive, args: Tree) -> View:
    """Mesh and skin of a character: vertices, faces, carriers, weights, inverse_bind (J, 4, 4) by columns, colours."""
    character = context.project["characters"].get(args.get("character"))
    if character is None or character["mesh"] is None:
        raise InputError("this character has no skin", "Import a file with a mesh")
    arrays = dict(store.get_arrays(character["mesh"]))
    return {"name": character["name"]}, arrays | {"inverse_bind": np.swapaxes(arrays["inverse_bind"], 1, 2)}


def show_sequence(context: RunContext, store: MotionArchive, args: Tree) -> View:
    """Hash of the motion that the strips of the timeline make, to be played."""
    strips = context.project["timeline"]["strips"]
    if not strips:
        raise InputError("there are no strips", "Put a take on the timeline first")
    return {"hash": store.put(play_strips(context.motion, strips))}, {}


VIEWS: Final[dict[str, Callable[[RunContext, MotionArchive, Tree], View]]] = {
    "scenery": show_scenery,
    "mesh": show_mesh,
    "sequence": show_sequence,
}


class PageSession:
    """One socket."""

    def __init__(
        self, socket: WebSocket, hub: StudioHub, *, is_known: bool, is_token: Callable[[str | None], bool]
    ) -> None:
        self._socket, self._hub = socket, hub
        self._is_known, self._is_token = is_known, is_token
        self._has_greeted = False
        self._out: deque[bytes] = deque()
        self._queued = 0
        self._change = asyncio.Event()
        self._space = asyncio.Event()
        self._is_over = False
        self._num_malformed = 0
        self._num_questions = 0
        self._channels: dict[str, Channel] = {}
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Serve the page until it leaves."""
        writer = asyncio.create_task(self._write())
        try:
            if await asyncio.wait_for(self._read(until_greeted=True), HELLO_S):
                await self._read()
            # What was said last, such as why the page must go, is still sent
            while self._queued:
                self._space.clear()
                await asyncio.wait_for(self._space.wait(), 1.0)
        except (WebSocketDisconnect, TimeoutError, RuntimeError):
            pass
        finally:
            self._is_over = True
            self._hub.listeners.discard(self.post)
            for channel in self._channels.values():
                channel.close()
            writer.cancel()
            if self._socket.application_state is not WebSocketState.DISCONNECTED:
                with contextlib.suppress(Exception):
                    await self._socket.close(1008)

    # Sending

    def post(self, frame: bytes) -> None:
        """Send a frame when the ones before it are through; a page that is too slow is let go."""
        if self._is_over:
            return
        self._out.append(frame)
        self._queued += len(frame)
        self._change.set()
        if self._queued > 4 * MOST_QUEUED_BYTES:
            self._is_over = True
            self._out.clear()
            self._change.set()

    def send(self, message: protocol.ServerMessage) -> None:
        """Send a message to this page alone."""
        self.post(encode_frame(message))

    def refuse(self, error: BaseException, key: str = "") -> None:
        """Say why something was not done."""
        told = explain(error)
        self.send(protocol.RefusedMessage(key, told["sentence"], told["fix"]))

    async def _write(self) -> None:
        while not self._is_over:
            await self._change.wait()
            self._change.clear()
            while self._out:
                frame = self._out.popleft()
                try:
                    await self._socket.send_bytes(frame)
                except (WebSocketDisconnect, RuntimeError, OSError):
                    self._is_over = True
                    return
                self._queued -= len(frame)
                self._space.set()
        with contextlib.suppress(Exception):
            await self._socket.close(1013)

    # Reading

    async def _read(self, *, until_greeted: bool = False) -> bool:
        """Follow messages until the greeting or the end; return whether the page may stay."""
        allowance, last_s = float(BURST), time.monotonic()
        while not self._is_over and not (until_greeted and self._has_greeted):
            packet = await self._socket.receive()
            if packet["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(packet.get("code", 1000))
            now_s = time.monotonic()
            allowance = min(float(BURST), allowance + (now_s - last_s) * RATE_HZ) - 1.0
            last_s = now_s
            if allowance < 0.0:
                await asyncio.sleep(-allowance / RATE_HZ)
            try:
                data = packet.get("bytes")
                if data is None:
                    raise InputError("a text where a binary message should be", "Reload the page")
                message = decode_frame(data)
                if not self._has_greeted and not isinstance(message, protocol.HelloMessage):
                    raise InputError("the first message is not hello", "Reload the page")
            except InputError as error:
                self._num_malformed += 1
                self.refuse(error)
                if self._num_malformed > MOST_MALFORMED:
                    return False
                continue
            if not await self._obey(message):
                return False
        return not self._is_over

    async def _obey(self, message: protocol.ClientMessage) -> bool:
        """Follow one message; return whether the page may stay."""
        key = getattr(message, "id", "") or getattr(message, "channel", "")
        try:
            match message:
                case protocol.HelloMessage():
                    if not (self._is_known or self._is_token(message.token)):
                        what, fix = "the token is not that of this studio", "Open the address that it printed"
                        self.send(protocol.RefusedMessage("", what, fix))
                        return False
                    if message.version != protocol.VERSION:
                        what = f"this page speaks version {message.version}, the studio version {protocol.VERSION}"
                        self.refuse(InputError(what, "Reload the page"))
                        return False
                    self._is_known = self._has_greeted = True
                    self.send(self._hub.welcome())
                    self._hub.listeners.add(self.post)
                    return True
                case protocol.CommandMessage():
                    self._hub.run(message.name, message.args, self.post, message.id)
                case protocol.UndoMessage():
                    project = self._hub.project
                    self._hub.publish(project.redo() if message.redo else project.undo())
                case protocol.StartMessage():
                    self._hub.start(message)
                case protocol.CancelMessage():
                    self._hub.pool.cancel(message.job)
                case protocol.DragMessage():
                    self._steer(message)
                case protocol.WantMessage():
                    key = message.hash
                    await self._question(self._give_clip(message), key)
                case protocol.AskMessage():
                    await self._question(self._answer(message), key)
                case _:
                    raise AssertionError(f"nobody follows a {type(message).__name__}")
        except Exception as error:  # also a fault of ours must not end the page
            self.refuse(error, key)
        return True

    # Questions

    async def _question(self, work: Any, key: str) -> None:
        """Answer beside everything else; the page waits when it asks too much at a time, or does not read."""
        while self._num_questions >= MOST_QUESTIONS or self._queued > MOST_QUEUED_BYTES:
            self._space.clear()
            await self._space.wait()
            if self._is_over:
                work.close()
                return
        self._num_questions += 1

        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # told to the page
                self.refuse(error, key)
            finally:
                self._num_questions -= 1
                self._space.set()

        self._hub.spawn(guarded())

    async def _give_clip(self, message: protocol.WantMessage) -> None:
        store = self._hub.project.store
        if message.count == 0:
            self.post(await self._hub.in_thread("clip", make_header, store, message.hash))
            return
        blocks = cut_blocks(store, message.hash, message.first, message.count)

        def cut() -> protocol.BlockMessage | None:
            return next(blocks, None)

        while (block := await self._hub.in_thread("clip", cut)) is not None and not self._is_over:
            self.send(block)
            # A long take is sent as fast as the page takes it
            while self._queued > MOST_QUEUED_BYTES // 4 and not self._is_over:
                await asyncio.sleep(0.01)

    async def _answer(self, message: protocol.AskMessage) -> None:
        check_plain(message.args, "the question")
        if (view := VIEWS.get(message.what)) is not None:
            hub = self._hub
            value, arrays = await hub.in_thread("ask", view, hub.context(), hub.project.store, message.args)
            self.send(protocol.AnswerMessage(message.id, value, arrays))
            return
        tool = find_tool(message.what, "ask")
        settings = tool.check(message.args)
        result: ToolResult = await self._hub.in_thread("ask", tool.run, self._hub.context(), settings)
        answer: Tree = {"table": list(result.table), "text": result.text, "report": dict(result.report)}
        made = ([result.motion] if result.motion else []) + list(result.motions.values())
        if made:
            store = self._hub.project.store
            described = [await self._hub.in_thread("ask", describe_motion, motion, store) for motion in made]
            answer |= self._hub.add_clips(described, label=tool.title)
        self.send(protocol.AnswerMessage(message.id, answer, arrays_to_wire(result.arrays)))

    # Drags and live sessions

    def _steer(self, message: protocol.DragMessage) -> None:
        check_plain(message.args, "the drag", most_values=20_000)
        key = message.channel
        channel = self._channels.get(key)
        if message.phase == "begin":
            tool = find_tool(message.tool, "drag", "live")
            if channel is not None:
                channel.close()
            self._channels = {key: one for key, one in self._channels.items() if not one.is_closed}
            if len(self._channels) >= MOST_CHANNELS:
                raise InputError(f"{MOST_CHANNELS} drags at a time", "End one of them first")

            def keep(result: ToolResult, settings: Tree) -> None:
                try:
                    self._hub.keep_drag(tool, result, settings)
                except Exception as error:  # told to the page
                    self.refuse(error, key)

            def answer(n: int, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
                # Of a live session only the newest is worth sending to a page that lags; a drag waits for its answer
                if tool.kind == "drag" or self._queued < MOST_QUEUED_BYTES // 64:
                    self.send(protocol.FrameMessage(key, n, arrays, facts))

            def fail(error: Exception) -> None:
                self.refuse(error, key)

            listener = ChannelListener(*(partial(self._call, act) for act in (answer, keep, fail)))
            self._channels[key] = Channel(tool, self._hub.context(), tool.check(message.args), listener)
        elif channel is None or channel.is_closed:
            raise InputError("a drag that has not begun, or has ended", "Press the pointer again")
        elif message.phase == "end" and message.args.get("cancel") is True:
            channel.close()
        else:
            channel.post(message.phase, message.n, message.args)

    def _call(self, act: Callable[..., None], *args: Any) -> None:
        """Run something in the event loop, from a thread; nothing when the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *args)
