"""The Muscle tab: soft bodies and their muscles; move sliders, drag goals and solve, see what a clip strains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Final

import viser

from marey.base import FloatArray, InputError
from marey.muscle import scene_names
from marey.studio.document.muscle.goals import EVERY_S, MAX_GOALS
from marey.studio.document.muscle.lab import FIRST, MAX_SPLINES, MuscleDocument
from marey.studio.document.muscle.scenes import FilmReplay, LiveScene
from marey.studio.document.page import PageDocument
from marey.studio.modes.sketch_controls import only_from_user, set_visible
from marey.studio.modes.walk import SliderField
from marey.studio.view.widgets import SyncedWidget, make_handler

if TYPE_CHECKING:
    from marey.studio.server.session import Session


MuscleEdit = Callable[[str, Callable[[MuscleDocument], None]], None]  # a key, under which the newest wins, and the edit


class SplineSliders:
    """One slider a spline; one that is moved takes its spline over from the programme."""

    def __init__(self, gui: viser.GuiApi, tell: MuscleEdit) -> None:
        self.bars = gui.add_html("")
        self.fields = [SliderField(gui.add_slider(f"Spline {i + 1}", 0.0, 1.0, 0.01, 0.0)) for i in range(MAX_SPLINES)]
        self._tell = tell
        for i, field in enumerate(self.fields):
            field.on_user(make_handler(tell, f"spline {i}", field.acknowledge, _hold_edit(i)))

    def refresh(self, lab: MuscleDocument) -> None:
        """Name the sliders of the scene, and show how active each spline is."""
        live = lab.live
        names = () if live is None else live.names
        for i, field in enumerate(self.fields):
            set_visible(field.slider, i < len(names))
            if live is not None and i < len(names):
                if field.slider.label != names[i]:
                    field.slider.label = names[i]
                field.show(live.held.get(names[i], 0.0))
        if live is not None and lab.act is live:
            self.bars.content = bars_html(live)


def _hold_edit(number: int) -> Callable[[MuscleDocument, float], None]:
    def act(lab: MuscleDocument, value: float) -> None:
        names = lab.need_live().names
        if number < len(names):
            lab.hold(names[number], value)

    return act


def bars_html(live: LiveScene) -> str:
    """Activation of each spline and its source."""
    rows = "".join(_bar(name, value, name in live.held) for name, value in live.activations().items())
    return f'<div data-testid="activations" style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.5">{rows}</div>'


def _bar(name: str, value: float, is_held: bool) -> str:
    colour = "#c1121f" if value >= 0.0 else "#2a6fbb"
    width = min(abs(value), 1.0)
    text = f"{name}: {value:.2f}, {'slider' if is_held else 'programme'}"
    return (
        f'<div><div>{escape(text)}</div><div style="background:#dcb9a666;height:0.4em;border-radius:0.2em">'
        f'<div style="background:{colour};height:100%;width:{width:.0%};border-radius:0.2em"></div></div></div>'
    )


class GoalGroup:
    """How many places the hand goes to, and how fast."""

    def __init__(self, gui: viser.GuiApi, tell: MuscleEdit) -> None:
        self.count = SliderField(gui.add_slider("Goals", 1.0, float(MAX_GOALS), 1.0, 1.0))
        self.every = SliderField(gui.add_slider("Every [s]", *EVERY_S, 0.05, 0.4))
        self.count.on_user(make_handler(tell, "goals", self.count.acknowledge, lambda lab, n: lab.goals.set_count(n)))
        self.every.on_user(make_handler(tell, "every", self.every.acknowledge, lambda lab, s: lab.goals.set_every(s)))

    def refresh(self, lab: MuscleDocument) -> None:
        """Show what was asked for."""
        self.count.show(float(lab.goals.count))
        self.every.show(lab.goals.every_s)


NUM_BUSIEST: Final = 4  # muscles of a clip that are named


class MusclePanel:
    """Commands and widgets of the Muscle tab; the session's worker runs them."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        self._session = session
        self._clicks = count()
        lab = session.document.lab
        first = FIRST if lab is None else lab.name
        self._pick = gui.add_dropdown("Scene", options=scene_names() if lab is None else lab.names, initial_value=first)
        self._shown = SyncedWidget(self._pick)
        self._start = gui.add_button("Show this scene", icon=viser.Icon.BARBELL)
        self._back = gui.add_button("Back to the clip", icon=viser.Icon.MOVIE, visible=False)
        self._state = gui.add_html(state_html(None))
        self._progress = gui.add_progress_bar(0.0, visible=False, animated=True)
        self._stop = gui.add_button("Stop", icon=viser.Icon.PLAYER_STOP, visible=False)
        self._time = gui.add_button_group("Time", options=tuple(_TIME))
        with gui.add_folder("Activations") as activations:
            self._sliders = SplineSliders(gui, self._tell)
            self._give = gui.add_button("Back to the programme", icon=viser.Icon.ROUTE)
        with gui.add_folder("Film") as film:
            self._film = gui.add_button_group("Play", options=("Live", "Replay", "Whole film"))
            self._export = gui.add_button("Export GLB", icon=viser.Icon.DOWNLOAD)
        with gui.add_folder("Reach"):
            self._arm = gui.add_button("Show the arm", icon=viser.Icon.HAND_STOP)
            self._aim = gui.add_button("Aim the scene", icon=viser.Icon.VIEWFINDER)
            self._goals = GoalGroup(gui, self._tell)
            self._solve = gui.add_button("Solve", icon=viser.Icon.TARGET_ARROW)
            self._found = gui.add_html("")
        with gui.add_folder("Whole body"):
            self._strain = gui.add_button("Muscles of the clip", icon=viser.Icon.WALK)
            self._bare = gui.add_button("Hide the muscles", icon=viser.Icon.EYE_OFF, visible=False)
            self._busy = gui.add_html("")
        with gui.add_folder("Your own scene", expand_by_default=False):
            self._upload = gui.add_upload_button("Upload a scene (TOML)", icon=viser.Icon.UPLOAD)
        self._of_stage = (self._back, self._time, film)
        self._of_scene = (activations, self._film, self._aim)
        self._connect()
        if lab is not None and lab.job is not None:  # the page was loaded again
            lab.job.listen(self._hear)

    def refresh(self, document: PageDocument) -> None:
        """Show how it goes."""
        lab, is_on = document.lab, document.active_muscles is not None
        set_visible(self._start, not is_on)
        for widget in self._of_stage:
            set_visible(widget, is_on)
        for widget in self._of_scene:
            set_visible(widget, is_on and lab is not None and lab.live is not None and not lab.is_reaching)
        for widget in (self._stop, self._progress):
            set_visible(widget, lab is not None and lab.is_busy)
        set_visible(self._bare, lab is not None and lab.track_label == document.label and lab.track is not None)
        self._state.content = state_html(lab)
        if lab is None:
            return
        if lab.job is not None and lab.is_busy:
            self._progress.value = 100.0 * lab.job.share
        if self._pick.options != lab.names:
            self._pick.options = lab.names
        self._shown.show(lab.name)
        self._sliders.refresh(lab)
        self._goals.refresh(lab)
        self._found.content = found_html(lab)
        self._busy.content = busy_html(document)

    def move_goal(self, goal: str, place: FloatArray) -> None:
        """A goal is dragged; the newest place wins."""
        self._tell(f"goal {goal}", lambda lab: lab.move(goal, place))

    def close(self) -> None:
        """The page is closed; running computations continue."""
        lab = self._session.document.lab
        if lab is not None and lab.job is not None:
            lab.job.listen(None)

    def _connect(self) -> None:
        self._shown.on_user(self._choose_scene)
        self._start.on_click(
            only_from_user(lambda: self._tell("start", lambda lab: self._begin(lab, self._pick.value)))
        )
        self._upload.on_upload(only_from_user(self._open_upload))
        self._back.on_click(only_from_user(lambda: self._tell("back", self._end)))
        self._stop.on_click(only_from_user(lambda: self._tell("stop", MuscleDocument.stop)))
        self._time.on_click(only_from_user(lambda: self._tell_each("time", _TIME[self._time.value])))
        self._give.on_click(only_from_user(lambda: self._tell("give back", MuscleDocument.give_back)))
        self._film.on_click(only_from_user(lambda: self._tell("film", partial(self._play, self._film.value))))
        self._export.on_click(only_from_user(lambda: self._tell("export", self._send)))
        self._arm.on_click(only_from_user(lambda: self._tell("arm", self._step_in)))
        self._aim.on_click(only_from_user(lambda: self._tell("aim", MuscleDocument.enter_tip_goal)))
        self._solve.on_click(only_from_user(lambda: self._tell("solve", self._reach)))
        self._strain.on_click(only_from_user(lambda: self._tell("strain", self._share)))
        self._bare.on_click(only_from_user(lambda: self._tell("bare", self._hide)))

    def _choose_scene(self, name: str) -> None:
        def edit(lab: MuscleDocument) -> None:
            self._shown.acknowledge(name)
            lab.name = name if name in lab.names else lab.name
            if lab.is_on:
                self._begin(lab, name)

        self._tell("scene", edit)

    def _tell_each(self, key: str, edit: Callable[[MuscleDocument], None]) -> None:
        """Every press counts, so each has a key of its own with the worker."""
        self._tell(f"{key} {next(self._clicks) % 100}", edit)

    def _tell(self, key: str, edit: Callable[[MuscleDocument], None]) -> None:
        self._session.post(f"muscle {key}", lambda: edit(self._need()))

    def _need(self) -> MuscleDocument:
        document = self._session.document
        if document.lab is None:
            document.lab = MuscleDocument()
        return document.lab

    def _begin(self, lab: MuscleDocument, name: str) -> None:
        if lab.live is None or lab.live.scene.name != name:
            self._state.content = _box_html("<div>Building the scene; the first time takes a while.</div>", "muscle")
            self._session.flush()
        lab.choose(name)
        self._take_stage()

    def _open_upload(self) -> None:
        """Bring a scene of one's own; it is read from the page's folder."""
        name, content = self._upload.value.name, self._upload.value.content

        def edit(lab: MuscleDocument) -> None:
            lab.open_scene(self._session.keep_file(name, content))
            self._take_stage()

        self._tell("upload", edit)

    def _step_in(self, lab: MuscleDocument) -> None:
        lab.enter_arm()
        self._take_stage()

    def _take_stage(self) -> None:
        """Send everything else away."""
        document = self._session.document
        document.playing = False
        if document.walk is not None:
            document.walk.is_on = False
        if document.arena is not None:
            document.arena.is_on = False
        if document.draft is not None:
            document.draft.is_open = False
        self._session.frame_body()

    def _end(self, lab: MuscleDocument) -> None:
        lab.is_on = False
        self._session.frame_body()

    def _play(self, what: str, lab: MuscleDocument) -> None:
        if what == "Live":
            lab.go_live()
        elif what == "Replay":
            lab.replay()
        else:
            lab.make_film(self._hear)

    def _reach(self, lab: MuscleDocument) -> None:
        if not (lab.is_on and (lab.is_reaching or lab.aim is not None)):
            self._step_in(lab)
        lab.solve(self._hear)

    def _share(self, lab: MuscleDocument) -> None:
        document = self._session.document
        if document.film is None:
            raise InputError("no clip is open", "Open one in the Play tab first")
        lab.estimate_activations(document.label, document.film.motion, self._hear)

    def _hide(self, lab: MuscleDocument) -> None:
        lab.track, lab.track_label = None, ""
        self._session.document.shown["Body"] = True

    def _send(self, lab: MuscleDocument) -> None:
        self._session.send_bytes(*lab.glb())

    def _hear(self) -> None:
        """A job went on, or ended; called from its thread."""
        self._session.post("muscle heard", self._take_end)

    def _take_end(self) -> None:
        lab, document = self._need(), self._session.document
        tracked = lab.track
        error = lab.collect_result()
        if error is not None:
            raise error
        if lab.track is not None and lab.track is not tracked:
            lab.is_on, document.shown["Body"] = False, False
            self._session.frame_body()


