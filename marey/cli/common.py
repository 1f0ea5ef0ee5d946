"""Shared parts of verbs: messages, clips from files and stdin, outputs, one result for each input, progress.

Results go to stdout; everything else goes through the logger ``marey`` to stderr.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from marey.cli.options import ReadOptions, check_motion_file

if TYPE_CHECKING:
    from marey.kinematics.markers import MarkerFit
    from marey.locomotion import Slope, Stairs
    from marey.motion import Motion
    from marey.world import Sketch, World

LOG = logging.getLogger("marey")
TRACEBACK = 5  # level of the log below DEBUG: tracebacks of errors
AS_GUESSED = ReadOptions()
MARKER_SUFFIXES = (".c3d", ".trc")
GROUND_START_M = 2.0  # [m] from the start of a script to its slope or stairs
NOTES_TOLD = 4  # by name, where many clips have the same note
LONG_NUMBER = re.compile(r"(?<![\w./-])-?\d+\.\d{6,}(?:e-?\d+)?(?![\w.]*\w)")


# Messages


class _StderrHandler(logging.Handler):
    """Writes records to what is stderr now, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"marey: {self.format(record)}", file=sys.stderr)


LOG.addHandler(_StderrHandler())
LOG.propagate = False
LOG.setLevel(logging.INFO)


def remark(text: str) -> None:
    """Say something beside the result, on stderr; ``--quiet`` silences it."""
    LOG.info(text)


def warn(text: str) -> None:
    """Say that something is wrong with an input or a result, on stderr, always."""
    LOG.warning(text)


def group_notes(notes: Iterable[str]) -> list[str]:
    """Notes on clips; of those that say the same of more than ``NOTES_TOLD`` clips the first, and how many more do."""
    alike: dict[str, list[str]] = {}
    for note in notes:
        # The same words of another clip, with other numbers; what follows a second colon are its joints
        words = ": ".join(note.split(": ")[:2])
        alike.setdefault(re.sub(r"'[^']*'|\d[\d.]*", "", words), []).append(note)
    told: list[str] = []
    for group in alike.values():
        rest = len(group) - NOTES_TOLD
        told += (
            group if rest <= 0 else [*group[: NOTES_TOLD - 1], f"{group[NOTES_TOLD - 1]}; so it is with {rest} more"]
        )
    return told


def round_numbers(text: str) -> str:
    """Write numbers of many digits with four, on one line."""
    return LONG_NUMBER.sub(lambda found: f"{float(found[0]):.4g}", " ".join(text.split()))


def describe_error(error: Exception) -> str:
    """Return one sentence about an error."""
    from marey.base import MareyError

    if isinstance(error, MareyError):
        return round_numbers(str(error))
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    return round_numbers(f"unexpected {type(error).__name__}: {error} (run again with --debug, and report it)")


