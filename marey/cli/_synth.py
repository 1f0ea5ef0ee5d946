"""`marey synth`: a sketch becomes a motion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli._common import Json, print_json, remark

if TYPE_CHECKING:
    from marey.locomotion import Walked

ENGINES = ("locomotion",)


def synth(
    sketch: Annotated[str, typer.Argument(metavar="SKETCH", help="Sketch file (TOML).")],
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...")] = None,
    engine: Annotated[str, typer.Option(help="Who makes the motion: locomotion.")] = "locomotion",
    model: Annotated[str | None, typer.Option(metavar="FILE", help="Model made by `marey fit locomotion`.")] = None,
    rate_hz: Annotated[float, typer.Option(min=1.0, max=1000.0, help="Frames per second.")] = 60.0,
    speed: Annotated[float | None, typer.Option(help="Speed [m/s], in place of the sketch's.")] = None,
    leg_length: Annotated[float | None, typer.Option(help="Leg length [m] of the character.")] = None,
    style: Annotated[str | None, typer.Option(help="Style of the model.")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 12,
    json: Json = False,
) -> None:
    """Make the motion that a sketch asks for.

    The path is walked or run inside its corridor, with the stops and jumps of the sketch.
    """
    if engine not in ENGINES:
        raise typer.BadParameter(f"there is no engine '{engine}'; it is one of {', '.join(ENGINES)}.")
    _check_targets(out, strip)
    done = _walked(sketch, model, rate_hz, speed, leg_length, style)
    _write(done, out, strip, count)
    if json:
        print_json({"sketch": sketch, "engine": engine, "out": out, **done.to_json()})
    else:
        typer.echo(done.sentence)


def _walked(
    sketch: str, model: str | None, rate_hz: float, speed: float | None, leg_length: float | None, style: str | None
) -> Walked:
    from marey.locomotion import load_model, walk_sketch
    from marey.world import load_sketch

    read = load_sketch(sketch)
    own = load_model(model)
    return walk_sketch(read, own, rate_hz=rate_hz, speed_mps=speed, leg_length_m=leg_length, style=style)


def _check_targets(out: str | None, strip: str | None) -> None:
    """Refuse what could not be written before time is spent on it."""
    from marey.io import WRITABLE_SUFFIXES
    from marey.picture import PICTURE_SUFFIXES

    for target, suffixes in ((out, WRITABLE_SUFFIXES), (strip, PICTURE_SUFFIXES)):
        if target is None:
            continue
        if not Path(target).resolve().parent.is_dir():
            raise typer.BadParameter(f"there is no folder '{Path(target).parent}' to write {target} to.")
        if Path(target).suffix.lower() not in suffixes:
            raise typer.BadParameter(f"cannot write '{target}': use one of {', '.join(suffixes)}.")


def _write(done: Walked, out: str | None, strip: str | None, count: int) -> None:
    motion = done.motion
    if out is not None:
        from marey.io import save

        save(motion, out)
        remark(f"wrote {out} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")
    if strip is not None:
        from marey.picture import film_strip, save_image

        save_image(film_strip(motion, count=count), strip)
        remark(f"wrote {strip}")
