"""`marey synth`: a sketch becomes a motion."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    find_validity_fault,
    print_json,
    print_result,
    progress_bar,
    remark,
    warn,
    write_motion,
    write_strip,
)
from marey.cli.options import Count, Json, RequireValid, Strip, check_motion_file, option

if TYPE_CHECKING:
    from marey.graph import SearchSolution
    from marey.motion import Motion

ENGINES = ("auto", "graph", "locomotion", "spacetime")
ENGINE_OPTIONS = {
    "graph": ("k", "budget_s", "objective"),
    "locomotion": ("speed_mps", "leg_length_m", "style"),
    "spacetime": ("budget_s",),
}
SHARED_OPTIONS = ("rate_hz", "touch_up")


def synth(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files (TOML) or shipped names.")],
    out: Annotated[
        str | None, option("Motion file to write: .bvh, .glb, ...; for several, a folder.", "-o", "--out")
    ] = None,
    engine: Annotated[str, option("Engine: auto, graph, locomotion, spacetime.", choices=ENGINES)] = "auto",
    graph: Annotated[str | None, option("Graph made by `marey graph build`.", metavar="FILE")] = None,
    k: Annotated[int | None, option("Motions of the graph that may be blended.", min=1, max=2)] = None,
    budget_s: Annotated[
        float | None, option("Time for search (of the processor) or optimisation [s].", min=0.01)
    ] = None,
    objective: Annotated[
        str | None, option("What the graph engine spares: effort, time, smoothness, or speed of the sketch.")
    ] = None,
    touch_up: Annotated[bool, option("Repair intervals that are not valid.", "--touch-up")] = False,
    model: Annotated[str | None, option("Model made by `marey fit locomotion`.", metavar="FILE")] = None,
    rate_hz: Annotated[float, option("Frames per second.", min=1.0, max=1000.0)] = 60.0,
    speed: Annotated[float | None, option("Walking speed [m/s], instead of that of the sketch.")] = None,
    leg_length: Annotated[float | None, option("Leg length of the walker.", "--leg-length-m", "--leg-length")] = None,
    style: Annotated[str | None, option("Style of the walker's model.")] = None,
    require_valid: RequireValid = False,
    watch: Annotated[bool, option("Write every better motion as it is found.", "--watch")] = False,
    strip: Strip = None,
    page: Annotated[str | None, option("Play the motion in its world on this page.", suffixes=(".html",))] = None,
    count: Count = 12,
    suffix: Annotated[str, option("Motion files of a folder.")] = ".bvh",
    workers: Annotated[int | None, option("Processes for several sketches.", min=1)] = None,
    cluster: Annotated[str | None, option("Dask scheduler for several sketches.", metavar="ADDRESS")] = None,
    json: Json = False,
) -> None:
    """Make the motion that a sketch asks for.

    The path is walked or run inside its corridor, with the stops and jumps of the sketch; things are picked up and put
    down by motions of a graph; a straight walk or a jump can be optimised under the laws of motion. Several sketches
    make a folder of motions; finished ones are not made again. Where the motion breaks a constraint of the sketch, it
    is written, the constraint is named, and the exit code is 1. With --watch the first motion of a search is in the
    file at once, and better ones take its place; a line on stderr tells of each.
    """
    from marey.base import InputError, find_shipped_file
    from marey.pipeline import synthesize_sketch
    from marey.world import load_sketch

    files = [str(find_shipped_file(sketch, "sketch")) for sketch in sketches]
    # Each engine takes its own options; those not given keep its defaults
    options = {"k": k, "budget_s": budget_s, "speed_mps": speed, "leg_length_m": leg_length, "style": style}
    options["objective"] = objective
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    given |= {"rate_hz": rate_hz} | ({"touch_up": True} if touch_up else {})
    if len(files) > 1 or cluster is not None:
        if out is None:
            raise typer.BadParameter("several sketches need -o FOLDER.")
        given |= {"engine": engine, "graph": graph, "workers": workers, "cluster": cluster, "suffix": suffix}
        _make_folder(files, out, given, is_json=json)
        return
    check_motion_file(out)
    sketch = load_sketch(files[0])
    # Said at once: a search takes seconds, an optimisation minutes
    remark(f"{sketch.name}: making a motion (engine {engine}{'' if budget_s is None else f', {budget_s:g} s'})")
    # One sketch: the engine and those of the options that it knows; "auto" goes on to the next where one cannot
    known = [n for name, own in ENGINE_OPTIONS.items() if engine in ("auto", name) for n in own]
    own = {name: value for name, value in given.items() if name in (*known, *SHARED_OPTIONS)}
    if model is not None or engine == "locomotion":
        from marey.locomotion import load_model

        own["model"] = load_model(model)
    own |= {"on_motion": partial(_show_motion, out)} if watch else {}
    others = "" if engine == "auto" else "Or try --engine auto"
    try:
        done = synthesize_sketch(sketch, engine, graph=graph, **own)
    except InputError as error:
        raise InputError(error.what, ". ".join(part.rstrip(".") for part in (error.fix, others) if part)) from error
    if done.motion is None:
        raise InputError(f"{files[0]}: no motion, {done.status}", f"{done.advice} {others}".strip())
    write_motion(done.motion, out)
    write_strip(done.motion, strip, count, layout="travel", world=sketch)
    if page is not None:
        from marey.picture import save_page

        save_page([done.motion], page, world=sketch)
    fault: str | None = None
    facts = {"sketch": sketches[0], "out": out, **done.to_json()}
    if done.validity is not None:
        share, is_valid = done.validity.valid_fraction, done.validity.is_valid
        facts |= {"valid": is_valid} if require_valid else {}
        fault = find_validity_fault(share, is_required=require_valid, is_valid=is_valid)
    if json:
        print_json(facts)
    else:
        typer.echo(done.sentence)
        for sentence in done.remarks:
            warn(sentence)
    for sentence in (*done.broken, *(() if fault is None else (fault,))):
        warn(sentence)
    if fault is not None or done.broken:
        raise typer.Exit(1)


def _make_folder(files: list[str], out: str, given: dict[str, Any], *, is_json: bool) -> None:
    """Motions of several sketches in a folder, in processes or on a cluster."""
    from marey.pipeline import run_batch

    with progress_bar("synth") as bar:
        report = run_batch(
            files, out, on_item=lambda _, done, total: bar(done, total),
            on_link=lambda link: remark(f"dashboard: {link}"), **given,
        )  # fmt: skip
    print_result({"out": out, "items": [asdict(item) for item in report.items]}, report.sentence, is_json=is_json)
    for item in report.items:
        if not item.is_solved:
            warn(f"{item.name}: {item.status}: {item.error}")
    if report.num_solved < len(report.items):
        raise typer.Exit(1)


def _show_motion(out: str | None, motion: Motion, found: SearchSolution) -> None:
    """Write a motion that a search has found so far, and say so."""
    from marey.io import save

    if out is not None:
        save(motion, out)
    remark(f"{found.seconds:.1f} s: {motion.duration_s:.1f} s of motion, at most {found.proved:.2f} times the best")
