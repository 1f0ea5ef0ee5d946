"""`marey synth`: a sketch becomes a motion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marey.cli.common import Json, check_targets, print_json, progress_bar, remark, write_motion, write_strip

ENGINES = ("auto", "graph", "locomotion", "spacetime")
ENGINE_OPTIONS = {
    "graph": ("k", "budget_s"),
    "locomotion": ("speed_mps", "leg_length_m", "style"),
    "spacetime": ("budget_s",),
}
SHARED_OPTIONS = ("rate_hz", "touch_up")


def synth(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files (TOML) or shipped names.")],
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, ...; for several, a folder.")
    ] = None,
    engine: Annotated[str, typer.Option(help="Who makes the motion: auto, graph, locomotion, spacetime.")] = "auto",
    graph: Annotated[str | None, typer.Option(metavar="FILE", help="Graph made by `marey graph build`.")] = None,
    k: Annotated[int | None, typer.Option(min=1, max=2, help="Motions of the graph that may be blended.")] = None,
    budget_s: Annotated[float | None, typer.Option(min=0.01, help="Time for search or optimisation [s].")] = None,
    touch_up: Annotated[bool, typer.Option("--touch-up", help="Repair intervals that are not valid.")] = False,
    model: Annotated[str | None, typer.Option(metavar="FILE", help="Model made by `marey fit locomotion`.")] = None,
    rate_hz: Annotated[float, typer.Option(min=1.0, max=1000.0, help="Frames per second.")] = 60.0,
    speed: Annotated[float | None, typer.Option(help="Walking speed [m/s], instead of that of the sketch.")] = None,
    leg_length: Annotated[float | None, typer.Option(help="Leg length [m] of the walker.")] = None,
    style: Annotated[str | None, typer.Option(help="Style of the walker's model.")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 12,
    suffix: Annotated[str, typer.Option(help="Motion files of a folder.")] = ".bvh",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes for several sketches.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler for several sketches.")] = None,
    json: Json = False,
) -> None:
    """Make the motion that a sketch asks for.

    The path is walked or run inside its corridor, with the stops and jumps of the sketch; things are picked up and put
    down by motions of a graph; a straight walk or a jump can be optimised under the laws of motion. Several sketches
    make a folder of motions; finished ones are not made again.
    """
    if engine not in ENGINES:
        raise typer.BadParameter(f"there is no engine '{engine}'; it is one of {', '.join(ENGINES)}.")
    files = [_sketch_path(sketch) for sketch in sketches]
    options = {"k": k, "budget_s": budget_s, "speed_mps": speed, "leg_length_m": leg_length, "style": style}
    given = {name: value for name, value in options.items() if value is not None} | {"rate_hz": rate_hz}
    given |= {"touch_up": True} if touch_up else {}
    if len(files) > 1 or cluster is not None:
        if out is None:
            raise typer.BadParameter("several sketches need -o FOLDER.")
        given |= {"engine": engine, "graph": graph, "workers": workers, "cluster": cluster, "suffix": suffix}
        _synthesise_batch(files, out, given, json=json)
        return
    check_targets(out, strip)
    file = files[0]
    from marey.base import InputError
    from marey.pipeline import choose_engine, synthesize_sketch
    from marey.world import load_sketch

    sketch = load_sketch(file)
    chosen = choose_engine(sketch, graph) if engine == "auto" else engine
    own: dict[str, Any] = {
        name: value for name, value in given.items() if name in (*ENGINE_OPTIONS[chosen], *SHARED_OPTIONS)
    }
    if chosen == "locomotion":
        from marey.locomotion import load_model

        own["model"] = load_model(model)
    done = synthesize_sketch(sketch, chosen, graph=graph, **own)
    if done.motion is None:
        raise InputError(f"{file}: no motion, {done.status}", done.advice)
    assert done.motion is not None
    write_motion(done.motion, out)
    write_strip(done.motion, strip, count, layout="travel")
    if json:
        print_json({"sketch": sketches[0], "out": out, **done.to_json()})
    else:
        typer.echo(done.sentence)


def _sketch_path(sketch: str) -> str:
    """File of a sketch; of a shipped one its name will do."""
    if Path(sketch).suffix or Path(sketch).exists():
        return sketch
    from marey.samples import sketch_file

    return str(sketch_file(sketch))


def _synthesise_batch(files: list[str], out: str, options: dict[str, Any], *, json: bool) -> None:
    from dataclasses import asdict

    from marey.pipeline import run_batch

    with progress_bar("synth") as bar:
        report = run_batch(
            files, out, on_item=lambda _, done, total: bar(done, total),
            on_link=lambda link: remark(f"dashboard: {link}"), **options,
        )  # fmt: skip
    if json:
        print_json({"out": out, "items": [asdict(item) for item in report.items]})
    else:
        typer.echo(report.sentence)
    for item in report.items:
        if not item.is_solved:
            remark(f"{item.name}: {item.status}: {item.error}")
    if report.num_solved < len(report.items):
        raise typer.Exit(1)