def _go_or_pause(lab: MuscleDocument) -> None:
    lab.is_running = not lab.is_running


_TIME: Final = {"Go or pause": _go_or_pause, "One step": MuscleDocument.single_step, "Reset": MuscleDocument.reset}


def state_html(lab: MuscleDocument | None) -> str:
    """What is on the stage, and how fast it goes."""
    if lab is None:
        return _box_html("<div>Pick a scene, and move its muscles with sliders.</div>", "muscle")
    return _box_html("".join(f"<div>{escape(line)}</div>" for line in state_lines(lab)), "muscle")


def state_lines(lab: MuscleDocument) -> list[str]:
    """Status text, line by line."""
    paused = "" if lab.is_running else ", paused"
    lines: list[str] = []
    if lab.is_on and lab.is_reaching:
        lines += ["Drag the hand's goals, then press Solve."]
    elif lab.is_on and lab.aim is not None:
        lines += [f"Drag the goal of {lab.aim.bone or 'the tip'}, then press Solve."]
    if lab.is_on and isinstance(lab.act, LiveScene):
        act = lab.act
        lines += [act.scene.title, f"live: {act.time_s:.2f} s{paused}"]
        lines += [f"{act.pace:.2f}x real time, {act.step_ms:.1f} ms a step, {len(act.stage.mesh.cells)} cells"]
    elif lab.is_on and isinstance(lab.act, FilmReplay) and lab.act.seconds > 0.0:
        lines += [f"film: {min(lab.act.time_s, lab.act.seconds):.2f} s of {lab.act.seconds:.2f} s{paused}"]
    job = lab.job
    if job is not None and job.is_running:
        lines += [f"{job.what}: {job.words}, {job.share:.0%}, {job.elapsed_s:.0f} s"]
    elif job is not None and job.is_stopped and job.result is None:
        lines += [f"{job.what}: stopped"]
    return lines


