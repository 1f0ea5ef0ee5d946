"""`marey compress` and `marey decompress`: motions to few bytes and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, RateHz, Unit, for_each, load_clip, print_json, progress_bar, remark

if TYPE_CHECKING:
    from marey.motion import Motion


Out = Annotated[
    str | None, typer.Option("-o", "--out", help="File or folder to write; beside each input by default. - is stdout.")
]


def compress(
    clips: Annotated[list[str], typer.Argument(metavar="CLIP...", help="Motion files; - is stdin.")],
    out: Out = None,
    max_error_mm: Annotated[float, typer.Option(help="No joint of any frame is off by more [mm].")] = 1.0,
    distortion_percent: Annotated[
        float | None, typer.Option(help="Distortion rate instead of a bound; gives far smaller files.")
    ] = None,
    method: Annotated[str, typer.Option(help="default or tournier2011.")] = "default",
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Compress motions to .marey files, with a bound on the error of every joint in every frame."""
    options: dict[str, Any] = {} if distortion_percent is None else {"distortion_percent": distortion_percent}

    def one(clip: str, target: str) -> None:
        from marey.compression import compress as squeeze

        motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
        data = squeeze(motion, max_error_m=1e-3 * max_error_mm, method=method, **options)
        _write_output(data, target)
        _report_compression(clip, target, motion, data, is_json=json)

    _process_each(
        "compress", clips, {clip: _output_path(clip, out, ".marey", is_many=len(clips) > 1) for clip in clips}, one
    )


def decompress(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Compressed motions.")],
    out: Out = None,
    format: Annotated[  # noqa: A002 (the option is called so)
        str, typer.Option(help="bvh, glb, gltf or safetensors, where --out does not say.")
    ] = "bvh",
    json: Json = False,
) -> None:
    """Write compressed motions as motion files again."""

    def one(file: str, target: str) -> None:
        from marey.io import save

        motion = read_compressed(file)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        save(motion, target)
        if json:
            print_json({"file": file, "out": target, "num_frames": motion.num_frames, "rate_hz": motion.rate_hz})
        else:
            remark(f"wrote {target} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")

    suffix = "." + format.lstrip(".")
    _process_each(
        "decompress", files, {file: _output_path(file, out, suffix, is_many=len(files) > 1) for file in files}, one
    )


def read_compressed(file: str) -> Motion:
    """Motion in a compressed file, or on stdin when the path is ``-``; errors name the file."""
    from marey.base import FormatError, MissingFileError
    from marey.compression import decompress as unsqueeze

    if file == "-":
        return unsqueeze(sys.stdin.buffer.read())
    if not Path(file).is_file():
        raise MissingFileError(file)
    try:
        return unsqueeze(Path(file).read_bytes())
    except FormatError as error:
        raise FormatError(error.what, file, 0, error.fix) from None


def _process_each(title: str, paths: list[str], targets: dict[str, str], one: Any) -> None:
    if len(set(targets.values())) < len(paths):
        raise typer.BadParameter("two inputs would be written to the same file.")
    count = 0
    with progress_bar(title) as progress:

        def do(path: str) -> None:
            nonlocal count
            one(path, targets[path])
            count += 1
            progress(count, len(paths))

        for_each(paths, do)


def _output_path(path: str, out: str | None, suffix: str, *, is_many: bool) -> str:
    """Where the result of one input goes."""
    stem = "stdin" if path == "-" else Path(path).stem
    if out is None:
        return str((Path() if path == "-" else Path(path).parent) / (stem + suffix))
    if is_many or Path(out).is_dir() or out.endswith(("/", os.sep)):
        return str(Path(out) / (stem + suffix))
    return out


def _write_output(data: bytes, target: str) -> None:
    """The whole file or none of it."""
    if target == "-":
        sys.stdout.buffer.write(data)
        return
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    from marey.base import write_atomically

    write_atomically(Path(target), data)


def _report_compression(clip: str, target: str, motion: Motion, data: bytes, *, is_json: bool) -> None:
    from marey.compression import decompress as unsqueeze
    from marey.compression import evaluate_codec

    report = evaluate_codec(motion, unsqueeze(data), data)
    facts = report.as_dict() | {"file": clip, "out": target, "num_frames": motion.num_frames}
    if is_json and target != "-":
        print_json(_finite_facts(facts))
        return
    sizes = (
        f"{report.bytes} bytes, 1:{report.ratio_tournier:.1f} of float32 angles, 1:{report.ratio_acl:.1f} of transforms"
    )
    remark(f"{clip} -> {target}: {sizes}; joints within {report.max_joint_error_mm:.3g} mm")


def _finite_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity."""
    return {key: None if value == float("inf") else value for key, value in facts.items()}
