"""`marey strip`, `marey film` and `marey plot`: a motion on paper, in time, and as curves."""

from __future__ import annotations

from typing import Annotated

import typer

from marey.cli.common import (
    PLOT_SUFFIXES,
    Clip,
    Json,
    RateHz,
    Unit,
    check_picture_file,
    check_target,
    load_clip,
    print_json,
    remark,
    writable,
    write_strip,
)


def strip(
    clip: Clip,
    out: Annotated[
        str, typer.Option("-o", "--out", help="Picture to write.", show_default=False, callback=check_picture_file)
    ],
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 8,
    width: Annotated[int, typer.Option(min=64, max=8192, help="Width of the picture [pixel].")] = 1600,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Draw a film strip of a motion.

    A solid body at several moments, with ground, shadow and foot plants.
    """
    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    write_strip(motion, out, count, width=width)
    if json:
        print_json({"file": clip, "out": out, "count": count, "num_frames": motion.num_frames})


def film(
    clip: Clip,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--out", help="Film to write: .gif or .mp4.", show_default=False, callback=writable(".gif", ".mp4")
        ),
    ],
    fps: Annotated[float, typer.Option(min=1, max=240, help="Pictures a second.")] = 30.0,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Render a motion as a GIF or MP4 film."""
    from marey.picture import save_film

    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    save_film(motion, out, fps=fps)
    remark(f"wrote {out}")
    if json:
        print_json({"file": clip, "out": out, "fps": fps, "duration_s": motion.duration_s})


def plot(
    clip: Clip,
    out: Annotated[str, typer.Option("-o", "--out", help="Picture to write.", show_default=False)],
    joint: Annotated[
        list[str] | None, typer.Option("--joint", "-j", help="Joint or role to plot; may be repeated.")
    ] = None,
    contacts: Annotated[bool, typer.Option("--contacts", help="Plot contacts instead of joint angles.")] = False,
    speed: Annotated[bool, typer.Option("--speed", help="Plot speed and height of the root instead.")] = False,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Plot joint angles, contacts or the speed of the root over time."""
    if (joint is not None) + contacts + speed > 1:
        raise typer.BadParameter("give one of --joint, --contacts and --speed.")
    check_target(out, PLOT_SUFFIXES)
    from marey.motion import ensure_contacts
    from marey.picture import plot_angles, plot_contacts, plot_speed

    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    if contacts:
        plot_contacts(motion if motion.contacts is not None else ensure_contacts(motion), out)
    elif speed:
        plot_speed(motion, out)
    else:
        plot_angles(motion, out, joints=joint or None)
    remark(f"wrote {out}")
    if json:
        print_json({"file": clip, "out": out, "num_frames": motion.num_frames})