def found_html(lab: MuscleDocument) -> str:
    """How near the hand came to its goals."""
    misses = lab.goals.misses_m
    if lab.aim is not None and lab.aim.miss_m is not None:
        return _box_html(f"<div>The tip: {100 * lab.aim.miss_m:.1f} cm off</div>", "reach")
    if misses is None or lab.reach is None:
        return ""
    rows = [f"Goal {i + 1}: {100 * miss:.1f} cm off" for i, miss in enumerate(misses.tolist())]
    rows.append(f"{lab.reach.control.iterations} iterations, {lab.reach.control.seconds:.1f} s")
    return _box_html("".join(f"<div>{escape(row)}</div>" for row in rows), "reach")


def busy_html(document: PageDocument) -> str:
    """Which muscles of the clip work most at the playhead."""
    lab = document.lab
    if lab is None or lab.track is None or lab.track_label != document.label:
        return ""
    track = lab.track
    now = track.activations[min(document.index, len(track.activations) - 1)]
    most = sorted(zip(track.names, now.tolist(), strict=True), key=lambda pair: -pair[1])[:NUM_BUSIEST]
    rows = [f"{len(track.names)} muscles supply {track.torque_fraction:.0%} of all torques"]
    rows += [f"{name}: {value:.0%}" for name, value in most]
    return _box_html("".join(f"<div>{escape(row)}</div>" for row in rows), "strain")


def _box_html(text: str, name: str) -> str:
    return f'<div data-testid="{name}" style="padding:0.2em 0.8em;font-size:0.85em;line-height:1.45">{text}</div>'
