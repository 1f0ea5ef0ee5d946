"""Tools that make motions of people who walk: from a sketch, live under the hand, and from a script."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from marey.base import InputError
from marey.locomotion.live import MAX_TAKE_S, RANGES
from marey.pipeline import ENGINES, choose_engine, synthesize_sketch
from marey.pipeline.live import COMMANDS, WalkSession, replay_session
from marey.pipeline.recipes import format_toml
from marey.pipeline.takes import Tree
from marey.pipeline.tools import Parameter, Settings, Tool, ToolContext, ToolResult, stop_if_cancelled
from marey.samples import script_names, sketch_file, sketch_names

if TYPE_CHECKING:
    from marey.graph import MotionGraph, SearchSolution
    from marey.motion import Motion

WAY_POINTS: Final = 120  # of the way of a solution that is drawn
SCHEDULE: Final = (3.0, 2.0, 1.5, 1.2, 1.0)


def _show_sketch(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.world import load_sketch

    path = Path(context.file(settings["file"])) if settings["file"] else sketch_file(settings["name"])
    sketch = load_sketch(path)  # mistakes are named with their line
    return ToolResult(text=sketch.name, report={"sketch": tomllib.loads(path.read_text(encoding="utf-8-sig"))})


def _synthesize(context: ToolContext, settings: Settings) -> ToolResult:
    # The sketch of a tool's settings, of the project, or a shipped one
    from marey.world import load_sketch, parse_sketch

    tree = settings["sketch"] or (None if settings["shipped"] else context.project.get("sketch"))
    if not tree and not settings["shipped"]:
        raise InputError("there is no sketch", "Draw a path, or choose one that ships")
    sketch = parse_sketch(format_toml(cast(Tree, tree)), file="sketch") if tree else load_sketch(settings["shipped"])
    graph = None
    wanted = settings["engine"]
    engine = choose_engine(sketch, settings["graph"] or None) if wanted == "auto" else wanted
    if engine == "graph":
        graph = _get_graph(context, settings)
    context.progress(0.2, f"{engine}: starting")
    options: dict[str, Any] = {"touch_up": settings["touch_up"]}
    others: dict[str, Motion] = {}
    ways: list[dict[str, Any]] = []
    if engine == "graph":
        least = settings["epsilon"]

        # A listener of the search that keeps the way of each solution, and shows all of them
        def hear(solution: SearchSolution) -> bool:
            places = solution.places[:: 1 + len(solution.places) // WAY_POINTS]
            ways.append({"k": solution.k, "cost": solution.cost, "places": np.round(places, 3).tolist()})
            share = 0.3 + 0.6 * (SCHEDULE[0] - min(max(solution.proved, 1.0), SCHEDULE[0])) / (SCHEDULE[0] - 1.0)
            bound = f"within {solution.proved:.2f} of the best" if np.isfinite(solution.proved) else "not bounded yet"
            context.progress(share, f"k = {solution.k}: cost {solution.cost:.2f}, {bound}", ways=ways)
            return context.cancelled

        options |= {"k": settings["k"], "budget_s": settings["budget_s"], "on_solution": hear}

        def show(motion: Motion, found: SearchSolution) -> None:
            context.partial(replace(motion, name=f"k = {found.k}"))

        options["on_motion"] = show
        options["epsilon"] = tuple(level for level in SCHEDULE if level >= least)
        if settings["compare"] and settings["k"] == 2:
            unblended: dict[str, Any] = options | {"k": 1}
            plain = synthesize_sketch(sketch, "graph", graph=graph, **unblended).motion
            if plain is not None:
                others["k = 1"] = replace(plain, name="k = 1")
                context.partial(others["k = 1"])
            stop_if_cancelled(context)
    elif engine == "locomotion" and settings["style"]:
        options["style"] = settings["style"]
    result = synthesize_sketch(sketch, wanted if wanted == "auto" and graph is None else engine, graph=graph, **options)
    stop_if_cancelled(context)
    if result.motion is None:
        raise InputError(f"no motion for '{sketch.name}': {result.status}", result.advice)
    found = () if result.search is None else result.search.history
    rows = [{"k": s.k, "epsilon": s.epsilon, "cost": s.cost, "expansions": s.expansions} for s in found]
    names = ("status", "engine", "broken", "remarks", "way_m")
    report: dict[str, Any] = {name: getattr(result, name) for name in names} | {"ways": ways}
    if result.validity is not None:
        report["validity"] = result.validity.to_json(frames=False)
    if result.search is not None:
        # A search that ran out of time may end elsewhere on another machine
        report["is_repeatable"] = result.search.stopped != "TIMEOUT"
    return ToolResult(result.motion, rows, result.sentence, report=report, motions=others)


def _get_graph(context: ToolContext, settings: Settings) -> MotionGraph:
    if settings["graph"]:
        from marey.graph import load_graph

        return load_graph(context.file(settings["graph"]))
    from marey.samples import demo_graph

    return demo_graph()


def _perform(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.locomotion import load_script, perform_script

    context.progress(0.1, "playing the script")
    done = perform_script(load_script(context.file(settings["file"]) if settings["file"] else settings["script"]))
    return ToolResult(done.motion, text=getattr(done.report, "sentence", ""), report={"warnings": list(done.warnings)})


def _list_styles(context: ToolContext, settings: Settings) -> ToolResult:
    from marey.locomotion import load_model

    model = load_model()
    rows = [{"style": name, "label": label} for name, label in zip(model.styles, model.labels, strict=True)]
    return ToolResult(None, rows, f"{len(rows)} styles")


TOOLS: Final = (
    Tool(
        "path", "Path", "Make", "Make a motion of the sketch: way-points, walls, rivers, stones, picks and jumps.",
        "job", _synthesize,
        (
            Parameter("sketch", "table", help="The tree of a sketch file; that of the project without it."),
            Parameter("shipped", "choice", "", choices=("", *sketch_names()), help="Or a sketch that ships."),
            Parameter("engine", "choice", "auto", choices=ENGINES, help="Engine; auto takes the first that can."),
            Parameter("graph", "file", help="Your own motion graph, in place of the shipped one."),
            Parameter("k", "int", 2, "", 1, 2, help="Number of motions that the graph blends."),
            Parameter("compare", "bool", False, help="Show the motion without blending (k = 1) as a ghost beside it."),
            Parameter("epsilon", "float", 1.0, "", 1.0, 3.0, help="The search ends within this factor of the optimum."),
            Parameter("budget_s", "float", 10.0, "s", 1.0, 120.0, help="Time limit of the search."),
            Parameter("style", "text", "", help="Walking style of the locomotion engine."),
            Parameter("touch_up", "bool", False, help="Repair stretches that break physics."),
        ), "g",
    ),
    Tool(
        "walk", "Walk", "Make", "Drive a character live: speed, turn, style, jumps, obstacles. It is recorded.",
        "live", WalkSession,
        (
            Parameter("speed", "float", 0.0, "m/s", *RANGES["speed"], help="Speed."),
            Parameter("run", "float", 0.0, "", 0.0, 1.0, help="0 walks, 1 runs."),
            Parameter("turn_rate", "float", 0.0, "rad/s", *RANGES["turn_rate"], help="Positive to the left."),
            Parameter("leg_length_m", "float", None, "m", *RANGES["leg_length_m"], help="Size: hip to floor."),
            Parameter("style", "text", "", help="A style of the model."),
            COMMANDS,
            Parameter("seconds", "float", 5.0, "s", 0.05, MAX_TAKE_S, help="Duration of the walk in a recipe."),
        ), "w", lambda context, settings: replay_session(context, WalkSession(context, settings), settings),
    ),
    Tool(
        "script", "Script", "Make", "Play a script of actions, transitions and jumps.", "job", _perform,
        (
            Parameter("script", "choice", "walk", choices=script_names(), help="One that ships."),
            Parameter("file", "file", help="Or your own script file (TOML, XML)."),
        ),
    ),
    Tool(
        "shipped_sketch", "Open a sketch", "", "A sketch that ships, or your own, to draw on.", "ask", _show_sketch,
        (
            Parameter("name", "choice", "s-curve", choices=sketch_names(), help="One that ships."),
            Parameter("file", "file", help="Or your own sketch file (TOML)."),
        ),
    ),
    Tool("styles", "Styles", "", "List the walking styles.", "ask", _list_styles),
)  # fmt: skip
