"""`marey between` and `marey fit-markers`: a motion through key poses, and a body that fits captured markers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Outcome,
    expand_inputs,
    fit_capture,
    load_clip,
    plan_outputs,
    print_json,
    remark,
    run_each,
    warn,
    write_motion,
    write_strip,
)
from marey.cli.options import (
    Count,
    Csv,
    Json,
    MotionOut,
    RateHz,
    ReadOptions,
    Strip,
    Unit,
    Up,
    check_target,
    flat_options,
    option,
    parse_numbers,
)

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.pipeline.in_betweens import InBetweenMethod, KeyPlan


@flat_options
def between(
    keys: Annotated[
        str, typer.Argument(metavar="KEYS", help="Keys in a .toml file, or a clip and times.", show_default=False)
    ],
    out: MotionOut = None,
    every: Annotated[float | None, option("Take a key of the clip at each of these intervals [s].", min=0.01)] = None,
    at: Annotated[str | None, option("Take keys of the clip at these times [s].", metavar="LIST")] = None,
    contacts: Annotated[bool, option("Let the feet stand where they do in the clip.", "--contacts")] = False,
    method: Annotated[
        str,
        option(
            "people: as captured people move; smooth: cubic; straight: slerp.", choices=("people", "smooth", "straight")
        ),
    ] = "people",
    rate_hz: Annotated[float | None, option("Frames per second to write.", min=1.0, max=1000.0)] = None,
    limits: Annotated[bool, option("Keep joints inside anatomical limits.")] = True,
    hold_feet: Annotated[
        bool, option("Hold standing feet over the whole clip; keys may move by centimetres.", "--hold-feet")
    ] = False,
    against: Annotated[
        str | None, option("Compare with this clip; the clip of the keys by default.", metavar="CLIP")
    ] = None,
    strip: Strip = None,
    count: Count = 12,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Make a motion through key poses, as captured people move between such poses.

    With a clip to compare with, L2P, L2Q and NPSS stand beside those of slerp. Exits with 1 when a key is missed by
    more than 1 cm (10 cm where feet are held) or a contact is not kept; the motion is written all the same.
    """
    from marey.pipeline.in_betweens import make_in_betweens

    plan, source = _read_plan(keys, every, at, contacts, rate_hz, read)
    if against is not None:
        source = load_clip(against, read)
    result = make_in_betweens(
        plan, method=cast("InBetweenMethod", method), limits=limits, hold=hold_feet, source=source
    )
    for sentence in result.remarks:
        remark(sentence)
    for plant in result.broken:
        warn(f"contact not kept: {plant}")
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    if json:
        print_json({"keys": keys, "out": out, "count": len(plan.keys.times), **result.to_json()})
    else:
        typer.echo(
            f"{len(plan.keys.times)} keys  {result.motion.num_frames} frames  {result.motion.duration_s:.2f} s  "
            f"{result.method}  keys within {1e3 * result.key_miss_m:.1f} mm  "
            f"limits within {result.violation_rad:.2f} rad"
        )
        for name, figures in result.against.items():
            typer.echo(f"{name:<8} " + "  ".join(f"{key} {value:.4f}" for key, value in figures.items()))
    if not result.is_kept:
        if result.key_miss_m > result.tolerance_m:
            warn(f"a key is missed by {1e2 * result.key_miss_m:.1f} cm: contacts or limits contradict it")
        raise typer.Exit(1)


def _read_plan(
    keys: str, every: float | None, at: str | None, contacts: bool, rate_hz: float | None, read: ReadOptions
) -> tuple[KeyPlan, Motion | None]:
    """Keys of a file or of a clip, and the clip between the first and the last of them."""
    from dataclasses import replace

    from marey.contacts import detect_contacts
    from marey.motion import resample
    from marey.pipeline.in_betweens import load_keys, take_keys

    if Path(keys).suffix.lower() == ".toml":
        if every is not None or at is not None or contacts or rate_hz is not None:
            raise typer.BadParameter("--every, --at, --contacts and --rate-hz are for clips; the file says it all.")
        return load_keys(keys), None
    if (every is None) == (at is None):
        raise typer.BadParameter("give the times of the keys: --every SECONDS or --at LIST.")
    clip = load_clip(keys, read)
    if at is not None:
        times = parse_numbers(at, "times", "0,0.5,1.2")
    else:
        times = [i * cast(float, every) for i in range(int(clip.duration_s / cast(float, every) + 1e-9) + 1)]
    plan = take_keys(clip, times, rate_hz=rate_hz)
    first = round(min(times) * clip.rate_hz)
    part = clip[first : first + round(plan.keys.times[-1] * clip.rate_hz) + 1]
    if contacts:
        track = detect_contacts(resample(part, plan.rate_hz))
        plan = replace(plan, contacts=track)
    return plan, part


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
