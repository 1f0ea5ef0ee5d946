"""One page: reads its messages, answers each or says in words why not, and sends what the project tells.

A page can be wrong, slow or hostile. Messages that cannot be read are counted, and too many close the socket; messages
that come too fast wait; a page that does not read what it is sent is let go, and finds everything again when it comes
back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from marey.base import InputError
from marey.pipeline.tools import ToolResult
from marey.studio.jobs.context import find_tool
from marey.studio.jobs.worker import describe_motion, explain
from marey.studio.project.patches import Tree, check_plain
from marey.studio.protocol import messages
from marey.studio.protocol.clips import cut_blocks, make_header
from marey.studio.protocol.framing import decode_frame, encode_frame
from marey.studio.web.channels import Channel, ChannelListener, arrays_to_wire
from marey.studio.web.hub import StudioHub
from marey.studio.web.views import VIEWS

MOST_MALFORMED: Final = 100  # messages, before the socket is closed
RATE_HZ: Final = 500.0  # messages; more wait in the socket
BURST: Final = 1000
MOST_QUEUED_BYTES: Final = 64 << 20  # that a page has not taken yet
MOST_QUESTIONS: Final = 16  # asked and wanted at the same time
MOST_CHANNELS: Final = 4
HELLO_S: Final = 10.0  # [s] in which a page must say hello


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
            self._hub.listeners.discard(self)
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

    def send(self, message: messages.ServerMessage) -> None:
        """Send a message to this page alone."""
        self.post(encode_frame(message))

    def refuse(self, error: BaseException, key: str = "") -> None:
        """Say why something was not done."""
        told = explain(error)
        self.send(messages.RefusedMessage(key, told["sentence"], told["fix"]))

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
                if not self._has_greeted and not isinstance(message, messages.HelloMessage):
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

    async def _obey(self, message: messages.ClientMessage) -> bool:
        """Follow one message; return whether the page may stay."""
        key = getattr(message, "id", "") or getattr(message, "channel", "")
        try:
            match message:
                case messages.HelloMessage():
                    if not (self._is_known or self._is_token(message.token)):
                        what, fix = "the token is not that of this studio", "Open the address that it printed"
                        self.send(messages.RefusedMessage("", what, fix))
                        return False
                    if message.version != messages.VERSION:
                        what = f"this page speaks version {message.version}, the studio version {messages.VERSION}"
                        self.refuse(InputError(what, "Reload the page"))
                        return False
                    self._is_known = self._has_greeted = True
                    self.send(self._hub.welcome())
                    self._hub.listeners.add(self)
                    return True
                case messages.CommandMessage():
                    self._hub.run(message.name, message.args, self, message.id)
                case messages.UndoMessage():
                    project = self._hub.project
                    self._hub.change(project.redo if message.redo else project.undo)
                case messages.StartMessage():
                    self._hub.start(message)
                case messages.CancelMessage():
                    self._hub.pool.cancel(message.job)
                case messages.DragMessage():
                    self._steer(message)
                case messages.WantMessage():
                    key = message.hash
                    await self._question(self._give_clip(message), key)
                case messages.AskMessage():
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

    async def _give_clip(self, message: messages.WantMessage) -> None:
        store = self._hub.project.store
        if message.count == 0:
            self.post(await self._hub.in_thread("clip", make_header, store, message.hash))
            return
        blocks = cut_blocks(store, message.hash, message.first, message.count)

        def cut() -> messages.BlockMessage | None:
            return next(blocks, None)

        while (block := await self._hub.in_thread("clip", cut)) is not None and not self._is_over:
            self.send(block)
            # A long take is sent as fast as the page takes it
            while self._queued > MOST_QUEUED_BYTES // 4 and not self._is_over:
                await asyncio.sleep(0.01)

    async def _answer(self, message: messages.AskMessage) -> None:
        check_plain(message.args, "the question")
        if (view := VIEWS.get(message.what)) is not None:
            hub = self._hub
            value, arrays = await hub.in_thread("ask", view, hub.context(), hub.project.store, message.args)
            self.send(messages.AnswerMessage(message.id, value, arrays))
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
        self.send(messages.AnswerMessage(message.id, answer, arrays_to_wire(result.arrays)))

    # Drags and live sessions

    def _steer(self, message: messages.DragMessage) -> None:
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
                    self.send(messages.FrameMessage(key, n, arrays, facts))

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
