"""The Pose tab: drag hands and feet, choose solver, limits and pose space, keep key frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import viser

from marey.base import FloatArray, InputError
from marey.kinematics import fill_in_betweens
from marey.studio.document.pose import METHODS, MODE_RANGE, NUM_MODES, PoseEditor
from marey.studio.view.widgets import DragHandles

if TYPE_CHECKING:
    from marey.studio.server.session import Session


LIMITS = ("none", "box of this clip", "cone of this clip")
SPACES = ("all joints", "pose space")
KEY_RATE_HZ = 30.0
LIMIT_MARGIN_RAD = 0.1  # room round what the clip shows


class PosePanel:
    """Commands and widgets of the Pose tab; the session's worker runs them."""

    def __init__(self, gui: viser.GuiApi, scene: viser.SceneApi, session: Session) -> None:
        self.desk: PoseEditor | None = None
        self._session = session
        self._gizmos = DragHandles(scene, self._drag, self._let_go)
        self._start = gui.add_button("Pose this frame", icon=viser.Icon.STRETCHING)
        self._stop = gui.add_button("Back to the clip", icon=viser.Icon.PLAYER_PLAY, disabled=True)
        self._method = gui.add_dropdown("Solver", options=METHODS)
        self._limits = gui.add_dropdown("Limits", options=LIMITS)
        self._space = gui.add_dropdown("Solve in", options=SPACES)
        self._report = gui.add_html("")
        with gui.add_folder("Pose space"):
            self._fit = gui.add_button("Fit pose space")
            self._modes = [
                gui.add_slider(f"Mode {i + 1}", -MODE_RANGE, MODE_RANGE, 0.05, 0.0, disabled=True)
                for i in range(NUM_MODES)
            ]
        with gui.add_folder("Key frames"):
            self._time = gui.add_number("Time [s]", 0.0, min=0.0, max=600.0, step=0.1)
            self._to = gui.add_number("Move to [s]", 0.0, min=0.0, max=600.0, step=0.1)
            keys = gui.add_button_group("Key", options=["Set", "Move", "Delete", "Show"])
            self._edit = gui.add_button_group("Edit", options=["Undo", "Redo"])
            self._make = gui.add_button("Make a clip of the keys", icon=viser.Icon.MOVIE)
            self._list = gui.add_html("")
        self._connect(keys)
        self._add_hotkeys(gui)

    def refresh(self) -> None:
        """Show what is on the desk."""
        desk = self.desk
        self._start.disabled, self._stop.disabled = desk is not None, desk is None
        if desk is None:
            self._gizmos.clear()
            return
        self._gizmos.show(desk.state.goals)
        self._report.content = _verdict(desk)
        times = ", ".join(f"{t:g} s" for t in desk.state.keys.times) or "none yet"
        self._list.content = f'<div data-testid="keys" style="padding:0 0.8em">Keys: {escape(times)}</div>'
        if desk.model is not None:
            for i, value in enumerate(desk.modes()[:NUM_MODES]):
                self._modes[i].disabled = False
                self._modes[i].value = float(min(max(round(value / 0.05) * 0.05, -MODE_RANGE), MODE_RANGE))

    def _connect(self, keys: viser.GuiButtonGroupHandle) -> None:
        self._start.on_click(self._later("start", self._begin))
        self._stop.on_click(self._later("stop", self._end))
        self._method.on_update(self._later("method", self._choose_method))
        self._limits.on_update(self._later("limits", self._choose_limits))
        self._space.on_update(self._later("space", self._choose_space))
        self._fit.on_click(self._later("fit", self._fit_model))
        for i, slider in enumerate(self._modes):
            slider.on_update(self._later(f"mode {i}", partial(self._set_mode, i)))
        keys.on_click(self._later("key", lambda: self._edit_keys(keys.value)))
        self._edit.on_click(self._later("edit", lambda: self._step(self._edit.value)))
        self._make.on_click(self._later("make", self._make_clip))

    def _add_hotkeys(self, gui: viser.GuiApi) -> None:
        undo = gui.add_command("Undo pose", hotkey="Z", modifier="cmd/ctrl")
        redo = gui.add_command("Redo pose", hotkey="Z", modifier="cmd/ctrl+shift")
        key = gui.add_command("Set key frame", hotkey="K", modifier="shift")
        undo.on_trigger(lambda _: self._post("edit", lambda: self._step("Undo")))
        redo.on_trigger(lambda _: self._post("edit", lambda: self._step("Redo")))
        key.on_trigger(lambda _: self._post("key", lambda: self._edit_keys("Set")))

    def _later(self, key: str, job: Callable[[], None]) -> Callable[[Any], None]:
        """A handler that leaves the job with the worker; our own assignments come without a client."""
        return lambda event: self._post(key, job) if event.client is not None else None

    def _post(self, key: str, job: Callable[[], None]) -> None:
        self._session.post(f"pose {key}", job)

    def _drag(self, handle: str, place: FloatArray, is_new: bool) -> None:
        self._post("drag", lambda: self._need().drag(handle, place, is_new=is_new))

    def _let_go(self) -> None:
        self._post("release", lambda: self._need().release())

    def _begin(self) -> None:
        film, document = self._session.document.film, self._session.document
        if film is None:
            raise InputError("no clip is open", "Open one first")
        document.playing = False
        desk = PoseEditor(film.motion[document.index])
        desk.warm_up()
        self.desk = desk

    def _end(self) -> None:
        self.desk = None

    def _choose_method(self) -> None:
        self._need().method = self._method.value

    def _choose_space(self) -> None:
        desk = self._need()
        if self._space.value == SPACES[1] and desk.model is None:
            self._fit_model()
        desk.is_reduced = self._space.value == SPACES[1]

    def _choose_limits(self) -> None:
        from marey.kinematics import BoxLimits, ConeLimits

        kinds = {LIMITS[1]: BoxLimits, LIMITS[2]: ConeLimits}
        kind = kinds.get(self._limits.value)
        film = self._session.document.film
        desk = self._need()
        desk.limits = None
        if kind is not None and film is not None:
            desk.limits = kind.from_clips([film.motion], margin_rad=LIMIT_MARGIN_RAD)

    def _fit_model(self) -> None:
        from marey.models import PGA

        film = self._session.document.film
        if film is None:
            raise InputError("no clip is open", "Open one first")
        self._need().model = PGA(explained=0.95).fit(film.motion)

    def _set_mode(self, number: int) -> None:
        self._need().set_mode(number, float(self._modes[number].value))

    def _edit_keys(self, what: str) -> None:
        desk, time_s = self._need(), float(self._time.value)
        edits = {
            "Set": partial(desk.set_key, time_s),
            "Move": partial(desk.move_key, time_s, float(self._to.value)),
            "Delete": partial(desk.delete_key, time_s),
            "Show": partial(desk.show_time, time_s),
        }
        edits[what]()

    def _step(self, what: str) -> None:
        desk = self._need()
        (desk.undo if what == "Undo" else desk.redo)()

    def _make_clip(self) -> None:
        desk = self._need()
        model = desk.model if desk.is_reduced else None
        motion = fill_in_betweens(desk.state.keys, KEY_RATE_HZ, model=model, limits=desk.limits).motion
        self.desk = None
        self._session.open_motion("keys", motion)

    def _need(self) -> PoseEditor:
        if self.desk is None:
            raise InputError("nothing is on the posing desk", "Press 'Pose this frame' first")
        return self.desk


def _verdict(desk: PoseEditor) -> str:
    result = desk.result
    if result is None:
        return '<div data-testid="ik" style="padding:0 0.8em">Drag a handle.</div>'
    text = f"{result.status.name.lower()}, {result.iterations} iterations, {1e3 * result.position_error_m:.1f} mm"
    return f'<div data-testid="ik" style="padding:0 0.8em">{escape(text)}</div>'
