"""`marey contacts` and `marey plant`: when heels, toes and hands touch, and feet that stay where they stand."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from marey.cli.common import Clip, Json, RateHz, Unit, load_clip, print_json, remark


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
    # Phases and slide of a motion that has contacts, as plain JSON values
    from marey.motion import contact_phases, slide_mm

    rate = motion.rate_hz
    track = motion.contacts
    facts: dict[str, Any] = {
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


def plant(
    clip: Clip,
    out: Annotated[str, typer.Option("-o", "--out", help="File to write.", show_default=False)],
    detection: Annotated[str, typer.Option(help="contacts, adaptive (walks and runs) or threshold.")] = "contacts",
    ik: Annotated[str, typer.Option(help="analytic or priority.")] = "analytic",
    floor_m: Annotated[float | None, typer.Option(help="Height of the floor [m]; else fitted to the plants.")] = None,
    toe_in_deg: Annotated[float, typer.Option(help="Turn the toes inwards by this angle [degrees].")] = 0.0,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Hold planted feet at their positions.

    Removes sliding, sinking and hovering of feet and reports the slide before and after.
    """
    from marey.io import save
    from marey.locomotion import enforce_plants, pigeon_toe

    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    edit = pigeon_toe(toe_in_deg * 0.017453292519943295) if toe_in_deg else None
    planted = enforce_plants(motion, detection=detection, ik=ik, floor_m=floor_m, edit=edit)
    save(planted, out)
    # How the planted frames slid before and after, as plain JSON values
    from marey.locomotion import foot_plants, plant_slide_mm
    from marey.locomotion.plants.clip import effector_flags

    assert planted.contacts is not None
    flags = effector_flags(planted.contacts)
    facts = {
        "plants": len(foot_plants(planted)),
        "slide_before_mm": float(plant_slide_mm(motion, flags).max(initial=0.0)),
        "slide_after_mm": float(plant_slide_mm(planted, flags).max(initial=0.0)),
        "root_lowered_m": float((motion.root_positions - planted.root_positions)[:, 1].max()),
    } | {"file": clip, "out": out}
    if json:
        print_json(facts)
    else:
        before, after = facts["slide_before_mm"], facts["slide_after_mm"]
        typer.echo(f"{facts['plants']} foot plants; slide at most {before:.2f} mm a frame before, {after:.2f} after")
    remark(f"wrote {out}")
