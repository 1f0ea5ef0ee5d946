"""`marey convert`, `retarget` and `clean`: conversion between formats and skeletons; captured takes without faults."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Outcome,
    expand_inputs,
    judge_motion,
    load_body_motion,
    load_clip,
    plan_motion_files,
    plan_outputs,
    read_motion,
    remark,
    run_each,
    write_comparison,
    write_motion,
)
from marey.cli.options import (
    FORMATS,
    Clips,
    Count,
    Csv,
    Format,
    Json,
    OutOrFolder,
    ReadOptions,
    RequireValid,
    check_motion_file,
    check_picture_file,
    flat_options,
    option,
)

ROOT_MODES = ("hips", "bone", "in-place")
HAND_MODES = ("directions", "positions", "touch")
MESH_SUFFIXES = (".glb", ".gltf", ".fbx", ".usda")  # formats that hold a character

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.skeleton import Skeleton


@flat_options
def retarget(
    clips: Clips,
    out: OutOrFolder,
    to: Annotated[str, option("human, or a file with the target skeleton or character.")] = "human",
    hands: Annotated[
        str,
        option(
            "directions: arms point as they did; positions: wrists stay; touch: hands on the body stay.",
            choices=HAND_MODES,
        ),
    ] = "directions",
    pin: Annotated[
        list[str] | None, option("left_hand or right_hand: it holds something and stays where it was. Repeatable.")
    ] = None,
    mesh: Annotated[
        bool, option("Write the character's mesh too, where the file and format have one.", "--mesh/--no-mesh")
    ] = True,
    format: Format = "bvh",  # noqa: A002 (the option is called so)
    require_valid: RequireValid = False,
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Move a motion to another skeleton.

    To the canonical human, or to the skeleton or character of another file. Limbs point where they pointed, feet stand
    on the ground and stay where they stand. A character comes out with its mesh, skin and materials.
    """
    files = expand_inputs(clips)
    targets = plan_motion_files(files, out, format)
    skeleton = load_skeleton(to)
    # The character of the target's file is written too where it has a skinned mesh
    onto = None
    if mesh:
        from marey.base import MareyError
        from marey.io import load_character

        with suppress(MareyError):
            onto = to if len(load_character(to).vertices) > 0 else None

    def move(clip: str) -> Outcome:
        from marey import save
        from marey.kinematics import solve_retarget

        source = load_clip(clip, read)
        result = solve_retarget(source, skeleton, hands=hands, pin=tuple(pin or ()))
        moved, report = result.motion, result.report
        holds_mesh = Path(targets[clip]).suffix.lower() in MESH_SUFFIXES
        save(moved, targets[clip], **({"onto": onto} if onto is not None and holds_mesh else {}))
        validity, fault = judge_motion(moved, is_required=require_valid)
        facts = {"out": targets[clip], "num_joints": moved.skeleton.num_joints, "num_frames": moved.num_frames}
        facts |= {"retarget": report.to_json()}
        text = f"wrote {targets[clip]} ({moved.skeleton.num_joints} joints, {moved.num_frames} frames)"
        return Outcome(facts | validity, "\n  ".join((text, *report.warnings(), *report.sentences())), fault=fault)

    run_each("retarget", files, move, is_json=json, csv=csv)


def load_skeleton(target: str) -> Skeleton:
    """Return the canonical human for ``human``, or the skeleton of a motion file."""
    from marey.skeleton import HUMAN

    return HUMAN if target.lower() == "human" else read_motion(target).skeleton


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """What is changed of each motion."""

    rate_hz: Annotated[float | None, option("Resample to this many frames a second.")] = None
    mirror: Annotated[bool, option("Swap left and right.", "--mirror")] = False
    start: Annotated[float | None, option("Cut what comes before [s].", "--start-s", "--start")] = None
    stop: Annotated[float | None, option("Cut what comes after [s].", "--stop-s", "--stop")] = None
    retarget: Annotated[str | None, option("Move to another skeleton: human, or a motion file.")] = None


def change_motion(motion: Motion, wanted: ChangeOptions, skeleton: Skeleton | None) -> Motion:
    """Cut, mirror, retarget and resample, in this order."""
    from marey.base import InputError
    from marey.kinematics import retarget
    from marey.motion import mirror, resample

    start, stop = wanted.start, wanted.stop
    if start is not None or stop is not None:
        first = 0 if start is None else round(start * motion.rate_hz)
        last = motion.num_frames if stop is None else round(stop * motion.rate_hz) + 1
        if not 0 <= first < min(last, motion.num_frames):
            span = f"from {start or 0:g} s" + ("" if stop is None else f" to {stop:g} s")
            raise InputError(f"no frame {span}", f"It lasts {motion.duration_s:.2f} s")
        motion = motion[first:last]
    motion = mirror(motion) if wanted.mirror else motion
    motion = motion if skeleton is None else retarget(motion, skeleton)
    return motion if wanted.rate_hz is None else resample(motion, wanted.rate_hz)


