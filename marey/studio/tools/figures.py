"""Tools of bodies that obey physics: a simulated figure, a clip that is followed, soft bodies and muscles."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.control import back_and_forth, solve_tracking, track_balance, walk_in_place
from marey.control.live_controllers import CONTROLLERS, FEET, FLAGS, RANGES, SimulationSettings
from marey.muscle import (
    Film,
    SoftBodyScene,
    estimate_activations,
    load_scene,
    make_reach_film,
    scene_names,
    solve_reach,
    solve_scene,
)
from marey.muscle.scene.live import LiveScene
from marey.pipeline.live import COMMANDS, FRAME_S, LiveSession, SimulationSession, replay_session
from marey.pipeline.takes import Tree
from marey.pipeline.tools import (
    DragAnswer,
    Parameter,
    Settings,
    Tool,
    ToolContext,
    ToolResult,
    need_motion,
    read_point,
    stop_if_cancelled,
)
from marey.simulate import Push, Simulator
from marey.studio.tools.clips import MOTION

MODES: Final = 24  # of the pose space that a followed clip moves in; fewer leave too little to balance with
MOST_DRAWN: Final = 2000  # frames of muscles over a clip
MUSCLE_M: Final = 0.0002  # [m/sqrt(N)] half the thickness of a drawn muscle
POWER: Final = Parameter("power", "float", 2.0, "", 2.0, 10.0, help="Exponent of the cost; 3 is fatigue.")
PUSH_COLUMNS: Final = (
    Parameter("joint", "joint", is_required=True),
    Parameter("force_n", "points", None, "N", is_required=True),
    *(Parameter(name, "float", None, "s", 0.0, 600.0) for name in ("start_s", "duration_s", "every_s")),
)
GOAL_COLUMNS: Final = (
    Parameter("time_s", "float", None, "s", 0.01, 60.0, is_required=True),
    Parameter("place", "points", None, "m", is_required=True),
)
HELP: Final = {
    "alpha": ("", "Share of the hand in the motion of a puppet: 0 is physics alone, 1 the hand alone."),
    "stiffness_per_s": ("1/s", "Rate at which a puppet or a standing figure returns to its pose."),
    "pull_n_m": ("N/m", "Stiffness of the spring between the pointer and the joint."),
    "damping_per_s": ("1/s", "Damping rate of the joints."),
    "modes": ("", "Number of modes of the pose space, learnt from the clip."),
    "gravity_m_s2": ("m/s²", "9.81 on earth, 1.62 on the moon."),
    "slope_deg": ("°", "Slope of the ground; positive rises ahead."),
    "is_full": ("", "Move every joint on its own, without a pose space."),
    "is_reaching": ("", "A balancing figure reaches for the hand by itself."),
    "has_limits": ("", "Keep joints within the angles of the clip."),
}


def _track(context: ToolContext, settings: Settings) -> ToolResult:
    motion = need_motion(context, settings)
    mode, seconds = settings["mode"], settings["seconds"]
    if mode in ("in place", "back and forth"):
        motion = (walk_in_place if mode == "in place" else back_and_forth)(motion, seconds or 10.0)
    length = seconds or (10.0 if mode == "balance" else motion.duration_s)

    def tell(figure: Simulator) -> None:
        stop_if_cancelled(context)
        now = figure.state.time_s
        context.progress(min(now / length, 0.99), f"{mode}: {now:.1f} s of {length:.1f} s")

    # Pushes of a table with PUSH_COLUMNS
    pushes: list[Push] = []
    for row in cast(list[Tree], settings["pushes"] or []):
        times = {name: float(row[name]) for name in ("start_s", "duration_s", "every_s") if row.get(name) is not None}
        pushes.append(Push(str(row["joint"]), read_point(row.get("force_n"), "force"), **times))
    options: dict[str, Any] = {"pushes": pushes, "on_step": tell}
    if settings["modes"]:
        if motion.num_frames <= settings["modes"]:
            raise InputError(f"{settings['modes']} modes from a clip of {motion.num_frames} frames", "Ask for fewer")
        options["model"] = settings["modes"]
    if mode == "balance":
        done = track_balance(motion, seconds=length, feet=settings["feet"], **options)
    else:
        done = solve_tracking(motion, seconds=seconds if mode == "track" else None, **options)
    fall = None if done.fall is None else str(done.fall)
    report = {"mean_error_cm": 100.0 * float(done.error_m.mean()), "max_error_cm": 100.0 * float(done.error_m.max())}
    words = f"{report['mean_error_cm']:.1f} cm from the clip; {fall or 'stays upright'}"
    return ToolResult(done.motion, text=f"{mode}: {words}", report=report | {"fall": fall})


# Soft bodies and muscles


class MuscleSession(LiveSession):
    """A soft body that muscles move, step by step; sliders take splines over from its programme."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        super().__init__()
        self.scene = LiveScene(read_scene(context, settings))
        self._owed_s, self._told = 0.0, False

    def move(self, args: Settings) -> DragAnswer:
        """Hold splines (``{name: activation}``), ``release`` them all or ``reset``; then go on by 1/60 s."""
        refused, scene = self.take_frame(args), self.scene
        look = scene.look()
        arrays = {"surface": look.surface, "red": look.red, "blue": look.blue, "bones": look.bones}
        if not self._told:
            arrays |= {"faces": scene.faces.astype(np.float64), "radii": scene.radii}
            self._told = True
        facts = {"time_s": scene.time_s, "activations": scene.activations(), "step_ms": scene.step_ms}
        return DragAnswer(arrays, facts | {"refused": refused})

    def apply(self, changes: Settings) -> None:
        """Hold splines, or give them back to the programme."""
        for name, value in changes.items():
            if name == "reset":
                self.scene.reset()
            elif name == "release":
                self.scene.give_back()
            else:
                self.scene.hold(name, float(value))

    def advance(self) -> None:
        """So many steps of the scene that the clock of frames is kept."""
        self._owed_s += FRAME_S
        while self._owed_s >= self.scene.step_s - 1e-9:
            self._owed_s -= self.scene.step_s
            self.scene.single_step()
        self.step += 1

    def end(self, args: Settings) -> ToolResult:
        """The film of what was seen."""
        return film_result(self.scene.film(), {})


