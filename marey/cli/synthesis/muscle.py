"""`marey muscle`: soft bodies moved by muscles, the muscles of a clip, and activations that reach a goal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, RateHz, Unit, check_target, load_clip, print_json, progress_bar, remark

if TYPE_CHECKING:
    from marey.muscle import Film, MuscleTrack, SoftBodyScene


GOAL_FORM = "write BONE=X,Y,Z@SECONDS, or X,Y,Z=X,Y,Z@SECONDS with a point of the body at rest"


def parse_goal(text: str) -> tuple[float, str | tuple[float, ...], tuple[float, ...]]:
    """Time [s], point (a bone's name or a place at rest) and place [m] of a goal."""
    point, sign, rest = text.partition("=")
    place, at, time = rest.partition("@")
    try:
        where, when = _parse_triple(place), float(time)
    except ValueError:
        sign = ""
        where, when = (), 0.0
    if not (sign and at and point and when > 0.0):
        raise typer.BadParameter(f"'{text}' is no goal; {GOAL_FORM}.")
    try:
        return when, _parse_triple(point) if "," in point else point, where
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no goal; {GOAL_FORM}.") from None


def _parse_triple(text: str) -> tuple[float, ...]:
    x, y, z = (float(part) for part in text.split(","))
    return x, y, z


CLIP_SUFFIXES = (".csv", ".png")


def muscle(
    scene: Annotated[
        str | None,
        typer.Argument(metavar="SCENE", help="Shipped scene, scene file (.toml), or a motion file: its muscles."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="File to write: .glb, .npz, .ply, .obj, .png, .gif, .mp4; .csv.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.01, max=600.0, help="How long; as the scene says.")] = None,
    step_s: Annotated[float | None, typer.Option(min=1e-4, max=0.1, help="Length of a step and frame.")] = None,
    activation: Annotated[
        list[str] | None,
        typer.Option("--activation", "-a", metavar="NAME=0.8", help="Hold a spline at this activation, 0 to 1."),
    ] = None,
    goal: Annotated[
        list[str] | None,
        typer.Option(metavar="BONE=X,Y,Z@S", help="Find activations that bring a bone's end to a place [m] in time."),
    ] = None,
    fps: Annotated[float | None, typer.Option(min=1.0, max=240.0, help="Frames a second that are written.")] = None,
    width: Annotated[int | None, typer.Option(min=64, max=8192, help="Width of pictures [pixel].")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    names: Annotated[bool, typer.Option("--list", help="List the shipped scenes.")] = False,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Play a scene of soft bodies that muscles move, or find the muscles that a clip needs.

    A scene gives a film and its figures; the exit code is 1 if a check that the scene holds itself to fails. A motion
    file gives the activations of the whole body (.csv, or .png for a strip).
    """
    if names:
        _list_scenes(is_json=json)
        return
    if scene is None:
        raise typer.BadParameter("give a SCENE, or --list.")
    from marey.io import READABLE_SUFFIXES

    if scene == "-" or (Path(scene).suffix.lower() in READABLE_SUFFIXES and Path(scene).suffix.lower() != ".toml"):
        _estimate_activations(load_clip(scene, rate_hz=read_rate_hz, unit=unit), scene, out, strip, is_json=json)
        return
    from marey.muscle import FILM_SUFFIXES

    check_target(out, FILM_SUFFIXES)
    check_target(strip, (".png",))
    if goal and (activation or seconds is not None or step_s is not None):
        raise typer.BadParameter("--goal finds the activations and the time itself: leave the others out.")
    film, found = _play_scene(scene, seconds, step_s, activation or [], goal or [])
    for target in (out, strip):
        if target is not None:
            written = film.save(target, fps=fps, width=width)
            remark(f"wrote {written} ({film.num_frames} frames, {film.times[-1]:.2f} s)")
    if json:
        print_json({"scene": scene, "out": out, **_film_facts(film), **found})
    else:
        typer.echo(f"{film.name}  {_film_sentence(film)}" + "".join(f"  {k} {v}" for k, v in found.items()))
    if film.failed and seconds is None and not activation and not goal:
        for sentence in film.failed:
            remark(f"{scene}: {sentence}")
        raise typer.Exit(1)


def _play_scene(
    name: str, seconds: float | None, step_s: float | None, given: list[str], goals: list[str]
) -> tuple[Film, dict[str, Any]]:
    """The film of a scene and, where goals are given, the facts of the search for activations."""
    from marey.muscle import load_scene

    found: SoftBodyScene = load_scene(name)
    if goals:
        # The film of a scene whose muscles meet goals, and the facts of the search
        from marey.muscle import solve_scene

        goals_solve = [parse_goal(text) for text in goals]
        with progress_bar("solve") as tell:
            control = solve_scene(found, goals_solve, on_iteration=lambda number, cost: tell(number, 25))
        result = control.result
        facts: dict[str, Any] = {
            "status": str(getattr(result.status, "value", result.status)),
            "iterations": int(result.iterations),
            "goal_errors_m": [float(error) for error in control.errors_m],
        }
        return control.film(), facts
    known = [spline.name for spline in found.parts.splines]
    values: dict[str, float] = {}
    for text in given:
        name_activations, sign, number = text.rpartition("=")
        try:
            values[name_activations] = float(number)
        except ValueError:
            sign = ""
        if not sign or not 0.0 <= values[name_activations] <= 1.0:
            raise typer.BadParameter(f"'{text}' is no activation; write NAME=0.8, from 0 to 1.")
        if name_activations not in known:
            raise typer.BadParameter(f"there is no spline '{name_activations}'; there are {', '.join(known)}.")
    activations = values or None
    with progress_bar(name) as tell:
        return found.run(seconds, step_s, tell, activations), {}


def _film_facts(film: Film) -> dict[str, Any]:
    return {
        "num_frames": film.num_frames,
        "rate_hz": film.rate_hz,
        "num_nodes": film.positions.shape[1],
        "metrics": dict(film.metrics),
        "report": dict(film.report),
        "failed": list(film.failed),
    }


def _film_sentence(film: Film) -> str:
    figures = "  ".join(f"{name} {value:.4g}" for name, value in film.metrics.items())
    return f"{film.num_frames} frames  {film.positions.shape[1]} nodes  {figures}"


def _estimate_activations(motion: Any, name: str, out: str | None, strip: str | None, *, is_json: bool) -> None:
    """Activations of the whole body over a clip."""
    from marey.muscle import draw_muscle_strip, estimate_activations

    check_target(out, CLIP_SUFFIXES)
    check_target(strip, (".png",))
    track: MuscleTrack = estimate_activations(motion)
    for target in (out, strip):
        if target is None:
            continue
        if Path(target).suffix.lower() == ".csv":
            track.save(target)
        else:
            draw_muscle_strip(track, target)
        remark(f"wrote {target}")
    busiest = dict(track.busiest())
    if is_json:
        facts = {"num_frames": len(track.activations), "muscles": list(track.names)}
        print_json({"file": name, "out": out, **facts, "given": track.given, "busiest": busiest})
        return
    shown = ", ".join(f"{muscle} {share:.2f}" for muscle, share in busiest.items())
    typer.echo(f"{name}  {len(track.names)} muscles give {track.given:.0%} of the torque  busiest: {shown}")


def _list_scenes(*, is_json: bool) -> None:
    from marey.muscle import load_scene, scene_names

    if is_json:
        print_json({name: load_scene(name).title for name in scene_names()})
        return
    for name in scene_names():
        typer.echo(f"{name:<12} {load_scene(name).title}")
