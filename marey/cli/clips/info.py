"""`marey info`, `measure`, `strip`, `film`, `view` and `plot`: what is in a clip, its figures, and pictures of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Outcome,
    expand_inputs,
    load_body_motion,
    load_clip,
    load_world,
    make_ground,
    plan_outputs,
    print_json,
    read_motion,
    remark,
    run_each,
    warn,
    write_strip,
)
from marey.cli.options import (
    PLOT_SUFFIXES,
    Clip,
    Clips,
    Csv,
    Json,
    ReadOptions,
    check_picture_file,
    check_target,
    flat_options,
    option,
)

if TYPE_CHECKING:
    from marey.motion import Motion


@flat_options
def info(
    files: Annotated[
        list[str],
        typer.Argument(help="Motion or marker files, folders, shipped clips; - is stdin.", show_default=False),
    ],
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Say what is in motion and marker files, or in a locomotion model.

    Joints, frames, rate, height, mean speed, unit, the pelvis and nodes above it, whether it is a human, and warnings.
    """
    from marey.base import read_format

    def describe(path: str) -> Outcome:
        if Path(path).suffix.lower() == ".safetensors" and read_format(Path(path)) == "marey-locomotion":
            from marey.locomotion import load_model

            model = load_model(path)
            return Outcome(model.describe() | {"file": path}, f"{path}  {model.text()}")
        if Path(path).suffix.lower() in MARKER_SUFFIXES:
            facts = _marker_facts(path, read)
            parts = [f"{facts['num_markers']} markers ({100 * facts['valid_fraction']:.0f} % seen)"]
            parts += [f"{len(facts['analog'])} analog channels"] if facts["analog"] else []
            parts += [f"{len(facts['muscles'])} of muscles"] if facts["muscles"] else []
            parts += [f"{len(facts['plate_types'])} force plates"] if facts["plate_types"] else []
            parts += [f"from {facts['start_s']:g} s"] if facts["start_s"] else []
        else:
            motion = read_motion(path, read)
            facts = describe_motion(motion) | {"file": path}
            parts = [f"{facts['num_joints']} joints"]
        # What every kind of file has, then what a motion has beside it
        parts += [f"{facts['num_frames']} frames", f"{facts['rate_hz']:g} Hz", f"{facts['duration_s']:.2f} s"]
        if facts["kind"] == "motion":
            parts += [f"height {facts['height_m']:.2f} m", f"{facts['mean_speed_mps']:.2f} m/s"]
            parts += [f"{facts['up'].lstrip('+').upper()} up"]
            # The unit of the file if it is not the metre: known, assumed, or corrected to a person's size
            file_unit, metres = facts["unit"], facts["metres_per_unit"]
            if any(note.startswith("unit unknown") for note in facts["notes"]):
                parts.append(f"(unit unknown, {file_unit} assumed)")
            elif any("lengths were multiplied" in warning for warning in facts["warnings"]):
                parts.append(f"(scale corrected: a unit of the file is {metres:g} m)")
            elif file_unit != "m":
                parts.append(f"({file_unit} -> m)")
            parts += [] if facts["is_human"] else ["not a human"]
            parts += [f"pelvis {facts['pelvis']}"] if facts["folded"] else []
        if not json:
            if facts["kind"] == "motion":
                # Decisions of the reader: unit, pelvis, parts that were left out; an unknown unit is a warning below
                for note in facts["notes"]:
                    if note.startswith(("unit ", "length ", "CMU skeleton")) and not note.startswith("unit unknown"):
                        remark(f"{path}: {note}")
                if not facts["is_human"]:
                    why = "; ".join(facts["anatomy"])
                    remark(f"{path}: not a human (score {facts['anatomy_score']:.2f}): {why}")
                elif facts["folded"]:
                    folded = ", ".join(facts["folded"])
                    remark(f"{path}: the pelvis is {facts['pelvis']}; folded into its path: {folded}")
                if facts["is_human"] and facts["left_out"]:
                    remark(f"{path}: left out, not a part of the body: {', '.join(facts['left_out'])}")
            for warning in facts["warnings"]:
                warn(f"{path}: {warning}")
        return Outcome(facts, "  ".join([path, *parts]))

    run_each("info", expand_inputs(files, MARKER_SUFFIXES), describe, is_json=json, csv=csv)


