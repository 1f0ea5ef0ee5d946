"""`marey strip`, `marey film` and `marey plot`: a motion on paper, in time, and as curves."""

from __future__ import annotations

from typing import Annotated

import typer

from marey.cli.common import Clip, RateHz, Unit, load_clip, remark

Picture = Annotated[str, typer.Option("-o", "--out", help="Picture or film to write.", show_default=False)]


def strip(
    clip: Clip,
    out: Picture,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 8,
    width: Annotated[int, typer.Option(min=64, max=8192, help="Width of the picture [pixel].")] = 1600,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Draw a film strip of a motion.

    A solid body at several moments, with ground, shadow and foot plants.
    """
    from marey.picture import film_strip, save_image

    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    save_image(film_strip(motion, count=count, width=width), out)
    remark(f"wrote {out}")


def film(
    clip: Clip,
    out: Picture,
    fps: Annotated[float, typer.Option(min=1, max=240, help="Pictures a second.")] = 30.0,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Render a motion as a GIF or MP4 film."""
    from marey.picture import save_film

    save_film(load_clip(clip, rate_hz=read_rate_hz, unit=unit), out, fps=fps)
    remark(f"wrote {out}")


def plot(
    clip: Clip,
    out: Picture,
    joint: Annotated[list[str] | None, typer.Option("--joint", "-j", help="Joint to plot; may be repeated.")] = None,
    contacts: Annotated[bool, typer.Option("--contacts", help="Plot contacts instead of joint angles.")] = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Plot joint angles, or contacts, over time."""
    from marey.motion import ensure_contacts
    from marey.picture import plot_angles, plot_contacts

    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    if contacts:
        plot_contacts(motion if motion.contacts is not None else ensure_contacts(motion), out)
    else:
        plot_angles(motion, out, joints=joint or None)
    remark(f"wrote {out}")
