"""The Simulate tab: a figure that obeys physics; grab it, push it, throw balls at it, and let it stand or follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np
import viser
from viser import uplot

from marey.base import FloatArray, InputError, MareyError
from marey.dynamics import GRAVITY
from marey.studio.document.page import PageDocument
from marey.studio.document.simulate.arena import SHOWN, SimulationDocument
from marey.studio.document.simulate.figure import (
    BALL_KG,
    BALL_M_S,
    CONTROLLERS,
    DIRECTION_DEG,
    FEET,
    FLAGS,
    ON_FEET,
    PARTS,
    PUSH_N,
    PUSH_S,
    RANGES,
    RISE_DEG,
    FigureFactory,
    SimulationSettings,
)
from marey.studio.document.simulate.recording import ANGULAR, ENERGY, LINEAR, SupportState
from marey.studio.modes.sketch_controls import only_from_user, set_visible
from marey.studio.modes.walk import SliderField
from marey.studio.view.widgets import SyncedWidget, make_handler

if TYPE_CHECKING:
    from marey.studio.server.session import Session


EVERY: Final = 6  # pictures from one plot to the next: five a second are smooth enough to read
COLOURS: Final = ("#2f9e5b", "#5c84be", "#d67e60")
AXES: Final = ("x", "y", "z")
SIDE_M: Final = 0.8  # of the ground that the view from above shows, more under a wide support
SIDE_PX: Final = 150


class SimulationPlots:
    """Owns its widgets; redrawn at a low rate."""

    def __init__(self, gui: viser.GuiApi) -> None:
        self._energy = _plot(gui, "Energy [J]", ("kinetic", "potential", "total"))
        self._linear = _plot(gui, "Momentum [kg m/s]", AXES)
        self._angular = _plot(gui, "Angular momentum [kg m²/s]", AXES)
        self._above = gui.add_html("")
        self._waited = EVERY
        self._shown_s: float = -1.0

    def refresh(self, arena: SimulationDocument) -> None:
        """Follow the simulation; at rest, only what changed is sent."""
        self._waited += 1
        if (self._waited < EVERY and arena.is_running) or arena.time_s == self._shown_s:
            return
        self._waited, self._shown_s = 0, arena.time_s
        table = arena.trace.table()
        for plot, part in ((self._energy, ENERGY), (self._linear, LINEAR), (self._angular, ANGULAR)):
            plot.data = (np.ascontiguousarray(table[:, 0]), *(np.ascontiguousarray(c) for c in table[:, part].T))
        self._above.content = support_svg(arena.standing())


def _plot(gui: viser.GuiApi, title: str, names: tuple[str, ...]) -> viser.GuiUplotHandle:
    curves = (uplot.Series(label=n, stroke=c, width=1.5) for n, c in zip(names, COLOURS, strict=True))
    nothing = tuple(np.zeros(2) for _ in range(4))
    scales, legend = {"x": uplot.Scale(time=False)}, uplot.Legend(show=True, live=False)
    series = (uplot.Series(label="s"), *curves)
    return gui.add_uplot(nothing, series, title=title, scales=scales, legend=legend, aspect=2.0)


def support_svg(stand: SupportState) -> str:
    """The support and the centre of mass on the ground, seen from above, ahead upwards, left on the left."""
    low, high = (f(stand.corners, axis=0) if len(stand.corners) else stand.foot for f in (np.min, np.max))
    middle, side_m = 0.5 * (low + high), max(SIDE_M, 1.2 * float((high - low)[[0, 2]].max()))
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in _pixels(stand.corners, middle, side_m))
    (x, y), *_ = _pixels(stand.foot[None], middle, side_m)
    x, y = (min(max(value, 4.0), SIDE_PX - 4.0) for value in (x, y))
    is_inside = stand.margin_m is not None and stand.margin_m > 0.0
    colour = "#2f9e5b" if is_inside else "#cc3b3b"
    words = "in the air" if stand.margin_m is None else f"{100 * stand.margin_m:+.1f} cm from the edge"
    return (
        f'<div data-testid="above" style="padding:0.3em 0.8em;font-size:0.8em">Support from above, {words}'
        f'<svg viewBox="0 0 {SIDE_PX} {SIDE_PX}" width="{SIDE_PX}" height="{SIDE_PX}" role="img" '
        f'aria-label="support polygon and centre of mass" style="display:block;border:1px solid #ccc">'
        f'<polygon points="{outline}" fill="#469670" opacity="0.45" stroke="#2f6b50"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/></svg></div>'
    )


def _pixels(places: FloatArray, middle: FloatArray, side_m: float) -> list[tuple[float, float]]:
    """+X is to the left, +Z ahead."""
    scale = SIDE_PX / side_m
    half = 0.5 * SIDE_PX
    return [(half - scale * (p[0] - middle[0]), half - scale * (p[2] - middle[2])) for p in places.tolist()]


SimulationEdit = Callable[
    [str, Callable[[SimulationDocument], None]], None
]  # a key, under which the newest wins, and the edit
LABELS: Final = {  # slider -> label, step, hint
    "alpha": ("Alpha", 0.01, "of a puppet: 0 obeys physics alone, 1 the hand alone"),
    "stiffness_per_s": ("Stiffness [1/s]", 0.5, "with which a puppet and a standing figure keep their pose"),
    "pull_n_m": ("Pull [N/m]", 50.0, "of the hand's spring"),
    "damping_per_s": ("Damping [1/s]", 0.1, "of all motion inside the figure"),
    "modes": ("Dimension", 1.0, "modes of the pose space that the clip teaches"),
    "gravity_m_s2": ("Gravity [m/s²]", 0.01, f"{GRAVITY:g} on earth, 1.62 on the moon"),
    "slope_deg": ("Slope [°]", 0.5, "of the ground, rising ahead"),
}
CHECKBOXES: Final = {
    "is_full": ("All joints move", "the full space instead of modes"),
    "has_limits": ("Joint limits of the clip", "with half a radian of room"),
    "is_reaching": ("Reach for the hand", "the figure follows the hand by internal forces instead of being pulled"),
}

RELEVANT_MODES: Final = {  # wills to which a widget means something, where it is not all of them
    "alpha": ("puppet",),
    "stiffness_per_s": ("puppet", *ON_FEET),
    "pull_n_m": ("free", *ON_FEET),
    "has_limits": ("free", "puppet"),
    "is_reaching": ON_FEET,
    "feet": ("balance",),
}


class ControllerGroup:
    """Mode of the figure, and all sliders."""

    def __init__(self, gui: viser.GuiApi, tell: SimulationEdit) -> None:
        self.will = SyncedWidget(gui.add_dropdown("The figure is", options=CONTROLLERS))
        self.feet = SyncedWidget(gui.add_dropdown("Stands on", options=FEET, hint="when it is balancing"))
        start = SimulationSettings()
        self.fields = {what: self._add(gui, what, start) for what in LABELS}
        self.ticks = {
            what: SyncedWidget(gui.add_checkbox(label, bool(getattr(start, what)), hint=hint))
            for what, (label, hint) in CHECKBOXES.items()
        }
        assert set(self.ticks) == set(FLAGS) and set(self.fields) == set(RANGES)
        self._widgets = {"feet": self.feet.widget} | {what: field.slider for what, field in self.fields.items()}
        self._widgets |= {what: box.widget for what, box in self.ticks.items()}
        self.will.bind(tell, "will", SimulationDocument.choose)
        self.feet.bind(tell, "feet", SimulationDocument.stand_on)
        for what, field in self.fields.items():
            field.on_user(make_handler(tell, what, field.acknowledge, _setting_edit(what)))
        for what, box in self.ticks.items():
            box.bind(tell, what, _setting_edit(what))

    def refresh(self, arena: SimulationDocument) -> None:
        """Show what was asked for, and what means something to this will."""
        wish, most = arena.wish, arena.figures.num_modes
        if most is not None and self.fields["modes"].slider.max != most:
            self.fields["modes"].slider.max = most
        self.will.show(wish.will)
        self.feet.show(wish.feet)
        for what, field in self.fields.items():
            field.show(min(wish.modes, most or wish.modes) if what == "modes" else getattr(wish, what))
        for what, box in self.ticks.items():
            box.show(getattr(wish, what))
        for what, widget in self._widgets.items():
            set_visible(
                widget, wish.will in RELEVANT_MODES.get(what, CONTROLLERS) and not (what == "modes" and wish.is_full)
            )

    def _add(self, gui: viser.GuiApi, what: str, start: SimulationSettings) -> SliderField:
        label, step, hint = LABELS[what]
        return SliderField(gui.add_slider(label, *RANGES[what], step, float(getattr(start, what)), hint=hint))


def _setting_edit(what: str) -> Callable[[SimulationDocument, float], None]:
    return lambda arena, value: arena.ask(what, value)


class PushGroup:
    """A push and a ball, with their direction and strength."""

    def __init__(self, gui: viser.GuiApi, tell: SimulationEdit) -> None:
        self.part = gui.add_dropdown("At the", options=tuple(PARTS))
        self.heading = gui.add_slider("Towards [°]", *DIRECTION_DEG, 5.0, 0.0, hint="0 ahead (+z), 90 to the left (+x)")
        self.rise = gui.add_slider("Rise [°]", *RISE_DEG, 5.0, 0.0, hint="90 is straight up; of the push alone")
        self.force = gui.add_slider("Strength [N]", *PUSH_N, 10.0, 200.0)
        self.duration = gui.add_slider("For [s]", *PUSH_S, 0.01, 0.1)
        self.push_button = gui.add_button("Push", icon=viser.Icon.HAND_CLICK)
        self.speed = gui.add_slider("Ball speed [m/s]", *BALL_M_S, 0.5, 8.0)
        self.mass = gui.add_slider("Ball mass [kg]", *BALL_KG, 0.1, 1.0)
        self.throw_button = gui.add_button("Throw a ball", icon=viser.Icon.BALL_BASKETBALL)
        self.push_button.on_click(only_from_user(lambda: self.push(tell)))
        self.throw_button.on_click(only_from_user(lambda: self.throw(tell)))

    def push(self, tell: SimulationEdit) -> None:
        """Push as the widgets say."""
        part, heading, rise = self.part.value, float(self.heading.value), float(self.rise.value)
        force, seconds = float(self.force.value), float(self.duration.value)
        tell("push", lambda arena: arena.push(part, heading, rise, force, seconds))

    def throw(self, tell: SimulationEdit) -> None:
        """Throw as the widgets say."""
        part, heading = self.part.value, float(self.heading.value)
        speed, mass = float(self.speed.value), float(self.mass.value)
        tell("throw", lambda arena: arena.throw(part, heading, speed, mass))

    def refresh(self, arena: SimulationDocument) -> None:
        """Nothing here depends on the arena."""


class LooksGroup:
    """What is drawn."""

    def __init__(self, gui: viser.GuiApi, tell: SimulationEdit) -> None:
        self.boxes = {what: SyncedWidget(gui.add_checkbox(f"Show {what.lower()}", on)) for what, on in SHOWN.items()}
        for what, box in self.boxes.items():
            box.bind(tell, f"show {what}", _visibility_edit(what))

    def refresh(self, arena: SimulationDocument) -> None:
        """Tick what is shown."""
        for what, box in self.boxes.items():
            box.show(arena.shown[what])


def _visibility_edit(what: str) -> Callable[[SimulationDocument, bool], None]:
    return lambda arena, on: arena.show(what, on)


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
    """A standing figure; a figure without feet is passive."""
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
    """Time, speed, support and mode of the figure."""
    if arena is None:
        return _box_html("<div>Press 'Simulate this figure' and pull the body with the mouse.</div>")
    return _box_html("".join(f"<div>{escape(line)}</div>" for line in state_lines(arena)))


def _box_html(text: str) -> str:
    return f'<div data-testid="simulate" style="padding:0.2em 0.8em;font-size:0.85em;line-height:1.45">{text}</div>'


def state_lines(arena: SimulationDocument) -> list[str]:
    """Status text of the figure, line by line."""
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