def describe_motion(motion: Motion) -> dict[str, Any]:
    """Facts about a motion, as plain JSON values."""
    from marey.motion import assess_motion, mean_speed, standing_height
    from marey.skeleton import role_map

    source = motion.source
    anatomy = assess_motion(motion)
    pelvis = anatomy.pelvis if anatomy.is_human else None
    heights = motion.skeleton.rest_positions()[:, 1]
    layout: Mapping[str, Any] = {} if source is None else source.layout
    return {
        "file": "" if source is None else source.path,
        "kind": "motion",
        "name": motion.name,
        "format": "" if source is None else source.format,
        "num_joints": motion.skeleton.num_joints,
        "num_frames": motion.num_frames,
        "rate_hz": motion.rate_hz,
        "duration_s": motion.duration_s,
        # An animal does not stand upright in a T-pose: its height is that of the rest pose
        "height_m": standing_height(motion.skeleton) if anatomy.is_human else float(heights.max() - heights.min()),
        "mean_speed_mps": mean_speed(motion),
        "unit": "m" if source is None else source.unit,
        "metres_per_unit": 1.0 if source is None else source.metres_per_unit,
        "up": "+y" if source is None else source.up,
        "is_human": anatomy.is_human,
        "anatomy_score": anatomy.score,
        "anatomy": list(anatomy.reasons),
        "pelvis": None if pelvis is None else motion.skeleton.names[pelvis],
        "folded": list(layout.get("folded", ())),
        "left_out": list(layout.get("left_out", ())),
        "skeleton": role_map(motion.skeleton).profile,
        "joints": list(motion.skeleton.names),
        "contacts": [] if motion.contacts is None else list(motion.contacts.names),
        "warnings": list(motion.load_report.warnings),
        "notes": list(motion.load_report.notes),
    }


def _marker_facts(path: str, read: ReadOptions) -> dict[str, Any]:
    """Facts about a file of markers, or of muscle activity alone, as plain JSON values."""
    from marey.base import FormatError
    from marey.io import load_analog, load_markers

    markers = None
    try:
        markers = load_markers(path, rate_hz=read.read_rate_hz, unit=read.unit, up=read.up)
        analog = markers.analog
    except FormatError as error:
        # A file of muscle activity alone has no points
        if "only" not in error.what or "analog channels" not in error.what:
            raise
        analog = load_analog(path)
    if markers is not None:
        frames, rate_hz, start_s, report = len(markers.positions), markers.rate_hz, markers.start_s, markers.load_report
    else:
        assert analog is not None
        frames, rate_hz, start_s, report = analog.num_samples, analog.rate_hz, analog.start_s, None
    return {
        "file": path,
        "kind": "analog" if markers is None else "markers",
        "format": Path(path).suffix.lower().lstrip("."),
        "num_joints": 0,
        "num_markers": 0 if markers is None else len(markers.names),
        "num_frames": frames,
        "rate_hz": rate_hz,
        "duration_s": (frames - 1) / rate_hz,
        "height_m": None,
        "mean_speed_mps": None,
        "valid_fraction": 0.0 if markers is None else float(markers.valid.mean()),
        "markers": [] if markers is None else list(markers.names),
        "start_s": start_s,
        "analog": [] if analog is None else list(analog.names),
        "analog_rate_hz": None if analog is None else analog.rate_hz,
        "muscles": [] if analog is None else list(analog.muscles),
        "plate_types": [] if markers is None else [plate.kind for plate in markers.plates],
        "warnings": [] if report is None else list(report.warnings),
        "notes": [] if report is None else list(report.notes),
    }


