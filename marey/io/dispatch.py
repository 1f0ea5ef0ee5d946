"""load and save: one name for every format, chosen by the suffix."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final, cast

from marey.base import InputError, MissingFileError, UnknownNameError, atomic_file, check_rate, load_shipped_clip
from marey.io.person import find_person
from marey.io.vertical_axis import correct_up, turn_motion
from marey.motion import LoadReport, Motion, check_time_base

GLTF: Final = (".glb", ".gltf", ".vrm", ".vrma")
USD: Final = (".usd", ".usda", ".usdc", ".usdz")
READERS: Final = {
    ".bvh": ("marey.io.bvh.reader", "read_bvh"),
    ".amc": ("marey.io.acclaim.amc", "read_amc"),
    ".asf": ("marey.io.acclaim.asf", "read_asf"),
    **dict.fromkeys(GLTF, ("marey.io.gltf.files", "read_gltf")),
    ".safetensors": ("marey.io.clip", "read_clip"),
    ".marey": ("marey.io.clip", "read_compressed"),
    ".npz": ("marey.io.npz.reader", "read_npz"),
    ".mvnx": ("marey.io.mvnx", "read_mvnx"),
    **dict.fromkeys((".json", ".txt"), ("marey.io.deepmimic", "read_deepmimic")),
    ".c3d": ("marey.io.laboratory.c3d", "read_c3d"),
    ".trc": ("marey.io.laboratory.opensim", "read_trc"),
    ".fbx": ("marey.io.fbx.reader", "read_fbx"),
    **dict.fromkeys(USD, ("marey.io.usd.files", "read_usd")),
}
CLIP_LISTS: Final = {  # of files that may hold several clips; their readers take ``clip``
    ".bvh": ("marey.io.bvh.hierarchy", "list_bvh_clips"),
    **dict.fromkeys(GLTF, ("marey.io.gltf.files", "list_gltf_clips")),
    ".fbx": ("marey.io.fbx.reader", "list_fbx_clips"),
    ".mvnx": ("marey.io.mvnx", "list_mvnx_clips"),
    **dict.fromkeys(USD, ("marey.io.usd.files", "list_usd_clips")),
}
_TABLE: Final = "It holds forces or angles of a model; `marey physics CLIP --grf` takes those of force plates"
NO_MOTIONS: Final = {  # what else lies beside motion files, and what to do with it
    ".blend": "Blender converts it: import it there and export glTF (.glb) or BVH",
    ".mot": _TABLE,
    ".sto": _TABLE,
    ".csv": "A table does not say what its columns are; write TRC for markers or BVH for joints",
    ".trb": "It is the binary twin of a .trc file, which is read",
    ".zip": "Unpack it first",
}
MARKER_SUFFIXES: Final = (".c3d", ".trc")  # whose readers choose axes for plates and markers together
# Formats of scenes, whose files state their unit
STATED_UNITS: Final = tuple(suffix for suffix in CLIP_LISTS if suffix not in (".bvh", ".mvnx"))
WRITERS: Final = {
    ".bvh": ("marey.io.bvh.writer", "write_bvh"),
    ".glb": ("marey.io.gltf.files", "write_gltf"),
    ".gltf": ("marey.io.gltf.files", "write_gltf"),
    ".safetensors": ("marey.io.clip", "write_clip"),
    ".fbx": ("marey.io.fbx.writer", "write_fbx"),
    ".usda": ("marey.io.usd.files", "write_usda"),
    ".npz": ("marey.io.npz.smpl", "write_amass"),
    ".csv": ("marey.io.export", "write_csv"),
    ".trc": ("marey.io.export", "write_trc"),
}
MANY_CLIPS: Final = (".glb", ".gltf", ".fbx", ".usda")  # formats that hold several motions
READABLE_SUFFIXES: Final = tuple(READERS)  # of files that load() takes
WRITABLE_SUFFIXES: Final = tuple(WRITERS)  # of files that save() makes


def load(
    path: str | os.PathLike[str],
    *,
    rate_hz: float | None = None,
    unit: str | None = None,
    up: str | None = None,
    clip: str | int | None = None,
) -> Motion:
    """Read a motion file of any known format, or a clip that ships with marey.

    Args:
        path: the file, whose suffix names the format; or the name of a shipped clip, such as ``walk``.
        rate_hz: frames per second, when the file's own is missing or wrong.
        unit: the file's unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``), when the guess is wrong; ``file``
            keeps what the file states, where a person of absurd size would be scaled.
        up: the file's vertical axis (``y``, ``z``, ``x``, or ``-y`` where it points down), when the guess or what the
            file states is wrong.
        clip: which clip of a file that holds several (:func:`clips` lists them): its name, or its number from 0; else
            the first that moves, and a note of the report names the others.

    Raises:
        MissingFileError: there is no such file.
        UnknownNameError: the file holds no such clip.
        InputError: the suffix is unknown, or an option cannot be used.
        FormatError: the file breaks its format; the message has the line and the fix.
    """
    if rate_hz is not None:
        asked = rate_hz
        with contextlib.suppress(TypeError, ValueError):
            rate_hz = float(asked)
        if not isinstance(rate_hz, float):
            raise InputError(f"rate_hz is {asked!r}", "It must be a positive number of frames per second")
        check_rate(rate_hz)
    is_path = Path(path).suffix.lower() in READERS or Path(path).exists()
    shipped = None if is_path else load_shipped_clip(path)
    if shipped is not None:
        shipped = shipped if up is None else turn_motion(shipped, up, taken="+y")
        return shipped if rate_hz is None else replace(shipped, rate_hz=rate_hz)
    suffix = _check_suffix(path, READERS, "read")
    keeps_stated = unit == "file" and suffix in STATED_UNITS
    options: dict[str, Any] = {"rate_hz": rate_hz, "unit": None if keeps_stated else unit}
    if suffix in CLIP_LISTS:
        options["clip"] = clip
    elif clip is not None and clip not in (0, "0", Path(path).stem):
        raise UnknownNameError("clip", str(clip), f"'{Path(path).name}'", (Path(path).stem,))
    if suffix in MARKER_SUFFIXES:
        options["up"] = up
    motion = cast(Motion, _load_function(READERS[suffix])(path, **options))
    if up is not None and suffix not in MARKER_SUFFIXES:
        motion = turn_motion(motion, up, taken="+y" if suffix in (".safetensors", ".marey") else None)
    elif up is None and suffix in STATED_UNITS:
        motion = correct_up(motion)
    motion = find_person(motion, is_unit_given=unit is not None)
    report = motion.load_report

    def check_later() -> tuple[str, ...]:
        """Warnings of the reader, and of the frame rate, which takes a while to test."""
        warning = check_time_base(motion).warning
        return report.warnings if warning is None else (*report.warnings, warning)

    return replace(motion, load_report=LoadReport(notes=report.notes, later=check_later))


def clips(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of the clips of a file, as ``load(path, clip=name)`` takes them.

    Animations of glTF, takes of FBX, animations of USD skeletons, characters of BVH, subjects of MVNX; other
    formats hold one clip, called like the file. A scene without any animation holds none.

    Raises:
        MissingFileError: there is no such file.
        InputError: the suffix is unknown.
        FormatError: the file breaks its format.
    """
    suffix = _check_suffix(path, READERS, "read")
    if suffix in CLIP_LISTS:
        return cast(tuple[str, ...], _load_function(CLIP_LISTS[suffix])(path))
    if not Path(path).is_file():
        raise MissingFileError(str(path))
    return (Path(path).stem,)


def save(motion: Motion | Sequence[Motion], path: str | os.PathLike[str], **options: Any) -> None:
    """Write a motion file; the suffix names the format, the options are those of its writer.

    Several motions on one skeleton become the clips of one file where the format holds many (`.glb`, `.fbx`, `.usda`).
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
    if not isinstance(motion, Motion) and suffix not in MANY_CLIPS:
        raise InputError(f"several motions in one '{suffix}' file", f"Write one each, or {', '.join(MANY_CLIPS)}")
    known = [name for name, item in signature(write).parameters.items() if item.kind is item.KEYWORD_ONLY]
    wrong = next((name for name in options if name not in known), None)
    if wrong is not None:
        has = f"It takes {', '.join(known)}" if known else "It takes none"
        raise InputError(f"a '{suffix}' file has no option '{wrong}'", has)
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
    near = get_close_matches(suffix, list(known), n=1, cutoff=0.7)
    hint = f"Did you mean {near[0]}? " if near else ""
    if verb == "read" and suffix in NO_MOTIONS:
        hint = f"{NO_MOTIONS[suffix]}. "
    raise InputError(f"cannot {verb} '{suffix or path}' files", f"{hint}marey can {verb} {', '.join(known)}.")
