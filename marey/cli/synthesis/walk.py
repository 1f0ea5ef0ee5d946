"""`marey walk`: locomotion from a script, or of a crowd."""

from __future__ import annotations

import json as json_format
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    GROUND_START_M,
    judge_motion,
    make_ground,
    print_names,
    print_result,
    progress_bar,
    remark,
    warn,
    write_motion,
    write_strip,
)
from marey.cli.options import Count, Json, MotionOut, RequireValid, Strip, option

if TYPE_CHECKING:
    from marey.locomotion import LocomotionModel
    from marey.motion import Motion


RATE_HZ = 60.0
SPACING_M = 1.5  # between neighbours at the start, in rows
LEGS_M, SPEEDS_MPS, TURNS_RADPS = (0.72, 1.02), (0.7, 1.7), (-0.15, 0.15)


def walk(
    script: Annotated[
        str | None,
        typer.Argument(metavar="SCRIPT", help="Script file (TOML, or the thesis's XML), or the name of a shipped one."),
    ] = None,
    out: MotionOut = None,
    model: Annotated[str | None, option("Model made by `marey fit locomotion`.", metavar="FILE")] = None,
    style: Annotated[
        str | None, option("Person who walks where the script names none; `marey info MODEL` lists.", metavar="NAME")
    ] = None,
    save: Annotated[str | None, option("Also write the script as TOML.", metavar="TOML", suffixes=(".toml",))] = None,
    skeleton: Annotated[str | None, option("Motion or character file whose skeleton walks.", metavar="FILE")] = None,
    slope: Annotated[
        float | None, option(f"Walk up a slope (down: negative), {GROUND_START_M:g} m ahead.", metavar="DEG")
    ] = None,
    stairs: Annotated[
        tuple[float, float, int] | None,
        option(f"Walk up stairs [m] (down: negative), {GROUND_START_M:g} m ahead.", metavar="RISE TREAD COUNT"),
    ] = None,
    toe_in: Annotated[float, option("Turn the toes inwards; negative turns them out.", metavar="DEG")] = 0.0,
    strip: Strip = None,
    report: Annotated[str | None, option("Report file to write.", metavar="JSON", suffixes=(".json",))] = None,
    count: Count = 12,
    crowd: Annotated[int | None, option("Walk N people in place of a script.", min=1, max=1000)] = None,
    seconds: Annotated[float, option("Crowd: duration [s].", min=0.1, max=3600.0)] = 5.0,
    seed: Annotated[int, option("Crowd: seed of sizes, styles and speeds.", min=0)] = 0,
    require_valid: RequireValid = False,
    names: Annotated[bool, option("List the shipped scripts.", "--list")] = False,
    json: Json = False,
) -> None:
    """Walk, run and jump as a script says.

    A script is a time line of actions, transitions and jumps. `marey walk --list` names those that are shipped.
    With --skeleton the person of a file walks; --slope and --stairs lie ahead of the start.
    With --crowd N people of different size and style walk; each gets a file of its own, OUT with a number.
    """
    import numpy as np

    from marey import samples

    if names:
        print_names(samples.script_names(), is_json=json)
        return
    if (script is None) == (crowd is None):
        raise typer.BadParameter("give a SCRIPT, --crowd N, or --list.")
    if crowd is not None and not (skeleton is slope is stairs is None and toe_in == 0.0):
        raise typer.BadParameter("--skeleton, --slope, --stairs and --toe-in are for scripts.")
    if slope is not None and stairs is not None:
        raise typer.BadParameter("give --slope or --stairs.")
    facts: dict[str, Any]
    fault: str | None = None
    if script is None:
        people = _walk_crowd(crowd or 1, seconds, seed, read_model(model, style), style)
        files = _write_people(people, out, strip)
        # Mean speed along the path on the ground
        paths = [np.linalg.norm(np.diff(one.root_positions[:, [0, 2]], axis=0), axis=1).sum() for one in people]
        mean_mps = [float(path) / one.duration_s for path, one in zip(paths, people, strict=True)]
        facts = {"people": len(people), "num_frames": people[0].num_frames, "files": files, "mean_mps": mean_mps}
        speeds = facts["mean_mps"]
        span = f"{min(speeds):.2f} to {max(speeds):.2f} m/s"
        sentence = f"{facts['people']} people  {facts['num_frames']} frames at {RATE_HZ:g} Hz  {span}"
    else:
        from marey.contacts import pigeon_toe
        from marey.locomotion import load_script, perform_script, save_script

        read = load_script(script)
        body: dict[str, Any] = {"edit": pigeon_toe(float(np.radians(toe_in))) if toe_in else None}
        if skeleton is not None:
            from marey.io import load

            body["skeleton"] = load(skeleton).skeleton
        # Ground ahead of where the script starts, across its way
        heading = float(np.radians(read.heading_deg))
        start_m = float(np.dot(read.position, (np.sin(heading), np.cos(heading)))) + GROUND_START_M
        body["ground"] = make_ground(slope, stairs, start_m, heading)
        if save is not None:
            save_script(read, save)
            remark(f"wrote {save}")
        done = perform_script(read, read_model(model, style), **body)
        for warning in done.warnings:
            warn(warning)
        write_motion(done.motion, out)
        write_strip(done.motion, strip, count)
        validity, fault = judge_motion(done.motion, is_required=require_valid)
        facts, sentence = {"script": script, "out": out, **done.report.to_json(), **validity}, done.report.sentence
    # The same facts to a file, to stdout, or as a sentence
    if report is not None:
        text = json_format.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
        from marey.base import write_atomically

        write_atomically(Path(report), text + "\n")
        remark(f"wrote {report}")
    print_result(facts, sentence, is_json=json)
    if fault is not None:
        warn(fault)
        raise typer.Exit(1)