@flat_options
def measure(
    clips: Clips,
    json: Json = False,
    csv: Csv = None,
    against: Annotated[str | None, option("The clip it was made from, beside it.", metavar="CLIP")] = None,
    world: Annotated[str | None, option("Sketch or problem whose walls and boxes count.", metavar="TOML")] = None,
    slope: Annotated[
        float | None, option("Ground of `marey walk --slope` of a script that starts at the origin.", metavar="DEG")
    ] = None,
    stairs: Annotated[
        tuple[float, float, int] | None, option("Ground of `marey walk --stairs`.", metavar="RISE TREAD COUNT")
    ] = None,
    kind: Annotated[
        str | None, option("walk, run, jump or other, if the guess is wrong.", choices=("walk", "run", "jump", "other"))
    ] = None,
    plot: Annotated[
        str | None, option("Draw the figures to this PNG; for several clips, a folder.", "--plot", "-o")
    ] = None,
    require_clean: Annotated[bool, option("Exit with 1 where a fault is named.", "--require-clean")] = False,
    *,
    read: ReadOptions,
) -> None:
    """Measure a clip by geometry alone and name its faults, with their times.

    No contact track and no setting of an engine is read. Beside each figure stand the 1st and 99th percentile of
    captured walks, runs or jumps; lines with a ! are faults. Exit code 0 whatever is found, unless --require-clean.
    Several clips give one line and their faults each. The table has one row for each figure.
    """
    files = expand_inputs(clips, MARKER_SUFFIXES)
    pictures = {} if plot is None else plan_outputs(files, plot, ".png")
    for picture in pictures.values():
        check_target(picture, PLOT_SUFFIXES)
    if slope is not None and stairs is not None:
        raise typer.BadParameter("give --slope or --stairs.")
    from marey.measure import measure_motion
    from marey.world import Sketch

    source = None if against is None else load_body_motion(against)
    surroundings = load_world(world)
    things = surroundings.world if isinstance(surroundings, Sketch) else surroundings

    ground = None if slope is None and stairs is None else make_ground(slope, stairs)

    def judge(clip: str) -> Outcome:
        motion = load_body_motion(clip, read)
        found = measure_motion(motion, against=source, world=things, ground=ground, kind=kind)
        lines = [f"{clip}  {found.sentence.split(', ', 1)[1]}"]
        if len(files) == 1:
            lines.append(f"{'':43}{'value':>11}  {'unit':<8}{'1 %':>10}{'99 %':>11}{'source':>11}" if source is not None
                         else f"{'':43}{'value':>11}  {'unit':<8}{'1 %':>10}{'99 %':>11}")  # fmt: skip
            for figure in found.figures:
                numbers = [figure.low, figure.high] + ([] if source is None else [figure.source])
                beside = "".join(f"{'' if number is None else f'{number:.4g}':>11}" for number in numbers)
                lines.append(
                    f"  {figure.name:<41}{figure.value:>11.4g}  {figure.unit:<7}{beside}  {figure.remark}".rstrip()
                )
        lines += [f"! {fault}" for fault in found.faults]
        if clip in pictures:
            found.plot(pictures[clip])
            remark(f"wrote {pictures[clip]}")
        fault = f"{len(found.faults)} faults, first: {found.faults[0]}" if require_clean and found.faults else None
        return Outcome(found.to_json(), "\n".join(lines), found.table_rows(), fault)

    run_each("measure", files, judge, is_json=json, csv=csv)


Surroundings = Annotated[str | None, option("Sketch or problem whose world is drawn too.", "--world", metavar="TOML")]
CharacterFile = Annotated[
    str | None,
    option("Character (GLB, FBX) with the clip's skeleton, whose mesh is drawn.", "--character", metavar="FILE"),
]
BodyKind = Annotated[
    str,
    option(
        "capsules, mesh (of the character or of the clip's own file) or auto: the mesh where there is one.",
        "--body",
        choices=("auto", "capsules", "mesh"),
    ),
]


