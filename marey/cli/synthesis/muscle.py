"""`marey muscle`: soft bodies moved by muscles, the muscles of a clip, and activations that reach a goal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli.common import load_clip, print_json, print_result, progress_bar, remark, warn, write_rows
from marey.cli.options import Json, ReadOptions, check_target, flat_options, option

if TYPE_CHECKING:
    from marey.motion import Motion


GOAL_FORM = "write BONE=X,Y,Z@SECONDS, or X,Y,Z=X,Y,Z@SECONDS with a point of the body at rest"
CLIP_SUFFIXES = (".csv", ".sto", ".png")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayOptions:
    """Time of a scene, and what drives its splines."""

    seconds: Annotated[float | None, option("How long; as the scene says.", min=0.01, max=600.0)] = None
    step_s: Annotated[float | None, option("Length of a step and frame.", min=1e-4, max=0.1)] = None
    activation: Annotated[
        list[str] | None, option("Hold a spline at this activation, 0 to 1.", "--activation", "-a", metavar="NAME=0.8")
    ] = None
    programmes: Annotated[str | None, option("Activations of splines over time (.toml or .csv).", metavar="FILE")] = (
        None
    )
    goal: Annotated[
        list[str] | None,
        option("Find activations that bring a bone's end to a place [m] in time.", metavar="BONE=X,Y,Z@S"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmOptions:
    """Of the files that are written."""

    fps: Annotated[float | None, option("Frames a second that are written.", min=1.0, max=240.0)] = None
    width: Annotated[int | None, option("Width of pictures [pixel].", min=64, max=8192)] = None


@flat_options
def muscle(
    scene: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENE", help="Shipped scene, scene file (.toml), closed surface (.obj, ...), or a motion file."
        ),
    ] = None,
    out: Annotated[
        str | None, option("File to write: .glb, .npz, .ply, .obj, .png, .gif, .mp4; .csv, .sto.", "-o", "--out")
    ] = None,
    *,
    play: PlayOptions,
    elbow: Annotated[
        str | None, option("Of a clip: a soft arm that bends as its left or right.", choices=("left", "right"))
    ] = None,
    carry: Annotated[list[str] | None, option("Of a clip: what a hand carries [kg].", metavar="left=5")] = None,
    co_contraction: Annotated[float, option("Of a clip: least activation of every muscle.", min=0.0, max=0.5)] = 0.0,
    files: FilmOptions,
    strip: Annotated[str | None, option("Film strip to draw.", metavar="PNG", suffixes=(".png",))] = None,
    names: Annotated[bool, option("List the shipped scenes.", "--list")] = False,
    json: Json = False,
    read: ReadOptions,
) -> None:
    """Play a scene of soft bodies that muscles move, or find the muscles that a clip needs.

    A scene gives a film and its figures; the exit code is 1 if a check that the scene holds itself to fails. A motion
    file gives the activations of the whole body (.csv, OpenSim's .sto, or .png for a strip), or with --elbow those of a
    soft arm. A closed surface stands on the ground and contracts along its medial axis.
    """
    from marey import samples
    from marey.io import READABLE_SUFFIXES
    from marey.muscle import FILM_SUFFIXES, load_scene, scene_names

    if names:
        titles = {name: load_scene(name).title for name in scene_names()}
        print_result(titles, "\n".join(f"{name:<12} {title}" for name, title in titles.items()), is_json=json)
        return
    if scene is None:
        raise typer.BadParameter("give a SCENE, or --list.")
    is_shipped_clip = scene in samples.names() and scene not in scene_names()
    if scene == "-" or is_shipped_clip or Path(scene).suffix.lower() in READABLE_SUFFIXES:
        check_target(out, (".csv",) if elbow else CLIP_SUFFIXES)
        motion = load_clip(scene, read)
        if elbow is not None:
            _bend_elbow(motion, scene, elbow, out, is_json=json)
        else:
            from marey.muscle import draw_muscle_strip, estimate_activations

            # Mass [kg] of what hands carry, by wrist
            carried: dict[str, float] = {}
            for text in carry or []:
                side, _, mass = text.partition("=")
                if side not in ("left", "right") or not mass.replace(".", "", 1).isdigit():
                    raise typer.BadParameter(f"'{text}' is no burden; write left=5 or right=2.5 [kg].")
                carried[f"{side}_wrist"] = float(mass)
            track = estimate_activations(motion, carried_kg=carried, co_contraction=co_contraction)
            for target in (out, strip):
                if target is None:
                    continue
                if Path(target).suffix.lower() in (".csv", ".sto"):
                    track.save(target)
                else:
                    draw_muscle_strip(track, target)
                remark(f"wrote {target}")
            busiest = dict(track.busiest())
            if json:
                facts = {"num_frames": len(track.activations), "muscles": list(track.names)}
                facts |= {"residual": track.residual_fraction}
                print_json({"file": scene, "out": out, **facts, "given": track.torque_fraction, "busiest": busiest})
            else:
                shown = ", ".join(f"{muscle} {value:.2f}" for muscle, value in busiest.items())
                share = f"{len(track.names)} muscles give {track.torque_fraction:.0%} of the torque"
                typer.echo(f"{scene}  {share}  busiest: {shown}")
        return
    check_target(out, FILM_SUFFIXES)
    _play_scene(scene, out, strip, play, files, is_json=json)


def _play_scene(
    scene: str, out: str | None, strip: str | None, play: PlayOptions, files: FilmOptions, *, is_json: bool
) -> None:
    """Play a scene or solve it for goals, write its film, and report its figures and checks."""
    from marey.muscle import ProgrammePart, load_programmes, load_scene

    if play.goal and (play.activation or play.programmes or play.seconds is not None or play.step_s is not None):
        raise typer.BadParameter("--goal finds the activations and the time itself: leave the others out.")
    found, missed, goal_figures = load_scene(scene), list[str](), list[str]()
    if play.programmes is not None:
        # The programmes of the file in place of those of the scene
        given = load_programmes(play.programmes)
        parts = tuple(ProgrammePart(spline, programme) for spline, programme in given.items())
        found = replace(found, parts=replace(found.parts, programmes=parts), _stages=[])
    if play.goal:
        from marey.muscle import solve_scene

        goals = [parse_goal(text) for text in play.goal]
        with progress_bar("solve") as tell:
            control = solve_scene(found, goals, on_iteration=lambda number, cost: tell(number, 25))
        film, tolerance_m = control.film(), control.goal_tolerance_m
        facts = {
            "status": "REACHED" if control.reached else "MISSED",
            "iterations": int(control.result.iterations),
            "goal_errors_m": [float(error) for error in control.errors_m],
        }
        goal_figures.append(f"goals {facts['status']}, worst {100.0 * control.errors_m.max():.1f} cm")
        missed = [
            f"goal {text} is missed by {100.0 * error:.1f} cm, {100.0 * tolerance_m:g} cm are allowed"
            for text, error in zip(play.goal, control.errors_m, strict=True)
            if error > tolerance_m
        ]
    else:
        # Splines held at the activations given, each from 0 to 1
        known = [spline.name for spline in found.parts.splines]
        values: dict[str, float] = {}
        for text in play.activation or []:
            spline, sign, number = text.rpartition("=")
            try:
                values[spline] = float(number)
            except ValueError:
                sign = ""
            if not sign or not 0.0 <= values[spline] <= 1.0:
                raise typer.BadParameter(f"'{text}' is no activation; write NAME=0.8, from 0 to 1.")
            if spline not in known:
                raise typer.BadParameter(f"there is no spline '{spline}'; there are {', '.join(known)}.")
        with progress_bar(found.name) as tell:
            film, facts = found.run(play.seconds, play.step_s, tell, values or None), {}
    for target in (out, strip):
        if target is not None:
            written = film.save(target, fps=files.fps, width=files.width)
            remark(f"wrote {written} ({film.num_frames} frames, {film.times[-1]:.2f} s)")
    if is_json:
        film_facts = {
            "num_frames": film.num_frames,
            "rate_hz": film.rate_hz,
            "num_nodes": film.positions.shape[1],
            "metrics": dict(film.metrics),
            "report": dict(film.report),
            "failed": list(film.failed),
        }
        print_json({"scene": scene, "out": out, **film_facts, **facts})
    else:
        figures = [f"{name} {value:.4g}" for name, value in film.metrics.items()] + goal_figures
        size = f"{film.num_frames} frames  {film.positions.shape[1]} nodes"
        typer.echo("  ".join([film.name, size, *figures]))
    # The checks of a scene are those of its own programmes
    if play.seconds is None and not (play.activation or play.programmes or play.goal):
        missed += film.failed
    for sentence in missed:
        warn(f"{scene}: {sentence}")
    if missed:
        raise typer.Exit(1)


def parse_goal(text: str) -> tuple[float, str | tuple[float, ...], tuple[float, ...]]:
    """Time [s], point (a bone's name or a place at rest) and place [m] of a goal."""
    # A point of the body, where it goes, and when
    point, _, rest = text.partition("=")
    place, _, time = rest.partition("@")
    try:
        x, y, z = (float(part) for part in place.split(","))
        when = float(time)
        at: str | tuple[float, ...] = point
        if "," in point:
            a, b, c = (float(part) for part in point.split(","))
            at = (a, b, c)
    except ValueError:
        when, at, x, y, z = 0.0, "", 0.0, 0.0, 0.0
    if not (at and when > 0.0):
        raise typer.BadParameter(f"'{text}' is no goal; {GOAL_FORM}.")
    return when, at, (x, y, z)


def _bend_elbow(motion: Motion, name: str, side: str, out: str | None, *, is_json: bool) -> None:
    """Activations of a soft arm that bend its elbow as that of a clip."""
    from math import degrees

    from marey.muscle import solve_elbow_flexion

    found = solve_elbow_flexion(motion, side=side)
    # A row for each step: the angle that was asked for, the one reached, the muscles
    angles = zip(found.wanted_rad[1:].tolist(), found.angles_rad[1:].tolist(), found.activations, strict=True)
    rows = [
        {"time_s": n * found.system.dt, "wanted_rad": wanted, "angle_rad": angle}
        | dict(zip(found.muscles, row.tolist(), strict=True))
        for n, (wanted, angle, row) in enumerate(angles, 1)
    ]
    write_rows(rows, out)
    error_deg = degrees(found.error_rad)
    if is_json:
        facts = {"file": name, "out": out, "side": side, "steps": len(found.activations), "error_deg": error_deg}
        print_json(facts | {"status": str(found.control.status)})
    else:
        typer.echo(f"{name}  {side} elbow  {len(found.activations)} steps  {error_deg:.1f} degrees rms off")
