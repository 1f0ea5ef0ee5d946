"""`marey library`: the clip store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from marey.cli.common import print_json, print_result, progress_bar, remark, warn
from marey.cli.options import Csv, Json, Unit, Up, option

if TYPE_CHECKING:
    from marey.library import AddOutcome


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
    if csv is not None:
        from marey.base import write_table

        write_table([asdict(record) for record in records], csv)
        remark(f"wrote {csv} ({len(records)} rows)")


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
