"""load and save: one name for every format, chosen by the suffix."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from marey.base import InputError, MissingFileError, atomic_file, load_shipped_clip
from marey.motion import LoadReport, Motion, check_time_base

READERS: Final = {
    ".bvh": ("marey.io.bvh.reader", "read_bvh"),
    ".amc": ("marey.io.amc", "read_amc"),
    ".asf": ("marey.io.asf", "read_asf"),
    ".glb": ("marey.io.gltf.files", "read_gltf"),
    ".gltf": ("marey.io.gltf.files", "read_gltf"),
    ".safetensors": ("marey.io.clip", "read_clip"),
    ".npz": ("marey.io.amass", "read_amass"),
    ".json": ("marey.io.deepmimic", "read_deepmimic"),
    ".txt": ("marey.io.deepmimic", "read_deepmimic"),
    ".c3d": ("marey.io.c3d", "read_c3d"),
    ".trc": ("marey.io.trc", "read_trc"),
}
WRITERS: Final = {
    ".bvh": ("marey.io.bvh.writer", "write_bvh"),
    ".glb": ("marey.io.gltf.files", "write_gltf"),
    ".gltf": ("marey.io.gltf.files", "write_gltf"),
    ".safetensors": ("marey.io.clip", "write_clip"),
}
READABLE_SUFFIXES: Final = tuple(READERS)  # of files that load() takes
WRITABLE_SUFFIXES: Final = tuple(WRITERS)  # of files that save() makes


def load(path: str | os.PathLike[str], *, rate_hz: float | None = None, unit: str | None = None) -> Motion:
    """Read a motion file of any known format, or a clip that ships with marey.

    Args:
        path: the file, whose suffix names the format; or the name of a shipped clip, such as ``walk``.
        rate_hz: frames per second, when the file's own is missing or wrong.
        unit: the file's unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``), when the guess is wrong.

    Raises:
        MissingFileError: there is no such file.
        InputError: the suffix is unknown, or an option cannot be used.
        FormatError: the file breaks its format; the message has the line and the fix.
    """
    if rate_hz is not None:
        asked = rate_hz
        with contextlib.suppress(TypeError, ValueError):
            rate_hz = float(asked)
        if not (isinstance(rate_hz, float) and 0.0 < rate_hz < float("inf")):
            raise InputError(f"rate_hz is {asked!r}", "It must be a positive number of frames per second")
    is_path = Path(path).suffix.lower() in READERS or Path(path).exists()
    shipped = None if is_path else load_shipped_clip(path)
    if shipped is not None:
        return shipped if rate_hz is None else replace(shipped, rate_hz=rate_hz)
    suffix = _check_suffix(path, READERS, "read")
    motion = cast(Motion, _load_function(READERS[suffix])(path, rate_hz=rate_hz, unit=unit))
    report = motion.load_report

    def check_later() -> tuple[str, ...]:
        """Warnings of the reader, and of the frame rate, which takes a while to test."""
        warning = check_time_base(motion).warning
        return report.warnings if warning is None else (*report.warnings, warning)

    return replace(motion, load_report=LoadReport(notes=report.notes, later=check_later))


def save(motion: Motion, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a motion file; the suffix names the format, the options are those of its writer.

    The file appears whole or not at all: it is written beside its place and then renamed.

    Raises:
        InputError: the suffix is unknown.
        MissingFileError: the folder does not exist.
    """
    suffix = _check_suffix(path, WRITERS, "write")
    target = Path(path)
    if not target.parent.is_dir():
        raise MissingFileError(str(target.parent), "Make the folder first.")
    write = _load_function(WRITERS[suffix])
    with atomic_file(target) as draft:
        write(motion, draft, **options)


def _load_function(home: tuple[str, str]) -> Callable[..., Any]:
    module, name = home
    return cast(Callable[..., Any], getattr(import_module(module), name))


def _check_suffix(path: str | os.PathLike[str], known: Iterable[str], verb: str) -> str:
    suffix = Path(path).suffix.lower()
    if suffix in known:
        return suffix
    if verb == "read" and not Path(path).exists():
        raise MissingFileError(str(path))
    if Path(path).is_dir():
        raise InputError(f"'{path}' is a folder", "Name one file in it, or add the folder to a library")
    near = get_close_matches(suffix, list(known), n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    if verb == "read" and suffix in (".fbx", ".usd", ".usda", ".usdz", ".blend"):
        hint = "Blender converts it: import it there and export glTF (.glb) or BVH. "
    raise InputError(f"cannot {verb} '{suffix or path}' files", f"{hint}marey can {verb} {', '.join(known)}.")