@flat_options
def convert(
    paths: Annotated[
        list[str], typer.Argument(metavar="IN... OUT", help="Files and folders to read, then the file or folder.")
    ],
    *,
    change: ChangeOptions,
    read: ReadOptions,
    out_unit: Annotated[str | None, option("Length unit of a BVH that is written.")] = None,
    onto: Annotated[
        str | None, option("Character to move: a .glb, .gltf or .fbx file; the motion is retargeted to it.")
    ] = None,
    root: Annotated[str | None, option(f"Root motion on: {', '.join(ROOT_MODES)}.", choices=ROOT_MODES)] = None,
    format: Annotated[  # noqa: A002 (the option is called so)
        str | None, option(f"{', '.join(FORMATS)}; needed when OUT is a folder or -.", choices=FORMATS)
    ] = None,
    skip: Annotated[bool, option("Leave files that exist already as they are.", "--skip-existing")] = False,
    all_clips: Annotated[
        bool, option("Write every clip of the inputs, each to a file in the folder OUT.", "--all-clips")
    ] = False,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Write motion files in another format.

    OUT's suffix names it. Several files, or a folder as OUT, need --format. - is stdin or stdout. With --all-clips OUT
    is a folder, by default one called like the file, and the format is BVH unless --format says otherwise.
    """
    if all_clips and read.take is not None:
        raise typer.BadParameter("give one of --clip and --all-clips.")
    if len(paths) == 1 and all_clips:
        paths = [*paths, str(Path(paths[0]).with_suffix(""))]
    if len(paths) < 2:
        raise typer.BadParameter("give at least one file to read and one to write.")
    # The last path is where the result goes
    *inputs, out = paths
    files = expand_inputs(inputs)
    is_folder = len(files) > 1 or Path(out).is_dir() or out.endswith("/")
    if format is None and not all_clips and (is_folder or out == "-"):
        raise typer.BadParameter("--format is needed to write many files, to a folder, or to stdout.")
    skeleton = None if change.retarget is None else load_skeleton(change.retarget)
    options: dict[str, Any] = {} if out_unit is None else {"unit": out_unit}
    options |= {name: value for name, value in (("onto", onto), ("root", root)) if value is not None}

    if all_clips:
        taken: set[str] = set()

        def write_clips(path: str) -> Outcome:
            from marey import save
            from marey.base import MareyError
            from marey.io import clips

            outs: list[str] = []
            faults: list[str] = []
            names = clips(path)
            for name in names:
                target = name_clip_file(out, path if len(files) > 1 else None, name, f".{format or 'bvh'}", taken)
                if not (skip and Path(target).is_file()):
                    try:
                        source = load_clip(path, replace(read, take=name))
                        save(change_motion(source, change, skeleton), target, **options)
                    except MareyError as error:
                        faults.append(f"clip '{name}': {error}")
                        continue
                outs.append(target)
            remark(f"wrote {len(outs)} of {len(names)} clips of {path} to {out}")
            fault = "; ".join(faults) if faults else None if names else f"{path} holds no clip, only a rest pose"
            return Outcome({"out": outs, "clips": list(names)}, "", fault=fault)

        Path(out).mkdir(parents=True, exist_ok=True)
        run_each("convert", files, write_clips, is_json=json, csv=csv)
        return

    targets = plan_outputs(files, out, f".{format}")
    for target in targets.values():
        check_motion_file(None if target == "-" else target)

    def write(path: str) -> Outcome:
        from marey import save

        target = targets[path]
        if skip and Path(target).is_file():
            return Outcome({"out": target, "skipped": True}, "")
        motion = change_motion(load_clip(path, read), change, skeleton)
        # Writers make files: stdout gets the bytes of one
        if target == "-":
            from tempfile import TemporaryDirectory

            with TemporaryDirectory() as folder:
                file = Path(folder) / f"stdout.{format}"
                save(motion, file, **options)
                sys.stdout.buffer.write(file.read_bytes())
        else:
            save(motion, target, **options)
            remark(f"wrote {target} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")
        return Outcome({"out": target, "num_frames": motion.num_frames, "rate_hz": motion.rate_hz}, "")

    run_each("convert", files, write, is_json=json and out != "-", csv=csv)


def name_clip_file(folder: str, source: str | None, clip: str, suffix: str, taken: set[str]) -> str:
    """Return where a clip goes: its name without signs that file systems refuse, numbered where it is taken.

    ``source`` is the file it comes from, where several files are written to one folder.
    """
    plain = re.sub(r"[^\w .()+-]+", "_", clip).strip(" .")[:100] or "clip"
    plain = plain if source is None else f"{Path(source).stem}_{plain}"
    unique, count = plain, 1
    # File systems that ignore case would join Walk and walk
    while unique.lower() in taken:
        count += 1
        unique = f"{plain} ({count})"
    taken.add(unique.lower())
    return str(Path(folder) / f"{unique}{suffix}")


SHOWN_FINDINGS = 6  # of one step, on the screen; the JSON has all


@flat_options
def clean(
    takes: Clips,
    out: OutOrFolder,
    skip: Annotated[list[str] | None, option("Leave a step out; may be repeated.", metavar="STEP")] = None,
    only: Annotated[list[str] | None, option("Do only this step; may be repeated.", metavar="STEP")] = None,
    repair: Annotated[bool, option("Also repair stretches that break physics; slow.", "--repair")] = False,
    strip: Annotated[
        str | None, option("Draw the take before and after, one above the other, to this PNG; for several, a folder.")
    ] = None,
    page: Annotated[
        str | None, option("Play the take before and after, side by side, on this page (.html); for several, a folder.")
    ] = None,
    count: Count = 6,
    format: Format = "bvh",  # noqa: A002 (the option is called so)
    require_valid: RequireValid = False,
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Clean captured takes.

    Steps, in this order: time-base, gaps, exchanges (of left and right limbs), flips, spikes, jumps (of the root),
    limits (of knees and elbows), tremor, floor, plants; with --repair also physics. Each step says what it found and
    how far it moved the body. The table has one row for each step.
    """
    from marey.pipeline.cleaning import DEFAULT_STEPS, STEPS, clean_motion

    for name in (*(skip or ()), *(only or ())):
        if name not in STEPS:
            raise typer.BadParameter(f"there is no step '{name}'; it is one of {', '.join(STEPS)}.")
    wanted = [name for name in (only or DEFAULT_STEPS) if name not in (skip or ())] + (["repair"] if repair else [])
    files = expand_inputs(takes, MARKER_SUFFIXES)
    targets = plan_motion_files(files, out, format)
    pictures = {} if strip is None else plan_outputs(files, strip, ".png")
    for picture in pictures.values():
        check_picture_file(picture)
    pages = {} if page is None else plan_outputs(files, page, ".html")

    def clean_take(take: str) -> Outcome:
        from marey.measure import measure_motion

        motion = load_body_motion(take, read)
        result = clean_motion(motion, steps=wanted)
        write_motion(result.motion, targets[take])
        # The take above, what became of it below
        write_comparison([motion, result.motion], pictures.get(take), count=count)
        if take in pages:
            from marey.picture import save_page

            save_page([replace(motion, name=f"{motion.name}, before"), result.motion], pages[take])
        # The meter, not the steps, says what became better and worse
        before, after = measure_motion(motion), measure_motion(result.motion)
        was, now = before.values, after.values
        validity, fault = judge_motion(result.motion, is_required=require_valid)
        # One line for each step with its findings, then what the meter says before and after
        lines = [Path(take).name] if len(files) > 1 else []
        for step in result.steps:
            lines.append(step.sentence)
            lines += [f"    {finding}" for finding in step.findings[:SHOWN_FINDINGS]]
            more = len(step.findings) - SHOWN_FINDINGS
            lines += [f"    and {more} more"] if more > 0 else []
        lines += ["", f"{'measure':<34}{'before':>10}{'after':>10}"]
        lines += [f"{name:<34}{was[name]:>10.3g}{now[name]:>10.3g}" for name in was if name in now]
        lines += [f"before: {fault}" for fault in before.faults] + [f"after: {fault}" for fault in after.faults]
        facts: dict[str, Any] = {"out": targets[take], **result.to_json()}
        facts |= {"before": before.to_json(), "after": after.to_json(), **validity}
        return Outcome(facts, "\n".join(lines), result.table_rows(), fault)

    run_each("clean", files, clean_take, is_json=json, csv=csv)
