"""What lies in a tree of files: motions, what is no motion and why, and the notes of licence beside them."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from marey.base import MissingFileError

CATALOGUE_NAME: Final = "catalogue.sqlite"
SNIFFED_BYTES: Final = 4096
LICENCE_BYTES: Final = 16384  # of a note, as far as it is read
HEADER_BYTES: Final = 1 << 20  # of a glTF file, as far as its own note is looked for
_COPYRIGHT: Final = re.compile(rb'"copyright"\s*:\s*("(?:[^"\\]|\\.)*")')
LICENCE_CHARACTERS: Final = 200  # of a note, as far as it is kept
MOTION_SUFFIXES: Final = (
    ".bvh", ".amc", ".glb", ".gltf", ".vrm", ".vrma", ".fbx", ".usd", ".usda", ".usdc", ".usdz", ".mvnx",
    ".safetensors",
)  # fmt: skip
MARKER_SUFFIXES: Final = (".c3d", ".trc")
# Arrays that tell a motion from a body shape, a mask or a table
NPZ_WORDS: Final = ("poses", "pose_body", "body_pose", "fullpose", "pose", "posed_joints", "q_pelvis_tx", "qpos")


@dataclass(frozen=True, slots=True)
class Survey:
    """Files of a tree."""

    motions: tuple[Path, ...] = ()
    skipped: tuple[tuple[Path, str], ...] = ()  # each with the reason, one sentence
    licences: tuple[str, ...] = ()  # note of each motion: file and line, or nothing


def is_library(folder: str | Path) -> bool:
    """Whether a folder holds a clip library."""
    return (Path(folder) / CATALOGUE_NAME).is_file()


def survey_paths(paths: str | Path | Iterable[str | Path]) -> Survey:
    """Look through files and folders; hidden files, and libraries inside a folder, are passed over.

    A file that is named is taken for a motion whatever it is; a library that is named gives its clips.

    Raises:
        MissingFileError: a path that was named does not exist.
    """
    motions, skipped = dict[Path, str](), dict[Path, str]()
    find_note = lru_cache(maxsize=None)(_find_note)  # a folder's note is read once a call
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if not path.exists():
            raise MissingFileError(str(path))
        if not path.is_dir():
            motions.setdefault(path, _own_note(path) or find_note(path.parent, path.parent))
            continue
        files = list[Path]()
        for home, inner, names in os.walk(path / "clips" if is_library(path) else path):
            inner[:] = [name for name in inner if not name.startswith(".") and not is_library(Path(home) / name)]
            files += [Path(home) / name for name in names if not name.startswith(".")]
        for file in sorted(files):
            reason = _why_no_motion(file)
            if reason is None:
                motions.setdefault(file, _own_note(file) or find_note(file.parent, path))
            else:
                skipped.setdefault(file, reason)
    return Survey(tuple(motions), tuple(skipped.items()), tuple(motions.values()))


def expand_paths(paths: str | Path | Iterable[str | Path]) -> tuple[Path, ...]:
    """Replace folders by the motion files in them, sorted; keep files as they are; drop repetitions.

    Hidden files and libraries inside a folder are passed over; a library that is named gives its clips.

    Raises:
        MissingFileError: a path that was named does not exist.
    """
    return survey_paths(paths).motions


def _why_no_motion(path: Path) -> str | None:
    """Why a file found in a folder is not taken for a motion; nothing for one that looks like it."""
    suffix = path.suffix.lower()
    if suffix in MOTION_SUFFIXES:
        return None
    if suffix in MARKER_SUFFIXES:
        return "markers, no skeleton: fit one with marey fit-markers"
    if suffix == ".asf":
        return "a skeleton, read with its .amc files"
    try:
        if suffix in (".json", ".txt"):
            # A DeepMimic clip has frames; folders are full of other texts
            with path.open("rb") as file:
                return None if b'"Frames"' in file.read(SNIFFED_BYTES) else "a text without motion"
        if suffix == ".npz":
            # Archives of body shapes lie beside those with poses; a broken one is tried
            with zipfile.ZipFile(path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
            has_motion = any(re.split(r"[/.:]", name)[-1].endswith(NPZ_WORDS) for name in names)
            return None if has_motion else f"arrays without motion: {', '.join(names[:6])}"[:LICENCE_CHARACTERS]
    except OSError as error:
        return f"it cannot be opened: {error.strerror}"
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    return f"no motion format ({suffix or 'no suffix'})"


def _own_note(path: Path) -> str:
    """Copyright note that a glTF file holds itself (``asset.copyright``, [Khronos2021]_ §5.9); else nothing."""
    if path.suffix.lower() not in (".glb", ".gltf", ".vrm"):
        return ""
    try:
        with path.open("rb") as file:
            found = _COPYRIGHT.search(file.read(HEADER_BYTES))
        note = "" if found is None else str(json.loads(found[1].decode("utf-8", "replace"), strict=False)).strip()
    except (OSError, ValueError):
        return ""
    return f"{path}: {note[:LICENCE_CHARACTERS]}" if note else ""


def _find_note(folder: Path, top: Path) -> str:
    """Licence of the files of a folder: the nearest LICENSE, COPYING or README from there up to ``top``.

    Of a licence the first line is kept, of a README that which speaks of a licence, else its first.
    """
    for home in (folder, *folder.parents):
        ranks = {"licen": 0, "copying": 1, "readme": 2}
        found = sorted(
            (ranks[start], file.name, file)
            for file in home.iterdir()
            if file.is_file()
            and (start := next((s for s in ranks if file.name.lower().startswith(s)), None)) is not None
        )
        for rank, _, file in found:
            with file.open("rb") as note:
                lines = [
                    line.strip(" \t#*-=>") for line in note.read(LICENCE_BYTES).decode("utf-8", "replace").splitlines()
                ]
            lines = [line for line in lines if line]
            spoken = [line for line in lines if re.search("licen[cs]e", line, re.IGNORECASE)] if rank == 2 else []
            if lines:
                return f"{file}: {(spoken or lines)[0][:LICENCE_CHARACTERS]}"
        if home == top:
            break
    return ""