def read_model(file: str | None, style: str | None) -> LocomotionModel:
    """A locomotion model, the shipped one by default, with one of its people as the default style."""
    from marey.locomotion import load_model

    model = load_model(file)
    if style is None:
        return model
    weights = zip(model.styles, model.weights(style).tolist(), strict=True)
    return replace(model, default_style={name: weight for name, weight in weights if weight > 0.0})


def _write_people(people: list[Motion], out: str | None, strip: str | None) -> list[str]:
    """Write a file for each person, OUT with a number behind its name, and a picture of all at the end."""
    files: list[str] = []
    if out is not None:
        from marey.io import save

        target, width = Path(out), len(str(len(people)))
        for number, motion in enumerate(people, 1):
            file = target.with_name(f"{target.stem}-{number:0{width}d}{target.suffix}")
            save(motion, file)
            files.append(str(file))
        remark(f"wrote {files[0]} ... {files[-1]}")
    if strip is not None:
        from marey.picture import render_motion, save_image

        save_image(render_motion(people, people[0].num_frames - 1, spacing_m=0.0), strip)
        remark(f"wrote {strip}")
    return files


def _walk_crowd(count: int, seconds: float, seed: int, gaits: LocomotionModel, style: str | None) -> list[Motion]:
    """Let a crowd walk; size, speed and turning of each are drawn, and the style where none is given."""
    import numpy as np

    from marey.lie import SO3
    from marey.locomotion import Crowd
    from marey.motion import Motion

    rng = np.random.default_rng(seed)
    # People start on a square grid
    side = int(np.ceil(np.sqrt(count)))
    numbers = np.arange(count)
    crowd = Crowd(
        gaits, rng.uniform(*LEGS_M, count),
        styles=[style or gaits.styles[int(i)] for i in rng.integers(len(gaits.styles), size=count)],
        positions=SPACING_M * np.stack([numbers % side, numbers // side], axis=1).astype(np.float64),
        speeds=rng.uniform(*SPEEDS_MPS, count), phases=rng.uniform(0.0, 1.0, count), plants=True,
    )  # fmt: skip
    crowd.set(turn_rate=rng.uniform(*TURNS_RADPS, count), over_s=1.0)
    frames = max(2, round(seconds * RATE_HZ))
    roots = np.empty((frames, count, 3))
    wxyz = np.empty((frames, *crowd.rotations.shape))
    with progress_bar("crowd") as tell:
        for frame in range(frames):
            roots[frame], wxyz[frame] = crowd.root_positions, crowd.rotations
            crowd.step(1.0 / RATE_HZ)
            tell(frame + 1, frames)
    bodies = [crowd.poses(i).skeleton for i in range(count)]
    return [
        Motion(body, RATE_HZ, roots[:, i], SO3(wxyz[:, i]), name=f"person {i + 1}") for i, body in enumerate(bodies)
    ]
