"""Soft bodies of one page, free of any browser type: a scene, a film, an arm that reaches, the muscles of a clip."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.motion import Motion
from marey.muscle import (
    Film,
    MuscleTrack,
    ReachResult,
    SoftBodyScene,
    estimate_activations,
    load_scene,
    make_reach_film,
    scene_names,
)
from marey.picture import view_direction
from marey.studio.document.jobs import BackgroundJob, JobListener
from marey.studio.document.muscle.goals import TIP_GOAL_NAME as AIM
from marey.studio.document.muscle.goals import HandGoals, TipGoal, TipGoalResult, solve_hand_goals, solve_tip_goal
from marey.studio.document.muscle.scenes import FilmReplay, LiveScene, StageAct, mix_activations

FIRST: Final = "biceps-arm"
MAX_SPLINES: Final = 12  # that have a slider
VIEW_SIZES: Final = 1.5  # distance of the camera, in sizes of the body
ARM_VIEW_DEG: Final = (0.0, 155.0, 8.0)  # heading, turn and elevation: from the left of the figure, and ahead of it
Position3 = tuple[float, float, float]


class MuscleDocument:
    """Edited only by the session's worker."""

    def __init__(self) -> None:
        self.is_on = False  # on the stage; otherwise the clip is
        self.is_running = True
        self.name = FIRST  # of the scene
        self._own: dict[str, SoftBodyScene] = {}  # scenes that the user brought
        self.live: LiveScene | None = None  # the scene that was chosen
        self.act: StageAct | None = None  # what is on the stage
        self.goals = HandGoals()
        self.is_reaching = False  # the arm is on the stage
        self.aim: TipGoal | None = None  # target of the tip of the scene's body
        self.reach: ReachResult | None = None  # the last answer
        self.track: MuscleTrack | None = None  # muscles of a clip
        self.track_label = ""  # of that clip
        self.job: BackgroundJob[Any] | None = None

    def choose(self, name: str) -> None:
        """Put a scene on the stage, at rest."""
        if name not in self.names:
            raise InputError(f"there is no scene '{name}'", f"There are {', '.join(self.names)}")
        if self.live is None or self.live.scene.name != name:
            made = LiveScene(self._own.get(name) or load_scene(name))
            if len(made.names) > MAX_SPLINES:
                raise InputError(f"scene '{name}' has {len(made.names)} splines", f"Sliders are for {MAX_SPLINES}")
            self.live = made
        self.name, self.act = name, self.live
        self.is_on, self.is_running, self.is_reaching, self.aim = True, True, False, None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all scenes: those that come with marey, then the user's."""
        return (*scene_names(), *self._own)

    def open_scene(self, path: Path) -> None:
        """Put a scene of the user's on the stage, from a TOML file."""
        made = load_scene(path)
        name = made.name if made.name not in scene_names() else f"my {made.name}"
        self._own[name] = SoftBodyScene(name, made.parts)
        if self.live is not None and self.live.scene.name == name:
            self.live = None  # a newer one of the same name
        self.choose(name)

    def hold(self, spline: str, activation: float) -> None:
        """Take a spline over from the programme."""
        self.need_live().hold(spline, activation)

    def give_back(self) -> None:
        """Let the programme drive again."""
        self.need_live().give_back()

    def reset(self) -> None:
        """Begin again."""
        act = self._need_act()
        if isinstance(act, LiveScene):
            act.reset()
        else:
            act.time_s = 0.0

    def replay(self) -> None:
        """Play what was seen since the last reset."""
        self._play(self.need_live().film())

    def go_live(self) -> None:
        """Continue the scene."""
        self.act, self.is_running, self.aim = self.need_live(), True, None

    def make_film(self, listener: JobListener | None) -> None:
        """Run the whole scene beside the page, as its programme and the sliders say; then play it."""
        live = self.need_live()
        made, held = SoftBodyScene(live.scene.name, live.scene.parts), dict(live.held)
        self._start("film", lambda job: _record_film(made, held, job), listener)

    def enter_arm(self) -> None:
        """Put the arm that reaches on the stage."""
        self.is_on, self.is_reaching, self.aim = True, True, None
        self.act = FilmReplay(self.goals.rest_film() if self.reach is None else make_reach_film(self.reach))
        self.is_running = self.reach is not None

    def enter_tip_goal(self) -> None:
        """Put the scene to rest, with a goal at the tip of its body."""
        live = self.need_live()
        self.act, self.is_on, self.is_running, self.is_reaching = live, True, False, False
        self.aim = TipGoal(live)

    @property
    def marks(self) -> dict[str, FloatArray]:
        """Goals that can be dragged, by name [m]."""
        if self.is_reaching:
            return self.goals.marks
        return {} if self.aim is None else {AIM: self.aim.place}

    def move(self, goal: str, place: FloatArray) -> None:
        """Drag a goal."""
        if goal in self.goals.marks:
            self.goals.move(goal, place)
        elif self.aim is not None:
            self.aim.move(place)

    def solve(self, listener: JobListener | None) -> None:
        """Search for muscles that bring the hand, or the tip of the scene's body, to its goals; then play it."""
        aim, every_s = self.aim, self.goals.every_s
        if aim is not None:
            self._start("solve", lambda job: solve_tip_goal(aim, every_s, job), listener)
            return
        if not self.is_reaching:
            self.enter_arm()
        goals = self.goals.order()
        self._start("solve", lambda job: solve_hand_goals(goals, job), listener)

    def estimate_activations(self, label: str, motion: Motion, listener: JobListener | None) -> None:
        """Share the torques of a clip among the muscles of a body."""

        def work(job: BackgroundJob[tuple[str, MuscleTrack]]) -> tuple[str, MuscleTrack]:
            job.tell("torques and the muscles that supply them", 0.3)
            return label, estimate_activations(motion)

        self._start("muscles", work, listener)

    def stop(self) -> None:
        """Ask the job that runs to end."""
        if self.job is not None:
            self.job.stop()

    def collect_result(self) -> Exception | None:
        """Take what a job has given, once it ended; its error, if it has one."""
        job = self.job
        if job is None or job.is_running or job.is_taken:
            return None
        job.is_taken = True
        if job.error is not None:
            return job.error
        if isinstance(job.result, Film):
            self._play(job.result)
        elif isinstance(job.result, ReachResult):
            found = job.result
            self.reach, self.goals.misses_m = found, found.misses_m
            self.enter_arm()
        elif isinstance(job.result, TipGoalResult):
            found_aimed = job.result
            aim = self.aim
            self._play(found_aimed.film)
            if aim is not None:
                self.aim, aim.miss_m = aim, found_aimed.miss_m
        elif job.result is not None:
            self.track_label, self.track = job.result
        return None

    @property
    def is_busy(self) -> bool:
        """Whether a job runs."""
        return self.job is not None and self.job.is_running

    def glb(self) -> tuple[str, bytes]:
        """The current scene as an animated file: name and content."""
        film = self._need_act().film()
        if film.num_frames < 2:
            raise InputError("nothing has moved yet", "Let the scene run, make its film, or solve first")
        with tempfile.TemporaryDirectory(prefix="marey-muscle-") as folder:
            return f"{film.name}.glb", film.save(Path(folder) / "film.glb").read_bytes()

    def advance(self, seconds: float) -> None:
        """Let real time pass."""
        if self.is_running and self.act is not None:
            self._run_guarded(lambda act: act.advance(seconds))

    def single_step(self) -> None:
        """Stop, and go on by one step."""
        self.is_running = False
        self._run_guarded(lambda act: act.single_step())

    def need_live(self) -> LiveScene:
        """The scene that was chosen."""
        if self.live is None:
            raise InputError("no scene is open", "Press 'Show this scene' first")
        return self.live

    def place(self) -> tuple[float, float]:
        """What the view keeps in its middle, (x, z) [m]; an arm stays where it hangs."""
        if self.act is None or not self.act.walks:
            return 0.0, 0.0
        x, _, z = self.act.look().surface.mean(axis=0).tolist()
        return x, z

    def camera(self) -> tuple[Position3, Position3]:
        """Camera that shows the whole body as in its film."""
        act = self._need_act()
        look, (x, z) = act.look(), self.place()
        points = np.concatenate([look.surface, look.bones.reshape(-1, 3)])
        middle = 0.5 * (points.min(axis=0) + points.max(axis=0)) - np.array([x, 0.0, z])
        away = VIEW_SIZES * max(float(np.linalg.norm(np.ptp(points, axis=0))), 0.5)
        heading, turn, rise = ARM_VIEW_DEG if self.is_reaching else act.view_deg
        ahead = view_direction(np.deg2rad(heading), turn_rad=np.deg2rad(turn), elevation_rad=np.deg2rad(rise))
        return _to_position(middle - away * ahead), _to_position(middle)

    def _need_act(self) -> StageAct:
        if self.act is None:
            raise InputError("nothing is on the stage", "Press 'Show this scene' first")
        return self.act

    def _run_guarded(self, move: Callable[[StageAct], None]) -> None:
        """Where a step fails, time stops."""
        try:
            move(self._need_act())
        except Exception:
            self.is_running = False
            raise

    def _play(self, film: Film) -> None:
        self.act, self.is_running, self.is_reaching, self.is_on = FilmReplay(film), True, False, True
        self.aim = None

    def _start(self, what: str, work: Callable[[BackgroundJob[Any]], Any], listener: JobListener | None) -> None:
        if self.is_busy:
            raise InputError("something is being computed", "Press 'Stop' first, or wait")
        self.job = BackgroundJob(what, work, listener)


def _record_film(made: SoftBodyScene, held: dict[str, float], job: BackgroundJob[Film]) -> Film:
    """The film of a scene; splines that a hand holds stay as they are held."""
    job.tell("building the scene", 0.0)
    stage = made.stage()

    def report(done: int, of: int) -> None:
        job.tell(f"frame {done} of {of}", done / of)

    return made.run(on_frame=report, activations=(lambda t: mix_activations(stage, held, t)) if held else None)


def _to_position(point: FloatArray) -> Position3:
    x, y, z = point.tolist()
    return x, y, z
