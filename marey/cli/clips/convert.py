"""`marey convert` and `marey retarget`: one format or skeleton to another, and the simple changes on the way."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Clip, RateHz, Unit, for_each, load_clip, progress_bar, remark

if TYPE_CHECKING:
    from marey.motion import Motion


Out = Annotated[str, typer.Option("-o", "--out", help="File to write.", show_default=False)]


def retarget(
    clip: Clip,
    out: Out,
    to: Annotated[str, typer.Option(help="human, or a motion file with the target skeleton.")] = "human",
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Move a motion to another skeleton.

    To the canonical human, or to the skeleton of another file; feet stay where they stand.
    """
    from marey.io import save

    moved = retarget_to(load_clip(clip, rate_hz=read_rate_hz, unit=unit), to)
    save(moved, out)
    remark(f"wrote {out} ({moved.skeleton.num_joints} joints, {moved.num_frames} frames)")


def retarget_to(motion: Motion, target: str) -> Motion:
    """Retarget to ``human`` or to the skeleton of a motion file."""
    from marey.cli.common import read_motion
    from marey.kinematics import retarget as move
    from marey.skeleton import HUMAN

    return move(motion, HUMAN if target.lower() == "human" else read_motion(target).skeleton)


def convert(
    paths: Annotated[
        list[str], typer.Argument(metavar="IN... OUT", help="Files to read, then the file or folder to write.")
    ],
    rate_hz: Annotated[float | None, typer.Option(help="Resample to this many frames a second.")] = None,
    unit: Unit = None,
    read_rate_hz: RateHz = None,
    out_unit: Annotated[str | None, typer.Option(help="Length unit of a BVH that is written.")] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Swap left and right.")] = False,
    start: Annotated[float | None, typer.Option(help="Cut what comes before this time [s].")] = None,
    stop: Annotated[float | None, typer.Option(help="Cut what comes after this time [s].")] = None,
    retarget: Annotated[str | None, typer.Option(help="Move to another skeleton: human, or a motion file.")] = None,
    format: Annotated[  # noqa: A002 (the option is called so)
        str | None, typer.Option(help="bvh, glb, gltf or safetensors; needed when OUT is a folder or -.")
    ] = None,
) -> None:
    """Write motion files in another format.

    OUT's suffix names it. Several files, or a folder as OUT, need --format. - is stdin or stdout.
    """
    if len(paths) < 2:
        raise typer.BadParameter("give at least one file to read and one to write.")
    *inputs, out = paths
    targets = {path: _output_path(path, out, format, is_many=len(inputs) > 1) for path in inputs}
    if len(set(targets.values())) < len(inputs):
        raise typer.BadParameter("two inputs would be written to the same file.")
    count = 0
    with progress_bar("convert") as progress:

        def do(path: str) -> None:
            nonlocal count
            motion = load_clip(path, rate_hz=read_rate_hz, unit=unit)
            motion = edit_motion(motion, rate_hz=rate_hz, is_mirrored=mirror, start=start, stop=stop, target=retarget)
            _write_converted(motion, targets[path], {} if out_unit is None else {"unit": out_unit})
            count += 1
            progress(count, len(inputs))

        for_each(inputs, do)


def edit_motion(
    motion: Motion,
    *,
    rate_hz: float | None = None,
    is_mirrored: bool = False,
    start: float | None = None,
    stop: float | None = None,
    target: str | None = None,
) -> Motion:
    """Cut, mirror, retarget and resample a motion, in this order."""
    from marey.base import InputError
    from marey.motion import mirror, resample

    if start is not None or stop is not None:
        first = 0 if start is None else round(start * motion.rate_hz)
        last = motion.num_frames if stop is None else round(stop * motion.rate_hz) + 1
        if not 0 <= first < min(last, motion.num_frames):
            raise InputError(f"no frame between {start or 0} s and {stop} s", f"It lasts {motion.duration_s:.2f} s")
        motion = motion[first:last]
    if is_mirrored:
        motion = mirror(motion)
    if target is not None:
        motion = retarget_to(motion, target)
    return motion if rate_hz is None else resample(motion, rate_hz)


def _output_path(path: str, out: str, format_: str | None, *, is_many: bool) -> str:
    is_folder = is_many or Path(out).is_dir() or out.endswith(("/", os.sep))
    if out != "-" and not is_folder:
        return out
    if format_ is None:
        raise typer.BadParameter("--format is needed to write many files, to a folder, or to stdout.")
    if out == "-":
        return f"-.{format_.lstrip('.')}"
    stem = "stdin" if path == "-" else Path(path).stem
    return str(Path(out) / f"{stem}.{format_.lstrip('.')}")


def _write_converted(motion: Motion, target: str, options: dict[str, Any]) -> None:
    from marey.io import save

    if target.startswith("-."):
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            file = Path(folder) / f"stdout{target[1:]}"
            save(motion, file, **options)
            sys.stdout.buffer.write(file.read_bytes())
        return
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    save(motion, target, **options)
    remark(f"wrote {target} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")
