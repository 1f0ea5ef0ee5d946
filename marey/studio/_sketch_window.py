"""The window beside the Sketch tab: how the search goes, what was made, and which of two clips is on the stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import viser

from marey.studio._document import PageDocument
from marey.studio._sketch_controls import only_from_user, set_visible
from marey.studio._sketch_words import progress_html

WIDE_PX: Final = 340
PLACE_PX: Final = (15, 105)  # from the left and from the top of the page: under notices, and the body is in the middle


class ResultWindow:
    """Seen once something was asked for; it floats, and can be moved or folded."""

    def __init__(self, gui: viser.GuiApi, show: Callable[[str], None]) -> None:
        self._panel = gui.add_panel(visible=False)
        options: list[str] = ["none"]
        with self._panel.add_tab("Result"):
            self.progress = gui.add_html(progress_html(None))
            self.which = gui.add_dropdown("On the stage", options=options, visible=False)
        self._panel.float(x=PLACE_PX[0], y=PLACE_PX[1], width=WIDE_PX)
        self.which.on_update(only_from_user(lambda: show(self.which.value)))

    def refresh(self, document: PageDocument) -> None:
        """Follow the synthesis of the draft."""
        draft = document.draft
        synthesis = None if draft is None else draft.synthesis
        is_seen = synthesis is not None and document.live is None
        set_visible(self._panel, is_seen)
        if draft is None or synthesis is None:
            return
        content = progress_html(synthesis)
        if self.progress.content != content:
            self.progress.content = content
        self._offer(tuple(draft.pair), document.label)

    def _offer(self, labels: tuple[str, ...], label: str) -> None:
        """Choose among clips that are compared."""
        set_visible(self.which, bool(labels))
        if not labels:
            return
        if tuple(self.which.options) != labels:
            self.which.options = labels
        if label in labels and self.which.value != label:
            self.which.value = label
