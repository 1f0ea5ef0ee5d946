"""`marey plant`: feet that stay where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli._common import Clip, Json, RateHz, Unit, load_clip, print_json, remark

if TYPE_CHECKING:
    from marey.motion import Motion


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
    """Keep planted feet where they stand.

    Feet that slide, sink or hover are cleaned up; tells how much they slid before and after.
    """
    from marey.io import save
    from marey.locomotion import enforce_plants, pigeon_toe

    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    edit = pigeon_toe(toe_in_deg * 0.017453292519943295) if toe_in_deg else None
    planted = enforce_plants(motion, detection=detection, ik=ik, floor_m=floor_m, edit=edit)
    save(planted, out)
    facts = plant_facts(motion, planted) | {"file": clip, "out": out}
    if json:
        print_json(facts)
    else:
        before, after = facts["slide_before_mm"], facts["slide_after_mm"]
        typer.echo(f"{facts['plants']} foot plants; slide at most {before:.2f} mm a frame before, {after:.2f} after")
    remark(f"wrote {out}")


def plant_facts(motion: Motion, planted: Motion) -> dict[str, Any]:
    """How the planted frames slid before and after, as plain JSON values."""
    from marey.locomotion import foot_plants, plant_slide_mm
    from marey.locomotion._plant_schedule import effector_flags

    assert planted.contacts is not None
    flags = effector_flags(planted.contacts)
    return {
        "plants": len(foot_plants(planted)),
        "slide_before_mm": float(plant_slide_mm(motion, flags).max(initial=0.0)),
        "slide_after_mm": float(plant_slide_mm(planted, flags).max(initial=0.0)),
        "root_lowered_m": float((motion.root_positions - planted.root_positions)[:, 1].max()),
    }
