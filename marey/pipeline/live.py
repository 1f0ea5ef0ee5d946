"""Live sessions: a walker and a figure that obeys physics, driven frame by frame; a recipe runs them again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from marey.base import InputError, MareyError, UnknownNameError, clamp_value
from marey.control.live_controllers import FLAGS, RANGES, FigureFactory, SimulationSettings
from marey.control.live_figure import STEP_S, LiveFigure
from marey.locomotion.live import GHOST_TIMES_S, JUMP_KINDS, MAX_TAKE_S, LiveWalk
from marey.locomotion.live import RANGES as WALK_RANGES
from marey.pipeline.takes import Tree
from marey.pipeline.tools import (
    DragAnswer,
    Parameter,
    Settings,
    ToolContext,
    ToolResult,
    find_frame,
    need_motion,
    pose_arrays,
    read_point,
    stop_if_cancelled,
)

LIVE_RATE_HZ: Final = 60.0  # steps of a live session a second
FRAME_S: Final = 1.0 / LIVE_RATE_HZ
PUSH: Final[dict[str, Any]] = {
    "part": "chest", "heading_deg": 0.0, "rise_deg": 0.0, "force_n": 200.0, "duration_s": 0.2,
}  # fmt: skip
BALL: Final[dict[str, Any]] = {"part": "chest", "heading_deg": 180.0, "speed_m_s": 8.0, "mass_kg": 2.0}
COMMANDS: Final = Parameter(  # of a live session that is run again
    "commands", "table", shape="rows", help="What was asked for, by step of 1/60 s.",
    columns=(Parameter("step", "int", None, "", 0), Parameter("time_s", "float", None, "s", 0), Parameter("*", "text")),
)  # fmt: skip


class LiveSession(ABC):
    """A session that goes on by frames of ``LIVE_RATE_HZ``; what it obeyed is kept, so that a recipe can run it again.

    The control ``pause`` holds its time, ``single_step`` holds it after one frame, ``over_s`` tells how to obey others.
    """

    def __init__(self) -> None:
        self.step: int = 0
        self.log: list[dict[str, Any]] = []
        self.is_over = False  # whether it has come to its own end
        self._is_paused = False

    @abstractmethod
    def apply(self, changes: Settings) -> None:
        """Obey the controls that changed."""

    @abstractmethod
    def advance(self) -> None:
        """Go on by one frame, and count it in ``step``."""

    @abstractmethod
    def end(self, args: Settings) -> ToolResult:
        """Finish, as a :class:`DragSession` does."""

    def take_frame(self, args: Settings) -> list[str]:
        """Obey the controls and go on by a frame, unless time is held; a sentence for each control that was refused."""
        changes = dict(args)
        is_single = bool(changes.pop("single_step", False))
        self._is_paused = bool(changes.pop("pause", self._is_paused)) or is_single
        done, refused = self.obey(changes)
        if done:
            self.log.append({"step": self.step, **done})
        if is_single or not self._is_paused:
            self.advance()
        return refused

    def obey(self, changes: Settings) -> tuple[dict[str, Any], list[str]]:
        """Obey each control on its own: what was obeyed, and a sentence for each that was refused."""
        shared = {name: changes[name] for name in ("over_s",) if name in changes}
        done, refused = dict[str, Any](), list[str]()
        for name, value in changes.items():
            try:
                self.apply({name: value, **shared})
                done[name] = value
            except (MareyError, TypeError, ValueError, KeyError, AttributeError) as error:
                refused.append(str(error) if isinstance(error, MareyError) else f"'{name}' cannot be {value!r:.80}")
        return done, refused


def replay_session(context: ToolContext, session: LiveSession, settings: Settings) -> ToolResult:
    """Run a live session again: its ``commands`` by ``step`` or ``time_s``, for so many ``seconds``."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in cast(Sequence[Settings], settings["commands"] or ()):
        step = int(row.get("step", round(float(row.get("time_s", 0.0)) * LIVE_RATE_HZ)))
        changes = {name: value for name, value in row.items() if name not in ("step", "time_s")}
        rows.setdefault(step, []).append(changes)
    count = max(2, round(settings["seconds"] * LIVE_RATE_HZ))
    for n in range(count):
        for changes in rows.get(n, ()):
            refused = session.obey(changes)[1]
            if refused:
                raise InputError(f"a command of step {n} cannot be obeyed: {refused[0]}", "Remove it from the recipe")
        session.advance()
        if n % 10 == 0:
            stop_if_cancelled(context)
            context.progress(n / count, f"{n / LIVE_RATE_HZ:.1f} s of {count / LIVE_RATE_HZ:.1f} s")
        if session.is_over:
            break
    return session.end({})


