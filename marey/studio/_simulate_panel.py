"""The Simulate tab: a figure that obeys physics; grab it, push it, throw balls at it, and let it stand or follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np
import viser

from marey.base import FloatArray, InputError, MareyError
from marey.studio._document import PageDocument
from marey.studio._simulate import SimulationDocument
from marey.studio._simulate_controls import ControllerGroup, LooksGroup, PushGroup, SimulationEdit
from marey.studio._simulate_figure import FigureFactory
from marey.studio._simulate_plots import SimulationPlots
from marey.studio._simulate_wish import SimulationSettings
from marey.studio._sketch_controls import only_from_user, set_visible

if TYPE_CHECKING:
    from marey.studio._session import Session

EXPORTS: Final = {"GLB": ".glb", "BVH": ".bvh", "Motion": ".safetensors"}
HELP_HTML: Final = (
    '<div style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.5;opacity:0.75">'
    "<b>Drag the body</b> to pull it; drag beside it to turn the camera. <b>Y</b> pushes, <b>T</b> throws a ball, "
    "<b>P</b> pauses, <b>N</b> makes one step.</div>"
)


class SimulationPanel:
    """Commands and widgets of the Simulate tab; the session's worker runs them."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        self._session = session
        self._clicks = count()
        self._start = gui.add_button("Simulate this figure", icon=viser.Icon.ATOM)
        self._back = gui.add_button("Back to the clip", icon=viser.Icon.MOVIE, visible=False)
        self._state = gui.add_html(state_html(None))
        self._time = gui.add_button_group("Time", options=tuple(_TIME))
        self._again = gui.add_button_group("Start again", options=tuple(_AGAIN))
        help_text = gui.add_html(HELP_HTML)
        with gui.add_folder("Figure") as figure:
            self._will = ControllerGroup(gui, self._tell)
        with gui.add_folder("Push and throw") as push:
            self._pushes = PushGroup(gui, self._tell_each)
        with gui.add_folder("Take") as take:
            self._record = gui.add_button("Record", icon=viser.Icon.PLAYER_RECORD)
            self._keep = gui.add_button_group("Keep it as", options=("Clip", *EXPORTS))
        with gui.add_folder("Plots") as plots:
            self._plots = SimulationPlots(gui)
        with gui.add_folder("Draw", expand_by_default=False) as draw:
            self._looks = LooksGroup(gui, self._tell)
        self._of_figure = (self._back, self._time, self._again, help_text, figure, push, take, plots, draw)
        self._connect(gui)
        if session.document.arena is not None:  # the page was loaded again: nobody holds the figure
            session.document.arena.release()

    def refresh(self, document: PageDocument) -> None:
        """Show how it goes."""
        arena, is_on = document.arena, document.active_simulation is not None
        set_visible(self._start, not is_on)
        for widget in self._of_figure:
            set_visible(widget, is_on)
        self._state.content = state_html(arena)
        if arena is None:
            return
        for group in (self._will, self._pushes, self._looks, self._plots):
            group.refresh(arena)
        label = "Stop recording" if arena.is_recording else "Record"
        if self._record.label != label:
            self._record.label = label

    def grab_body(self, phase: str, joint: int, place: FloatArray) -> None:
        """The mouse drags a part of the body; the newest place wins."""
        if self._session.document.active_simulation is None:
            return
        if phase == "start":
            self._tell("grab", lambda arena: arena.grab(joint, place))
        elif phase == "update":
            self._tell("pull", lambda arena: arena.pull(place))
        else:
            self._tell("release", SimulationDocument.release)

    def _connect(self, gui: viser.GuiApi) -> None:
        self._start.on_click(only_from_user(lambda: self._session.post("simulate start", self._begin)))
        self._back.on_click(only_from_user(lambda: self._tell("back", self._end)))
        self._time.on_click(only_from_user(lambda: self._tell_each("time", _TIME[self._time.value])))
        self._again.on_click(only_from_user(lambda: self._tell("again", _AGAIN[self._again.value])))
        self._record.on_click(only_from_user(lambda: self._tell_each("record", SimulationDocument.toggle_record)))
        self._keep.on_click(only_from_user(lambda: self._tell("keep", partial(self._keep_take, self._keep.value))))
        gui.add_command("Push the figure", hotkey="Y").on_trigger(lambda _: self._only_acting(self._pushes.push))
        gui.add_command("Throw a ball", hotkey="T").on_trigger(lambda _: self._only_acting(self._pushes.throw))

    def _only_acting(self, act: Callable[[SimulationEdit], None]) -> None:
        """A key that was pressed; it means the figure only while it is simulated."""
        if self._session.document.active_simulation is not None:
            act(self._tell_each)

    def _tell_each(self, key: str, edit: Callable[[SimulationDocument], None]) -> None:
        """Every press counts, so each has a key of its own with the worker."""
        self._tell(f"{key} {next(self._clicks) % 100}", edit)

    def _tell(self, key: str, edit: Callable[[SimulationDocument], None]) -> None:
        self._session.post(f"simulate {key}", lambda: edit(self._need()))

    def _begin(self) -> None:
        document = self._session.document
        if document.film is None:
            raise InputError("no clip is open", "Open one first")
        self._state.content = _box_html("<div>Preparing the figure; the first time takes a while.</div>")
        self._session.flush()
        motion, last = document.film.motion, document.arena
        figures = last.figures if last is not None and last.figures.motion is motion else FigureFactory(motion)
        arena = (
            make_first_simulation(figures, document.index)
            if last is None
            else SimulationDocument(figures, document.index, last.wish)
        )
        document.playing, document.arena = False, arena
        if document.walk is not None:
            document.walk.is_on = False
        if document.draft is not None:
            document.draft.is_open = False
        self._session.frame_body()

    def _end(self, arena: SimulationDocument) -> None:
        arena.is_on = False
        self._session.frame_body()

    def _need(self) -> SimulationDocument:
        arena = self._session.document.active_simulation
        if arena is None:
            raise InputError("nothing is simulated", "Press 'Simulate this figure' first")
        return arena

    def _keep_take(self, kind: str, arena: SimulationDocument) -> None:
        """Open the take in the Play tab, or send it as a file."""
        motion = arena.finished_take()
        if kind in EXPORTS:
            self._session.send(motion, f"simulated{EXPORTS[kind]}")
        else:
            self._session.open_motion(f"{self._session.document.label}, simulated", motion)


