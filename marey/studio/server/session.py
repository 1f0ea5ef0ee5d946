"""One page of the browser: its document, its stage, its panels and the worker that serves it."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import viser

from marey.base import InputError, MareyError, write_atomically
from marey.motion import Motion
from marey.studio.document.page import ClipFrames, PageDocument
from marey.studio.document.shelf import ClipCatalogue, safe_name
from marey.studio.modes.muscle import MusclePanel
from marey.studio.modes.physics import PhysicsPanel
from marey.studio.modes.play import ClipPanel, ExportPanel, Panel, ShowPanel, TimelinePanel
from marey.studio.modes.pose import PosePanel
from marey.studio.modes.simulate import SimulationPanel
from marey.studio.modes.sketch import SketchPanel
from marey.studio.modes.walk import WalkPanel
from marey.studio.server.worker import SessionWorker
from marey.studio.view.clip import ClipStage, ForceArrows
from marey.studio.view.muscle import BodyMuscleNodes, MuscleStage
from marey.studio.view.simulate import SimulationStage
from marey.studio.view.sketch import SketchStage
from marey.studio.view.walk import WalkStage

CHASE_CAMERA_M = ((-1.5, 1.7, -2.9), (-0.45, 0.72, 0.75))  # where the camera is and looks while a character is driven
PLAY_RATE_HZ = 30.0  # the page smooths between messages; more would only fill the wire


class Session:
    """Commands of one page. Every command returns at once; the worker carries it out."""

    def __init__(self, client: viser.ClientHandle, shelf: ClipCatalogue, document: PageDocument) -> None:
        self.shelf, self.document = shelf, document
        self._client = client
        self._folder = tempfile.TemporaryDirectory(prefix="marey-studio-")
        self._stage = ClipStage(client.scene)
        self._forces = ForceArrows(client.scene)
        self._panels: tuple[Panel, ...] = ()
        self._posing: PosePanel | None = None
        self._physics: PhysicsPanel | None = None
        self._walking: WalkPanel | None = None
        self._walk_stage = WalkStage(client.scene, self._click_character)
        self._sketching: SketchPanel | None = None
        self._sketch_stage: SketchStage | None = None
        self._simulate_stage: SimulationStage | None = None
        self._muscling: MusclePanel | None = None
        self._muscle_stage: MuscleStage | None = None
        self._body_muscles = BodyMuscleNodes(client.scene)
        self._worker = SessionWorker(self._tick, rate_hz=PLAY_RATE_HZ, on_error=self.report)
        self._worker.post("start", self._start)

    def open(self, label: str) -> None:
        """Put a clip of the shelf on the stage."""
        self._worker.post("open", partial(self._open, label))

    def upload(self, name: str, content: bytes) -> None:
        """Read a file the user brought and open it."""
        self._worker.post("upload", partial(self._upload, name, content))

    def seek(self, frame: float) -> None:
        """Move the playhead."""
        self.post("seek", partial(self.document.seek, frame))

    def step(self, frames: int) -> None:
        """Move the playhead by whole frames, and stop there."""
        self.post("step", partial(self._step, frames))

    def toggle_play(self) -> None:
        """Play, or pause."""
        self.post("play", self._toggle)

    def set_speed(self, speed: float) -> None:
        """Play at a multiple of real time."""
        self.post("speed", partial(self.document.set_speed, speed))

    def show(self, what: str, on: bool) -> None:
        """Switch a part of the picture on or off."""
        self.post(f"show {what}", partial(self.document.show, what, on))

    def export(self, suffix: str) -> None:
        """Send the clip to the user as a file."""
        self._worker.post(f"export {suffix}", partial(self._export, suffix))

    def frame_body(self) -> None:
        """Turn the camera to the body, from the side and a little above."""
        self._worker.post("camera", self._frame_body)

    def post(self, key: str, edit: Callable[[], None]) -> None:
        """Leave an edit with the worker and show the result."""
        self._worker.post(key, partial(self._change, edit))

    def open_motion(self, label: str, motion: Motion) -> None:
        """Put a new clip on the shelf and on the stage; called by the worker."""
        self._open(self.shelf.put(label, lambda: motion))

    def send(self, motion: Motion, name: str) -> None:
        """Send a clip to the user as a file; called by the worker."""
        path = Path(self._folder.name) / f"export{Path(name).suffix}"
        if path.suffix == ".png":
            from marey.picture import film_strip, save_image

            save_image(film_strip(motion), path)
        else:
            from marey.io import save

            save(motion, path)
        self.send_bytes(name, path.read_bytes())

    def send_bytes(self, name: str, content: bytes) -> None:
        """Send a file to the user; called by the worker."""
        self._client.send_file_download(safe_name(name), content)

    def keep_file(self, name: str, content: bytes) -> Path:
        """Put what the user brought into the page's own folder."""
        path = Path(self._folder.name) / safe_name(name)
        write_atomically(path, content)
        return path

    def flush(self) -> None:
        """Show at once what was changed, before something that takes long; called by the worker."""
        self._client.flush()

    def report(self, error: Exception) -> None:
        """Tell the user what went wrong; the page lives on."""
        if not isinstance(error, MareyError):
            traceback.print_exception(error, file=sys.stderr)
        text = str(error) if isinstance(error, MareyError) else "Something went wrong; the terminal has the details."
        text = text.replace(f"{self._folder.name}/", "")  # where we put the user's file is not their concern
        self._client.add_notification("marey", text, color="red", with_close_button=True)

    def close(self) -> None:
        """Stop the worker and remove uploaded files."""
        if self._physics is not None:
            self._physics.close()
        if self._sketching is not None:
            self._sketching.close()
        if self._muscling is not None:
            self._muscling.close()
        self._worker.stop()
        self._folder.cleanup()

    def _start(self) -> None:
        document = self.document
        if document.film is None:
            document.label = self.shelf.labels[0]
        self._build(self._client.gui)
        if document.film is None:
            self._open(document.label)
        else:
            self._stage.load(document.film)
            self._refresh()
        self._frame_body()

    def _build(self, gui: viser.GuiApi) -> None:
        tabs = gui.add_tab_group()
        with tabs.add_tab("Play"):
            play = (ClipPanel(gui, self), ShowPanel(gui, self), ExportPanel(gui, self))
        with tabs.add_tab("Pose"):
            self._posing = PosePanel(gui, self._client.scene, self)
        with tabs.add_tab("Physics"):
            self._physics = PhysicsPanel(gui, self)
        with tabs.add_tab("Walk"):
            self._walking = WalkPanel(gui, self)
        with tabs.add_tab("Sketch"):
            self._sketching = SketchPanel(gui, self)
        with tabs.add_tab("Simulate"):
            simulating = SimulationPanel(gui, self)
        with tabs.add_tab("Muscle"):
            self._muscling = MusclePanel(gui, self)
        scene, sketching = self._client.scene, self._sketching
        self._simulate_stage = SimulationStage(scene, simulating.grab_body)
        self._muscle_stage = MuscleStage(scene, self._muscling.move_goal)
        self._sketch_stage = SketchStage(scene, sketching.click_item, sketching.drag)
        scene.on_click(modifier="cmd/ctrl")(sketching.click_ground)
        rest = (self._physics, self._walking, sketching, self._muscling, simulating)
        self._panels = (*play, TimelinePanel(gui, self), *rest)

    def _open(self, label: str) -> None:
        try:
            film = ClipFrames.from_motion(self.shelf.load(label))
        except MareyError:
            self._refresh()  # the picker goes back to what is on the stage
            raise
        self.document.open(label, film)
        if self.document.walk is not None:
            self.document.walk.is_on = False
        if self.document.draft is not None:
            self.document.draft.is_open = False
        if self.document.arena is not None:
            self.document.arena.is_on = False
        if self.document.lab is not None:
            self.document.lab.is_on = False
        if self._posing is not None:
            self._posing.desk = None
        self._stage.load(film)
        self._refresh()

    def _upload(self, name: str, content: bytes) -> None:
        from marey.io import load

        path = self.keep_file(name, content)
        self.open_motion(path.name, load(path))

    def _step(self, frames: int) -> None:
        if self.document.active_mode is not None:
            if frames > 0:  # neither a walk nor a simulation goes back
                self.document.active_mode.single_step()
            return
        self.document.playing = False
        self.document.seek(self.document.index + frames)

    def _toggle(self) -> None:
        document = self.document
        if document.active_mode is not None:
            document.active_mode.is_running = not document.active_mode.is_running
            return
        at_end = document.film is not None and document.index >= document.film.num_frames - 1
        if not document.playing and at_end:
            document.seek(0.0)
        document.playing = not document.playing

    def _export(self, suffix: str) -> None:
        film = self.document.film
        if film is None:
            raise InputError("no clip is open", "Open one first")
        self.send(film.motion, Path(self.document.label).stem + suffix)

    def _change(self, edit: Callable[[], None]) -> None:
        try:
            edit()
        finally:
            self._refresh()  # also after an edit that was refused: the page goes back to what is

    def _tick(self, seconds: float) -> None:
        passing = self.document if self.document.active_mode is None else self.document.active_mode
        passing.advance(seconds)
        self._refresh()

    def _click_character(self, number: int) -> None:
        if self._walking is not None:
            self._walking.click(number)

    def _refresh(self) -> None:
        with self._client.atomic():
            self._draw()
            for panel in self._panels:
                panel.refresh(self.document)
            if self._posing is not None:
                self._posing.refresh()
        self._client.flush()
        running = self.document.active_mode
        self._worker.set_ticking(self.document.playing if running is None else running.is_running)

    def _draw(self) -> None:
        desk = None if self._posing is None else self._posing.desk
        walk = self.document.live
        if self._draws_muscles(is_posing=desk is not None):
            return
        if walk is not None and desk is not None:
            walk.is_on = False  # a pose of the clip is on the desk
        elif walk is not None:
            follows = self.document.shown["Follow"]
            self._stage.hide_clip(*((walk.place(), walk.view_rad) if follows else ((0.0, 0.0), 0.0)))
            self._walk_stage.draw(walk)
            if self._simulate_stage is not None:
                self._simulate_stage.hide()
                self._stage.show_ground(True)
            self._draw_sketch()
            return
        self._walk_stage.hide()
        if desk is not None and self.document.draft is not None:
            self.document.draft.is_open = False
        if self._draws_simulation(is_posing=desk is not None):
            return
        self._draw_sketch()
        if self.document.active_sketch is not None:
            self._stage.hide_clip((0.0, 0.0), 0.0)
            return
        self._stage.draw(self.document, None if desk is None else desk.state.pose)
        self._forces.draw(self.document)

    def _draws_simulation(self, *, is_posing: bool) -> bool:
        """The simulation, if it is on the stage; a pose of the clip on the desk sends it away."""
        document, stage = self.document, self._simulate_stage
        arena = document.active_simulation
        if stage is None or arena is None or is_posing:
            if document.arena is not None and is_posing:
                document.arena.is_on = False
            if stage is not None:
                stage.hide()
            self._stage.show_ground(True)
            return False
        middle = arena.place() if document.shown["Follow"] else (0.0, 0.0)
        self._stage.hide_clip(middle, 0.0)
        self._stage.show_ground(arena.wish.slope_deg == 0.0)
        stage.draw(arena, middle)
        self._draw_sketch()
        return True

    def _draws_muscles(self, *, is_posing: bool) -> bool:
        """The soft body, if it is on the stage; anything else that comes sends it away."""
        document, stage, lab = self.document, self._muscle_stage, self.document.lab
        if stage is None or lab is None:
            return False
        if document.active_muscles is None or is_posing:
            lab.is_on = False
            stage.hide()
            # Muscles of the whole body, over the clip that they were computed for
            document_strain, lab_strain = self.document, self.document.lab
            if lab_strain is None or lab_strain.track is None or lab_strain.track_label != document_strain.label:
                self._body_muscles.hide()
            else:
                self._body_muscles.draw(lab_strain.track, document_strain.index)
            return False
        self._walk_stage.hide()
        if self._simulate_stage is not None:
            self._simulate_stage.hide()
        self._stage.show_ground(True)
        self._draw_sketch()
        self._stage.hide_clip(lab.place() if document.shown["Follow"] else (0.0, 0.0), 0.0)
        stage.draw(lab)
        return True

    def _draw_sketch(self) -> None:
        """The sketch while it is drawn, and under the clips that were made from it."""
        document, stage = self.document, self._sketch_stage
        draft = document.draft
        if stage is None or draft is None:
            return
        if document.active_sketch is not None:
            stage.draw(draft, None)
        elif document.active_mode is None and document.label in draft.clips:
            rate_hz = 1.0 if document.film is None else document.film.motion.rate_hz
            stage.draw(draft, document.film, draft.other(document.label), document.frame / rate_hz)
        else:
            stage.hide()

    def _frame_body(self) -> None:
        film = self.document.film
        if self.document.active_sketch is not None:
            self._client.camera.position, self._client.camera.look_at = self.document.active_sketch.view()
            return
        if self.document.live is not None:
            self._client.camera.position, self._client.camera.look_at = CHASE_CAMERA_M
            return
        if self.document.active_muscles is not None:
            self._client.camera.position, self._client.camera.look_at = self.document.active_muscles.camera()
            return
        if film is None:
            return
        x, _, z = (0.0, 0.0, 0.0) if self.document.shown["Follow"] else film.positions[self.document.index, 0]
        size = max(1.0, float(film.positions[0, :, 1].max()))
        self._client.camera.position = (x + 1.6 * size, 0.75 * size, z + 1.15 * size)
        self._client.camera.look_at = (x, 0.42 * size, z)