@flat_options
def strip(
    clip: Clip,
    out: Annotated[str, option("Picture to write.", "-o", "--out", show_default=False, callback=check_picture_file)],
    count: Annotated[int, option("Bodies on the strip.", min=1, max=200)] = 8,
    width: Annotated[int, option("Width of the picture [pixel].", min=64, max=8192)] = 1600,
    view: Annotated[
        str,
        option(
            "side, three-quarter, front or top, bodies side by side; auto: nearly from the side, where they were.",
            choices=("auto", "side", "three-quarter", "front", "top"),
        ),
    ] = "auto",
    world: Surroundings = None,
    character: CharacterFile = None,
    body: BodyKind = "auto",
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Draw a film strip of a motion.

    A solid body at several moments, or the mesh of the clip's own character, with ground, shadow and foot plants.
    """
    motion = load_clip(clip, read)
    write_strip(motion, out, count, width=width, view=view, world=load_world(world), character=character, body=body)
    if json:
        print_json({"file": clip, "out": out, "count": count, "num_frames": motion.num_frames})


@flat_options
def film(
    clip: Clip,
    out: Annotated[
        str, option("Film to write: .gif or .mp4.", "-o", "--out", show_default=False, suffixes=(".gif", ".mp4"))
    ],
    fps: Annotated[float, option("Pictures a second.", min=1, max=240)] = 30.0,
    world: Surroundings = None,
    character: CharacterFile = None,
    body: BodyKind = "auto",
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Render a motion as a GIF or MP4 film."""
    from marey.picture import save_film

    motion = load_clip(clip, read)
    save_film(motion, out, fps=fps, world=load_world(world), character=character, body=body)
    remark(f"wrote {out}")
    if json:
        print_json({"file": clip, "out": out, "fps": fps, "duration_s": motion.duration_s})


@flat_options
def view(
    clips: Clips,
    out: Annotated[
        str | None,
        option("Page to write; without it, one is opened in the browser.", "-o", "--out", suffixes=(".html",)),
    ] = None,
    world: Surroundings = None,
    character: CharacterFile = None,
    body: BodyKind = "auto",
    physics: Annotated[bool, option("Judge each clip, and show the verdict on its timeline.", "--physics")] = False,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Make a page that plays motions side by side, with a timeline of their contacts; it needs no server."""
    from marey.picture import save_page

    files = expand_inputs(clips, MARKER_SUFFIXES)
    motions = [load_body_motion(file, read) for file in files]
    bands: list[dict[str, list[tuple[float, float, str, str]]]] = []
    for motion in motions if physics else ():
        from marey.dynamics import check_validity

        report = check_validity(motion)
        bands.append({"physics": [(span.start_s, span.stop_s, span.status, span.words) for span in report.spans]})
    target = out
    if target is None:
        import tempfile

        # The browser reads the page after this process has ended, so nobody removes it here
        target = str(Path(tempfile.mkdtemp(prefix="marey-")) / "motion.html")
    save_page(motions, target, world=load_world(world), bands=bands, character=character, body=body)
    remark(f"wrote {target}")
    if out is None:
        import webbrowser

        if not webbrowser.open(Path(target).as_uri()):
            remark(f"no browser opened; open {target}")
    if json:
        print_json({"files": files, "out": target, "num_frames": [motion.num_frames for motion in motions]})


@flat_options
def plot(
    clip: Clip,
    out: Annotated[str, option("Picture to write.", "-o", "--out", show_default=False)],
    joint: Annotated[list[str] | None, option("Joint or role to plot; may be repeated.", "--joint", "-j")] = None,
    contacts: Annotated[bool, option("Plot contacts instead of joint angles.", "--contacts")] = False,
    speed: Annotated[bool, option("Plot speed and height of the root instead.", "--speed")] = False,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Plot joint angles, contacts or the speed of the root over time."""
    if (joint is not None) + contacts + speed > 1:
        raise typer.BadParameter("give one of --joint, --contacts and --speed.")
    check_target(out, PLOT_SUFFIXES)
    from marey.contacts import ensure_contacts
    from marey.picture import plot_angles, plot_contacts, plot_speed

    motion = load_clip(clip, read)
    if contacts:
        plot_contacts(motion if motion.contacts is not None else ensure_contacts(motion), out)
    elif speed:
        plot_speed(motion, out)
    else:
        plot_angles(motion, out, joints=joint or None)
    remark(f"wrote {out}")
    if json:
        print_json({"file": clip, "out": out, "num_frames": motion.num_frames})
