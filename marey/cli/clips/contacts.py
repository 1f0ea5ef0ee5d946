"""`marey contacts` and `marey plant`: detect contacts, and hold planted feet."""

from __future__ import annotations

from math import radians
from typing import Annotated, Any

from marey.cli.common import (
    Outcome,
    expand_inputs,
    judge_motion,
    load_clip,
    plan_motion_files,
    plan_outputs,
    remark,
    run_each,
    write_motion,
)
from marey.cli.options import (
    Clips,
    Csv,
    Format,
    Json,
    OutOrFolder,
    ReadOptions,
    RequireValid,
    flat_options,
    option,
)


@flat_options
def contacts(
    clips: Clips,
    json: Json = False,
    csv: Csv = None,
    out: Annotated[
        str | None, option("Also plot them to this PNG; for several, a folder.", "-o", "--out", "--plot")
    ] = None,
    method: Annotated[
        str, option("hysteresis, adaptive or threshold.", choices=("hysteresis", "adaptive", "threshold"))
    ] = "hysteresis",
    *,
    read: ReadOptions,
) -> None:
    """Find when heels, toes and hands touch the ground.

    Lists the phases of the motion: flight, left, right, double support. The table has one row for each phase.
    """
    files = expand_inputs(clips)
    pictures = {} if out is None else plan_outputs(files, out, ".png")

    def list_phases(clip: str) -> Outcome:
        from marey.contacts import contact_phases, ensure_contacts, slide_mm

        motion = ensure_contacts(load_clip(clip, read), method=method)
        rate, track = motion.rate_hz, motion.contacts
        phases: list[dict[str, Any]] = [
            {
                "kind": phase.kind,
                "start": phase.start,
                "stop": phase.stop,
                "start_s": phase.start / rate,
                "stop_s": phase.stop / rate,
                "planted": list(phase.planted),
            }
            for phase in contact_phases(motion)
        ]
        facts = {
            "points": [] if track is None else list(track.names),
            "num_frames": motion.num_frames,
            "rate_hz": rate,
            "phases": phases,
            "max_slide_mm": float(slide_mm(motion).max(initial=0.0)),
        }
        # The picture of one clip, beside its list of phases
        if clip in pictures:
            from marey.picture import plot_contacts

            plot_contacts(motion, pictures[clip])
            remark(f"wrote {pictures[clip]}")
        rows = [phase | {"planted": " ".join(phase["planted"])} for phase in phases]
        lines = [f"{clip}"] if len(files) > 1 else []
        lines += [f"{r['start_s']:8.3f} {r['stop_s']:8.3f} s  {r['kind']:<8} {r['planted'] or '-'}" for r in rows]
        return Outcome(facts, "\n".join(lines), rows)

    run_each("contacts", files, list_phases, is_json=json, csv=csv)


@flat_options
def plant(
    clips: Clips,
    out: OutOrFolder,
    detection: Annotated[
        str,
        option(
            "contacts (the clip's own, else hysteresis), hysteresis, adaptive (walks and runs) or threshold.",
            choices=("contacts", "hysteresis", "adaptive", "threshold"),
        ),
    ] = "contacts",
    floor_m: Annotated[float | None, option("Height of the floor [m]; else fitted to the plants.")] = None,
    toe_in_deg: Annotated[float, option("Turn the toes inwards by this angle [degrees].")] = 0.0,
    format: Format = "bvh",  # noqa: A002 (the option is called so)
    require_valid: RequireValid = False,
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Hold planted feet at their positions.

    Removes sliding, sinking and hovering of feet. Reports how far they scrape before and after, as `marey measure`
    does, and every plant that could not be kept.
    """
    files = expand_inputs(clips)
    targets = plan_motion_files(files, out, format)

    def plant_clip(clip: str) -> Outcome:
        from marey.contacts import detect_contacts, hold_feet, pigeon_toe
        from marey.measure import measure_motion

        # Feet are held at the places where they stand, toes turned in if asked
        motion = load_clip(clip, read)
        track = None if detection == "contacts" else detect_contacts(motion, method=detection)
        held = hold_feet(motion, track, floor_m=floor_m, edit=pigeon_toe(radians(toe_in_deg)) if toe_in_deg else None)
        write_motion(held.motion, targets[clip])
        before, after = (float(measure_motion(one).scraped_m[-1]) for one in (motion, held.motion))
        validity, fault = judge_motion(held.motion, is_required=require_valid)
        facts = {
            "out": targets[clip],
            **held.to_json(),
            "scraped_before_m": before,
            "scraped_after_m": after,
            "root_lowered_m": float((motion.root_positions - held.motion.root_positions)[:, 1].max()),
            **validity,
        }
        name = f"{clip}  " if len(files) > 1 else ""
        lines = [f"{name}{held.sentence}; feet scrape {before:.2f} m before, {after:.2f} after"]
        lines += [f"  broken: {plant}" for plant in held.broken[1:]]
        return Outcome(facts, "\n".join(lines), held.table_rows(), fault=fault)

    run_each("plant", files, plant_clip, is_json=json, csv=csv)