def print_json(value: Any) -> None:
    """Print one JSON value on one line of stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def print_result(facts: Any, text: str, *, is_json: bool) -> None:
    """Print the result of a verb: its facts as JSON, or a text about them."""
    if is_json:
        print_json(facts)
    else:
        typer.echo(text)


def print_names(names: Sequence[str], *, is_json: bool) -> None:
    """Print what ships, a line each, or as one JSON list."""
    print_result(list(names), "\n".join(names), is_json=is_json)


@contextmanager
def progress_bar(title: str) -> Generator[Callable[[int, int], None]]:
    """Yield a function that shows progress; silent with ``--quiet`` and where stderr is not a terminal."""
    if not sys.stderr.isatty() or not LOG.isEnabledFor(logging.INFO):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


# Reading and writing motions


def load_clip(path: str, read: ReadOptions = AS_GUESSED) -> Motion:
    """Read a motion file, a shipped clip, or stdin when the path is ``-``; warnings go to stderr."""
    motion = read_motion(path, read)
    for warning in motion.load_report.warnings:
        warn(f"{path}: {warning}")
    return motion


def read_motion(path: str, read: ReadOptions = AS_GUESSED) -> Motion:
    """As :func:`load_clip`, without the warnings."""
    from tempfile import TemporaryDirectory

    from marey.io import load

    known: dict[str, Any] = {"rate_hz": read.read_rate_hz, "unit": read.unit, "up": read.up, "clip": read.take}
    if path != "-":
        return load(path, **known)
    # Readers take files: what comes from stdin becomes one, with a suffix
    data = sys.stdin.buffer.read()
    # The beginning of the bytes names the format: glTF, FBX, USD and clips have headers, BVH has a first word
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if data[:4] == b"glTF":
        suffix = ".glb"
    elif data[:2] == b"PK":
        suffix = ".usdz" if b".usd" in data[:256] else ".npz"
    elif data[:11] == b"Kaydara FBX" or head[:5] == b"; FBX":
        suffix = ".fbx"
    elif data[:8] == b"PXR-USDC" or head[:5] == b"#usda":
        suffix = ".usd"
    elif data[8:9] == b"{":
        suffix = ".safetensors"
    elif head[:1] == b"{":
        suffix = ".gltf" if b'"asset"' in data else ".json"
    else:
        suffix = ".bvh"
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"stdin{suffix}"
        file.write_bytes(data)
        motion = load(file, **known)
        # Some checks wait until their warnings are asked for, and look at the file then
        _ = motion.load_report.warnings
        return motion


def load_body_motion(path: str, read: ReadOptions = AS_GUESSED) -> Motion:
    """Read a clip; the canonical human is fitted to markers."""
    if Path(path).suffix.lower() not in MARKER_SUFFIXES:
        return load_clip(path, read)
    return fit_capture(path, read).over_ground()


def fit_capture(
    path: str, read: ReadOptions = AS_GUESSED, *, height_m: float | None = None, names: bool = True
) -> MarkerFit:
    """Fit the canonical human to a marker file; the stature comes from a file beside it unless it is given."""
    from marey.io import find_subject, load_markers
    from marey.kinematics import fit_markers

    subject = find_subject(path)
    known = height_m if height_m is not None or subject is None else subject.height_m
    markers = load_markers(path, rate_hz=read.read_rate_hz, unit=read.unit, up=read.up)
    fit = fit_markers(markers, height_m=known, names=names)
    belt = "" if fit.belt is None else f", on a treadmill at {fit.belt.speed_mps:.2f} m/s"
    remark(f"{path}: fitted a body to {len(fit.sites)} markers, {1e3 * fit.rms_m:.1f} mm RMS{belt}")
    return fit


def write_motion(motion: Motion, out: str | None) -> None:
    """Write a motion file, if one is asked for, and say so."""
    if out is None:
        return
    from marey.io import save

    save(motion, out)
    remark(f"wrote {out} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")


def load_world(path: str | None) -> Sketch | World | None:
    """Read what surrounds the body from a sketch, or from a space-time problem, whose file has phases."""
    if path is None:
        return None
    from marey.world import load_sketch

    names = import_module("marey").samples
    is_shipped = path in names.problem_names() and path not in names.sketch_names()
    is_file = Path(path).is_file()
    if not (is_file and "[[phase" in Path(path).read_text(encoding="utf-8", errors="replace")) and not is_shipped:
        return load_sketch(path)
    from marey.spacetime import build_surroundings, load_problem

    return build_surroundings(load_problem(path))


def write_strip(motion: Motion, strip: str | None, count: int, **options: Any) -> None:
    """Draw a film strip of so many bodies, if one is asked for, and say so."""
    if strip is None:
        return
    from marey.picture import film_strip, save_image

    save_image(film_strip(motion, count=count, **options), strip)
    remark(f"wrote {strip}")


def write_comparison(motions: Sequence[Motion], strip: str | None, **options: Any) -> None:
    """Draw film strips of several motions, one above the other, if they are asked for, and say so."""
    if strip is None:
        return
    from marey.picture import compare_strips, save_image

    save_image(compare_strips(motions, **options), strip)
    remark(f"wrote {strip}")


def write_rows(rows: Sequence[Mapping[str, Any]], csv: str | None) -> None:
    """Write a table, if one is asked for, and say so."""
    if csv is None:
        return
    from marey.base import write_table

    write_table(rows, csv)
    remark(f"wrote {csv} ({len(rows)} rows)")


# Many inputs


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verb says about one input."""

    facts: Mapping[str, Any]  # JSON values; printed with --json
    text: str  # printed without it; empty prints nothing
    rows: Sequence[Mapping[str, Any]] | None = None  # of the table; one row of the facts that are single values if None
    fault: str | None = None  # what does not hold: goes to stderr, and the exit code is 1


def expand_inputs(paths: Iterable[str], suffixes: Sequence[str] = ()) -> list[str]:
    """Files, and the motion files of folders and libraries in order; also those with the suffixes given."""
    from marey.base import InputError
    from marey.library import expand_paths, is_library

    files: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            files.append(path)
            continue
        # A folder gives its motion files, also those of a library, and the files asked for
        markers = [file for file in Path(path).rglob("*") if file.suffix.lower() in suffixes]
        found = sorted({*expand_paths(path), *markers})
        if not found:
            raise InputError(f"the folder '{path}' contains no motion files", "`marey info FILE` tries any file")
        # How many files of the folder are not read, and which suffixes they have; a skeleton is read with its motions
        skipped = {file for file in Path(path).rglob("*") if file.is_file() and not file.name.startswith(".")}
        skipped -= {*found, *Path(path).rglob("*.[aA][sS][fF]")}
        if skipped and not is_library(path):
            kinds = ", ".join(sorted({file.suffix or file.name for file in skipped}))
            warn(f"{path}: {len(skipped)} files are not read ({kinds})")
        files += map(str, found)
    return files


