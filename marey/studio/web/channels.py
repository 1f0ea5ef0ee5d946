"""Drags and live sessions: one thread each, which answers the newest position only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.pipeline.sessions import DragAnswer, DragSession
from marey.pipeline.tools import Tool, ToolContext, ToolResult
from marey.studio.project.patches import Tree
from marey.studio.protocol.messages import DragPhase

STEP_S: Final = 1.0 / 60.0  # of a live session
IDLE_S: Final = 600.0  # [s] after which a channel that nobody uses ends


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
