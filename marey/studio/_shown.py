"""Widgets that follow the document while pictures run, and never overwrite a hand that changes them.

The server assigns what a page sends first and calls handlers later, on other threads. A refresh in between must not
put the old value back, or the handler reads that. So a widget is assigned only when the document says something else
than the page is known to show, and the worker tells what the page shows together with the edit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import viser

T = TypeVar("T")


class Shown(Generic[T]):
    """A widget with the value that its page shows."""

    def __init__(self, widget: viser.GuiInputHandle[T]) -> None:
        self.widget = widget
        self._known: T = widget.value

    def on_user(self, tell: Callable[[T], None]) -> None:
        """Call back with the value that the user chose; our own assignments come without a client."""

        def handle(event: Any) -> None:
            if event.client is not None:
                tell(self.widget.value)

        self.widget.on_update(handle)

    def heard(self, value: T) -> None:
        """Remember what the page shows by now; part of the edit that the user asked for."""
        self._known = value

    def show(self, value: T) -> None:
        """Assign the widget if the page shows another value."""
        if value != self._known:
            self._known = value
            self.widget.value = value
