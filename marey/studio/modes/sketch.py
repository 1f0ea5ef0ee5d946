"""The Sketch tab and its window: draw a path and what lies on it, press Synthesise, watch the solutions come, play."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import viser

from marey.base import InputError
from marey.studio.document.page import PageDocument
from marey.studio.document.shelf import safe_name
from marey.studio.document.sketch.editor import LOOKS, SketchEditor
from marey.studio.document.sketch.synthesis import SynthesisJob, SynthesisOrder
from marey.studio.modes.progress import box_html, list_results, progress_html, state_html
from marey.studio.modes.sketch_controls import (
    EngineGroup,
    ItemGroup,
    ObjectsGroup,
    PathGroup,
    only_from_user,
    set_visible,
)

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.pipeline import SynthesisResult
    from marey.studio.server.session import Session


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
        # Choose among clips that are compared
        labels = tuple(draft.pair)
        label = document.label
        set_visible(self.which, bool(labels))
        if not labels:
            return
        if tuple(self.which.options) != labels:
            self.which.options = labels
        if label in labels and self.which.value != label:
            self.which.value = label


HELP_HTML: Final = box_html(
    "help",
    "<b>Ctrl-click</b> the ground to put a way-point, or what is chosen below, there. Click a mark or a thing to "
    "select it, then drag its arrows. Plain drags turn the camera.",
)
OPEN: Final = "open one ..."
EXPORTS: Final = {"GLB": ".glb", "BVH": ".bvh", "Clip": ".safetensors", "Film strip": ".png"}
MAX_TOML: Final = 1_000_000  # bytes of a sketch


class SketchPanel:
    """Commands and widgets of the Sketch tab; the session's worker runs what is short, a thread what is long."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        from marey.samples import sketch_names

        self._session = session
        self._clicks = count()
        self._start = gui.add_button("Draw here", icon=viser.Icon.PENCIL)
        self._back = gui.add_button("Back to the clip", icon=viser.Icon.MOVIE, visible=False)
        self._shipped = gui.add_dropdown("Example", options=(OPEN, *sketch_names()))
        self._state = gui.add_html(state_html(None))
        self._go = gui.add_button("Synthesise", icon=viser.Icon.PLAYER_PLAY, color="blue")
        self._compare = gui.add_button("Compare k = 1 and k = 2", icon=viser.Icon.ARROWS_DIFF)
        self._stop = gui.add_button("Stop, keep the best", icon=viser.Icon.HAND_STOP, color="orange", visible=False)
        self._keep = gui.add_button_group("Download", options=tuple(EXPORTS), visible=False)
        with gui.add_folder("Draw"):
            gui.add_html(HELP_HTML)
            self._things = ObjectsGroup(gui, self._tell)
        with gui.add_folder("Selected"):
            self._item = ItemGroup(gui, self._tell)
        with gui.add_folder("Way"):
            self._way = PathGroup(gui, self._tell)
        with gui.add_folder("Engine", expand_by_default=False):
            self._wish = EngineGroup(gui, self._tell)
            self._own = gui.add_upload_button("Use my motion graph", icon=viser.Icon.UPLOAD)
        with gui.add_folder("File and view", expand_by_default=False):
            self._upload = gui.add_upload_button("Upload a sketch (TOML)", icon=viser.Icon.UPLOAD)
            self._save = gui.add_button("Download the sketch (TOML)", icon=viser.Icon.DOWNLOAD)
            self._looks = {what: gui.add_checkbox(f"Show {what.lower()}", True) for what in LOOKS}
        self._window = ResultWindow(gui, session.open)
        self._groups = (self._way, self._things, self._item, self._wish)
        self._connect(gui)
        if session.document.draft is not None and session.document.draft.synthesis is not None:
            session.document.draft.synthesis.listen(self._hear)  # the page was loaded again

    def refresh(self, document: PageDocument) -> None:
        """Show what is drawn and how it goes."""
        draft = document.draft
        is_drawn = document.active_sketch is not None
        set_visible(self._start, not is_drawn)
        set_visible(self._back, is_drawn and document.film is not None)
        self._state.content = state_html(draft)
        self._window.refresh(document)
        if draft is None:
            return
        for group in self._groups:
            group.refresh(draft)
        for what, box in self._looks.items():
            box.value = draft.shown[what]
        set_visible(self._keep, document.label in draft.clips and not is_drawn)
        is_busy = draft.synthesis is not None and draft.synthesis.is_running
        set_visible(self._go, not is_busy)
        set_visible(self._compare, not is_busy)
        set_visible(self._stop, is_busy)

    def close(self) -> None:
        """The page is closed; a running search continues for a page that reconnects."""
        draft = self._session.document.draft
        if draft is not None and draft.synthesis is not None:
            draft.synthesis.listen(None)

    def click_ground(self, event: Any) -> None:
        """A ray from the camera: its intersection with the ground becomes a way-point."""
        if self._session.document.active_sketch is None:
            return
        origin, ray = np.array(event.ray_origin, dtype=np.float64), np.array(event.ray_direction, dtype=np.float64)
        self._session.post(f"sketch click {next(self._clicks) % 100}", lambda: self._go_on(origin, ray))

    def click_item(self, label: str) -> None:
        """Select the clicked mark or object."""
        if self._session.document.active_sketch is not None:
            self._tell("select", lambda draft: draft.select(label))

    def drag(self, label: str, x: float, z: float, is_new: bool) -> None:
        """The handle was dragged."""
        self._tell("drag new" if is_new else "drag", lambda draft: draft.move(label, x, z, is_new=is_new))

    def _connect(self, gui: viser.GuiApi) -> None:
        self._start.on_click(self._when("start", self._begin))
        self._back.on_click(self._when("back", self._end))
        self._shipped.on_update(only_from_user(self._open_shipped))
        self._upload.on_upload(only_from_user(self._open_upload))
        self._own.on_upload(only_from_user(self._open_graph))
        self._save.on_click(self._when("save", self._send_toml))
        self._go.on_click(self._when("go", lambda: self._synthesise(compare=False)))
        self._compare.on_click(self._when("go", lambda: self._synthesise(compare=True)))
        self._stop.on_click(self._when("stop", self._halt))
        self._keep.on_click(self._when("keep", lambda: self._send_motion(self._keep.value)))
        for what, box in self._looks.items():
            box.on_update(only_from_user(partial(self._look, what)))
        remove = gui.add_command("Remove what is selected in the sketch", hotkey="delete")
        remove.on_trigger(lambda _: self._only_drawing("remove", lambda draft: draft.remove(draft.selected)))
        undo = gui.add_command("Undo in the sketch", hotkey="U")
        undo.on_trigger(lambda _: self._only_drawing("undo", SketchEditor.undo))

    def _only_drawing(self, key: str, edit: Callable[[SketchEditor], None]) -> None:
        """A key that was pressed; it means the sketch only while it is drawn."""
        if self._session.document.active_sketch is not None:
            self._tell(key, edit)

    def _tell(self, key: str, edit: Callable[[SketchEditor], None]) -> None:
        self._session.post(f"sketch {key}", lambda: edit(self._need()))

    def _when(self, key: str, job: Callable[[], None]) -> Callable[[Any], None]:
        """A handler that leaves the job with the worker; our own assignments come without a client."""
        return lambda event: self._session.post(f"sketch {key}", job) if event.client is not None else None

    def _need(self) -> SketchEditor:
        """The draft; the first edit begins one."""
        document = self._session.document
        if document.draft is None:
            document.draft = SketchEditor()
            self._step_in(document.draft)
        return document.draft

    def _begin(self) -> None:
        self._step_in(self._need())

    def _step_in(self, draft: SketchEditor) -> None:
        """Leave the stage to the sketch."""
        document = self._session.document
        document.playing, draft.is_open = False, True
        if document.walk is not None:
            document.walk.is_on = False
        if document.arena is not None:
            document.arena.is_on = False
        self._session.frame_body()

    def _end(self) -> None:
        self._need().is_open = False
        self._session.frame_body()

    def _go_on(self, origin: np.ndarray[Any, np.dtype[np.float64]], ray: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        if not (np.isfinite(origin).all() and np.isfinite(ray).all()) or not origin[1] * ray[1] < 0.0:
            raise InputError("that is not on the ground", "Click below the horizon")
        x, _, z = origin - origin[1] / ray[1] * ray
        self._need().click((float(x), float(z)))

    def _look(self, what: str) -> None:
        on = bool(self._looks[what].value)
        self._tell(f"look {what}", lambda draft: draft.shown.update({what: on}))

    def _open_shipped(self) -> None:
        from marey.samples import sketch_file
        from marey.world import load_sketch

        name = self._shipped.value
        if name != OPEN:
            self._session.post("sketch open", lambda: self._take(lambda: load_sketch(sketch_file(name))))
            self._shipped.value = OPEN

    def _open_upload(self) -> None:
        from marey.world import parse_sketch

        name, content = self._upload.value.name, self._upload.value.content

        def read() -> Any:
            if len(content) > MAX_TOML:
                raise InputError(f"'{safe_name(name)}' is too large for a sketch", "Sketches are TOML text")
            try:
                return parse_sketch(content.decode("utf-8"), file=safe_name(name))
            except UnicodeDecodeError:
                raise InputError(f"'{safe_name(name)}' is no text", "Sketches are TOML in UTF-8") from None

        self._session.post("sketch open", lambda: self._take(read))

    def _take(self, read: Callable[[], Any]) -> None:
        """Read before anything changes: a bad file harms nothing."""
        sketch = read()
        draft = self._need()
        draft.open(sketch)
        self._step_in(draft)

    def _open_graph(self) -> None:
        name, content = self._own.value.name, self._own.value.content
        self._session.post("sketch graph", lambda: self._take_graph(name, content))

    def _take_graph(self, name: str, content: bytes) -> None:
        from marey.graph import load_graph

        draft = self._need()
        draft.graph = load_graph(self._session.keep_file(name, content))
        draft.graph_label = safe_name(name)

    def _send_toml(self) -> None:
        from marey.world import sketch_to_toml

        drawn = self._need().drawn
        self._session.send_bytes(f"{drawn.name}.toml", sketch_to_toml(drawn.sketch()).encode())

    def _send_motion(self, kind: str) -> None:
        document = self._session.document
        if document.film is None or document.draft is None or document.label not in document.draft.clips:
            raise InputError("no motion of this sketch is open", "Press 'Synthesise' first")
        self._session.send(document.film.motion, Path(document.label).stem + EXPORTS.get(kind, ".glb"))

    def _synthesise(self, *, compare: bool) -> None:
        draft = self._need()
        if draft.synthesis is not None and draft.synthesis.is_running:
            raise InputError("a motion is being made already", "Stop it, or wait")
        engine = "graph" if compare else draft.engine
        blends = (1, 2) if compare else (draft.k,)
        order = SynthesisOrder(draft.drawn.sketch(), engine, blends, draft.budget_s, draft.graph)
        draft.synthesis = SynthesisJob(order, self._hear)

    def _halt(self) -> None:
        synthesis = self._need().synthesis
        if synthesis is not None:
            synthesis.stop()

    def _hear(self) -> None:
        """Something is new; called from the synthesis's thread."""
        self._session.post("sketch heard", self._take_end)

    def _take_end(self) -> None:
        """Open what was made, once."""
        synthesis = self._need().synthesis
        if synthesis is None or synthesis.is_running or synthesis.is_told:
            return
        synthesis.is_told = True
        self._need().pair = {}
        for result, k in list_results(synthesis):
            if result.motion is not None:
                self._show(result, result.motion, k)
        if synthesis.error is not None:
            raise synthesis.error

    def _show(self, result: SynthesisResult, motion: Motion, k: int) -> None:
        draft, document = self._need(), self._session.document
        blends = f", k = {k}" if result.search is not None else ""
        self._session.open_motion(f"{draft.drawn.name} ({result.engine}{blends})", motion)
        draft.clips.add(document.label)
        if document.film is not None and len(draft.synthesis.order.blends if draft.synthesis else ()) > 1:
            draft.pair[document.label] = document.film
        document.playing = True
        self._session.frame_body()