def plan_outputs(files: Sequence[str], out: str | None, suffix: str) -> dict[str, str]:
    """Where the result of each input goes: the file ``out``, a name in the folder ``out``, or beside the input.

    Inputs with the same name keep the folders that tell them apart, else their suffix: ``walk-fbx.bvh``. Folders are
    made. ``-`` is stdout.
    """
    # Several inputs go to a folder, whatever it is called
    is_folder = out is not None and (len(files) > 1 or Path(out).is_dir() or out.endswith(("/", os.sep)))
    paths = {file: Path("stdin" if file == "-" else file) for file in files}
    stems = {file: path.with_suffix("") if out is None else Path(path.stem) for file, path in paths.items()}
    if out is not None and len(set(stems.values())) < len(stems):
        shared = os.path.commonpath([path.absolute().parent for path in paths.values()])
        stems = {file: path.absolute().relative_to(shared).with_suffix("") for file, path in paths.items()}
    counts = Counter(stems.values())
    targets: dict[str, str] = {}
    for file, stem in stems.items():
        word = f"-{paths[file].suffix.lstrip('.')}" if counts[stem] > 1 else ""
        name = stem.with_name(stem.name + word + suffix)
        targets[file] = str(name if out is None else Path(out) / name) if is_folder or out is None else out
    if len(set(targets.values())) < len(files):
        raise typer.BadParameter("two inputs would be written to the same file.")
    for target in targets.values():
        if target != "-":
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            if not os.access(Path(target).parent, os.W_OK):
                raise typer.BadParameter(f"cannot write '{target}': you may not write there.")
    return targets


def plan_motion_files(files: Sequence[str], out: str | None, format_: str) -> dict[str, str]:
    """Where the motion of each input goes, as :func:`plan_outputs`; refuses suffixes that marey cannot write."""
    targets = plan_outputs(files, out, f".{format_}")
    for target in targets.values():
        check_motion_file(None if target == "-" else target)
    return targets


def run_each(
    title: str, files: Sequence[str], do: Callable[[str], Outcome], *, is_json: bool = False, csv: str | None = None
) -> None:
    """Print what a verb says about each input; the exit code is 1 at the end where one failed or does not hold.

    With ``is_json`` every input gives one line, a failure ``{"file": ..., "error": ...}``. A single input that fails
    without it raises its own error.
    """
    is_faulty = False
    rows: list[Mapping[str, Any]] = []
    with progress_bar(title if len(files) > 1 else "") as progress:
        for number, file in enumerate(files, 1):
            # One input: its facts, or the sentence of its error
            started = time.perf_counter()
            try:
                outcome = do(file)
            except typer.BadParameter:
                raise
            except Exception as error:
                if len(files) == 1 and not is_json:
                    raise
                sentence = describe_error(error)
                outcome = Outcome({"error": sentence}, "", fault=sentence)
                LOG.log(TRACEBACK, "traceback:", exc_info=True)
            LOG.debug("%s: %.2f s", file, time.perf_counter() - started)
            # One line of JSON, or text; faults go to stderr
            if is_json:
                print_json({"file": file, **outcome.facts})
            elif outcome.text:
                typer.echo(outcome.text)
            if outcome.fault is not None:
                is_faulty = True
                warn(outcome.fault if file in outcome.fault else f"{file}: {outcome.fault}")
            # Without rows of its own an input is one row: its single values
            single = {name: value for name, value in outcome.facts.items() if not isinstance(value, (list, dict))}
            rows += [{"file": file, **row} for row in (outcome.rows if outcome.rows is not None else [single])]
            if len(files) > 1:
                progress(number, len(files))
    write_rows(rows, csv)
    if is_faulty:
        raise typer.Exit(1)


LOW_VALIDITY = 0.5  # share of green frames below which a motion that was made is never passed over in silence


def find_validity_fault(valid_fraction: float, *, is_required: bool, is_valid: bool | None = None) -> str | None:
    """Return what to say of a motion that a body could not have made; a share below one half is said in any case.

    Only a required validity is a fault; otherwise the sentence is a warning and this returns ``None``.
    """
    is_enough = valid_fraction >= LOW_VALIDITY if not is_required else bool(is_valid)
    if is_enough:
        return None
    sentence = f"only {100 * valid_fraction:.0f} % of the frames are physically valid; `marey physics` says why"
    if is_required:
        return sentence
    warn(sentence)
    return None


def judge_motion(motion: Motion, *, is_required: bool) -> tuple[dict[str, Any], str | None]:
    """Validity of a motion that was made, where it is required: JSON values, and the fault if it does not hold."""
    if not is_required:
        return {}, None
    from marey.dynamics import Body, check_validity

    report = check_validity(motion, Body.from_motion(motion))
    fault = find_validity_fault(report.valid_fraction, is_required=True, is_valid=report.is_valid)
    return {"valid_fraction": report.valid_fraction, "valid": report.is_valid}, fault


def make_ground(
    slope_deg: float | None, stairs: tuple[float, float, int] | None, start_m: float = GROUND_START_M,
    heading_rad: float = 0.0,
) -> Slope | Stairs | None:  # fmt: skip
    """Make the slope or the stairs of an option, so far ahead of the origin; nothing for a level floor."""
    from math import radians

    from marey.locomotion import Slope, Stairs

    if slope_deg is not None:
        return Slope(radians(slope_deg), start_m, heading_rad=heading_rad)
    return None if stairs is None else Stairs(*stairs, start_m, heading_rad)
