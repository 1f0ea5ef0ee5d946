"""`marey convert` and `marey retarget`: one format or skeleton to another, and the simple changes on the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import (
    FORMATS,
    Clips,
    Csv,
    Format,
    Json,
    Outcome,
    OutOrFolder,
    RateHz,
    RequireValid,
    Unit,
    check_motion_file,
    expand_inputs,
    judge_motion,
    load_clip,
    one_of,
    plan_motion_files,
    plan_outputs,
    read_motion,
    remark,
    run_each,
)

if TYPE_CHECKING:
    from marey.skeleton import Skeleton


def retarget(
    clips: Clips,
    out: OutOrFolder,
    to: Annotated[str, typer.Option(help="human, or a motion file with the target skeleton.")] = "human",
    format: Format = "bvh",  # noqa: A002 (the option is called so)
    require_valid: RequireValid = False,
    json: Json = False,
    csv: Csv = None,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Move a motion to another skeleton.

    To the canonical human, or to the skeleton of another file; feet stay where they stand.
    """
    files = expand_inputs(clips)
    targets = plan_motion_files(files, out, format)
    skeleton = load_skeleton(to)

    def move(clip: str) -> Outcome:
        from marey.io import save
        from marey.kinematics import retarget as retarget_motion

        moved = retarget_motion(load_clip(clip, rate_hz=read_rate_hz, unit=unit), skeleton)
        save(moved, targets[clip])
        validity, fault = judge_motion(moved, is_required=require_valid)
        facts = {"out": targets[clip], "num_joints": moved.skeleton.num_joints, "num_frames": moved.num_frames}
        text = f"wrote {targets[clip]} ({moved.skeleton.num_joints} joints, {moved.num_frames} frames)"
        return Outcome(facts | validity, text, fault=fault)

    run_each("retarget", files, move, is_json=json, csv=csv)


def load_skeleton(target: str) -> Skeleton:
    """Return the canonical human for ``human``, or the skeleton of a motion file."""
    from marey.skeleton import HUMAN

    return HUMAN if target.lower() == "human" else read_motion(target).skeleton


def convert(
    paths: Annotated[
        list[str], typer.Argument(metavar="IN... OUT", help="Files and folders to read, then the file or folder.")
    ],
    rate_hz: Annotated[float | None, typer.Option(help="Resample to this many frames a second.")] = None,
    unit: Unit = None,
    read_rate_hz: RateHz = None,
    out_unit: Annotated[str | None, typer.Option(help="Length unit of a BVH that is written.")] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Swap left and right.")] = False,
    start: Annotated[float | None, typer.Option("--start-s", "--start", help="Cut what comes before [s].")] = None,
    stop: Annotated[float | None, typer.Option("--stop-s", "--stop", help="Cut what comes after [s].")] = None,
    retarget: Annotated[str | None, typer.Option(help="Move to another skeleton: human, or a motion file.")] = None,
    format: Annotated[  # noqa: A002 (the option is called so)
        str | None,
        typer.Option(help=f"{', '.join(FORMATS)}; needed when OUT is a folder or -.", callback=one_of(*FORMATS)),
    ] = None,
    skip: Annotated[bool, typer.Option("--skip-existing", help="Leave files that exist already as they are.")] = False,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Write motion files in another format.

    OUT's suffix names it. Several files, or a folder as OUT, need --format. - is stdin or stdout.
    """
    if len(paths) < 2:
        raise typer.BadParameter("give at least one file to read and one to write.")
    # The last path is where the result goes
    *inputs, out = paths
    files = expand_inputs(inputs)
    is_folder = len(files) > 1 or Path(out).is_dir() or out.endswith("/")
    if format is None and (is_folder or out == "-"):
        raise typer.BadParameter("--format is needed to write many files, to a folder, or to stdout.")
    targets = plan_outputs(files, out, f".{format}")
    for target in targets.values():
        check_motion_file(None if target == "-" else target)
    skeleton = None if retarget is None else load_skeleton(retarget)
    options: dict[str, Any] = {} if out_unit is None else {"unit": out_unit}

    def write(path: str) -> Outcome:
        from marey.base import InputError
        from marey.io import save
        from marey.kinematics import retarget as retarget_motion
        from marey.motion import mirror as mirror_motion
        from marey.motion import resample

        target = targets[path]
        if skip and Path(target).is_file():
            return Outcome({"out": target, "skipped": True}, "")
        motion = load_clip(path, rate_hz=read_rate_hz, unit=unit)
        # Cut, mirror, retarget and resample, in this order
        if start is not None or stop is not None:
            first = 0 if start is None else round(start * motion.rate_hz)
            last = motion.num_frames if stop is None else round(stop * motion.rate_hz) + 1
            if not 0 <= first < min(last, motion.num_frames):
                raise InputError(f"no frame between {start or 0} s and {stop} s", f"It lasts {motion.duration_s:.2f} s")
            motion = motion[first:last]
        motion = mirror_motion(motion) if mirror else motion
        motion = motion if skeleton is None else retarget_motion(motion, skeleton)
        motion = motion if rate_hz is None else resample(motion, rate_hz)
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
