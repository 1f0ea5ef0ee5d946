"""`marey compress` and `marey decompress`: motions to few bytes and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Outcome, expand_inputs, load_clip, plan_motion_files, plan_outputs, remark, run_each
from marey.cli.options import Csv, Format, Json, ReadOptions, flat_options, one_of

if TYPE_CHECKING:
    from marey.motion import Motion


Out = Annotated[
    str | None, typer.Option("-o", "--out", help="File or folder to write; beside each input by default. - is stdout.")
]


@flat_options
def compress(
    clips: Annotated[list[str], typer.Argument(metavar="CLIP...", help="Motion files, folders; - is stdin.")],
    out: Out = None,
    max_error_mm: Annotated[float, typer.Option(min=1e-6, help="No joint of any frame is off by more [mm].")] = 1.0,
    distortion_percent: Annotated[
        float | None, typer.Option(help="Distortion rate instead of a bound; gives far smaller files.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="default or tournier2011.", callback=one_of("default", "tournier2011"))
    ] = "default",
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Compress motions to .marey files, with a bound on the error of every joint in every frame."""
    options: dict[str, Any] = {} if distortion_percent is None else {"distortion_percent": distortion_percent}
    files = expand_inputs(clips)
    targets = plan_outputs(files, out, ".marey")

    def squeeze(clip: str) -> Outcome:
        from marey.base import write_atomically
        from marey.compression import compress, decompress, evaluate_codec

        motion, target = load_clip(clip, read), targets[clip]
        # The file appears whole or not at all; stdout takes the bytes as they are
        data = compress(motion, max_error_m=1e-3 * max_error_mm, method=method, **options)
        if target == "-":
            sys.stdout.buffer.write(data)
        else:
            write_atomically(Path(target), data)
        # The error is measured on what a reader will decode
        report = evaluate_codec(motion, decompress(data), data)
        facts = report.as_dict() | {"file": clip, "out": target, "num_frames": motion.num_frames}
        text = (
            f"{clip} -> {target}: {report.bytes} bytes, 1:{report.ratio_tournier:.1f} of float32 angles, "
            f"1:{report.ratio_acl:.1f} of transforms; joints within {report.max_joint_error_mm:.3g} mm"
        )
        if target == "-":  # stdout holds the bytes
            remark(text)
            text = ""
        # JSON has no infinity
        return Outcome({key: None if value == float("inf") else value for key, value in facts.items()}, text)

    run_each("compress", files, squeeze, is_json=json and "-" not in targets.values(), csv=csv)


def decompress(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Compressed motions.")],
    out: Out = None,
    format: Format = "bvh",  # noqa: A002 (the option is called so)
    json: Json = False,
) -> None:
    """Write compressed motions as motion files again."""
    targets = plan_motion_files(files, out, format)

    def unpack(file: str) -> Outcome:
        from marey.io import save

        motion, target = read_compressed(file), targets[file]
        save(motion, target)
        facts = {"out": target, "num_frames": motion.num_frames, "rate_hz": motion.rate_hz}
        return Outcome(facts, f"wrote {target} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")

    run_each("decompress", files, unpack, is_json=json)


def read_compressed(file: str) -> Motion:
    """Motion in a compressed file, or on stdin when the path is ``-``; errors name the file."""
    from marey.compression import decompress
    from marey.io import compressed

    return decompress(sys.stdin.buffer.read()) if file == "-" else compressed.read_compressed(file)