def read_scene(context: ToolContext, settings: Settings) -> SoftBodyScene:
    """A shipped scene by name, or an uploaded one.

    Raises:
        InputError: the upload names a file that does not lie beside it.
    """
    if not settings["file"]:
        return load_scene(str(settings["scene"]))
    path = Path(context.file(settings["file"]))
    scene = load_scene(path)
    mesh = scene.parts.mesh.file
    if mesh and path.resolve().parent not in Path(mesh).resolve().parents:
        raise InputError(f"the scene names the file '{mesh}' of this machine", "Upload the mesh itself")
    return scene


def film_result(film: Film, facts: Tree) -> ToolResult:
    """A film as an animated file and its figures."""
    if film.num_frames < 2:
        raise InputError("nothing has moved yet", "Let the scene run")
    with tempfile.TemporaryDirectory(prefix="marey-muscle-") as folder:
        data = film.save(Path(folder) / "film.glb").read_bytes()
    rows = [{"figure": name, "value": value} for name, value in film.metrics.items()]
    report = {"frames": film.num_frames, "seconds": float(film.times[-1]), "failed": list(film.failed), **facts}
    return ToolResult(None, rows, f"{film.name}: {film.num_frames} frames", {f"{film.name}.glb": data}, report)


def _play_scene(context: ToolContext, settings: Settings) -> ToolResult:
    scene = read_scene(context, settings)
    goals = cast(list[Tree], settings["goals"] or [])
    if goals:
        wanted = [(float(g["time_s"]), g["point"], read_point(g["place"], "place")) for g in goals]
        most = settings["iterations"]

        def hear(iteration: int, cost: float) -> bool:
            context.progress(min(iteration / most, 0.95), f"iteration {iteration}, cost {cost:.3g}")
            return not context.cancelled

        found = solve_scene(scene, wanted, max_cells=500, max_iterations=most, on_iteration=hear)
        return film_result(found.film(), {"missed_m": found.errors_m.tolist(), "reached": found.reached})
    known = [spline.name for spline in scene.parts.splines]
    held = {str(name): float(value) for name, value in cast(Tree, settings["activations"] or {}).items()}
    for name, value in held.items():
        if name not in known:
            raise UnknownNameError("spline", name, f"scene '{scene.name}'", known)
        if not 0.0 <= value <= 1.0:
            raise InputError(f"an activation of {value:g}", "Give 0 to 1")

    def tell(done: int, of: int) -> None:
        stop_if_cancelled(context)
        context.progress(done / of, f"frame {done} of {of}")

    return film_result(scene.run(settings["seconds"], None, tell, held or None), {"activations": held})


def _reach(context: ToolContext, settings: Settings) -> ToolResult:
    rows = cast(list[Tree], settings["goals"] or [])
    if not rows:
        raise InputError("no place for the hand", "Give rows of time_s and place")
    context.progress(0.1, "poses of the arm, then its muscles")
    goals = [(float(row["time_s"]), read_point(row["place"], "place")) for row in rows]
    found = solve_reach(goals, side=settings["side"])
    return film_result(make_reach_film(found), {"missed_m": found.misses_m.tolist()})


def _estimate(context: ToolContext, settings: Settings) -> ToolResult:
    motion = need_motion(context, settings)
    context.progress(0.2, "torques and the muscles that supply them")
    track = estimate_activations(motion, power=settings["power"])
    with tempfile.TemporaryDirectory(prefix="marey-muscle-") as folder:
        data = track.save(Path(folder) / "muscles.csv").read_bytes()
    rows = [{"muscle": name, "mean": value} for name, value in track.busiest(len(track.names))]
    text = f"{len(track.names)} muscles give {track.torque_fraction:.0%} of the torque"
    report = {"given": track.torque_fraction, "muscles": list(track.names)}
    return ToolResult(
        None, rows, text, {"muscles.csv": data}, report, {"activations": np.asarray(track.activations)}
    )  # fmt: skip


