"""`marey contacts`: when heels, toes and hands touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli._common import Clip, Json, RateHz, Unit, load_clip, print_json, remark

if TYPE_CHECKING:
    from marey.motion import Motion


def contacts(
    clip: Clip,
    json: Json = False,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Also plot them to this PNG.")] = None,
    method: Annotated[str, typer.Option(help="hysteresis, adaptive or threshold.")] = "hysteresis",
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Find when heels, toes and hands touch the ground.

    Lists the phases of the motion: flight, left, right, double support.
    """
    from marey.motion import ensure_contacts

    motion = ensure_contacts(load_clip(clip, rate_hz=read_rate_hz, unit=unit), method=method)
    facts = contact_facts(motion)
    if json:
        print_json(facts | {"file": clip})
    else:
        for phase in facts["phases"]:
            planted = " ".join(phase["planted"]) or "-"
            typer.echo(f"{phase['start_s']:8.3f} {phase['stop_s']:8.3f} s  {phase['kind']:<8} {planted}")
    if out is not None:
        from marey.picture import plot_contacts

        plot_contacts(motion, out)
        remark(f"wrote {out}")


def contact_facts(motion: Motion) -> dict[str, Any]:
    """Phases and slide of a motion that has contacts, as plain JSON values."""
    from marey.motion import contact_phases, slide_mm

    rate = motion.rate_hz
    track = motion.contacts
    return {
        "points": [] if track is None else list(track.names),
        "num_frames": motion.num_frames,
        "rate_hz": rate,
        "phases": [
            {
                "kind": phase.kind,
                "start": phase.start,
                "stop": phase.stop,
                "start_s": phase.start / rate,
                "stop_s": phase.stop / rate,
                "planted": list(phase.planted),
            }
            for phase in contact_phases(motion)
        ],
        "max_slide_mm": float(slide_mm(motion).max(initial=0.0)),
    }
