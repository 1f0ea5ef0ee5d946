"""Shared parts of verbs: reading a clip or stdin, results on stdout, remarks on stderr, progress, output files.

Targets are checked before time is spent on what goes into them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from marey.motion import Motion


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RateHz = Annotated[float | None, typer.Option("--read-rate-hz", help="Frame rate of the input, if the file is wrong.")]
Unit = Annotated[
    str | None, typer.Option("--unit", help="Length unit of the input (m, cm, inch, ...), if the guess is wrong.")
]
Clip = Annotated[str, typer.Argument(metavar="CLIP", help="Motion file; - is stdin.", show_default=False)]


def print_json(value: Any) -> None:
    """Print one JSON value on one line of stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def remark(text: str) -> None:
    """Say something beside the result, on stderr."""
    typer.echo(f"marey: {text}", err=True)


def load_clip(path: str, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a motion file, or stdin when the path is ``-``; warnings become remarks."""
    motion = read_motion(path, rate_hz=rate_hz, unit=unit)
    for warning in motion.load_report.warnings:
        remark(f"{path}: {warning}")
    return motion


def read_motion(path: str, *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """As :func:`load_clip`, without the remarks."""
    from marey.io import load

    if path != "-":
        return load(path, rate_hz=rate_hz, unit=unit)
    with _stdin_file() as file:
        motion = load(file, rate_hz=rate_hz, unit=unit)
        _ = motion.load_report.warnings  # checks that wait may look at the file
        return motion


@contextmanager
def _stdin_file() -> Generator[Path]:
    from tempfile import TemporaryDirectory

    data = sys.stdin.buffer.read()
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"stdin{sniff_suffix(data)}"
        file.write_bytes(data)
        yield file


def sniff_suffix(data: bytes) -> str:
    """Suffix of the format that the bytes begin like: glTF and clips by their headers, BVH by its first word."""
    if data[:4] == b"glTF":
        return ".glb"
    if data[:2] == b"PK":
        return ".npz"
    if data[8:9] == b"{":
        return ".safetensors"
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return (".gltf" if b'"asset"' in data else ".json") if head[:1] == b"{" else ".bvh"


@contextmanager
def progress_bar(title: str) -> Generator[Callable[[int, int], None]]:
    """A function that shows how many of how many are done; silent when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def for_each(paths: Iterable[str], do: Callable[[str], None]) -> None:
    """Do something for each file; a file that fails is named on stderr, and the exit code is 1 at the end.

    A single file that fails raises its own error.
    """
    from marey.base import MareyError

    paths, failed = list(paths), False
    if len(paths) == 1:
        do(paths[0])
        return
    for path in paths:
        try:
            do(path)
        except (MareyError, OSError) as error:
            failed = True
            text = " ".join(str(error).split())
            remark(text if path in text else f"{path}: {text}")
    if failed:
        raise typer.Exit(1)


def check_target(target: str | None, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written."""
    if target is None:
        return
    if not Path(target).resolve().parent.is_dir():
        raise typer.BadParameter(f"there is no folder '{Path(target).parent}' to write {target} to.")
    if Path(target).suffix.lower() not in suffixes:
        raise typer.BadParameter(f"cannot write '{target}': use one of {', '.join(suffixes)}.")


def check_targets(out: str | None, strip: str | None) -> None:
    """Refuse a motion file or a film strip that could not be written."""
    from marey.io import WRITABLE_SUFFIXES
    from marey.picture import PICTURE_SUFFIXES

    check_target(out, WRITABLE_SUFFIXES)
    check_target(strip, PICTURE_SUFFIXES)


def write_motion(motion: Motion, out: str | None) -> None:
    """Write a motion file, if one is asked for, and say so."""
    if out is None:
        return
    from marey.io import save

    save(motion, out)
    remark(f"wrote {out} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")


def write_strip(motion: Motion, strip: str | None, count: int, *, layout: str = "auto") -> None:
    """Draw a film strip of so many bodies, if one is asked for, and say so."""
    if strip is None:
        return
    from marey.picture import film_strip, save_image

    save_image(film_strip(motion, count=count, layout=layout), strip)
    remark(f"wrote {strip}")
