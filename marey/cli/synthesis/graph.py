"""`marey graph`: clips become a motion graph, and the graph is searched for a sketch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    Json,
    check_target,
    check_targets,
    print_json,
    progress_bar,
    read_motion,
    remark,
    write_motion,
    write_strip,
)

if TYPE_CHECKING:
    from marey.graph import MotionGraph, SearchResult, SearchSolution
    from marey.motion import Motion
    from marey.world import Sketch


app = typer.Typer(help="Build and search motion graphs.", no_args_is_help=True, rich_markup_mode=None)

DEMO = "demo"
SUFFIX = ".safetensors"
Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="Graph file, or 'demo'.", show_default=False)]


@app.command()
def build(
    clips: Annotated[
        list[str], typer.Argument(metavar="CLIPS...", help="Libraries, motion files, folders of them, or 'demo'.")
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="Graph file to write (.safetensors).")],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="Of a library: only this tag; repeatable.")
    ] = None,
    behaviour: Annotated[str | None, typer.Option("--behaviour", "-b", help="Of a library: walk, jump, ...")] = None,
    subject: Annotated[str | None, typer.Option(help="Of a library: only clips of this subject.")] = None,
    mirror: Annotated[bool | None, typer.Option("--mirror/--no-mirror", help="Take mirror images too.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the build; repeatable.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 1,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler, tcp://host:port.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="FOLDER", help="Keeps what is ready if the run stops.")] = None,
    json: Json = False,
) -> None:
    """Build a motion graph of clips and write it.

    Clips of a library are those that all conditions hold for. `--set density=20` and the like change thresholds.
    """
    from marey.graph import build_graph, save_graph

    check_target(out, (SUFFIX,))
    # Settings by name; the demo clips have their own to begin with
    from marey.samples import DEMO_SETTINGS

    settings: dict[str, Any] = dict(DEMO_SETTINGS) if DEMO in clips else {}
    for one in setting or []:
        name, is_pair, value = one.partition("=")
        if not is_pair:
            raise typer.BadParameter(f"'{one}' is not a setting: write name=value.")
        settings[name.strip()] = _parse_value(value.strip())
    settings = settings if mirror is None else settings | {"mirror": mirror}
    # Clips of libraries, files and folders, in the order given
    conditions = {"tags": tuple(tag or ()), "behaviour": behaviour, "subject": subject}
    motions: list[Motion] = []
    for source in clips:
        motions += _load_source(source, conditions)
    if not motions:
        raise typer.BadParameter("no clip meets all conditions.")
    with progress_bar("prepare clips") as progress:
        graph = build_graph(
            motions, workers=workers, cluster=cluster, resume=resume, on_progress=progress, **settings
        )  # fmt: skip
    save_graph(graph, out)
    for note in graph.notes:
        remark(note)
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
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, ...")] = None,
    k: Annotated[int, typer.Option(min=1, max=2, help="Motions that may be blended.")] = 2,
    epsilon: Annotated[str | None, typer.Option(metavar="LIST", help="Falling factors, such as 3,2,1.")] = None,
    budget_s: Annotated[float, typer.Option(min=0.01, help="Time for the search [s].")] = 20.0,
    heuristic: Annotated[str | None, typer.Option(help="Lower bound of the cost: combined, cycle, 2d, ...")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 12,
    json: Json = False,
) -> None:
    """Search a graph for the path of a sketch, and report its cost and bound.

    `marey synth` does more: it also brings hands to the millimetre and checks the motion.
    """
    check_targets(out, strip)
    options: dict[str, Any] = {"k": k, "budget_s": budget_s, "on_solution": None if json else _report_solution}
    options |= {} if epsilon is None else {"epsilon": _parse_numbers(epsilon)}
    options |= {} if heuristic is None else {"heuristic": heuristic}
    found = _load_graph(graph).search(_load_sketch(sketch), **options)
    if found.steps:
        _write_result(found, out, strip, count)
    if json:
        print_json({"graph": graph, "sketch": sketch, "out": out, **_search_facts(found)})
    else:
        typer.echo(_search_sentence(found))
    raise typer.Exit(0 if found.steps else 1)


def _parse_value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _load_source(source: str, conditions: dict[str, Any]) -> list[Motion]:
    from marey.base import InputError, MissingFileError
    from marey.io import READABLE_SUFFIXES

    if source == DEMO and not Path(source).exists():
        from marey.samples import demo_clips

        return list(demo_clips())
    if not Path(source).is_dir():
        return [read_motion(source)]
    try:
        return _load_library(source, conditions)
    except MissingFileError:
        files = [file for file in sorted(Path(source).rglob("*")) if file.suffix.lower() in READABLE_SUFFIXES]
    if not files:
        raise InputError(f"'{source}' is not a library and contains no motion files", "Give one that has")
    return [read_motion(str(file)) for file in files]


def _load_library(folder: str, conditions: dict[str, Any]) -> list[Motion]:
    from marey.library import Library, Query

    with Library(folder, create=False) as store:
        return [store.load(record.id) for record in store.clips(Query(**conditions))]


def _load_graph(graph: str) -> MotionGraph:
    if graph == DEMO and not Path(graph).exists():
        from marey.samples import demo_graph

        with progress_bar("make the demo graph") as progress:
            return demo_graph(on_progress=progress)
    from marey.graph import load_graph

    return load_graph(graph)


def _load_sketch(sketch: str) -> Sketch:
    from marey.samples import sketch_file
    from marey.world import load_sketch

    is_name = not Path(sketch).suffix and not Path(sketch).exists() and Path(sketch).name == sketch
    return load_sketch(sketch_file(sketch) if is_name else sketch)


def _parse_numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"'{text}' is not a list of numbers: write 3,2,1.") from error


def _print_report(graph: MotionGraph, facts: dict[str, Any], *, is_json: bool) -> None:
    from dataclasses import asdict

    from marey.graph import graph_report

    report = graph_report(graph)
    if is_json:
        print_json({**facts, **asdict(report), "behaviours": _count_behaviours(graph)})
        return
    typer.echo("\n".join(report.lines()))


def _count_behaviours(graph: MotionGraph) -> dict[str, int]:
    """How many runs of poses each behaviour has."""
    from collections import Counter

    return dict(sorted(Counter(graph.database.behaviours).items()))


def _report_solution(found: SearchSolution) -> None:
    remark(f"epsilon {found.epsilon:g}: cost {found.cost:.2f}, {found.expansions} expansions, {found.seconds:.2f} s")


def _search_facts(found: SearchResult) -> dict[str, Any]:
    history = [
        {"epsilon": s.epsilon, "cost": s.cost, "expansions": s.expansions, "seconds": s.seconds} for s in found.history
    ]
    way = {"cost": found.cost, "epsilon": found.epsilon, "steps": len(found.steps), "errors_m": list(found.errors)}
    return {
        "status": found.status,
        "stopped": found.stopped,
        "expansions": found.expansions,
        "seconds": found.seconds,
        "history": history,
        "advice": found.advice,
        **(way if found.steps else {}),
    }


def _search_sentence(found: SearchResult) -> str:
    if not found.steps:
        return f"no way: {found.status}. {found.advice}"
    best = "the best" if found.epsilon <= 1.0 else f"at most {found.epsilon:.2f} times the best"
    return (
        f"{found.status}: cost {found.cost:.2f}, {best}; {len(found.steps)} steps, {found.expansions} expansions, "
        f"{found.seconds:.2f} s"
    )


def _write_result(found: SearchResult, out: str | None, strip: str | None, count: int) -> None:
    motion = None if out is None and strip is None else found.motion
    if motion is None:
        return
    write_motion(motion, out)
    write_strip(motion, strip, count)
