"""`marey graph`: clips become a motion graph, and the graph is searched for a sketch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    expand_inputs,
    group_notes,
    print_json,
    progress_bar,
    read_motion,
    remark,
    warn,
    write_motion,
    write_strip,
)
from marey.cli.options import Count, Json, MotionOut, Strip, option, parse_numbers

if TYPE_CHECKING:
    from marey.graph import MotionGraph, SearchSolution
    from marey.motion import Motion


app = typer.Typer(help="Build and search motion graphs.", no_args_is_help=True, rich_markup_mode=None)

DEMO = "demo"
CLIPS_WORTH_PROCESSES = 12  # fewer are ready before a second process has loaded its kernels
Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="Graph file, or 'demo'.", show_default=False)]


@app.command()
def build(
    clips: Annotated[
        list[str], typer.Argument(metavar="CLIPS...", help="Libraries, motion files, folders of them, or 'demo'.")
    ],
    out: Annotated[str, option("Graph file to write (.safetensors).", "-o", "--out", suffixes=(".safetensors",))],
    tag: Annotated[list[str] | None, option("Of a library: only this tag; repeatable.", "--tag", "-t")] = None,
    behaviour: Annotated[str | None, option("Of a library: walk, jump, ...", "--behaviour", "-b")] = None,
    subject: Annotated[str | None, option("Of a library: only clips of this subject.")] = None,
    mirror: Annotated[bool | None, option("Take mirror images too.", "--mirror/--no-mirror")] = None,
    setting: Annotated[
        list[str] | None, option("A setting of the build; repeatable.", "--set", metavar="NAME=VALUE")
    ] = None,
    workers: Annotated[int | None, option("Processes; one a core where there are many clips.", min=1, max=256)] = None,
    cluster: Annotated[str | None, option("Dask scheduler, tcp://host:port.", metavar="ADDRESS")] = None,
    resume: Annotated[str | None, option("Keeps what is ready if the run stops.", metavar="FOLDER")] = None,
    packed: Annotated[bool, option("A twentieth of the size; poses to 0.2 mm.", "--packed")] = False,
    json: Json = False,
) -> None:
    """Build a motion graph of clips and write it.

    Clips of a library are those that all conditions hold for. `--set density=20` and the like change thresholds.
    """
    from marey.base import count_cores
    from marey.graph import build_graph, save_graph
    from marey.library import Library, Query, is_library
    from marey.samples import DEMO_SETTINGS, demo_clips

    # Settings by name; the demo clips have their own to begin with
    settings: dict[str, Any] = dict(DEMO_SETTINGS) if DEMO in clips else {}
    for one in setting or []:
        name, is_pair, value = one.partition("=")
        if not is_pair:
            raise typer.BadParameter(f"'{one}' is not a setting: write name=value.")
        # A truth value, a number, or a text
        settings[name.strip()] = {"true": True, "false": False}.get(value.strip(), value.strip())
        for kind in (float, int):
            with suppress(ValueError):
                settings[name.strip()] = kind(value)
    if mirror is not None:
        settings["mirror"] = mirror
    # Clips of libraries, files and folders, in the order given
    conditions = Query(tuple(tag or ()), behaviour, subject)
    motions: list[Motion] = []
    for source in clips:
        if source == DEMO and not Path(source).exists():
            motions += demo_clips()
        elif is_library(source):
            with Library(source, create=False) as store:
                motions += [store.load(record.id) for record in store.clips(conditions)]
        else:
            motions += [read_motion(file) for file in expand_inputs([source])]
    if not motions:
        raise typer.BadParameter("no clip meets all conditions.")
    workers = workers or (count_cores() if len(motions) >= CLIPS_WORTH_PROCESSES else 1)
    with progress_bar("prepare clips") as progress:
        graph = build_graph(
            motions, workers=workers, cluster=cluster, resume=resume, on_progress=progress, **settings
        )  # fmt: skip
    save_graph(graph, out, is_packed=packed)
    for note in group_notes(graph.notes):
        warn(note)
    remark(f"wrote {out}")
    _print_report(graph, {"graph": out, "clips": len(motions)}, is_json=json)


@app.command()
def info(graph: Graph, json: Json = False) -> None:
    """Say how large a graph is and which events it reaches."""
    _print_report(_load_graph(graph), {"graph": graph}, is_json=json)


@app.command()
def search(
    graph: Graph,
    sketch: Annotated[str, typer.Argument(metavar="SKETCH", help="Sketch file (TOML), or a shipped name.")],
    out: MotionOut = None,
    k: Annotated[int, option("Motions that may be blended.", min=1, max=2)] = 2,
    epsilon: Annotated[str | None, option("Falling factors, such as 3,2,1.", metavar="LIST")] = None,
    budget_s: Annotated[float, option("Time for the search [s].", min=0.01)] = 20.0,
    heuristic: Annotated[str | None, option("Lower bound of the cost: legs, cycle, 2d, ...")] = None,
    strip: Strip = None,
    count: Count = 12,
    json: Json = False,
) -> None:
    """Search a graph for the path of a sketch, and report its cost and bound.

    `marey synth` does more: it also brings hands to the millimetre and checks the motion.
    """
    from marey.world import load_sketch

    options: dict[str, Any] = {"k": k, "budget_s": budget_s}
    # The search lowers its factor along the list as long as there is time
    if epsilon is not None:
        options["epsilon"] = tuple(parse_numbers(epsilon, "numbers", "3,2,1"))
    if heuristic is not None:
        options["heuristic"] = heuristic

    def report_solution(one: SearchSolution) -> None:
        effort = f"{one.expansions} expansions, {one.seconds:.2f} s"
        remark(f"epsilon {one.epsilon:g}: cost {one.cost:.2f}, {effort}")

    options |= {} if json else {"on_solution": report_solution}
    wanted = load_sketch(sketch)
    found = _load_graph(graph).search(wanted, **options)
    motion = found.motion if found.steps and (out or strip) else None
    if motion is not None:
        write_motion(motion, out)
        write_strip(motion, strip, count, world=wanted)
    if json:
        # Every improvement of the search, in the order found
        history = [
            {"epsilon": s.epsilon, "cost": s.cost, "expansions": s.expansions, "seconds": s.seconds}
            for s in found.history
        ]
        way = {"cost": found.cost, "epsilon": found.epsilon, "steps": len(found.steps), "errors_m": list(found.errors)}
        print_json(
            {
                "graph": graph,
                "sketch": sketch,
                "out": out,
                "status": found.status,
                "stopped": found.stopped,
                "expansions": found.expansions,
                "seconds": found.seconds,
                "history": history,
                "advice": found.advice,
                **(way if found.steps else {}),
            }
        )
    elif not found.steps:
        typer.echo(f"no way: {found.status}. {found.advice}")
    else:
        best = "the best" if found.epsilon <= 1.0 else f"at most {found.epsilon:.2f} times the best"
        effort = f"{len(found.steps)} steps, {found.expansions} expansions, {found.seconds:.2f} s"
        typer.echo(f"{found.status}: cost {found.cost:.2f}, {best}; {effort}")
    raise typer.Exit(0 if found.steps else 1)


def _load_graph(graph: str) -> MotionGraph:
    if graph == DEMO and not Path(graph).exists():
        from marey.samples import demo_graph

        return demo_graph()
    from marey.graph import load_graph

    return load_graph(graph)


def _print_report(graph: MotionGraph, facts: dict[str, Any], *, is_json: bool) -> None:
    from collections import Counter
    from dataclasses import asdict

    from marey.graph import graph_report

    report = graph_report(graph)
    if is_json:
        # How many runs of poses each behaviour has
        behaviours = dict(sorted(Counter(graph.database.behaviours).items()))
        print_json({**facts, **asdict(report), "behaviours": behaviours})
    else:
        typer.echo("\n".join(report.lines()))
