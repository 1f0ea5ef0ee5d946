"""Parts that several modes show: widgets that follow the document, handles to drag, bars over the timeline.

A widget never overwrites a hand that changes it.

The server assigns what a page sends first and calls handlers later, on other threads. A refresh in between must not
put the old value back, or the handler reads that. So a widget is assigned only when the document says something else
than the page is known to show, and the worker sends the shown value together with the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any, Final, Generic, TypeVar

import numpy as np
import viser

from marey.base import BoolArray, FloatArray
from marey.dynamics import ValiditySpan
from marey.motion import find_runs

MAX_STALE_REFRESHES: Final = 15  # frames until an edit without confirmation counts as refused
T = TypeVar("T")
D = TypeVar("D")  # what is edited
Edit = Callable[[D], None]
EditListener = Callable[[str, Edit[D]], None]  # a key, under which the newest wins, and the edit


class SyncedWidget(Generic[T]):
    """A widget with the value that its page shows."""

    def __init__(self, widget: viser.GuiInputHandle[T]) -> None:
        self.widget = widget
        self._known: T = widget.value
        self._apart = 0  # pictures since widget and document disagree

    def on_user(self, tell: Callable[[T], None]) -> None:
        """Call back with the value that the user chose; our own assignments come without a client."""

        def handle(event: Any) -> None:
            if event.client is not None:
                tell(self.widget.value)

        self.widget.on_update(handle)

    def bind(self, tell: EditListener[D], key: str, act: Callable[[D, T], None]) -> None:
        """Have an edit made with what the user chose."""
        self.on_user(make_handler(tell, key, self.acknowledge, act))

    def acknowledge(self, value: T) -> None:
        """Remember what the page shows by now; part of the edit that the user asked for."""
        self._known = value

    def show(self, value: T) -> None:
        """Assign the widget if the page shows another value, or an unconfirmed one for long."""
        self._apart = self._apart + 1 if self.widget.value != value else 0
        if value != self._known or self._apart >= MAX_STALE_REFRESHES:
            self._known, self._apart = value, 0
            self.widget.value = value


def make_handler(
    tell: EditListener[D], key: str, heard: Callable[[T], None], act: Callable[[D, T], None]
) -> Callable[[T], None]:
    """A handler that has an edit made; when it is made, the page shows what the user chose."""

    def handle(value: T) -> None:
        def edit(edited: D) -> None:
            heard(value)
            act(edited, value)

        tell(key, edit)

    return handle


DragListener = Callable[[str, FloatArray, bool], None]  # handle, place [m], whether the drag begins
ReleaseListener = Callable[[], None]
SCALE = 0.22  # [m] arm of a handle


class DragHandles:
    """Owns the handles; reports where they are dragged, and places them at their targets."""

    def __init__(self, scene: viser.SceneApi, dragged: DragListener, released: ReleaseListener) -> None:
        self._scene, self._dragged, self._released = scene, dragged, released
        self._handles: dict[str, viser.TransformControlsHandle] = {}
        self._held: str | None = None
        self._begins = True

    def show(self, goals: Mapping[str, FloatArray]) -> None:
        """Place a handle at every goal; the one in the user's hand is left there."""
        for name, place in goals.items():
            if name not in self._handles:
                self._handles[name] = self._add(name, place)
            elif name != self._held:
                self._handles[name].position = place

    def clear(self) -> None:
        """Take all handles away."""
        for handle in self._handles.values():
            handle.remove()
        self._handles, self._held = {}, None

    def _add(self, name: str, place: FloatArray) -> viser.TransformControlsHandle:
        handle = self._scene.add_transform_controls(
            f"/stage/goals/{name}", scale=SCALE, disable_rotations=True, depth_test=False, position=place
        )
        handle.on_update(partial(self._report_drag, name))
        return handle

    def _report_drag(self, name: str, event: Any) -> None:
        if event.phase == "start":
            self._held, self._begins = name, True
        elif event.phase == "update":
            self._dragged(name, np.array(event.target.position, dtype=np.float64), self._begins)
            self._begins = False
        else:
            self._held = None
            self._released()


ROW_PX = 9
# The slider's track is inset by its label on the left and its number box on the right; measured on viser 1.1.1.
INSET_LEFT_PX, INSET_RIGHT_PX = 116, 63
COLOURS = {"left": "#d67e60", "right": "#5c84be"}
VALID = {"green": "#2f9e5b", "amber": "#d99a1c", "red": "#cc3b3b"}


def contact_bars(names: tuple[str, ...], active: BoolArray, spans: tuple[ValiditySpan, ...] = ()) -> str:
    """An SVG with one row a contact point that is ever active; a bar where it touches.

    The stretches of a validity check, if there are any, are the first row.
    """
    frames = max(len(active) - 1, 1)
    rows = [k for k in range(len(names)) if active[:, k].any()]
    first = 1 if spans else 0
    parts = [_span(span) for span in spans]
    parts += [_row(names[k], active[:, k], r) for r, k in enumerate(rows, start=first)]
    height = ROW_PX * max(len(rows) + first, 1)
    box = f"margin:6px {INSET_RIGHT_PX}px 0 {INSET_LEFT_PX}px"
    return (
        f'<div data-testid="bars" style="{box}"><svg viewBox="0 0 {frames} {height}" width="100%" height="{height}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg></div>'
    )


def _span(span: ValiditySpan) -> str:
    size = f'x="{span.start}" y="0" width="{len(span)}" height="{ROW_PX - 2}"'
    return f'<rect {size} fill="{VALID[span.status]}"><title>{escape(span.words)}</title></rect>'


def _row(name: str, active: BoolArray, row: int) -> str:
    colour = COLOURS.get(name.split("_")[0], "#888888")
    opacity = 0.9 if name.endswith("heel") else 0.55
    bars = [
        f'<rect x="{a}" y="{row * ROW_PX}" width="{b - a}" height="{ROW_PX - 2}" fill="{colour}" opacity="{opacity}"/>'
        for a, b in find_runs(active)
    ]
    return f"<g><title>{escape(name)}</title>{''.join(bars)}</g>"
