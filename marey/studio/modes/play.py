"""The panels of the page. Each owns its widgets, leaves commands with the session and holds no mathematics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import viser

from marey.studio.document.page import SPEEDS, PageDocument
from marey.studio.view.widgets import SyncedWidget, contact_bars

if TYPE_CHECKING:
    from marey.studio.server.session import Session


EXPORTS = {"BVH": ".bvh", "GLB": ".glb", "Clip": ".safetensors", "Film strip": ".png"}


class Panel(Protocol):
    """Interface of a panel."""

    def refresh(self, document: PageDocument) -> None:
        """Show what the document says."""
        ...


class ClipPanel:
    """Choose a clip, bring your own, read what was noticed about it."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        with gui.add_folder("Clip"):
            self._picker = gui.add_dropdown("Open", options=session.shelf.labels, initial_value=session.document.label)
            self._upload = gui.add_upload_button("Upload a file", icon=viser.Icon.UPLOAD)
            self._facts = gui.add_html("")
        self._shown = SyncedWidget(self._picker)
        self._shown.on_user(self._open)
        self._upload.on_upload(_from_user(lambda: session.upload(self._upload.value.name, self._upload.value.content)))
        self._session = session

    def refresh(self, document: PageDocument) -> None:
        """Refresh the list of clips and describe the open one."""
        if self._picker.options != self._session.shelf.labels:
            self._picker.options = self._session.shelf.labels
        self._shown.show(document.label)
        self._facts.content = _facts(document)

    def _open(self, label: str) -> None:
        self._shown.acknowledge(label)  # where the clip cannot be read, the picker goes back
        self._session.open(label)


class TimelinePanel:
    """The playhead: play, pause, step, speed, and where the feet are down."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        panel = gui.add_panel()
        with panel.add_tab("Timeline"):
            self._bars = gui.add_html("")
            self._slider = gui.add_slider("Frame", min=0, max=1, step=1, initial_value=0)
            self._play = gui.add_button("Play", icon=viser.Icon.PLAYER_PLAY)
            self._speed = gui.add_button_group("Speed", options=[f"{s:g}x" for s in SPEEDS])
            self._clock = gui.add_html("")
        panel.float(x=20, y=-20, width=640)
        self._slider.on_update(_from_user(lambda: session.seek(float(self._slider.value))))
        self._play.on_click(_from_user(lambda: session.toggle_play()))
        self._speed.on_click(_from_user(lambda: session.set_speed(float(self._speed.value.rstrip("x")))))
        self._add_keys(gui, session)
        self._panel = panel
        self._is_small = False
        self._film: object = None
        self._report: object = None

    def _add_keys(self, gui: viser.GuiApi, session: Session) -> None:
        gui.add_command("Play or pause", hotkey="P").on_trigger(lambda _: session.toggle_play())
        gui.add_command("Next frame", hotkey="N").on_trigger(lambda _: session.step(1))
        gui.add_command("Previous frame", hotkey="B").on_trigger(lambda _: session.step(-1))

    def refresh(self, document: PageDocument) -> None:
        """Follow the playhead; the bars change only with the clip."""
        film = document.film
        if (document.active_mode is not None or document.active_sketch is not None) != self._is_small:
            self._is_small = not self._is_small
            (self._panel.minimize if self._is_small else self._panel.expand)()
        if film is not None and (film is not self._film or document.report is not self._report):
            self._film, self._report = film, document.report
            self._slider.max = max(film.num_frames - 1, 1)
            spans = () if document.report is None else document.report.spans
            self._bars.content = contact_bars(film.contact_names, film.contacts, spans)
        self._slider.value = document.index
        is_playing = document.playing if document.active_mode is None else document.active_mode.is_running
        label = "Pause" if is_playing else "Play"
        if self._play.label != label:
            self._play.label = label
            self._play.icon = viser.Icon.PLAYER_PAUSE if is_playing else viser.Icon.PLAYER_PLAY
        if film is not None:
            self._clock.content = _clock(document)


class ShowPanel:
    """What is drawn, and from where."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        with gui.add_folder("Show"):
            self._boxes = {
                w: SyncedWidget(gui.add_checkbox(w, initial_value=on)) for w, on in session.document.shown.items()
            }
            for what, box in self._boxes.items():
                box.on_user(partial(session.show, what))
            frame = gui.add_button("Frame the body", icon=viser.Icon.FOCUS_CENTERED)
            frame.on_click(_from_user(lambda: session.frame_body()))

    def refresh(self, document: PageDocument) -> None:
        """Tick what is shown."""
        for what, box in self._boxes.items():
            box.show(document.shown[what])


class ExportPanel:
    """Take the clip home."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        with gui.add_folder("Export"):
            for label, suffix in EXPORTS.items():
                button = gui.add_button(label, icon=viser.Icon.DOWNLOAD)
                button.on_click(_from_user(partial(session.export, suffix)))

    def refresh(self, document: PageDocument) -> None:
        """Nothing here depends on the document."""


def _from_user(handler: Callable[[], None]) -> Callable[[Any], None]:
    """Ignore events that our own assignments cause: they come without a client."""

    def handle(event: Any) -> None:
        if event.client is not None:
            handler()

    return handle


def _clock(document: PageDocument) -> str:
    film = document.film
    if film is None:
        return ""
    now, end = document.frame / film.motion.rate_hz, film.motion.duration_s
    return f'<div data-testid="clock" style="padding:0 0.8em">{now:.2f} s of {end:.2f} s, {document.speed:g}x</div>'


def _facts(document: PageDocument) -> str:
    film = document.film
    if film is None:
        return ""
    motion = film.motion
    report = motion.load_report
    head = f"{motion.skeleton.num_joints} joints, {motion.num_frames} frames, {motion.rate_hz:g} Hz"
    rows = [f"<div>{escape(head)}</div>"]
    rows += [f'<div style="color:#b45309">⚠ {escape(text)}</div>' for text in report.warnings[:4]]
    rows += [f'<div style="opacity:0.65">{escape(text)}</div>' for text in report.notes[:3]]
    return f'<div data-testid="facts" style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.4">{"".join(rows)}</div>'