def _draw_muscles(context: ToolContext, settings: Settings) -> ToolResult:
    """Lines of the muscles over a clip: ends of their pieces ``(F, S, 2, 3)`` [m], how much each works ``(F, S)``."""
    track = estimate_activations(need_motion(context, settings), power=settings["power"])
    few = slice(None, None, 1 + track.motion.num_frames // MOST_DRAWN)
    lines = [np.stack([line[few, :-1], line[few, 1:]], axis=2) for line in track.geometry.points]
    owners = np.repeat(np.arange(len(lines)), [line.shape[1] for line in lines])
    radii = MUSCLE_M * np.sqrt([track.muscles[m].largest_force_n for m in owners])
    arrays = {"lines": np.concatenate(lines, axis=1), "work": track.activations[few][:, owners], "radii": radii}
    rate_hz = track.motion.rate_hz / few.step
    text = f"{len(track.names)} muscles give {track.torque_fraction:.0%} of the torque"
    return ToolResult(text=text, report={"rate_hz": rate_hz}, arrays=arrays)


_DEFAULTS: Final = SimulationSettings()
_SCENE: Final = (
    Parameter("scene", "choice", "biceps-arm", choices=scene_names(), help="Shipped scene."),
    Parameter("file", "file", help="Your own scene file, in place of a shipped one."),
)
TOOLS: Final = (
    Tool(
        "simulate", "Simulate", "Simulate", "A figure that obeys physics: pull it, push it, throw balls at it.",
        "live", SimulationSession,
        (
            MOTION,
            Parameter("time_s", "float", 0.0, "s", 0.0, help="Time of the pose to start from."),
            Parameter("mode", "choice", "free", choices=CONTROLLERS, help="Limp, puppet, balance, or follow the clip."),
            Parameter("feet", "choice", "both", choices=FEET, help="Feet that a balancing figure stands on."),
            *(
                Parameter(name, "int" if name == "modes" else "float", getattr(_DEFAULTS, name), HELP[name][0],
                          *RANGES[name], help=HELP[name][1])
                for name in RANGES
            ),
            *(Parameter(name, "bool", getattr(_DEFAULTS, name), help=HELP[name][1]) for name in FLAGS),
            COMMANDS,
            Parameter("seconds", "float", 3.0, "s", 0.02, 120.0, help="Duration of the simulation in a recipe."),
        ), "s", lambda context, settings: replay_session(context, SimulationSession(context, settings), settings),
    ),
    Tool(
        "track", "Track", "Simulate", "Let a simulated figure follow the clip, or balance, by joint torques.", "job",
        _track,
        (
            MOTION,
            Parameter("mode", "choice", "track", choices=("track", "balance", "in place", "back and forth"),
                      help="Follow the clip, stand, walk on the spot, or go to and fro."),
            Parameter("pushes", "table", shape="rows", columns=PUSH_COLUMNS, help="External forces on joints."),
            Parameter("seconds", "float", None, "s", 0.1, 600.0, help="Duration; the length of the clip by default."),
            Parameter("modes", "int", MODES, "", 0, 200, help="Number of modes of the pose space; 0 moves all joints."),
            Parameter("feet", "choice", "both", choices=FEET, help="Feet that a balancing figure stands on."),
        ), "t",
    ),
    Tool(
        "muscle", "Muscle", "Muscle", "A soft body that muscles move; hold its splines by hand.", "live",
        MuscleSession,
        (
            *_SCENE,
            Parameter("activations", "table", shape="map", columns=(Parameter("activation", "float", None, "", 0, 1),),
                      help="Activations of splines by name, 0 to 1; the others follow the programme."),
            Parameter("goals", "table", shape="rows",
                      columns=(*GOAL_COLUMNS, Parameter("point", "text", is_required=True)),
                      help="Target positions of bone ends over time."),
            Parameter("seconds", "float", None, "s", 0.02, 60.0, help="Duration; that of the scene by default."),
            Parameter("iterations", "int", 12, "", 1, 50, help="Iterations of the search for goals."),
        ), "u", _play_scene,
    ),
    Tool(
        "reach", "Reach", "Muscle", "Find muscle activations that bring a hand to positions in time.", "job", _reach,
        (
            Parameter("goals", "table", shape="rows", columns=GOAL_COLUMNS, help="Positions relative to the shoulder."),
            Parameter("side", "choice", "left", choices=("left", "right"), help="Which arm."),
        ),
    ),
    Tool(
        "muscles", "Muscles of a clip", "Muscle", "Estimate the muscle activations behind a motion.", "job",
        _estimate,
        (MOTION, POWER),
    ),
    Tool("muscle_lines", "Muscle lines", "", "Muscles over a clip, to draw.", "ask", _draw_muscles, (MOTION, POWER)),
)  # fmt: skip