def make_first_simulation(figures: FigureFactory, frame: int) -> SimulationDocument:
    """A figure that stands; one without feet is let go."""
    try:
        return SimulationDocument(figures, frame, SimulationSettings(will="balance"))
    except MareyError:
        return SimulationDocument(figures, frame, SimulationSettings(will="free"))


def _restart(arena: SimulationDocument, *, is_standing: bool) -> None:
    arena.start(is_standing=is_standing)
    arena.is_running = True


def _go_or_pause(arena: SimulationDocument) -> None:
    arena.is_running = not arena.is_running


_TIME: Final = {"Go or pause": _go_or_pause, "One step": SimulationDocument.single_step}
_AGAIN: Final = {"This frame": partial(_restart, is_standing=False), "Standing": partial(_restart, is_standing=True)}


def state_html(arena: SimulationDocument | None) -> str:
    """Time, pace, what bears the figure, what it wants."""
    if arena is None:
        return _box_html("<div>Press 'Simulate this figure' and pull the body with the mouse.</div>")
    return _box_html("".join(f"<div>{escape(line)}</div>" for line in state_lines(arena)))


def _box_html(text: str) -> str:
    return f'<div data-testid="simulate" style="padding:0.2em 0.8em;font-size:0.85em;line-height:1.45">{text}</div>'


def state_lines(arena: SimulationDocument) -> list[str]:
    """What is told of the figure, line by line."""
    simulator, is_full = arena.simulator, arena.wish.is_full
    space = "all joints" if is_full else f"{simulator.num_dof - 6} modes"
    lines = [
        f"{arena.wish.will}: {arena.time_s:.2f} s{'' if arena.is_running else ', paused'}",
        f"{arena.pace:.2f}x real time, {arena.step_ms:.1f} ms a step, {space}",
    ]
    lines += [arena.will.words] if arena.will.words else []
    if arena.hand is not None:
        lines.append(f"held at {arena.clip.skeleton.names[arena.hand.joint]}{_pull(arena)}")
    if arena.take is not None:
        lines.append(f"{'Recording' if arena.is_recording else 'Take'}: {arena.take.seconds:.1f} s")
    return lines + arena.remarks[:2]


def _pull(arena: SimulationDocument) -> str:
    """How hard a hand pulls; where it sets a goal, it does not."""
    if arena.will.takes_goals or not arena.pulls:
        return ""
    return f", {float(np.linalg.norm(arena.pulls[0].force_n)):.0f} N"
