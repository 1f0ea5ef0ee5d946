"""`marey contacts`, `plant` and `physics`: contacts, planted feet, and the physical validity of a motion."""

from __future__ import annotations

from dataclasses import asdict
from math import radians
from pathlib import Path
from typing import Annotated, Any

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Outcome,
    expand_inputs,
    fit_capture,
    judge_motion,
    load_body_motion,
    load_clip,
    plan_motion_files,
    plan_outputs,
    remark,
    run_each,
    warn,
    write_motion,
)
from marey.cli.options import (
    PLOT_SUFFIXES,
    Clips,
    Csv,
    Format,
    Json,
    OutOrFolder,
    ReadOptions,
    RequireValid,
    check_target,
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


@flat_options
def physics(
    clips: Clips,
    json: Json = False,
    csv: Csv = None,
    plot: Annotated[
        str | None, option("Draw forces and margins to this PNG; for several clips, a folder.", "--plot", "-o")
    ] = None,
    grf: Annotated[str | None, option("Measured ground reaction (.mot, .sto) to compare.")] = None,
    mass_kg: Annotated[float | None, option("Mass of the body.", min=1.0, max=1000.0)] = None,
    friction: Annotated[float, option("Friction of the floor.", min=0.0, max=10.0)] = 0.8,
    tolerance: Annotated[float, option("Green up to this, in body weights.", min=1e-6)] = 0.05,
    floor: Annotated[str, option("flat, plants (steps and pegs), or a height in metres.")] = "flat",
    limits: Annotated[str | None, option("File of joint limits to check as well.")] = None,
    frames: Annotated[bool, option("JSON and table: the numbers of each frame too.", "--frames")] = False,
    show_flights: Annotated[bool, option("Also list flights and their gravity.", "--flights")] = False,
    start_s: Annotated[
        float | None, option("First frame on the clock of the plates; the file's own if not given.")
    ] = None,
    over_ground: Annotated[
        bool, option("On a treadmill: add the belt's way to the motion.", "--over-ground/--as-captured")
    ] = True,
    require_valid: RequireValid = False,
    *,
    read: ReadOptions,
) -> None:
    """Say which stretches of a motion a body could have made, and what is wrong with the others.

    Exit code 0 whatever the verdict, unless --require-valid: it is on the first line, and in the JSON. Several clips
    give one line each. The table has one row for each clip, or with --frames one for each frame.
    """
    try:
        ground: float | str = float(floor)
    except ValueError:
        ground = floor
        if floor not in ("flat", "plants"):
            raise typer.BadParameter(f"'{floor}' is no floor; write flat, plants, or a height in metres.") from None
    files = expand_inputs(clips, MARKER_SUFFIXES)
    pictures = {} if plot is None else plan_outputs(files, plot, ".png")
    for picture in pictures.values():
        check_target(picture, PLOT_SUFFIXES)
    from marey.dynamics import Body, check_validity, compare_reaction, fit_flight_gravity, plot_report
    from marey.kinematics import load_limits

    # Joint limits are read once for all clips
    bounds = None if limits is None else load_limits(limits)

    def check(clip: str) -> Outcome:
        # Markers bring a clock, a belt and a person along
        fit, subject = None, None
        if Path(clip).suffix.lower() in MARKER_SUFFIXES:
            from marey.io import find_subject

            fit, subject = fit_capture(clip, read), find_subject(clip)
            motion = fit.over_ground() if over_ground else fit.motion
        else:
            motion = load_body_motion(clip, read)
        mass = mass_kg if mass_kg is not None or subject is None else subject.mass_kg
        body = Body.from_motion(motion, mass_kg=mass)
        report = check_validity(motion, body, friction=friction, tolerance=tolerance, floor=ground, limits=bounds)
        for warning in report.warnings:
            warn(f"{clip}: {warning}")
        facts: dict[str, Any] = report.to_json(frames=frames)
        lines = [f"{clip}  {report.verdict}"]
        for span in report.spans if len(files) == 1 else ():
            words = span.words.replace(" (up to 0.00 body weights missing)", "")
            lines.append(f"{span.start_s:8.3f} {span.stop_s:8.3f} s  {span.status:<6} {words}")
        if show_flights:
            # A body in the air falls at gravity: a wrong unit, rate or mass shows in the flights
            flights = fit_flight_gravity(motion, body)
            facts["flights"] = [
                asdict(one) | {"is_free_fall": one.is_free_fall, "length_scale": one.length_scale} for one in flights
            ]
            for one in flights:
                fall = "free fall" if one.is_free_fall else f"no free fall; scale lengths by {one.length_scale:.2f}"
                start, stop = (frame / motion.rate_hz for frame in (one.start, one.stop))
                lines.append(f"{start:8.3f} {stop:8.3f} s  flight {one.vertical:.2f} m/s2 upwards, {fall}")
        if fit is not None and fit.belt is not None:
            facts["belt_mps"] = fit.belt.speed_mps
        if require_valid:
            facts["valid"] = report.is_valid
        measured = None
        if grf is not None:
            from marey.io import load_ground_reaction

            # Forces of plates beside those that the motion demands
            start = start_s if start_s is not None else 0.0 if fit is None else fit.start_s
            reaction = load_ground_reaction(grf)
            if fit is not None and fit.belt is not None and over_ground:
                reaction = reaction.over_ground(fit.belt.velocity_mps, start)
            measured = compare_reaction(report, reaction, start_s=start, motion=motion)
            facts["measured"] = measured.to_json()
            lines.append(measured.sentence)
        if clip in pictures:
            plot_report(report, pictures[clip], measured=measured)
            remark(f"wrote {pictures[clip]}")
        fault = report.verdict if require_valid and not report.is_valid else None
        return Outcome(facts, "\n".join(lines), report.table_rows() if frames else None, fault)

    run_each("physics", files, check, is_json=json, csv=csv)