class WalkSession(LiveSession):
    """Characters that are driven step by step; everything that was asked for is kept, so that it can be run again."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        from marey.locomotion import load_model

        super().__init__()
        self.walk = LiveWalk(load_model(), rng=np.random.default_rng(context.seed))
        self._seed = context.seed
        first = {name: settings[name] for name in ("speed", "run", "turn_rate", "leg_length_m", "style")}
        self._first = {name: value for name, value in first.items() if value not in (None, {}, "")}
        self.apply({**self._first, "over_s": 0.0})
        self.walk.active_character.record(True)

    def move(self, args: Settings) -> DragAnswer:
        """Obey, and go on by one step of 1/60 s; ``ghosts`` asks for poses ahead."""
        refused = self.take_frame({name: value for name, value in args.items() if name != "ghosts"})
        walker, walk = self.walk.active_character, self.walk
        arrays = pose_arrays(walker.pose)
        goals, are_down = walker.goals()
        arrays |= {"goals": goals, "goals_down": are_down.astype(np.float64)}
        others = [one.pose for one in walk.walkers if one is not walker]
        if others:
            arrays["other_roots"] = np.stack([pose.root_position for pose in others])
            arrays["other_rotations"] = np.stack([pose.rotations.wxyz for pose in others])
        if args.get("ghosts"):
            ahead = [walker.engine.predict(tau) for tau in GHOST_TIMES_S]
            arrays["ghost_roots"] = np.stack([pose.root_position for pose in ahead])
            arrays["ghost_rotations"] = np.stack([pose.rotations.wxyz for pose in ahead])
        # What the page shows beside the figure
        prints = [[p.side, *p.position.tolist(), p.heading_rad] for p in walker.engine.footprints[-8:]]
        things = [{"words": one.words, "label": one.label} | _box(one.obstacle) for one in walker.obstacles()]
        return DragAnswer(
            arrays,
            {
                "time_s": self.step / LIVE_RATE_HZ,
                "state": walker.engine.state,
                "speed_mps": walker.engine.speed,
                "heading_rad": walker.engine.heading_rad,
                "asked": dict(walker.asked),
                "styles": dict(walker.styles),
                "footprints": prints,
                "obstacles": things,
                "remarks": list(walker.remarks),
                "step_ms": walker.step_ms,
                "characters": [one.name for one in self.walk.walkers],
                "selected": walker.name,
                "refused": refused,
            },
        )

    def end(self, args: Settings) -> ToolResult:
        """The recording of the driven character, and the recipe that gives it again."""
        motion = replace(self.walk.active_character.finished_take(), name="walk")
        settings = {**self._first, "commands": self.log, "seconds": self.step / LIVE_RATE_HZ}
        recipe = {"tool": "walk", "settings": settings, "seed": self._seed}
        return ToolResult(motion, text=f"{motion.duration_s:.2f} s of walking", report={"recipe": recipe})

    def advance(self) -> None:
        """One step of all characters."""
        if self.step >= MAX_TAKE_S * LIVE_RATE_HZ:
            raise InputError(f"a walk of {MAX_TAKE_S:g} s", "End it, and begin a new one")
        self.walk.single_step()
        self.step += 1

    def apply(self, changes: Settings) -> None:
        """Obey the controls that changed."""
        walk = self.walk
        over_s = clamp_value(float(changes.get("over_s", 0.5)), (0.0, 10.0), "the time to reach it")
        for name, value in changes.items():
            walker = walk.active_character
            if name in WALK_RANGES:
                walker.ask(name, float(value), over_s)
            elif name == "style":
                mixture = {str(value): 1.0} if isinstance(value, str) else dict(cast(Tree, value))
                if isinstance(value, str):
                    mixture = {style: float(style == value) for style in walker.styles} | mixture
                for style, weight in sorted(mixture.items(), key=lambda item: -float(item[1])):
                    walker.ask_style(style, float(weight), over_s)
            elif name == "jump":
                row = cast(Tree, value)
                walker.jump(float(row.get("length_m", 1.0)), str(row.get("kind", JUMP_KINDS[0])))
            elif name in CONTROLS:
                CONTROLS[name](walk, value)
            elif name not in ("over_s", "step"):
                raise UnknownNameError("control", name, "a walk", (*WALK_RANGES, "style", "jump", *CONTROLS))


CONTROLS: Final[dict[str, Callable[[LiveWalk, Any], None]]] = {
    "cancel_jump": lambda walk, _: walk.cancel_jump(),
    "obstacle": lambda walk, _: walk.drop_obstacle(),
    "clear_obstacles": lambda walk, _: walk.clear_obstacles(),
    "hold_feet": lambda walk, on: walk.active_character.hold_feet(bool(on)),
    "add": lambda walk, _: (walk.add(), walk.active_character.record(True))[0],
    "remove": lambda walk, _: walk.remove(),
    "select": lambda walk, name: walk.select(str(name)),
    "record": lambda walk, on: walk.active_character.record(bool(on)),
}


def _box(obstacle: Any) -> dict[str, Any]:
    names = ("position", "heading_rad", "length_m", "width_m", "height_m", "depth_m")
    found = {name: getattr(obstacle, name) for name in names if hasattr(obstacle, name)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


class SimulationSession(LiveSession):
    """A figure that obeys physics, step by step: pulled, pushed, thrown at; what was done to it is kept."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        super().__init__()
        motion = need_motion(context, settings)
        chosen = SimulationSettings().with_mode(settings["mode"]).with_feet(settings["feet"])
        for name in (*RANGES, *FLAGS):
            chosen = chosen.with_value(name, settings[name])
        self.figure = LiveFigure(FigureFactory(motion), find_frame(motion, settings["time_s"]), chosen)
        self.figure.toggle_record()
        self._settings = {name: settings[name] for name in ("motion", "time_s", "mode", "feet", *RANGES, *FLAGS)}
        self._impulse = np.zeros(3)  # [N s] of the ground in the last frame

    def move(self, args: Settings) -> DragAnswer:
        """Obey, and go on by one frame of 1/60 s."""
        refused = self.take_frame(args)
        figure, stand = self.figure, self.figure.standing()
        arrays = pose_arrays(figure.pose) | {"com": stand.com, "support": stand.corners}
        forces = [
            (*figure.simulator.mechanics().joints[self._joint(f.joint)], *f.force_n) for f in figure.visible_forces()
        ]
        arrays["forces"] = np.array(forces).reshape(-1, 6)
        arrays["balls"] = np.array([ball.place for ball in figure.balls]).reshape(-1, 3)
        table = figure.trace.table()
        facts = {
            "time_s": figure.time_s, "words": figure.controller.words, "margin_m": stand.margin_m,
            "step_ms": figure.step_ms,
            "remarks": list(figure.remarks), "energy": table[-1, 1:4].tolist(), "momentum": table[-1, 4:7].tolist(),
            "angular_momentum": table[-1, 7:10].tolist(), "refused": refused,
            "ground_force": (self._impulse / (FRAME_S * figure.simulator.body.weight_n)).tolist(),
        }  # fmt: skip
        return DragAnswer(arrays, facts)

    def _joint(self, joint: str | int) -> int:
        return joint if isinstance(joint, int) else self.figure.clip.skeleton.index(joint)

    def end(self, args: Settings) -> ToolResult:
        """The recording, and the recipe that gives it again."""
        motion = self.figure.finished_take()
        settings = {**self._settings, "commands": self.log, "seconds": self.step * FRAME_S}
        recipe = {"tool": "simulate", "settings": settings, "seed": 0}
        return ToolResult(motion, text=f"{motion.duration_s:.2f} s simulated", report={"recipe": recipe})

    def advance(self) -> None:
        """So many steps of the simulator that the clock of frames is kept."""
        first, last = (int(n * FRAME_S / STEP_S + 1e-6) for n in (self.step, self.step + 1))
        self._impulse = np.zeros(3)
        for _ in range(last - first):
            self.figure.single_step()
            done = [one.outcome for one in self.figure.simulator.steps_made if one.outcome is not None]
            self._impulse += sum((one.contacts.impulses.sum(axis=0) for one in done), np.zeros(3))
        self.is_over = not self.figure.is_recording  # the clip that was followed has come to its end
        self.step += 1

    def apply(self, changes: Settings) -> None:
        """Obey the controls that changed."""
        figure = self.figure
        for name, value in changes.items():
            if name in (*RANGES, *FLAGS):
                figure.ask(name, float(value))
            elif name == "push":
                figure.push(**(PUSH | dict(cast(Tree, value))))
            elif name == "throw":
                figure.throw(**(BALL | dict(cast(Tree, value))))
            elif name == "grab":
                grip = cast(Tree, value)
                figure.grab(self._joint(grip["joint"]), read_point(grip["place"], "place"))
            elif name in FIGURE_CONTROLS:
                FIGURE_CONTROLS[name](figure, value)
            elif name != "step":
                known = (*RANGES, *FLAGS, "push", "throw", "grab", *FIGURE_CONTROLS)
                raise UnknownNameError("control", name, "a simulation", known)


FIGURE_CONTROLS: Final[dict[str, Callable[[LiveFigure, Any], None]]] = {
    "pull": lambda figure, place: figure.pull(read_point(place, "place")),
    "release": lambda figure, _: figure.release(),
    "mode": lambda figure, mode: figure.choose(str(mode)),
    "feet": lambda figure, feet: figure.stand_on(str(feet)),
    "restart": lambda figure, _: figure.start(),
}
