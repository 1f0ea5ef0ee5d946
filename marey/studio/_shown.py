"""Widgets that follow the document while pictures run, and never overwrite a hand that changes them.

The server assigns what a page sends first and calls handlers later, on other threads. A refresh in between must not
put the old value back, or the handler reads that. So a widget is assigned only when the document says something else
than the page is known to show, and the worker tells what the page shows together with the edit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import viser

MAX_STALE_REFRESHES: Final = 15  # pictures in which an edit is on its way; later it must have been refused
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
        self.on_user(make_handler(tell, key, self.heard, act))

    def heard(self, value: T) -> None:
        """Remember what the page shows by now; part of the edit that the user asked for."""
        self._known = value

    def show(self, value: T) -> None:
        """Assign the widget if the page shows another value, or shows one for long that nobody told us of."""
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
