"""`marey compress` and `marey decompress`: motions to few bytes and back."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Outcome, expand_inputs, load_clip, plan_motion_files, plan_outputs, remark, run_each
from marey.cli.options import Csv, Format, Json, ReadOptions, flat_options, option

if TYPE_CHECKING:
    from marey.motion import Motion


BOUNDS = ("max_error_m", "distortion_percent", "lock_feet")  # what a curve goes through itself
Out = Annotated[
    str | None, option("File or folder to write; beside each input by default. - is stdout.", "-o", "--out")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinOptions:
    """Pose space and tracks of the thesis's codec; its table 9.2 gives them for each clip."""

    n_components: Annotated[int | None, option("tournier2011: geodesics.", min=1, max=4096)] = None
    root_levels: Annotated[int | None, option("tournier2011: levels of the root kept.", min=1, max=64)] = None
    end_levels: Annotated[int | None, option("tournier2011: levels of the ends kept.", min=1, max=64)] = None
    ends: Annotated[list[str] | None, option("tournier2011: joint kept; repeatable.", "--end", metavar="JOINT")] = None
    spring: Annotated[float | None, option("tournier2011: pull of coordinates to the mean [m²].", min=1e-12)] = None
    aliasing: Annotated[
        str | None, option("tournier2011: allow or refuse turns too far apart.", choices=("allow", "refuse"))
    ] = None


@flat_options
def compress(
    clips: Annotated[list[str], typer.Argument(metavar="CLIP...", help="Motion files, folders; - is stdin.")],
    out: Out = None,
    max_error_mm: Annotated[
        float | None, option("No joint of any frame is off by more; 1 mm, or no bound for tournier2011.", min=1e-6)
    ] = None,
    distortion_percent: Annotated[
        float | None, option("Distortion rate instead of a bound; gives far smaller files.")
    ] = None,
    method: Annotated[str, option("default or tournier2011.", choices=("default", "tournier2011"))] = "default",
    *,
    thin: ThinOptions,
    lock_feet: Annotated[bool, option("With --distortion-percent: standing feet do not slide.", "--lock-feet")] = False,
    skeleton: Annotated[
        str, option("inside the file, or outside: a fingerprint.", choices=("inside", "outside"))
    ] = "inside",
    curve: Annotated[bool, option("Print size and errors at a row of bounds; write nothing.", "--curve")] = False,
    json: Json = False,
    csv: Csv = None,
    read: ReadOptions,
) -> None:
    """Compress motions to .marey files, with a bound on the error of every joint in every frame.

    A bound is measured on the decoded file by forward kinematics; one that a method cannot keep is refused.
    """
    given = {"distortion_percent": distortion_percent, **asdict(thin), "lock_feet": lock_feet or None}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "ends" in options:
        options["ends"] = tuple(options["ends"])
    if max_error_mm is not None:
        options["max_error_m"] = 1e-3 * max_error_mm
    if method == "default" and any(value is not None for value in asdict(thin).values()):
        raise typer.BadParameter("--n-components, --root-levels, --end-levels, --ends and --spring are tournier2011's.")
    if method != "default" and (distortion_percent is not None or lock_feet):
        raise typer.BadParameter("--distortion-percent and --lock-feet are those of the default method.")
    options |= {"skeleton": skeleton, "method": method}
    files = expand_inputs(clips)
    targets = plan_outputs(files, out, ".marey")

    def squeeze(clip: str) -> Outcome:
        from marey.base import write_atomically
        from marey.compression import compress, decompress, evaluate_codec

        motion, target = load_clip(clip, read), targets[clip]
        if curve:
            return _draw_curve(clip, motion, {k: v for k, v in options.items() if k not in BOUNDS})
        # The file appears whole or not at all; stdout takes the bytes as they are
        data = compress(motion, **options)
        if target == "-":
            sys.stdout.buffer.write(data)
        else:
            write_atomically(Path(target), data)
        # The error is measured on what a reader will decode
        report = evaluate_codec(motion, decompress(data, skeleton=motion.skeleton), data)
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
    against: Annotated[str | None, option("Also measure the decoded motion against this one.", metavar="CLIP")] = None,
    json: Json = False,
) -> None:
    """Write compressed motions as motion files again."""
    targets = plan_motion_files(files, out, format)
    original = None if against is None else load_clip(against)

    def unpack(file: str) -> Outcome:
        from marey.io import save

        motion, target = read_compressed(file), targets[file]
        save(motion, target)
        facts: dict[str, Any] = {"out": target, "num_frames": motion.num_frames, "rate_hz": motion.rate_hz}
        text = f"wrote {target} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)"
        if original is not None:
            from marey.compression import evaluate_codec

            report = evaluate_codec(original, motion, b"" if file == "-" else Path(file).read_bytes())
            facts |= report.as_dict()
            text += f"; joints within {report.max_joint_error_mm:.3g} mm, {report.distortion_percent:.3g} % distortion"
        return Outcome({key: None if value == float("inf") else value for key, value in facts.items()}, text)

    run_each("decompress", files, unpack, is_json=json)


def _draw_curve(clip: str, motion: Motion, options: dict[str, Any]) -> Outcome:
    """Size and errors at a row of bounds, or of distortion rates."""
    from marey.compression import rate_distortion

    rows = [report.as_dict() for report in rate_distortion(motion, **options)]
    lines = [
        f"{row['bytes']:>9} bytes  1:{row['ratio_tournier']:.1f}  {row['distortion_percent']:.3g} %  "
        f"mean {row['mean_joint_error_mm']:.3g}  largest {row['max_joint_error_mm']:.3g} mm"
        for row in rows
    ]
    return Outcome({"file": clip, "curve": rows}, "\n".join([clip, *lines]))


def read_compressed(file: str) -> Motion:
    """Motion in a compressed file, or on stdin when the path is ``-``; errors name the file."""
    from marey.compression import decompress
    from marey.io import compressed

    return decompress(sys.stdin.buffer.read()) if file == "-" else compressed.read_compressed(file)
