"""`marey fit-markers`: a body that fits captured markers."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from marey.cli.common import MARKER_SUFFIXES, Outcome, expand_inputs, fit_capture, plan_outputs, run_each, write_motion
from marey.cli.options import Csv, Json, RateHz, ReadOptions, Unit, Up, check_target, option


def fit_markers(
    files: Annotated[list[str], typer.Argument(help="Marker files (.c3d, .trc) or folders.", show_default=False)],
    out: Annotated[str | None, option("Motion to write; for several files, a folder.", "-o", "--out")] = None,
    height_m: Annotated[
        float | None, option("Stature of the person; else from _subject.json.", min=0.4, max=2.8)
    ] = None,
    names: Annotated[bool, option("Use names of markers as hints, or geometry alone.", "--names/--no-names")] = True,
    over_ground: Annotated[
        bool, option("On a treadmill: add the belt's way to the motion.", "--over-ground/--as-captured")
    ] = True,
    separation: Annotated[
        bool, option("Also tell how far joints come apart, bones placed by their markers.", "--separation")
    ] = False,
    json: Json = False,
    csv: Csv = None,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
    up: Up = None,
) -> None:
    """Fit a human body to captured markers.

    Prints how far each marker is from its place on the body, what was left out and why, and the speed of a treadmill.
    Mass and stature are read from _subject.json beside the file, where there is one.
    """
    inputs = expand_inputs(files, MARKER_SUFFIXES)
    targets = {} if out is None else plan_outputs(inputs, out, ".glb")
    if out is not None:
        from marey.io import WRITABLE_SUFFIXES

        for target in targets.values():
            check_target(target, WRITABLE_SUFFIXES)

    read = ReadOptions(read_rate_hz=read_rate_hz, unit=unit, up=up)

    def fit(path: str) -> Outcome:
        from marey.io import find_subject

        found = fit_capture(path, read, height_m=height_m, names=names)
        motion = found.over_ground() if over_ground else found.motion
        write_motion(motion, targets.get(path))
        subject = find_subject(path)
        facts: dict[str, Any] = {
            "file": path,
            "num_markers": len(found.sites),
            "num_frames": motion.num_frames,
            "first_frame": found.first_frame,
            "start_s": found.start_s,
            "rms_mm": 1e3 * found.rms_m,
            "height_m": found.height_m,
            "mass_kg": None if subject is None else subject.mass_kg,
            "belt_mps": None if found.belt is None else found.belt.speed_mps,
            "swapped_sightings": found.swapped,
            "marker_rms_mm": {name: 1e3 * error for name, error in found.marker_rms_m.items()},
            "joints": {name: site.joint for name, site in found.sites.items()},
            "found_by_geometry": list(found.unnamed),
            "left_out": dict(found.left_out),
        }
        apart: dict[str, Any] = {}
        if separation:
            from marey.io import load_markers
            from marey.kinematics.markers import measure_separation

            seen = load_markers(path, rate_hz=read_rate_hz, unit=unit)
            rows = slice(found.first_frame, found.first_frame + found.motion.num_frames)
            seen = replace(seen, positions=seen.positions[rows], valid=seen.valid[rows], analog=None, plates=())
            for joint, away in measure_separation(found.motion, seen, found.sites).items():
                apart[joint] = {"mean_mm": 1e3 * float(away.mean()), "max_mm": 1e3 * float(away.max())}
            facts["separation"] = apart
        # One line for each marker, the worst first, then what was left out
        belt = "" if found.belt is None else f"  treadmill {found.belt.speed_mps:.2f} m/s"
        lines = [
            f"{path}  {len(found.sites)} markers  {motion.num_frames} frames  {1e3 * found.rms_m:.1f} mm RMS  "
            f"height {found.height_m:.2f} m{belt}"
        ]
        if len(inputs) == 1:
            ranked = sorted(found.marker_rms_m.items(), key=lambda item: -item[1])
            by_shape = set(found.unnamed)
            for name, error in ranked:
                how = "  (by geometry)" if name in by_shape else ""
                lines.append(f"  {name:<20} {1e3 * error:6.1f} mm  {found.sites[name].joint}{how}")
            for joint, away in sorted(apart.items(), key=lambda item: -item[1]["mean_mm"]):
                lines.append(f"  {joint:<20} {away['mean_mm']:6.1f} mm  apart, at most {away['max_mm']:.1f} mm")
            lines += [f"  {name:<20} left out: {why}" for name, why in found.left_out.items()]
            if found.swapped:
                lines.append(f"  {found.swapped} sightings were left out: far from where their marker sits")
        return Outcome(facts, "\n".join(lines))

    run_each("fit-markers", inputs, fit, is_json=json, csv=csv)
