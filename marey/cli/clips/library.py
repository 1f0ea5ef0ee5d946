"""`marey library`, `compress` and `decompress`: the clip store, and motions to few bytes and back."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from marey.cli.common import (
    Outcome,
    expand_inputs,
    load_clip,
    plan_motion_files,
    plan_outputs,
    print_json,
    print_result,
    progress_bar,
    remark,
    run_each,
    warn,
    write_rows,
)
from marey.cli.options import Csv, Format, Json, ReadOptions, Unit, Up, flat_options, option

if TYPE_CHECKING:
    from marey.library import AddOutcome
    from marey.motion import Motion

app = typer.Typer(help="Keep clips in a folder with a catalogue.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[str, option("The library's folder.", "--library", "-l", envvar="MAREY_LIBRARY")]
Keys = Annotated[list[str], typer.Argument(metavar="CLIP...", help="Names or ids of clips.", show_default=False)]
DEFAULT_FOLDER = "marey-library"
SHOWN_FILES = 3  # of those skipped for one reason; --json names them all


@app.command()
def add(
    paths: Annotated[list[str], typer.Argument(help="Motion files, and folders of them.", show_default=False)],
    library: Folder = DEFAULT_FOLDER,
    tag: Annotated[list[str] | None, option("Word for every clip; repeatable.", "--tag", "-t")] = None,
    subject: Annotated[str | None, option("Name of the person; guessed from names such as 07_01.")] = None,
    read_rate_hz: Annotated[float | None, option("Frame rate of the files, if they are wrong.")] = None,
    unit: Unit = None,
    up: Up = None,
    workers: Annotated[int | None, option("Processes; by default one a core.", min=0, max=256)] = None,
    cluster: Annotated[str | None, option("Dask scheduler, tcp://host:port.", metavar="ADDRESS")] = None,
    json: Json = False,
) -> None:
    """Add motion files to the library, every take of them; an interrupted run is resumed.

    Folders are searched for all formats that marey reads. What holds no motion is skipped and listed with the reason.
    """
    from marey.library import Library

    with Library(library) as store, progress_bar("add") as progress:

        def note(done: int, total: int, result: AddOutcome) -> None:
            progress(done, total)
            if json:
                print_json(asdict(result))
            if result.message and result.outcome != "skipped":
                where = f"{result.path}:{result.take}" if result.take else result.path
                warn(result.message if result.path in result.message else f"{where}: {result.message}")

        report = store.add(
            paths, tags=tag or (), subject=subject, rate_hz=read_rate_hz, unit=unit, up=up, workers=workers,
            cluster=cluster, on_link=lambda link: remark(f"dashboard: {link}"), progress=note,
        )  # fmt: skip
    # One line a reason, so that a thousand textures do not hide a clip
    reasons: dict[str, list[str]] = {}
    for result in report.skipped:
        reasons.setdefault(result.message, []).append(result.path)
    for result in report.passed_over if json else ():
        print_json(asdict(result))
    for reason, skipped in reasons.items():
        shown = ", ".join(skipped[:SHOWN_FILES]) + (" ..." if len(skipped) > SHOWN_FILES else "")
        remark(f"skipped {len(skipped)}, {reason}: {shown}")
    if not json:
        typer.echo(f"{library}: {report}")
    raise typer.Exit(1 if report.failed else 0)


@app.command("list")
def list_(
    text: Annotated[str | None, typer.Argument(help="Part of a name, path, tag or warning.")] = None,
    library: Folder = DEFAULT_FOLDER,
    tag: Annotated[list[str] | None, option("Only clips with this tag; repeatable.", "--tag", "-t")] = None,
    behaviour: Annotated[str | None, option("walk, run, jump, turn, ...", "--behaviour", "-b")] = None,
    subject: Annotated[str | None, option("Only clips of this subject.")] = None,
    min_speed: Annotated[float | None, option("[m/s]")] = None,
    max_speed: Annotated[float | None, option("[m/s]")] = None,
    min_duration: Annotated[float | None, option("[s]")] = None,
    max_duration: Annotated[float | None, option("[s]")] = None,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """List the clips that all conditions hold for."""
    from marey.library import Library, Query

    speed, duration = (min_speed, max_speed), (min_duration, max_duration)
    query = Query(tuple(tag or ()), behaviour, subject, text, speed_mps=speed, duration_s=duration)
    with Library(library, create=False) as store:
        records = list(store.clips(query))
    for record in records:
        if json:
            print_json(asdict(record))
            continue
        # One line a clip; a mark where reading it gave warnings
        tags = " ".join(f"#{tag}" for tag in record.tags)
        mark = "  !" if record.warnings else ""
        line = (
            f"{record.id[:12]}  {record.name:<16} {record.behaviour:<9} {record.duration_s:7.2f} s "
            f"{record.mean_speed_mps:5.2f} m/s  {record.rate_hz:g} Hz  {record.num_joints} joints  {tags}{mark}"
        )
        typer.echo(line.rstrip())
    write_rows([asdict(record) for record in records], csv)


@app.command()
def show(clip: Keys, library: Folder = DEFAULT_FOLDER, json: Json = False) -> None:
    """Say all that the catalogue knows about clips, and where their files are."""
    from marey.library import Library

    with Library(library, create=False) as store:
        for key in clip:
            facts = asdict(store.find(key)) | {"path": str(store.path(key))}
            if json:
                print_json(facts)
                continue
            for name, value in facts.items():
                text = ", ".join(cast(tuple[str, ...], value)) if isinstance(value, tuple) else value
                typer.echo(f"{name:<20} {text}")


@app.command()
def verify(
    library: Folder = DEFAULT_FOLDER,
    repair: Annotated[bool, option("Put right what is found.", "--repair")] = False,
    json: Json = False,
) -> None:
    """Check that every clip is there, whole; exit code 1 when one is not."""
    from marey.library import Library

    with Library(library, create=False) as store:
        report = store.verify(repair=repair)
    print_result(asdict(report) | {"is_sound": report.is_sound}, f"{library}: {report}", is_json=json)
    for kind in ("missing", "damaged", "strays"):
        for clip_id in getattr(report, kind):
            warn(f"{kind}: {clip_id}")
    for sentence in report.repairs:
        remark(sentence)
    raise typer.Exit(0 if report.is_sound or repair else 1)


@app.command()
def remove(clip: Keys, library: Folder = DEFAULT_FOLDER, json: Json = False) -> None:
    """Remove clips from the library; the files they were read from stay."""
    from marey.library import Library

    with Library(library, create=False) as store:
        for record in store.remove(clip):
            print_result(
                {"id": record.id, "name": record.name, "removed": True},
                f"removed {record.id[:12]} {record.name}",
                is_json=json,
            )


@app.command()
def archive(
    paths: Annotated[list[str], typer.Argument(help="Motion files, and folders of them.", show_default=False)],
    out: Annotated[str, option("Folder of what is made.", "-o", "--out", metavar="FOLDER")],
    workers: Annotated[int | None, option("Processes; by default one a core.", min=1, max=256)] = None,
    cluster: Annotated[str | None, option("Dask scheduler, tcp://host:port.", metavar="ADDRESS")] = None,
    json: Json = False,
) -> None:
    """Make all that the engines need of an archive: a library, pose models of its behaviours, a motion graph.

    An interrupted run is resumed.
    """
    from marey.pipeline import run_archive

    with progress_bar("archive") as progress:
        report = run_archive(
            paths, out, workers=workers, cluster=cluster, on_step=lambda _, done, total: progress(done, total),
            on_link=lambda link: remark(f"dashboard: {link}"),
        )  # fmt: skip
    for failure in report.failed:
        warn(failure)
    print_result({"out": out, **asdict(report)}, f"{out}: {report.sentence}", is_json=json)
    raise typer.Exit(1 if report.failed or not report.clips else 0)


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
    from marey.io import clip

    return decompress(sys.stdin.buffer.read()) if file == "-" else clip.read_compressed(file)
