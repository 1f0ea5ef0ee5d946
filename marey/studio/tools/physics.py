"""Tools of physics: the report as bands, repair of a range as a ghost, edits within the laws, jumps and problems."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.dynamics import check_validity, make_overlay
from marey.motion import find_runs, mix_motions
from marey.numerics import SQPIteration
from marey.pipeline.recipes import format_toml
from marey.pipeline.takes import Tree
from marey.pipeline.tools import (
    DragAnswer,
    Parameter,
    Settings,
    Tool,
    ToolContext,
    ToolResult,
    find_frame,
    need_motion,
    read_point,
    stretch_arrays,
)
from marey.samples import problem_file, problem_names
from marey.studio.tools.clips import MOTION

if TYPE_CHECKING:
    from marey.spacetime import SpacetimeProblem

QUOTA_S: Final = (0.05, 1.0)  # of searching for one answer of a drag; more where no iteration fits in
SHOWN_S: Final = 1.5  # [s] to both sides of a pin that a drag answers with
CHANGED_M: Final = 1e-5  # [m] frames in which a joint moved by more belong to a repaired interval
POSE_COLUMNS: Final = (
    Parameter("phase", "text", is_required=True),
    Parameter("at", "float", 1.0, "", 0.0, 1.0),
    Parameter("motion", "clip", is_required=True),
    Parameter("at_s", "float", 0.0, "s", 0.0, is_required=True),
)
FRICTION: Final = Parameter("friction", "float", 0.8, "", 0.0, 10.0, help="Friction coefficient of the floor.")


def _check(context: ToolContext, settings: Settings) -> ToolResult:
    motion = need_motion(context, settings)
    report = check_validity(motion, friction=settings["friction"], floor=settings["floor"])
    return ToolResult(
        None, [span.to_json() for span in report.spans], report.verdict, report=report.to_json(frames=False)
    )


def listen(context: ToolContext, most: int, what: str) -> Callable[[SQPIteration], bool]:
    """A listener of a search that tells its progress and ends it when it is cancelled, or after so many iterations."""

    def hear(step: SQPIteration) -> bool:
        words = f"{what}: iteration {step.index}, violation {step.violation:.1e}, objective {step.objective:.3g}"
        context.progress(min(step.index / most, 0.99), words)
        return context.cancelled or step.index >= most

    return hear


def _repair(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.spacetime import make_valid

    motion = need_motion(context, settings)
    start, stop = settings["range_s"] or (None, None)
    most = settings["iterations"]
    context.progress(0.02, "checking the clip")
    result = make_valid(
        motion, start_s=start, stop_s=stop, friction=settings["friction"], max_iterations=most,
        on_iteration=listen(context, 3 * most, "repair"), on_failure="return",
    )  # fmt: skip
    # Intervals that changed are what the user accepts or refuses
    moved = np.linalg.norm(result.motion.joint_positions() - motion.joint_positions(), axis=-1).max(axis=1)
    rate = motion.rate_hz
    intervals = [[a / rate, (b - 1) / rate] for a, b in find_runs(moved > CHANGED_M, 0)]
    report = {**result.to_json(), "intervals": intervals, "most_mm": 1e3 * float(moved.max(initial=0.0))}
    report |= {"before": result.before.to_json(frames=False), "after": result.after.to_json(frames=False)}
    return ToolResult(result.motion, [], result.sentence, report=report)


def _accept(context: ToolContext, settings: Settings) -> ToolResult:
    motion, repaired = need_motion(context, settings), need_motion(context, settings, "repaired")
    weights = np.zeros(motion.num_frames)
    times, ease = motion.times(), max(settings["ease_s"], 1e-9)
    for row in cast(list[Any], settings["intervals"] or []):
        a, b = cast(list[float], row) if isinstance(row, list) and len(cast(list[Any], row)) == 2 else (1.0, 0.0)
        if a > b:
            raise InputError("an interval without beginning and end", "Give [start_s, stop_s]")
        # Full inside the interval; it fades outside of it, where both clips are the same unless it was cut in two
        outside = np.maximum(np.maximum(a - times, times - b), 0.0) / ease
        u = np.clip(1.0 - outside, 0.0, 1.0)
        # The polynomial may exceed one by rounding
        weights = np.maximum(weights, np.minimum(u * u * u * (u * (6.0 * u - 15.0) + 10.0), 1.0))
    made = mix_motions(motion, repaired, settings["strength"] * weights)
    report = check_validity(made)
    return ToolResult(
        made, [span.to_json() for span in report.spans], report.verdict, report=report.to_json(frames=False)
    )


class ValidDrag:
    """A point of the body under the pointer, while contacts can still carry the motion."""

    def __init__(self, context: ToolContext, settings: Settings) -> None:
        from marey.spacetime import ValidEditor

        self._settings = settings
        self._motion = need_motion(context, settings)
        start, stop = settings["range_s"] or (None, None)
        time_s = self._time_s = float(settings["time_s"])
        reach = settings["around_s"]
        start = max(0.0, time_s - reach) if start is None else start
        stop = min(self._motion.duration_s, time_s + reach) if stop is None else stop
        self._editor = ValidEditor(
            self._motion, start_s=start, stop_s=stop, friction=settings["friction"], physics=settings["physics"]
        )
        self._place: FloatArray | None = None
        self._quota_s, self._violation = QUOTA_S[0], np.inf

    def move(self, args: Settings) -> DragAnswer:
        """Bring the point to ``target`` [m], and search for a moment."""
        from marey.spacetime import PointPin

        target = self._place if args.get("target") is None else read_point(args["target"], "target")
        if target is None:
            raise InputError("no target", "Drag the point somewhere")
        if self._place is None or not np.array_equal(target, self._place):
            self._editor.pin(PointPin(self._settings["point"], self._time_s, target))
            self._place, self._violation = target, np.inf
        iterate = self._editor.improve(self._quota_s)
        if iterate.violation == self._violation:
            self._quota_s = min(2.0 * self._quota_s, QUOTA_S[1])
        self._violation = iterate.violation
        made = iterate.motion
        first, last = (find_frame(made, self._time_s + side * SHOWN_S) for side in (-1.0, 1.0))
        facts = {"first": first, "violation": float(iterate.violation), "objective": float(iterate.objective)}
        return DragAnswer(stretch_arrays(made[first : last + 1]), facts)

    def end(self, args: Settings) -> ToolResult:
        """The pin, as an edit of the take: solved to its end when the take is made."""
        if args.get("target") is not None:
            self._place = read_point(args["target"], "target")
        if self._place is None:
            return ToolResult(text="nothing moved")
        edit = {"kind": "pin", "point": self._settings["point"], "time_s": self._time_s}
        edit |= {"place": self._place.tolist(), "physics": self._settings["physics"]}
        return ToolResult(text=f"{edit['point']} pinned", report={"edit": edit})


def _solve(context: ToolContext, settings: Settings, problem: Any, what: str) -> ToolResult:
    from marey.spacetime import optimize

    most = settings["iterations"]
    warm = context.motion(settings["warm_start"]) if settings.get("warm_start") else None
    context.progress(0.02, f"{what}: setting up")
    result = optimize(problem, warm_start=warm, on_iteration=listen(context, most, what), on_failure="return")
    rows = [{"constraint": name, "missed": value} for name, value in result.worst]
    report = {**result.to_json(), "validity": check_validity(result.motion, cutoff_hz=None).to_json(frames=False)}
    return ToolResult(result.motion, rows, result.sentence, report=report)


def _jump(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.samples import jump_problem

    wanted = {name: settings[name] for name in ("length_m", "rise_m", "turn_deg")}
    return _solve(context, settings, jump_problem(**wanted), "jump")


def _problem(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.spacetime import load_problem

    own, rows = settings["own"], cast(list[Tree], settings["poses"] or [])
    if not own and not rows:
        return _solve(context, settings, load_problem(settings["problem"]), settings["problem"])
    tree: Any = own or tomllib.loads(problem_file(settings["problem"]).read_text(encoding="utf-8"))
    if rows:
        # Poses of the timeline are keys beside those of the problem
        poses = [
            {"kind": "pose", "phase": row["phase"], "at": row.get("at", 1.0), "pose": f"{row['motion']}@{row['at_s']}"}
            for row in rows
        ]
        tree = {**tree, "key": [*tree.get("key", ()), *poses]}
    with tempfile.TemporaryDirectory(prefix="marey-problem-") as folder:
        return _solve(context, settings, read_own_problem(context, tree, Path(folder)), "problem")


def read_own_problem(context: ToolContext, own: Any, folder: Path) -> SpacetimeProblem:
    """A problem of a page: its poses and its body are motions of the project, written into a folder.

    Raises:
        InputError: it names a file, or a motion that the project does not have.
    """
    from marey.io import save
    from marey.spacetime import parse_problem

    def fetch(name: str) -> str:
        file = folder / f"{len(list(folder.iterdir()))}.safetensors"
        save(context.motion(name), file)
        return str(file)

    if not isinstance(own, dict):
        raise InputError("'own' of 'problem' is no tree", "Give the tables of a problem file")
    problem = parse_problem(format_toml(cast(Tree, own)), file="problem")
    shipped = {Path(str(entry)).stem for entry in (files("marey.spacetime") / "behaviours").iterdir()}
    if problem.basis and problem.basis.removesuffix(".safetensors") not in shipped:
        raise InputError(f"the basis '{problem.basis}' is a file of this machine", "Name one that ships, such as jump")
    keys = tuple(
        replace(key, pose=f"{fetch(key.pose.rpartition('@')[0])}@{key.pose.rpartition('@')[2]}") if key.pose else key
        for key in problem.keys
    )
    is_shipped = problem.character in ("fang22", "fang7")
    return replace(problem, keys=keys, character=problem.character if is_shipped else fetch(problem.character))


_RANGE: Final = Parameter("range_s", "range", None, "s", 0.0, help="Range that may change; the whole clip by default.")
_ITERATIONS: Final = Parameter("iterations", "int", 150, "", 1, 1000, help="Most iterations; the best is kept.")
TOOLS: Final = (
    Tool(
        "physics", "Physics", "Check", "Say which stretches a body could have made, and what is wrong with others.",
        "ask", _check,
        (MOTION, FRICTION, Parameter("floor", "choice", "flat", choices=("flat", "plants"),
                                    help="One level, or a level for each foot plant, as on stairs.")), "f",
    ),
    Tool("overlay", "Forces", "", "Forces, centre of mass and of pressure, to draw.", "ask",
         lambda context, settings: ToolResult(arrays=make_overlay(check_validity(need_motion(context, settings)))),
         (MOTION,)),
    Tool(
        "repair", "Repair", "Physics", "Move a range as little as needed so that a body could make it.", "job",
        _repair,
        (MOTION, _RANGE, FRICTION,
         Parameter("iterations", "int", 25, "", 1, 200, help="Most iterations of each pass.")),
    ),
    Tool(
        "accept", "Accept a repair", "Physics", "Take the ghost in some intervals, and leave the others.", "job",
        _accept,
        (
            MOTION,
            Parameter("repaired", "take", help="The ghost."),
            Parameter("intervals", "points", None, "s", help="Rows of [start_s, stop_s] that are accepted."),
            Parameter("strength", "float", 1.0, "", 0.0, 1.0, help="Share of the repair, 0 to 1."),
            Parameter("ease_s", "float", 0.2, "s", 0.0, 5.0, help="Time over which an end of an interval fades."),
        ),
    ),
    Tool(
        "edit", "Valid edit", "Physics", "Drag a joint at one time; the motion stays physically valid.", "drag",
        ValidDrag,
        (
            MOTION,
            Parameter("point", "text", "", help="left_hand, right_toe, ... or a joint."),
            Parameter("time_s", "float", 0.0, "s", 0.0, help="When: the playhead."),
            _RANGE,
            Parameter("around_s", "float", 1.0, "s", 0.1, 10.0, help="Reach in time of the change, without a range."),
            FRICTION,
            Parameter("physics", "bool", True, help="Keep contact forces possible."),
        ),
    ),
    Tool(
        "jump", "Jump", "Physics", "A jump from standing to standing.", "job", _jump,
        (
            Parameter("length_m", "float", 1.0, "m", 0.3, 1.8, help="Length of the jump."),
            Parameter("rise_m", "float", 0.25, "m", 0.1, 0.5, help="Rise of the centre of mass in the air."),
            Parameter("turn_deg", "float", 0.0, "°", -360.0, 360.0, help="Turn in the air; positive to the left."),
            _ITERATIONS,
        ),
    ),
    Tool(
        "problem", "Problem", "Physics", "Solve a space-time problem: phases, contacts, keys.", "job", _problem,
        (
            Parameter("problem", "choice", "jump-1.0", choices=problem_names(), help="Shipped problem."),
            Parameter("poses", "table", shape="rows", columns=POSE_COLUMNS, help="Poses of the timeline as keys."),
            Parameter("own", "table", help="Your own problem: the tables of a problem file; poses are take@seconds."),
            Parameter("warm_start", "clip", help="Motion to start the search from."),
            _ITERATIONS,
        ),
    ),
)  # fmt: skip
